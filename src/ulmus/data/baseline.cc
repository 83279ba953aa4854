#include "ulmus/data/baseline.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "ulmus/base/check.h"
#include "ulmus/data/pair_key.h"

namespace ulmus::data {

namespace {

constexpr std::size_t kNumBuckets = 65;
constexpr int kFitRounds = 50;
constexpr std::size_t kFewestTokens = 20;

std::vector<std::int32_t> read_tokens(const TokenFiles& files, std::int64_t limit) {
  std::vector<std::int32_t> tokens;
  for (const auto& file : files) {
    const std::int64_t count =
        std::min(file->num_tokens(), limit - static_cast<std::int64_t>(tokens.size()));
    const std::size_t old_size = tokens.size();
    tokens.resize(old_size + static_cast<std::size_t>(count));
    file->read(0, std::span(tokens).subspan(old_size));
  }
  return tokens;
}

BaselineScore score(double nats, std::int64_t num_tokens, std::optional<std::int64_t> text_bytes) {
  BaselineScore result;
  result.nats_per_token = nats / static_cast<double>(num_tokens);
  if (text_bytes && *text_bytes > 0) {
    result.bits_per_byte = nats / std::numbers::ln2 / static_cast<double>(*text_bytes);
  }
  return result;
}

/// Nats that the counted tokens cost under their own frequencies.
double own_nats(const std::vector<std::int64_t>& counts, std::int64_t total) {
  double nats = 0.0;
  for (const std::int64_t count : counts) {
    if (count == 0) continue;
    const double share = static_cast<double>(count) / static_cast<double>(total);
    nats -= static_cast<double>(count) * std::log(share);
  }
  return nats;
}

std::optional<std::int64_t> text_bytes_of(const TokenFiles& files) {
  std::int64_t total = 0;
  for (const auto& file : files) {
    const std::optional<std::int64_t> bytes = file->text_bytes();
    if (!bytes) return std::nullopt;
    total += *bytes;
  }
  return total;
}

}  // namespace

BigramModel::Counts::Counts(std::span<const std::int32_t> tokens, int vocab)
    : num_tokens(static_cast<double>(tokens.size())),
      vocab_size(vocab),
      unigrams(static_cast<std::size_t>(vocab)),
      row_begin(static_cast<std::size_t>(vocab) + 1),
      row_counts(static_cast<std::size_t>(vocab)) {
  std::vector<std::uint64_t> pairs;
  pairs.reserve(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    ++unigrams[static_cast<std::size_t>(tokens[i])];
    if (i > 0) pairs.push_back(pair_key(tokens[i - 1], tokens[i]));
  }
  std::sort(pairs.begin(), pairs.end());
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto row = static_cast<std::size_t>(pairs[i] >> 32U);
    ++row_counts[row];
    if (i > 0 && pairs[i] == pairs[i - 1]) {
      ++pair_counts.back();
      continue;
    }
    ++row_begin[row + 1];
    seconds.push_back(static_cast<std::int32_t>(pairs[i] & 0xFFFFFFFFU));
    pair_counts.push_back(1);
  }
  for (std::size_t row = 1; row < row_begin.size(); ++row)
    row_begin[row] += row_begin[row - 1];
}

double BigramModel::Counts::unigram(std::int32_t token) const {
  const auto count = static_cast<double>(unigrams[static_cast<std::size_t>(token)]);
  return (count + 1.0) / (num_tokens + vocab_size);
}

double BigramModel::Counts::relative(std::int32_t previous, std::int32_t token) const {
  const auto row = static_cast<std::size_t>(previous);
  const auto begin = seconds.begin() + row_begin[row];
  const auto end = seconds.begin() + row_begin[row + 1];
  const auto found = std::lower_bound(begin, end, token);
  if (found == end || *found != token) return 0.0;
  const auto pair = static_cast<std::size_t>(found - seconds.begin());
  return static_cast<double>(pair_counts[pair]) / static_cast<double>(row_counts[row]);
}

