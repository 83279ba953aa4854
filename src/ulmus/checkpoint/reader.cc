#include "ulmus/checkpoint/reader.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "ulmus/base/check.h"
#include "ulmus/base/error.h"
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

/// What is hashed and then copied: small enough to stay in the caches meanwhile.
constexpr std::int64_t kPieceElements = std::int64_t{256} << 10U;
/// Differences that a message lists; the rest are counted. Also bounds the search for near names.
constexpr std::size_t kMaxListed = 40;

void require_folder(const fs::path& dir) {
  std::error_code error;
  if (!fs::is_directory(dir, error)) fail_input(dir.string(), ": no such folder");
}

Manifest manifest_of(const fs::path& dir) {
  require_folder(dir);
  std::error_code error;
  if (!fs::exists(dir / kManifestName, error)) {
    const auto inside = newest(dir);
    fail_input(dir.string(), " has no ", kManifestName, ": not a checkpoint, or a damaged one",
               inside ? concat("; did you mean ", inside->path.string()) : "");
  }
  return read_manifest(dir / kManifestName);
}

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

/// A tensor file whose header agrees with the manifest byte for byte.
SafetensorsFile open_checked(const fs::path& path,
                             const std::vector<const ManifestTensor*>& tensors) {
  SafetensorsFile file(path);
  const std::vector<FileTensor> wanted = file_tensors(tensors);
  const std::string header = safetensors_header(wanted, {});
  if (file.header_bytes().size() != header.size() ||
      std::memcmp(file.header_bytes().data(), header.data(), header.size()) != 0) {
    fail_header(file, wanted);
  }
  return file;
}

/// What reading some blocks of a tensor found.
struct ReadFindings {
  std::uint64_t hash = 0;       ///< their part
  std::int64_t nonfinite = -1;  ///< first such element, of the whole tensor; -1 for none

  void add(const ReadFindings& other) {
    hash += other.hash;
    if (other.nonfinite < 0) return;
    nonfinite = nonfinite < 0 ? other.nonfinite : std::min(nonfinite, other.nonfinite);
  }
};

/// Of blocks [begin, end) of a tensor, whose bytes these are.
ReadFindings look_at(const ManifestTensor& tensor, std::int64_t begin, std::int64_t end,
                     std::span<const std::byte> bytes) {
  const std::int64_t numel = tensor.shape.numel();
  TensorHash hash({numel, tensor.slice_elements, begin, end}, size_of(tensor.dtype));
  hash.add_blocks(begin, end, bytes);
  const std::int64_t bad = first_nonfinite(bytes, tensor.dtype);
  return {.hash = hash.value(),
          .nonfinite = bad < 0 ? -1 : block_begin(begin, numel, tensor.slice_elements) + bad};
}

/// Goes over some blocks of one tensor, the threads looking at each piece together:
/// use(bytes, Piece) after that.
template <class Use>
ReadFindings read_blocks(const SafetensorsFile& file, const ManifestTensor& tensor,
                         const BlockRange& blocks, ThreadPool& pool, Use&& use) {
  const FileTensor* entry = file.find(tensor.name);
  ULMUS_CHECK(entry != nullptr, tensor.name);
  const std::span<const std::byte> data = file.bytes(*entry);
  const auto byte_of = [&](std::int64_t block) {
    return static_cast<std::size_t>(block_begin(block, blocks.numel, blocks.slice_elements) *
                                    size_of(tensor.dtype));
  };
  std::vector<ReadFindings> found(static_cast<std::size_t>(pool.num_threads()));
  for_pieces(blocks, kPieceElements, [&](const Piece& piece) {
    const auto bytes_of = [&](std::int64_t begin, std::int64_t end) {
      return data.subspan(byte_of(begin), byte_of(end) - byte_of(begin));
    };
    pool.for_ranges(piece.block_end - piece.block_begin, 1,
                    [&](std::int64_t begin, std::int64_t end, int thread_idx) {
                      begin += piece.block_begin;
                      end += piece.block_begin;
                      found[static_cast<std::size_t>(thread_idx)].add(
                          look_at(tensor, begin, end, bytes_of(begin, end)));
                    });
    use(bytes_of(piece.block_begin, piece.block_end), piece);
  });
  ReadFindings all;
  for (const ReadFindings& part : found)
    all.add(part);
  return all;
}

