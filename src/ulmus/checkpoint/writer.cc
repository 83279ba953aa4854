#include "ulmus/checkpoint/writer.h"

#include <fcntl.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "ulmus/base/check.h"
#include "ulmus/base/error.h"
#include "ulmus/base/file.h"
#include "ulmus/base/strict_json.h"
#include "ulmus/checkpoint/finite.h"
#include "ulmus/checkpoint/folder.h"
#include "ulmus/checkpoint/info.h"
#include "ulmus/checkpoint/safetensors.h"
#include "ulmus/checkpoint/tensor_hash.h"
#include "ulmus/comm/agreement.h"

namespace ulmus::checkpoint {

namespace fs = std::filesystem;

namespace {

/// Beyond the bytes of the files: folder entries, and room for logs to go on.
constexpr std::int64_t kMarginBytes = std::int64_t{4} << 20U;
/// Every file ends in a block of the file system that it does not fill.
constexpr std::int64_t kFileSlackBytes = 4096;

std::vector<const TensorRef*> sorted_by_name(std::span<const TensorRef> tensors) {
  std::vector<const TensorRef*> sorted;
  for (const TensorRef& tensor : tensors) {
    ULMUS_CHECK(!tensor.name.empty() && !tensor.file_group.empty(), "tensor ",
                printable(tensor.name), " of group ", printable(tensor.file_group),
                ": a name is missing");
    ULMUS_CHECK(is_float(tensor.view.dtype()), tensor.name, " is of ", tensor.view.dtype());
    ULMUS_CHECK(tensor.view.is_contiguous(), tensor.name, " is not contiguous");
    num_blocks(tensor.shape.numel(), tensor.blocks.slice_elements);
    ULMUS_CHECK(tensor.blocks.numel == tensor.shape.numel() &&
                    tensor.view.numel() == tensor.blocks.num_elements(),
                tensor.name, " ", tensor.shape, ": ", tensor.view.numel(),
                " elements for blocks of ", tensor.blocks.num_elements());
    sorted.push_back(&tensor);
  }
  std::sort(sorted.begin(), sorted.end(),
            [](const TensorRef* a, const TensorRef* b) { return a->name < b->name; });
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    ULMUS_CHECK(sorted[i - 1]->name != sorted[i]->name, "tensor ", sorted[i]->name,
                " is given twice");
  }
  return sorted;
}

/// `facts` with its tensors, hashes still zero. The text of the manifest has its final length.
Manifest planned(const Manifest& facts, const std::vector<const TensorRef*>& sorted) {
  ULMUS_CHECK(facts.tensors.empty(), "the tensors of a manifest are filled in by the save");
  ULMUS_CHECK(facts.step >= 0 && facts.tokens >= 0 && facts.data_position >= 0, "step ", facts.step,
              ", tokens ", facts.tokens, ", data position ", facts.data_position);
  Manifest manifest = facts;
  std::map<std::string, std::int64_t> file_bytes;
  for (const TensorRef* tensor : sorted) {
    const std::string file = tensor->file_group + ".safetensors";
    ULMUS_CHECK(is_plain_file_name(file), tensor->name, ": file name ", printable(file));
    std::int64_t& end = file_bytes[file];
    const std::int64_t bytes = tensor->shape.numel() * size_of(tensor->view.dtype());
    manifest.tensors.push_back({.name = tensor->name,
                                .file = file,
                                .dtype = tensor->view.dtype(),
                                .shape = tensor->shape,
                                .slice_elements = tensor->blocks.slice_elements,
                                .offset = end,
                                .bytes = bytes,
                                .hash = 0});
    end += bytes;
  }
  return manifest;
}

std::int64_t length_of(const std::string& text) { return static_cast<std::int64_t>(text.size()); }

std::int64_t planned_bytes(const Manifest& manifest, const Info& info) {
  std::int64_t bytes = length_of(to_json(manifest)) + length_of(to_json(info));
  for (const auto& [file, tensors] : tensors_by_file(manifest)) {
    bytes += length_of(safetensors_header(file_tensors(tensors), {}));
    for (const ManifestTensor* tensor : tensors)
      bytes += tensor->bytes;
  }
  return bytes;
}

void write_text(const fs::path& path, const std::string& text) {
  FileWriter file(path);
  file.write(text);
  file.sync_and_close();
}

/// Gives `part` the name `target` in one atomic step. What had the name before has `part` after.
void swap_in(const fs::path& part, const fs::path& target) {
  const bool replaces = fs::exists(target);
  const unsigned flags = replaces ? RENAME_EXCHANGE : RENAME_NOREPLACE;
  if (::renameat2(AT_FDCWD, part.c_str(), AT_FDCWD, target.c_str(), flags) == 0) return;
  if (!replaces && ::rename(part.c_str(), target.c_str()) == 0) return;
  fail("cannot rename ", part.string(), " to ", target.string(), ": ", std::strerror(errno),
       replaces ? "; the file system cannot exchange two folders: move the old one away" : "");
}

/// Adds up the ranks' parts of every hash, mod 2^64.
void add_hashes(Manifest& manifest, comm::Communicator& ranks) {
  std::vector<std::int64_t> parts;
  parts.reserve(manifest.tensors.size());
  for (const ManifestTensor& tensor : manifest.tensors)
    parts.push_back(std::bit_cast<std::int64_t>(tensor.hash));
  ranks.all_reduce(parts, comm::ReduceOp::kSum);
  for (std::size_t i = 0; i < parts.size(); ++i)
    manifest.tensors[i].hash = std::bit_cast<std::uint64_t>(parts[i]);
}

void make_folder(const fs::path& path) {
  std::error_code error;
  const bool is_new = fs::create_directories(path, error);
  if (error) fail("cannot make folder ", path.string(), ": ", error.message());
  if (is_new) sync_directory(fs::absolute(path).lexically_normal().parent_path());
}

}  // namespace

