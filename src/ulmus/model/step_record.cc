#include "ulmus/model/step_record.h"

#include <cstring>

#include "ulmus/ops/elementwise.h"

namespace ulmus::model {

namespace {

constexpr std::int64_t kWord = 8;  // every field is f64 or i64

/// Copies `count` words from the record to `to` and moves on.
template <class T>
void take(T* to, std::int64_t count, const std::byte*& from) {
  static_assert(sizeof(T) == kWord);
  std::memcpy(to, from, static_cast<std::size_t>(count * kWord));
  from += count * kWord;
}

}  // namespace

StepRecord::StepRecord(Arena& arena, int num_moe_layers, int num_experts)
    : num_moe_layers_(num_moe_layers), num_experts_(num_experts) {
  const std::int64_t layers = num_moe_layers;
  const std::int64_t per_expert = layers * num_experts;
  const std::int64_t float_words = 2 + 2 * layers + per_expert + 1;
  const std::int64_t sum_words = float_words + 1 + per_expert;
  const std::int64_t gate_words = ops::kNumGateFields;
  bytes_ = arena.allocate("step_record", DType::kU8, {(gate_words + sum_words) * kWord});
  std::int64_t begin = 0;
  const auto next = [&](DType dtype, std::int64_t words) {
    const TensorView view =
        bytes_.rows(begin * kWord, (begin + words) * kWord).reinterpret(dtype, {words});
    begin += words;
    return view;
  };
  gate_ = next(DType::kF64, gate_words);
  sums_ =
      bytes_.rows(begin * kWord, (begin + sum_words) * kWord).reinterpret(DType::kF64, {sum_words});
  loss_sums_ = next(DType::kF64, 2);
  balance_ = next(DType::kF64, layers);
  z_sums_ = next(DType::kF64, layers);
  score_sums_ = next(DType::kF64, per_expert);
  norm_sq_ = next(DType::kF64, 1);
  float_sums_ = sums_.rows(0, float_words);
  first_bad_ = next(DType::kF64, 1);
  counts_ = next(DType::kI64, per_expert);
  host_bytes_.resize(static_cast<std::size_t>(bytes_.numel()));
}

nn::RouterRecord StepRecord::of_moe_layer(int moe_layer) const {
  const std::int64_t begin = std::int64_t{moe_layer} * num_experts_;
  return {.counts = counts_.rows(begin, begin + num_experts_),
          .score_sums = score_sums_.rows(begin, begin + num_experts_),
          .z_sum = z_sums_.rows(moe_layer, moe_layer + 1),
          .balance_sum = balance_.rows(moe_layer, moe_layer + 1)};
}

void StepRecord::clear(const ExecContext& ctx) const { ops::fill({.x = sums_, .value = 0.0}, ctx); }

std::vector<comm::AllReduce::Part> StepRecord::reductions() const {
  return {{.values = float_sums_, .op = comm::ReduceOp::kSum},
          {.values = first_bad_, .op = comm::ReduceOp::kMin},
          {.values = counts_, .op = comm::ReduceOp::kSum}};
}

StepRecord::Host StepRecord::make_host() const {
  const auto layers = static_cast<std::size_t>(num_moe_layers_);
  const auto experts = static_cast<std::size_t>(num_experts_);
  Host host;
  host.gate.resize(ops::kNumGateFields);
  host.balance.resize(layers);
  host.z_sums.resize(layers);
  host.score_sums.assign(layers, std::vector<double>(experts));
  host.counts.assign(layers, std::vector<std::int64_t>(experts));
  return host;
}

void StepRecord::read(Host& host, Device& device) const {
  device.read_to_host(std::span<std::byte>(host_bytes_), bytes_);
  const std::byte* from = host_bytes_.data();
  take(host.gate.data(), ops::kNumGateFields, from);
  take(&host.loss_ce, 1, from);
  take(&host.head_z, 1, from);
  take(host.balance.data(), num_moe_layers_, from);
  take(host.z_sums.data(), num_moe_layers_, from);
  for (auto& sums : host.score_sums)
    take(sums.data(), num_experts_, from);
  from += 2 * kWord;  // norm_sq and first_bad, which the gate holds in the form for people
  for (auto& counts : host.counts)
    take(counts.data(), num_experts_, from);
}

}  // namespace ulmus::model