/// InputError when the hash of all blocks is not the manifest's, or a value is not finite.
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

bool has_ending(std::string_view name, const std::vector<std::string>& suffixes) {
  return std::any_of(suffixes.begin(), suffixes.end(),
                     [&](const std::string& suffix) { return name.ends_with(suffix); });
}

std::string did_you_mean(const std::string& name, const std::vector<std::string>& candidates) {
  const std::string nearest = nearest_name(name, candidates);
  return nearest.empty() ? "" : concat("; nearest: ", printable(nearest));
}

using RefsByName = std::map<std::string_view, const TensorRef*>;

RefsByName by_name(std::span<const TensorRef> tensors) {
  RefsByName refs;
  for (const TensorRef& tensor : tensors) {
    ULMUS_CHECK(refs.emplace(tensor.name, &tensor).second, "tensor ", tensor.name,
                " is given twice");
    ULMUS_CHECK(tensor.view.is_contiguous(), tensor.name, " is not contiguous");
    ULMUS_CHECK(tensor.view.numel() == tensor.blocks.num_elements(), tensor.name, ": ",
                tensor.view.numel(), " elements for blocks of ", tensor.blocks.num_elements());
  }
  return refs;
}

std::string compared(const ManifestTensor& saved, const TensorRef& ref) {
  if (saved.shape != ref.shape || saved.dtype != ref.view.dtype()) {
    return concat("differs ", printable(saved.name), ": checkpoint ", saved.shape, " ", saved.dtype,
                  ", model ", ref.shape, " ", ref.view.dtype());
  }
  if (saved.slice_elements != ref.blocks.slice_elements && saved.shape.numel() > 0) {
    return concat("differs ", printable(saved.name), ": checkpoint in slices of ",
                  saved.slice_elements, " elements, model ", ref.blocks.slice_elements);
  }
  return "";
}

/// All differences between the checkpoint's tensors and the model's.
void check_same_tensors(const Manifest& manifest, const RefsByName& refs,
                        const LoadOptions& options, const fs::path& dir) {
  std::vector<std::string> model_names;
  std::vector<std::string> saved_names;
  std::set<std::string_view> saved;
  for (const auto& [name, ref] : refs)
    model_names.emplace_back(name);
  for (const ManifestTensor& tensor : manifest.tensors) {
    saved_names.push_back(tensor.name);
    saved.insert(tensor.name);
  }
  std::size_t count = 0;
  std::string lines;
  const auto add = [&](auto&& line) {
    if (count++ < kMaxListed) lines += "\n  " + line();
  };
  for (const std::string& name : model_names) {
    if (saved.contains(name)) continue;
    add([&] {
      return concat("missing ", printable(name), ": the model has it, the checkpoint not",
                    did_you_mean(name, saved_names));
    });
  }
  for (const ManifestTensor& tensor : manifest.tensors) {
    const auto found = refs.find(tensor.name);
    if (found != refs.end()) {
      if (!compared(tensor, *found->second).empty()) {
        add([&] { return compared(tensor, *found->second); });
      }
    } else if (!has_ending(tensor.name, options.left_out_suffixes)) {
      add([&] {
        return concat("extra ", printable(tensor.name), ": the checkpoint has it, the model not",
                      did_you_mean(tensor.name, model_names));
      });
    }
  }
  if (count == 0) return;
  if (count > kMaxListed) lines += concat("\n  and ", count - kMaxListed, " more");
  fail_input(dir.string(), " does not fit the model, ", count, " of ", manifest.tensors.size(),
             " tensors differ:", lines);
}

