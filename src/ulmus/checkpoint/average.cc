#include "ulmus/checkpoint/average.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ulmus/base/error.h"
#include "ulmus/base/file.h"
#include "ulmus/checkpoint/average_source.h"
#include "ulmus/checkpoint/folder.h"
#include "ulmus/checkpoint/info.h"
#include "ulmus/checkpoint/writer.h"
#include "ulmus/comm/thread/thread_transport.h"
#include "ulmus/device/arena.h"

namespace ulmus::checkpoint {

namespace fs = std::filesystem;

namespace {

/// What is read of each checkpoint, hashed and summed at once: small enough to stay in the caches.
constexpr std::int64_t kSummedElements = std::int64_t{64} << 10U;
constexpr std::int64_t kMeanStagingBytes = std::int64_t{1} << 20U;

/// The output's own name and its parent, however the path was written.
fs::path checked_output(const fs::path& output, std::int64_t step) {
  const fs::path absolute = fs::absolute(output).lexically_normal();
  fs::path path = absolute.has_filename() ? absolute : absolute.parent_path();
  std::error_code error;
  if (fs::exists(fs::symlink_status(path, error))) fail_input(path.string(), " exists already");
  const std::string name = path.filename().string();
  if (!may_be_named(name, step)) {
    fail_input(path.string(), ": a folder named after a step must be named ", folder_name(step),
               ", the step of the last checkpoint given; any name without step- is free");
  }
  return path;
}

template <class T>
double value_at(std::span<const std::byte> bytes, std::size_t idx) {
  T value{};
  std::memcpy(&value, bytes.data() + idx * sizeof(T), sizeof(T));
  return static_cast<double>(value);
}

/// The mean of one tensor, piece by piece: values are added as each checkpoint's bytes come.
template <class T>
class Mean {
 public:
  /// The first values are taken, not added to 0, which would turn -0 into 0.
  void add(std::span<const std::byte> bytes, std::size_t source_idx) {
    if (source_idx == 0) {
      sums_.resize(bytes.size() / sizeof(T));
      for (std::size_t i = 0; i < sums_.size(); ++i)
        sums_[i] = value_at<T>(bytes, i);
      return;
    }
    for (std::size_t i = 0; i < sums_.size(); ++i)
      sums_[i] += value_at<T>(bytes, i);
  }
  std::span<const std::byte> rounded(std::size_t num_sources) {
    rounded_.resize(sums_.size());
    for (std::size_t i = 0; i < sums_.size(); ++i)
      rounded_[i] = static_cast<T>(sums_[i] / static_cast<double>(num_sources));
    return std::as_bytes(std::span<const T>(rounded_));
  }

 private:
  std::vector<double> sums_;
  std::vector<T> rounded_;
};

template <class T>
void average_tensor(const TensorRef& out, const std::vector<AverageSource>& sources,
                    Device& device) {
  std::vector<WeightReading> readings;
  readings.reserve(sources.size());
  for (const AverageSource& source : sources)
    readings.emplace_back(source, out.name);
  const TensorView flat = out.view.reshape({out.view.numel()});
  Mean<T> mean;
  for_pieces(out.blocks, kSummedElements, [&](const Piece& piece) {
    for (std::size_t i = 0; i < readings.size(); ++i)
      mean.add(readings[i].read(piece), i);
    device.copy_to_device(flat.rows(piece.element_begin, piece.element_end),
                          mean.rounded(readings.size()));
  });
  for (const WeightReading& reading : readings)
    reading.check();
}

std::map<std::string, std::vector<double>> average_biases(
    const std::vector<AverageSource>& sources) {
  const auto& weights = sources.front().weights;
  const bool rounds_to_f32 = std::ranges::none_of(
      weights, [](const auto& entry) { return entry.second->dtype == DType::kF64; });
  std::map<std::string, std::vector<double>> means;
  for (const auto& entry : sources.front().biases) {
    std::vector<double> mean = entry.second;
    for (std::size_t i = 0; i < mean.size(); ++i) {
      for (std::size_t source = 1; source < sources.size(); ++source)
        mean[i] += sources[source].biases.at(entry.first)[i];
      mean[i] /= static_cast<double>(sources.size());
      if (rounds_to_f32) mean[i] = static_cast<double>(static_cast<float>(mean[i]));
    }
    means.emplace(entry.first, std::move(mean));
  }
  return means;
}

Manifest facts_of(const std::vector<AverageSource>& sources) {
  const Manifest& last = sources.back().manifest;
  Manifest facts;
  facts.step = last.step;
  facts.tokens = last.tokens;
  facts.data_position = last.data_position;
  facts.configuration = last.configuration;
  facts.integers = data_hashes(sources);
  facts.doubles = average_biases(sources);
  return facts;
}

/// The weights of one model, zeros.
class Weights {
 public:
  Weights(const AverageSource& like, Device& device)
      : arena_(device, MemoryClass::kParameters, capacity_of(like)) {
    for (const auto& [name, tensor] : like.weights) {
      const TensorView view = arena_.allocate(name, tensor->dtype, tensor->shape);
      refs_.push_back(TensorRef::whole(name, file_group_of(name), view, tensor->slice_elements));
    }
  }
  const std::vector<TensorRef>& refs() const { return refs_; }

