#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ulmus/comm/communicator.h"
#include "ulmus/nn/moe/router.h"
#include "ulmus/train/config.h"
#include "ulmus/train/parity_batch.h"
#include "ulmus/train/runtime.h"

namespace ulmus::train {

/// Expert ids by (router, step, global token), as a run chose them or as it is told to take them.
class KeptRoutes final : public nn::RouteTape {
 public:
  /// Only records.
  KeptRoutes() = default;
  /// Replaces the ids of steps >= `first_replayed` by those of `source`, which outlives this.
  KeptRoutes(const KeptRoutes& source, std::int64_t first_replayed)
      : source_(&source), first_replayed_(first_replayed) {}

  void on_routes(const nn::Router& router, const nn::StepScale& scale, TensorView ids,
                 ConstTensorView logits, const ExecContext& ctx) override;

  /// Smallest distance between the last expert chosen and the best one left, over all tokens, in
  /// what selection compares (ops::router_select), formed in f64.
  double smallest_margin() const { return smallest_margin_; }

 private:
  struct Key {
    std::string router;
    std::int64_t step;
    std::int64_t token;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  void note_margin(std::span<const double> keys, std::span<const std::int32_t> chosen);

  const KeptRoutes* source_ = nullptr;
  std::int64_t first_replayed_ = 0;
  std::map<Key, std::vector<std::int32_t>> ids_;
  double smallest_margin_ = 1e300;
};

/// One named array of a step, whole, as every layout must have it.
struct TracedTensor {
  enum class Kind : std::uint8_t {
    kCount,     ///< integers: exact
    kMetric,    ///< sums, norms, losses
    kGradient,  ///< before clipping
    kWeight,    ///< after the update
  };
  std::string name;  ///< "step 1 gradient layers.0.moe.router.weight"
  Kind kind = Kind::kMetric;
  std::vector<double> values;
  std::int64_t step = 0;
  int parameter = -1;  ///< index, of gradients and weights
  double lr = 0.0;     ///< of the parameter
};

/// Two steps of a run under some layout.
struct Trace {
  std::vector<TracedTensor> tensors;  ///< step after step, in the order of computing
};

/// What every run of a comparison is given, the one-rank run too.
struct ParityScene {
  ParityData data = {};
  std::function<void(Runtime&)> before_steps = {};  ///< may set router state, as a checkpoint would
};

/// What tests put wrong, to see it found.
struct ParityFaults {
  std::function<parallel::FamilyGroups(const parallel::Ranks&)> families;
  std::function<void(Runtime&)> after_gradients;
};

/// Runs two steps of the parity batches under the configuration's layout, from a history in which
/// skip-step judges. Collective. The same trace on every rank, gradients and weights gathered, the
/// record and the router state each rank's own. `tape` may be null.
Trace trace_steps(const Config& config, comm::World& world, const ParityScene& scene,
                  nn::RouteTape* tape, const ParityFaults& faults = {});

}  // namespace ulmus::train
