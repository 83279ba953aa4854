#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tests/comm/rank_values.h"
#include "ulmus/comm/pieces.h"

/// What every back end must do, as functions that all ranks of a world call. All expected values
/// are computed by each rank itself.
namespace ulmus::comm::test {

/// Element [i] of two vectors, as bits; reports the first difference.
template <class T, class Expected>
void expect_bits(const std::vector<T>& actual, const Communicator& group, const std::string& what,
                 Expected&& expected) {
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const T value = expected(static_cast<std::int64_t>(i));
    if (same_bits(actual[i], value)) continue;
    ADD_FAILURE() << what << " in group " << group.name() << " of " << group.size() << ", rank "
                  << group.rank() << ": [" << i << "] is " << actual[i] << ", expected " << value;
    return;
  }
}

inline void check_broadcast(Communicator& group) {
  for (int root = 0; root < group.size(); ++root) {
    for (const std::size_t size : {0U, 1U, 7U, 70001U}) {
      std::vector<std::uint8_t> bytes(size, static_cast<std::uint8_t>(group.rank()));
      if (group.rank() == root) bytes.assign(size, static_cast<std::uint8_t>(100 + root));
      group.broadcast(std::as_writable_bytes(std::span(bytes)), root);
      expect_bits(bytes, group, "broadcast",
                  [&](std::int64_t) { return static_cast<std::uint8_t>(100 + root); });
    }
    std::string text = group.rank() == root ? "said by the root" : "";
    group.broadcast(text, root);
    EXPECT_EQ(text, "said by the root");
    text = group.rank() == root ? "" : "forgotten";
    group.broadcast(text, root);
    EXPECT_EQ(text, "");
  }
}

inline void check_all_gather_bytes(Communicator& group) {
  for (const std::int64_t n : {0, 1, 3, 5001}) {
    const std::vector<std::int64_t> mine =
        rank_values<std::int64_t>(group.world_rank(group.rank()), n);
    std::vector<std::int64_t> all(mine.size() * static_cast<std::size_t>(group.size()), -1);
    group.all_gather_bytes(std::as_writable_bytes(std::span(all)), std::as_bytes(std::span(mine)));
    expect_bits(all, group, "all_gather_bytes", [&](std::int64_t i) {
      return rank_value<std::int64_t>(group.world_rank(static_cast<int>(i / n)), i % n);
    });
  }
}

template <class T>
void check_all_reduce_values(Communicator& group) {
  for (const std::int64_t n : {0, 1, 3, 1000}) {
    const std::vector<T> mine = rank_values<T>(group.world_rank(group.rank()), n);
    std::vector<T> sum = mine;
    std::vector<T> least = mine;
    std::vector<T> largest = mine;
    group.all_reduce(std::span(sum), ReduceOp::kSum);
    group.all_reduce(std::span(least), ReduceOp::kMin);
    group.all_reduce(std::span(largest), ReduceOp::kMax);
    const auto of_members = [&](std::int64_t i) {
      std::vector<T> values(static_cast<std::size_t>(group.size()));
      for (std::size_t member = 0; member < values.size(); ++member) {
        values[member] = rank_value<T>(group.world_rank(static_cast<int>(member)), i);
      }
      return values;
    };
    expect_bits(sum, group, "all_reduce sum",
                [&](std::int64_t i) { return sum_in_order<T>(group, i); });
    expect_bits(least, group, "all_reduce min", [&](std::int64_t i) {
      const std::vector<T> values = of_members(i);
      return *std::min_element(values.begin(), values.end());
    });
    expect_bits(largest, group, "all_reduce max", [&](std::int64_t i) {
      const std::vector<T> values = of_members(i);
      return *std::max_element(values.begin(), values.end());
    });
  }
}

/// A NaN of any rank gives NaN, whatever stands before and after it.
inline void check_nan(Communicator& group) {
  const auto n = static_cast<std::size_t>(group.size());
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax}) {
    std::vector<double> values(n + 1, 1.0 + group.rank());
    values[static_cast<std::size_t>(group.rank())] = std::numeric_limits<double>::quiet_NaN();
    group.all_reduce(std::span(values), op);
    for (std::size_t i = 0; i < n; ++i) {
      EXPECT_TRUE(std::isnan(values[i])) << i;
    }
    EXPECT_FALSE(std::isnan(values[n]));
  }
}

