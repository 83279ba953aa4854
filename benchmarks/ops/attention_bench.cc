#include "benchmarks/ops/bench_device.h"
#include "ulmus/ops/attention.h"

namespace ulmus::bench {
namespace {

/// B sequences of S queries over as many keys, H query heads on G key heads of width P.
struct Tensors {
  Tensors(BenchDevice& device, const benchmark::State& state)
      : sequences(state.range(0)),
        length(state.range(1)),
        heads(state.range(2)),
        key_heads(state.range(3)),
        width(state.range(4)),
        window(state.range(5)),
        q(device.random({sequences * length, heads, width}, 2.0)),
        k(device.random({sequences * length, key_heads, width}, 2.0)),
        v(device.random({sequences * length, key_heads, width})),
        first_key(device.fast.i32(
            {sequences * length},
            std::vector<std::int32_t>(static_cast<std::size_t>(sequences * length), 0))) {}
  double pairs() const {
    double sum = 0.0;
    for (std::int64_t i = 1; i <= length; ++i) {
      sum += static_cast<double>(window > 0 ? std::min(window, i) : i);
    }
    return sum * static_cast<double>(sequences * heads * width);
  }
  TensorView like_q(BenchDevice& device) const {
    return device.zeros({sequences * length, heads, width});
  }
  TensorView like_k(BenchDevice& device) const {
    return device.zeros({sequences * length, key_heads, width});
  }
  ops::AttentionForwardArgs forward_args(BenchDevice& device) const {
    ops::AttentionForwardArgs args;
    args.out = like_q(device);
    args.lse = device.zeros({sequences * length, heads});
    args.q = q;
    args.k = k;
    args.v = v;
    args.first_key = first_key;
    args.num_sequences = sequences;
    args.window = window;
    args.scale = 1.0 / std::sqrt(static_cast<double>(width));
    return args;
  }

  std::int64_t sequences;
  std::int64_t length;
  std::int64_t heads;
  std::int64_t key_heads;
  std::int64_t width;
  std::int64_t window;
  TensorView q;
  TensorView k;
  TensorView v;
  TensorView first_key;
};

void attention_forward(benchmark::State& state) {
  BenchDevice device;
  const Tensors t(device, state);
  const ops::AttentionForwardArgs args = t.forward_args(device);
  const ops::AttentionForwardArgs expected = t.forward_args(device);
  ops::attention_forward(args, device.ctx());
  ops::attention_forward(expected, device.oracle());
  time_flops(state, device, 4.0 * t.pairs(), device.difference(args.out, expected.out),
             [&] { ops::attention_forward(args, device.ctx()); });
}

void attention_backward(benchmark::State& state) {
  BenchDevice device;
  const Tensors t(device, state);
  const ops::AttentionForwardArgs forward = t.forward_args(device);
  ops::attention_forward(forward, device.ctx());
  ops::AttentionBackwardArgs args;
  args.grad_out = device.random({t.sequences * t.length, t.heads, t.width});
  args.q = t.q;
  args.k = t.k;
  args.v = t.v;
  args.out = forward.out;
  args.lse = forward.lse;
  args.first_key = t.first_key;
  args.num_sequences = t.sequences;
  args.window = t.window;
  args.scale = forward.scale;
  ops::AttentionBackwardArgs expected = args;
  for (ops::AttentionBackwardArgs* call : {&args, &expected}) {
    call->grad_q = t.like_q(device);
    call->grad_k = t.like_k(device);
    call->grad_v = t.like_k(device);
  }
  ops::attention_backward(args, device.ctx());
  ops::attention_backward(expected, device.oracle());
  const double difference = std::max({device.difference(args.grad_q, expected.grad_q),
                                      device.difference(args.grad_k, expected.grad_k),
                                      device.difference(args.grad_v, expected.grad_v)});
  // The scores are formed twice; the second time is no useful work.
  time_flops(state, device, 8.0 * t.pairs(), difference,
             [&] { ops::attention_backward(args, device.ctx()); });
}

void shapes(benchmark::internal::Benchmark* bench) {
  bench->UseManualTime()->ArgNames({"B", "S", "H", "G", "P", "window"});
  bench->Args({4, 256, 4, 4, 32, 0});
  bench->Args({4, 256, 8, 8, 64, 0});
  bench->Args({1, 1024, 8, 8, 64, 0});
  bench->Args({1, 1024, 8, 2, 64, 0});
  bench->Args({1, 1024, 4, 4, 128, 0});
  bench->Args({1, 2048, 8, 8, 64, 256});
}
BENCHMARK(attention_forward)->Apply(shapes);
BENCHMARK(attention_backward)->Apply(shapes);

}  // namespace
}  // namespace ulmus::bench
