#include "ulmus/ops/router_bias.h"

#include <algorithm>

#include "ulmus/ops/ref/ref_kernels.h"
#include "ulmus/ops/step_gate.h"

namespace ulmus::ops::ref {

namespace {

bool updates(const ConstTensorView& gate) {
  return gate.data<double>()[static_cast<std::size_t>(GateField::kUpdate)] != 0.0;
}

}  // namespace

void router_bias(const RouterBiasArgs& args, TensorView /*scratch*/, const ExecContext& /*ctx*/) {
  if (!updates(args.gate)) return;
  dispatch_float(args.bias.dtype(), "router_bias", [&]<class T>() {
    const std::int64_t num_experts = args.bias.dim(0);
    const auto* counts = args.counts.data<std::int64_t>();
    T* bias = args.bias.data<T>();
    std::int64_t sum = 0;
    for (std::int64_t e = 0; e < num_experts; ++e)
      sum += counts[e];
    for (std::int64_t e = 0; e < num_experts; ++e) {
      // E counts[e] against sum(counts): equality must change nothing, so nothing is divided.
      const std::int64_t scaled = num_experts * counts[e];
      if (scaled == sum) continue;
      const double change = scaled < sum ? args.rate : -args.rate;
      bias[e] = static_cast<T>(static_cast<double>(bias[e]) + change);
    }
  });
}

void keep_counts(const KeepCountsArgs& args, TensorView /*scratch*/, const ExecContext& /*ctx*/) {
  if (!updates(args.gate)) return;
  std::copy_n(args.counts.data<std::int64_t>(), args.counts.numel(),
              args.previous.data<std::int64_t>());
}

}  // namespace ulmus::ops::ref
