#pragma once

#include "ulmus/ops/balance_loss.h"
#include "ulmus/ops/grouped_matmul.h"
#include "ulmus/ops/kernel_slot.h"
#include "ulmus/ops/move_segments.h"
#include "ulmus/ops/route_order.h"
#include "ulmus/ops/route_rows.h"
#include "ulmus/ops/router.h"

namespace ulmus::ops {

struct MoeKernels {
  KernelSlot<RouterSelectArgs> router_select{"router_select"};
  KernelSlot<ForcedRoutesArgs> forced_routes{"forced_routes"};
  KernelSlot<RouterWeightsArgs> router_weights{"router_weights"};
  KernelSlot<RouterStatisticsArgs> router_statistics{"router_statistics"};
  KernelSlot<RouterBackwardArgs> router_backward{"router_backward"};
  KernelSlot<BalanceCoefficientsArgs> balance_coefficients{"balance_coefficients"};
  KernelSlot<RouteOrderArgs> route_order{"route_order"};
  KernelSlot<GatherRowsArgs> gather_rows{"gather_rows"};
  KernelSlot<CombineRowsArgs> combine_rows{"combine_rows"};
  KernelSlot<GatherScalarsArgs> gather_scalars{"gather_scalars"};
  KernelSlot<CollectScalarsArgs> collect_scalars{"collect_scalars"};
  KernelSlot<MoveSegmentsArgs> move_segments{"move_segments"};
  KernelSlot<GroupedMatmulArgs> grouped_matmul{"grouped_matmul"};
};

}  // namespace ulmus::ops
