#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ulmus/device/arena.h"

namespace ulmus::nn {

/// Decides the group of ranks that reduces a parameter's gradient (design, section 6). Every
/// parameter has one.
enum class ParameterFamily : std::uint8_t { kDense, kExpert };
inline constexpr int kNumParameterFamilies = 2;

/// Initial values: truncated normal (|z| <= 3) with this deviation, or all ones when `std` is 0
/// (norm weights).
struct Initialization {
  double std = 0.0;
};

/// Where a layer finds one parameter: its own shape, or, of a stacked expert parameter, the experts
/// that live on this rank.
struct Weight {
  ConstTensorView value;
  TensorView grad;  ///< added to by backward
};

/// One parameter of a model. `name` is the checkpoint key, the optimizer group key and the name of
/// its random stream.
struct Parameter {
  std::string name;
  ParameterFamily family = ParameterFamily::kDense;
  Initialization initialization;
  int unit = 0;                     ///< index into ParameterSet::units()
  Shape shape;                      ///< of the whole tensor, all experts
  std::int64_t slice_elements = 0;  ///< elements of one expert's slice; numel when not stacked
  std::int64_t first_element = 0;   ///< of the whole tensor: where `value` begins
  TensorView value;
  TensorView grad;
};

/// Is told when a model uses its parameters: moves weights in before and gradients out after. A
/// unit's weights may be read from before_forward to after_forward and from before_backward to
/// after_backward; at after_backward the micro-batch's gradients of the unit are complete.
class ParameterUse {
 public:
  virtual ~ParameterUse() = default;
  virtual void before_forward(int unit) = 0;
  virtual void after_forward(int unit) = 0;
  virtual void before_backward(int unit) = 0;
  virtual void after_backward(int unit) = 0;
};

/// A parameter's weight and gradient (which may be empty), writable.
struct PlacedWeight {
  TensorView value;
  TensorView grad;
};

/// Where whole weights and their gradients lie.
class ParameterMemory {
 public:
  virtual ~ParameterMemory() = default;
  /// What follows belongs to the next unit.
  virtual void begin_unit(int unit) = 0;
  /// Memory of one parameter, behind the one before it.
  virtual PlacedWeight allocate(const std::string& name, DType dtype, const Shape& shape) = 0;
};

/// Every parameter has its place for good.
class ArenaMemory final : public ParameterMemory {
 public:
  /// Without `gradients` (null) grad views stay empty.
  ArenaMemory(Arena& values, Arena* gradients) : values_(values), gradients_(gradients) {}
  void begin_unit(int /*unit*/) override {}
  PlacedWeight allocate(const std::string& name, DType dtype, const Shape& shape) override;

 private:
  Arena& values_;
  Arena* gradients_;
};

/// Which of `count` equal shares of the experts this rank holds.
struct ExpertShard {
  int index = 0;
  int count = 1;
};

/// All parameters of a model, in the order of registration.
///
/// Parameters come in units, which are used one after the other: embedding, each block, head. Those
/// of a unit and family lie together in memory, the dense ones first.
class ParameterSet {
 public:
  /// kNone: evaluation and generation only; grad views stay empty.
  enum class Gradients : std::uint8_t { kNone, kAllocate };
  /// `memory` outlives this.
  ParameterSet(ParameterMemory& memory, Gradients mode, DType dtype, ExpertShard experts = {})
      : memory_(memory), mode_(mode), dtype_(dtype), experts_(experts) {}

  /// The parameters that follow belong to the next unit. Returns its index.
  int begin_unit(std::string name);

  /// `shape` is that of the whole tensor. Expert parameters are stacked: axis 0 is the expert, and
  /// the weight holds this rank's share of them. Error when the name is taken, when the ranks do
  /// not divide the experts, without a unit, or for a dense parameter behind an expert one.
  Weight add(std::string name, const Shape& shape, ParameterFamily family,
             Initialization initialization);

  const std::vector<Parameter>& all() const { return parameters_; }
  const std::vector<std::string>& units() const { return units_; }
  DType dtype() const { return dtype_; }
  ExpertShard experts() const { return experts_; }
  bool has_gradients() const { return mode_ == Gradients::kAllocate; }

  /// Who is told from now on; it outlives the model's use. Nobody is at first.
  void attach(ParameterUse& use) { use_ = &use; }
  void before_forward(int unit) const {
    if (use_ != nullptr) use_->before_forward(unit);
  }
  void after_forward(int unit) const {
    if (use_ != nullptr) use_->after_forward(unit);
  }
  void before_backward(int unit) const {
    if (use_ != nullptr) use_->before_backward(unit);
  }
  void after_backward(int unit) const {
    if (use_ != nullptr) use_->after_backward(unit);
  }

 private:
  ParameterMemory& memory_;
  Gradients mode_;
  DType dtype_;
  ExpertShard experts_;
  std::vector<std::string> units_;
  std::vector<Parameter> parameters_;
  ParameterUse* use_ = nullptr;
};

/// What the whole weights of each unit take on this rank, gaps included.
std::vector<std::int64_t> bytes_of_units(const ParameterSet& parameters);

}  // namespace ulmus::nn
