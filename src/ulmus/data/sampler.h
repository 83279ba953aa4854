#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ulmus/base/philox.h"

namespace ulmus::data {

/// A bijection of [0, n), one for each (key, epoch): position -> index. Computed, not stored: an
/// eight-round Feistel network over the smallest even number of bits that holds n, its round
/// function Philox; values >= n are mapped again until one is below n (cycle walking: Black and
/// Rogaway 2002, "Ciphers with arbitrary finite domains"), fewer than four times on average.
std::int64_t shuffled_index(PhiloxKey key, std::int64_t epoch, std::int64_t n,
                            std::int64_t position);

/// Which of several weighted sources each position of the training order draws from: a pure
/// function of (seed, weights, position).
///
/// Positions come in blocks of B = 65536. Within a block, position p is sent to a number j of
/// [0, B) by reversing its 16 bits after a nested scramble (bit k is flipped by a random function
/// of the bits above it: Owen 1995). Source s owns the numbers [c_s, c_s+1) with
/// c_s = round(B (w_0 + ... + w_s-1) / sum w). So every aligned run of 2^k positions has one j in
/// each k-bit stratum: after any number of positions a source has had its share within about 17
/// draws, and exactly round(B w_s / sum w) in every block, while the order inside a run is random.
class Mixture {
 public:
  /// InputError when a weight is not positive and finite, or too small a share to get a draw in a
  /// block (`names` for the message).
  Mixture(std::uint64_t seed, const std::vector<double>& weights,
          const std::vector<std::string>& names);

  int source_at(std::int64_t position) const;
  /// How many of the positions [0, position) draw from `source`. O(16^2).
  std::int64_t draws_before(int source, std::int64_t position) const;

  static constexpr std::uint32_t kBlockBits = 16;

 private:
  std::uint32_t number_at(std::int64_t block, std::uint32_t offset) const;

  PhiloxKey key_;
  std::vector<std::uint32_t> bounds_;  // c_0 = 0 ... c_n = B
};

/// One element of the training order.
struct Draw {
  int source;
  std::int64_t index;  ///< instance of the source
  std::int64_t epoch;  ///< how often the source was used up before
};

struct SampledSource {
  std::string name;
  std::int64_t num_instances;
  double weight = 1.0;
};

/// The order of training: position 0, 1, 2, ... to instances. A pure function of (seed, sources,
/// position), so the whole state of training's data is one number. Draw number d of a source is
/// shuffled_index(key of (seed, source's number), epoch d / n, n, d mod n): every instance once in
/// each epoch, in a new order each time. With one source d is the position; with more, d is
/// Mixture::draws_before.
class Sampler {
 public:
  /// InputError for no source, an empty source, or weights as in Mixture.
  Sampler(std::uint64_t seed, const std::vector<SampledSource>& sources);

  /// position >= 0.
  Draw at(std::int64_t position) const;

 private:
  std::vector<std::int64_t> num_instances_;
  std::vector<PhiloxKey> keys_;
  Mixture mixture_;
};

}  // namespace ulmus::data
