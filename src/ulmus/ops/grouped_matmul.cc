#include "ulmus/ops/grouped_matmul.h"

#include "ulmus/ops/front_door.h"

namespace ulmus::ops {

namespace {

/// What the meter needs: the widths of the two row operands, and the bytes that belong to experts.
struct GroupedSizes {
  std::int64_t row_capacity = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  double row_bytes = 0.0;
  double expert_bytes = 0.0;
};

/// kNT: out [R, n], rows [R, k], weight [E, n, k]; kNN: out [R, n], rows [R, k], weight [E, k, n]
GroupedSizes check_row_products(const FrontDoor& door, const GroupedMatmulArgs& args,
                                std::int64_t num_experts) {
  const DType dtype = args.out.dtype();
  door.rank("out", args.out, 2);
  door.rank("rows", args.rows, 2);
  const std::int64_t num_rows = args.out.dim(0);
  const std::int64_t n = args.out.dim(1);
  const std::int64_t k = args.rows.dim(1);
  door.operand("out", args.out, dtype, {num_rows, n});
  door.operand("rows", args.rows, dtype, {num_rows, k});
  door.operand("weight", args.weight, dtype,
               args.form == MatmulForm::kNT ? Shape{num_experts, n, k} : Shape{num_experts, k, n});
  door.require(args.left.is_empty(), "left is ", args.left.shape(), ", expected none in this form");
  door.apart("out", args.out, "rows", args.rows);
  door.apart("out", args.out, "weight", args.weight);
  return {.row_capacity = num_rows,
          .n = n,
          .k = k,
          .row_bytes = bytes_of_rows(args.out, args.booked_rows) +
                       bytes_of_rows(args.rows, args.booked_rows),
          .expert_bytes = bytes_of(args.weight)};
}

/// kTN: out [E, m, n], left [R, m], rows [R, n]
GroupedSizes check_weight_gradient(const FrontDoor& door, const GroupedMatmulArgs& args,
                                   std::int64_t num_experts) {
  const DType dtype = args.out.dtype();
  door.rank("rows", args.rows, 2);
  door.rank("left", args.left, 2);
  const std::int64_t num_rows = args.rows.dim(0);
  const std::int64_t m = args.left.dim(1);
  const std::int64_t n = args.rows.dim(1);
  door.operand("out", args.out, dtype, {num_experts, m, n});
  door.operand("rows", args.rows, dtype, {num_rows, n});
  door.operand("left", args.left, dtype, {num_rows, m});
  door.require(args.weight.is_empty(), "weight is ", args.weight.shape(),
               ", expected none in this form");
  door.apart("out", args.out, "rows", args.rows);
  door.apart("out", args.out, "left", args.left);
  return {.row_capacity = num_rows,
          .n = n,
          .k = m,
          .row_bytes = bytes_of_rows(args.left, args.booked_rows) +
                       bytes_of_rows(args.rows, args.booked_rows),
          .expert_bytes = 2.0 * bytes_of(args.out)};
}

}  // namespace

void grouped_matmul(const GroupedMatmulArgs& args, const ExecContext& ctx) {
  const auto& slot = kernels().moe.grouped_matmul;
  const FrontDoor door(slot.name, ctx);
  door.is_float("out", args.out);
  door.rank("expert_begin", args.expert_begin, 1);
  const std::int64_t num_experts = args.expert_begin.dim(0) - 1;
  door.require(num_experts > 0, "expert_begin is ", args.expert_begin.shape(),
               ", expected one more than the experts, of which there is at least one");
  door.operand("expert_begin", args.expert_begin, DType::kI32, {num_experts + 1});
  const GroupedSizes sizes = args.form == MatmulForm::kTN
                                 ? check_weight_gradient(door, args, num_experts)
                                 : check_row_products(door, args, num_experts);
  door.booked("booked_rows", args.booked_rows, sizes.row_capacity);
  book_and_run(slot, args,
               {.useful_flops = 2.0 * static_cast<double>(args.booked_rows) *
                                static_cast<double>(sizes.n) * static_cast<double>(sizes.k),
                .moved_bytes = sizes.row_bytes + sizes.expert_bytes + bytes_of(args.expert_begin)},
               0, ctx);
}

}  // namespace ulmus::ops
