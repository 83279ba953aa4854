#include "ulmus/data/manifest.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <limits>
#include <unordered_set>

#include "ulmus/base/file.h"
#include "ulmus/data/json_fields.h"

namespace ulmus::data {

namespace {

constexpr std::string_view kFormat = "ulmus token files";
constexpr std::int64_t kFormatVersion = 1;
constexpr std::int64_t kLargestCount = std::int64_t{1} << 53;  // exact in every JSON reader

/// A plain name: a manifest from elsewhere must not make us open files outside its folder.
std::string read_name(const JsonFields& fields, std::string_view key) {
  std::string name = fields.string(key);
  const bool plain = !name.empty() && name.find('/') == std::string::npos &&
                     name.find('\0') == std::string::npos && name != "." && name != "..";
  if (!plain)
    fail_input(fields.place(key), " is ", printable(name), ", not the plain name of a file");
  return name;
}

TokenType read_type(const JsonFields& fields) {
  const std::string name = fields.string("dtype");
  for (const TokenType type : {TokenType::kUint16, TokenType::kUint32}) {
    if (name == token_type_name(type)) return type;
  }
  fail_input(fields.place("dtype"), " is ", printable(name), "; allowed: uint16, uint32");
}

TokenFileEntry read_entry(const Json& json, const std::string& place) {
  const JsonFields fields(json, place);
  fields.refuse_unknown({"name", "index", "dtype", "tokens", "documents", "text_bytes", "bytes",
                         "xxh3_64", "index_bytes", "index_xxh3_64"});
  TokenFileEntry entry;
  entry.name = read_name(fields, "name");
  entry.index = read_name(fields, "index");
  entry.type = read_type(fields);
  entry.num_tokens = fields.integer("tokens", 1, kLargestCount);
  entry.num_documents = fields.integer("documents", 1, entry.num_tokens);
  entry.text_bytes = fields.integer("text_bytes", 0, kLargestCount);
  entry.num_bytes = fields.integer("bytes", 1, kLargestCount);
  entry.hash = hash_field(json, "xxh3_64", place);
  entry.index_bytes = fields.integer("index_bytes", 1, kLargestCount);
  entry.index_hash = hash_field(json, "index_xxh3_64", place);
  if (entry.num_bytes != entry.num_tokens * token_type_bytes(entry.type)) {
    fail_input(place, ": ", entry.num_tokens, " tokens of ", token_type_name(entry.type),
               " do not make ", entry.num_bytes, " bytes");
  }
  return entry;
}

TokenizerFacts read_facts(const Json& json, const std::string& place) {
  const JsonFields fields(json, place);
  fields.refuse_unknown({"xxh3_64", "vocab", "end_of_text"});
  TokenizerFacts facts;
  facts.fingerprint = hash_field(json, "xxh3_64", place);
  facts.vocab_size =
      static_cast<int>(fields.integer("vocab", 1, std::numeric_limits<std::int32_t>::max()));
  facts.end_of_text_id = static_cast<std::int32_t>(
      fields.integer("end_of_text", -1, std::int64_t{facts.vocab_size} - 1));
  return facts;
}

}  // namespace

std::string_view token_type_name(TokenType type) {
  return type == TokenType::kUint16 ? "uint16" : "uint32";
}

int token_type_bytes(TokenType type) { return type == TokenType::kUint16 ? 2 : 4; }

TokenType token_type_for(int vocab_size) {
  return vocab_size <= 65536 ? TokenType::kUint16 : TokenType::kUint32;
}

TokenizerFacts facts_of(const Tokenizer& tokenizer) {
  return {tokenizer.fingerprint(), tokenizer.vocab_size(), tokenizer.end_of_text_id()};
}

Manifest Manifest::parse(std::string_view json, std::string_view name) {
  const Json document = parse_strict_json(json, name);
  const JsonFields root(document, std::string(name));
  if (root.string("format") != kFormat) fail_input(root.place("format"), " is not ", kFormat);
  root.integer("version", kFormatVersion, kFormatVersion);
  root.refuse_unknown({"format", "version", "tokenizer", "files"});
  Manifest manifest;
  manifest.tokenizer = read_facts(root.at("tokenizer"), root.place("tokenizer"));
  const Json& files = root.at("files");
  if (!files.is_array()) fail_input(root.place("files"), " is not a list");
  std::unordered_set<std::string> names;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string place = concat(root.place("files"), " entry ", i);
    const TokenFileEntry entry = read_entry(files[i], place);
    if (!names.insert(entry.name).second || !names.insert(entry.index).second) {
      fail_input(place, ": the name of \"", entry.name, "\" or of its index occurs twice");
    }
    manifest.put(entry);
  }
  return manifest;
}

Manifest Manifest::load(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kFileName;
  return parse(read_file(path), path.string());
}

std::optional<Manifest> Manifest::load_if_there(const std::filesystem::path& folder) {
  std::error_code error;
  if (!std::filesystem::exists(folder / kFileName, error)) return std::nullopt;
  return load(folder);
}

std::string Manifest::to_json() const {
  nlohmann::ordered_json json;
  json["format"] = kFormat;
  json["version"] = kFormatVersion;
  json["tokenizer"]["xxh3_64"] = hash_text(tokenizer.fingerprint);
  json["tokenizer"]["vocab"] = tokenizer.vocab_size;
  json["tokenizer"]["end_of_text"] = tokenizer.end_of_text_id;
  json["files"] = nlohmann::ordered_json::array();
  for (const TokenFileEntry& entry : files) {
    nlohmann::ordered_json file;
    file["name"] = entry.name;
    file["index"] = entry.index;
    file["dtype"] = token_type_name(entry.type);
    file["tokens"] = entry.num_tokens;
    file["documents"] = entry.num_documents;
    file["text_bytes"] = entry.text_bytes;
    file["bytes"] = entry.num_bytes;
    file["xxh3_64"] = hash_text(entry.hash);
    file["index_bytes"] = entry.index_bytes;
    file["index_xxh3_64"] = hash_text(entry.index_hash);
    json["files"].push_back(std::move(file));
  }
  return json.dump(2) + "\n";
}

const TokenFileEntry* Manifest::find(std::string_view name) const {
  for (const TokenFileEntry& entry : files) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

void Manifest::put(const TokenFileEntry& entry) {
  const auto place = std::lower_bound(files.begin(), files.end(), entry,
                                      [](const auto& a, const auto& b) { return a.name < b.name; });
  if (place != files.end() && place->name == entry.name) {
    *place = entry;
  } else {
    files.insert(place, entry);
  }
}

std::uint64_t hash_bytes(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace ulmus::data
