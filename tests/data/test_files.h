#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ulmus/base/error.h"
#include "ulmus/data/token_file.h"

namespace ulmus::data {

/// A fresh folder that goes away with the test.
class TestFolder {
 public:
  TestFolder() {
    std::string name = (std::filesystem::path(testing::TempDir()) / "ulmus-data-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp " + name);
    path_ = name;
  }
  ~TestFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  std::filesystem::path write(const std::string& name, std::string_view text) const {
    const std::filesystem::path path = path_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

 private:
  std::filesystem::path path_;
};

using Documents = std::vector<std::vector<std::int32_t>>;

/// Writes documents (ids below `vocab_size`) as STEM.tokens and opens it.
inline std::shared_ptr<const TokenFile> write_tokens(const TestFolder& folder,
                                                     const std::string& stem,
                                                     const Documents& documents, int vocab_size) {
  {
    TokenFileWriter writer(folder.path(), stem, {.fingerprint = 7, .vocab_size = vocab_size});
    for (const auto& document : documents) {
      writer.append(document);
      writer.end_document(static_cast<std::int64_t>(3 * document.size()));
    }
    writer.finish();
  }
  return std::make_shared<TokenFile>(TokenFile::open(folder.path() / (stem + ".tokens")));
}

/// One document 0, 1, 2, ..., n - 1.
inline std::vector<std::int32_t> counting(std::int32_t first, std::int32_t n) {
  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < n; ++i)
    ids.push_back(first + i);
  return ids;
}

/// Runs `body` and returns the message of the InputError it must throw.
template <class Body>
std::string input_error(Body&& body) {
  try {
    body();
  } catch (const InputError& error) {
    return error.what();
  }
  ADD_FAILURE() << "no InputError";
  return {};
}

}  // namespace ulmus::data
