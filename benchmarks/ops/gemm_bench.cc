#include "benchmarks/ops/bench_device.h"
#include "ulmus/ops/cpu/blas.h"
#include "ulmus/ops/cpu/direct_gemm.h"
#include "ulmus/ops/matmul.h"

namespace ulmus::bench {
namespace {

using ops::Accumulate;
using ops::MatmulForm;

/// m, n, k of the product; both operands in the layout of the form.
struct Operands {
  Operands(BenchDevice& device, const benchmark::State& state)
      : form(static_cast<MatmulForm>(state.range(0))),
        m(state.range(1)),
        n(state.range(2)),
        k(state.range(3)),
        a(device.random(form == MatmulForm::kTN ? Shape{k, m} : Shape{m, k})),
        b(device.random(form == MatmulForm::kNT ? Shape{n, k} : Shape{k, n})),
        out(device.zeros({m, n})),
        expected(device.zeros({m, n})) {}
  double flops() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
  double difference(BenchDevice& device) const {
    ops::matmul({expected, a, b, form, Accumulate::kOverwrite}, device.oracle());
    return device.difference(out, expected);
  }

  MatmulForm form;
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  TensorView a;
  TensorView b;
  TensorView out;
  TensorView expected;
};

void matmul(benchmark::State& state) {
  BenchDevice device;
  const Operands o(device, state);
  const auto run = [&] {
    ops::matmul({o.out, o.a, o.b, o.form, Accumulate::kOverwrite}, device.ctx());
  };
  run();
  time_flops(state, device, o.flops(), o.difference(device), run);
}

/// One thread of one of the two kinds of kernels: where gemm() should change over.
void one_thread(benchmark::State& state, void (*kernel)(const ops::cpu::Gemm&)) {
  BenchDevice device;
  const Operands o(device, state);
  const ops::cpu::Gemm product{.form = o.form,
                               .m = o.m,
                               .n = o.n,
                               .k = o.k,
                               .a = o.a.data<float>(),
                               .a_stride = o.a.stride(0),
                               .b = o.b.data<float>(),
                               .b_stride = o.b.stride(0),
                               .c = o.out.data<float>(),
                               .c_stride = o.n};
  kernel(product);
  time_flops(state, device, o.flops(), o.difference(device), [&] { kernel(product); });
}
void direct_one_thread(benchmark::State& state) { one_thread(state, ops::cpu::direct_gemm); }
void blas_one_thread(benchmark::State& state) { one_thread(state, ops::cpu::blas_gemm); }

// Projections of the two reference models; their routers.
BENCHMARK(matmul)
    ->UseManualTime()
    ->ArgNames({"form", "m", "n", "k"})
    ->ArgsProduct({{0, 1, 2}, {4096}, {512}, {512}})
    ->ArgsProduct({{0, 1, 2}, {1024}, {128}, {128}})
    ->ArgsProduct({{0, 1, 2}, {4096}, {64}, {512}})
    ->ArgsProduct({{0, 1, 2}, {1024}, {32}, {128}});
BENCHMARK(direct_one_thread)
    ->UseManualTime()
    ->ArgNames({"form", "m", "n", "k"})
    ->ArgsProduct({{0, 1, 2}, {4, 16, 64, 256}, {128, 512}, {128, 512}});
BENCHMARK(blas_one_thread)
    ->UseManualTime()
    ->ArgNames({"form", "m", "n", "k"})
    ->ArgsProduct({{0, 1, 2}, {4, 16, 64, 256}, {128, 512}, {128, 512}});

}  // namespace
}  // namespace ulmus::bench
