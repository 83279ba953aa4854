#pragma once

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace ulmus {

/// Exit statuses of the program (docs/configuration.md).
enum class ExitCode : int { kDone = 0, kFailed = 1, kUsage = 2, kDifference = 3 };

/// Who throws an error when a run has several ranks.
enum class ErrorScope : std::uint8_t {
  kThisRank,
  kEveryRank,  ///< all of them throw the same, so one of them can tell the user
};

/// Something went wrong while running; the program ends with `exit_code()`.
/// The message says what was wrong, where, and what is allowed.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, ExitCode exit_code = ExitCode::kFailed,
                 ErrorScope scope = ErrorScope::kThisRank)
      : std::runtime_error(message), exit_code_(exit_code), scope_(scope) {}
  ExitCode exit_code() const { return exit_code_; }
  ErrorScope scope() const { return scope_; }

 private:
  ExitCode exit_code_;
  ErrorScope scope_;
};

/// Wrong usage, configuration or input file, found before anything was changed.
class InputError : public Error {
 public:
  explicit InputError(const std::string& message) : Error(message, ExitCode::kUsage) {}
};

/// A check found a difference (`checkpoint verify`).
class DifferenceError : public Error {
 public:
  explicit DifferenceError(const std::string& message) : Error(message, ExitCode::kDifference) {}
};

/// Streams all arguments into one string: concat("rows ", 3, " of ", shape).
template <class... Args>
std::string concat(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return out.str();
}

/// Throws InputError(concat(args...)).
template <class... Args>
[[noreturn]] void fail_input(const Args&... args) {
  throw InputError(concat(args...));
}

/// Throws Error(concat(args...)).
template <class... Args>
[[noreturn]] void fail(const Args&... args) {
  throw Error(concat(args...));
}

/// The nearest of `candidates` to `name` by edit distance, for messages; empty when none is near
/// (distance above a third of the name's length, at least 2).
template <class Range>
std::string nearest_name(std::string_view name, const Range& candidates);

/// Levenshtein distance.
std::size_t edit_distance(std::string_view a, std::string_view b);

template <class Range>
std::string nearest_name(std::string_view name, const Range& candidates) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(2, name.size() / 3) + 1;
  for (const auto& candidate : candidates) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = std::string(candidate);
    }
  }
  return best;
}

}  // namespace ulmus