CheckpointWriter::CheckpointWriter(std::int64_t staging_bytes, SaveHooks hooks)
    : staging_elements_(staging_bytes / size_of(DType::kF64) / kBlockElements * kBlockElements),
      hooks_(std::move(hooks)) {
  ULMUS_CHECK(staging_elements_ > 0, "staging of ", staging_bytes, " bytes, at least ",
              kBlockElements * size_of(DType::kF64));
  staging_ = std::make_unique<std::byte[]>(
      static_cast<std::size_t>(staging_elements_ * size_of(DType::kF64)));
}

SaveReport CheckpointWriter::save(const fs::path& checkpoints_dir, const Manifest& facts,
                                  std::span<const TensorRef> tensors, const Info& info,
                                  Device& device, comm::Communicator& ranks) {
  ULMUS_CHECK(device.backend() != Backend::kMeta, "a meta device has no values to save");
  ULMUS_CHECK(!tensors.empty(), "a checkpoint without tensors");
  const std::vector<const TensorRef*> sorted = sorted_by_name(tensors);
  Manifest manifest = planned(facts, sorted);
  const bool is_first = ranks.rank() == 0;
  const fs::path target = checkpoints_dir / folder_name(facts.step);
  fs::path part = target;
  part += ".part";
  SaveReport report{.path = target,
                    .tensors = static_cast<std::int64_t>(sorted.size()),
                    .bytes = planned_bytes(manifest, info)};
  comm::agree(ranks, [&] {
    if (is_first) check_room(checkpoints_dir, target, report.bytes, manifest);
  });
  try {
    comm::agree(ranks, [&] {
      if (is_first) create_files(part, manifest);
    });
    comm::agree(ranks, [&] { write_ranges(part, manifest, sorted, device, is_first); });
    add_hashes(manifest, ranks);
    comm::agree(ranks, [&] {
      if (is_first) finish(part, target, manifest, info);
    });
  } catch (...) {
    std::error_code ignored;
    if (is_first) fs::remove_all(part, ignored);
    throw;
  }
  comm::agree(ranks, [&] {
    if (!is_first) return;
    sync_directory(checkpoints_dir);
    remove_leftovers(checkpoints_dir);  // a checkpoint of the same step that was replaced
  });
  return report;
}

