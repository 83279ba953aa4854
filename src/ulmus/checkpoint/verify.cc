#include "ulmus/checkpoint/verify.h"

#include <optional>

#include "ulmus/base/error.h"
#include "ulmus/checkpoint/folder.h"
#include "ulmus/checkpoint/info.h"
#include "ulmus/checkpoint/opening.h"
#include "ulmus/checkpoint/tensor_reading.h"
#include "ulmus/device/device.h"

namespace ulmus::checkpoint {

namespace fs = std::filesystem;

namespace {

/// Adds the message of an InputError to the differences.
template <class Body>
void note(VerifyReport& report, Body&& body) {
  try {
    body();
  } catch (const InputError& error) {
    report.differences.emplace_back(error.what());
  }
}

void verify_file(const fs::path& path, const std::vector<const ManifestTensor*>& tensors,
                 BlockReader& reader, VerifyReport& report) {
  const SafetensorsFile file = open_checked(path, tensors);
  ++report.files_checked;
  for (const ManifestTensor* tensor : tensors) {
    note(report, [&] {
      ++report.tensors_checked;
      report.bytes += tensor->bytes;
      const auto all = BlockRange::all(tensor->shape.numel(), tensor->slice_elements);
      const auto nothing = [](std::span<const std::byte>, const Piece&) {};
      check_findings(path.parent_path(), *tensor, reader.read(file, *tensor, all, nothing));
    });
  }
}

}  // namespace

VerifyReport verify(const fs::path& dir) {
  require_folder(dir);
  VerifyReport report;
  note(report, [&] {
    read_info(dir / kInfoName);
    ++report.files_checked;
  });
  std::optional<Manifest> manifest;
  note(report, [&] {
    manifest = open_manifest(dir);
    ++report.files_checked;
  });
  if (!manifest) return report;
  if (manifest->tensors.empty()) {
    report.differences.push_back(concat((dir / kManifestName).string(), ": lists no tensor"));
  }
  note(report, [&] { check_name(dir, *manifest); });
  note(report, [&] {
    for (const std::string& name : stray_files(dir, *manifest)) {
      report.differences.push_back(
          concat(shown_text((dir / name).string()), ": not part of the checkpoint"));
    }
  });
  ThreadPool pool(available_threads());
  BlockReader reader(pool);
  for (const auto& file : tensors_by_file(*manifest)) {
    note(report, [&] { verify_file(dir / file.first, file.second, reader, report); });
  }
  return report;
}

}  // namespace ulmus::checkpoint