std::size_t BigramModel::Counts::bucket(std::int32_t previous) const {
  const auto count = static_cast<std::uint64_t>(row_counts[static_cast<std::size_t>(previous)]);
  return static_cast<std::size_t>(std::bit_width(count));
}

BigramModel::BigramModel(std::span<const std::int32_t> tokens, int vocab_size)
    : weights_(kNumBuckets, 0.5), counts_(tokens, vocab_size) {
  ULMUS_CHECK(tokens.size() >= kFewestTokens, tokens.size(), " tokens are too few to count");
  const std::size_t cut = tokens.size() - tokens.size() / 10;
  fit(Counts(tokens.first(cut), vocab_size), tokens.subspan(cut - 1));
}

void BigramModel::fit(const Counts& counts, std::span<const std::int32_t> held_out) {
  weights_[0] = 0.0;  // first tokens never seen
  for (int round = 0; round < kFitRounds; ++round) {
    std::vector<double> share(kNumBuckets);
    std::vector<double> total(kNumBuckets);
    for (std::size_t i = 1; i < held_out.size(); ++i) {
      const std::size_t bucket = counts.bucket(held_out[i - 1]);
      const double weight = weights_[bucket];
      const double by_pair = weight * counts.relative(held_out[i - 1], held_out[i]);
      const double by_token = (1.0 - weight) * counts.unigram(held_out[i]);
      share[bucket] += by_pair / (by_pair + by_token);
      total[bucket] += 1.0;
    }
    for (std::size_t bucket = 1; bucket < kNumBuckets; ++bucket) {
      // A weight of one would give unseen pairs no probability at all.
      if (total[bucket] > 0.0) {
        weights_[bucket] = std::min(share[bucket] / total[bucket], 0.999);
      }
    }
  }
}

double BigramModel::unigram(std::int32_t token) const { return counts_.unigram(token); }

double BigramModel::bigram(std::int32_t previous, std::int32_t token) const {
  const double weight = weights_[counts_.bucket(previous)];
  return weight * counts_.relative(previous, token) + (1.0 - weight) * counts_.unigram(token);
}

BaselineReport score_baselines(const TokenFiles& train, const TokenFiles& eval, int vocab_size,
                               std::int64_t max_train_tokens) {
  const std::vector<std::int32_t> train_tokens = read_tokens(train, max_train_tokens);
  if (train_tokens.size() < kFewestTokens) {
    fail_input(train.front()->path().string(), ": ", train_tokens.size(),
               " tokens are too few to count; at least ", kFewestTokens, " are needed");
  }
  const BigramModel model(train_tokens, vocab_size);
  BaselineReport report;
  report.num_train_tokens = static_cast<std::int64_t>(train_tokens.size());
  std::vector<std::int64_t> own_counts(static_cast<std::size_t>(vocab_size));
  double unigram_nats = 0.0;
  double bigram_nats = 0.0;
  for (const auto& file : eval) {
    const std::vector<std::int32_t> tokens = read_tokens({file}, file->num_tokens());
    for (std::size_t i = 1; i < tokens.size(); ++i) {
      ++own_counts[static_cast<std::size_t>(tokens[i])];
      unigram_nats -= std::log(model.unigram(tokens[i]));
      bigram_nats -= std::log(model.bigram(tokens[i - 1], tokens[i]));
      ++report.num_eval_tokens;
    }
  }
  if (report.num_eval_tokens == 0) fail_input("the evaluation files have no token to predict");
  const auto text_bytes = text_bytes_of(eval);
  report.own_entropy =
      score(own_nats(own_counts, report.num_eval_tokens), report.num_eval_tokens, text_bytes);
  report.unigram = score(unigram_nats, report.num_eval_tokens, text_bytes);
  report.bigram = score(bigram_nats, report.num_eval_tokens, text_bytes);
  return report;
}

}  // namespace ulmus::data
