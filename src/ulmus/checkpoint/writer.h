#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ulmus/checkpoint/manifest.h"
#include "ulmus/checkpoint/tensor_hash.h"
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
  /// Old checkpoints and leftovers that should have gone and could not be removed, a line each with
  /// the reason; on the first rank. The new checkpoint is whole all the same.
  std::vector<std::string> not_removed = {};
};

/// Saves checkpoints. Owns the one staging buffer through which tensors leave the device, taken
/// here and never grown (design, law 6).
///
/// A save has two halves: every rank writes what it owns; then the first rank writes the manifest
/// and gives the folder its name. Between them the ranks talk, and only then: save() does it all in
/// one go, while a save that start() began lets its files be written by a thread of its own and
/// asks to be taken on by advance().
class CheckpointWriter {
 public:
  /// After each save all but the newest `keep` checkpoints of the folder go; kKeepAll leaves them.
  static constexpr std::int64_t kKeepAll = 0;

  /// `staging_bytes` is rounded down to whole blocks of f64; Error when less than one.
  explicit CheckpointWriter(std::int64_t staging_bytes, SaveHooks hooks = {},
                            std::int64_t keep = kKeepAll);
  /// Waits for the thread of a pending save, which is given up.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  /// Writes <checkpoints_dir>/step-NNNNNNNN. Collective over `ranks`, on a file system that they
  /// share: every rank gives the same facts and names, and writes the blocks that it owns. `facts`
  /// without `tensors`, which come from the refs in any order: files and manifest are sorted by
  /// name, and their bytes depend on the facts and the values alone, not on who owned what.
  ///
  /// The checkpoint appears by one atomic rename after every file is flushed. Whatever happens
  /// before leaves earlier checkpoints as they are; leftovers of a crash are removed by the next
  /// save. A checkpoint of the same step is replaced, atomically too.
  ///
  /// Error, with nothing left behind before the rename (after it the new checkpoint is there,
  /// whole, even when flushing the folder fails): too little free space (checked before anything is
  /// written), a value that is not finite (the tensor is named, law 9), a folder that cannot be
  /// written, a name twice; on every rank when it happens on one. What cannot be removed is no
  /// error: the report lists it.
  SaveReport save(const std::filesystem::path& checkpoints_dir, const Manifest& facts,
                  std::span<const TensorRef> tensors, const Info& info, Device& device,
                  comm::Communicator& ranks);

  /// Before a run that is to end in a save: InputError on every rank, naming the folder, where its
  /// file system has no room for one. Leftovers of a crash go, and nothing is written. Collective.
  void expect_room(const std::filesystem::path& checkpoints_dir, const Manifest& facts,
                   std::span<const TensorRef> tensors, const Info& info,
                   comm::Communicator& ranks) const;

  /// Staging that start() needs for these.
  static std::int64_t snapshot_bytes(std::span<const TensorRef> tensors);

  /// Begins the same save behind the caller: copies what this rank owns into the staging buffer
  /// and returns; the tensors may change from then on. Collective. Errors as save(), of which those
  /// of writing come out of advance() or finish(). At most one save at a time.
  void start(const std::filesystem::path& checkpoints_dir, const Manifest& facts,
             std::span<const TensorRef> tensors, const Info& info, Device& device,
             comm::Communicator& ranks);
  /// A save was started and is not finished: the same on every rank.
  bool is_pending() const { return saving_ != nullptr; }
  /// This rank's thread still writes. When no rank's does, advance() does not wait.
  bool is_busy() const;
  /// Takes a pending save to its next half or to its end, whose report it returns. Collective.
  std::optional<SaveReport> advance(comm::Communicator& ranks);
  /// Waits until a pending save is done. Collective.
  SaveReport finish(comm::Communicator& ranks);

 private:
  enum class Half : std::uint8_t { kTensors, kManifest };
  /// The bytes of a piece of the n-th tensor.
  using ReadPiece = std::function<std::span<const std::byte>(std::size_t, const Piece&)>;
  /// A save on its way.
  struct Saving {
    Manifest manifest;               ///< its hashes are this rank's parts until they are added up
    std::vector<TensorRef> tensors;  ///< in the manifest's order
    Info info;
    std::filesystem::path part;  ///< the folder's name until all is written
    SaveReport report;
    bool is_first = false;
    Half half = Half::kTensors;
    std::launch policy = std::launch::deferred;  ///< of the thread that writes
    ReadPiece read_piece;
  };

  void begin(const std::filesystem::path& checkpoints_dir, const Manifest& facts,
             std::span<const TensorRef> tensors, const Info& info, comm::Communicator& ranks);
  void launch();
  void check_room(const Saving& saving) const;
  void create_files(const Saving& saving) const;
  ReadPiece piece_by_piece(Device& device);
  ReadPiece snapshot(Device& device);
  void write_tensors(Saving& saving) const;
  std::uint64_t write_tensor(SafetensorsWriter& file, const Saving& saving,
                             std::size_t index) const;
  void write_manifest(Saving& saving) const;
  void clean_up(Saving& saving) const;
  void give_up();

  std::int64_t staging_elements_;
  std::unique_ptr<std::byte[]> staging_;
  SaveHooks hooks_;
  std::int64_t keep_;
  std::unique_ptr<Saving> saving_;  ///< null when none is pending
  std::future<void> half_done_;     ///< last, since its thread uses the others
};

}  // namespace ulmus::checkpoint
