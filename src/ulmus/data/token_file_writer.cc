#include <xxhash.h>

#include <span>
#include <utility>

#include "ulmus/base/check.h"
#include "ulmus/base/strict_json.h"
#include "ulmus/data/index_format.h"
#include "ulmus/data/token_file.h"

namespace ulmus::data {

namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20U;

std::filesystem::path part_of(std::filesystem::path path) {
  path += ".part";
  return path;
}

void check_stem(const std::string& stem) {
  if (stem.empty() || stem.find('/') != std::string::npos || stem[0] == '.') {
    fail_input("\"", stem, "\" is not a plain name for a token file");
  }
}

/// The bytes of an index without its hash.
std::vector<std::byte> index_bytes(std::int64_t num_tokens,
                                   const std::vector<std::uint64_t>& ends) {
  std::vector<std::uint64_t> numbers{0, kIndexVersion, static_cast<std::uint64_t>(num_tokens),
                                     ends.size()};
  std::memcpy(numbers.data(), kIndexMagic, sizeof(kIndexMagic));
  numbers.insert(numbers.end(), ends.begin(), ends.end());
  const auto bytes = std::as_bytes(std::span(numbers));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

struct TokenFileWriter::Output {
  explicit Output(const std::filesystem::path& file_path)
      : path(file_path), writer(part_of(file_path)), hash(XXH3_createState()) {
    XXH3_64bits_reset(hash);
  }
  ~Output() {
    XXH3_freeState(hash);
    std::error_code error;
    if (!published) std::filesystem::remove(part_of(path), error);
  }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  std::filesystem::path path;
  FileWriter writer;
  XXH3_state_t* hash;
  bool published = false;
};

TokenFileWriter::TokenFileWriter(const std::filesystem::path& folder, const std::string& stem,
                                 const TokenizerFacts& tokenizer, Overwrite overwrite)
    : folder_(folder), tokenizer_(tokenizer) {
  check_stem(stem);
  entry_.name = stem + std::string(kTokenFileExtension);
  entry_.index = stem + std::string(kIndexExtension);
  entry_.type = token_type_for(tokenizer.vocab_size);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail_input("cannot make the folder ", folder.string(), ": ", error.message());
  lock_ = std::make_unique<FileLock>(folder / ".lock");
  const std::filesystem::path path = folder / entry_.name;
  if (overwrite == Overwrite::kNo && std::filesystem::exists(path)) {
    fail_input(path.string(), " exists; choose another name or ask for overwriting");
  }
  const auto manifest = Manifest::load_if_there(folder);
  if (manifest && manifest->tokenizer != tokenizer) {
    fail_input(folder.string(), " holds token files of another tokenizer (",
               hash_text(manifest->tokenizer.fingerprint), ", ours is ",
               hash_text(tokenizer.fingerprint), "); choose another folder");
  }
  output_ = std::make_unique<Output>(path);
  buffer_.reserve(kBufferBytes);
}

TokenFileWriter::~TokenFileWriter() = default;

void TokenFileWriter::append(std::span<const std::int32_t> ids) {
  for (const std::int32_t id : ids) {
    ULMUS_CHECK(id >= 0 && id < tokenizer_.vocab_size, "token id ", id, " of a vocabulary of ",
                tokenizer_.vocab_size);
    const auto value = static_cast<std::uint32_t>(id);
    for (int byte = 0; byte < token_type_bytes(entry_.type); ++byte) {
      buffer_.push_back(static_cast<std::byte>(value >> (8 * byte)));
    }
    if (buffer_.size() >= kBufferBytes) flush();
  }
  entry_.num_tokens += static_cast<std::int64_t>(ids.size());
}

void TokenFileWriter::end_document(std::int64_t text_bytes) {
  const auto end = static_cast<std::uint64_t>(entry_.num_tokens);
  ULMUS_CHECK(end > (ends_.empty() ? 0 : ends_.back()), "document ", ends_.size(), " is empty");
  ends_.push_back(end);
  entry_.text_bytes += text_bytes;
}

void TokenFileWriter::flush() {
  XXH3_64bits_update(output_->hash, buffer_.data(), buffer_.size());
  output_->writer.write(buffer_);
  entry_.num_bytes += static_cast<std::int64_t>(buffer_.size());
  buffer_.clear();
}

TokenFileEntry TokenFileWriter::finish() {
  if (ends_.empty()) fail_input(output_->path.string(), ": there is no text to write");
  ULMUS_CHECK(ends_.back() == static_cast<std::uint64_t>(entry_.num_tokens),
              "the last document was not ended");
  flush();
  entry_.num_documents = static_cast<std::int64_t>(ends_.size());
  entry_.hash = XXH3_64bits_digest(output_->hash);
  output_->writer.sync_and_close();

  std::vector<std::byte> index = index_bytes(entry_.num_tokens, ends_);
  const std::uint64_t index_own_hash = hash_bytes(index);
  const auto hash_part = std::as_bytes(std::span(&index_own_hash, 1));
  index.insert(index.end(), hash_part.begin(), hash_part.end());
  entry_.index_bytes = static_cast<std::int64_t>(index.size());
  entry_.index_hash = hash_bytes(index);

  Manifest manifest = Manifest::load_if_there(folder_).value_or(Manifest{tokenizer_, {}});
  write_file_atomically(folder_ / entry_.index,
                        {reinterpret_cast<const char*>(index.data()), index.size()});
  std::error_code error;
  std::filesystem::rename(part_of(output_->path), output_->path, error);
  if (error) fail("cannot rename ", part_of(output_->path).string(), ": ", error.message());
  output_->published = true;
  manifest.put(entry_);
  write_file_atomically(folder_ / Manifest::kFileName, manifest.to_json());
  return entry_;
}

}  // namespace ulmus::data