/// Files of the folder that the checkpoint does not know.
std::vector<std::string> stray_files(const fs::path& dir, const Manifest& manifest) {
  std::set<std::string> known = {kManifestName, kInfoName};
  for (const ManifestTensor& tensor : manifest.tensors)
    known.insert(tensor.file);
  std::vector<std::string> strays;
  std::error_code error;
  for (fs::directory_iterator it(dir, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    std::string name = it->path().filename().string();
    if (!known.contains(name)) strays.push_back(std::move(name));
  }
  if (error) fail_input("cannot read folder ", dir.string(), ": ", error.message());
  std::sort(strays.begin(), strays.end());
  return strays;
}

/// The folder's own name and its parent, however the path was written.
fs::path normal(const fs::path& dir) {
  const fs::path path = fs::absolute(dir).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

/// "; the newest good one ..." for the message about a damaged checkpoint.
std::string good_one_beside(const fs::path& dir) {
  const fs::path path = normal(dir);
  std::vector<Entry> entries = list(path.parent_path());
  if (entries.empty()) return "";
  std::reverse(entries.begin(), entries.end());
  for (const Entry& entry : entries) {
    if (entry.path.filename() == path.filename()) continue;
    if (verify(entry.path).is_good()) {
      return concat("; the newest good checkpoint beside it is ", entry.path.string(), " (step ",
                    entry.step, ")");
    }
  }
  return "; no good checkpoint lies beside it";
}

/// Runs `body`; an InputError in it means damage, and gets the way out added.
template <class Body>
auto with_way_out(const fs::path& dir, Body&& body) {
  try {
    return body();
  } catch (const InputError& error) {
    fail_input("damaged checkpoint ", dir.string(), ": ", error.what(), good_one_beside(dir));
  }
}

/// Adds the message of an InputError to the differences.
template <class Body>
void note(VerifyReport& report, Body&& body) {
  try {
    body();
  } catch (const InputError& error) {
    report.differences.emplace_back(error.what());
  }
}

/// The manifest of a folder whose name agrees with it.
Manifest named_manifest_of(const fs::path& dir) {
  Manifest manifest = manifest_of(dir);
  const auto named = step_of(normal(dir).filename().string());
  if (named && *named != manifest.step) {
    fail_input("the folder is named after step ", *named, " and holds step ", manifest.step);
  }
  return manifest;
}

/// Copies the blocks of this rank, and opens every file on the way.
void read_owned(const fs::path& dir, const RefsByName& refs, Device& device, LoadReport& report,
                std::vector<ReadFindings>& findings) {
  for (const std::string& name : stray_files(dir, report.manifest)) {
    if (name.ends_with(".safetensors")) {
      fail_input((dir / name).string(), ": the manifest knows no such file");
    }
  }
  for (const auto& [name, in_file] : tensors_by_file(report.manifest)) {
    const auto is_wanted = [&](const ManifestTensor* tensor) {
      return refs.contains(tensor->name);
    };
    const auto wanted = std::count_if(in_file.begin(), in_file.end(), is_wanted);
    report.tensors_left_out += static_cast<std::int64_t>(in_file.size()) - wanted;
    if (wanted == 0) continue;
    const SafetensorsFile file = open_checked(dir / name, in_file);
    for (const ManifestTensor* tensor : in_file) {
      if (!is_wanted(tensor)) continue;
      const TensorRef& ref = *refs.at(tensor->name);
      const TensorView flat = ref.view.reshape({ref.view.numel()});
      const std::int64_t first = ref.blocks.element_begin();
      findings[static_cast<std::size_t>(tensor - report.manifest.tensors.data())] = read_blocks(
          file, *tensor, ref.blocks, device.pool(),
          [&](std::span<const std::byte> bytes, const Piece& piece) {
            device.copy_to_device(flat.rows(piece.element_begin - first, piece.element_end - first),
                                  bytes);
          });
      ++report.tensors_checked;
      report.bytes += tensor->bytes;
    }
  }
}

/// Hashes add up; of the elements that are not finite the first is kept.
void add_findings(std::vector<ReadFindings>& findings, comm::Communicator& ranks) {
  constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int64_t> hashes;
  std::vector<std::int64_t> elements;
  hashes.reserve(findings.size());
  elements.reserve(findings.size());
  for (const ReadFindings& found : findings) {
    hashes.push_back(std::bit_cast<std::int64_t>(found.hash));
    elements.push_back(found.nonfinite < 0 ? kNone : found.nonfinite);
  }
  ranks.all_reduce(hashes, comm::ReduceOp::kSum);
  ranks.all_reduce(elements, comm::ReduceOp::kMin);
  for (std::size_t i = 0; i < findings.size(); ++i) {
    findings[i] = {.hash = std::bit_cast<std::uint64_t>(hashes[i]),
                   .nonfinite = elements[i] == kNone ? -1 : elements[i]};
  }
}

void verify_file(const fs::path& path, const std::vector<const ManifestTensor*>& tensors,
                 ThreadPool& pool, VerifyReport& report) {
  const SafetensorsFile file = open_checked(path, tensors);
  ++report.files_checked;
  for (const ManifestTensor* tensor : tensors) {
    note(report, [&] {
      ++report.tensors_checked;
      report.bytes += tensor->bytes;
      const auto all = BlockRange::all(tensor->shape.numel(), tensor->slice_elements);
      check_findings(
          path.parent_path(), *tensor,
          read_blocks(file, *tensor, all, pool, [](std::span<const std::byte>, const Piece&) {}));
    });
  }
}

}  // namespace

LoadReport load(const fs::path& dir, std::span<const TensorRef> tensors, Device& device,
                comm::Communicator& ranks, const LoadOptions& options) {
  const RefsByName refs = by_name(tensors);
  LoadReport report;
  comm::agree(ranks, [&] {
    require_folder(dir);
    report.manifest = with_way_out(dir, [&] { return named_manifest_of(dir); });
    if (options.check_manifest) options.check_manifest(report.manifest);
    check_same_tensors(report.manifest, refs, options, dir);
  });
  std::vector<ReadFindings> findings(report.manifest.tensors.size());
  comm::agree(ranks,
              [&] { with_way_out(dir, [&] { read_owned(dir, refs, device, report, findings); }); });
  add_findings(findings, ranks);
  comm::agree(ranks, [&] {
    with_way_out(dir, [&] {
      for (std::size_t i = 0; i < findings.size(); ++i) {
        const ManifestTensor& tensor = report.manifest.tensors[i];
        if (refs.contains(tensor.name)) check_findings(dir, tensor, findings[i]);
      }
    });
  });
  return report;
}

VerifyReport verify(const fs::path& dir) {
  require_folder(dir);
  VerifyReport report;
  note(report, [&] {
    read_info(dir / kInfoName);
    ++report.files_checked;
  });
  std::optional<Manifest> manifest;
  note(report, [&] {
    manifest = manifest_of(dir);
    ++report.files_checked;
  });
  if (!manifest) return report;
  if (manifest->tensors.empty()) {
    report.differences.push_back(concat((dir / kManifestName).string(), ": lists no tensor"));
  }
  const std::string folder = normal(dir).filename().string();
  if (folder.starts_with("step-") && folder != folder_name(manifest->step)) {
    report.differences.push_back(
        concat(dir.string(), ": the manifest is of step ", manifest->step));
  }
  note(report, [&] {
    for (const std::string& name : stray_files(dir, *manifest)) {
      report.differences.push_back(concat((dir / name).string(), ": not part of the checkpoint"));
    }
  });
  ThreadPool pool(available_threads());
  for (const auto& file : tensors_by_file(*manifest)) {
    note(report, [&] { verify_file(dir / file.first, file.second, pool, report); });
  }
  return report;
}

ShowReport show(const fs::path& dir) {
  ShowReport report;
  report.manifest = manifest_of(dir);
  try {
    report.info = read_info(dir / kInfoName);
  } catch (const InputError&) {
    report.info.clear();  // no part of the promise; verify() says what is wrong with it
  }
  for (const auto& [name, tensors] : tensors_by_file(report.manifest)) {
    std::error_code error;
    const auto bytes = fs::file_size(dir / name, error);
    report.files.push_back({.name = name,
                            .bytes = error ? 0 : static_cast<std::int64_t>(bytes),
                            .tensors = static_cast<std::int64_t>(tensors.size())});
    for (const ManifestTensor* tensor : tensors) {
      report.tensor_bytes += tensor->bytes;
      report.elements += tensor->shape.numel();
    }
  }
  return report;
}

}  // namespace ulmus::checkpoint
