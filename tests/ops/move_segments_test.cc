#include "ulmus/ops/move_segments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/device_fixture.h"
#include "tests/support/expect.h"

namespace ulmus::ops {
namespace {

using test::DeviceFixture;
using test::error_of;
using testing::HasSubstr;

constexpr double kStale = DeviceFixture::kStale;

class MoveSegmentsTest : public testing::Test {
 protected:
  TensorView segments(const std::vector<std::int64_t>& fields) {
    return f_.tensor({static_cast<std::int64_t>(fields.size()) / 3, 3}, fields);
  }
  DeviceFixture f_;
};

TEST_F(MoveSegmentsTest, ByHand) {
  const TensorView in = f_.f64({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const TensorView out = f_.stale(DType::kF64, {6, 2});
  move_segments({.out = out,
                 .in = in,
                 .segments = segments({4, 0, 2, 3, 3, 0, 0, 2, 2, 2, 3, 1}),
                 .booked_rows = 5},
                f_.ctx);
  EXPECT_EQ(f_.values(out), (std::vector<double>{5, 6, 7, 8, 7, 8, kStale, kStale, 1, 2, 3, 4}));
}

TEST_F(MoveSegmentsTest, OneNumberForEachRow) {
  const TensorView in = f_.floats(DType::kF32, {4}, {1, 2, 3, 4});
  const TensorView out = f_.stale(DType::kF32, {3});
  move_segments({.out = out, .in = in, .segments = segments({1, 2, 2})}, f_.ctx);
  EXPECT_EQ(f_.values(out), (std::vector<double>{kStale, 3, 4}));
}

// Three senders with rows for four experts each: to expert order and back.
TEST_F(MoveSegmentsTest, ThereAndBack) {
  constexpr std::int64_t kSenders = 3;
  constexpr std::int64_t kExperts = 4;
  const std::vector<std::int32_t> counts =
      DeviceFixture::integers(kSenders * kExperts, 5, "counts");
  const auto count = [&](std::int64_t sender, std::int64_t expert) {
    return std::int64_t{counts[static_cast<std::size_t>(sender * kExperts + expert)]};
  };
  std::vector<std::int64_t> there;
  std::vector<std::int64_t> back;
  std::int64_t out_begin = 0;
  for (std::int64_t expert = 0; expert < kExperts; ++expert) {
    for (std::int64_t sender = 0; sender < kSenders; ++sender) {
      std::int64_t in_begin = 0;
      for (std::int64_t e = 0; e < expert; ++e)
        in_begin += count(sender, e);
      for (std::int64_t i = 0; i < sender * kExperts; ++i)
        in_begin += counts[static_cast<std::size_t>(i)];
      there.insert(there.end(), {out_begin, in_begin, count(sender, expert)});
      back.insert(back.end(), {in_begin, out_begin, count(sender, expert)});
      out_begin += count(sender, expert);
    }
  }
  const TensorView rows = f_.normal(DType::kF32, {out_begin, 5}, "rows");
  const TensorView grouped = f_.stale(DType::kF32, {out_begin, 5});
  const TensorView again = f_.stale(DType::kF32, {out_begin, 5});
  move_segments({.out = grouped, .in = rows, .segments = segments(there)}, f_.ctx);
  move_segments({.out = again, .in = grouped, .segments = segments(back)}, f_.ctx);
  EXPECT_NE(f_.values(grouped), f_.values(rows));
  EXPECT_EQ(f_.values(again), f_.values(rows));
}

TEST_F(MoveSegmentsTest, BooksTheBytesOfItsRows) {
  move_segments({.out = f_.zeros(DType::kF32, {6, 2}),
                 .in = f_.zeros(DType::kF32, {9, 2}),
                 .segments = segments({0, 4, 5}),
                 .booked_rows = 5},
                f_.ctx);
  ASSERT_EQ(f_.meter.entries().size(), 1U);
  EXPECT_EQ(f_.meter.entries()[0].operation, "move_segments");
  EXPECT_EQ(f_.meter.entries()[0].useful_flops, 0.0);
  EXPECT_EQ(f_.meter.entries()[0].moved_bytes, 2 * 5 * 2 * 4 + 3 * 8);
}

TEST_F(MoveSegmentsTest, Refusals) {
  const TensorView out = f_.zeros(DType::kF32, {4, 2});
  const TensorView in = f_.zeros(DType::kF32, {3, 2});
  const TensorView table = segments({0, 0, 1});
  const auto refusal = [&](const MoveSegmentsArgs& args) {
    return error_of([&] { move_segments(args, f_.ctx); });
  };
  EXPECT_EQ(refusal({.out = out, .in = f_.zeros(DType::kF32, {3, 5}), .segments = table}),
            "move_segments: in is f32 [3, 5], expected f32 [3, 2]");
  EXPECT_EQ(refusal({.out = out, .in = f_.zeros(DType::kF64, {3, 2}), .segments = table}),
            "move_segments: in is f64 [3, 2], expected f32 [3, 2]");
  EXPECT_EQ(refusal({.out = out, .in = f_.zeros(DType::kF32, {6}), .segments = table}),
            "move_segments: in is f32 [6], expected 2 axes");
  EXPECT_EQ(refusal({.out = f_.zeros(DType::kF32, {1, 2, 2}), .in = in, .segments = table}),
            "move_segments: out is f32 [1, 2, 2], expected 1 or 2 axes");
  EXPECT_EQ(refusal({.out = f_.zeros(DType::kI32, {4, 2}), .in = in, .segments = table}),
            "move_segments: out is i32 [4, 2], expected a float type (f32, f64)");
  EXPECT_EQ(refusal({.out = out, .in = in, .segments = f_.i32({1, 3}, {0, 0, 1})}),
            "move_segments: segments is i32 [1, 3], expected i64 [1, 3]");
  EXPECT_EQ(refusal({.out = out, .in = in, .segments = table.reshape({3, 1})}),
            "move_segments: segments is i64 [3, 1], expected i64 [3, 3]");
  EXPECT_EQ(refusal({.out = out, .in = in, .segments = table, .booked_rows = 5}),
            "move_segments: booked_rows is 5, expected 0 to 4");
  EXPECT_THAT(refusal({.out = out, .in = out.rows(1, 3), .segments = table}),
              HasSubstr("out [4, 2] shares memory with in [2, 2]"));
}

}  // namespace
}  // namespace ulmus::ops
