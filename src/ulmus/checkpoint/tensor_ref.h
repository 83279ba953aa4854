#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "ulmus/tensor/tensor_view.h"

namespace ulmus::checkpoint {

/// One tensor of the model or the optimizer, where it lives and where it is saved.
struct TensorRef {
  std::string name;                 ///< global and complete: "layers.0.moe.experts.up"
  std::string file_group;           ///< it lies in <file_group>.safetensors; file_group_of(name)
  TensorView view;                  ///< f32 or f64, contiguous
  std::int64_t slice_elements = 0;  ///< of one expert's slice; numel when unstacked
};

/// Moments are tensors of their own: the weight's name with one of these suffixes.
inline constexpr std::string_view kFirstMomentSuffix = ".exp_avg";
inline constexpr std::string_view kSecondMomentSuffix = ".exp_avg_sq";

/// The group that a name belongs to, the same for everybody who saves: "layers.3.x" lies in
/// layer-03, any other name in the group of its first part ("embedding.weight" in embedding);
/// moments lie in <group>.optimizer, so that the weights can be had without them.
std::string file_group_of(std::string_view name);

/// What info.json holds beside the manifest: layout, device, versions, host, time. For people;
/// nothing is ever computed from it.
using Info = std::map<std::string, std::string>;

}  // namespace ulmus::checkpoint
