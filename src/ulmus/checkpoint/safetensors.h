#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ulmus/base/file.h"
#include "ulmus/tensor/dtype.h"

/// The safetensors file format, as the Hugging Face ecosystem reads and writes it:
///
///   8 bytes   header length n, little-endian
///   n bytes   header: JSON, {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [b, e]}},
///             optionally {"__metadata__": {"key": "text"}}; padded with spaces to 8 bytes
///   the rest  data; offsets count from its start, tensors leave no hole and no overlap
namespace ulmus::checkpoint {

/// Element types of the format that this reader knows, a superset of those on devices.
enum class FileDType : std::uint8_t {
  kF64,
  kF32,
  kF16,
  kBF16,
  kI64,
  kI32,
  kI16,
  kI8,
  kU64,
  kU32,
  kU16,
  kU8,
  kBool,
};

std::int64_t size_of(FileDType dtype);
/// "F32", "BF16", ...
std::string_view name_of(FileDType dtype);
/// Nothing when no type has this name.
std::optional<FileDType> file_dtype_named(std::string_view name);
FileDType file_dtype_of(DType dtype);

/// One tensor of a file.
struct FileTensor {
  std::string name;
  FileDType dtype = FileDType::kF32;
  std::vector<std::int64_t> shape;
  std::int64_t offset = 0;  ///< of its first byte, from the start of the data
  std::int64_t bytes = 0;
  friend bool operator==(const FileTensor&, const FileTensor&) = default;
};
using FileMetadata = std::map<std::string, std::string>;

/// Elements of `shape`; nothing when a dimension is negative or the product times `element_bytes`
/// leaves 63 bits.
std::optional<std::int64_t> checked_numel(std::span<const std::int64_t> shape,
                                          std::int64_t element_bytes);

/// Gives each tensor its bytes and its offset, one after the other in the order given.
/// Error when a shape overflows.
void place_one_after_another(std::vector<FileTensor>& tensors);

/// Everything before the data, the 8 bytes of length included. The same tensors give the same
/// bytes. Error on an empty, reserved or repeated name.
std::string safetensors_header(std::span<const FileTensor> tensors, const FileMetadata& metadata);

/// Writes the data of a file in pieces, in any order; other processes may write other pieces.
class SafetensorsWriter {
 public:
  /// kCreate writes the header and gives the file its length; kExisting continues a file that was
  /// created with the same tensors and metadata. `tensors` need no offsets or bytes.
  SafetensorsWriter(const std::filesystem::path& path, std::vector<FileTensor> tensors,
                    const FileMetadata& metadata, RangeWriter::Open open);
  /// `offset` counts from the start of the data. Error when the bytes leave the data.
  void write(std::int64_t offset, std::span<const std::byte> bytes);
  /// Flushes to the disk.
  void sync_and_close() { file_.sync_and_close(); }

 private:
  std::filesystem::path path_;
  RangeWriter file_;
  std::int64_t data_begin_ = 0;
  std::int64_t data_bytes_ = 0;
};

/// Reads a file that nobody vouches for. Every length, offset and shape is checked here, once;
/// after construction the tensors cover the data of the file exactly once.
class SafetensorsFile {
 public:
  /// InputError naming the file, and the tensor where there is one: absurd header length, broken
  /// JSON, repeated or unknown keys, unknown dtype, sizes that disagree, overlaps, holes, bytes
  /// after the last tensor.
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  /// In the order of their data.
  const std::vector<FileTensor>& tensors() const { return tensors_; }
  /// Everything before the data, as safetensors_header writes it.
  const std::string& header() const { return header_; }
  /// Nothing when there is no such tensor.
  const FileTensor* find(std::string_view name) const;
  /// Fills `to` with the bytes of a tensor of this file from its `begin`-th on. May be called by
  /// several threads at a time. InputError naming the file and the place when they cannot be read,
  /// Error when they are not all the tensor's.
  void read(const FileTensor& tensor, std::int64_t begin, std::span<std::byte> to) const;

 private:
  RangeReader file_;
  std::string header_;
  std::vector<FileTensor> tensors_;
  std::unordered_map<std::string, std::size_t> by_name_;
};

}  // namespace ulmus::checkpoint
