#include "benchmarks/ops/bench_device.h"
#include "ulmus/ops/grouped_matmul.h"

namespace ulmus::bench {
namespace {

using ops::MatmulForm;

/// E experts of [F, D] with equally many rows, or (skew 1) half of all rows with one expert.
void grouped_matmul(benchmark::State& state) {
  const auto form = static_cast<MatmulForm>(state.range(0));
  const std::int64_t experts = state.range(1);
  const std::int64_t width = state.range(2);
  const std::int64_t hidden = state.range(3);
  const std::int64_t rows = experts * state.range(4);
  BenchDevice device;
  std::vector<std::int32_t> begin;
  for (std::int64_t e = 0; e <= experts; ++e) {
    const std::int64_t even = rows * e / experts;
    begin.push_back(
        static_cast<std::int32_t>(state.range(5) == 0 ? even : (e == 0 ? 0 : rows / 2 + even / 2)));
  }
  begin.back() = static_cast<std::int32_t>(rows);
  ops::GroupedMatmulArgs args;
  args.form = form;
  args.booked_rows = rows;
  args.rows = device.random({rows, width});
  args.expert_begin = device.fast.i32({experts + 1}, begin);
  const Shape out_shape =
      form == MatmulForm::kTN ? Shape{experts, hidden, width} : Shape{rows, hidden};
  if (form == MatmulForm::kTN) {
    args.left = device.random({rows, hidden});
  } else {
    args.weight = device.random(form == MatmulForm::kNT ? Shape{experts, hidden, width}
                                                        : Shape{experts, width, hidden});
  }
  args.out = device.zeros(out_shape);
  ops::GroupedMatmulArgs expected = args;
  expected.out = device.zeros(out_shape);
  ops::grouped_matmul(args, device.ctx());
  ops::grouped_matmul(expected, device.oracle());
  time_flops(state, device, 2.0 * static_cast<double>(rows) * static_cast<double>(width * hidden),
             device.difference(args.out, expected.out),
             [&] { ops::grouped_matmul(args, device.ctx()); });
}

BENCHMARK(grouped_matmul)
    ->UseManualTime()
    ->ArgNames({"form", "E", "D", "F", "rows", "skew"})
    ->ArgsProduct({{0, 1, 2}, {32}, {128}, {128}, {4, 16, 64, 128}, {0}})
    ->ArgsProduct({{0, 1, 2}, {64}, {512}, {256}, {8, 64, 512}, {0}})
    ->ArgsProduct({{0, 1, 2}, {64}, {512}, {256}, {64}, {1}});

}  // namespace
}  // namespace ulmus::bench
