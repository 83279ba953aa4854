#include "ulmus/device/arena.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/expect.h"

namespace ulmus {
namespace {

using testing::HasSubstr;

class ArenaTest : public testing::Test {
 protected:
  std::unique_ptr<Device> device_ = make_cpu_device(1, Backend::kRef);
};

std::uintptr_t address_of(const ConstTensorView& view) {
  return reinterpret_cast<std::uintptr_t>(view.raw_data());
}

TEST_F(ArenaTest, TensorsAreZeroAlignedAndApart) {
  Arena arena(*device_, MemoryClass::kActivations, 4096);
  const TensorView a = arena.allocate("a", DType::kF32, {5});
  const TensorView b = arena.allocate("b", DType::kU8, {3});
  const TensorView c = arena.allocate("c", DType::kF64, {2, 2});
  for (const TensorView& view : {a, b, c})
    EXPECT_EQ(address_of(view) % 64, 0U);
  EXPECT_FALSE(overlaps(a, b));
  EXPECT_FALSE(overlaps(b, c));
  EXPECT_EQ(arena.used_bytes(), 192);
  std::vector<double> values(4, 1.0);
  device_->copy_to_host(std::span<double>(values), c);
  EXPECT_EQ(values, std::vector<double>(4, 0.0));
  ASSERT_EQ(arena.allocations().size(), 3U);
  EXPECT_EQ(arena.allocations()[2].name, "c");
  EXPECT_EQ(arena.allocations()[2].size_bytes, 64);
}

TEST_F(ArenaTest, ExhaustionNamesArenaTensorAndBytes) {
  Arena arena(*device_, MemoryClass::kGradients, 256);
  arena.allocate("fits", DType::kF32, {33});
  const std::string message =
      test::error_of([&] { arena.allocate("blocks.3.moe.gate_up", DType::kF32, {17}); });
  EXPECT_THAT(message, HasSubstr("arena gradients"));
  EXPECT_THAT(message, HasSubstr("blocks.3.moe.gate_up needs 128 bytes, 64 of 256 are left"));
  EXPECT_EQ(arena.used_bytes(), 192);  // the failed call took nothing
  EXPECT_NO_THROW(arena.allocate("last", DType::kF32, {16}));
}

TEST_F(ArenaTest, TensorsWithoutElementsTakeNothing) {
  Arena arena(*device_, MemoryClass::kExchange, 64);
  EXPECT_EQ(arena.allocate("none", DType::kF32, {0, 8}).numel(), 0);
  EXPECT_EQ(arena.used_bytes(), 0);
}

TEST_F(ArenaTest, ScratchScopesNestAndGiveBack) {
  Workspace workspace(*device_, 512);
  TensorView first;
  {
    ScratchScope outer(workspace);
    first = outer.take(DType::kU8, {100});
    EXPECT_EQ(workspace.used_bytes(), 128);
    {
      ScratchScope inner(workspace);
      EXPECT_FALSE(overlaps(inner.take(DType::kF32, {64}), first));
      EXPECT_EQ(workspace.used_bytes(), 384);
    }
    EXPECT_EQ(workspace.used_bytes(), 128);
  }
  EXPECT_EQ(workspace.used_bytes(), 0);
  EXPECT_EQ(workspace.peak_bytes(), 384);
  ScratchScope again(workspace);
  EXPECT_EQ(address_of(again.take(DType::kU8, {1})), address_of(first));
}

TEST_F(ArenaTest, WorkspaceExhaustionShowsBytes) {
  Workspace workspace(*device_, 128);
  ScratchScope scope(workspace);
  scope.take(DType::kU8, {64});
  EXPECT_THAT(test::error_of([&] { scope.take(DType::kF64, {9}); }),
              HasSubstr("128 bytes asked for, 64 of 128 are left"));
  EXPECT_EQ(workspace.peak_bytes(), 64);
}

TEST_F(ArenaTest, MemoryTableSums) {
  MemoryTable table;
  table[MemoryClass::kParameters] = 5;
  table[MemoryClass::kWorkspace] = 7;
  EXPECT_EQ(table.total_bytes(), 12);
  EXPECT_EQ(name_of(MemoryClass::kWorkspace), "workspace");
}

}  // namespace
}  // namespace ulmus