/// Sizes of pieces that bring out what is uneven, empty or odd.
inline std::vector<PieceBounds> piece_lists(int num_ranks) {
  const auto n = static_cast<std::size_t>(num_ranks);
  std::vector<std::int64_t> uneven(n);
  std::vector<std::int64_t> only_last(n, 0);
  for (std::size_t i = 0; i < n; ++i) {
    uneven[i] = static_cast<std::int64_t>((i * 7 + 3) % 5) * 13;
  }
  only_last.back() = 4099;
  return {bounds_of(std::vector<std::int64_t>(n, 0)), bounds_of(std::vector<std::int64_t>(n, 1)),
          bounds_of(uneven), bounds_of(only_last)};
}

/// Pieces of two and of three chunks, the first of which are not full, and small ones.
inline PieceBounds pieces_of_chunks(int num_ranks, std::int64_t chunk_elements) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(num_ranks), 5);
  sizes[0] = chunk_elements + 3;
  sizes.back() = 2 * chunk_elements + 1;
  return bounds_of(sizes);
}

template <class T>
void check_reduce_scatter(Communicator& group, Device& device,
                          const std::vector<PieceBounds>& lists) {
  const int own = group.world_rank(group.rank());
  for (const PieceBounds& begin : lists) {
    std::vector<T> buffer;
    Staging staging(ReduceScatter::staging_bytes(begin, kDTypeOf<T>));
    buffer.resize(static_cast<std::size_t>(begin.back()));
    ReduceScatter operation(group, view_of(buffer), begin, staging.view(), device);
    for (int round = 0; round < 2; ++round) {
      fill_values(buffer, own);
      operation.start();
      EXPECT_TRUE(operation.is_under_way());
      operation.wait();
      EXPECT_FALSE(operation.is_under_way());
      operation.wait();  // nothing to wait for
      const auto piece = static_cast<std::size_t>(group.rank());
      expect_bits(buffer, group, "reduce_scatter", [&](std::int64_t i) {
        return begin[piece] <= i && i < begin[piece + 1] ? sum_in_order<T>(group, i)
                                                         : rank_value<T>(own, i);
      });
    }
  }
}

template <class T>
void check_all_gather(Communicator& group, Device& device, const std::vector<PieceBounds>& lists) {
  const int own = group.world_rank(group.rank());
  for (const PieceBounds& begin : lists) {
    std::vector<T> buffer = rank_values<T>(own, begin.back());
    AllGather operation(group, view_of(buffer), begin, device);
    operation.start();
    operation.wait();
    int member = 0;
    expect_bits(buffer, group, "all_gather", [&](std::int64_t i) {
      while (i >= begin[static_cast<std::size_t>(member) + 1]) {
        ++member;
      }
      return rank_value<T>(group.world_rank(member), i);
    });
  }
}

/// Three parts of three types and operators, of which pieces are cut anywhere.
inline void check_all_reduce(Communicator& group, Device& device,
                             const std::vector<std::int64_t>& lengths) {
  const int own = group.world_rank(group.rank());
  for (const std::int64_t n : lengths) {
    std::vector<float> sums = rank_values<float>(own, n % 1000);
    std::vector<std::int64_t> counts = rank_values<std::int64_t>(own, n);
    std::vector<double> largest = rank_values<double>(own, 5);
    std::vector<AllReduce::Part> parts{{.values = view_of(sums)},
                                       {.values = view_of(counts)},
                                       {.values = view_of(largest), .op = ReduceOp::kMax}};
    Staging staging(AllReduce::staging_bytes(parts, group.size()));
    AllReduce operation(group, parts, staging.view(), device);
    operation.start();
    operation.wait();
    expect_bits(sums, group, "all_reduce f32",
                [&](std::int64_t i) { return sum_in_order<float>(group, i); });
    expect_bits(counts, group, "all_reduce i64",
                [&](std::int64_t i) { return sum_in_order<std::int64_t>(group, i); });
    expect_bits(largest, group, "all_reduce max", [&](std::int64_t i) {
      double value = rank_value<double>(group.world_rank(0), i);
      for (int member = 1; member < group.size(); ++member) {
        value = std::max(value, rank_value<double>(group.world_rank(member), i));
      }
      return value;
    });
  }
}