void CheckpointWriter::check_room(const fs::path& checkpoints_dir, const fs::path& target,
                                  std::int64_t bytes, const Manifest& manifest) {
  make_folder(checkpoints_dir);
  remove_leftovers(checkpoints_dir);
  const auto files = static_cast<std::int64_t>(tensors_by_file(manifest).size()) + 2;
  const std::int64_t needed = bytes + files * kFileSlackBytes + kMarginBytes;
  const std::int64_t available = hooks_.free_bytes(checkpoints_dir);
  if (available >= needed) return;
  fail("cannot save ", target.string(), ": ", needed, " bytes are needed, ", available,
       " are free; earlier checkpoints are untouched");
}

void CheckpointWriter::create_files(const fs::path& part, const Manifest& manifest) {
  make_folder(part);
  hooks_.at(SavePoint::kFolderMade);
  for (const auto& [name, tensors] : tensors_by_file(manifest))
    SafetensorsWriter(part / name, file_tensors(tensors), {}, RangeWriter::Open::kCreate);
}

/// The blocks of this rank, and their part of each hash. The first rank flushes every file, since
/// it wrote their headers.
void CheckpointWriter::write_ranges(const fs::path& part, Manifest& manifest,
                                    const std::vector<const TensorRef*>& sorted, Device& device,
                                    bool is_first) {
  for (const auto& [name, tensors] : tensors_by_file(manifest)) {
    const auto index_of = [&](const ManifestTensor* tensor) {
      return static_cast<std::size_t>(tensor - manifest.tensors.data());
    };
    const bool has_blocks = std::ranges::any_of(tensors, [&](const ManifestTensor* tensor) {
      return sorted[index_of(tensor)]->blocks.num_blocks() > 0;
    });
    if (!has_blocks && !is_first) continue;
    SafetensorsWriter file(part / name, file_tensors(tensors), {}, RangeWriter::Open::kExisting);
    for (const ManifestTensor* tensor : tensors) {
      const std::size_t index = index_of(tensor);
      manifest.tensors[index].hash = write_range(file, *tensor, *sorted[index], device);
    }
    file.sync_and_close();
    hooks_.at(SavePoint::kFileWritten);
  }
}

std::uint64_t CheckpointWriter::write_range(SafetensorsWriter& file, const ManifestTensor& entry,
                                            const TensorRef& tensor, Device& device) {
  const DType dtype = tensor.view.dtype();
  const ConstTensorView flat = tensor.view.reshape({tensor.view.numel()});
  const std::int64_t first = tensor.blocks.element_begin();
  TensorHash hash(tensor.blocks, size_of(dtype));
  for_pieces(tensor.blocks, staging_elements_, [&](const Piece& piece) {
    const std::int64_t count = piece.element_end - piece.element_begin;
    const std::span<std::byte> bytes(staging_.get(),
                                     static_cast<std::size_t>(count * size_of(dtype)));
    device.copy_to_host(bytes, flat.rows(piece.element_begin - first, piece.element_end - first));
    const std::int64_t bad = first_nonfinite(bytes, dtype);
    if (bad >= 0) {
      fail("checkpoint refused: ", tensor.name, " holds NaN or Inf at element ",
           piece.element_begin + bad, " of ", tensor.shape);
    }
    hash.add_blocks(piece.block_begin, piece.block_end, bytes);
    file.write(entry.offset + piece.element_begin * size_of(dtype), bytes);
    hooks_.at(SavePoint::kPieceWritten);
  });
  ULMUS_DCHECK(hash.is_complete(), tensor.name);
  return hash.value();
}

void CheckpointWriter::finish(const fs::path& part, const fs::path& target,
                              const Manifest& manifest, const Info& info) {
  write_text(part / kInfoName, to_json(info));
  hooks_.at(SavePoint::kInfoWritten);
  write_text(part / kManifestName, to_json(manifest));
  hooks_.at(SavePoint::kManifestWritten);
  sync_directory(part);
  hooks_.at(SavePoint::kFolderFlushed);
  swap_in(part, target);
  hooks_.at(SavePoint::kRenamed);
}

std::int64_t checkpoint_bytes(const Manifest& facts, std::span<const TensorRef> tensors,
                              const Info& info) {
  return planned_bytes(planned(facts, sorted_by_name(tensors)), info);
}

}  // namespace ulmus::checkpoint
