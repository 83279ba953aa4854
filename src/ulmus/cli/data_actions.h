#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ulmus::cli {

/// Options of all `ulmus data` commands; each uses its own.
struct DataOptions {
  std::vector<std::string> inputs;
  std::string output;
  std::string tokenizer;
  std::string name = "train";
  bool overwrites = false;
  int vocab = 4096;
  std::int64_t min_count = 2;
  std::string tokens;  ///< a token file, or the folder to verify
  std::string held_out;
  std::string type;
  int vocab_size = 0;
  int threads = 0;
  std::string json;
};

/// Each returns the exit status.
int train_tokenizer(const DataOptions& options);
int tokenize_texts(const DataOptions& options);
int show_tokens(const DataOptions& options);
/// DifferenceError when a file is not good.
int verify_tokens(const DataOptions& options);

}  // namespace ulmus::cli
