// The exchange all_to_all, taken apart: its transfers beside MPI_Alltoallv of the same bytes, its
// permutes beside memcpy of as many bytes, in turns. The slower rank counts; medians.

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <string>
#include <vector>

#include "tests/support/device_fixture.h"
#include "ulmus/base/error.h"
#include "ulmus/comm/mpi_session.h"
#include "ulmus/parallel/all_to_all_exchange.h"

namespace ulmus::bench {
namespace {

struct Scenario {
  const char* routing;  // "uniform", or "skewed": the first experts have most rows
  std::int64_t num_tokens;
  std::int64_t width;
  int num_experts;
  int top_k;
};
constexpr Scenario kScenarios[] = {
    {"uniform", 4096, 512, 64, 8},  {"skewed", 4096, 512, 64, 8}, {"uniform", 4096, 1024, 64, 8},
    {"skewed", 4096, 1024, 64, 8},  {"uniform", 512, 512, 64, 8}, {"skewed", 512, 512, 64, 8},
    {"uniform", 8192, 1024, 16, 2},
};

/// Distinct experts for every token: neighbours, from a random first one.
std::vector<std::int32_t> choose_experts(const Scenario& scenario, int rank) {
  constexpr std::int32_t kDraws = 1 << 20U;
  const bool is_skewed = std::string_view(scenario.routing) == "skewed";
  const std::vector<std::int32_t> draws = test::DeviceFixture::integers(
      scenario.num_tokens, kDraws, fmt::format("experts of rank {}", rank));
  std::vector<std::int32_t> ids;
  for (const std::int32_t draw : draws) {
    double place = static_cast<double>(draw) / kDraws;
    if (is_skewed) place = place * place * place;
    const auto first = static_cast<std::int32_t>(place * scenario.num_experts);
    for (int k = 0; k < scenario.top_k; ++k)
      ids.push_back((first + k) % scenario.num_experts);
  }
  return ids;
}

/// Seconds of every repetition by what was timed, the slowest rank's.
using Times = std::map<std::string, std::vector<double>>;

void add_slowest(Times& times, const std::string& name, double seconds) {
  double slowest = 0.0;
  MPI_Allreduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  times[name].push_back(slowest);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Rows of the blocks between this rank and each other one, and the same as MPI counts bytes.
struct Blocks {
  Blocks(const std::vector<std::int64_t>& rows, std::int64_t row_bytes) : begin(1, 0) {
    for (const std::int64_t count : rows) {
      counts.push_back(static_cast<int>(count * row_bytes));
      offsets.push_back(static_cast<int>(begin.back() * row_bytes));
      begin.push_back(begin.back() + count);
    }
  }
  std::vector<std::int64_t> begin;
  std::vector<int> counts;
  std::vector<int> offsets;
};

/// One scenario's tensors on one rank.
class ExchangeBench {
 public:
  ExchangeBench(const Scenario& scenario, comm::World& world);
  /// What came back is what went out; false on every rank when it is not on one.
  bool is_right();
  void repeat();
  /// Throws what was timed so far away: the first call of each pays for first touches.
  void forget() { times_.clear(); }
  /// On the first rank.
  void print();

 private:
  template <class Body>
  void time(const std::string& name, const Body& body);
  void time_kernels(const std::string& direction);
  void time_transfers(const Blocks& to, const Blocks& from, const std::string& direction);
  void time_copy(const std::string& name, std::int64_t bytes);
  std::int64_t rows_bytes(std::int64_t rows) const { return rows * scenario_.width * 4; }

  Scenario scenario_;
  comm::World& world_;
  test::DeviceFixture device_;
  parallel::AllToAllExchange exchange_;
  comm::AllToAll transfer_;
  nn::ExchangePlan plan_;
  TensorView rows_;     ///< [N, D]: whole numbers, so that sums are exact
  TensorView back_;     ///< [N, D]
  TensorView grouped_;  ///< [R, D]
  TensorView from_;     ///< [R, D]: for bare transfers and copies
  TensorView to_;       ///< [R, D]
  std::vector<std::int64_t> sent_rows_;
  std::vector<std::int64_t> received_rows_;
  Times times_;
  bool is_rival_first_ = false;
};

ExchangeBench::ExchangeBench(const Scenario& scenario, comm::World& world)
    : scenario_(scenario),
      world_(world),
      device_(Backend::kCpu, 1, std::int64_t{2} << 30U),
      exchange_(world.all(), *device_.device),
      transfer_(world.all(), *device_.device) {
  const std::int64_t tokens = scenario.num_tokens;
  const auto ranks = static_cast<std::size_t>(world.size());
  const std::vector<std::int32_t> ids = choose_experts(scenario, world.rank());
  sent_rows_.resize(ranks);
  received_rows_.resize(ranks);
  const int here = scenario.num_experts / world.size();
  for (const std::int32_t id : ids)
    ++sent_rows_[static_cast<std::size_t>(id / here)];
  MPI_Alltoall(sent_rows_.data(), 1, MPI_INT64_T, received_rows_.data(), 1, MPI_INT64_T,
               MPI_COMM_WORLD);
  plan_ = exchange_.allocate_plan(device_.arena, tokens, scenario.num_experts, scenario.top_k);
  exchange_.plan(plan_, device_.i32({tokens, scenario.top_k}, ids), tokens, device_.ctx);
  const std::vector<std::int32_t> numbers =
      test::DeviceFixture::integers(tokens * scenario.width, 1 << 16U, "rows");
  rows_ = device_.floats(DType::kF32, {tokens, scenario.width},
                         std::vector<double>(numbers.begin(), numbers.end()));
  back_ = device_.zeros(DType::kF32, {tokens, scenario.width});
  const Shape grouped = {plan_.row_capacity, scenario.width};
  grouped_ = device_.zeros(DType::kF32, grouped);
  from_ = device_.zeros(DType::kF32, grouped);
  to_ = device_.zeros(DType::kF32, grouped);
}

bool ExchangeBench::is_right() {
  exchange_.dispatch(grouped_, rows_, plan_, device_.ctx);
  exchange_.combine(back_, grouped_, {}, plan_, device_.ctx);
  const std::vector<float> sent = device_.read<float>(rows_);
  const std::vector<float> back = device_.read<float>(back_);
  int is_equal = 1;
  for (std::size_t i = 0; i < sent.size(); ++i)
    if (back[i] != static_cast<float>(scenario_.top_k) * sent[i]) is_equal = 0;
  int are_equal = 0;
  MPI_Allreduce(&is_equal, &are_equal, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  return are_equal == 1;
}

template <class Body>
void ExchangeBench::time(const std::string& name, const Body& body) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  body();
  add_slowest(times_, name, MPI_Wtime() - begin);
}

/// From the meter, what the kernels of the last call took.
void ExchangeBench::time_kernels(const std::string& direction) {
  for (const MeterEntry& entry : device_.meter.entries()) {
    if (entry.operation == "all_to_all") continue;  // with the wait for the slower rank
    add_slowest(times_, direction + " " + std::string(entry.operation), entry.seconds);
  }
  device_.meter.reset();
}

void ExchangeBench::time_transfers(const Blocks& to, const Blocks& from,
                                   const std::string& direction) {
  const auto own = [&] {
    transfer_.start(to_, to.begin, from_, from.begin);
    transfer_.wait();
  };
  const auto rival = [&] {
    MPI_Alltoallv(from_.data<float>(), from.counts.data(), from.offsets.data(), MPI_BYTE,
                  to_.data<float>(), to.counts.data(), to.offsets.data(), MPI_BYTE, MPI_COMM_WORLD);
  };
  // The second finds the caches as the first left them: they take turns at it.
  is_rival_first_ = !is_rival_first_;
  if (is_rival_first_) time(direction + " MPI_Alltoallv", rival);
  time(direction + " all_to_all", own);
  if (!is_rival_first_) time(direction + " MPI_Alltoallv", rival);
}

void ExchangeBench::time_copy(const std::string& name, std::int64_t bytes) {
  time(name, [&] {
    std::memcpy(to_.data<float>(), from_.data<float>(), static_cast<std::size_t>(bytes));
  });
}

void ExchangeBench::repeat() {
  const Blocks sent(sent_rows_, scenario_.width * 4);
  const Blocks received(received_rows_, scenario_.width * 4);
  device_.meter.reset();
  time("dispatch", [&] { exchange_.dispatch(grouped_, rows_, plan_, device_.ctx); });
  time_kernels("dispatch");
  time_copy("copy for dispatch gather_rows", rows_bytes(sent.begin.back()));
  time_copy("copy for dispatch move_segments", rows_bytes(received.begin.back()));
  time_transfers(received, sent, "dispatch");
  device_.meter.reset();
  time("combine", [&] { exchange_.combine(back_, grouped_, {}, plan_, device_.ctx); });
  time_kernels("combine");
  time_copy("copy for combine move_segments", rows_bytes(received.begin.back()));
  time_copy("copy for combine combine_rows",
            rows_bytes(sent.begin.back() + scenario_.num_tokens) / 2);
  time_transfers(sent, received, "combine");
}

void ExchangeBench::print() {
  if (world_.rank() != 0) return;
  const double mib =
      static_cast<double>(rows_bytes(sent_rows_.front() + sent_rows_.back())) / 1048576.0;
  fmt::print(
      "{} routing, {} tokens a rank, d_model {}, {} experts top-{}: {:.0f} MiB sent a rank\n",
      scenario_.routing, scenario_.num_tokens, scenario_.width, scenario_.num_experts,
      scenario_.top_k, mib);
  const auto line = [&](const std::string& name, const std::string& rival) {
    const double own_s = median(times_.at(name));
    const double rival_s = median(times_.at(rival));
    fmt::print("  {:24} {:8.2f} ms   {:13} {:8.2f} ms   ratio {:.2f}\n", name, own_s * 1e3,
               rival.starts_with("copy") ? "memcpy" : "MPI_Alltoallv", rival_s * 1e3,
               rival_s / own_s);
  };
  for (const std::string direction : {"dispatch", "combine"}) {
    for (const char* operation : {"gather_rows", "move_segments", "combine_rows"}) {
      const std::string name = direction + " " + operation;
      if (times_.contains(name)) line(name, "copy for " + name);
    }
    line(direction + " all_to_all", direction + " MPI_Alltoallv");
  }
}

void run(comm::World& world, int repetitions) {
  for (const Scenario& scenario : kScenarios) {
    ExchangeBench bench(scenario, world);
    if (!bench.is_right()) fail("the exchange does not bring back what it was given");
    bench.repeat();
    bench.forget();
    for (int i = 0; i < repetitions; ++i)
      bench.repeat();
    bench.print();
  }
}

}  // namespace
}  // namespace ulmus::bench

int main(int argc, char** argv) {
  ulmus::comm::MpiSession session;
  try {
    ulmus::comm::World world(session.make_transport(), {});
    ulmus::bench::run(world, argc > 1 ? std::max(1, std::atoi(argv[1])) : 15);
  } catch (const std::exception& error) {
    fmt::print(stderr, "exchange_bench: {}\n", error.what());
    session.abort(1);
  }
}
