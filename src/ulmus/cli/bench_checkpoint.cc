#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "ulmus/base/error.h"
#include "ulmus/base/file.h"
#include "ulmus/cli/bench.h"
#include "ulmus/cli/cold_files.h"
#include "ulmus/cli/on_ranks.h"
#include "ulmus/cli/output.h"
#include "ulmus/comm/agreement.h"
#include "ulmus/train/checkpointing.h"
#include "ulmus/train/layout.h"
#include "ulmus/train/measure.h"

namespace ulmus::cli {
namespace {

namespace fs = std::filesystem;

/// The run whose checkpoints are timed: its folder lies in run.dir, on the disk where real ones
/// would be.
train::Config bench_config(const train::Config& config) {
  train::Config one = config;
  one.run.dir = config.run.dir / "bench-checkpoint";
  one.checkpoint.async = true;
  one.checkpoint.every = 1;
  one.checkpoint.keep = 1000000;
  return one;
}

/// The same run under other keys: the other way of keeping parameters, and where the ranks allow
/// it the other extreme of sharing experts.
train::Config resharded_config(const train::Config& config, comm::World& world) {
  train::Config other = config;
  other.parallel.params = config.parallel.params == train::Params::kResident
                              ? train::Params::kResharded
                              : train::Params::kResident;
  train::Config shared = other;
  shared.parallel.expert = config.parallel.expert == world.size() ? 1 : world.size();
  shared.parallel.exchange.reset();
  try {
    train::layout_of(shared, world);
    return shared;
  } catch (const Error&) {
    return other;  // the experts do not divide
  }
}

/// A model under a layout, and its checkpoints.
struct Trained {
  Trained(const train::Config& settings, comm::World& world)
      : config(settings),
        ranks(world, train::layout_of(config, world)),
        device(train::make_device(config, ranks.node())),
        runtime(config, train::Purpose::kTrain, *device, ranks,
                train::measure_memory(config, train::Purpose::kTrain, ranks.layout(), world.rank(),
                                      train::num_threads(config, ranks.node()))),
        checkpointing(config, runtime, {}) {
    runtime.initialize_parameters();
  }
  train::Config config;
  parallel::Ranks ranks;
  std::unique_ptr<Device> device;
  train::Runtime runtime;
  train::Checkpointing checkpointing;
};

/// What is read at once: small enough to stay in the caches.
constexpr std::int64_t kPieceBytes = std::int64_t{512} << 10U;

/// Bytes [begin, end) of a file.
struct FileRange {
  fs::path path;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// One of `parts` equal shares of the bytes of files that lie one after the other.
std::vector<FileRange> share_of(std::span<const fs::path> files, int part, int parts) {
  std::vector<std::int64_t> begins = {0};
  for (const fs::path& file : files)
    begins.push_back(begins.back() + static_cast<std::int64_t>(fs::file_size(file)));
  const std::int64_t begin = begins.back() * part / parts;
  const std::int64_t end = begins.back() * (part + 1) / parts;
  std::vector<FileRange> ranges;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const FileRange range = {.path = files[i],
                             .begin = std::max(begin, begins[i]) - begins[i],
                             .end = std::min(end, begins[i + 1]) - begins[i]};
    if (range.begin < range.end) ranges.push_back(range);
  }
  return ranges;
}

/// Calls use(offset, bytes) for every piece of a range, which is read.
template <class Use>
void read_range(const FileRange& range, std::span<std::byte> buffer, const Use& use) {
  const RangeReader reader(range.path);
  for (std::int64_t offset = range.begin; offset < range.end; offset += kPieceBytes) {
    const std::int64_t count = std::min(kPieceBytes, range.end - offset);
    const std::span<std::byte> piece = buffer.first(static_cast<std::size_t>(count));
    reader.read(offset, piece);
    use(offset, piece);
  }
}

/// Copies a range into the file of the same name in a folder, and flushes it to the disk.
void copy_range(const FileRange& range, const fs::path& folder, std::span<std::byte> buffer) {
  RangeWriter writer(folder / range.path.filename(), RangeWriter::Open::kExisting);
  read_range(range, buffer, [&](std::int64_t offset, std::span<const std::byte> piece) {
    writer.write(offset, piece);
  });
  writer.sync_and_close();
}

/// Seconds of each repetition of an operation, and of what it is measured against.
struct Readings {
  std::vector<double> seconds;
  std::vector<double> copy_seconds;
};

class CheckpointBench {
 public:
  CheckpointBench(const train::Config& config, comm::World& world)
      : config_(bench_config(config)), world_(world), copies_(config_.run.dir / "copies") {}

