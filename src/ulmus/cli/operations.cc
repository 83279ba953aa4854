#include "ulmus/cli/commands.h"
#include "ulmus/cli/output.h"
#include "ulmus/ops/kernels.h"

namespace ulmus::cli {
namespace {

template <class Args>
void add_slot(TextTable& table, const ops::KernelSlot<Args>& slot) {
  // A CPU slot without a fast kernel of its own holds the oracle's.
  const char* cpu = slot.cpu == nullptr ? "-" : slot.cpu == slot.ref ? "as ref" : "yes";
  table.add_row({std::string(slot.name), slot.ref == nullptr ? "-" : "yes", cpu});
}

template <class... Slots>
void add_slots(TextTable& table, const Slots&... slots) {
  (add_slot(table, slots), ...);
}

}  // namespace

int print_operations() {
  TextTable table({"operation", "ref", "cpu"});
  // The bindings do not compile when a table has another number of slots: none can be missed.
  const auto& dense = ops::kernels().dense;
  const auto& [a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14] = dense;
  add_slots(table, a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14);
  const auto& [b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, b10, b11, b12] = ops::kernels().moe;
  add_slots(table, b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, b10, b11, b12);
  const auto& [c0, c1, c2, c3, c4, c5] = ops::kernels().optimizer;
  add_slots(table, c0, c1, c2, c3, c4, c5);
  print_result(table.text());
  return 0;
}

}  // namespace ulmus::cli
