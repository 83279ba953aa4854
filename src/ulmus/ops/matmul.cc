#include "ulmus/ops/matmul.h"

#include "ulmus/ops/front_door.h"

namespace ulmus::ops {

void matmul(const MatmulArgs& args, const ExecContext& ctx) {
  const auto& slot = kernels().dense.matmul;
  const FrontDoor door(slot.name, ctx);
  door.is_float("out", args.out);
  door.rank("out", args.out, 2);
  door.rank("a", args.a, 2);
  const DType dtype = args.out.dtype();
  const std::int64_t m = args.out.dim(0);
  const std::int64_t n = args.out.dim(1);
  const std::int64_t k = args.a.dim(args.form == MatmulForm::kTN ? 0 : 1);
  const Shape a_shape = args.form == MatmulForm::kTN ? Shape{k, m} : Shape{m, k};
  const Shape b_shape = args.form == MatmulForm::kNT ? Shape{n, k} : Shape{k, n};
  door.rows_operand("a", args.a, dtype, a_shape);
  door.rows_operand("b", args.b, dtype, b_shape);
  door.apart("out", args.out, "a", args.a);
  door.apart("out", args.out, "b", args.b);
  const double out_passes = args.accumulate == Accumulate::kAdd ? 2.0 : 1.0;
  book_and_run(slot, args,
               {.useful_flops =
                    2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k),
                .moved_bytes = out_passes * bytes_of(args.out) + bytes_of(args.a, args.b)},
               0, ctx);
}

}  // namespace ulmus::ops
