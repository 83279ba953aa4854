#include "ulmus/nn/parameter.h"

#include <algorithm>
#include <span>
#include <utility>

namespace ulmus::nn {

namespace {

/// The rows of a stacked tensor that a shard holds.
Shape local_shape(const Shape& shape, ExpertShard experts) {
  std::vector<std::int64_t> dims(shape.dims().begin(), shape.dims().end());
  dims[0] /= experts.count;
  return Shape(std::span<const std::int64_t>(dims));
}

}  // namespace

int ParameterSet::begin_unit(std::string name) {
  units_.push_back(std::move(name));
  const int unit = static_cast<int>(units_.size()) - 1;
  memory_.begin_unit(unit);
  return unit;
}

PlacedWeight ArenaMemory::allocate(const std::string& name, DType dtype, const Shape& shape) {
  const TensorView value = values_.allocate(name, dtype, shape);
  return {value, gradients_ == nullptr ? TensorView() : gradients_->allocate(name, dtype, shape)};
}

std::vector<std::int64_t> bytes_of_units(const ParameterSet& parameters) {
  std::vector<std::int64_t> bytes(parameters.units().size(), 0);
  for (const Parameter& parameter : parameters.all()) {
    const DType dtype = parameters.dtype();
    bytes[static_cast<std::size_t>(parameter.unit)] +=
        Arena::padded_elements(parameter.value.numel(), dtype) * size_of(dtype);
  }
  return bytes;
}

Weight ParameterSet::add(std::string name, const Shape& shape, ParameterFamily family,
                         Initialization initialization) {
  const bool taken = std::any_of(parameters_.begin(), parameters_.end(),
                                 [&](const Parameter& other) { return other.name == name; });
  ULMUS_CHECK(!taken, "parameter ", name, " is registered twice");
  ULMUS_CHECK(!units_.empty(), "parameter ", name, " belongs to no unit");
  const int unit = static_cast<int>(units_.size()) - 1;
  const bool is_expert = family == ParameterFamily::kExpert;
  const bool is_behind_expert = !parameters_.empty() && parameters_.back().unit == unit &&
                                parameters_.back().family == ParameterFamily::kExpert;
  ULMUS_CHECK(is_expert || !is_behind_expert, "dense parameter ", name, " comes behind ",
              parameters_.empty() ? std::string() : parameters_.back().name);
  ULMUS_CHECK(!is_expert || shape.dim(0) % experts_.count == 0, "parameter ", name, " ", shape,
              " is to be cut into ", experts_.count, " shares of whole experts");
  const Shape local = is_expert ? local_shape(shape, experts_) : shape;
  const PlacedWeight placed = memory_.allocate(name, dtype_, local);
  parameters_.push_back({.name = std::move(name),
                         .family = family,
                         .initialization = initialization,
                         .unit = unit,
                         .shape = shape,
                         .slice_elements = is_expert ? shape.numel() / shape.dim(0) : shape.numel(),
                         .first_element = is_expert ? local.numel() * experts_.index : 0,
                         .value = placed.value,
                         .grad = placed.grad});
  return {placed.value, placed.grad};
}

}  // namespace ulmus::nn
