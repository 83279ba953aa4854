#include "ulmus/train/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "ulmus/base/file.h"
#include "ulmus/nn/moe/router.h"

namespace ulmus::train {

namespace {

using Json = nlohmann::ordered_json;

std::int64_t sum_of(const std::vector<std::int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

/// x / sum, all zero when the sum is.
std::vector<double> fractions(const std::vector<std::int64_t>& counts) {
  const auto sum = static_cast<double>(sum_of(counts));
  std::vector<double> f;
  f.reserve(counts.size());
  for (const std::int64_t count : counts) {
    f.push_back(sum > 0.0 ? static_cast<double>(count) / sum : 0.0);
  }
  return f;
}

double balance_of(const model::StepRecord::Host& record, std::size_t moe_layer,
                  const StepFacts& facts, const model::ModelConfig& config) {
  if (config.moe.balance_scope != nn::BalanceScope::kStep) return record.balance[moe_layer];
  return exact_step_balance(record.counts[moe_layer], record.score_sums[moe_layer],
                            facts.routed_tokens);
}

void add_layer(Json& line, const StepFacts& facts, const model::StepRecord::Host& record,
               const model::ModelConfig& config, std::size_t moe_layer) {
  const std::string prefix =
      fmt::format("moe/layer_{:02}/", config.dense_layers + static_cast<int>(moe_layer));
  const std::vector<std::int64_t>& counts = record.counts[moe_layer];
  std::vector<double> p = record.score_sums[moe_layer];
  for (double& score : p)
    score /= facts.routed_tokens;
  const LoadFacts load = load_facts(counts);
  line[prefix + "load"] = counts;
  line[prefix + "f"] = fractions(counts);
  line[prefix + "p"] = p;
  line[prefix + "entropy_deficit"] = load.entropy_deficit;
  line[prefix + "balance"] = balance_of(record, moe_layer, facts, config);
  line[prefix + "max_over_mean"] = load.max_over_mean;
}

void add_moe(Json& line, const StepFacts& facts, const model::StepRecord::Host& record,
             const model::ModelConfig& config) {
  std::int64_t requested = 0;
  for (const auto& counts : record.counts)
    requested += sum_of(counts);
  line["moe/max_over_mean"] = worst_max_over_mean(record);
  line["moe/requested"] = requested;
  // The exchanges that there are have a row for every route: they neither drop nor replay.
  line["moe/kept"] = requested;
  line["moe/dropped"] = 0;
  line["moe/replays"] = 0;
  for (std::size_t layer = 0; layer < record.counts.size(); ++layer) {
    add_layer(line, facts, record, config, layer);
  }
}

/// Whether a line of a metrics file is of the steps until `step`: one that a crash cut off, or that
/// is no record of a step, is not, and a later step's will be written again.
bool is_kept(const nlohmann::json& line, std::int64_t step) {
  const auto found = line.is_object() ? line.find("step") : line.end();
  return found != line.end() && found->is_number_integer() && *found <= step;
}

}  // namespace

LoadFacts load_facts(const std::vector<std::int64_t>& counts) {
  const std::int64_t sum = sum_of(counts);
  if (sum == 0) return {};
  const std::int64_t largest = *std::max_element(counts.begin(), counts.end());
  const auto num_experts = static_cast<double>(counts.size());
  double entropy = 0.0;
  for (const double f : fractions(counts))
    entropy -= f > 0.0 ? f * std::log(f) : 0.0;
  return {.max_over_mean = static_cast<double>(largest) * num_experts / static_cast<double>(sum),
          .entropy_deficit = counts.size() > 1 ? 1.0 - entropy / std::log(num_experts) : 0.0};
}

std::string load_picture(const std::vector<std::int64_t>& counts) {
  constexpr std::array<std::string_view, 9> kBars = {
      " ", "\u2581", "\u2582", "\u2583", "\u2584", "\u2585", "\u2586", "\u2587", "\u2588"};
  const auto sum = static_cast<double>(sum_of(counts));
  std::string picture;
  for (const std::int64_t count : counts) {
    const double of_mean =
        sum > 0.0 ? static_cast<double>(count) * static_cast<double>(counts.size()) / sum : 0.0;
    const double height = std::min(std::ceil(of_mean * 4.0), 8.0);  // the mean fills half a cell
    picture += kBars[static_cast<std::size_t>(height)];
  }
  return picture;
}

double exact_step_balance(const std::vector<std::int64_t>& counts,
                          const std::vector<double>& score_sums, double routed_tokens) {
  const std::vector<double> f = fractions(counts);
  double sum = 0.0;
  for (std::size_t e = 0; e < f.size(); ++e)
    sum += f[e] * score_sums[e] / routed_tokens;
  return static_cast<double>(counts.size()) * sum;
}

double worst_max_over_mean(const model::StepRecord::Host& record) {
  double worst = 0.0;
  for (const auto& counts : record.counts) {
    worst = std::max(worst, load_facts(counts).max_over_mean);
  }
  return worst;
}

std::string metrics_line(const StepFacts& facts, const model::StepRecord::Host& record,
                         const model::ModelConfig& config) {
  const std::size_t layers = record.counts.size();
  double balance = 0.0;
  double z = 0.0;
  for (std::size_t layer = 0; layer < layers; ++layer) {
    balance += balance_of(record, layer, facts, config) / static_cast<double>(layers);
    z += record.z_sums[layer] / facts.routed_tokens / static_cast<double>(layers);
  }
  Json line;
  line["step"] = facts.step;
  line["tokens"] = facts.tokens;
  line["loss/ce"] = record.loss_ce;
  line["loss/balance"] = balance;
  line["loss/z"] = z;
  line["loss/head_z"] = record.head_z;
  line["optim/lr"] = facts.lr;
  line["optim/grad_norm"] = record.gate_field(ops::GateField::kNorm);
  line["optim/skipped"] = record.gate_field(ops::GateField::kUpdate) == 0.0 ? 1 : 0;
  if (layers > 0) add_moe(line, facts, record, config);
  line["throughput/tokens_per_s"] = facts.tokens_per_s;
  line["throughput/useful_gflops"] = facts.useful_gflops;
  line["time/data_s"] = facts.data_s;
  line["time/exchange_s"] = facts.exchange_s;
  line["time/step_s"] = facts.step_s;
  line["memory/peak_bytes"] = facts.memory.total_bytes();
  for (const auto& [name, bytes] : facts.memory.lines())
    line[fmt::format("memory/{}_bytes", name)] = bytes;
  if (facts.eval) {
    line["eval/loss"] = facts.eval->loss;
    line["eval/bits_per_byte"] = facts.eval->bits_per_byte;
  }
  return line.dump();
}

MetricsFile::MetricsFile(const std::filesystem::path& path, std::int64_t step) : path_(path) {
  std::string kept;
  if (std::filesystem::exists(path)) {
    std::istringstream lines(read_file(path));
    for (std::string line; std::getline(lines, line);) {
      const auto parsed = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (is_kept(parsed, step)) kept += line + '\n';
    }
  }
  write_file_atomically(path, kept);
  file_.open(path, std::ios::app);
}

void MetricsFile::write(const std::string& line) {
  file_ << line << '\n' << std::flush;
  if (!file_) fail("cannot write ", path_.string());
}

}  // namespace ulmus::train
