#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "ulmus/model/config.h"
#include "ulmus/optim/param_groups.h"
#include "ulmus/optim/schedule.h"
#include "ulmus/parallel/reshard.h"

namespace ulmus::train {

/// The whole configuration of a run, one struct for each table of the TOML file. Defaults are those
/// of docs/configuration.md. Parsed once, at the edge (config_file.h); nothing else reads files.

/// What the log file of a run keeps; each level includes those below it.
enum class LogLevel : std::uint8_t {
  kDebug,    ///< the progress of every step
  kInfo,     ///< what the run tells its user
  kWarning,  ///< steps that were skipped
  kError,    ///< why the run failed
};

struct RunConfig {
  std::filesystem::path dir = "runs/default";
  std::string name;  ///< in logs; empty: the folder's name
  std::uint64_t seed = 0;
  LogLevel log_level = LogLevel::kInfo;
  std::int64_t log_every = 10;  ///< steps between metrics lines
  std::optional<std::int64_t> max_steps;
  std::optional<std::int64_t> max_tokens;
  double timeout_s = 300.0;         ///< how long a rank waits for another
  std::vector<std::int64_t> trace;  ///< steps that trace.json records, from 1
};

struct DataConfig {
  std::filesystem::path tokenizer;
  std::vector<std::filesystem::path> train;
  std::vector<std::filesystem::path> eval;
  std::int64_t sequence_length = 0;
  std::string packing = "chunk";  ///< "chunk" | "documents"
  std::vector<double> mix;        ///< one weight for each train path; empty: by size
};

struct OptimConfig {
  /// Learning rate, schedule, warm-up and batch of each phase; one phase unless optim.phases is
  /// given.
  std::vector<optim::Phase> phases;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;
  double clip = 1.0;        ///< 0: no clipping
  double skip_sigma = 0.0;  ///< 0: no skip-step
  double head_z_loss = 0.0;
  std::int64_t max_nonfinite = 10;  ///< consecutive non-finite steps that end the run
  std::vector<optim::GroupRule> groups;
};

struct BatchConfig {
  std::int64_t tokens = 0;           ///< of a whole step; a multiple of the sequence length
  std::int64_t micro_sequences = 1;  ///< sequences of one micro-batch
};

/// How token rows travel to experts on other ranks.
enum class Exchange : std::uint8_t { kLocal, kAllToAll };

/// Whether weights stay on their rank, or are gathered for each use.
enum class Params : std::uint8_t { kResident, kResharded };

struct ParallelConfig {
  Params params = Params::kResident;
  parallel::Reshard reshard = parallel::Reshard::kMicroBatch;
  bool prefetch = false;  ///< ask for a unit's weights while the one before it is used
  int expert = 1;         ///< ranks that share the experts
  /// Not set: local where parallel.expert = 1, all_to_all otherwise.
  std::optional<Exchange> exchange;

  Exchange used_exchange() const {
    return exchange.value_or(expert == 1 ? Exchange::kLocal : Exchange::kAllToAll);
  }
};

struct MemoryConfig {
  double budget_gib = 0.0;        ///< of a rank; 0: its share of what is free at start
  std::int64_t head_chunk = 256;  ///< rows of logits that exist at once
};

struct CheckpointConfig {
  std::int64_t every = 0;  ///< steps; 0: only at the end
  std::int64_t keep = 2;
  bool async = false;          ///< behind training
  std::filesystem::path load;  ///< start from this checkpoint's weights
  bool load_optimizer = true;
};

struct EvalConfig {
  std::int64_t every = 0;   ///< steps; 0: only at the end
  std::int64_t tokens = 0;  ///< at most so many; 0: all
};

enum class Compute : std::uint8_t { kFp32, kFp64 };

struct DeviceConfig {
  int threads = 0;  ///< of a rank; 0: the machine's cores divided by its ranks
};

struct Config {
  RunConfig run;
  model::ModelConfig model;  ///< includes [moe]
  DataConfig data;
  OptimConfig optim;
  BatchConfig batch;
  ParallelConfig parallel;
  Compute compute = Compute::kFp32;  ///< precision.compute
  MemoryConfig memory;
  CheckpointConfig checkpoint;
  EvalConfig eval;
  DeviceConfig device;

  /// Relations between keys of several tables; InputError naming keys, values and what is allowed.
  void validate() const;
};

}  // namespace ulmus::train