/// Rows that rank a sends to b: some none, some a few, one long.
inline std::int64_t num_rows(int from, int to, std::int64_t large) {
  if (from == 0 && to == 1) return large;
  return (from * 5 + to * 3) % 4;
}

/// Marks of a row: sender, receiver, its number.
inline void check_all_to_all(Communicator& group, Device& device, std::int64_t large) {
  constexpr std::int64_t kWidth = 3;
  constexpr std::int64_t kUnused = 2;  // rows before and after the blocks
  const auto mark = [](int from, int to, std::int64_t row) {
    return static_cast<float>(from * 100 + to) + static_cast<float>(row % 7919) * 0x1p-14F;
  };
  std::vector<std::int64_t> in_begin{kUnused};
  std::vector<std::int64_t> out_begin{kUnused};
  std::vector<float> in(kUnused * kWidth, -1.0F);
  std::vector<float> expected(kUnused * kWidth, -2.0F);
  const int own = group.rank();
  for (int other = 0; other < group.size(); ++other) {
    for (std::int64_t i = 0; i < num_rows(own, other, large) * kWidth; ++i) {
      in.push_back(mark(own, other, i));
    }
    for (std::int64_t i = 0; i < num_rows(other, own, large) * kWidth; ++i) {
      expected.push_back(mark(other, own, i));
    }
    in_begin.push_back(in_begin.back() + num_rows(own, other, large));
    out_begin.push_back(out_begin.back() + num_rows(other, own, large));
  }
  in.insert(in.end(), kUnused * kWidth, -1.0F);
  expected.insert(expected.end(), kUnused * kWidth, -2.0F);
  std::vector<float> out(expected.size(), -2.0F);
  const auto matrix = [](std::vector<float>& values) {
    return TensorView(values.data(), DType::kF32,
                      {static_cast<std::int64_t>(values.size()) / kWidth, kWidth});
  };
  AllToAll operation(group, device);
  for (int round = 0; round < 2; ++round) {
    std::fill(out.begin(), out.end(), -2.0F);
    operation.start(matrix(out), out_begin, matrix(in), in_begin);
    operation.wait();
    expect_bits(out, group, "all_to_all",
                [&](std::int64_t i) { return expected[static_cast<std::size_t>(i)]; });
  }
}

/// Everything in one group, with messages of one chunk.
inline void check_group(Communicator& group, Device& device) {
  constexpr std::int64_t kElements = 257;
  group.barrier();
  check_broadcast(group);
  check_all_gather_bytes(group);
  check_all_reduce_values<double>(group);
  check_all_reduce_values<std::int64_t>(group);
  check_nan(group);
  check_reduce_scatter<float>(group, device, piece_lists(group.size()));
  check_reduce_scatter<double>(group, device, piece_lists(group.size()));
  check_reduce_scatter<std::int64_t>(group, device, piece_lists(group.size()));
  check_all_gather<float>(group, device, piece_lists(group.size()));
  check_all_gather<std::int32_t>(group, device, piece_lists(group.size()));
  check_all_reduce(group, device, {0, 1, 2, 23, kElements});
  check_all_to_all(group, device, kElements);
  group.barrier();
}

/// For check_large_messages.
constexpr World::Options kSmallMessages{.message_bytes = std::int64_t{64} << 10U};

/// Transfers of several messages, in a world of kSmallMessages.
inline void check_large_messages(Communicator& group, Device& device) {
  constexpr std::int64_t kElements = kSmallMessages.message_bytes / 8;
  const std::int64_t scatter_elements =
      ScatterStaging({0, 0, std::int64_t{1} << 20U}, DType::kF32).chunk_bytes / 4;
  check_reduce_scatter<float>(group, device, {pieces_of_chunks(group.size(), scatter_elements)});
  check_all_gather<std::int64_t>(group, device, {pieces_of_chunks(group.size(), kElements)});
  check_all_reduce(group, device, {group.size() * kElements + 9});
  check_all_to_all(group, device, (Transfer::kWindow + 2) * kSmallMessages.message_bytes / 12 + 1);
}

