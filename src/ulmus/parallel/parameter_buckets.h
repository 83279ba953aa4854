#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ulmus/nn/parameter.h"
#include "ulmus/tensor/blocks.h"

namespace ulmus::parallel {

/// The parameters of one unit and family: what is reduced and gathered at once. They lie one after
/// the other in memory; positions below count elements from the start of the first, the alignment
/// gaps between tensors included.
struct Bucket {
  int unit = 0;
  nn::ParameterFamily family = nn::ParameterFamily::kDense;
  int first = 0;  ///< parameters [first, last] of the set
  int last = 0;
  std::vector<std::int64_t> positions = {};  ///< of each of them
  std::int64_t numel = 0;
};

/// Buckets in the order of use: by unit, dense before expert.
std::vector<Bucket> make_buckets(const nn::ParameterSet& parameters);

/// Cuts a bucket into one piece for each of `ranks`: bounds [ranks + 1], piece r = [bounds[r],
/// bounds[r + 1]). Cuts lie where a block of a tensor begins (tensor/blocks.h), as near to equal
/// pieces as that allows: within half a block of the largest kind. Pieces may be empty.
std::vector<std::int64_t> cut_bucket(const Bucket& bucket, const nn::ParameterSet& parameters,
                                     int ranks);

/// Blocks of one parameter, as this rank stores it, that begin in positions [begin, end) of its
/// bucket.
BlockRange blocks_in(const nn::Parameter& parameter, std::int64_t position, std::int64_t begin,
                     std::int64_t end);

/// The same blocks numbered through the whole tensor, all experts.
BlockRange global_blocks(const nn::Parameter& parameter, const BlockRange& local);

}  // namespace ulmus::parallel
