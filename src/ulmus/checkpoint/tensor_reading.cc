#include "ulmus/checkpoint/tensor_reading.h"

#include <algorithm>

#include "ulmus/base/check.h"
#include "ulmus/base/error.h"
#include "ulmus/base/strict_json.h"
#include "ulmus/checkpoint/finite.h"

namespace ulmus::checkpoint {

namespace fs = std::filesystem;

namespace {

/// What a thread reads and hashes at once: small enough to stay in its cache.
constexpr std::int64_t kHashedBytes = std::int64_t{256} << 10U;
/// A thread's part of a piece. Threads wait for each other after each.
constexpr std::int64_t kThreadBytes = std::int64_t{1} << 20U;

/// One line of what a header promises.
std::string described(const FileTensor& tensor) {
  std::string shape;
  for (const std::int64_t size : tensor.shape) {
    shape += concat(shape.empty() ? "" : ", ", size);
  }
  return concat("[", shape, "] ", name_of(tensor.dtype), " at byte ", tensor.offset);
}

/// A header that is well formed but not the manifest's: says in which tensor they differ.
[[noreturn]] void fail_header(const SafetensorsFile& file, const std::vector<FileTensor>& wanted) {
  const std::string place = file.path().string();
  for (const FileTensor& tensor : wanted) {
    const FileTensor* found = file.find(tensor.name);
    if (found == nullptr) {
      fail_input(place, ": tensor ", printable(tensor.name), " of the manifest is missing");
    }
    if (*found != tensor) {
      fail_input(place, ": tensor ", printable(tensor.name), ": file ", described(*found),
                 ", manifest ", described(tensor));
    }
  }
  for (const FileTensor& tensor : file.tensors()) {
    const auto is_it = [&](const FileTensor& other) { return other.name == tensor.name; };
    if (std::none_of(wanted.begin(), wanted.end(), is_it)) {
      fail_input(place, ": tensor ", printable(tensor.name), " is not in the manifest");
    }
  }
  fail_input(place, ": the header is not the one that was written: damaged or edited");
}

}  // namespace

SafetensorsFile open_checked(const fs::path& path,
                             const std::vector<const ManifestTensor*>& tensors) {
  SafetensorsFile file(path);
  const std::vector<FileTensor> wanted = file_tensors(tensors);
  if (file.header() != safetensors_header(wanted, {})) fail_header(file, wanted);
  return file;
}

void ReadFindings::add(const ReadFindings& other) {
  hash += other.hash;
  if (other.nonfinite < 0) return;
  nonfinite = nonfinite < 0 ? other.nonfinite : std::min(nonfinite, other.nonfinite);
}

ReadFindings look_at(const ManifestTensor& tensor, std::int64_t begin, std::int64_t end,
                     std::span<const std::byte> bytes) {
  const std::int64_t numel = tensor.shape.numel();
  TensorHash hash({numel, tensor.slice_elements, begin, end}, size_of(tensor.dtype));
  hash.add_blocks(begin, end, bytes);
  const std::int64_t bad = first_nonfinite(bytes, tensor.dtype);
  return {.hash = hash.value(),
          .nonfinite = bad < 0 ? -1 : block_begin(begin, numel, tensor.slice_elements) + bad};
}

void check_findings(const fs::path& dir, const ManifestTensor& tensor,
                    const ReadFindings& findings) {
  const std::string place =
      concat((dir / tensor.file).string(), ": tensor ", printable(tensor.name));
  if (findings.hash != tensor.hash) {
    fail_input(place, ": its data have hash ", hash_text(findings.hash), ", the manifest says ",
               hash_text(tensor.hash), ": damaged");
  }
  if (findings.nonfinite >= 0) fail_input(place, ": NaN or Inf at element ", findings.nonfinite);
}

BlockReader::BlockReader(ThreadPool& pool)
    : pool_(pool),
      buffer_bytes_(static_cast<std::size_t>(pool.num_threads() * kThreadBytes)),
      buffer_(std::make_unique_for_overwrite<std::byte[]>(buffer_bytes_)) {}

ReadFindings BlockReader::read(const SafetensorsFile& file, const ManifestTensor& tensor,
                               const BlockRange& blocks, const Use& use) {
  const FileTensor* entry = file.find(tensor.name);
  ULMUS_CHECK(entry != nullptr, tensor.name);
  const std::int64_t element_bytes = size_of(tensor.dtype);
  const auto byte_of = [&](std::int64_t element) { return element * element_bytes; };
  std::vector<ReadFindings> found(static_cast<std::size_t>(pool_.num_threads()));
  const std::int64_t most = static_cast<std::int64_t>(buffer_bytes_) / element_bytes;
  for_pieces(blocks, most, [&](const Piece& piece) {
    const auto bytes_of = [&](const Piece& part) {
      return std::span(buffer_.get() + byte_of(part.element_begin - piece.element_begin),
                       static_cast<std::size_t>(byte_of(part.element_end - part.element_begin)));
    };
    const auto read_part = [&](std::int64_t begin, std::int64_t end, int thread_idx) {
      BlockRange range = blocks;
      range.begin = piece.block_begin + begin;
      range.end = piece.block_begin + end;
      for_pieces(range, kHashedBytes / element_bytes, [&](const Piece& part) {
        const std::span<std::byte> bytes = bytes_of(part);
        file.read(*entry, byte_of(part.element_begin), bytes);
        found[static_cast<std::size_t>(thread_idx)].add(
            look_at(tensor, part.block_begin, part.block_end, bytes));
      });
    };
    pool_.for_ranges(piece.block_end - piece.block_begin, 1, read_part);
    use(bytes_of(piece), piece);
  });
  ReadFindings sum;
  for (const ReadFindings& part : found)
    sum.add(part);
  return sum;
}

}  // namespace ulmus::checkpoint
