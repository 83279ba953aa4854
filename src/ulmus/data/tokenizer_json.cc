#include <unordered_map>
#include <utility>

#include "ulmus/data/byte_alphabet.h"
#include "ulmus/data/json_fields.h"
#include "ulmus/data/tokenizer.h"

namespace ulmus::data {

namespace {

constexpr std::int64_t kLargestVocab = std::int64_t{1} << 24;

using Ids = std::unordered_map<std::string, std::int32_t>;

void require_absent(const JsonFields& fields, std::string_view key) {
  if (!fields.is_absent(key)) fail_input(fields.place(key), " is not supported; only null is");
}

void require_type(const JsonFields& fields, std::string_view wanted) {
  const std::string type = fields.string("type");
  if (type != wanted) {
    fail_input(fields.place("type"), " is \"", type, "\", which is not supported; only \"", wanted,
               "\" is");
  }
}

void require_false(const JsonFields& fields, std::string_view key) {
  if (fields.boolean_or(key, false)) fail_input(fields.place(key), " = true is not supported");
}

JsonFields byte_level(const JsonFields& root, std::string_view key) {
  JsonFields fields(root.at(key), root.place(key));
  require_type(fields, "ByteLevel");
  fields.refuse_unknown({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  return fields;
}

/// Everything around the model that would change ids or text.
void check_surroundings(const JsonFields& root) {
  root.refuse_unknown({"version", "truncation", "padding", "added_tokens", "normalizer",
                       "pre_tokenizer", "post_processor", "decoder", "model"});
  for (const std::string_view key : {"truncation", "padding", "normalizer"}) {
    require_absent(root, key);
  }
  const JsonFields pre_tokenizer = byte_level(root, "pre_tokenizer");
  // The default of ByteLevel is a prefix space, so the key must be there to say no.
  if (pre_tokenizer.boolean("add_prefix_space")) {
    fail_input(pre_tokenizer.place("add_prefix_space"), " = true is not supported");
  }
  if (!pre_tokenizer.boolean_or("use_regex", true)) {
    fail_input(pre_tokenizer.place("use_regex"), " = false is not supported");
  }
  byte_level(root, "decoder");
  if (!root.is_absent("post_processor")) byte_level(root, "post_processor");
}

void check_model(const JsonFields& model) {
  model.refuse_unknown({"type", "dropout", "unk_token", "continuing_subword_prefix",
                        "end_of_word_suffix", "fuse_unk", "byte_fallback", "ignore_merges", "vocab",
                        "merges"});
  require_type(model, "BPE");
  // Some files set dropout to 0.0, which is none.
  if (!model.is_absent("dropout") && model.at("dropout") != 0.0) require_absent(model, "dropout");
  require_false(model, "byte_fallback");
  require_false(model, "ignore_merges");
  for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!model.is_absent(key) && !model.string(key).empty()) {
      fail_input(model.place(key), " is not supported; only null or \"\" is");
    }
  }
}

Ids read_vocab(const JsonFields& model) {
  const Json& vocab = model.at("vocab");
  const JsonFields fields(vocab, model.place("vocab"));
  Ids ids;
  ids.reserve(vocab.size());
  for (const auto& item : vocab.items()) {
    ids.emplace(item.key(),
                static_cast<std::int32_t>(fields.integer(item.key(), 0, kLargestVocab - 1)));
  }
  return ids;
}

std::vector<AddedToken> read_added(const JsonFields& root) {
  std::vector<AddedToken> added;
  if (root.is_absent("added_tokens")) return added;
  const Json& list = root.at("added_tokens");
  if (!list.is_array()) fail_input(root.place("added_tokens"), " is not a list");
  for (std::size_t i = 0; i < list.size(); ++i) {
    const JsonFields fields(list[i], concat(root.place("added_tokens"), " entry ", i));
    fields.refuse_unknown(
        {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    for (const std::string_view key : {"single_word", "lstrip", "rstrip"}) {
      require_false(fields, key);
    }
    const bool special = fields.boolean_or("special", false);
    added.push_back({.id = static_cast<std::int32_t>(fields.integer("id", 0, kLargestVocab - 1)),
                     .content = fields.string("content"),
                     .special = special,
                     .normalized = fields.boolean_or("normalized", !special)});
  }
  return added;
}

/// Bytes of every id; each id from 0 on exactly once.
std::vector<std::string> read_tokens(const Ids& vocab, const std::vector<AddedToken>& added,
                                     const JsonFields& root) {
  std::unordered_map<std::int32_t, std::string> bytes;
  for (const AddedToken& token : added) {
    if (!bytes.emplace(token.id, token.content).second) {
      fail_input(root.place("added_tokens"), ": id ", token.id, " occurs twice");
    }
  }
  for (const auto& [symbols, id] : vocab) {
    const auto known = bytes.find(id);
    if (known != bytes.end() && known->second == symbols) continue;  // an added token's entry
    if (known != bytes.end()) {
      fail_input(root.place(), ": id ", id, " belongs to two tokens, \"", symbols, "\" and \"",
                 known->second, "\"");
    }
    auto decoded = from_symbols(symbols);
    if (!decoded || decoded->empty()) {
      fail_input(root.place(), ": token ", id, " \"", symbols,
                 "\" is not written in the byte alphabet");
    }
    bytes.emplace(id, std::move(*decoded));
  }
  std::vector<std::string> tokens(bytes.size());
  for (auto& [id, value] : bytes) {
    if (static_cast<std::size_t>(id) >= tokens.size()) {
      fail_input(root.place(), ": the ids of ", tokens.size(), " tokens are not 0..",
                 tokens.size() - 1, ": id ", id, " is there");
    }
    tokens[static_cast<std::size_t>(id)] = std::move(value);
  }
  return tokens;
}

/// The two sides of a merge, written as "left right" or as ["left", "right"].
std::pair<std::string, std::string> merge_sides(const Json& merge, const std::string& place) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  }
  if (merge.is_string()) {
    const auto text = merge.get<std::string>();
    const std::size_t space = text.find(' ');
    if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos) {
      return {text.substr(0, space), text.substr(space + 1)};
    }
  }
  fail_input(place, " is neither \"left right\" nor [\"left\", \"right\"]");
}

std::vector<Merge> read_merges(const JsonFields& model, const Ids& vocab) {
  const Json& list = model.at("merges");
  if (!list.is_array()) fail_input(model.place("merges"), " is not a list");
  std::vector<Merge> merges;
  merges.reserve(list.size());
  for (std::size_t rank = 0; rank < list.size(); ++rank) {
    const std::string place = concat(model.place("merges"), " entry ", rank);
    const auto [left, right] = merge_sides(list[rank], place);
    const auto id_of = [&](const std::string& token) {
      const auto found = vocab.find(token);
      if (found == vocab.end()) {
        fail_input(place, ": token \"", token, "\" is not in the vocabulary");
      }
      return found->second;
    };
    merges.push_back({id_of(left), id_of(right), id_of(left + right)});
  }
  return merges;
}

std::string quoted(const std::string& text) { return Json(text).dump(); }

void append_added(std::string& out, const AddedToken& token) {
  out += concat("\n    {\"id\": ", token.id, ", \"content\": ", quoted(token.content),
                ", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, \"normalized\": ",
                token.normalized ? "true" : "false",
                ", \"special\": ", token.special ? "true" : "false", "}");
}

}  // namespace

