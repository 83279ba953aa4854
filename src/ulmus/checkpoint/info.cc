#include "ulmus/checkpoint/info.h"

#include <unistd.h>

#include <array>
#include <nlohmann/json.hpp>

#include "ulmus/base/error.h"
#include "ulmus/base/file.h"
#include "ulmus/base/strict_json.h"

namespace ulmus::checkpoint {

namespace {

std::string text_with_hash(const Info& info, std::uint64_t hash) {
  std::string lines;
  for (const auto& [key, text] : info) {
    lines += concat(lines.empty() ? "\n" : ",\n", json_string(key), ": ", json_string(text));
  }
  return concat("{\n\"facts\": {", lines, lines.empty() ? "" : "\n", "},\n\"hash\": \"",
                hash_text(hash), "\"\n}\n");
}

}  // namespace

Info info_of_process() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return {{"program", "ulmus " ULMUS_VERSION}, {"host", host.data()}};
}

std::string to_json(const Info& info) {
  return text_with_hash(info, hash_of(text_with_hash(info, 0)));
}

Info parse_info(std::string_view text, std::string_view place) {
  const nlohmann::json root = parse_strict_json(text, place);
  check_keys(root, {"facts", "hash"}, place);
  Info info;
  const nlohmann::json& facts = object_field(root, "facts", place);
  for (const auto& item : facts.items()) {
    info.emplace(item.key(), string_field(facts, item.key(), place));
  }
  hash_field(root, "hash", place);
  if (to_json(info) != text) {
    fail_input(place, ": its text does not agree with its own hash: damaged or edited");
  }
  return info;
}

Info read_info(const std::filesystem::path& path) {
  return parse_info(read_file(path), path.string());
}

}  // namespace ulmus::checkpoint
