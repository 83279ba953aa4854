#include "ulmus/ops/grouped_matmul.h"

#include "ulmus/ops/ref/ref_kernels.h"

namespace ulmus::ops::ref {

// Each expert's product is a dense one over windows of the operands.
void grouped_matmul(const GroupedMatmulArgs& args, TensorView /*scratch*/, const ExecContext& ctx) {
  const auto* expert_begin = args.expert_begin.data<std::int32_t>();
  const std::int64_t num_experts = args.expert_begin.dim(0) - 1;
  for (std::int64_t e = 0; e < num_experts; ++e) {
    const std::int64_t begin = expert_begin[e];
    const std::int64_t end = expert_begin[e + 1];
    ULMUS_DCHECK(0 <= begin && begin <= end && end <= args.rows.dim(0), "expert ", e, " has rows ",
                 begin, "..", end, " of ", args.rows.dim(0));
    if (begin == end) continue;
    const ConstTensorView rows = args.rows.rows(begin, end);
    if (args.form == MatmulForm::kTN) {
      matmul({.out = args.out.rows(e, e + 1).reshape({args.out.dim(1), args.out.dim(2)}),
              .a = args.left.rows(begin, end),
              .b = rows,
              .form = MatmulForm::kTN,
              .accumulate = Accumulate::kAdd},
             {}, ctx);
    } else {
      matmul({.out = args.out.rows(begin, end),
              .a = rows,
              .b = args.weight.rows(e, e + 1).reshape({args.weight.dim(1), args.weight.dim(2)}),
              .form = args.form},
             {}, ctx);
    }
  }
}

}  // namespace ulmus::ops::ref
