#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "ulmus/base/error.h"
#include "ulmus/base/strict_json.h"

/// Reading JSON files that nobody vouches for: every mistake is an InputError that names the file
/// and the place. For sources only; it pulls in the JSON library.
namespace ulmus::data {

using Json = nlohmann::json;

/// A JSON object together with where it was found, for messages.
class JsonFields {
 public:
  /// `object` must outlive this.
  JsonFields(const Json& object, std::string place) : object_(object), place_(std::move(place)) {
    if (!object.is_object()) fail_input(place_, ": is ", object.type_name(), ", not an object");
  }

  const std::string& place() const { return place_; }
  std::string place(std::string_view key) const { return concat(place_, ": ", printable(key)); }

  /// Null or absent.
  bool is_absent(std::string_view key) const {
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null();
  }

  const Json& at(std::string_view key) const {
    const auto found = object_.find(key);
    if (found == object_.end()) fail_input(place(key), " is missing");
    return *found;
  }

  std::string string(std::string_view key) const {
    const Json& value = at(key);
    if (!value.is_string()) fail_input(place(key), " is ", value.type_name(), ", not a string");
    return value.get<std::string>();
  }

  bool boolean(std::string_view key) const {
    const Json& value = at(key);
    if (!value.is_boolean()) fail_input(place(key), " is ", value.type_name(), ", not a boolean");
    return value.get<bool>();
  }

  bool boolean_or(std::string_view key, bool otherwise) const {
    return is_absent(key) ? otherwise : boolean(key);
  }

  std::int64_t integer(std::string_view key, std::int64_t low, std::int64_t high) const {
    const Json& value = at(key);
    const bool fits = value.is_number_integer() &&
                      (!value.is_number_unsigned() ||
                       value.get<std::uint64_t>() <=
                           static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
    if (!fits || value.get<std::int64_t>() < low || value.get<std::int64_t>() > high) {
      fail_input(place(key), " is ", value.is_number() ? value.dump() : value.type_name(),
                 ", not an integer in ", low, "..", high);
    }
    return value.get<std::int64_t>();
  }

  /// InputError naming the first key that is not in `known`, with the nearest that is.
  void refuse_unknown(std::initializer_list<std::string_view> known) const {
    for (const auto& item : object_.items()) {
      bool found = false;
      for (const std::string_view key : known)
        found = found || key == item.key();
      if (found) continue;
      const std::string nearest = nearest_name(item.key(), known);
      fail_input(place_, ": unknown key ", printable(item.key()),
                 nearest.empty() ? std::string() : concat("; did you mean \"", nearest, "\"?"));
    }
  }

 private:
  const Json& object_;
  std::string place_;
};

}  // namespace ulmus::data
