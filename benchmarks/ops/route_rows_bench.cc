#include "ulmus/ops/route_rows.h"

#include <cstring>

#include "benchmarks/ops/bench_device.h"
#include "ulmus/ops/move_segments.h"
#include "ulmus/ops/route_order.h"

namespace ulmus::bench {
namespace {

double seconds_of(const auto& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Times `body` and, in turn with it, a memcpy on all threads that moves as many bytes (half of
/// them read, half written).
template <class Body>
void time_bytes(benchmark::State& state, BenchDevice& device, double moved_bytes,
                const Body& body) {
  const auto elements = static_cast<std::int64_t>(moved_bytes) / 8;
  const TensorView to = device.zeros({elements});
  const TensorView from = device.zeros({elements});
  const auto copy = [&] {
    device.ctx().device.pool().for_ranges(
        elements, 1024, [&](std::int64_t begin, std::int64_t end, int) {
          std::memcpy(to.data<float>() + begin, from.data<float>() + begin,
                      static_cast<std::size_t>(end - begin) * sizeof(float));
        });
  };
  std::vector<double> times;
  std::vector<double> copy_times;
  for (auto _ : state) {
    copy_times.push_back(seconds_of(copy));
    times.push_back(seconds_of(body));
    state.SetIterationTime(times.back());
  }
  const auto median = [](std::vector<double>& values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  };
  const double s = median(times);
  const double copy_s = median(copy_times);
  state.counters["GB_per_s"] = moved_bytes / s * 1e-9;
  state.counters["memcpy_GB_per_s"] = moved_bytes / copy_s * 1e-9;
  state.counters["of_memcpy"] = copy_s / s;
}

/// Uniform random routes in expert order.
struct Routes {
  Routes(BenchDevice& device, std::int64_t num_tokens, std::int64_t top_k)
      : row_of_route(device.fast.zeros(DType::kI32, {num_tokens, top_k})),
        route_of_row(device.fast.zeros(DType::kI32, {num_tokens * top_k})) {
    constexpr std::int64_t kExperts = 64;
    const TensorView expert_begin = device.fast.zeros(DType::kI32, {kExperts + 1});
    const std::vector<std::int32_t> ids =
        test::DeviceFixture::integers(num_tokens * top_k, kExperts, "ids");
    ops::route_order({.expert_begin = expert_begin,
                      .row_of_route = row_of_route,
                      .route_of_row = route_of_row,
                      .ids = device.fast.i32({num_tokens, top_k}, ids)},
                     device.ctx());
    row_count = expert_begin.rows(kExperts, kExperts + 1);
  }
  TensorView row_of_route;
  TensorView route_of_row;
  TensorView row_count;
};

void gather_rows(benchmark::State& state) {
  const std::int64_t width = state.range(0);
  const std::int64_t num_rows = state.range(1);
  const std::int64_t top_k = state.range(2);
  BenchDevice device(std::int64_t{2} << 30U);
  const Routes routes(device, num_rows / top_k, top_k);
  const TensorView rows = device.zeros({num_rows / top_k, width});
  const TensorView grouped = device.zeros({num_rows, width});
  time_bytes(state, device, 2.0 * static_cast<double>(grouped.size_bytes()), [&] {
    ops::gather_rows({.grouped = grouped,
                      .rows = rows,
                      .route_of_row = routes.route_of_row,
                      .row_count = routes.row_count,
                      .top_k = static_cast<int>(top_k)},
                     device.ctx());
  });
}

void combine_rows(benchmark::State& state) {
  const std::int64_t width = state.range(0);
  const std::int64_t num_rows = state.range(1);
  const std::int64_t top_k = state.range(2);
  BenchDevice device(std::int64_t{2} << 30U);
  const Routes routes(device, num_rows / top_k, top_k);
  const TensorView grouped = device.zeros({num_rows, width});
  const TensorView weights = device.zeros({num_rows / top_k, top_k});
  const TensorView out = device.zeros({num_rows / top_k, width});
  time_bytes(state, device, static_cast<double>(grouped.size_bytes() + out.size_bytes()), [&] {
    ops::combine_rows(
        {.out = out, .grouped = grouped, .weights = weights, .row_of_route = routes.row_of_route},
        device.ctx());
  });
}

/// Segments of equally many rows in reverse order, or (skew 1) half of all rows in one.
void move_segments(benchmark::State& state) {
  const std::int64_t width = state.range(0);
  const std::int64_t num_rows = state.range(1);
  const std::int64_t num_segments = state.range(2);
  BenchDevice device(std::int64_t{2} << 30U);
  std::vector<std::int64_t> fields;
  for (std::int64_t i = 0; i < num_segments; ++i) {
    const auto begin_of = [&](std::int64_t segment) {
      const std::int64_t even = num_rows * segment / num_segments;
      return state.range(3) == 0 || segment == 0 ? even : num_rows / 2 + even / 2;
    };
    const std::int64_t rows = begin_of(i + 1) - begin_of(i);
    fields.insert(fields.end(), {num_rows - begin_of(i + 1), begin_of(i), rows});
  }
  const Shape shape = width == 0 ? Shape{num_rows} : Shape{num_rows, width};
  const TensorView in = device.zeros(shape);
  const TensorView out = device.zeros(shape);
  const TensorView segments = device.fast.tensor({num_segments, 3}, fields);
  time_bytes(state, device, 2.0 * static_cast<double>(out.size_bytes()), [&] {
    ops::move_segments({.out = out, .in = in, .segments = segments}, device.ctx());
  });
}

BENCHMARK(gather_rows)
    ->UseManualTime()
    ->ArgNames({"D", "rows", "K"})
    ->ArgsProduct({{512, 1024}, {1 << 12U, 1 << 16U}, {2, 8}});
BENCHMARK(combine_rows)
    ->UseManualTime()
    ->ArgNames({"D", "rows", "K"})
    ->ArgsProduct({{512, 1024}, {1 << 12U, 1 << 16U}, {2, 8}});
BENCHMARK(move_segments)
    ->UseManualTime()
    ->ArgNames({"D", "rows", "segments", "skew"})
    ->ArgsProduct({{512, 1024}, {1 << 12U, 1 << 16U}, {64, 1024}, {0, 1}})
    ->ArgsProduct({{0}, {1 << 16U, 1 << 24U}, {64, 1024}, {1}});

}  // namespace
}  // namespace ulmus::bench
