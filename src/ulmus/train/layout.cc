#include "ulmus/train/layout.h"

#include "ulmus/base/error.h"
#include "ulmus/comm/agreement.h"

namespace ulmus::train {

parallel::Layout layout_of(const Config& config, int ranks) {
  const ParallelConfig& keys = config.parallel;
  const parallel::Layout layout = {.ranks = ranks, .expert = keys.expert};
  layout.validate();
  if (keys.expert > 1 && config.model.moe.experts % keys.expert != 0) {
    fail_input("parallel.expert = ", keys.expert,
               " does not divide moe.experts = ", config.model.moe.experts);
  }
  if (keys.expert > 1 && keys.used_exchange() == Exchange::kLocal) {
    fail_input("parallel.exchange = \"local\" needs parallel.expert = 1, but it is ", keys.expert,
               ": give \"all_to_all\"");
  }
  return layout;
}

parallel::Layout layout_of(const Config& config, comm::World& world) {
  parallel::Layout layout;
  comm::agree(world.all(), [&] { layout = layout_of(config, world.size()); });
  return layout;
}

}  // namespace ulmus::train
