#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ulmus/device/arena.h"

namespace ulmus::nn {

/// Decides the group of ranks that reduces a parameter's gradient (design, section 6). Every
/// parameter has one.
enum class ParameterFamily : std::uint8_t { kDense, kExpert };

/// Initial values: truncated normal (|z| <= 3) with this deviation, or all ones when `std` is 0
/// (norm weights).
struct Initialization {
  double std = 0.0;
};

/// Where a layer finds one parameter.
struct Weight {
  ConstTensorView value;
  TensorView grad;  ///< added to by backward
};

/// One parameter of a model. `name` is the checkpoint key, the optimizer group key and the name of
/// its random stream.
struct Parameter {
  std::string name;
  ParameterFamily family;
  Initialization initialization;
  std::int64_t slice_elements;  ///< elements of one expert's slice; numel when not stacked
  TensorView value;
  TensorView grad;
};

/// All parameters of a model, in the order of registration. Values live in the parameter arena,
/// gradients in the gradient arena.
class ParameterSet {
 public:
  /// `gradients` false: evaluation and generation only; grad views stay empty.
  enum class Gradients : std::uint8_t { kNone, kAllocate };
  ParameterSet(Arena& values, Arena& gradients, Gradients mode, DType dtype)
      : values_(values), gradients_(gradients), mode_(mode), dtype_(dtype) {}

  /// Error when the name is taken. Expert parameters are stacked: axis 0 is the expert.
  Weight add(std::string name, const Shape& shape, ParameterFamily family,
             Initialization initialization);

  const std::vector<Parameter>& all() const { return parameters_; }
  DType dtype() const { return dtype_; }

 private:
  Arena& values_;
  Arena& gradients_;
  Gradients mode_;
  DType dtype_;
  std::vector<Parameter> parameters_;
};

}  // namespace ulmus::nn
