#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "ulmus/checkpoint/manifest.h"
#include "ulmus/checkpoint/tensor_ref.h"

namespace ulmus::checkpoint {

struct FileFacts {
  std::string name;
  std::int64_t bytes = 0;
  std::int64_t tensors = 0;
};

struct ShowReport {
  Manifest manifest;
  Info info;  ///< empty when info.json is missing or damaged
  std::vector<FileFacts> files;
  std::int64_t tensor_bytes = 0;
  std::int64_t elements = 0;  ///< of all tensors, moments included
};

/// The facts of a checkpoint, from its manifest; tensor data are not read.
ShowReport show(const std::filesystem::path& dir);

}  // namespace ulmus::checkpoint