  void run(int repetitions) {
    on_first([&] {
      fs::remove_all(config_.run.dir);
      fs::create_directories(copies_);
    });
    {
      Trained trained(config_, world_);
      layout_ = trained.ranks.layout().text();
      for (int i = 0; i < repetitions; ++i) {
        time_saving(trained);
        time_load("load", trained);
        on_first([&] { fs::remove_all(checkpoint_.parent_path()); });
      }
      checkpoint_ = trained.checkpointing.save({.step = ++step_});
    }
    Trained other(resharded_config(config_, world_), world_);
    other_layout_ = other.ranks.layout().text();
    for (int i = 0; i < repetitions; ++i)
      time_load("reshard", other);
    on_first([&] { fs::remove_all(config_.run.dir); });
  }

  void print(int repetitions, const std::string& target) const {
    const std::string disk = config_.run.dir.parent_path().string();
    nlohmann::json rows = nlohmann::json::array();
    TextTable table({"operation", "bytes", "seconds", "copy or read", "copy / operation"});
    for (const auto& [operation, readings] : readings_) {
      const Spread own = spread_of(readings.seconds);
      const Spread copy = spread_of(readings.copy_seconds);
      std::vector<double> ratios;
      ratios.reserve(readings.seconds.size());
      for (std::size_t i = 0; i < readings.seconds.size(); ++i)
        ratios.push_back(readings.copy_seconds[i] / readings.seconds[i]);
      const Spread ratio = spread_of(ratios);
      rows.push_back({{"operation", operation},
                      {"bytes", bytes_},
                      {"seconds", own.median},
                      {"copy_seconds", copy.median},
                      {"ratio", ratio.median},
                      {"ratio_min", ratio.min},
                      {"ratio_max", ratio.max}});
      table.add_row({operation, grouped_digits(bytes_), fmt::format("{:.3f}", own.median),
                     fmt::format("{:.3f}", copy.median),
                     fmt::format("{:.2f} ({:.2f} to {:.2f})", ratio.median, ratio.min, ratio.max)});
    }
    const double stall = spread_of(readings_.at("async_stall").seconds).median /
                         spread_of(readings_.at("save").seconds).median;
    const nlohmann::json facts = {{"bench", "checkpoint"},
                                  {"machine", machine_text(threads_)},
                                  {"layout", layout_},
                                  {"resharded_layout", other_layout_},
                                  {"folder", disk},
                                  {"repetitions", repetitions},
                                  {"stall_fraction", stall},
                                  {"cached_after_eviction", still_cached_},
                                  {"rows", rows}};
    print_facts(
        fmt::format("{}, {} a rank, in {}; {} repetitions; reshard loads it as {}\n{}"
                    "save and async_stall beside a synced copy of the same files, loads beside a "
                    "cold read of them ({:.1f} % of the pages stay cached)\n"
                    "a save behind training stops it for {:.1f} % of one at once\n",
                    layout_, machine_text(threads_), disk, repetitions, other_layout_, table.text(),
                    100.0 * still_cached_, 100.0 * stall),
        facts.dump(2), target);
  }

 private:
  /// Seconds until the slowest rank is done.
  double seconds_of(const std::function<void()>& body) {
    world_.all().barrier();
    const auto begin = std::chrono::steady_clock::now();
    body();
    std::array<double, 1> most = {
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()};
    world_.all().all_reduce(most, comm::ReduceOp::kMax);
    return most[0];
  }

  /// What one rank does for all.
  void on_first(const std::function<void()>& body) {
    comm::agree(world_.all(), [&] {
      if (world_.rank() == 0) body();
    });
  }

  /// body(range, buffer) for all bytes of the checkpoint, of which every thread of every rank has
  /// an equal share: nothing that moves them is faster than all of them together.
  void for_shares(Trained& trained,
                  const std::function<void(const FileRange&, std::span<std::byte>)>& body) {
    const std::vector<fs::path> files = files_of(checkpoint_);
    ThreadPool& pool = trained.device->pool();
    pool.run([&](int thread_idx) {
      std::vector<std::byte> buffer(kPieceBytes);
      const int part = world_.rank() * pool.num_threads() + thread_idx;
      for (const FileRange& range : share_of(files, part, world_.size() * pool.num_threads()))
        body(range, buffer);
    });
  }

