#include "ulmus/train/batch_buffers.h"

#include <span>
#include <vector>

namespace ulmus::train {

BatchBuffers::BatchBuffers(Arena& arena, std::int64_t max_sequences, std::int64_t sequence_length,
                           std::int64_t window)
    : sequence_length_(sequence_length), window_(window) {
  const Shape shape = {max_sequences * sequence_length};
  tokens_ = arena.allocate("batch.tokens", DType::kI32, shape);
  targets_ = arena.allocate("batch.targets", DType::kI32, shape);
  first_key_ = arena.allocate("batch.first_key", DType::kI32, shape);
  positions_ = arena.allocate("batch.positions", DType::kI32, shape);
  valid_ = arena.allocate("batch.valid", DType::kU8, shape);
}

void BatchBuffers::upload_positions(Device& device) {
  std::vector<std::int32_t> positions(static_cast<std::size_t>(positions_.numel()));
  for (std::size_t i = 0; i < positions.size(); ++i) {
    positions[i] = static_cast<std::int32_t>(static_cast<std::int64_t>(i) % sequence_length_);
  }
  device.copy_to_device(positions_, std::span<const std::int32_t>(positions));
}

nn::Batch BatchBuffers::load(const data::HostBatch& batch, std::int64_t begin, std::int64_t end,
                             Device& device) const {
  ULMUS_CHECK(batch.sequence_length == sequence_length_, "sequences of ", batch.sequence_length,
              " tokens, buffers for ", sequence_length_);
  const std::int64_t n = (end - begin) * sequence_length_;
  const auto first = static_cast<std::size_t>(begin * sequence_length_);
  const auto count = static_cast<std::size_t>(n);
  const auto stage = [&](TensorView to, const auto& from) {
    const TensorView rows = to.rows(0, n);
    device.copy_to_device(rows, std::span(from).subspan(first, count));
    return rows;
  };
  return {.num_sequences = end - begin,
          .sequence_length = sequence_length_,
          .tokens = stage(tokens_, batch.tokens),
          .targets = stage(targets_, batch.targets),
          .first_key = stage(first_key_, batch.document_begin),
          .positions = positions_.rows(0, n),
          .valid = stage(valid_, batch.valid),
          .valid_tokens = batch.valid_tokens_of(begin, end),
          .pairs_full = batch.attended_pairs(begin, end, 0),
          .pairs_window = batch.attended_pairs(begin, end, window_)};
}

}  // namespace ulmus::train
