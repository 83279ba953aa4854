#include "ulmus/ops/adamw.h"

#include "tests/ops/cpu/against_oracle.h"
#include "ulmus/ops/step_gate.h"

namespace ulmus::ops {
namespace {

using test::DeviceFixture;
using test::Output;
using test::Scale;

std::vector<double> gate_fields(double update) {
  std::vector<double> fields(kNumGateFields, 0.0);
  const auto set = [&](GateField which, double value) {
    fields[static_cast<std::size_t>(which)] = value;
  };
  set(GateField::kUpdate, update);
  set(GateField::kClip, 0.625);
  set(GateField::kCorrection1, 0.271);
  set(GateField::kCorrection2, 0.142625);
  return fields;
}

AdamwArgs state(std::int64_t n, double update, DeviceFixture& f) {
  std::vector<double> second = DeviceFixture::normals({n}, "v", 0.01);
  for (double& value : second)
    value *= value;
  return {.param = f.normal(DType::kF32, {n}, "param"),
          .m = f.normal(DType::kF32, {n}, "m", 0.01),
          .v = f.floats(DType::kF32, {n}, second),
          .grad = f.normal(DType::kF32, {n}, "grad", 0.02),
          .gate = f.f64({kNumGateFields}, gate_fields(update)),
          .lr = 0.5,  // so large that the last bits of the step show in the parameter
          .weight_decay = 0.1};
}

std::vector<Output> outputs(const AdamwArgs& args, DeviceFixture& f) {
  return {{"param", f.values(args.param), test::kElementF32, Scale::kLargest},
          {"m", f.values(args.m), test::kElementF32, Scale::kLargest},
          {"v", f.values(args.v), test::kElementF32}};
}

constexpr std::int64_t kSizes[] = {0, 1, 7, 8, 9, 31, 1021, 8193, 40009};

TEST(CpuAdamw, LikeTheOracle) {
  for (const std::int64_t n : kSizes) {
    const auto body = [n](DeviceFixture& f) {
      const AdamwArgs args = state(n, 1.0, f);
      for (int step = 0; step < 3; ++step)
        adamw(args, f.ctx);
      return outputs(args, f);
    };
    test::expect_like_oracle(test::shape_name({n}), test::Bits::kOfAnyThreadCount, body);
  }
}

TEST(CpuAdamw, SameBitsWhereverARangeIsCut) {
  constexpr std::int64_t kSize = 1021;
  DeviceFixture f(Backend::kCpu, 1);
  const AdamwArgs whole = state(kSize, 1.0, f);
  const AdamwArgs parts = state(kSize, 1.0, f);
  adamw(whole, f.ctx);
  std::int64_t begin = 0;
  for (const std::int64_t end : {1, 2, 5, 12, 21, 52, 117, 500, 501, 1021}) {
    AdamwArgs part = parts;
    part.param = parts.param.rows(begin, end);
    part.m = parts.m.rows(begin, end);
    part.v = parts.v.rows(begin, end);
    part.grad = parts.grad.rows(begin, end);
    adamw(part, f.ctx);
    begin = end;
  }
  EXPECT_EQ(f.values(parts.param), f.values(whole.param));
  EXPECT_EQ(f.values(parts.m), f.values(whole.m));
  EXPECT_EQ(f.values(parts.v), f.values(whole.v));
}

TEST(CpuAdamw, AClosedGateChangesNothing) {
  DeviceFixture f(Backend::kCpu, 2);
  const AdamwArgs args = state(37, 0.0, f);
  const std::vector<Output> before = outputs(args, f);
  adamw(args, f.ctx);
  const std::vector<Output> after = outputs(args, f);
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_EQ(after[i].values, before[i].values);
}

}  // namespace
}  // namespace ulmus::ops