/// Ranks of even and of odd number, the odd ones in descending order; with one rank one list.
inline std::vector<std::vector<int>> even_and_odd(int size) {
  std::vector<std::vector<int>> lists(size > 1 ? 2 : 1);
  for (int rank = 0; rank < size; ++rank) {
    std::vector<int>& list = lists[static_cast<std::size_t>(rank % 2)];
    list.insert(rank % 2 == 0 ? list.end() : list.begin(), rank);
  }
  return lists;
}

/// Ranks of the lower and of the upper half.
inline std::vector<std::vector<int>> halves(int size) {
  std::vector<std::vector<int>> lists(size > 1 ? 2 : 1);
  for (int rank = 0; rank < size; ++rank) {
    lists[rank < (size + 1) / 2 ? 0 : 1].push_back(rank);
  }
  return lists;
}

inline void check_subgroups(World& world, Device& device) {
  const auto alternate = world.make_group("alternate", even_and_odd(world.size()));
  EXPECT_EQ(alternate->name(), "alternate");
  EXPECT_EQ(alternate->world_rank(alternate->rank()), world.rank());
  check_group(*alternate, device);
  const auto near = world.make_group("near", halves(world.size()));
  check_group(*near, device);
  check_group(*alternate, device);
}

/// Four operations of three groups under way at once, twice each, and waited for in an order that
/// differs from rank to rank.
inline void check_overlap(World& world, Device& device) {
  constexpr std::int64_t kElements = 3001;
  const auto alternate = world.make_group("alternate", even_and_odd(world.size()));
  const auto near = world.make_group("near", halves(world.size()));
  const auto equal_pieces = [&](const Communicator& group) {
    return bounds_of(std::vector<std::int64_t>(static_cast<std::size_t>(group.size()), kElements));
  };
  const std::array<Communicator*, 4> groups{&world.all(), alternate.get(), near.get(),
                                            &world.all()};
  std::vector<std::vector<float>> buffers(groups.size());
  std::vector<std::unique_ptr<Staging>> stagings;
  std::vector<std::unique_ptr<ReduceScatter>> scatters;
  std::vector<std::unique_ptr<AllGather>> gathers;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const PieceBounds begin = equal_pieces(*groups[i]);
    buffers[i].resize(static_cast<std::size_t>(begin.back()));
    stagings.push_back(std::make_unique<Staging>(ReduceScatter::staging_bytes(begin, DType::kF32)));
    scatters.push_back(std::make_unique<ReduceScatter>(*groups[i], view_of(buffers[i]), begin,
                                                       stagings[i]->view(), device));
    gathers.push_back(std::make_unique<AllGather>(*groups[i], view_of(buffers[i]), begin, device));
  }
  for (std::size_t round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < groups.size(); ++i) {
      fill_values(buffers[i], world.rank());
      scatters[i]->start();
    }
    const std::size_t shift = static_cast<std::size_t>(world.rank()) + round;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      scatters[(i + shift) % groups.size()]->wait();
      world.progress();
    }
    for (const auto& gather : gathers) {
      gather->start();
    }
    for (std::size_t i = groups.size(); i-- > 0;) {
      gathers[(i + shift) % groups.size()]->wait();
    }
    for (std::size_t i = 0; i < groups.size(); ++i) {
      expect_bits(buffers[i], *groups[i], "overlap",
                  [&](std::int64_t k) { return sum_in_order<float>(*groups[i], k); });
    }
  }
}

/// The bits of sums that depend on their order, to compare back ends.
inline std::vector<float> ordered_sums(Communicator& group, Device& device) {
  constexpr std::int64_t kElements = 4096;
  std::vector<float> values = rank_values<float>(group.world_rank(group.rank()), kElements);
  std::vector<AllReduce::Part> parts{{.values = view_of(values)}};
  Staging staging(AllReduce::staging_bytes(parts, group.size()));
  AllReduce operation(group, parts, staging.view(), device);
  operation.start();
  operation.wait();
  return values;
}

}  // namespace ulmus::comm::test
