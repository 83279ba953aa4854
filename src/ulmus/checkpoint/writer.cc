#include "ulmus/checkpoint/writer.h"

#include <fcntl.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
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
/// What is checked, hashed and written at once: small enough to stay in the caches meanwhile.
constexpr std::int64_t kWrittenElements = std::int64_t{64} << 10U;
/// Every file ends in a block of the file system that it does not fill.
constexpr std::int64_t kFileSlackBytes = 4096;

std::vector<TensorRef> sorted_by_name(std::span<const TensorRef> tensors) {
  ULMUS_CHECK(!tensors.empty(), "a checkpoint without tensors");
  std::vector<TensorRef> sorted(tensors.begin(), tensors.end());
  for (const TensorRef& tensor : sorted) {
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
  }
  std::ranges::sort(sorted, {}, &TensorRef::name);
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    ULMUS_CHECK(sorted[i - 1].name != sorted[i].name, "tensor ", sorted[i].name, " is given twice");
  }
  return sorted;
}

/// `facts` with its tensors, hashes still zero. The text of the manifest has its final length.
Manifest planned(const Manifest& facts, const std::vector<TensorRef>& sorted) {
  ULMUS_CHECK(facts.tensors.empty(), "the tensors of a manifest are filled in by the save");
  ULMUS_CHECK(facts.step >= 0 && facts.tokens >= 0 && facts.data_position >= 0, "step ", facts.step,
              ", tokens ", facts.tokens, ", data position ", facts.data_position);
  Manifest manifest = facts;
  std::map<std::string, std::int64_t> file_bytes;
  for (const TensorRef& tensor : sorted) {
    const std::string file = tensor.file_group + ".safetensors";
    ULMUS_CHECK(is_plain_file_name(file), tensor.name, ": file name ", printable(file));
    std::int64_t& end = file_bytes[file];
    const std::int64_t bytes = tensor.shape.numel() * size_of(tensor.view.dtype());
    manifest.tensors.push_back({.name = tensor.name,
                                .file = file,
                                .dtype = tensor.view.dtype(),
                                .shape = tensor.shape,
                                .slice_elements = tensor.blocks.slice_elements,
                                .offset = end,
                                .bytes = bytes,
                                .hash = 0});
    end += bytes;
  }
  return manifest;
}

std::int64_t planned_bytes(const Manifest& manifest, const Info& info) {
  auto bytes = static_cast<std::int64_t>(to_json(manifest).size() + to_json(info).size());
  for (const auto& [file, tensors] : tensors_by_file(manifest)) {
    bytes += static_cast<std::int64_t>(safetensors_header(file_tensors(tensors), {}).size());
    for (const ManifestTensor* tensor : tensors)
      bytes += tensor->bytes;
  }
  return bytes;
}

