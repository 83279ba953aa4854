#include "ulmus/data/tokenizer.h"

#include <xxhash.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "ulmus/base/error.h"
#include "ulmus/base/file.h"

namespace ulmus::data {

Tokenizer::Tokenizer(std::vector<std::string> tokens, std::vector<Merge> merges,
                     std::vector<AddedToken> added, std::string_view name)
    : tokens_(std::move(tokens)), merges_(std::move(merges)), added_(std::move(added)) {
  check(name);
  std::vector<bool> is_added(tokens_.size());
  for (const AddedToken& token : added_) {
    is_added[static_cast<std::size_t>(token.id)] = true;
    if (token.content == kEndOfText) end_of_text_id_ = token.id;
  }
  byte_ids_.fill(-1);
  for (std::size_t id = 0; id < tokens_.size(); ++id) {
    if (tokens_[id].size() == 1 && !is_added[id]) {
      byte_ids_[static_cast<unsigned char>(tokens_[id][0])] = static_cast<std::int32_t>(id);
    }
  }
  for (int byte = 0; byte < 256; ++byte) {
    if (byte_ids_[static_cast<std::size_t>(byte)] < 0) {
      fail_input(name, ": the vocabulary lacks the token of byte ", byte,
                 "; byte-level BPE needs all 256");
    }
  }
  fingerprint_ = [this] {
    const std::string json = to_json();
    return XXH3_64bits(json.data(), json.size());
  }();
}

void Tokenizer::check(std::string_view name) const {
  const auto size = static_cast<std::int32_t>(tokens_.size());
  const auto inside = [size](std::int32_t id) { return id >= 0 && id < size; };
  for (std::size_t rank = 0; rank < merges_.list().size(); ++rank) {
    const auto [left, right, result] = merges_.list()[rank];
    if (!inside(left) || !inside(right) || !inside(result)) {
      fail_input(name, ": merge ", rank, " names a token outside the vocabulary");
    }
    const auto bytes = [this](std::int32_t id) -> const std::string& {
      return tokens_[static_cast<std::size_t>(id)];
    };
    if (bytes(left) + bytes(right) != bytes(result)) {
      fail_input(name, ": merge ", rank, " does not join the bytes of its two tokens");
    }
  }
  std::unordered_set<std::string_view> contents;
  for (const AddedToken& token : added_) {
    if (!inside(token.id)) fail_input(name, ": added token id ", token.id, " outside 0..", size);
    if (token.content.empty()) fail_input(name, ": added token ", token.id, " is empty");
    if (tokens_[static_cast<std::size_t>(token.id)] != token.content) {
      fail_input(name, ": added token ", token.id, " has another text than the vocabulary");
    }
    if (!contents.insert(token.content).second) {
      fail_input(name, ": added token \"", token.content, "\" occurs twice");
    }
  }
}

Tokenizer Tokenizer::load(const std::filesystem::path& path) {
  return parse(read_file(path), path.string());
}

void Tokenizer::save(const std::filesystem::path& path) const {
  write_file_atomically(path, to_json());
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, SpecialText special) const {
  std::vector<std::int32_t> ids;
  encode(text, ids, special);
  return ids;
}

void Tokenizer::encode(std::string_view text, std::vector<std::int32_t>& ids,
                       SpecialText special) const {
  Encoder(*this, special).encode(text, ids);
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  for (const std::int32_t id : ids)
    text += token_bytes(id);
  return text;
}

std::string_view Tokenizer::token_bytes(std::int32_t id) const {
  if (id < 0 || id >= vocab_size()) {
    fail_input("token id ", id, " is outside the vocabulary 0..", vocab_size() - 1);
  }
  return tokens_[static_cast<std::size_t>(id)];
}

}  // namespace ulmus::data
