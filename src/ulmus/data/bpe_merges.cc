#include "ulmus/data/bpe_merges.h"

#include <bit>
#include <functional>
#include <queue>
#include <utility>

#include "ulmus/data/pair_key.h"

namespace ulmus::data {

namespace {

constexpr std::size_t kShortWord = 48;

std::size_t slot_hash(std::uint64_t pair) {
  pair *= 0x9E3779B97F4A7C15ULL;
  return static_cast<std::size_t>(pair ^ (pair >> 29U));
}

/// A word as a doubly linked list over an array.
struct Node {
  std::int32_t symbol;
  std::int32_t previous;
  std::int32_t next;
};

struct Candidate {
  std::int32_t rank;
  std::int32_t position;
  bool operator>(const Candidate& other) const {
    return rank != other.rank ? rank > other.rank : position > other.position;
  }
};

}  // namespace

BpeMerges::BpeMerges(std::vector<Merge> merges) : merges_(std::move(merges)) {
  slots_.assign(std::bit_ceil(merges_.size() * 2 + 16), Slot{0, kNone});
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t rank = 0; rank < merges_.size(); ++rank) {
    const std::uint64_t pair = pair_key(merges_[rank].left, merges_[rank].right);
    std::size_t slot = slot_hash(pair) & mask;
    while (slots_[slot].rank != kNone && slots_[slot].pair != pair)
      slot = (slot + 1) & mask;
    slots_[slot] = {pair, static_cast<std::int32_t>(rank)};
  }
}

std::int32_t BpeMerges::rank_of(std::int32_t left, std::int32_t right) const {
  const std::uint64_t pair = pair_key(left, right);
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = slot_hash(pair) & mask;
  while (slots_[slot].rank != kNone && slots_[slot].pair != pair)
    slot = (slot + 1) & mask;
  return slots_[slot].rank;
}

void BpeMerges::apply(std::vector<std::int32_t>& symbols) const {
  if (symbols.size() < 2) return;
  if (symbols.size() <= kShortWord) {
    apply_short(symbols);
  } else {
    apply_long(symbols);
  }
}

void BpeMerges::apply_short(std::vector<std::int32_t>& symbols) const {
  std::int32_t ranks[kShortWord];  // of each symbol with its right neighbour
  std::size_t n = symbols.size();
  for (std::size_t i = 0; i + 1 < n; ++i)
    ranks[i] = rank_of(symbols[i], symbols[i + 1]);
  while (n > 1) {
    std::size_t best = n;
    for (std::size_t i = 0; i + 1 < n; ++i) {
      if (ranks[i] != kNone && (best == n || ranks[i] < ranks[best])) best = i;
    }
    if (best == n) break;
    symbols[best] = merges_[static_cast<std::size_t>(ranks[best])].result;
    for (std::size_t i = best + 1; i + 1 < n; ++i) {
      symbols[i] = symbols[i + 1];
      ranks[i] = i + 2 < n ? ranks[i + 1] : kNone;
    }
    --n;
    ranks[best] = best + 1 < n ? rank_of(symbols[best], symbols[best + 1]) : kNone;
    if (best > 0) ranks[best - 1] = rank_of(symbols[best - 1], symbols[best]);
  }
  symbols.resize(n);
}

void BpeMerges::apply_long(std::vector<std::int32_t>& symbols) const {
  const auto n = static_cast<std::int32_t>(symbols.size());
  std::vector<Node> nodes(symbols.size());
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto node = [&](std::int32_t i) -> Node& { return nodes[static_cast<std::size_t>(i)]; };
  const auto rank_at = [&](std::int32_t i) {
    return i >= 0 && node(i).next >= 0 ? rank_of(node(i).symbol, node(node(i).next).symbol) : kNone;
  };
  const auto offer = [&](std::int32_t i) {
    if (const std::int32_t rank = rank_at(i); rank != kNone) queue.push({rank, i});
  };
  for (std::int32_t i = 0; i < n; ++i) {
    node(i) = {symbols[static_cast<std::size_t>(i)], i - 1, i + 1 < n ? i + 1 : -1};
  }
  for (std::int32_t i = 0; i + 1 < n; ++i)
    offer(i);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    // A merged-away symbol is kNone, and no rule has it, so its old candidates fall out here too.
    if (node(best.position).symbol == kNone || rank_at(best.position) != best.rank) continue;
    const std::int32_t gone = node(best.position).next;
    node(best.position).symbol = merges_[static_cast<std::size_t>(best.rank)].result;
    node(best.position).next = node(gone).next;
    node(gone).symbol = kNone;
    if (node(gone).next >= 0) node(node(gone).next).previous = best.position;
    offer(best.position);
    offer(node(best.position).previous);
  }
  std::size_t kept = 0;
  for (std::int32_t i = 0; i >= 0; i = node(i).next)
    symbols[kept++] = node(i).symbol;
  symbols.resize(kept);
}

}  // namespace ulmus::data