Tokenizer Tokenizer::parse(std::string_view json, std::string_view name) {
  const Json document = parse_strict_json(json, name);
  const JsonFields root(document, std::string(name));
  check_surroundings(root);
  const JsonFields model(root.at("model"), root.place("model"));
  check_model(model);
  const Ids vocab = read_vocab(model);
  std::vector<AddedToken> added = read_added(root);
  std::vector<std::string> tokens = read_tokens(vocab, added, root);
  return {std::move(tokens), read_merges(model, vocab), std::move(added), name};
}

std::string Tokenizer::to_json() const {
  std::vector<std::string> symbols(tokens_.size());
  for (std::size_t id = 0; id < tokens_.size(); ++id)
    symbols[id] = to_symbols(tokens_[id]);
  for (const AddedToken& token : added_) {
    symbols[static_cast<std::size_t>(token.id)] = token.content;
  }
  std::string out = R"({
  "version": "1.0",
  "truncation": null,
  "padding": null,
  "added_tokens": [)";
  for (std::size_t i = 0; i < added_.size(); ++i) {
    if (i > 0) out += ",";
    append_added(out, added_[i]);
  }
  out += R"(],
  "normalizer": null,
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
    "use_regex": true},
  "post_processor": null,
  "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
    "use_regex": true},
  "model": {
    "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
    "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
    "vocab": {)";
  for (std::size_t id = 0; id < symbols.size(); ++id) {
    out += concat(id > 0 ? "," : "", "\n      ", quoted(symbols[id]), ": ", id);
  }
  out += "\n    },\n    \"merges\": [";
  for (std::size_t rank = 0; rank < merges_.list().size(); ++rank) {
    const Merge& merge = merges_.list()[rank];
    out += concat(rank > 0 ? "," : "", "\n      ",
                  quoted(symbols[static_cast<std::size_t>(merge.left)] + " " +
                         symbols[static_cast<std::size_t>(merge.right)]));
  }
  return out + "\n    ]\n  }\n}\n";
}

}  // namespace ulmus::data
