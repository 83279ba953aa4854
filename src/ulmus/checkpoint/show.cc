#include "ulmus/checkpoint/show.h"

#include "ulmus/base/error.h"
#include "ulmus/checkpoint/folder.h"
#include "ulmus/checkpoint/info.h"
#include "ulmus/checkpoint/opening.h"

namespace ulmus::checkpoint {

namespace fs = std::filesystem;

ShowReport show(const fs::path& dir) {
  ShowReport report;
  report.manifest = open_manifest(dir);
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
