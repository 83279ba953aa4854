#include "ulmus/ops/route_order.h"

#include "ulmus/ops/cpu/cpu_kernels.h"
#include "ulmus/ops/front_door.h"

namespace ulmus::ops::cpu {

/// Counting sort: each thread counts its range of routes, a prefix over (expert, thread) turns
/// counts into first rows, each thread places its routes. Ranges ascend with the thread, so rows
/// are those of the serial stable order for any number of threads.
void route_order(const RouteOrderArgs& args, TensorView scratch, const ExecContext& ctx) {
  ThreadPool& pool = ctx.device.pool();
  const std::int32_t* ids = args.ids.data<std::int32_t>();
  auto* expert_begin = args.expert_begin.data<std::int32_t>();
  auto* row_of_route = args.row_of_route.data<std::int32_t>();
  auto* route_of_row = args.route_of_row.data<std::int32_t>();
  const std::int64_t num_routes = args.ids.numel();
  const std::int64_t num_experts = args.expert_begin.dim(0) - 1;
  const int num_threads = pool.num_threads();
  // [threads, E], rows padded so that no cache line has two writers
  auto* all_next = static_cast<std::int32_t*>(scratch.raw_data());
  const std::int64_t stride = in_cache_lines(num_experts * size_of(DType::kI32)) / 4;
  const auto first_route = [=](int thread_idx) { return num_routes * thread_idx / num_threads; };

  pool.run([&](int thread_idx) {
    std::int32_t* count = all_next + thread_idx * stride;
    for (std::int64_t e = 0; e < num_experts; ++e)
      count[e] = 0;
    const std::int64_t end = first_route(thread_idx + 1);
    for (std::int64_t route = first_route(thread_idx); route < end; ++route) {
      if (ids[route] >= 0) ++count[ids[route]];
    }
  });
  std::int32_t row = 0;
  for (std::int64_t e = 0; e < num_experts; ++e) {
    expert_begin[e] = row;
    for (int thread_idx = 0; thread_idx < num_threads; ++thread_idx) {
      std::int32_t& next = all_next[thread_idx * stride + e];
      const std::int32_t count = next;
      next = row;
      row += count;
    }
  }
  expert_begin[num_experts] = row;
  pool.run([&](int thread_idx) {
    std::int32_t* next = all_next + thread_idx * stride;
    const std::int64_t end = first_route(thread_idx + 1);
    for (std::int64_t route = first_route(thread_idx); route < end; ++route) {
      const std::int32_t expert = ids[route];
      row_of_route[route] = expert < 0 ? -1 : next[expert]++;
      if (expert >= 0) route_of_row[row_of_route[route]] = static_cast<std::int32_t>(route);
    }
  });
}

}  // namespace ulmus::ops::cpu
