#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "ulmus/tensor/blocks.h"
#include "ulmus/tensor/tensor_view.h"

namespace ulmus::checkpoint {

/// One tensor of the model or the optimizer: what this rank owns of it, and where it is saved.
/// Every rank lists every tensor; their blocks together are all of it, each once.
struct TensorRef {
  std::string name;        ///< global and complete: "layers.0.moe.experts.up"
  std::string file_group;  ///< it lies in <file_group>.safetensors; file_group_of(name)
  Shape shape;             ///< of the whole tensor
  BlockRange blocks;       ///< of the whole tensor: those of this rank, perhaps none
  TensorView view;         ///< their elements in order: f32 or f64, contiguous, any shape

  /// A tensor that one rank owns alone.
  static TensorRef whole(std::string name, std::string file_group, TensorView view,
                         std::int64_t slice_elements) {
    return {std::move(name), std::move(file_group), view.shape(),
            BlockRange::all(view.numel(), slice_elements), view};
  }
};

/// Moments are tensors of their own: the weight's name with one of these suffixes.
inline constexpr std::string_view kFirstMomentSuffix = ".exp_avg";
inline constexpr std::string_view kSecondMomentSuffix = ".exp_avg_sq";

/// The group that a name belongs to, the same for everybody who saves: "layers.3.x" lies in
/// layer-03, any other name in the group of its first part ("embedding.weight" in embedding);
/// moments lie in <group>.optimizer, so that the weights can be had without them.
std::string file_group_of(std::string_view name);

/// What info.json holds beside the manifest: program, host, layout, device, time. For people;
/// nothing is ever computed from it.
using Info = std::map<std::string, std::string>;

}  // namespace ulmus::checkpoint
