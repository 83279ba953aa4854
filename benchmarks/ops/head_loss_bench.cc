#include "benchmarks/ops/bench_device.h"
#include "ulmus/ops/head_loss.h"

namespace ulmus::bench {
namespace {

/// N rows of width D over V tokens, loss and both gradients.
void head_loss(benchmark::State& state) {
  const std::int64_t rows = state.range(0);
  const std::int64_t width = state.range(1);
  const std::int64_t vocabulary = state.range(2);
  BenchDevice device;
  ops::HeadLossArgs args;
  args.loss_sums = device.fast.f64({2}, {0.0, 0.0});
  args.grad_x = device.zeros({rows, width});
  args.grad_weight = device.zeros({vocabulary, width});
  args.x = device.random({rows, width});
  args.weight = device.random({vocabulary, width}, 0.1);
  args.targets = device.fast.i32(
      {rows},
      test::DeviceFixture::integers(rows, static_cast<std::int32_t>(vocabulary), "targets"));
  args.scale = 1.0 / static_cast<double>(rows);
  // The oracle is slow: it checks the first rows.
  ops::HeadLossArgs some = args;
  const std::int64_t checked = std::min<std::int64_t>(rows, 64);
  some.grad_x = args.grad_x.rows(0, checked);
  some.x = args.x.rows(0, checked);
  some.targets = args.targets.rows(0, checked);
  ops::HeadLossArgs expected = some;
  expected.grad_x = device.zeros({checked, width});
  expected.grad_weight = device.zeros({vocabulary, width});
  ops::head_loss(some, device.ctx());
  ops::head_loss(expected, device.oracle());
  const double difference = std::max(device.difference(some.grad_x, expected.grad_x),
                                     device.difference(some.grad_weight, expected.grad_weight));
  time_flops(state, device,
             6.0 * static_cast<double>(rows) * static_cast<double>(width * vocabulary), difference,
             [&] { ops::head_loss(args, device.ctx()); });
}

BENCHMARK(head_loss)
    ->UseManualTime()
    ->ArgNames({"N", "D", "V"})
    ->ArgsProduct({{1024, 4096}, {128, 512}, {4096, 16384}});

}  // namespace
}  // namespace ulmus::bench
