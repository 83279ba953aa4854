#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ulmus::data {

/// A pattern compiled by PCRE2 with UTF and Unicode properties: the oracle for our own scanner.
class Pcre2Pattern {
 public:
  explicit Pcre2Pattern(const std::string& pattern);
  ~Pcre2Pattern();
  Pcre2Pattern(const Pcre2Pattern&) = delete;
  Pcre2Pattern& operator=(const Pcre2Pattern&) = delete;

  /// Ends of successive matches over valid UTF-8; they must follow each other without a gap.
  std::vector<std::size_t> cuts(std::string_view text) const;
  /// Whether the whole text matches.
  bool matches(std::string_view text) const;

 private:
  std::size_t match_end(std::string_view text, std::size_t begin) const;
  void* code_;
  void* match_data_;
};

}  // namespace ulmus::data
