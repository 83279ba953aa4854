#include "ulmus/device/meter.h"

#include <gtest/gtest.h>

#include "ulmus/base/error.h"

namespace ulmus {
namespace {

TEST(Meter, SumsByOperation) {
  Meter meter;
  meter.book("matmul", 100.0, 8.0);
  meter.book("add", 0.0, 3.0);
  meter.book("matmul", 50.0, 4.0);
  const TraceEvent::Clock::time_point begin;
  meter.add_time("matmul", begin, begin + std::chrono::milliseconds(500));
  meter.add_time("matmul", begin, begin + std::chrono::milliseconds(250));
  ASSERT_EQ(meter.entries().size(), 2U);
  EXPECT_EQ(meter.entries()[0].operation, "matmul");
  EXPECT_EQ(meter.entries()[0].calls, 2);
  EXPECT_EQ(meter.entries()[0].useful_flops, 150.0);
  EXPECT_EQ(meter.entries()[0].moved_bytes, 12.0);
  EXPECT_EQ(meter.entries()[0].seconds, 0.75);
  EXPECT_EQ(meter.entries()[1].calls, 1);
  EXPECT_EQ(meter.useful_flops(), 150.0);
  meter.reset();
  EXPECT_TRUE(meter.entries().empty());
  EXPECT_EQ(meter.useful_flops(), 0.0);
}

TEST(Meter, TellsTheTimeOfEachCallToATraceWhileItIsAttached) {
  Meter meter;
  Trace trace(8);
  const TraceEvent::Clock::time_point begin;
  const TraceEvent::Clock::time_point end = begin + std::chrono::milliseconds(3);
  meter.add_time("matmul", begin, end);
  meter.attach(&trace);
  meter.add_time("rope", begin, end);
  meter.attach(nullptr);
  meter.add_time("matmul", begin, end);
  ASSERT_EQ(trace.events().size(), 1U);
  EXPECT_EQ(trace.events()[0].name, "rope");
  EXPECT_EQ(trace.events()[0].track, TraceEvent::Track::kOperations);
  EXPECT_EQ(trace.events()[0].begin, begin);
  EXPECT_EQ(trace.events()[0].end, end);
}

TEST(Meter, NamesAreComparedByContent) {
  Meter meter;
  const std::string a = "rope";
  const std::string b = "rope";
  meter.book(a, 1.0, 0.0);
  meter.book(b, 1.0, 0.0);
  EXPECT_EQ(meter.entries().size(), 1U);
}

TEST(Meter, TooManyOperationsIsAnError) {
  Meter meter;
  std::array<std::string, Meter::kMaxOperations + 1> names;
  for (std::size_t i = 0; i < names.size(); ++i)
    names[i] = "operation " + std::to_string(i);
  for (std::size_t i = 0; i + 1 < names.size(); ++i)
    meter.book(names[i], 0.0, 0.0);
  EXPECT_THROW(meter.book(names.back(), 0.0, 0.0), Error);
}

}  // namespace
}  // namespace ulmus
