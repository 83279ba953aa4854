#include "ulmus/ops/matmul.h"

#include "ulmus/ops/cpu/cpu_kernels.h"
#include "ulmus/ops/cpu/gemm.h"

namespace ulmus::ops::cpu {

void matmul(const MatmulArgs& args, TensorView /*scratch*/, const ExecContext& ctx) {
  parallel_gemm({.form = args.form,
                 .m = args.out.dim(0),
                 .n = args.out.dim(1),
                 .k = args.a.dim(args.form == MatmulForm::kTN ? 0 : 1),
                 .a = args.a.data<float>(),
                 .a_stride = args.a.stride(0),
                 .b = args.b.data<float>(),
                 .b_stride = args.b.stride(0),
                 .c = args.out.data<float>(),
                 .c_stride = args.out.stride(0),
                 .accumulate = args.accumulate},
                ctx.device.pool());
}

}  // namespace ulmus::ops::cpu
