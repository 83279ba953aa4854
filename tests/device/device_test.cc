#include "ulmus/device/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/expect.h"
#include "ulmus/device/arena.h"

namespace ulmus {
namespace {

using testing::HasSubstr;

TEST(CpuDevice, MemoryIsZeroAndAlignedToPages) {
  const auto device = make_cpu_device(2, Backend::kCpu);
  const auto memory = device->allocate(10'000);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory->address()) % 4096, 0U);
  EXPECT_EQ(memory->size_bytes(), 10'000);
  for (std::int64_t i = 0; i < 10'000; ++i)
    ASSERT_EQ(memory->address()[i], std::byte{0});
  EXPECT_EQ(device->allocate(0)->size_bytes(), 0);
}

TEST(CpuDevice, SaysWhatItIs) {
  const auto device = make_cpu_device(2, Backend::kRef);
  EXPECT_EQ(device->backend(), Backend::kRef);
  EXPECT_EQ(device->scratch_threads(), 2);
  EXPECT_EQ(device->pool().num_threads(), 2);
  EXPECT_THAT(device->description(), HasSubstr("2 threads"));
  EXPECT_GE(available_threads(), 1);
}

TEST(CpuDevice, MoreMemoryThanThereIsNamesTheBytes) {
  const auto device = make_cpu_device(1, Backend::kRef);
  constexpr std::int64_t kTooMany = std::int64_t{1} << 60U;
  EXPECT_THAT(test::error_of([&] { device->allocate(kTooMany); }),
              HasSubstr(std::to_string(kTooMany)));
}

TEST(CpuDevice, ComputesOrIsMeta) { EXPECT_THROW(make_cpu_device(1, Backend::kMeta), Error); }

TEST(Transfers, AreCountedByKind) {
  const auto device = make_cpu_device(1, Backend::kRef);
  Arena arena(*device, MemoryClass::kParameters, 1024);
  const TensorView view = arena.allocate("x", DType::kI32, {3});
  const std::vector<std::int32_t> in = {7, -8, 9};
  std::vector<std::int32_t> out(3);
  device->copy_to_device(view, std::span<const std::int32_t>(in));
  device->copy_to_device(view, std::span<const std::int32_t>(in));
  device->copy_to_host(std::span<std::int32_t>(out), view);
  EXPECT_EQ(out, in);
  out.assign(3, 0);
  device->read_to_host(std::span<std::int32_t>(out), view);
  EXPECT_EQ(out, in);
  const TransferCounters counters = device->transfers();
  EXPECT_EQ(counters.staged_in, 2);
  EXPECT_EQ(counters.staged_in_bytes, 24);
  EXPECT_EQ(counters.staged_out, 1);
  EXPECT_EQ(counters.staged_out_bytes, 12);
  EXPECT_EQ(counters.host_reads, 1);
  EXPECT_EQ(counters.host_read_bytes, 12);
  device->reset_transfers();
  EXPECT_EQ(device->transfers().staged_in, 0);
  EXPECT_EQ(device->transfers().host_reads, 0);
}

TEST(Transfers, SizesTypesAndGapsAreChecked) {
  const auto device = make_cpu_device(1, Backend::kRef);
  Arena arena(*device, MemoryClass::kParameters, 1024);
  const TensorView view = arena.allocate("x", DType::kF32, {2, 3});
  std::vector<float> four(4);
  std::vector<double> six(6);
  EXPECT_THAT(test::error_of([&] { device->copy_to_device(view, std::span<const float>(four)); }),
              HasSubstr("device tensor f32 [2, 3], host f32 x 4"));
  EXPECT_THAT(test::error_of([&] { device->read_to_host(std::span<double>(six), view); }),
              HasSubstr("device tensor f32 [2, 3], host f64 x 6"));
  EXPECT_THROW(device->copy_to_host(std::span<float>(four), view.narrow(1, 0, 2)), Error);
  EXPECT_EQ(device->transfers().staged_in, 0);  // nothing moved, nothing counted
}

TEST(MetaDevice, TakesNoMemoryAndReadsZeros) {
  const auto device = make_meta_device(16);
  EXPECT_EQ(device->backend(), Backend::kMeta);
  EXPECT_EQ(device->scratch_threads(), 16);
  EXPECT_THROW(device->pool(), Error);
  Arena arena(*device, MemoryClass::kParameters, Arena::kUnbounded);
  const TensorView huge = arena.allocate("huge", DType::kF32, {1'000'000, 1'000'000});
  EXPECT_EQ(arena.used_bytes(), 4'000'000'000'000);
  std::vector<float> out(3, 5.0F);
  device->read_to_host(std::span<float>(out), huge.rows(0, 1).narrow(1, 0, 3));
  EXPECT_EQ(out, std::vector<float>(3, 0.0F));
  device->copy_to_device(huge.rows(0, 1).narrow(1, 0, 3), std::span<const float>(out));
  EXPECT_EQ(device->transfers().host_reads, 1);
  EXPECT_EQ(device->transfers().staged_in_bytes, 12);
}

TEST(MetaDevice, WorkspacePeakIsMeasured) {
  const auto device = make_meta_device(1);
  Workspace workspace(*device, Arena::kUnbounded);
  {
    ScratchScope scope(workspace);
    scope.take(DType::kF64, {std::int64_t{1} << 40U});
  }
  EXPECT_EQ(workspace.peak_bytes(), std::int64_t{1} << 43U);
  EXPECT_EQ(workspace.used_bytes(), 0);
}

}  // namespace
}  // namespace ulmus
