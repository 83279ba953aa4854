#include "ulmus/cli/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "ulmus/base/error.h"
#include "ulmus/base/file.h"

namespace ulmus::cli {
namespace {

/// A file is replaced as a whole; a pipe or device is written to, and stays what it is.
void write_json(const std::string& target, const std::string& json) {
  std::error_code error;
  if (!std::filesystem::exists(target, error) || std::filesystem::is_regular_file(target, error)) {
    write_file_atomically(std::filesystem::weakly_canonical(target), json);
    return;
  }
  std::ofstream file(target);
  file << json;
  file.close();
  if (!file) fail("--json ", target, ": cannot be written");
}

}  // namespace

std::string TextTable::text() const {
  std::vector<std::size_t> widths(headings_.size());
  for (std::size_t i = 0; i < headings_.size(); ++i) {
    widths[i] = headings_[i].size();
    for (const auto& row : rows_) {
      widths[i] = std::max(widths[i], row.at(i).size());
    }
  }
  std::string out;
  const auto add_line = [&](const std::vector<std::string>& cells) {
    std::string line = fmt::format("{:<{}}", cells[0], widths[0]);
    for (std::size_t i = 1; i < cells.size(); ++i) {
      line += fmt::format("  {:>{}}", cells[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  };
  add_line(headings_);
  for (const auto& row : rows_) {
    add_line(row);
  }
  return out;
}

std::string grouped_digits(std::int64_t value) {
  std::string text = fmt::format("{}", value);
  const auto first = static_cast<std::ptrdiff_t>(value < 0 ? 1 : 0);
  for (auto i = static_cast<std::ptrdiff_t>(text.size()) - 3; i > first; i -= 3) {
    text.insert(static_cast<std::size_t>(i), ",");
  }
  return text;
}

std::string bytes_text(std::int64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  auto value = static_cast<double>(bytes);
  std::string_view unit;
  for (const std::string_view next : {"KiB", "MiB", "GiB", "TiB"}) {
    if (value < 1024.0) break;
    value /= 1024.0;
    unit = next;
  }
  return fmt::format("{:.1f} {}", value, unit);
}

void print_result(std::string_view text) { fmt::print(stdout, "{}", text); }

void print_progress(const std::string& text) { std::fputs(text.c_str(), stderr); }

void print_note(std::string_view text) { print_progress(concat(text, "\n")); }

void check_json_target(const std::string& target) {
  if (target.empty() || target == "-") return;
  const std::filesystem::path path(target);
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    fail_input("--json ", target, ": there is no folder ", folder.string());
  }
  if (std::filesystem::is_directory(path, error)) {
    fail_input("--json ", target, ": is a folder; give a file, or - for standard output");
  }
  // As write_json: a file is replaced in its folder.
  const bool stays =
      std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error);
  if (::access((stays ? path : folder).c_str(), W_OK) != 0) {
    fail_input("--json ", target, ": may not be written: ", std::strerror(errno));
  }
}

void print_facts(std::string_view text, const std::string& json, const std::string& target) {
  if (target == "-") {
    print_progress(std::string(text));
    print_result(json + "\n");
    return;
  }
  print_result(text);
  if (!target.empty()) write_json(target, json + "\n");
}

void finish_output() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    fail("standard output could not take everything that was printed");
  }
}

}  // namespace ulmus::cli
