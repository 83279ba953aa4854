#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ulmus/checkpoint/manifest.h"
#include "ulmus/checkpoint/safetensors.h"
#include "ulmus/checkpoint/tensor_hash.h"
#include "ulmus/checkpoint/tensor_reading.h"

namespace ulmus::checkpoint {

/// One of the checkpoints of which a mean is formed (average.h): its facts, and its tensor files.
/// Its pointers lie in its own manifest: it may be moved, not copied.
struct AverageSource {
  std::filesystem::path given;
  Manifest manifest;
  std::map<std::string, const ManifestTensor*> weights;  ///< by name; no moments
  std::map<std::string, std::vector<double>> biases;     ///< of the routers, by name
  std::map<std::string, SafetensorsFile> files;          ///< by name, those that hold weights

  AverageSource() = default;
  AverageSource(AverageSource&&) = default;
  AverageSource& operator=(AverageSource&&) = default;
};

/// Facts and files of all, compared with each other. InputErrors as average()'s, but for the
/// output and for the bytes of tensors.
std::vector<AverageSource> open_sources(std::span<const std::filesystem::path> checkpoints);

/// Hashes of tokenizer and training data among the facts of a mean: the tokenizer of whoever knows
/// it, the data of the last.
std::map<std::string, std::vector<std::int64_t>> data_hashes(
    std::span<const AverageSource> sources);

/// The bytes of one weight in one checkpoint, read piece by piece in order.
class WeightReading {
 public:
  WeightReading(const AverageSource& source, const std::string& name);
  /// Valid until the next call. InputError when they cannot be read.
  std::span<const std::byte> read(const Piece& piece);
  /// After the last piece. InputError naming the tensor when the bytes have not the manifest's
  /// hash, or a value is not finite.
  void check() const { check_findings(source_->given, *tensor_, findings_); }

 private:
  const AverageSource* source_;
  const ManifestTensor* tensor_;
  ReadFindings findings_;
  std::vector<std::byte> bytes_;
};

}  // namespace ulmus::checkpoint
