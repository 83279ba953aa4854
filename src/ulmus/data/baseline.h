#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ulmus/data/instances.h"

namespace ulmus::data {

/// Unigram and interpolated bigram model of token ids: what counting alone predicts.
///
///   p(w)     = (c(w) + 1) / (N + V)
///   p(w | v) = l(v) c(v, w) / c(v) + (1 - l(v)) p(w)
///
/// c(v) counts v as a first token of a pair. l depends on the binary order of magnitude of c(v)
/// and is 0 where v was not seen. It is fitted by deleted interpolation (Jelinek and Mercer 1980):
/// counts from the first nine tenths of the tokens, expectation-maximisation on the last tenth;
/// then all tokens are counted.
class BigramModel {
 public:
  /// `tokens`: at least 20 ids, all in [0, vocab_size).
  BigramModel(std::span<const std::int32_t> tokens, int vocab_size);

  double unigram(std::int32_t token) const;
  double bigram(std::int32_t previous, std::int32_t token) const;

 private:
  struct Counts {
    Counts(std::span<const std::int32_t> tokens, int vocab_size);
    double unigram(std::int32_t token) const;
    /// c(v, w) / c(v); 0 where v was not seen.
    double relative(std::int32_t previous, std::int32_t token) const;
    std::size_t bucket(std::int32_t previous) const;

    double num_tokens;
    double vocab_size;
    std::vector<std::int64_t> unigrams;
    std::vector<std::int64_t> row_begin;  // of each first token, in seconds; and the end
    std::vector<std::int32_t> seconds;    // sorted within a row
    std::vector<std::int64_t> pair_counts;
    std::vector<std::int64_t> row_counts;
  };
  void fit(const Counts& counts, std::span<const std::int32_t> held_out);

  std::vector<double> weights_;  // by bucket
  Counts counts_;
};

struct BaselineScore {
  double nats_per_token = 0.0;
  std::optional<double> bits_per_byte;  ///< of the raw text; where every file has a manifest
};

struct BaselineReport {
  std::int64_t num_train_tokens = 0;  ///< that the models were counted on
  std::int64_t num_eval_tokens = 0;   ///< predicted: all but the first of each file
  BaselineScore own_entropy;  ///< of the evaluated tokens' own frequencies: no unigram model can
                              ///< do better on them
  BaselineScore unigram;
  BaselineScore bigram;
};

/// Counts on `train`, in order up to `max_train_tokens` (8 bytes of memory each and as much again),
/// and scores every token of `eval` but the first of each file. Ids must be verified.
BaselineReport score_baselines(const TokenFiles& train, const TokenFiles& eval, int vocab_size,
                               std::int64_t max_train_tokens = std::int64_t{1} << 25);

}  // namespace ulmus::data
