#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ulmus::cli {

/// Columns under headings; the first left, the others right.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> headings) : headings_(std::move(headings)) {}
  void add_row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  std::string text() const;

 private:
  std::vector<std::string> headings_;
  std::vector<std::vector<std::string>> rows_;
};

/// 1,234,567
std::string grouped_digits(std::int64_t value);
/// "12.3 MiB"
std::string bytes_text(std::int64_t bytes);

/// Standard output: results only.
void print_result(std::string_view text);
/// Standard error: for people. Its errors are ignored: a command does not fail for want of a
/// reader.
void print_note(std::string_view text);
/// The same without a line end.
void print_progress(const std::string& text);

/// InputError when `target`, what --json was given, cannot be written: before the work, not after.
void check_json_target(const std::string& target);
/// The facts of a command twice: for people, and as JSON where --json asks for it. Without --json
/// people's text is the result; with --json - the JSON is, and the text goes to standard error.
void print_facts(std::string_view text, const std::string& json, const std::string& target);

/// Error when standard output could not take everything (a full disk behind a redirection).
void finish_output();

}  // namespace ulmus::cli
