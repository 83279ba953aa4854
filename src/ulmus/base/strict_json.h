#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace ulmus {

/// JSON of files that nobody vouches for, and the canonical form in which ours are written.
/// `place` names the file (and the part of it) in messages. All errors are InputErrors.

/// The document in `text`. Refuses what a lenient parser lets pass: a key given twice, bytes after
/// the document or a NUL, nesting deeper than 16.
nlohmann::json parse_strict_json(std::string_view text, std::string_view place);

/// Refuses a value that is no object, lacks one of `keys` or has any other key.
void check_keys(const nlohmann::json& value, std::initializer_list<std::string_view> keys,
                std::string_view place);

/// Fields of an object, by type. An integer lies in [0, 2^63).
std::string string_field(const nlohmann::json& object, std::string_view key,
                         std::string_view place);
std::int64_t count_field(const nlohmann::json& object, std::string_view key,
                         std::string_view place);
const nlohmann::json& array_field(const nlohmann::json& object, std::string_view key,
                                  std::string_view place);
const nlohmann::json& object_field(const nlohmann::json& object, std::string_view key,
                                   std::string_view place);

/// A whole number in [0, 2^63).
std::int64_t count_value(const nlohmann::json& value, std::string_view place);

/// A name from a file in a form that is safe to print: quoted, at most 120 bytes, everything but
/// printable ASCII escaped.
std::string printable(std::string_view name);

/// `text` as a JSON string. Error when it is not UTF-8.
std::string json_string(std::string_view text);

/// Shortest decimal form that reads back as the same double, always with a point or an exponent,
/// so that -0 stays -0. `value` must be finite.
std::string json_double(double value);

/// A 64-bit hash as 16 lower-case hexadecimal digits.
std::string hash_text(std::uint64_t hash);
/// The reverse; refuses anything else.
std::uint64_t hash_field(const nlohmann::json& object, std::string_view key,
                         std::string_view place);

/// XXH3-64 of a text.
std::uint64_t hash_of(std::string_view text);

}  // namespace ulmus
