#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ulmus/checkpoint/manifest.h"
#include "ulmus/checkpoint/tensor_ref.h"
#include "ulmus/comm/communicator.h"
#include "ulmus/device/device.h"

namespace ulmus::checkpoint {

struct LoadOptions {
  /// Tensors of the checkpoint with one of these endings are not asked for and not read; all
  /// others must be. The two of tensor_ref.h leave the optimizer's moments out.
  std::vector<std::string> left_out_suffixes = {};
  /// Called with the manifest before any tensor is compared or read; may throw.
  std::function<void(const Manifest&)> check_manifest = {};
};

struct LoadReport {
  Manifest manifest;
  std::int64_t tensors_checked = 0;   ///< hash verified and copied
  std::int64_t tensors_left_out = 0;  ///< by LoadOptions
  std::int64_t bytes = 0;             ///< of the tensors checked
};

/// Copies a checkpoint into `tensors`, in pieces, verifying the hash of each. Collective over
/// `ranks`: every rank reads the blocks that it owns, and their hashes are added up. The file of a
/// tensor is the manifest's business: `file_group` is not looked at.
///
/// InputError, with all differences and the nearest names, when the tensors are not exactly those
/// of the checkpoint in name, type, shape and slices; nothing is copied then. InputError naming
/// what is damaged, and the newest good checkpoint beside this one, when bytes are missing or do
/// not agree with their hash; the tensors hold no usable values then. On every rank when it happens
/// on one.
LoadReport load(const std::filesystem::path& dir, std::span<const TensorRef> tensors,
                Device& device, comm::Communicator& ranks, const LoadOptions& options = {});

struct VerifyReport {
  std::int64_t files_checked = 0;
  std::int64_t tensors_checked = 0;  ///< hash formed and compared
  std::int64_t bytes = 0;
  std::vector<std::string> differences;  ///< each names the file, and the tensor where there is one
  bool is_good() const { return differences.empty(); }
};

/// Looks at every byte of a checkpoint, without a model: manifest and info against their own
/// hashes, each file's header and length against the manifest, each tensor's hash and that its
/// values are finite, files that do not belong there, and the folder's name against the step.
/// What is wrong is reported, not thrown; InputError only when there is no such folder.
VerifyReport verify(const std::filesystem::path& dir);

struct FileFacts {
  std::string name;
  std::int64_t bytes = 0;
  std::int64_t tensors = 0;
};

struct ShowReport {
  Manifest manifest;
  Info info;  ///< empty when info.json is missing or damaged
  std::vector<FileFacts> files;
  std::int64_t tensor_bytes = 0;
  std::int64_t elements = 0;  ///< of all tensors, moments included
};

/// The facts of a checkpoint, from its manifest; tensor data are not read.
ShowReport show(const std::filesystem::path& dir);

}  // namespace ulmus::checkpoint
