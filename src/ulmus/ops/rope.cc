#include "ulmus/ops/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "ulmus/ops/front_door.h"

namespace ulmus::ops {

void rope(const RopeArgs& args, const ExecContext& ctx) {
  const auto& slot = kernels().dense.rope;
  const FrontDoor door(slot.name, ctx);
  door.is_float("x", args.x);
  door.rank("x", args.x, 3);
  door.rank("table", args.table, 2);
  const DType dtype = args.x.dtype();
  const std::int64_t width = args.x.dim(2);
  door.require(width % 2 == 0, "head width is ", width, ", expected an even number");
  door.operand("x", args.x, dtype, args.x.shape());
  door.operand("y", args.y, dtype, args.x.shape());
  door.operand("table", args.table, dtype, {args.table.dim(0), width});
  door.operand("positions", args.positions, DType::kI32, {args.x.dim(0)});
  door.same_or_apart("y", args.y, "x", args.x);
  const double table_bytes =
      bytes_of_rows(args.table, std::min(args.table.dim(0), args.positions.dim(0)));
  book_and_run(slot, args, {.moved_bytes = bytes_of(args.y, args.x, args.positions) + table_bytes},
               0, ctx);
}

namespace {

/// The channel pair (fractional) that turns `rotations` times over the original length.
double channel_of_rotations(const RopeConfig& config, double rotations, double width) {
  return width * std::log(config.original_length / (rotations * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(config.theta));
}

/// Angle per position of channel pair p. YaRN keeps fast channels, divides slow ones by the
/// factor, and goes from one to the other linearly over the channels between.
double angular_frequency(const RopeConfig& config, std::int64_t p, std::int64_t head_width) {
  const auto width = static_cast<double>(head_width);
  const double plain = std::pow(config.theta, -2.0 * static_cast<double>(p) / width);
  if (config.factor == 1.0) return plain;
  const double low =
      std::max(std::floor(channel_of_rotations(config, config.beta_fast, width)), 0.0);
  double high =
      std::min(std::ceil(channel_of_rotations(config, config.beta_slow, width)), width - 1.0);
  if (low == high) high += 0.001;  // a step instead of a ramp of no length
  const double slow = std::clamp((static_cast<double>(p) - low) / (high - low), 0.0, 1.0);
  return plain / config.factor * slow + plain * (1.0 - slow);
}

double amplitude(const RopeConfig& config) {
  if (config.attention_factor != 0.0) return config.attention_factor;
  return config.factor > 1.0 ? 0.1 * std::log(config.factor) + 1.0 : 1.0;
}

void check_config(const RopeConfig& config, std::int64_t max_positions, std::int64_t head_width) {
  ULMUS_CHECK(head_width > 0 && head_width % 2 == 0, "head width is ", head_width,
              ", expected a positive even number");
  ULMUS_CHECK(max_positions >= 0, "max_positions is ", max_positions);
  ULMUS_CHECK(config.theta > 1.0 && std::isfinite(config.theta), "theta is ", config.theta,
              ", expected more than 1");
  ULMUS_CHECK(config.factor >= 1.0 && std::isfinite(config.factor), "factor is ", config.factor,
              ", expected at least 1");
  ULMUS_CHECK(config.attention_factor >= 0.0 && std::isfinite(config.attention_factor),
              "attention_factor is ", config.attention_factor, ", expected at least 0");
  if (config.factor == 1.0) return;
  ULMUS_CHECK(config.original_length > 0.0, "original_length is ", config.original_length,
              ", expected more than 0 with factor ", config.factor);
  ULMUS_CHECK(config.beta_fast >= config.beta_slow && config.beta_slow > 0.0, "beta_fast ",
              config.beta_fast, ", beta_slow ", config.beta_slow,
              ", expected beta_fast >= beta_slow > 0");
}

}  // namespace

std::vector<double> rope_table(const RopeConfig& config, std::int64_t max_positions,
                               std::int64_t head_width) {
  check_config(config, max_positions, head_width);
  const std::int64_t pairs = head_width / 2;
  const double scale = amplitude(config);
  std::vector<double> table(static_cast<std::size_t>(max_positions * head_width));
  for (std::int64_t p = 0; p < pairs; ++p) {
    const double frequency = angular_frequency(config, p, head_width);
    for (std::int64_t position = 0; position < max_positions; ++position) {
      const double angle = static_cast<double>(position) * frequency;
      const auto row = static_cast<std::size_t>(position * head_width + p);
      table[row] = scale * std::cos(angle);
      table[row + static_cast<std::size_t>(pairs)] = scale * std::sin(angle);
    }
  }
  return table;
}

}  // namespace ulmus::ops
