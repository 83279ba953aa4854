#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "ulmus/base/thread_pool.h"
#include "ulmus/checkpoint/manifest.h"
#include "ulmus/checkpoint/safetensors.h"
#include "ulmus/checkpoint/tensor_hash.h"

/// Reading the tensors of a checkpoint, each byte hashed on the way.
namespace ulmus::checkpoint {

/// The file that holds these tensors of a manifest, in the order of their data. InputError when it
/// is none, or when its header is not, byte for byte, the one that the manifest promises, naming
/// the first tensor in which they differ.
SafetensorsFile open_checked(const std::filesystem::path& path,
                             const std::vector<const ManifestTensor*>& tensors);

/// What reading some blocks of a tensor found.
struct ReadFindings {
  std::uint64_t hash = 0;       ///< their part
  std::int64_t nonfinite = -1;  ///< first such element, of the whole tensor; -1 for none

  void add(const ReadFindings& other);
};

/// Of blocks [begin, end) of a tensor, whose bytes these are.
ReadFindings look_at(const ManifestTensor& tensor, std::int64_t begin, std::int64_t end,
                     std::span<const std::byte> bytes);

/// InputError naming the tensor when the findings of all its blocks are not the manifest's hash, or
/// a value is not finite. `dir` is the checkpoint's folder.
void check_findings(const std::filesystem::path& dir, const ManifestTensor& tensor,
                    const ReadFindings& findings);

/// Reads blocks of tensors piece by piece. The threads of a pool share each piece: every thread
/// reads and hashes a part of it that fits its cache, in memory that is taken once.
class BlockReader {
 public:
  using Use = std::function<void(std::span<const std::byte>, const Piece&)>;

  explicit BlockReader(ThreadPool& pool);

  /// Reads some blocks of a tensor of `file`; use(bytes, piece) after each piece, in order. Their
  /// findings are not compared with anything yet. InputError when they cannot be read.
  ReadFindings read(const SafetensorsFile& file, const ManifestTensor& tensor,
                    const BlockRange& blocks, const Use& use);

 private:
  ThreadPool& pool_;
  std::size_t buffer_bytes_;
  std::unique_ptr<std::byte[]> buffer_;
};

}  // namespace ulmus::checkpoint
