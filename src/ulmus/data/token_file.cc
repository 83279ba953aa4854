#include "ulmus/data/token_file.h"

#include <algorithm>
#include <limits>

#include "ulmus/base/check.h"
#include "ulmus/base/strict_json.h"
#include "ulmus/data/index_format.h"

namespace ulmus::data {

namespace {

constexpr std::int64_t kScanTokens = std::int64_t{1} << 16;

/// Position of the first id >= limit in [begin, end), or end.
template <class T>
std::int64_t first_at_least(const T* ids, std::int64_t begin, std::int64_t end,
                            std::uint32_t limit) {
  for (std::int64_t block = begin; block < end; block += kScanTokens) {
    const std::int64_t block_end = std::min(end, block + kScanTokens);
    T largest = 0;
    for (std::int64_t i = block; i < block_end; ++i)
      largest = std::max(largest, ids[i]);
    if (largest < limit) continue;
    return std::find_if(ids + block, ids + block_end, [&](T id) { return id >= limit; }) - ids;
  }
  return end;
}

}  // namespace

TokenFile TokenFile::open(const std::filesystem::path& path, const TokenFileOptions& options) {
  TokenFile file{MappedFile(path)};
  file.read_manifest(options);
  file.check_size();
  file.read_index(options);
  return file;
}

void TokenFile::read_manifest(const TokenFileOptions& options) {
  const std::filesystem::path folder = path().parent_path();
  const auto manifest = Manifest::load_if_there(folder);
  const TokenFileEntry* entry = manifest ? manifest->find(path().filename().string()) : nullptr;
  if (!manifest || entry == nullptr) {
    if (!options.type) {
      fail_input(path().string(), ": no ", Manifest::kFileName,
                 " beside it names it, so its type is unknown; give uint16 or uint32");
    }
    type_ = *options.type;
    return;
  }
  if (options.type && *options.type != entry->type) {
    fail_input(path().string(), ": is ", token_type_name(entry->type), " by its manifest, not ",
               token_type_name(*options.type));
  }
  entry_ = *entry;
  tokenizer_ = manifest->tokenizer;
  type_ = entry->type;
}

void TokenFile::check_size() {
  const auto size = static_cast<std::int64_t>(file_.bytes().size());
  const int width = token_type_bytes(type_);
  if (size == 0) fail_input(path().string(), ": is empty");
  if (size % width != 0) {
    fail_input(path().string(), ": has ", size, " bytes, no multiple of the ", width, " of ",
               token_type_name(type_));
  }
  num_tokens_ = size / width;
  if (entry_ && entry_->num_bytes != size) {
    fail_input(path().string(), ": has ", size, " bytes, but its manifest says ",
               entry_->num_bytes);
  }
}

void TokenFile::read_index(const TokenFileOptions& options) {
  std::filesystem::path index_path = path();
  if (entry_) {
    index_path.replace_filename(entry_->index);
  } else {
    index_path.replace_extension(kIndexExtension);
  }
  std::error_code error;
  if (entry_ || (index_path != path() && std::filesystem::exists(index_path, error))) {
    parse_index(index_.emplace(index_path));
  } else {
    find_documents(options.end_of_text_id);
  }
}

void TokenFile::parse_index(const MappedFile& index) {
  const std::string name = index.path().string();
  const auto bytes = index.bytes();
  const std::size_t smallest = kIndexHeaderBytes + kIndexHashBytes;
  if (bytes.size() < smallest || std::memcmp(bytes.data(), kIndexMagic, 8) != 0) {
    fail_input(name, ": is not the index of a token file");
  }
  const auto number = [&](std::size_t at) { return load_number<std::uint64_t>(&bytes[at]); };
  if (number(8) != kIndexVersion) {
    fail_input(name, ": is of format ", number(8), "; this program reads ", kIndexVersion);
  }
  const std::uint64_t documents = number(24);
  if (documents != (bytes.size() - smallest) / 8 || bytes.size() % 8 != 0) {
    fail_input(name, ": has ", bytes.size(), " bytes, which do not hold ", documents, " documents");
  }
  if (hash_bytes(bytes.first(bytes.size() - 8)) != number(bytes.size() - 8)) {
    fail_input(name, ": is damaged: its hash does not match");
  }
  if (number(16) != static_cast<std::uint64_t>(num_tokens_)) {
    fail_input(name, ": is for ", number(16), " tokens, but ", path().string(), " has ",
               num_tokens_);
  }
  std::uint64_t last_end = 0;
  for (std::uint64_t i = 0; i < documents; ++i) {
    const std::uint64_t end = number(kIndexHeaderBytes + i * 8);
    if (end <= last_end) fail_input(name, ": document ", i, " ends before it begins");
    last_end = end;
  }
  if (last_end != static_cast<std::uint64_t>(num_tokens_)) {
    fail_input(name, ": the last document ends at ", last_end, ", not at ", num_tokens_);
  }
  num_documents_ = static_cast<std::int64_t>(documents);
  boundaries_ = Boundaries::kIndex;
  if (entry_ && entry_->num_documents != num_documents_) {
    fail_input(name, ": has ", num_documents_, " documents, but the manifest says ",
               entry_->num_documents);
  }
}

void TokenFile::find_documents(std::int32_t end_of_text_id) {
  boundaries_ = end_of_text_id >= 0 ? Boundaries::kEndOfTextIds : Boundaries::kWholeFile;
  if (end_of_text_id >= 0) {
    for (std::int64_t i = 0; i + 1 < num_tokens_; ++i) {
      if (raw(i) == static_cast<std::uint32_t>(end_of_text_id)) found_ends_.push_back(i + 1);
    }
  }
  found_ends_.push_back(num_tokens_);
  num_documents_ = static_cast<std::int64_t>(found_ends_.size());
}

std::int64_t TokenFile::document_end(std::int64_t document) const {
  ULMUS_DCHECK(document >= 0 && document < num_documents_, "document ", document);
  if (!index_) return found_ends_[static_cast<std::size_t>(document)];
  const std::byte* at = index_->bytes().data() + kIndexHeaderBytes + document * 8;
  return static_cast<std::int64_t>(load_number<std::uint64_t>(at));
}

std::uint32_t TokenFile::raw(std::int64_t position) const {
  const std::byte* at = file_.bytes().data() + position * token_type_bytes(type_);
  return type_ == TokenType::kUint16 ? load_number<std::uint16_t>(at)
                                     : load_number<std::uint32_t>(at);
}

void TokenFile::read(std::int64_t begin, std::span<std::int32_t> out) const {
  const auto count = static_cast<std::int64_t>(out.size());
  ULMUS_CHECK(begin >= 0 && count <= num_tokens_ && begin <= num_tokens_ - count, "tokens ", begin,
              " and ", count, " more of ", num_tokens_, " in ", path().string());
  if (type_ == TokenType::kUint32) {
    if (count > 0) std::memcpy(out.data(), file_.bytes().data() + begin * 4, out.size_bytes());
    return;
  }
  const auto* ids = reinterpret_cast<const std::uint16_t*>(file_.bytes().data()) + begin;
  std::copy(ids, ids + count, out.begin());
}

std::optional<std::int64_t> TokenFile::text_bytes() const {
  return entry_ ? std::optional(entry_->text_bytes) : std::nullopt;
}

void TokenFile::verify_ids(int vocab_size, std::int64_t begin, std::int64_t end,
                           ThreadPool& pool) const {
  ULMUS_CHECK(vocab_size > 0, "vocabulary of ", vocab_size);
  ULMUS_CHECK(0 <= begin && begin <= end && end <= num_tokens_, "tokens ", begin, " to ", end,
              " of ", num_tokens_);
  const auto limit = static_cast<std::uint32_t>(vocab_size);
  if (type_ == TokenType::kUint16 && limit > std::numeric_limits<std::uint16_t>::max()) return;
  std::vector<std::int64_t> bad(static_cast<std::size_t>(pool.num_threads()), num_tokens_);
  pool.for_ranges(end - begin, kScanTokens, [&](std::int64_t from, std::int64_t to, int thread) {
    const std::byte* data = file_.bytes().data();
    const std::int64_t stop = begin + to;
    const std::int64_t first = type_ == TokenType::kUint16
                                   ? first_at_least(reinterpret_cast<const std::uint16_t*>(data),
                                                    begin + from, stop, limit)
                                   : first_at_least(reinterpret_cast<const std::uint32_t*>(data),
                                                    begin + from, stop, limit);
    if (first < stop) bad[static_cast<std::size_t>(thread)] = first;
  });
  const std::int64_t first = *std::min_element(bad.begin(), bad.end());
  if (first < num_tokens_) {
    fail_input(path().string(), ": token ", first, " of ", num_tokens_, " is ", raw(first),
               ", but the vocabulary has ", vocab_size, " ids");
  }
}

std::uint64_t TokenFile::hash() const { return entry_ ? entry_->hash : hash_bytes(file_.bytes()); }

void TokenFile::verify_hashes() const {
  if (!entry_ || !index_)
    fail_input(path().string(), ": no manifest names it, so it has no hash to compare");
  const auto compare = [](const MappedFile& file, std::uint64_t expected) {
    const std::uint64_t found = hash_bytes(file.bytes());
    if (found != expected) {
      fail_input(file.path().string(), ": has the hash ", hash_text(found),
                 ", but its manifest says ", hash_text(expected));
    }
  };
  compare(file_, entry_->hash);
  compare(*index_, entry_->index_hash);
}

}  // namespace ulmus::data
