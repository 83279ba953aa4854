#include "ulmus/optim/optimizer.h"

#include <utility>

#include "ulmus/ops/adamw.h"
#include "ulmus/ops/block_norms.h"
#include "ulmus/ops/elementwise.h"
#include "ulmus/ops/step_gate.h"

namespace ulmus::optim {

Optimizer::Optimizer(std::vector<OptimizedTensor> tensors, const Options& options, TensorView gate,
                     Arena& arena, Device& device)
    : tensors_(std::move(tensors)), options_(options), gate_(gate) {
  std::int64_t num_blocks = 0;
  for (const OptimizedTensor& tensor : tensors_) {
    const DType dtype = tensor.param.dtype();
    const Shape& shape = tensor.param.shape();
    moments_.push_back({.name = tensor.name,
                        .first = arena.allocate(tensor.name + ".exp_avg", dtype, shape),
                        .second = arena.allocate(tensor.name + ".exp_avg_sq", dtype, shape),
                        .slice_elements = tensor.slice_elements});
    block_begin_.push_back(num_blocks);
    num_blocks += ops::num_blocks(tensor.param.numel(), tensor.slice_elements);
  }
  block_begin_.push_back(num_blocks);
  windows_ = arena.allocate("skip_windows", DType::kF64, {2 * ops::kSkipWindow + 1});
  norm_sums_ = arena.allocate("norm_sums", DType::kF64, {num_blocks});
  tensor_begin_ =
      arena.allocate("tensor_begin", DType::kI64, {static_cast<std::int64_t>(block_begin_.size())});
  device.copy_to_device(tensor_begin_, std::span<const std::int64_t>(block_begin_));
}

void Optimizer::zero_gradients(const ExecContext& ctx) const {
  for (const OptimizedTensor& tensor : tensors_)
    ops::fill({.x = tensor.grad, .value = 0.0}, ctx);
}

void Optimizer::step(ConstTensorView loss, double lr, const ExecContext& ctx) const {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    ops::block_norms({.sums = norm_sums_.rows(block_begin_[i], block_begin_[i + 1]),
                      .x = tensors_[i].grad,
                      .slice_elements = tensors_[i].slice_elements},
                     ctx);
  }
  ops::step_gate({.gate = gate_,
                  .windows = windows_,
                  .loss = loss,
                  .norm_sums = norm_sums_,
                  .tensor_begin = tensor_begin_,
                  .clip = options_.clip,
                  .skip_sigma = options_.skip_sigma,
                  .beta1 = options_.beta1,
                  .beta2 = options_.beta2},
                 ctx);
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    ops::adamw({.param = tensors_[i].param,
                .m = moments_[i].first,
                .v = moments_[i].second,
                .grad = tensors_[i].grad,
                .gate = gate_,
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
  state.gate.resize(static_cast<std::size_t>(gate_.numel()));
  state.windows.resize(static_cast<std::size_t>(windows_.numel()));
  device.copy_to_host(std::span(state.gate), gate_);
  device.copy_to_host(std::span(state.windows), windows_);
  return state;
}

void Optimizer::import_state(const OptimizerState& state, Device& device) const {
  device.copy_to_device(gate_, std::span<const double>(state.gate));
  device.copy_to_device(windows_, std::span<const double>(state.windows));
}

}  // namespace ulmus::optim
