#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/comm/failing_ranks.h"
#include "tests/support/message_of.h"
#include "ulmus/comm/pieces.h"

namespace ulmus::comm {
namespace {

using testing::HasSubstr;

/// One rank of a world of two: constructors and the checks of start() need no other.
class OperationsUsageTest : public testing::Test {
 protected:
  OperationsUsageTest() : world_(std::move(transports_[0]), World::Options{}) {}

  template <class Body>
  static std::string error(Body&& body) {
    return ulmus::test::message_of<Error>(body);
  }
  std::string scatter_error(TensorView buffer, const PieceBounds& begin, TensorView staging) {
    return error([&] { ReduceScatter(world_.all(), buffer, begin, staging, *device_); });
  }

  std::vector<std::unique_ptr<Transport>> transports_ = make_thread_transports(2);
  World world_;
  std::unique_ptr<Device> device_ = make_cpu_device(1, Backend::kCpu);
  std::vector<float> values_ = std::vector<float>(12);
  TensorView buffer_{values_.data(), DType::kF32, {12}};
  test::Staging staging_{4096};
};

TEST_F(OperationsUsageTest, PiecesThatDoNotFit) {
  EXPECT_THAT(scatter_error(buffer_, {0, 12}, staging_.view()), HasSubstr("2 bounds for 2 ranks"));
  EXPECT_THAT(scatter_error(buffer_, {0, 5, 11}, staging_.view()), HasSubstr("pieces of [0, 12)"));
  EXPECT_THAT(scatter_error(buffer_, {1, 5, 12}, staging_.view()), HasSubstr("pieces of [0, 12)"));
  EXPECT_THAT(scatter_error(buffer_, {0, 13, 12}, staging_.view()), HasSubstr("pieces of [0, 12)"));
  EXPECT_THAT(scatter_error(buffer_.reshape({3, 4}), {0, 6, 12}, staging_.view()),
              HasSubstr("one-dimensional"));
  EXPECT_THAT(error([&] { AllGather(world_.all(), buffer_, {0, 5, 11}, *device_); }),
              HasSubstr("pieces of [0, 12)"));
}

TEST_F(OperationsUsageTest, TypesThatHaveNoSum) {
  std::vector<std::int32_t> integers(12);
  EXPECT_THAT(scatter_error(test::view_of(integers), {0, 6, 12}, staging_.view()),
              HasSubstr("sums of i32"));
  std::vector<AllReduce::Part> parts{{.values = test::view_of(integers)}};
  EXPECT_THAT(error([&] { AllReduce(world_.all(), parts, staging_.view(), *device_); }),
              HasSubstr("all_reduce of i32"));
}

TEST_F(OperationsUsageTest, StagingThatIsTooSmall) {
  const PieceBounds begin{0, 6, 12};
  const std::int64_t needed = ReduceScatter::staging_bytes(begin, DType::kF32);
  EXPECT_EQ(needed, 64) << "one piece, rounded up to its alignment";
  EXPECT_THAT(scatter_error(buffer_, begin, staging_.view().rows(0, needed - 1)),
              HasSubstr("staging of u8 [63] for 64 bytes"));
  EXPECT_THAT(scatter_error(buffer_, begin, buffer_), HasSubstr("staging of f32"));
  EXPECT_THAT(scatter_error(buffer_, begin, staging_.view().rows(1, 100)),
              HasSubstr("not aligned"));
}

TEST_F(OperationsUsageTest, StagingStaysSmallForManyRanks) {
  constexpr std::int64_t kElements = std::int64_t{1} << 30U;
  for (const std::int64_t ranks : {2, 3, 8, 17, 64}) {
    PieceBounds begin;
    for (std::int64_t rank = 0; rank <= ranks; ++rank) {
      begin.push_back(kElements / ranks * rank);
    }
    EXPECT_LE(ReduceScatter::staging_bytes(begin, DType::kF32), std::int64_t{8} << 20U) << ranks;
  }
  EXPECT_EQ(ReduceScatter::staging_bytes({0, kElements}, DType::kF64), 0) << "nobody sends";
}

TEST_F(OperationsUsageTest, RowsThatDoNotFit) {
  AllToAll operation(world_.all(), *device_);
  std::vector<float> others(12);
  const TensorView out = test::view_of(others).reshape({6, 2});
  const TensorView in = buffer_.reshape({6, 2});
  const PieceBounds half{0, 3, 6};
  const auto start_error = [&](TensorView to, const PieceBounds& out_begin, TensorView from,
                               const PieceBounds& in_begin) {
    return error([&] { operation.start(to, out_begin, from, in_begin); });
  };
  EXPECT_THAT(start_error(out, half, in, {0, 3}), HasSubstr("2 bounds of in for 2 ranks"));
  EXPECT_THAT(start_error(out, {0, 3, 7}, in, half), HasSubstr("blocks of out [6, 2]"));
  EXPECT_THAT(start_error(out, half, in, {3, 0, 6}), HasSubstr("blocks of in [6, 2]"));
  EXPECT_THAT(start_error(out.reshape({4, 3}), {0, 2, 4}, in, half), HasSubstr("out f32 [4, 3]"));
  EXPECT_THAT(start_error(in, half, in, half), HasSubstr("overlap"));
  EXPECT_THAT(start_error(out, {0, 2, 6}, in, half), HasSubstr("keeps 24 bytes and expects 16"));
  EXPECT_THAT(start_error(out.narrow(1, 0, 1), half, in.narrow(1, 0, 1), half),
              HasSubstr("no gaps"));
  EXPECT_FALSE(operation.is_under_way());
}

TEST_F(OperationsUsageTest, AnOperationIsStartedOnceAtATime) {
  AllGather operation(world_.all(), buffer_, {0, 6, 12}, *device_);
  operation.start();
  EXPECT_TRUE(operation.is_under_way());
  EXPECT_THAT(error([&] { operation.start(); }),
              HasSubstr("all_gather 1 of group world is started and not yet waited for"));
}

TEST_F(OperationsUsageTest, AMetaDeviceHasNoMemory) {
  const auto meta = make_meta_device(1);
  EXPECT_THAT(error([&] { AllToAll(world_.all(), *meta); }), HasSubstr("a meta device has none"));
}

}  // namespace
}  // namespace ulmus::comm
