#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ulmus/data/loader.h"
#include "ulmus/train/config.h"
#include "ulmus/train/run.h"
#include "ulmus/train/runtime.h"

namespace ulmus::train {

/// Held-out loss over data.eval, every token predicted once but the first of each file (packing
/// "chunk") or of each document ("documents"); at most eval.tokens of them, in whole sequences: the
/// first ones of the files, or packed documents drawn in a fixed order.
///
/// Bytes are those of the predicted tokens' text, so that bits per byte is exact also for a part.
/// Micro-batches are dealt to the ranks as in training; the last ones may leave some without any.
class Evaluator {
 public:
  /// Collective, as is run. InputError when data.eval is unusable, or ids do not fit the
  /// vocabulary.
  Evaluator(const Config& config, ThreadPool& pool, const parallel::Ranks& ranks);

  /// Uses the runtime's record; the caller clears it for its next step. One host read.
  EvalResult run(Runtime& runtime);
  /// Sequences that a run reads.
  std::int64_t num_sequences() const { return num_sequences_; }

 private:
  /// Calls use(first_sequence) for every slot, this rank's micro-batch of it in batch_.
  template <class Use>
  void for_slots(const Use& use);
  void count_targets(const Config& config);

  std::unique_ptr<data::Loader> loader_;
  data::Deal deal_;
  std::int64_t num_sequences_ = 0;
  std::int64_t num_targets_ = 0;
  std::int64_t text_bytes_ = 0;
  data::HostBatch batch_;
};

}  // namespace ulmus::train
