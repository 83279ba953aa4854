#include "ulmus/data/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "ulmus/base/check.h"

namespace ulmus::data {

namespace {

constexpr std::uint32_t kRounds = 8;
constexpr std::uint32_t kBlockSize = 1U << Mixture::kBlockBits;

std::uint64_t feistel(PhiloxKey key, std::uint64_t epoch, std::uint32_t half_bits,
                      std::uint64_t value) {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits) - 1;
  std::uint64_t left = value >> half_bits;
  std::uint64_t right = value & mask;
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    // Halves have at most 31 bits, so one word holds them.
    const PhiloxCounter bits =
        philox(key, {static_cast<std::uint32_t>(right), round, static_cast<std::uint32_t>(epoch),
                     static_cast<std::uint32_t>(epoch >> 32U)});
    const std::uint64_t mixed = (left ^ bits[0]) & mask;
    left = right;
    right = mixed;
  }
  return (left << half_bits) | right;
}

std::uint32_t reverse_bits(std::uint32_t value) {
  std::uint32_t reversed = 0;
  for (std::uint32_t bit = 0; bit < Mixture::kBlockBits; ++bit) {
    reversed |= ((value >> bit) & 1U) << (Mixture::kBlockBits - 1 - bit);
  }
  return reversed;
}

/// How many of r, r + step, r + 2 step, ... are below x.
std::int64_t count_below(std::int64_t r, std::int64_t step, std::int64_t x) {
  return x <= r ? 0 : (x - r + step - 1) / step;
}

std::vector<double> weights_of(const std::vector<SampledSource>& sources) {
  std::vector<double> weights;
  weights.reserve(sources.size());
  for (const SampledSource& source : sources)
    weights.push_back(source.weight);
  return weights;
}

std::vector<std::string> names_of(const std::vector<SampledSource>& sources) {
  std::vector<std::string> names;
  names.reserve(sources.size());
  for (const SampledSource& source : sources)
    names.push_back(source.name);
  return names;
}

}  // namespace

std::int64_t shuffled_index(PhiloxKey key, std::int64_t epoch, std::int64_t n,
                            std::int64_t position) {
  ULMUS_CHECK(n > 0 && n <= std::int64_t{1} << 62 && position >= 0 && position < n, "position ",
              position, " of ", n);
  const auto size = static_cast<std::uint64_t>(n);
  const auto bits = static_cast<std::uint32_t>(std::bit_width(size - 1));
  const std::uint32_t half_bits = std::max(1U, (bits + 1) / 2);
  auto value = static_cast<std::uint64_t>(position);
  do {
    value = feistel(key, static_cast<std::uint64_t>(epoch), half_bits, value);
  } while (value >= size);
  return static_cast<std::int64_t>(value);
}

Mixture::Mixture(std::uint64_t seed, const std::vector<double>& weights,
                 const std::vector<std::string>& names)
    : key_(philox_key(seed, RandomPurpose::kDataOrder, "mixture")) {
  ULMUS_CHECK(weights.size() == names.size(), weights.size(), " weights, ", names.size(), " names");
  double total = 0.0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!(weights[i] > 0.0) || !std::isfinite(weights[i])) {
      fail_input("data.mix: the weight of ", names[i], " is ", weights[i],
                 "; allowed: finite numbers above 0");
    }
    total += weights[i];
  }
  if (!std::isfinite(total)) fail_input("data.mix: the weights' sum is not finite");
  bounds_.push_back(0);
  double sum = 0.0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    sum += weights[i];
    const bool last = i + 1 == weights.size();
    const double bound = last ? double{kBlockSize} : std::round(double{kBlockSize} * (sum / total));
    bounds_.push_back(static_cast<std::uint32_t>(bound));
    if (bounds_[i + 1] <= bounds_[i]) {
      fail_input("data.mix: the weight of ", names[i], " is less than 1/", kBlockSize,
                 " of all weights: it would never be drawn");
    }
  }
}

std::uint32_t Mixture::number_at(std::int64_t block, std::uint32_t offset) const {
  std::uint32_t scrambled = 0;
  for (std::uint32_t bit = 0; bit < kBlockBits; ++bit) {
    const auto block_bits = static_cast<std::uint64_t>(block);
    const PhiloxCounter random =
        philox(key_, {offset >> (bit + 1), bit, static_cast<std::uint32_t>(block_bits),
                      static_cast<std::uint32_t>(block_bits >> 32U)});
    scrambled |= (((offset >> bit) ^ random[0]) & 1U) << bit;
  }
  return reverse_bits(scrambled);
}

int Mixture::source_at(std::int64_t position) const {
  ULMUS_CHECK(position >= 0, "position ", position);
  if (bounds_.size() == 2) return 0;
  const auto offset = static_cast<std::uint32_t>(position % kBlockSize);
  const std::uint32_t number = number_at(position / kBlockSize, offset);
  const auto next = std::upper_bound(bounds_.begin(), bounds_.end(), number);
  return static_cast<int>(next - bounds_.begin()) - 1;
}

std::int64_t Mixture::draws_before(int source, std::int64_t position) const {
  ULMUS_CHECK(position >= 0, "position ", position);
  if (bounds_.size() == 2) return position;
  const std::int64_t begin = bounds_[static_cast<std::size_t>(source)];
  const std::int64_t end = bounds_[static_cast<std::size_t>(source) + 1];
  const std::int64_t block = position / kBlockSize;
  const auto offset = static_cast<std::uint32_t>(position % kBlockSize);
  std::int64_t draws = block * (end - begin);
  // [0, offset) is one aligned run of 2^k positions for each bit k of offset that is set. In such a
  // run the low k bits take every value, that is the high k bits of the number do, and the numbers
  // are an arithmetic progression.
  for (std::uint32_t k = 0; k < kBlockBits; ++k) {
    if ((offset >> k & 1U) == 0) continue;
    const std::uint32_t run_begin = (offset >> k ^ 1U) << k;
    const std::int64_t step = std::int64_t{1} << (kBlockBits - k);
    const std::int64_t first = number_at(block, run_begin) & (step - 1);
    draws += count_below(first, step, end) - count_below(first, step, begin);
  }
  return draws;
}

Sampler::Sampler(std::uint64_t seed, const std::vector<SampledSource>& sources)
    : mixture_(seed, weights_of(sources), names_of(sources)) {
  if (sources.empty()) fail_input("no source of training data");
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (sources[i].num_instances < 1) fail_input(sources[i].name, " gives no sequence");
    num_instances_.push_back(sources[i].num_instances);
    keys_.push_back(philox_key(seed, RandomPurpose::kDataOrder, concat("source ", i)));
  }
}

Draw Sampler::at(std::int64_t position) const {
  const int source = mixture_.source_at(position);
  const std::int64_t draw = mixture_.draws_before(source, position);
  const std::int64_t n = num_instances_[static_cast<std::size_t>(source)];
  const std::int64_t epoch = draw / n;
  return {source, shuffled_index(keys_[static_cast<std::size_t>(source)], epoch, n, draw % n),
          epoch};
}

}  // namespace ulmus::data
