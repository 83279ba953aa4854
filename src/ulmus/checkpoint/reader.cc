#include "ulmus/checkpoint/reader.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <map>
#include <set>
#include <string_view>

#include "ulmus/base/check.h"
#include "ulmus/base/error.h"
#include "ulmus/base/strict_json.h"
#include "ulmus/checkpoint/opening.h"
#include "ulmus/checkpoint/tensor_reading.h"
#include "ulmus/comm/agreement.h"

namespace ulmus::checkpoint {

namespace fs = std::filesystem;

namespace {

/// Differences that a message lists; the rest are counted. Also bounds the search for near names.
constexpr std::size_t kMaxListed = 40;

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

/// Copies the blocks of this rank, and opens every file on the way.
void read_owned(const fs::path& dir, const RefsByName& refs, Device& device, LoadReport& report,
                std::vector<ReadFindings>& findings) {
  refuse_stray_tensors(dir, report.manifest);
  BlockReader reader(device.pool());
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
      const auto copy = [&](std::span<const std::byte> bytes, const Piece& piece) {
        device.copy_to_device(flat.rows(piece.element_begin - first, piece.element_end - first),
                              bytes);
      };
      findings[static_cast<std::size_t>(tensor - report.manifest.tensors.data())] =
          reader.read(file, *tensor, ref.blocks, copy);
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

/// comm::agree, where the message about damage gets the way out added. That is looked for when all
/// ranks have heard of the damage, by each of them, so that nobody waits for anybody meanwhile.
void agree_on(const fs::path& dir, comm::Communicator& ranks, const std::function<void()>& body) {
  // 2 * rank where it failed, 1 more for damage; the least is that of the rank whose message
  // counts.
  const std::int64_t own = ranks.rank();
  std::array<std::int64_t, 1> failure = {std::numeric_limits<std::int64_t>::max()};
  try {
    comm::agree(ranks, [&] {
      try {
        body();
      } catch (const DamageError&) {
        failure[0] = 2 * own + 1;
        throw;
      } catch (...) {
        failure[0] = 2 * own;
        throw;
      }
    });
  } catch (const comm::CommError&) {
    throw;
  } catch (const Error& error) {
    ranks.all_reduce(failure, comm::ReduceOp::kMin);
    if (failure[0] % 2 == 0) throw;
    const std::string message = error.what() + way_out(dir);
    if (error.scope() == ErrorScope::kThisRank) throw DamageError(message);
    throw Error(message, error.exit_code(), error.scope());
  }
}

}  // namespace

LoadReport load(const fs::path& dir, std::span<const TensorRef> tensors, Device& device,
                comm::Communicator& ranks, const LoadOptions& options) {
  const RefsByName refs = by_name(tensors);
  LoadReport report;
  agree_on(dir, ranks, [&] {
    report.manifest = open_manifest(dir);
    check_name(dir, report.manifest);
    if (options.check_manifest) options.check_manifest(report.manifest);
    check_same_tensors(report.manifest, refs, options, dir);
  });
  std::vector<ReadFindings> findings(report.manifest.tensors.size());
  agree_on(dir, ranks,
           [&] { as_damage(dir, [&] { read_owned(dir, refs, device, report, findings); }); });
  add_findings(findings, ranks);
  agree_on(dir, ranks, [&] {
    as_damage(dir, [&] {
      for (std::size_t i = 0; i < findings.size(); ++i) {
        const ManifestTensor& tensor = report.manifest.tensors[i];
        if (refs.contains(tensor.name)) check_findings(dir, tensor, findings[i]);
      }
    });
  });
  return report;
}

}  // namespace ulmus::checkpoint
