#include "ulmus/parallel/parameter_buckets.h"

#include <algorithm>

#include "ulmus/base/check.h"
#include "ulmus/device/arena.h"

namespace ulmus::parallel {

namespace {

/// Where the blocks of all tensors of a bucket begin, in rising order.
std::vector<std::int64_t> block_positions(const Bucket& bucket,
                                          const nn::ParameterSet& parameters) {
  std::vector<std::int64_t> positions;
  for (int i = bucket.first; i <= bucket.last; ++i) {
    const nn::Parameter& parameter = parameters.all()[static_cast<std::size_t>(i)];
    const std::int64_t numel = parameter.value.numel();
    const std::int64_t blocks = num_blocks(numel, parameter.slice_elements);
    for (std::int64_t block = 0; block < blocks; ++block) {
      positions.push_back(bucket.positions[static_cast<std::size_t>(i - bucket.first)] +
                          block_begin(block, numel, parameter.slice_elements));
    }
  }
  return positions;
}

}  // namespace

std::vector<Bucket> make_buckets(const nn::ParameterSet& parameters) {
  std::vector<Bucket> buckets;
  for (std::size_t i = 0; i < parameters.all().size(); ++i) {
    const nn::Parameter& parameter = parameters.all()[i];
    const bool continues = !buckets.empty() && buckets.back().unit == parameter.unit &&
                           buckets.back().family == parameter.family;
    if (!continues) {
      buckets.push_back(
          {.unit = parameter.unit, .family = parameter.family, .first = static_cast<int>(i)});
    }
    Bucket& bucket = buckets.back();
    bucket.last = static_cast<int>(i);
    bucket.positions.push_back(bucket.numel);
    bucket.numel += Arena::padded_elements(parameter.value.numel(), parameters.dtype());
  }
  for (Bucket& bucket : buckets) {  // the last tensor's gap belongs to nobody
    const std::int64_t numel =
        parameters.all()[static_cast<std::size_t>(bucket.last)].value.numel();
    bucket.numel = bucket.positions.back() + numel;
  }
  return buckets;
}

std::vector<std::int64_t> cut_bucket(const Bucket& bucket, const nn::ParameterSet& parameters,
                                     int ranks) {
  const std::vector<std::int64_t> positions = block_positions(bucket, parameters);
  std::vector<std::int64_t> bounds = {0};
  for (int rank = 1; rank < ranks; ++rank) {
    const std::int64_t ideal = bucket.numel * rank / ranks;
    const auto above = std::lower_bound(positions.begin(), positions.end(), ideal);
    std::int64_t cut = above == positions.end() ? bucket.numel : *above;
    if (above != positions.begin() && ideal - *(above - 1) <= cut - ideal) cut = *(above - 1);
    bounds.push_back(std::max(cut, bounds.back()));
  }
  bounds.push_back(bucket.numel);
  return bounds;
}

BlockRange blocks_in(const nn::Parameter& parameter, std::int64_t position, std::int64_t begin,
                     std::int64_t end) {
  const std::int64_t numel = parameter.value.numel();
  const auto first_from = [&](std::int64_t bound) {
    std::int64_t low = 0;
    std::int64_t high = num_blocks(numel, parameter.slice_elements);
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (position + block_begin(middle, numel, parameter.slice_elements) < bound) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  };
  return {numel, parameter.slice_elements, first_from(begin), first_from(end)};
}

BlockRange global_blocks(const nn::Parameter& parameter, const BlockRange& local) {
  const std::int64_t before = num_blocks(parameter.first_element, parameter.slice_elements);
  return {parameter.shape.numel(), parameter.slice_elements, before + local.begin,
          before + local.end};
}

}  // namespace ulmus::parallel
