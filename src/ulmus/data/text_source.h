#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ulmus/base/file.h"
#include "ulmus/base/thread_pool.h"

namespace ulmus::data {

enum class InputKind {
  kText,   ///< the whole file is one document, byte for byte
  kJsonl,  ///< each line is an object whose "text" is one document
};

struct InputFile {
  std::filesystem::path path;
  InputKind kind;
};

struct InputFiles {
  std::vector<InputFile> files;
  std::int64_t num_ignored = 0;  ///< files in given folders that are neither .txt nor .jsonl
};

/// The input files behind some paths, in the given order. A folder stands for the .txt and .jsonl
/// files in it and below, sorted by path. A file given by name is JSONL if it ends in .jsonl; other
/// names are plain text, but formats that certainly are not (.json, .gz, .zst, .parquet, ...) are
/// refused. InputError for a path that does not exist and for a folder without a text.
InputFiles find_inputs(std::span<const std::filesystem::path> paths);

/// Reads documents in order, a batch at a time, so that memory stays bounded by the batch (one
/// longer document is a batch of its own). JSONL is parsed on all threads; the result does not
/// depend on their number.
class TextReader {
 public:
  TextReader(InputFiles inputs, ThreadPool& pool, std::int64_t batch_bytes = kDefaultBatchBytes);

  /// The documents of the next batch; empty at the end. Views stay valid until the next call.
  /// InputError naming file and line for a line that is no JSON object with a string "text".
  std::span<const std::string_view> next();

  std::int64_t num_files_read() const { return static_cast<std::int64_t>(next_file_); }
  std::int64_t num_ignored() const { return inputs_.num_ignored; }
  /// Bytes of the input files read so far; of all of them.
  std::int64_t bytes_read() const { return bytes_read_; }
  std::int64_t bytes_total() const { return bytes_total_; }

  static constexpr std::int64_t kDefaultBatchBytes = std::int64_t{32} << 20;

 private:
  struct RawDocument {
    std::string_view bytes;
    std::size_t file_idx;
    std::int64_t line;  // from 1; 0 for plain text
  };
  bool gather();
  void take_lines(std::int64_t limit);
  void parse();

  InputFiles inputs_;
  ThreadPool& pool_;
  std::int64_t batch_bytes_;
  std::size_t next_file_ = 0;  // files before it are fully gathered or being gathered
  std::vector<std::shared_ptr<MappedFile>> open_;
  std::string_view rest_;  // of the JSONL file being gathered
  std::int64_t line_ = 0;
  std::int64_t gathered_bytes_ = 0;
  std::int64_t bytes_read_ = 0;
  std::int64_t bytes_total_ = 0;
  std::vector<RawDocument> raw_;
  std::vector<std::string> parsed_;
  std::vector<std::string_view> texts_;
};

}  // namespace ulmus::data
