#include "ulmus/data/tokenize.h"

#include <algorithm>
#include <array>
#include <memory>

#include "ulmus/base/error.h"
#include "ulmus/base/strict_json.h"
#include "ulmus/data/pretokenizer.h"

namespace ulmus::data {

namespace {

constexpr std::size_t kPieceBytes = std::size_t{1} << 18U;

/// Part of a document that one thread encodes.
struct Piece {
  std::string_view text;
  std::size_t document;
};

/// Documents cut into pieces whose tokens, joined, are those of the whole. An added token could
/// span a cut, so a vocabulary that recognises one in plain text is given whole documents.
std::vector<Piece> cut(std::span<const std::string_view> documents, const Tokenizer& tokenizer) {
  const auto& added = tokenizer.added_tokens();
  const bool may_cut =
      std::all_of(added.begin(), added.end(), [](const AddedToken& t) { return t.special; });
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const std::string_view text = documents[i];
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end =
          may_cut ? safe_cut(text, std::min(text.size(), begin + kPieceBytes)) : text.size();
      pieces.push_back({text.substr(begin, end - begin), i});
      begin = end;
    }
  }
  return pieces;
}

class BatchEncoder {
 public:
  BatchEncoder(const Tokenizer& tokenizer, ThreadPool& pool) : tokenizer_(tokenizer), pool_(pool) {
    for (int i = 0; i < pool.num_threads(); ++i)
      encoders_.emplace_back(tokenizer);
  }

  /// Writes the documents of a batch in order; returns how many were empty.
  std::int64_t write(std::span<const std::string_view> documents, TokenFileWriter& writer) {
    const std::vector<Piece> pieces = cut(documents, tokenizer_);
    if (ids_.size() < pieces.size()) ids_.resize(pieces.size());
    pool_.for_items(static_cast<std::int64_t>(pieces.size()), [&](std::int64_t item, int thread) {
      auto& ids = ids_[static_cast<std::size_t>(item)];
      ids.clear();
      encoders_[static_cast<std::size_t>(thread)].encode(
          pieces[static_cast<std::size_t>(item)].text, ids);
    });
    std::int64_t num_empty = 0;
    std::size_t piece = 0;
    for (std::size_t i = 0; i < documents.size(); ++i) {
      if (documents[i].empty()) ++num_empty;
      if (documents[i].empty()) continue;
      for (; piece < pieces.size() && pieces[piece].document == i; ++piece) {
        writer.append(ids_[piece]);
      }
      if (tokenizer_.end_of_text_id() >= 0) writer.append(std::array{tokenizer_.end_of_text_id()});
      writer.end_document(static_cast<std::int64_t>(documents[i].size()));
    }
    return num_empty;
  }

 private:
  const Tokenizer& tokenizer_;
  ThreadPool& pool_;
  std::vector<Encoder> encoders_;
  std::vector<std::vector<std::int32_t>> ids_;
};

std::string problem_of(const std::filesystem::path& path, int vocab_size, ThreadPool& pool) {
  try {
    const TokenFile file = TokenFile::open(path);
    file.verify_hashes();
    file.verify_ids(vocab_size, 0, file.num_tokens(), pool);
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

}  // namespace

WordCounts count_words(const InputFiles& inputs, ThreadPool& pool, const Progress& progress) {
  TextReader reader(inputs, pool);
  WordCounts counts;
  for (auto documents = reader.next(); !documents.empty(); documents = reader.next()) {
    counts.add(documents, pool);
    if (progress) progress(reader.bytes_read(), reader.bytes_total());
  }
  return counts;
}

TokenizeReport tokenize(const InputFiles& inputs, const Tokenizer& tokenizer,
                        const TokenizeOptions& options, ThreadPool& pool) {
  TokenFileWriter writer(options.folder, options.stem, facts_of(tokenizer), options.overwrite);
  TextReader reader(inputs, pool);
  BatchEncoder encoder(tokenizer, pool);
  TokenizeReport report;
  for (auto documents = reader.next(); !documents.empty(); documents = reader.next()) {
    report.num_empty_documents += encoder.write(documents, writer);
    if (options.progress) options.progress(reader.bytes_read(), reader.bytes_total());
  }
  report.entry = writer.finish();
  report.num_files = reader.num_files_read();
  report.num_ignored_files = reader.num_ignored();
  return report;
}

bool FolderVerdict::good() const {
  return std::all_of(files.begin(), files.end(),
                     [](const FileVerdict& file) { return file.problem.empty(); });
}

FolderVerdict verify_folder(const std::filesystem::path& folder, const Tokenizer* tokenizer,
                            ThreadPool& pool) {
  const Manifest manifest = Manifest::load(folder);
  FolderVerdict verdict;
  if (tokenizer != nullptr && facts_of(*tokenizer) != manifest.tokenizer) {
    verdict.files.push_back(
        {std::string(Manifest::kFileName),
         concat((folder / Manifest::kFileName).string(), ": the files are of the tokenizer ",
                hash_text(manifest.tokenizer.fingerprint), ", not of ",
                hash_text(tokenizer->fingerprint()))});
  }
  for (const TokenFileEntry& entry : manifest.files) {
    verdict.files.push_back(
        {entry.name, problem_of(folder / entry.name, manifest.tokenizer.vocab_size, pool)});
  }
  return verdict;
}

TokenFileSummary summarise(const TokenFile& file, int vocab_size, ThreadPool& pool) {
  file.verify_ids(vocab_size, 0, file.num_tokens(), pool);
  TokenFileSummary summary;
  summary.num_tokens = file.num_tokens();
  summary.num_documents = file.num_documents();
  std::vector<std::int64_t> lengths;
  lengths.reserve(static_cast<std::size_t>(file.num_documents()));
  for (std::int64_t i = 0; i < file.num_documents(); ++i) {
    lengths.push_back(file.document_end(i) - file.document_begin(i));
  }
  std::sort(lengths.begin(), lengths.end());
  summary.shortest_document = lengths.front();
  summary.median_document = lengths[lengths.size() / 2];
  summary.longest_document = lengths.back();
  std::vector<bool> seen(static_cast<std::size_t>(vocab_size));
  std::vector<std::int32_t> ids(std::size_t{1} << 16U);
  for (std::int64_t begin = 0; begin < file.num_tokens();) {
    const std::int64_t count =
        std::min(file.num_tokens() - begin, static_cast<std::int64_t>(ids.size()));
    const auto block = std::span(ids).first(static_cast<std::size_t>(count));
    file.read(begin, block);
    for (const std::int32_t id : block) {
      seen[static_cast<std::size_t>(id)] = true;
      summary.largest_id = std::max(summary.largest_id, id);
    }
    begin += count;
  }
  summary.num_distinct_ids = static_cast<int>(std::count(seen.begin(), seen.end(), true));
  return summary;
}

}  // namespace ulmus::data
