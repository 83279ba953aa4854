#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "ulmus/checkpoint/manifest.h"
#include "ulmus/checkpoint/tensor_ref.h"
#include "ulmus/comm/communicator.h"
#include "ulmus/device/device.h"

namespace ulmus::checkpoint {

/// Moments of a save at which tests break it off.
enum class SavePoint : std::uint8_t {
  kFolderMade,
  kPieceWritten,  ///< once a piece of each tensor
  kFileWritten,   ///< flushed, once a tensor file
  kInfoWritten,
  kManifestWritten,
  kFolderFlushed,  ///< all of it is on the disk, still under the name that does not count
  kRenamed,        ///< the checkpoint is there
};

/// What a save asks of its surroundings; tests put faults here.
struct SaveHooks {
  std::function<void(SavePoint)> at = [](SavePoint) {};
  std::function<std::int64_t(const std::filesystem::path&)> free_bytes = ulmus::free_bytes;
};

struct SaveReport {
  std::filesystem::path path;
  std::int64_t tensors = 0;
  std::int64_t bytes = 0;  ///< of all files
};

/// Saves checkpoints. Owns the one staging buffer through which tensors leave the device, taken
/// here and never grown (design, law 6).
class CheckpointWriter {
 public:
  /// `staging_bytes` is rounded down to whole blocks of f64; Error when less than one.
  explicit CheckpointWriter(std::int64_t staging_bytes, SaveHooks hooks = {});

  /// Writes <checkpoints_dir>/step-NNNNNNNN. Collective over `ranks`, on a file system that they
  /// share: every rank gives the same facts and names, and writes the blocks that it owns. `facts`
  /// without `tensors`, which come from the refs in any order: files and manifest are sorted by
  /// name, and their bytes depend on the facts and the values alone, not on who owned what.
  ///
  /// The checkpoint appears by one atomic rename after every file is flushed. Whatever happens
  /// before leaves earlier checkpoints as they are; leftovers of a crash are removed here, by the
  /// next save. A checkpoint of the same step is replaced, atomically too.
  ///
  /// Error, with nothing left behind before the rename (after it the new checkpoint is there,
  /// whole, even when flushing the folder or removing the old one fails): too little free space
  /// (checked before anything is written), a value that is not finite (the tensor is named, law 9),
  /// a folder that cannot be written, a name twice; on every rank when it happens on one.
  SaveReport save(const std::filesystem::path& checkpoints_dir, const Manifest& facts,
                  std::span<const TensorRef> tensors, const Info& info, Device& device,
                  comm::Communicator& ranks);

 private:
  void check_room(const std::filesystem::path& checkpoints_dir, const std::filesystem::path& target,
                  std::int64_t bytes, const Manifest& manifest);
  void create_files(const std::filesystem::path& part, const Manifest& manifest);
  void write_ranges(const std::filesystem::path& part, Manifest& manifest,
                    const std::vector<const TensorRef*>& sorted, Device& device, bool is_first);
  std::uint64_t write_range(SafetensorsWriter& file, const ManifestTensor& entry,
                            const TensorRef& tensor, Device& device);
  void finish(const std::filesystem::path& part, const std::filesystem::path& target,
              const Manifest& manifest, const Info& info);

  std::int64_t staging_elements_;
  std::unique_ptr<std::byte[]> staging_;
  SaveHooks hooks_;
};

/// Bytes that a save of these takes on the disk, file headers and manifest included.
std::int64_t checkpoint_bytes(const Manifest& facts, std::span<const TensorRef> tensors,
                              const Info& info);

}  // namespace ulmus::checkpoint
