#include "tests/train/small_run.h"

#include <unistd.h>

#include <array>
#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>

#include "ulmus/base/file.h"
#include "ulmus/base/thread_pool.h"
#include "ulmus/comm/thread/thread_transport.h"
#include "ulmus/data/bpe_trainer.h"
#include "ulmus/data/tokenize.h"
#include "ulmus/train/config_file.h"
#include "ulmus/train/layout.h"
#include "ulmus/train/measure.h"

namespace ulmus::test {

namespace {

constexpr std::size_t kTrainBytes = 40000;
constexpr std::size_t kEvalBytes = 6000;

std::filesystem::path unique_folder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "ulmus_run_XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) fail("cannot make a temporary folder");
  return pattern;
}

}  // namespace

SmallRun::SmallRun() : folder_(unique_folder()) {
  const std::string text = read_file(std::string(ULMUS_TEST_DATA) + "/austen-excerpt.txt");
  write_file_atomically(folder_ / "train.txt", text.substr(0, kTrainBytes));
  write_file_atomically(folder_ / "eval.txt", text.substr(kTrainBytes, kEvalBytes));
  ThreadPool pool(1);
  const std::array train = {folder_ / "train.txt"};
  const std::array eval = {folder_ / "eval.txt"};
  const data::Tokenizer tokenizer =
      data::train_bpe(data::count_words(data::find_inputs(train), pool), {.vocab_size = kVocab});
  tokenizer.save(folder_ / "tokenizer.json");
  data::tokenize(data::find_inputs(train), tokenizer,
                 {.folder = folder_ / "tokens", .stem = "train", .progress = {}}, pool);
  data::tokenize(data::find_inputs(eval), tokenizer,
                 {.folder = folder_ / "tokens", .stem = "eval", .progress = {}}, pool);
}

std::filesystem::path SmallRun::other_tokenizer(int vocab_size) const {
  ThreadPool pool(1);
  const std::array text = {folder_ / "eval.txt"};
  const std::filesystem::path path = folder_ / "other_tokenizer.json";
  data::train_bpe(data::count_words(data::find_inputs(text), pool), {.vocab_size = vocab_size})
      .save(path);
  return path;
}

SmallRun::~SmallRun() { std::filesystem::remove_all(folder_); }

std::string SmallRun::config_text(const std::string& name) const {
  std::ostringstream out;
  out << "[run]\ndir = \"" << (folder_ / name).string() << "\"\nseed = 3\nmax_steps = 30\n"
      << "log_every = 1\n"
      << "[model]\nfamily = \"olmoe\"\nd_model = 32\nlayers = 2\nheads = 4\nvocab = " << kVocab
      << "\n[moe]\nexperts = 8\ntop_k = 2\nexpert_hidden = 16\nbias_update = 0.001\n"
      << "[data]\ntokenizer = \"" << (folder_ / "tokenizer.json").string() << "\"\ntrain = [\""
      << (folder_ / "tokens" / "train.tokens").string() << "\"]\neval = [\""
      << (folder_ / "tokens" / "eval.tokens").string() << "\"]\nsequence_length = 32\n"
      << "[optim]\nlr = 0.003\nwarmup = 3\nskip_sigma = 12.0\n"
      << "[batch]\ntokens = 256\nmicro_sequences = 3\n"
      << "[device]\nthreads = 2\n";
  return out.str();
}

train::Config SmallRun::config(const std::string& name,
                               const std::vector<std::string>& overrides) const {
  return train::parse_config(config_text(name), "small_run", overrides);
}

OneRank::OneRank()
    : world_(std::move(comm::make_thread_transports(1).front()), {}), ranks_(world_, {}) {}

train::TrainResult train_alone(const train::Config& config, const train::StopFlag& stop,
                               train::Reporter& reporter) {
  OneRank one;
  return train::run_training(config, stop, reporter, one.world());
}

train::EvalResult evaluate_alone(const train::Config& config,
                                 const std::filesystem::path& checkpoint,
                                 train::Reporter& reporter) {
  OneRank one;
  return train::evaluate_checkpoint(config, checkpoint, reporter, one.world());
}

void QuietReporter::progress(const train::Progress& progress) {
  if (progress.step == stop_at_step) stop.signal.store(SIGTERM);
}

std::vector<std::string> metrics_without_times(const std::filesystem::path& run_dir) {
  std::vector<std::string> lines;
  std::istringstream file(read_file(run_dir / "metrics.jsonl"));
  for (std::string line; std::getline(file, line);) {
    auto json = nlohmann::ordered_json::parse(line);
    std::vector<std::string> times;
    for (const auto& item : json.items()) {
      const std::string& key = item.key();
      if (key.starts_with("time/") || key.starts_with("throughput/")) times.push_back(key);
    }
    for (const std::string& key : times)
      json.erase(key);
    lines.push_back(json.dump());
  }
  return lines;
}

std::vector<double> metric_of(const std::filesystem::path& run_dir, const std::string& key) {
  std::vector<double> values;
  std::istringstream file(read_file(run_dir / "metrics.jsonl"));
  for (std::string line; std::getline(file, line);)
    values.push_back(nlohmann::json::parse(line).at(key).get<double>());
  return values;
}

LoadedRun::LoadedRun(const train::Config& config, comm::World& world)
    : config_(config),
      ranks_(world, train::layout_of(config, world.size())),
      device_(train::make_device(config, ranks_.node())),
      runtime_(config_, train::Purpose::kTrain, *device_, ranks_,
               train::measure_memory(config, train::Purpose::kTrain, ranks_.layout(), world.rank(),
                                     train::num_threads(config, ranks_.node()))),
      checkpointing(config_, runtime_, train::identify_data(config_)) {}

void LoadedRun::save(const std::filesystem::path& folder, const train::RunPosition& position) {
  config_.run.dir = folder;
  checkpointing.save(position);
  runtime_.parameter_store().finish_weights();
}

std::map<std::string, std::string> checkpoint_bytes(const std::filesystem::path& checkpoint) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(checkpoint)) {
    const std::string name = entry.path().filename();
    if (name != "info.json") files[name] = read_file(entry.path());
  }
  return files;
}

}  // namespace ulmus::test
