#include "ulmus/optim/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/device_fixture.h"
#include "tests/support/expect.h"
#include "ulmus/base/error.h"
#include "ulmus/ops/step_gate.h"

namespace ulmus::optim {
namespace {

using test::DeviceFixture;
using test::kClosedFormF64;
using test::kReduceF32;
using ::testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// Two tensors, the second stacked in three slices that are no multiple of a block.
class Training {
 public:
  Training(Backend backend, DType dtype, const Optimizer::Options& options)
      : f(backend, 2),
        loss(f.zeros(DType::kF64, {1})),
        gate(f.zeros(DType::kF64, {ops::kNumGateFields})),
        record{.gate = gate,
               .norm_sq = f.zeros(DType::kF64, {1}),
               .first_bad = f.zeros(DType::kF64, {1}),
               .loss = loss},
        tensors(
            {make("a", dtype, {7, 3}, 21, 1.0, 0.0), make("b", dtype, {3, 4500}, 4500, 0.5, 0.1)}),
        optimizer(tensors, options, record, f.arena, *f.device) {}

  /// One step with gradients of a named stream.
  void step(const std::string& stream, double lr, double loss_value = 1.0) {
    f.device->copy_to_device<double>(loss, std::vector<double>{loss_value});
    for (const OptimizedTensor& tensor : tensors)
      f.write(tensor.grad, gradient(tensor, stream));
    optimizer.measure(f.ctx);
    optimizer.update(lr, f.ctx);
  }
  /// The same gradients again.
  void repeat(double lr, double loss_value) {
    f.device->copy_to_device<double>(loss, std::vector<double>{loss_value});
    optimizer.measure(f.ctx);
    optimizer.update(lr, f.ctx);
  }
  static std::vector<double> gradient(const OptimizedTensor& tensor, const std::string& stream) {
    return DeviceFixture::normals(tensor.grad.shape(), stream + tensor.name, 0.01);
  }
  double field(ops::GateField name) { return f.values(gate)[static_cast<std::size_t>(name)]; }
  /// Everything that a step may change but the gate.
  std::vector<std::vector<double>> everything() {
    std::vector<std::vector<double>> all;
    for (const OptimizedTensor& tensor : tensors)
      all.push_back(f.values(tensor.param));
    for (const Moments& moments : optimizer.moments()) {
      all.push_back(f.values(moments.first));
      all.push_back(f.values(moments.second));
    }
    all.push_back(optimizer.export_state(*f.device).windows);
    return all;
  }

  DeviceFixture f;
  TensorView loss;
  TensorView gate;
  GateRecord record;
  std::vector<OptimizedTensor> tensors;
  Optimizer optimizer;

 private:
  OptimizedTensor make(const std::string& name, DType dtype, const Shape& shape,
                       std::int64_t slice_elements, double lr_scale, double weight_decay) {
    return {.name = name,
            .blocks = BlockRange::all(shape.numel(), slice_elements),
            .param = f.normal(dtype, shape, name),
            .grad = f.zeros(dtype, shape),
            .lr_scale = lr_scale,
            .weight_decay = weight_decay};
  }
};

/// AdamW with clipping as it stands in the books, all in double, all tensors at once.
class PlainAdamw {
 public:
  PlainAdamw(Training& run, const Optimizer::Options& options) : options_(options) {
    for (const OptimizedTensor& tensor : run.tensors) {
      params.push_back(run.f.values(tensor.param));
      m_.emplace_back(params.back().size(), 0.0);
      v_.emplace_back(params.back().size(), 0.0);
    }
  }
  void step(const Training& run, const std::string& stream, double lr) {
    std::vector<std::vector<double>> grads;
    double norm_sq = 0.0;
    for (const OptimizedTensor& tensor : run.tensors) {
      grads.push_back(Training::gradient(tensor, stream));
      for (const double g : grads.back())
        norm_sq += g * g;
    }
    norm = std::sqrt(norm_sq);
    const double clip = options_.clip > 0.0 ? std::min(1.0, options_.clip / norm) : 1.0;
    ++count_;
    for (std::size_t t = 0; t < params.size(); ++t) {
      const double rate = lr * run.tensors[t].lr_scale;
      for (std::size_t i = 0; i < params[t].size(); ++i) {
        const double g = clip * grads[t][i];
        m_[t][i] = options_.beta1 * m_[t][i] + (1 - options_.beta1) * g;
        v_[t][i] = options_.beta2 * v_[t][i] + (1 - options_.beta2) * g * g;
        const double m_hat = m_[t][i] / (1 - std::pow(options_.beta1, count_));
        const double v_hat = v_[t][i] / (1 - std::pow(options_.beta2, count_));
        params[t][i] *= 1 - rate * run.tensors[t].weight_decay;
        params[t][i] -= rate * m_hat / (std::sqrt(v_hat) + options_.eps);
      }
    }
  }
  std::vector<std::vector<double>> params;
  double norm = 0.0;

