#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ulmus/nn/parameter.h"

namespace ulmus::parallel {

/// Memory of whole weights and their gradients that units share in turns. Unit u lies in slot
/// u mod (number of slots), so that neighbours never meet; the first unit (the embedding) has slots
/// of its own where the head is tied to it and uses it while other units come and go.
class SlotMemory final : public nn::ParameterMemory {
 public:
  struct Options {
    int weight_slots = 1;  ///< as many as units: every unit has its own
    int gradient_slots = 1;
    bool first_alone = false;  ///< slots of its own for unit 0, beside the others
  };
  /// `unit_bytes`: what each unit takes, gaps included (nn::bytes_of_units). With kNone there are
  /// no slots for gradients, and `gradients` stays as it is.
  SlotMemory(const Options& options, const std::vector<std::int64_t>& unit_bytes,
             nn::ParameterSet::Gradients gradients_mode, Arena& values, Arena& gradients);

  void begin_unit(int unit) override;
  nn::PlacedWeight allocate(const std::string& name, DType dtype, const Shape& shape) override;

  const Options& options() const { return options_; }
  std::size_t gradient_slot(int unit) const { return slot(unit, options_.gradient_slots); }
  std::size_t num_gradient_slots() const { return gradients_.size(); }

 private:
  std::size_t slot(int unit, int slots) const;
  std::vector<TensorView> allocate_slots(int slots, const std::vector<std::int64_t>& unit_bytes,
                                         const std::string& name, Arena& arena) const;

  Options options_;
  std::vector<TensorView> weights_;    ///< [bytes] u8 each
  std::vector<TensorView> gradients_;  ///< the same; empty without gradients
  int unit_ = 0;
  std::int64_t used_bytes_ = 0;
};

}  // namespace ulmus::parallel
