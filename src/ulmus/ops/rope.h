#pragma once

#include <vector>

#include "ulmus/device/exec_context.h"

namespace ulmus::ops {

/// Rotary position embedding (Su et al. 2021) in the half-split layout of GPT-NeoX and Llama:
/// channel p < P/2 of a head is paired with channel p + P/2 and rotated by angle(position, p).
///
///   y[n, h, p]       = x[n, h, p] * cos - x[n, h, p + P/2] * sin
///   y[n, h, p + P/2] = x[n, h, p + P/2] * cos + x[n, h, p] * sin
///
///   y, x       [N, H, P]   out (overwritten; may be the same memory as x) and in
///   table      [S_max, P]  in: cosines of the P/2 angles of a position, then their sines
///   positions  [N]         i32 in, 0 <= position < S_max
/// kBackward rotates by the opposite angle: the transpose, as gradients need it.
enum class RopeDirection : std::uint8_t { kForward, kBackward };
struct RopeArgs {
  TensorView y;
  ConstTensorView x;
  ConstTensorView table;
  ConstTensorView positions;
  RopeDirection direction = RopeDirection::kForward;
};
void rope(const RopeArgs& args, const ExecContext& ctx);

/// Angles of a position table.
struct RopeConfig {
  double theta = 10000.0;
  /// YaRN (Peng et al. 2023). factor 1 switches it off: plain frequencies theta^(-2p/P).
  double factor = 1.0;
  double original_length = 0.0;  ///< context length before the extension
  double beta_fast = 32.0;       ///< rotations above which a channel keeps its frequency
  double beta_slow = 1.0;        ///< rotations below which a channel is fully interpolated
  /// Multiplies cosines and sines. 0 means YaRN's own: 0.1 ln(factor) + 1 for factor > 1, else 1.
  double attention_factor = 0.0;
};

/// Row-major [max_positions, head_width]: P/2 cosines, then P/2 sines, computed in f64.
std::vector<double> rope_table(const RopeConfig& config, std::int64_t max_positions,
                               std::int64_t head_width);

}  // namespace ulmus::ops
