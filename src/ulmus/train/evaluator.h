#pragma once

#include <cstdint>
#include <optional>
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
class Evaluator {
 public:
  /// InputError when data.eval is unusable, or ids do not fit the vocabulary.
  Evaluator(const Config& config, ThreadPool& pool);

  /// Uses the runtime's record; the caller clears it for its next step. One host read.
  EvalResult run(Runtime& runtime);
  /// Sequences that a run reads.
  std::int64_t num_sequences() const { return num_sequences_; }

 private:
  data::Loader loader_;
  std::int64_t micro_sequences_;
  std::int64_t num_sequences_ = 0;
  std::int64_t num_targets_ = 0;
  std::int64_t text_bytes_ = 0;
  data::HostBatch batch_;
};

}  // namespace ulmus::train
