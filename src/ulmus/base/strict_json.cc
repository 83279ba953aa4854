#include "ulmus/base/strict_json.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "ulmus/base/check.h"
#include "ulmus/base/error.h"

namespace ulmus {

namespace {

using Json = nlohmann::json;

constexpr int kMaxDepth = 16;
constexpr std::size_t kMaxPrinted = 120;
constexpr std::size_t kHashDigits = 16;

/// Sees every key while the parser runs, since the finished document no longer tells.
class KeyWatch {
 public:
  explicit KeyWatch(std::string_view place) : place_(place) {}

  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kMaxDepth) fail_input(place_, ": nested deeper than ", kMaxDepth);
    if (event == Json::parse_event_t::object_start) keys_.emplace_back();
    if (event == Json::parse_event_t::object_end) keys_.pop_back();
    if (event == Json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys_.back().insert(key).second) {
        fail_input(place_, ": key ", printable(key), " is given twice");
      }
    }
    return true;
  }

 private:
  std::string_view place_;
  std::vector<std::set<std::string>> keys_;
};

const Json& field(const Json& object, std::string_view key, std::string_view place) {
  if (!object.is_object()) fail_input(place, ": not an object but ", object.type_name());
  const auto found = object.find(key);
  if (found == object.end()) fail_input(place, ": key ", printable(key), " is missing");
  return *found;
}

[[noreturn]] void fail_type(const Json& value, std::string_view wanted, std::string_view key,
                            std::string_view place) {
  fail_input(place, ": ", printable(key), " must be ", wanted, ", not ", value.type_name());
}

}  // namespace

nlohmann::json parse_strict_json(std::string_view text, std::string_view place) {
  if (text.find('\0') != std::string_view::npos) fail_input(place, ": not JSON: has a NUL byte");
  try {
    KeyWatch watch(place);
    return Json::parse(text, std::ref(watch));
  } catch (const Json::exception& error) {
    // The parser quotes what it read last, which may be the whole file.
    const std::string_view what = error.what();
    fail_input(place, ": not valid JSON: ", printable(what));
  }
}

void check_keys(const nlohmann::json& value, std::initializer_list<std::string_view> keys,
                std::string_view place) {
  if (!value.is_object()) fail_input(place, ": not an object but ", value.type_name());
  for (const std::string_view key : keys)
    field(value, key, place);
  for (const auto& item : value.items()) {
    if (std::find(keys.begin(), keys.end(), item.key()) != keys.end()) continue;
    const std::string nearest = nearest_name(item.key(), keys);
    fail_input(place, ": unknown key ", printable(item.key()),
               nearest.empty() ? "" : concat(", did you mean ", printable(nearest)));
  }
}

std::string string_field(const nlohmann::json& object, std::string_view key,
                         std::string_view place) {
  const Json& value = field(object, key, place);
  if (!value.is_string()) fail_type(value, "a string", key, place);
  return value.get<std::string>();
}

std::int64_t count_value(const nlohmann::json& value, std::string_view place) {
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > kMax) {
    fail_input(place, ": ", printable(value.dump(-1, ' ', true, Json::error_handler_t::replace)),
               " is not a whole number in [0, 2^63)");
  }
  return static_cast<std::int64_t>(value.get<std::uint64_t>());
}

std::int64_t count_field(const nlohmann::json& object, std::string_view key,
                         std::string_view place) {
  return count_value(field(object, key, place), concat(place, ": ", printable(key)));
}

const nlohmann::json& array_field(const nlohmann::json& object, std::string_view key,
                                  std::string_view place) {
  const Json& value = field(object, key, place);
  if (!value.is_array()) fail_type(value, "an array", key, place);
  return value;
}

const nlohmann::json& object_field(const nlohmann::json& object, std::string_view key,
                                   std::string_view place) {
  const Json& value = field(object, key, place);
  if (!value.is_object()) fail_type(value, "an object", key, place);
  return value;
}

std::string printable(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : name.substr(0, kMaxPrinted)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20U && byte < 0x7fU) {
      out += c;
    } else {
      out += "\\x";
      out += kDigits[byte >> 4U];
      out += kDigits[byte & 0xfU];
    }
  }
  out += name.size() > kMaxPrinted ? "...\"" : "\"";
  return out;
}

std::string json_string(std::string_view text) {
  try {
    return Json(text).dump();
  } catch (const Json::exception&) {
    fail("not UTF-8: ", printable(text));
  }
}

std::string json_double(double value) {
  ULMUS_CHECK(std::isfinite(value), "not finite: ", value);
  std::array<char, 32> buffer{};
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  std::string text(buffer.data(), result.ptr);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string hash_text(std::uint64_t hash) {
  std::array<char, kHashDigits> buffer{};
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), hash, 16);
  const auto length = static_cast<std::size_t>(result.ptr - buffer.data());
  return std::string(kHashDigits - length, '0') + std::string(buffer.data(), length);
}

std::uint64_t hash_field(const nlohmann::json& object, std::string_view key,
                         std::string_view place) {
  const std::string text = string_field(object, key, place);
  std::uint64_t hash = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), hash, 16);
  if (text.size() != kHashDigits || result.ec != std::errc() || hash_text(hash) != text) {
    fail_input(place, ": ", printable(key), " must be 16 lower-case hexadecimal digits, not ",
               printable(text));
  }
  return hash;
}

std::uint64_t hash_of(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

}  // namespace ulmus
