#include "ulmus/nn/parameter.h"

#include <algorithm>
#include <utility>

namespace ulmus::nn {

Weight ParameterSet::add(std::string name, const Shape& shape, ParameterFamily family,
                         Initialization initialization) {
  const bool taken = std::any_of(parameters_.begin(), parameters_.end(),
                                 [&](const Parameter& other) { return other.name == name; });
  ULMUS_CHECK(!taken, "parameter ", name, " is registered twice");
  const std::int64_t slice =
      family == ParameterFamily::kExpert ? shape.numel() / shape.dim(0) : shape.numel();
  const TensorView value = values_.allocate(name, dtype_, shape);
  const TensorView grad =
      mode_ == Gradients::kAllocate ? gradients_.allocate(name, dtype_, shape) : TensorView();
  parameters_.push_back({.name = std::move(name),
                         .family = family,
                         .initialization = initialization,
                         .slice_elements = slice,
                         .value = value,
                         .grad = grad});
  return {value, grad};
}

}  // namespace ulmus::nn
