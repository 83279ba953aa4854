#include "ulmus/ops/move_segments.h"

#include "tests/ops/cpu/against_oracle.h"
#include "ulmus/ops/cpu/streaming.h"

namespace ulmus::ops {
namespace {

using test::DeviceFixture;
using test::Output;

/// `rows_of` of a segment, in turn; between segments a row of `out` is left out, and segments take
/// their rows of `in` from the end.
std::vector<std::int64_t> table(std::int64_t num_segments,
                                const std::vector<std::int64_t>& rows_of) {
  std::vector<std::int64_t> rows;
  std::int64_t total = 0;
  for (std::int64_t i = 0; i < num_segments; ++i) {
    rows.push_back(rows_of[static_cast<std::size_t>(i) % rows_of.size()]);
    total += rows.back();
  }
  std::vector<std::int64_t> fields;
  std::int64_t out_begin = 1;
  for (const std::int64_t count : rows) {
    total -= count;
    for (const std::int64_t field : {out_begin, total, count})
      fields.push_back(field);
    out_begin += count + 1;
  }
  return fields;
}

std::vector<Output> run(DeviceFixture& f, DType dtype, std::int64_t width,
                        const std::vector<std::int64_t>& fields) {
  std::int64_t in_rows = 0;
  for (std::size_t i = 2; i < fields.size(); i += 3)
    in_rows += fields[i];
  const auto num_segments = static_cast<std::int64_t>(fields.size()) / 3;
  const std::int64_t out_rows = in_rows + num_segments + 1;
  const auto shape = [&](std::int64_t rows) {
    return width == 0 ? Shape{rows} : Shape{rows, width};
  };
  const TensorView out = f.stale(dtype, shape(out_rows));
  move_segments({.out = out,
                 .in = f.normal(dtype, shape(in_rows), "in"),
                 .segments = f.tensor({num_segments, 3}, fields),
                 .booked_rows = in_rows},
                f.ctx);
  return {{"out", f.values(out)}};
}

TEST(CpuMoveSegments, LikeTheOracle) {
  const std::vector<std::int64_t> tables[] = {
      {},                          // no segments
      table(3, {0}),               // no rows
      table(1, {1}),               // one row
      table(2, {7, 0}),            //
      table(9, {0, 3, 1, 0, 17}),  //
      table(40, {1, 0, 2}),        // more segments than rows for a thread
      table(5, {2, 613, 1}),       // nearly all in one
  };
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    for (const std::int64_t width : {0, 7, 129}) {  // 0: one number for each row
      for (const std::vector<std::int64_t>& fields : tables) {
        const std::string name =
            test::shape_name({static_cast<std::int64_t>(fields.size()) / 3, width});
        test::expect_like_oracle(name, test::Bits::kOfAnyThreadCount,
                                 [&](DeviceFixture& f) { return run(f, dtype, width, fields); });
      }
    }
  }
}

// A large output is written past the caches: the same bits as in two smaller halves.
TEST(CpuMoveSegments, OutputsLargerThanTheCaches) {
  constexpr std::int64_t kWidth = 1031;
  constexpr std::int64_t kRows = cpu::kStreamedBytes / kWidth / 8 + 1;
  DeviceFixture f(Backend::kCpu, 2, 4 * cpu::kStreamedBytes);
  const TensorView in = f.normal(DType::kF32, {100, kWidth}, "in");
  std::vector<std::int64_t> fields;
  for (std::int64_t begin = 0; begin < kRows; begin += 37)
    for (const std::int64_t field : {begin, begin % 63, std::min<std::int64_t>(37, kRows - begin)})
      fields.push_back(field);
  const auto num_segments = static_cast<std::int64_t>(fields.size()) / 3;
  const TensorView segments = f.tensor({num_segments, 3}, fields);
  const TensorView whole = f.stale(DType::kF32, {kRows, kWidth});
  const TensorView halves = f.zeros(DType::kF32, {kRows, kWidth});
  const std::int64_t half = num_segments / 2;
  move_segments({.out = whole, .in = in, .segments = segments}, f.ctx);
  move_segments({.out = halves, .in = in, .segments = segments.rows(0, half)}, f.ctx);
  move_segments({.out = halves, .in = in, .segments = segments.rows(half, num_segments)}, f.ctx);
  EXPECT_TRUE(f.read<float>(whole) == f.read<float>(halves));
}

TEST(StreamCopy, AnyBeginAndLength) {
  std::vector<std::uint8_t> from(1200);
  for (std::size_t i = 0; i < from.size(); ++i)
    from[i] = static_cast<std::uint8_t>(1 + i % 251);
  for (const std::size_t begin : {0U, 1U, 4U, 32U, 60U, 63U, 64U}) {
    for (const std::size_t bytes : {0U, 1U, 4U, 63U, 64U, 65U, 127U, 128U, 130U, 200U, 1000U}) {
      alignas(64) std::uint8_t to[1200] = {};
      cpu::stream_copy(to + begin, from.data() + 3, static_cast<std::int64_t>(bytes));
      cpu::end_streams();
      for (std::size_t i = 0; i < sizeof(to); ++i) {
        const bool is_copied = begin <= i && i < begin + bytes;
        ASSERT_EQ(to[i], is_copied ? from[i - begin + 3] : 0)
            << bytes << " bytes to " << begin << ", at " << i;
      }
    }
  }
}

}  // namespace
}  // namespace ulmus::ops
