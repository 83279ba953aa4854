#include "ulmus/data/instances.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "ulmus/base/check.h"

namespace ulmus::data {

namespace {

/// Bins of one capacity; a piece goes into the fullest that still has room for it.
class BestFit {
 public:
  explicit BestFit(std::int64_t capacity) : capacity_(capacity) {}

  /// The bin for a piece; of equally full ones the one filled last.
  std::int64_t place(std::int64_t length) {
    const auto fullest = by_room_.lower_bound(length);
    std::int64_t bin = num_bins_;
    std::int64_t room = capacity_;
    if (fullest == by_room_.end()) {
      ++num_bins_;
    } else {
      room = fullest->first;
      bin = fullest->second.back();
      fullest->second.pop_back();
      if (fullest->second.empty()) by_room_.erase(fullest);
    }
    if (room > length) by_room_[room - length].push_back(bin);
    return bin;
  }

  std::int64_t num_bins() const { return num_bins_; }

 private:
  std::int64_t capacity_;
  std::int64_t num_bins_ = 0;
  std::map<std::int64_t, std::vector<std::int64_t>> by_room_;
};

}  // namespace

Packing parse_packing(std::string_view name, std::string_view key) {
  for (const Packing packing : {Packing::kChunk, Packing::kDocuments}) {
    if (name == packing_name(packing)) return packing;
  }
  fail_input(key, " is \"", name, "\"; allowed: chunk, documents");
}

std::string_view packing_name(Packing packing) {
  return packing == Packing::kChunk ? "chunk" : "documents";
}

Instances::Instances(TokenFiles files, std::int64_t sequence_length, Packing packing,
                     Leftover leftover)
    : files_(std::move(files)), sequence_length_(sequence_length), packing_(packing) {
  ULMUS_CHECK(sequence_length >= 1 && sequence_length <= std::numeric_limits<std::int32_t>::max(),
              "sequence length ", sequence_length);
  if (packing == Packing::kChunk) {
    count_chunks(leftover);
  } else {
    pack_documents();
  }
  if (size_ > 0) return;
  std::int64_t num_tokens = 0;
  for (const auto& file : files_)
    num_tokens += file->num_tokens();
  fail_input(files_.empty() ? "no token file" : files_.front()->path().string(), " (",
             files_.size(), " files, ", num_tokens, " tokens) gives no sequence of ",
             sequence_length, " tokens; more text or a shorter data.sequence_length is needed");
}

void Instances::count_chunks(Leftover leftover) {
  for (const auto& file : files_) {
    const std::int64_t num_targets = file->num_tokens() - 1;
    const std::int64_t whole = num_targets / sequence_length_;
    const std::int64_t rest = num_targets % sequence_length_;
    const bool pad_rest = rest > 0 && leftover == Leftover::kPad;
    size_ += whole + (pad_rest ? 1 : 0);
    file_end_.push_back(size_);
    num_targets_ += whole * sequence_length_ + (pad_rest ? rest : 0);
    num_dropped_ += pad_rest ? 0 : rest;
  }
}

std::vector<Instances::Piece> Instances::cut_documents() const {
  std::vector<Piece> pieces;
  for (std::size_t f = 0; f < files_.size(); ++f) {
    const TokenFile& file = *files_[f];
    for (std::int64_t d = 0; d < file.num_documents(); ++d) {
      const std::int64_t end = file.document_end(d) - 1;  // the last token is a target only
      for (std::int64_t begin = file.document_begin(d); begin < end; begin += sequence_length_) {
        const std::int64_t length = std::min(sequence_length_, end - begin);
        pieces.push_back({begin, static_cast<std::int32_t>(length), static_cast<std::int32_t>(f)});
      }
    }
  }
  return pieces;
}

void Instances::pack_documents() {
  std::vector<Piece> pieces = cut_documents();
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const Piece& a, const Piece& b) { return a.length > b.length; });
  BestFit bins(sequence_length_);
  std::vector<std::int64_t> bin_of;
  bin_of.reserve(pieces.size());
  for (const Piece& piece : pieces) {
    bin_of.push_back(bins.place(piece.length));
    num_targets_ += piece.length;
  }
  size_ = bins.num_bins();
  // Counting sort by bin: pieces of a bin stay in the order in which they were placed.
  first_piece_.assign(static_cast<std::size_t>(size_) + 1, 0);
  for (const std::int64_t bin : bin_of)
    ++first_piece_[static_cast<std::size_t>(bin) + 1];
  for (std::size_t i = 1; i < first_piece_.size(); ++i)
    first_piece_[i] += first_piece_[i - 1];
  std::vector<std::int64_t> next(first_piece_.begin(), first_piece_.end() - 1);
  pieces_.resize(pieces.size());
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::int64_t place = next[static_cast<std::size_t>(bin_of[i])]++;
    pieces_[static_cast<std::size_t>(place)] = pieces[i];
  }
}

void Instances::fill(std::int64_t index, const InstanceRows& rows) const {
  ULMUS_CHECK(index >= 0 && index < size_, "instance ", index, " of ", size_);
  const auto length = static_cast<std::size_t>(sequence_length_);
  ULMUS_CHECK(rows.tokens.size() == length && rows.targets.size() == length &&
                  rows.document_begin.size() == length && rows.valid.size() == length,
              "rows of ", rows.tokens.size(), " for a sequence of ", length);
  if (packing_ == Packing::kChunk) {
    fill_chunk(index, rows);
    return;
  }
  std::int64_t at = 0;
  const auto bin = static_cast<std::size_t>(index);
  for (std::int64_t p = first_piece_[bin]; p < first_piece_[bin + 1]; ++p) {
    const Piece& piece = pieces_[static_cast<std::size_t>(p)];
    fill_piece(piece, at, rows);
    at += piece.length;
  }
  pad(at, rows);
}

void Instances::fill_chunk(std::int64_t index, const InstanceRows& rows) const {
  const auto file = std::upper_bound(file_end_.begin(), file_end_.end(), index);
  const std::int64_t first = file == file_end_.begin() ? 0 : *(file - 1);
  const auto file_idx = static_cast<std::size_t>(file - file_end_.begin());
  const std::int64_t begin = (index - first) * sequence_length_;
  const std::int64_t length =
      std::min(sequence_length_, files_[file_idx]->num_tokens() - 1 - begin);
  fill_piece({begin, static_cast<std::int32_t>(length), static_cast<std::int32_t>(file_idx)}, 0,
             rows);
  pad(length, rows);
}

void Instances::fill_piece(const Piece& piece, std::int64_t at, const InstanceRows& rows) const {
  const TokenFile& file = *files_[static_cast<std::size_t>(piece.file)];
  const auto offset = static_cast<std::size_t>(at);
  const auto length = static_cast<std::size_t>(piece.length);
  file.read(piece.begin, rows.tokens.subspan(offset, length));
  file.read(piece.begin + 1, rows.targets.subspan(offset, length));
  std::ranges::fill(rows.document_begin.subspan(offset, length), static_cast<std::int32_t>(at));
  std::ranges::fill(rows.valid.subspan(offset, length), std::uint8_t{1});
}

void Instances::pad(std::int64_t from, const InstanceRows& rows) const {
  for (auto i = static_cast<std::size_t>(from); i < rows.tokens.size(); ++i) {
    rows.tokens[i] = 0;
    rows.targets[i] = -1;
    rows.document_begin[i] = static_cast<std::int32_t>(i);
    rows.valid[i] = 0;
  }
}

}  // namespace ulmus::data
