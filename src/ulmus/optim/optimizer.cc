#include "ulmus/optim/optimizer.h"

#include <cmath>
#include <set>
#include <utility>

#include "ulmus/base/check.h"
#include "ulmus/base/error.h"
#include "ulmus/ops/adamw.h"
#include "ulmus/ops/block_norms.h"
#include "ulmus/ops/norm_total.h"
#include "ulmus/ops/step_gate.h"

namespace ulmus::optim {

namespace {

constexpr auto kCountField = static_cast<std::size_t>(ops::GateField::kCount);
constexpr auto kInRowField = static_cast<std::size_t>(ops::GateField::kNonfiniteInRow);
constexpr auto kEntriesField = static_cast<std::size_t>(2 * ops::kSkipWindow);

void check_options(const Optimizer::Options& options) {
  const auto is_beta = [](double beta) { return beta >= 0.0 && beta < 1.0; };
  ULMUS_CHECK(is_beta(options.beta1) && is_beta(options.beta2), "betas ", options.beta1, " and ",
              options.beta2, ", allowed is 0 to below 1");
  ULMUS_CHECK(options.eps >= 0.0, "eps ", options.eps);
  ULMUS_CHECK(options.clip >= 0.0, "clip ", options.clip);
  ULMUS_CHECK(options.skip_sigma >= 0.0, "skip_sigma ", options.skip_sigma);
}

void check_tensors(const std::vector<OptimizedTensor>& tensors) {
  std::set<std::string_view> names;
  for (const OptimizedTensor& tensor : tensors) {
    ULMUS_CHECK(names.insert(tensor.name).second, tensor.name, " is given twice");
    ULMUS_CHECK(is_float(tensor.param.dtype()), tensor.name, " is of ", tensor.param.dtype());
    ULMUS_CHECK(
        tensor.grad.dtype() == tensor.param.dtype() && tensor.grad.shape() == tensor.param.shape(),
        tensor.name, ": parameter ", tensor.param.shape(), " ", tensor.param.dtype(), ", gradient ",
        tensor.grad.shape(), " ", tensor.grad.dtype());
    ULMUS_CHECK(tensor.param.numel() == tensor.blocks.num_elements(), tensor.name, ": ",
                tensor.param.numel(), " elements for blocks of ", tensor.blocks.num_elements());
  }
}

/// A checkpoint may hold anything; the gate's kernel uses these as indices and exponents.
void check_count(double value, std::string_view name) {
  constexpr double kLargest = 0x1p53;
  if (value >= 0.0 && value <= kLargest && value == std::floor(value)) return;
  fail_input("optimizer state: ", name, " is ", value, ", not a whole number in [0, 2^53]");
}

}  // namespace

Optimizer::Optimizer(std::vector<OptimizedTensor> tensors, const Options& options,
                     const GateRecord& record, Arena& arena, Device& device)
    : tensors_(std::move(tensors)), options_(options), record_(record) {
  check_options(options_);
  check_tensors(tensors_);
  ULMUS_CHECK(
      record_.gate.dtype() == DType::kF64 && record_.gate.shape() == Shape{ops::kNumGateFields},
      "gate ", record_.gate.shape(), " ", record_.gate.dtype());
  std::int64_t num_blocks = 0;
  for (const OptimizedTensor& tensor : tensors_) {
    const DType dtype = tensor.param.dtype();
    const Shape& shape = tensor.param.shape();
    moments_.push_back({.name = tensor.name,
                        .blocks = tensor.blocks,
                        .first = arena.allocate(tensor.name + ".exp_avg", dtype, shape),
                        .second = arena.allocate(tensor.name + ".exp_avg_sq", dtype, shape)});
    block_begin_.push_back(num_blocks);
    num_blocks += tensor.blocks.num_blocks();
  }
  block_begin_.push_back(num_blocks);
  windows_ = arena.allocate("skip_windows", DType::kF64, {2 * ops::kSkipWindow + 1});
  norm_sums_ = arena.allocate("norm_sums", DType::kF64, {num_blocks});
  tensor_begin_ =
      arena.allocate("tensor_begin", DType::kI64, {static_cast<std::int64_t>(block_begin_.size())});
  device.copy_to_device(tensor_begin_, std::span<const std::int64_t>(block_begin_));
}

void Optimizer::measure(const ExecContext& ctx) const {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].blocks.num_blocks() == 0) continue;
    ops::block_norms({.sums = norm_sums_.rows(block_begin_[i], block_begin_[i + 1]),
                      .x = tensors_[i].grad,
                      .blocks = tensors_[i].blocks},
                     ctx);
  }
  ops::norm_total({.norm_sq = record_.norm_sq,
                   .first_bad = record_.first_bad,
                   .norm_sums = norm_sums_,
                   .tensor_begin = tensor_begin_},
                  ctx);
}

void Optimizer::update(double lr, const ExecContext& ctx) const {
  ops::step_gate({.gate = record_.gate,
                  .windows = windows_,
                  .loss = record_.loss,
                  .norm_sq = record_.norm_sq,
                  .first_bad = record_.first_bad,
                  .clip = options_.clip,
                  .skip_sigma = options_.skip_sigma,
                  .beta1 = options_.beta1,
                  .beta2 = options_.beta2},
                 ctx);
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].blocks.num_blocks() == 0) continue;
    ops::adamw({.param = tensors_[i].param,
                .m = moments_[i].first,
                .v = moments_[i].second,
                .grad = tensors_[i].grad,
                .gate = record_.gate,
                .lr = lr * tensors_[i].lr_scale,
                .beta1 = options_.beta1,
                .beta2 = options_.beta2,
                .eps = options_.eps,
                .weight_decay = tensors_[i].weight_decay},
               ctx);
  }
}

OptimizerState Optimizer::export_state(Device& device) const {
  OptimizerState state;
  state.gate.resize(static_cast<std::size_t>(record_.gate.numel()));
  state.windows.resize(static_cast<std::size_t>(windows_.numel()));
  device.copy_to_host(std::span(state.gate), record_.gate);
  for (std::size_t i = 0; i < state.gate.size(); ++i) {
    if (i != kCountField && i != kInRowField) state.gate[i] = 0.0;
  }
  device.copy_to_host(std::span(state.windows), windows_);
  return state;
}

void Optimizer::import_state(const OptimizerState& state, Device& device) const {
  if (state.gate.size() != ops::kNumGateFields || state.windows.size() != kEntriesField + 1) {
    fail_input("optimizer state: ", state.gate.size(), " gate fields and windows of ",
               state.windows.size(), ", expected ", ops::kNumGateFields, " and ",
               kEntriesField + 1);
  }
  for (const std::vector<double>* values : {&state.gate, &state.windows}) {
    for (const double value : *values) {
      if (!std::isfinite(value)) fail_input("optimizer state: holds ", value);
    }
  }
  check_count(state.gate[kCountField], "the count of updates");
  check_count(state.gate[kInRowField], "the count of non-finite steps");
  check_count(state.windows[kEntriesField], "the count of window entries");
  device.copy_to_device(record_.gate, std::span<const double>(state.gate));
  device.copy_to_device(windows_, std::span<const double>(state.windows));
}

}  // namespace ulmus::optim