 private:
  Optimizer::Options options_;
  std::vector<std::vector<double>> m_;
  std::vector<std::vector<double>> v_;
  int count_ = 0;
};

void expect_like_plain_adamw(Backend backend, DType dtype, const Optimizer::Options& options,
                             const test::Tolerance& tolerance) {
  Training run(backend, dtype, options);
  PlainAdamw plain(run, options);
  for (const char* stream : {"one", "two", "three"}) {
    run.step(stream, 0.05);
    plain.step(run, stream, 0.05);
    test::expect_close(run.field(ops::GateField::kNorm), plain.norm, tolerance, "norm");
  }
  for (std::size_t t = 0; t < 2; ++t) {
    test::expect_close_to_largest(run.f.values(run.tensors[t].param), plain.params[t], tolerance,
                                  run.tensors[t].name);
  }
}

TEST(Optimizer, IsAdamw) {
  const Optimizer::Options clipped{.beta1 = 0.8, .beta2 = 0.9, .eps = 1e-3, .clip = 0.5};
  const Optimizer::Options free{.beta1 = 0.8, .beta2 = 0.9, .eps = 1e-3, .clip = 0.0};
  const Optimizer::Options loose{.beta1 = 0.8, .beta2 = 0.9, .eps = 1e-3, .clip = 100.0};
  for (const Optimizer::Options& options : {clipped, free, loose}) {
    expect_like_plain_adamw(Backend::kRef, DType::kF64, options, kClosedFormF64);
    expect_like_plain_adamw(Backend::kRef, DType::kF32, options, kReduceF32);
    expect_like_plain_adamw(Backend::kCpu, DType::kF32, options, kReduceF32);
  }
}

TEST(Optimizer, ANonfiniteStepChangesNothing) {
  Training run(Backend::kCpu, DType::kF32, {});
  run.step("one", 0.05);
  const auto before = run.everything();
  const double count = run.field(ops::GateField::kCount);

  run.step("two", 0.05, kNan);
  EXPECT_EQ(run.field(ops::GateField::kUpdate), 0.0);
  EXPECT_EQ(run.field(ops::GateField::kNonfiniteInRow), 1.0);
  EXPECT_EQ(run.everything(), before);

  std::vector<double> grad(3 * 4500, 0.0);
  grad[9000] = std::numeric_limits<double>::infinity();
  run.f.device->copy_to_device<double>(run.loss, std::vector<double>{1.0});
  run.f.write(run.tensors[1].grad, grad);
  run.optimizer.measure(run.f.ctx);
  run.optimizer.update(0.05, run.f.ctx);
  EXPECT_EQ(run.field(ops::GateField::kBadTensor), 1.0);
  EXPECT_EQ(run.field(ops::GateField::kNonfiniteInRow), 2.0);
  EXPECT_EQ(run.field(ops::GateField::kCount), count);
  EXPECT_EQ(run.everything(), before);

  // What a checkpoint would get is finite all the same.
  for (const double value : run.optimizer.export_state(*run.f.device).gate) {
    EXPECT_TRUE(std::isfinite(value));
  }
  run.step("three", 0.05);
  EXPECT_EQ(run.field(ops::GateField::kNonfiniteInRow), 0.0);
  EXPECT_NE(run.everything(), before);
}

TEST(Optimizer, SkipsASpike) {
  Training run(Backend::kRef, DType::kF64, {.skip_sigma = 6.0});
  run.step("one", 1e-3, 2.0);
  for (int i = 1; i < ops::kSkipWindow / 2; ++i)
    run.repeat(1e-3, 2.0 + 0.01 * (i % 5));
  const auto param = run.f.values(run.tensors[1].param);
  run.repeat(1e-3, 5.0);
  EXPECT_EQ(run.field(ops::GateField::kReason), static_cast<double>(ops::GateReason::kSkipLoss));
  EXPECT_EQ(run.f.values(run.tensors[1].param), param);
  run.repeat(1e-3, 2.0);
  EXPECT_NE(run.f.values(run.tensors[1].param), param);
}

TEST(Optimizer, AStepReadsNothingAndTakesNothing) {
  Training run(Backend::kCpu, DType::kF32, {});
  run.step("one", 0.05);
  const std::int64_t used = run.f.arena.used_bytes();
  run.f.device->reset_transfers();
  run.optimizer.measure(run.f.ctx);
  run.optimizer.update(0.05, run.f.ctx);
  const TransferCounters& transfers = run.f.device->transfers();
  EXPECT_EQ(transfers.host_reads + transfers.staged_in + transfers.staged_out, 0);
  EXPECT_EQ(run.f.arena.used_bytes(), used);
  EXPECT_EQ(run.f.workspace.used_bytes(), 0);
}

/// Copies all that a checkpoint would hold from one optimizer to another.
void hand_over(Training& from, Training& to) {
  for (std::size_t t = 0; t < from.tensors.size(); ++t) {
    to.f.write(to.tensors[t].param, from.f.values(from.tensors[t].param));
    to.f.write(to.optimizer.moments()[t].first, from.f.values(from.optimizer.moments()[t].first));
    to.f.write(to.optimizer.moments()[t].second, from.f.values(from.optimizer.moments()[t].second));
  }
  to.optimizer.import_state(from.optimizer.export_state(*from.f.device), *to.f.device);
}

TEST(Optimizer, AResumedRunEqualsTheUnbrokenOneBitForBit) {
  const Optimizer::Options options{.clip = 0.5, .skip_sigma = 6.0};
  Training unbroken(Backend::kCpu, DType::kF32, options);
  for (const char* stream : {"one", "two", "three"})
    unbroken.step(stream, 0.05);
  unbroken.step("bad", 0.05, kNan);
  Training resumed(Backend::kCpu, DType::kF32, options);
  hand_over(unbroken, resumed);
  for (const char* stream : {"four", "five"}) {
    unbroken.step(stream, 0.04);
    resumed.step(stream, 0.04);
    EXPECT_EQ(resumed.f.values(resumed.gate), unbroken.f.values(unbroken.gate));
  }
  EXPECT_EQ(resumed.everything(), unbroken.everything());
}

TEST(Optimizer, RefusesStateThatCannotBe) {
  Training run(Backend::kRef, DType::kF32, {});
  run.step("one", 0.05);
  const OptimizerState good = run.optimizer.export_state(*run.f.device);
  const auto before = run.everything();
  const auto refusal = [&](auto&& change) {
    OptimizerState state = good;
    change(state);
    return test::error_of([&] { run.optimizer.import_state(state, *run.f.device); });
  };
  using State = OptimizerState;
  EXPECT_THAT(refusal([](State& s) { s.gate.pop_back(); }), HasSubstr("9 gate fields"));
  EXPECT_THAT(refusal([](State& s) { s.windows.push_back(0); }), HasSubstr("windows of 258"));
  EXPECT_THAT(refusal([](State& s) { s.windows[3] = kNan; }), HasSubstr("holds nan"));
  for (const double count : {-1.0, 0.5, 1e300}) {
    EXPECT_THAT(refusal([&](State& s) { s.windows.back() = count; }), HasSubstr("window entries"));
    EXPECT_THAT(refusal([&](State& s) { s.gate[6] = count; }), HasSubstr("count of updates"));
    EXPECT_THAT(refusal([&](State& s) { s.gate[9] = count; }), HasSubstr("non-finite steps"));
  }
  EXPECT_EQ(run.everything(), before);
}

TEST(Optimizer, RefusesTensorsAndOptionsThatDoNotFit) {
  DeviceFixture f;
  const GateRecord record = {.gate = f.zeros(DType::kF64, {ops::kNumGateFields}),
                             .norm_sq = f.zeros(DType::kF64, {1}),
                             .first_bad = f.zeros(DType::kF64, {1}),
                             .loss = f.zeros(DType::kF64, {1})};
  const auto refusal = [&](std::vector<OptimizedTensor> tensors, Optimizer::Options options = {}) {
    return test::error_of(
        [&] { Optimizer(std::move(tensors), options, record, f.arena, *f.device); });
  };
  const OptimizedTensor good{.name = "w",
                             .blocks = BlockRange::all(8, 8),
                             .param = f.zeros(DType::kF32, {4, 2}),
                             .grad = f.zeros(DType::kF32, {4, 2})};
  EXPECT_THAT(refusal({good, good}), HasSubstr("w is given twice"));
  OptimizedTensor bad = good;
  bad.grad = f.zeros(DType::kF32, {2, 4});
  EXPECT_THAT(refusal({bad}), HasSubstr("w: parameter [4, 2] f32, gradient [2, 4] f32"));
  bad = good;
  bad.blocks.slice_elements = 3;
  EXPECT_THAT(refusal({bad}), HasSubstr("slices of 3"));
  bad = good;
  bad.blocks = {8, 8, 0, 0};
  EXPECT_THAT(refusal({bad}), HasSubstr("w: 8 elements for blocks of 0"));
  EXPECT_THAT(refusal({good}, {.beta1 = 1.0}), HasSubstr("betas 1"));
  EXPECT_THAT(refusal({good}, {.clip = -1.0}), HasSubstr("clip -1"));
  EXPECT_THAT(refusal({good}, {.skip_sigma = -1.0}), HasSubstr("skip_sigma -1"));
  GateRecord short_gate = record;
  short_gate.gate = f.zeros(DType::kF64, {3});
  EXPECT_THAT(test::error_of([&] { Optimizer({good}, {}, short_gate, f.arena, *f.device); }),
              HasSubstr("gate [3] f64"));
}

TEST(Optimizer, OnAMetaDeviceItIsOnlyBooked) {
  const auto device = make_meta_device(2);
  Arena arena(*device, MemoryClass::kOptimizer, Arena::kUnbounded);
  Workspace workspace(*device, Arena::kUnbounded);
  Meter meter;
  const ExecContext ctx{*device, workspace, meter};
  const auto take = [&](DType dtype, const Shape& shape) {
    return arena.allocate("test", dtype, shape);
  };
  const GateRecord record = {.gate = take(DType::kF64, {ops::kNumGateFields}),
                             .norm_sq = take(DType::kF64, {1}),
                             .first_bad = take(DType::kF64, {1}),
                             .loss = take(DType::kF64, {1})};
  const std::int64_t before = arena.used_bytes();
  constexpr std::int64_t kElements = std::int64_t{1} << 30U;
  std::vector<OptimizedTensor> tensors = {{.name = "w",
                                           .blocks = BlockRange::all(kElements, kElements),
                                           .param = take(DType::kF32, {1 << 20, 1 << 10}),
                                           .grad = take(DType::kF32, {1 << 20, 1 << 10})}};
  const std::int64_t tensor_bytes = std::int64_t{4} << 30U;
  EXPECT_EQ(arena.used_bytes() - before, 2 * tensor_bytes);
  const Optimizer optimizer(tensors, {}, record, arena, *device);
  EXPECT_GT(arena.used_bytes() - before, 4 * tensor_bytes);
  EXPECT_LT(arena.used_bytes() - before, 4 * tensor_bytes + tensor_bytes / 1000);
  optimizer.measure(ctx);
  optimizer.update(0.1, ctx);
  EXPECT_EQ(meter.entries().size(), 4);
}

/// Two ranks that own a part each, one of them nothing of a tensor, together do what one does
/// alone.
TEST(Optimizer, PartsOfATensorAreOptimisedLikeTheWhole) {
  DeviceFixture f;
  constexpr std::int64_t kNumel = 3 * 5000;
  const Shape shape = {3, 5000};
  const auto start = DeviceFixture::normals(shape, "start");
  const auto gradient = DeviceFixture::normals(shape, "gradient");
  const auto record = [&] {
    return GateRecord{.gate = f.zeros(DType::kF64, {ops::kNumGateFields}),
                      .norm_sq = f.zeros(DType::kF64, {1}),
                      .first_bad = f.zeros(DType::kF64, {1}),
                      .loss = f.zeros(DType::kF64, {1})};
  };
  const auto run = [&](const std::vector<BlockRange>& parts) {
    const TensorView param = f.floats(DType::kF64, {kNumel}, start);
    const TensorView grad = f.floats(DType::kF64, {kNumel}, gradient);
    std::vector<GateRecord> records;
    std::vector<std::unique_ptr<Optimizer>> optimizers;
    double norm_sq = 0.0;
    for (const BlockRange& part : parts) {
      records.push_back(record());
      const std::int64_t begin = part.element_begin();
      const std::int64_t end = part.element_end();
      optimizers.push_back(std::make_unique<Optimizer>(
          std::vector<OptimizedTensor>{{.name = "w",
                                        .blocks = part,
                                        .param = param.rows(begin, end),
                                        .grad = grad.rows(begin, end),
                                        .weight_decay = 0.1}},
          Optimizer::Options{.clip = 0.5}, records.back(), f.arena, *f.device));
      optimizers.back()->measure(f.ctx);
      norm_sq += f.values(records.back().norm_sq).front();
    }
    for (std::size_t i = 0; i < parts.size(); ++i) {
      f.write(records[i].norm_sq, {norm_sq});
      optimizers[i]->update(0.1, f.ctx);
    }
    return f.values(param);
  };
  const std::vector<double> whole = run({BlockRange::all(kNumel, 5000)});
  EXPECT_NE(whole, start);
  const std::vector<double> cut =
      run({{kNumel, 5000, 0, 1}, {kNumel, 5000, 1, 6}, {kNumel, 5000, 6, 6}});
  for (std::size_t i = 0; i < whole.size(); ++i)
    test::expect_close(cut[i], whole[i], kClosedFormF64, "element");
}

}  // namespace
}  // namespace ulmus::optim