/// What the file system may add to them, and a margin.
std::int64_t slack_bytes(const Manifest& manifest) {
  const auto files = static_cast<std::int64_t>(tensors_by_file(manifest).size()) + 2;
  return files * kFileSlackBytes + kMarginBytes;
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

CheckpointWriter::CheckpointWriter(std::int64_t staging_bytes, SaveHooks hooks, std::int64_t keep)
    : staging_elements_(staging_bytes / size_of(DType::kF64) / kBlockElements * kBlockElements),
      hooks_(std::move(hooks)),
      keep_(keep) {
  ULMUS_CHECK(staging_elements_ > 0, "staging of ", staging_bytes, " bytes, at least ",
              kBlockElements * size_of(DType::kF64));
  // Zeros, so that every page is taken now.
  staging_ = std::make_unique<std::byte[]>(
      static_cast<std::size_t>(staging_elements_ * size_of(DType::kF64)));
}

CheckpointWriter::~CheckpointWriter() {
  if (half_done_.valid()) half_done_.wait();
}

std::int64_t CheckpointWriter::snapshot_bytes(std::span<const TensorRef> tensors) {
  constexpr std::int64_t kUnit = kBlockElements * size_of(DType::kF64);
  std::int64_t bytes = 0;
  for (const TensorRef& tensor : tensors)
    bytes += tensor.view.numel() * size_of(tensor.view.dtype());
  return (bytes + kUnit - 1) / kUnit * kUnit;
}

SaveReport CheckpointWriter::save(const fs::path& checkpoints_dir, const Manifest& facts,
                                  std::span<const TensorRef> tensors, const Info& info,
                                  Device& device, comm::Communicator& ranks) {
  ULMUS_CHECK(device.backend() != Backend::kMeta, "a meta device has no values to save");
  begin(checkpoints_dir, facts, tensors, info, ranks);
  saving_->read_piece = piece_by_piece(device);
  saving_->policy = std::launch::deferred;
  launch();
  return finish(ranks);
}

void CheckpointWriter::start(const fs::path& checkpoints_dir, const Manifest& facts,
                             std::span<const TensorRef> tensors, const Info& info, Device& device,
                             comm::Communicator& ranks) {
  ULMUS_CHECK(device.backend() != Backend::kMeta, "a meta device has no values to save");
  ULMUS_CHECK(snapshot_bytes(tensors) <= staging_elements_ * size_of(DType::kF64), "a snapshot of ",
              snapshot_bytes(tensors), " bytes, staging of ",
              staging_elements_ * size_of(DType::kF64));
  begin(checkpoints_dir, facts, tensors, info, ranks);
  saving_->read_piece = snapshot(device);
  saving_->policy = std::launch::async;
  launch();
}

bool CheckpointWriter::is_busy() const {
  return half_done_.valid() &&
         half_done_.wait_for(std::chrono::seconds(0)) == std::future_status::timeout;
}

std::optional<SaveReport> CheckpointWriter::advance(comm::Communicator& ranks) {
  ULMUS_CHECK(saving_ != nullptr, "no save is pending");
  try {
    comm::agree(ranks, [&] {
      if (half_done_.valid()) half_done_.get();
    });
    if (saving_->half == Half::kTensors) {
      add_hashes(saving_->manifest, ranks);
      saving_->half = Half::kManifest;
      launch();
      return std::nullopt;
    }
  } catch (...) {
    give_up();
    throw;
  }
  SaveReport report = std::move(saving_->report);
  saving_.reset();
  return report;
}

void CheckpointWriter::begin(const fs::path& checkpoints_dir, const Manifest& facts,
                             std::span<const TensorRef> tensors, const Info& info,
                             comm::Communicator& ranks) {
  ULMUS_CHECK(saving_ == nullptr, "a save is pending");
  std::vector<TensorRef> sorted = sorted_by_name(tensors);
  Manifest manifest = planned(facts, sorted);
  const fs::path target = checkpoints_dir / folder_name(facts.step);
  fs::path part = target;
  part += ".part";
  const SaveReport report = {.path = target,
                             .tensors = static_cast<std::int64_t>(sorted.size()),
                             .bytes = planned_bytes(manifest, info)};
  Saving saving = {.manifest = std::move(manifest),
                   .tensors = std::move(sorted),
                   .info = info,
                   .part = std::move(part),
                   .report = report,
                   .is_first = ranks.rank() == 0,
                   .read_piece = {}};
  comm::agree(ranks, [&] {
    if (saving.is_first) check_room(saving);
  });
  saving_ = std::make_unique<Saving>(std::move(saving));
  try {
    comm::agree(ranks, [&] {
      if (saving_->is_first) create_files(*saving_);
    });
  } catch (...) {
    give_up();
    throw;
  }
}

/// Lets a half of the save be written: by a thread, or by whoever waits for it.
void CheckpointWriter::launch() {
  if (saving_->half == Half::kTensors) {
    half_done_ = std::async(saving_->policy, [this] { write_tensors(*saving_); });
  } else if (saving_->is_first) {
    half_done_ = std::async(saving_->policy, [this] { write_manifest(*saving_); });
  }
}

SaveReport CheckpointWriter::finish(comm::Communicator& ranks) {
  for (;;) {
    if (std::optional<SaveReport> report = advance(ranks)) return *report;
  }
}

void CheckpointWriter::give_up() {
  if (half_done_.valid()) half_done_.wait();
  std::error_code ignored;
  if (saving_->is_first) fs::remove_all(saving_->part, ignored);
  saving_.reset();
}

void CheckpointWriter::check_room(const Saving& saving) const {
  const fs::path folder = saving.part.parent_path();
  make_folder(folder);
  const Removal removal = remove_leftovers(folder);  // clean_up() tells what stays
  std::error_code error;
  if (fs::exists(fs::symlink_status(saving.part, error))) {
    fail("cannot save ", saving.report.path.string(), ": ", saving.part.string(), " is in the way",
         removal.kept.empty() ? "" : concat("; ", removal.kept.front()));
  }
  const std::int64_t needed = saving.report.bytes + slack_bytes(saving.manifest);
  const std::int64_t available = hooks_.free_bytes(folder);
  if (available >= needed) return;
  fail("cannot save ", saving.report.path.string(), ": ", needed, " bytes are needed, ", available,
       " are free; earlier checkpoints are untouched");
}

void CheckpointWriter::expect_room(const fs::path& checkpoints_dir, const Manifest& facts,
                                   std::span<const TensorRef> tensors, const Info& info,
                                   comm::Communicator& ranks) const {
  comm::agree(ranks, [&] {
    if (ranks.rank() != 0) return;
    const Manifest manifest = planned(facts, sorted_by_name(tensors));
    const std::int64_t needed = planned_bytes(manifest, info) + slack_bytes(manifest);
    remove_leftovers(checkpoints_dir);
    fs::path folder = fs::absolute(checkpoints_dir);
    while (!fs::exists(folder))
      folder = folder.parent_path();
    const std::int64_t available = hooks_.free_bytes(folder);
    if (available >= needed) return;
    fail_input(checkpoints_dir.string(), ": a checkpoint of this run takes ", needed,
               " bytes, and ", available, " are free there");
  });
}

void CheckpointWriter::create_files(const Saving& saving) const {
  make_folder(saving.part);
  hooks_.at(SavePoint::kFolderMade);
  for (const auto& [name, tensors] : tensors_by_file(saving.manifest))
    SafetensorsWriter(saving.part / name, file_tensors(tensors), {}, RangeWriter::Open::kCreate);
}

/// Every piece passes through the staging buffer when it is asked for.
CheckpointWriter::ReadPiece CheckpointWriter::piece_by_piece(Device& device) {
  return [this, &device](std::size_t index, const Piece& piece) {
    const TensorRef& tensor = saving_->tensors[index];
    const std::int64_t first = tensor.blocks.element_begin();
    const ConstTensorView elements =
        ConstTensorView(tensor.view)
            .reshape({tensor.view.numel()})
            .rows(piece.element_begin - first, piece.element_end - first);
    const std::span<std::byte> bytes(
        staging_.get(), static_cast<std::size_t>(elements.numel() * size_of(elements.dtype())));
    device.copy_to_host(bytes, elements);
    return std::span<const std::byte>(bytes);
  };
}

/// Copies all of them into the staging buffer, one after the other, where the pieces lie.
CheckpointWriter::ReadPiece CheckpointWriter::snapshot(Device& device) {
  std::vector<std::byte*> begins;
  begins.reserve(saving_->tensors.size());
  std::byte* end = staging_.get();
  for (const TensorRef& tensor : saving_->tensors) {
    const std::int64_t bytes = tensor.view.numel() * size_of(tensor.view.dtype());
    begins.push_back(end);
    device.copy_to_host(std::span(end, static_cast<std::size_t>(bytes)),
                        ConstTensorView(tensor.view));
    end += bytes;
  }
  return [this, begins = std::move(begins)](std::size_t index, const Piece& piece) {
    const TensorRef& tensor = saving_->tensors[index];
    const std::int64_t element_bytes = size_of(tensor.view.dtype());
    const std::int64_t skipped = piece.element_begin - tensor.blocks.element_begin();
    return std::span<const std::byte>(
        begins[index] + skipped * element_bytes,
        static_cast<std::size_t>((piece.element_end - piece.element_begin) * element_bytes));
  };
}

/// The blocks of this rank, and their part of each hash. The first rank flushes every file, since
/// it wrote their headers.
void CheckpointWriter::write_tensors(Saving& saving) const {
  Manifest& manifest = saving.manifest;
  for (const auto& [name, tensors] : tensors_by_file(manifest)) {
    const auto index_of = [&](const ManifestTensor* tensor) {
      return static_cast<std::size_t>(tensor - manifest.tensors.data());
    };
    const bool has_blocks = std::ranges::any_of(tensors, [&](const ManifestTensor* tensor) {
      return saving.tensors[index_of(tensor)].blocks.num_blocks() > 0;
    });
    if (!has_blocks && !saving.is_first) continue;
    SafetensorsWriter file(saving.part / name, file_tensors(tensors), {},
                           RangeWriter::Open::kExisting);
    for (const ManifestTensor* tensor : tensors) {
      const std::size_t index = index_of(tensor);
      manifest.tensors[index].hash = write_tensor(file, saving, index);
    }
    file.sync_and_close();
    hooks_.at(SavePoint::kFileWritten);
  }
}

std::uint64_t CheckpointWriter::write_tensor(SafetensorsWriter& file, const Saving& saving,
                                             std::size_t index) const {
  const TensorRef& tensor = saving.tensors[index];
  const std::int64_t offset = saving.manifest.tensors[index].offset;
  const DType dtype = tensor.view.dtype();
  TensorHash hash(tensor.blocks, size_of(dtype));
  const std::int64_t most = std::min(staging_elements_, kWrittenElements);
  for_pieces(tensor.blocks, most, [&](const Piece& piece) {
    const std::span<const std::byte> bytes = saving.read_piece(index, piece);
    const std::int64_t bad = first_nonfinite(bytes, dtype);
    if (bad >= 0) {
      fail("checkpoint refused: ", tensor.name, " holds NaN or Inf at element ",
           piece.element_begin + bad, " of ", tensor.shape);
    }
    hash.add_blocks(piece.block_begin, piece.block_end, bytes);
    file.write(offset + piece.element_begin * size_of(dtype), bytes);
    hooks_.at(SavePoint::kPieceWritten);
  });
  ULMUS_DCHECK(hash.is_complete(), tensor.name);
  return hash.value();
}

/// What makes a checkpoint of the folder, on the first rank.
void CheckpointWriter::write_manifest(Saving& saving) const {
  const fs::path& target = saving.report.path;
  write_text(saving.part / kInfoName, to_json(saving.info));
  hooks_.at(SavePoint::kInfoWritten);
  write_text(saving.part / kManifestName, to_json(saving.manifest));
  hooks_.at(SavePoint::kManifestWritten);
  sync_directory(saving.part);
  hooks_.at(SavePoint::kFolderFlushed);
  swap_in(saving.part, target);
  hooks_.at(SavePoint::kRenamed);
  sync_directory(target.parent_path());
  clean_up(saving);
}

/// The checkpoint is there: nothing that happens to the old ones may end the run.
void CheckpointWriter::clean_up(Saving& saving) const {
  const fs::path folder = saving.report.path.parent_path();
  std::vector<std::string>& kept = saving.report.not_removed;
  const auto note = [&](const Removal& removal) {
    kept.insert(kept.end(), removal.kept.begin(), removal.kept.end());
  };
  try {
    note(remove_leftovers(folder));  // a checkpoint of the same step that was replaced, too
    if (keep_ != kKeepAll) note(prune(folder, keep_));
  } catch (const Error& error) {
    kept.emplace_back(error.what());
  }
}

}  // namespace ulmus::checkpoint
