#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "ulmus/base/thread_pool.h"
#include "ulmus/data/bpe_trainer.h"
#include "ulmus/data/text_source.h"
#include "ulmus/data/token_file.h"
#include "ulmus/data/tokenizer.h"

/// The work behind `ulmus data`.
namespace ulmus::data {

/// Called now and then with the bytes of input read so far and in all.
using Progress = std::function<void(std::int64_t bytes_read, std::int64_t bytes_total)>;

/// Counts the words of some inputs, for train_bpe.
WordCounts count_words(const InputFiles& inputs, ThreadPool& pool, const Progress& progress = {});

struct TokenizeOptions {
  std::filesystem::path folder;  ///< gets STEM.tokens, STEM.index and the manifest
  std::string stem = "train";
  Overwrite overwrite = Overwrite::kNo;
  Progress progress = {};
};

struct TokenizeReport {
  TokenFileEntry entry;
  std::int64_t num_files = 0;
  std::int64_t num_ignored_files = 0;    ///< see InputFiles
  std::int64_t num_empty_documents = 0;  ///< documents without a byte of text, left out
};

/// Text to a token file with index and manifest entry. Each document becomes its tokens and the
/// end-of-text id, where the tokenizer has one. Special tokens' texts are plain text. The file does
/// not depend on the number of threads. InputError as find_inputs, TextReader and TokenFileWriter.
TokenizeReport tokenize(const InputFiles& inputs, const Tokenizer& tokenizer,
                        const TokenizeOptions& options, ThreadPool& pool);

/// What verify_folder found out about one file.
struct FileVerdict {
  std::string name;
  std::string problem;  ///< empty: good
};

struct FolderVerdict {
  std::vector<FileVerdict> files;
  bool good() const;
};

/// Reads everything in a folder of token files: sizes, hashes, indices, ids below the vocabulary,
/// and, where `tokenizer` is given, that the files are of that tokenizer. InputError when the
/// manifest itself is missing or broken.
FolderVerdict verify_folder(const std::filesystem::path& folder, const Tokenizer* tokenizer,
                            ThreadPool& pool);

/// Facts about one token file, for `ulmus data show`.
struct TokenFileSummary {
  std::int64_t num_tokens = 0;
  std::int64_t num_documents = 0;
  std::int64_t shortest_document = 0;
  std::int64_t longest_document = 0;
  std::int64_t median_document = 0;
  std::int32_t largest_id = 0;
  int num_distinct_ids = 0;
};
/// `vocab_size` bounds the ids, see TokenFile::verify_ids, which it calls.
TokenFileSummary summarise(const TokenFile& file, int vocab_size, ThreadPool& pool);

}  // namespace ulmus::data
