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
/// what is damaged (opening.h), and the newest checkpoint beside this one that looks whole, when
/// bytes are missing or do not agree with their hash; the tensors hold no usable values then.
/// InputError also for a folder that cannot be read, is no checkpoint, has another format or is not
/// named after its step. On every rank when it happens on one.
LoadReport load(const std::filesystem::path& dir, std::span<const TensorRef> tensors,
                Device& device, comm::Communicator& ranks, const LoadOptions& options = {});

}  // namespace ulmus::checkpoint
