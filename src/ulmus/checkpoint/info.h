#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "ulmus/checkpoint/tensor_ref.h"

namespace ulmus::checkpoint {

/// What info.json says of every process: "program", with its version, and "host".
Info info_of_process();

/// The text of info.json: sorted keys and, as in the manifest, the XXH3-64 of itself.
std::string to_json(const Info& info);

/// InputError naming `place`: not JSON, other keys, values that are no strings, damaged text.
Info parse_info(std::string_view text, std::string_view place);

/// The same from a file.
Info read_info(const std::filesystem::path& path);

}  // namespace ulmus::checkpoint
