#include "ulmus/data/text_source.h"

#include <algorithm>
#include <array>

#include "ulmus/base/check.h"
#include "ulmus/data/json_fields.h"

namespace ulmus::data {

namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 14> kRefusedExtensions = {
    ".json", ".gz",  ".zst", ".xz",    ".bz2",     ".zip",    ".tar",
    ".7z",   ".lz4", ".npy", ".arrow", ".parquet", ".tokens", ".index"};

std::int64_t add_folder(const fs::path& folder, std::vector<InputFile>& files) {
  std::vector<InputFile> found;
  std::int64_t num_ignored = 0;
  for (const auto& item : fs::recursive_directory_iterator(folder)) {
    if (!item.is_regular_file()) continue;
    const fs::path extension = item.path().extension();
    if (extension == ".txt") {
      found.push_back({item.path(), InputKind::kText});
    } else if (extension == ".jsonl") {
      found.push_back({item.path(), InputKind::kJsonl});
    } else {
      ++num_ignored;
    }
  }
  if (found.empty()) {
    fail_input(folder.string(), ": no .txt and no .jsonl file in this folder (", num_ignored,
               " other files)");
  }
  std::sort(found.begin(), found.end(), [](const InputFile& a, const InputFile& b) {
    return a.path.generic_string() < b.path.generic_string();
  });
  files.insert(files.end(), found.begin(), found.end());
  return num_ignored;
}

void add_file(const fs::path& path, std::vector<InputFile>& files) {
  const std::string extension = path.extension().string();
  if (std::find(kRefusedExtensions.begin(), kRefusedExtensions.end(), extension) !=
      kRefusedExtensions.end()) {
    fail_input(path.string(), ": ", extension,
               " is not a text format that is read; allowed: plain text and .jsonl");
  }
  files.push_back({path, extension == ".jsonl" ? InputKind::kJsonl : InputKind::kText});
}

/// The text of one JSONL line, or the reason why there is none in `problem`.
std::string text_of_line(std::string_view line, std::string& problem) {
  try {
    Json json = Json::parse(line);
    if (!json.is_object()) {
      problem = concat("is ", json.type_name(), ", not an object");
      return {};
    }
    const auto text = json.find("text");
    if (text == json.end()) {
      problem = "has no \"text\"";
    } else if (!text->is_string()) {
      problem = concat("\"text\" is ", text->type_name(), ", not a string");
    } else {
      return std::move(text->get_ref<std::string&>());
    }
  } catch (const Json::exception& error) {
    problem = concat("is not valid JSON: ", error.what());
  }
  return {};
}

}  // namespace

InputFiles find_inputs(std::span<const fs::path> paths) {
  InputFiles inputs;
  for (const fs::path& path : paths) {
    try {
      const fs::file_status status = fs::status(path);
      if (!fs::exists(status)) fail_input(path.string(), ": does not exist");
      if (fs::is_directory(status)) {
        inputs.num_ignored += add_folder(path, inputs.files);
      } else {
        add_file(path, inputs.files);
      }
    } catch (const fs::filesystem_error& error) {
      fail_input(path.string(), ": ", error.code().message());
    }
  }
  if (inputs.files.empty()) fail_input("no input files given");
  return inputs;
}

TextReader::TextReader(InputFiles inputs, ThreadPool& pool, std::int64_t batch_bytes)
    : inputs_(std::move(inputs)), pool_(pool), batch_bytes_(batch_bytes) {
  ULMUS_CHECK(batch_bytes > 0, "batch of ", batch_bytes, " bytes");
  for (const InputFile& file : inputs_.files) {
    std::error_code error;
    const auto size = fs::file_size(file.path, error);
    if (error) fail_input(file.path.string(), ": ", error.message());
    bytes_total_ += static_cast<std::int64_t>(size);
  }
}

std::span<const std::string_view> TextReader::next() {
  raw_.clear();
  texts_.clear();
  if (!gather()) return {};
  parse();
  bytes_read_ += gathered_bytes_;
  return texts_;
}

/// Files that are mapped at once: the kernel allows a process some 65,000 maps.
constexpr std::size_t kMaxOpenFiles = 4096;

/// Fills raw_ with the documents of a batch; false at the end.
bool TextReader::gather() {
  // Views into the file that is still being read must outlive this batch; the others are done.
  if (!open_.empty()) open_.erase(open_.begin(), open_.end() - 1);
  gathered_bytes_ = 0;
  while (gathered_bytes_ < batch_bytes_ && open_.size() < kMaxOpenFiles) {
    if (!rest_.empty()) {
      take_lines(batch_bytes_);
      continue;
    }
    if (next_file_ == inputs_.files.size()) break;
    const InputFile& file = inputs_.files[next_file_++];
    open_.push_back(std::make_shared<MappedFile>(file.path));
    const auto bytes = open_.back()->bytes();
    const std::string_view content(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (file.kind == InputKind::kJsonl) {
      rest_ = content;
      line_ = 0;
    } else {
      raw_.push_back({content, next_file_ - 1, 0});
      gathered_bytes_ += static_cast<std::int64_t>(content.size());
    }
  }
  return !raw_.empty();
}

/// Cuts lines off rest_ until the batch has `limit` bytes.
void TextReader::take_lines(std::int64_t limit) {
  while (!rest_.empty() && gathered_bytes_ < limit) {
    const std::size_t newline = rest_.find('\n');
    const std::string_view line = rest_.substr(0, newline);
    const std::size_t taken = newline == std::string_view::npos ? rest_.size() : newline + 1;
    rest_.remove_prefix(taken);
    raw_.push_back({line, next_file_ - 1, ++line_});
    gathered_bytes_ += static_cast<std::int64_t>(taken);
  }
}

void TextReader::parse() {
  parsed_.resize(std::max(parsed_.size(), raw_.size()));
  std::vector<std::string> problems(raw_.size());
  pool_.for_items(static_cast<std::int64_t>(raw_.size()), [&](std::int64_t item, int) {
    const auto i = static_cast<std::size_t>(item);
    if (raw_[i].line > 0) parsed_[i] = text_of_line(raw_[i].bytes, problems[i]);
  });
  for (std::size_t i = 0; i < raw_.size(); ++i) {
    if (!problems[i].empty()) {
      fail_input(inputs_.files[raw_[i].file_idx].path.string(), ": line ", raw_[i].line, " ",
                 problems[i]);
    }
    texts_.push_back(raw_[i].line > 0 ? std::string_view(parsed_[i]) : raw_[i].bytes);
  }
}

}  // namespace ulmus::data