  double time_copy(Trained& trained) {
    const double elapsed = seconds_of([&] {
      on_first([&] {
        for (const fs::path& file : files_of(checkpoint_)) {
          RangeWriter copy(copies_ / file.filename(), RangeWriter::Open::kCreate);
          copy.resize(static_cast<std::int64_t>(fs::file_size(file)));
        }
      });
      for_shares(trained, [&](const FileRange& range, std::span<std::byte> buffer) {
        copy_range(range, copies_, buffer);
      });
      sync_directory(copies_);
    });
    on_first([&] {
      fs::remove_all(copies_);
      fs::create_directories(copies_);
    });
    return elapsed;
  }

  /// One save at once, one behind, and a copy after each.
  void time_saving(Trained& trained) {
    Readings& save = readings_["save"];
    save.seconds.push_back(
        seconds_of([&] { checkpoint_ = trained.checkpointing.save({.step = ++step_}); }));
    bytes_ = 0;
    for (const fs::path& file : files_of(checkpoint_))
      bytes_ += static_cast<std::int64_t>(fs::file_size(file));
    save.copy_seconds.push_back(time_copy(trained));
    Readings& stall = readings_["async_stall"];
    stall.seconds.push_back(time_stall(trained.checkpointing));
    stall.copy_seconds.push_back(time_copy(trained));
  }

  /// What a run waits for: the copy at the start, and the ranks' words at two later steps.
  double time_stall(train::Checkpointing& checkpointing) {
    double elapsed = seconds_of([&] { checkpointing.start({.step = ++step_}); });
    while (checkpointing.is_pending()) {
      std::array<std::int64_t, 1> busy = {checkpointing.is_busy() ? 1 : 0};
      world_.all().all_reduce(busy, comm::ReduceOp::kMax);
      if (busy[0] != 0) continue;
      elapsed += seconds_of([&] { checkpointing.advance(); });
    }
    return elapsed;
  }

  /// A load of pages that are not cached, between two plain reads of them.
  void time_load(const std::string& operation, Trained& trained) {
    Readings& readings = readings_[operation];
    threads_ = train::num_threads(trained.config, trained.ranks.node());
    const double before = time_cold_read(trained);
    forget();
    readings.seconds.push_back(seconds_of([&] {
      trained.checkpointing.resume(checkpoint_);
      trained.runtime.parameter_store().finish_weights();
    }));
    readings.copy_seconds.push_back(0.5 * (before + time_cold_read(trained)));
  }

  double time_cold_read(Trained& trained) {
    forget();
    return seconds_of([&] {
      for_shares(trained, [](const FileRange& range, std::span<std::byte> buffer) {
        read_range(range, buffer, [](std::int64_t, std::span<const std::byte>) {});
      });
    });
  }

  void forget() {
    world_.all().barrier();
    std::array<double, 1> cached = {evict(files_of(checkpoint_))};
    world_.all().all_reduce(cached, comm::ReduceOp::kMax);
    still_cached_ = std::max(still_cached_, cached[0]);
  }

  train::Config config_;
  comm::World& world_;
  fs::path copies_;
  fs::path checkpoint_;
  std::string layout_;
  std::string other_layout_;
  std::map<std::string, Readings> readings_;
  std::int64_t bytes_ = 0;
  std::int64_t step_ = 0;
  int threads_ = 0;
  double still_cached_ = 0.0;
};

}  // namespace

int bench_checkpoint(const BenchOptions& options) {
  if (options.config.empty()) {
    fail_input(
        "ulmus bench checkpoint: CONFIG is missing, configs/bench/moe-cpu.toml for instance");
  }
  if (options.threads > 0) fail_input("ulmus bench checkpoint: give --set device.threads=N");
  return run_on_ranks(options.config, options.overrides,
                      [&](const train::Config& config, comm::World& world) {
                        CheckpointBench bench(config, world);
                        bench.run(options.repetitions);
                        if (prints(world)) bench.print(options.repetitions, options.json);
                        return 0;
                      });
}

}  // namespace ulmus::cli