 private:
  static std::int64_t capacity_of(const AverageSource& like) {
    std::int64_t bytes = 0;
    for (const auto& [name, tensor] : like.weights)
      bytes +=
          Arena::padded_elements(tensor->shape.numel(), tensor->dtype) * size_of(tensor->dtype);
    return bytes;
  }

  Arena arena_;
  std::vector<TensorRef> refs_;
};

Info info_of(std::span<const fs::path> checkpoints, const Info& info) {
  std::string averaged;
  for (const fs::path& path : checkpoints)
    averaged += concat(averaged.empty() ? "" : ", ", path.string());
  Info all = info_of_process();
  all.insert(info.begin(), info.end());
  all["averaged"] = averaged;
  return all;
}

/// Saves in a folder of its own, so that nothing beside `output` is touched, and gives the
/// checkpoint its name.
std::int64_t save_as(const fs::path& output, const Manifest& facts, const Weights& weights,
                     const Info& info, Device& device) {
  comm::World world(std::move(comm::make_thread_transports(1).front()), {});
  fs::path part = output;
  part += ".part";
  const auto remove_part = [&] {
    std::error_code ignored;
    fs::remove(part, ignored);  // only when it is empty: what else lies there is not ours
  };
  SaveReport saved;
  try {
    saved = CheckpointWriter(kMeanStagingBytes)
                .save(part, facts, weights.refs(), info, device, world.all());
  } catch (...) {
    remove_part();
    throw;
  }
  std::error_code error;
  fs::rename(saved.path, output, error);
  if (error) {
    std::error_code ignored;
    fs::remove_all(saved.path, ignored);
    remove_part();
    fail("cannot rename ", saved.path.string(), " to ", output.string(), ": ", error.message());
  }
  sync_directory(output.parent_path());
  remove_part();
  return saved.bytes;
}

}  // namespace

AverageReport average(std::span<const fs::path> checkpoints, const fs::path& output,
                      const Info& info) {
  const std::vector<AverageSource> sources = open_sources(checkpoints);
  const Manifest facts = facts_of(sources);
  AverageReport report{
      .path = checked_output(output, facts.step), .step = facts.step, .tokens = facts.tokens};
  const std::unique_ptr<Device> device = make_cpu_device(1, Backend::kRef);
  const Weights weights(sources.front(), *device);
  for (const TensorRef& tensor : weights.refs()) {
    if (tensor.view.dtype() == DType::kF64) {
      average_tensor<double>(tensor, sources, *device);
    } else {
      average_tensor<float>(tensor, sources, *device);
    }
    ++report.tensors;
    report.elements += tensor.view.numel();
  }
  report.bytes = save_as(report.path, facts, weights, info_of(checkpoints, info), *device);
  return report;
}

}  // namespace ulmus::checkpoint
