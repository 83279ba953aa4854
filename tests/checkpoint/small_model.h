#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "ulmus/base/philox.h"
#include "ulmus/checkpoint/checkpoint.h"
#include "ulmus/comm/thread/thread_transport.h"
#include "ulmus/device/arena.h"

namespace ulmus::test {

/// A few tensors of every kind on a device: plain, stacked in slices that are no multiple of a
/// block, a lone number, an empty one, f64; weights and moments in three groups.
class SmallModel {
 public:
  explicit SmallModel(std::uint64_t seed)
      : device(make_cpu_device(1, Backend::kRef)),
        arena_(*device, MemoryClass::kParameters, std::int64_t{1} << 20U) {
    add("embedding", "embedding.weight", DType::kF32, {37, 16}, 37 * 16);
    add("layer-00", "layers.0.moe.experts.up", DType::kF32, {3, 50, 100}, 5000);
    add("layer-00", "layers.0.norm.weight", DType::kF32, {1}, 1);
    add("layer-00", "layers.0.nothing", DType::kF32, {0, 4}, 0);
    add("layer-00.optimizer", "layers.0.moe.experts.up.exp_avg", DType::kF32, {3, 50, 100}, 5000);
    add("layer-00.optimizer", "layers.0.moe.experts.up.exp_avg_sq", DType::kF32, {3, 50, 100},
        5000);
    add("head", "head.weight", DType::kF64, {4097}, 4097);
    fill(seed);
  }

  /// Normal numbers that depend on seed, tensor and element.
  void fill(std::uint64_t seed) {
    for (const checkpoint::TensorRef& tensor : tensors) {
      const PhiloxKey key = philox_key(seed, RandomPurpose::kTest, tensor.name);
      std::vector<double> values;
      for (std::int64_t i = 0; i < tensor.view.numel(); ++i) {
        values.push_back(philox_truncated_normal(key, static_cast<std::uint64_t>(i), 3.0));
      }
      write(tensor.view, values);
    }
  }

  void write(TensorView view, const std::vector<double>& values) const {
    if (view.dtype() == DType::kF64) {
      device->copy_to_device<double>(view, values);
    } else {
      device->copy_to_device<float>(view, std::vector<float>(values.begin(), values.end()));
    }
  }

  std::string bytes_of(const std::string& name) const {
    for (const checkpoint::TensorRef& tensor : tensors) {
      if (tensor.name != name) continue;
      std::string bytes(static_cast<std::size_t>(tensor.view.size_bytes()), '\0');
      device->copy_to_host(std::as_writable_bytes(std::span(bytes)), tensor.view);
      return bytes;
    }
    ADD_FAILURE() << name;
    return "";
  }

  checkpoint::TensorRef& ref(const std::string& name) {
    for (checkpoint::TensorRef& tensor : tensors) {
      if (tensor.name == name) return tensor;
    }
    ADD_FAILURE() << name;
    return tensors.front();
  }

  TensorView allocate(DType dtype, const Shape& shape) {
    return arena_.allocate("more", dtype, shape);
  }

  /// From now on this rank of several owns its part of every tensor: so many blocks each, as far as
  /// they go round.
  void keep_part(int rank, int num_ranks) {
    for (checkpoint::TensorRef& tensor : tensors) {
      BlockRange& blocks = tensor.blocks;
      const std::int64_t all = blocks.end;
      blocks.begin = all * rank / num_ranks;
      blocks.end = all * (rank + 1) / num_ranks;
      tensor.view = tensor.view.reshape({tensor.view.numel()})
                        .rows(blocks.element_begin(), blocks.element_end());
    }
  }

  /// The one rank that owns everything.
  comm::Communicator& ranks() { return world_.all(); }

  std::unique_ptr<Device> device;
  std::vector<checkpoint::TensorRef> tensors;

 private:
  void add(const std::string& group, const std::string& name, DType dtype, const Shape& shape,
           std::int64_t slice_elements) {
    tensors.push_back(checkpoint::TensorRef::whole(name, group, arena_.allocate(name, dtype, shape),
                                                   slice_elements));
  }

  Arena arena_;
  comm::World world_{std::move(comm::make_thread_transports(1).front()), {}};
};

/// Facts with every kind of state in them.
inline checkpoint::Manifest small_facts(std::int64_t step) {
  checkpoint::Manifest facts;
  facts.step = step;
  facts.tokens = step * 1000;
  facts.data_position = step * 8;
  facts.configuration = {{"model.family", "olmoe"}, {"optim.lr", "0.001"}};
  facts.doubles = {{"optimizer.windows", {1.5, -0.0, 5e-324, 0.1, 1e300}}, {"empty", {}}};
  facts.integers = {{"layers.0.moe.previous_counts", {7, 0, -3, INT64_MAX, INT64_MIN}}};
  return facts;
}

inline constexpr std::int64_t kStagingBytes = std::int64_t{64} << 10U;

/// Saves the model as step `step` and returns the checkpoint's folder.
inline std::filesystem::path save_small(SmallModel& model, const std::filesystem::path& dir,
                                        std::int64_t step) {
  checkpoint::CheckpointWriter writer(kStagingBytes);
  return writer
      .save(dir, small_facts(step), model.tensors, {{"host", "here"}}, *model.device, model.ranks())
      .path;
}

}  // namespace ulmus::test
