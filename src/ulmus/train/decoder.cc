#include "ulmus/train/decoder.h"

#include "ulmus/comm/thread/thread_transport.h"
#include "ulmus/train/checkpointing.h"
#include "ulmus/train/memory.h"
#include "ulmus/train/runtime.h"

namespace ulmus::train {

namespace {

/// A decoder has the machine for itself.
comm::Node own_machine() { return {.threads_of_rank = available_threads()}; }

}  // namespace

/// All of a decoder on one device; built twice: on a meta device to know its size, then for real.
class Decoder::Parts {
 public:
  Parts(const Config& config, std::int64_t max_call, std::int64_t max_length, Device& device,
        const MemoryTable& capacity)
      : device_(device),
        values_(device, MemoryClass::kParameters, capacity[MemoryClass::kParameters]),
        memory_(values_, nullptr),
        activations_(device, MemoryClass::kActivations, capacity[MemoryClass::kActivations]),
        workspace_(device, capacity[MemoryClass::kWorkspace]),
        parameters_(memory_, nn::ParameterSet::Gradients::kNone,
                    config.compute == Compute::kFp64 ? DType::kF64 : DType::kF32),
        model_(config.model, {.seed = config.run.seed, .max_positions = max_length}, exchange_,
               parameters_, values_),
        record_(activations_, model_.num_moe_layers(), config.model.moe.experts),
        state_(model_.allocate_decode(activations_, max_call, max_length)) {
    const Shape shape = {max_length};
    tokens_ = activations_.allocate("tokens", DType::kI32, shape);
    first_key_ = activations_.allocate("first_key", DType::kI32, shape);
    positions_ = activations_.allocate("positions", DType::kI32, shape);
    valid_ = activations_.allocate("valid", DType::kU8, shape);
    logits_ = activations_.allocate("logits", parameters_.dtype(), {1, config.model.vocab});
  }

  /// What never changes. Not for the one that only measures: it takes as much host memory again.
  void upload() {
    std::vector<std::int32_t> positions(static_cast<std::size_t>(positions_.numel()));
    for (std::size_t i = 0; i < positions.size(); ++i)
      positions[i] = static_cast<std::int32_t>(i);
    device_.copy_to_device(positions_, std::span<const std::int32_t>(positions));
    const std::vector<std::uint8_t> valid(positions.size(), 1);
    device_.copy_to_device(valid_, std::span<const std::uint8_t>(valid));
    model_.upload_tables(device_);
  }

  void decode(std::span<const std::int32_t> tokens, std::int64_t begin) {
    const auto n = static_cast<std::int64_t>(tokens.size());
    const std::int64_t end = begin + n;
    device_.copy_to_device(tokens_.rows(begin, end), tokens);
    model_.decode(logits_,
                  {.num_sequences = 1,
                   .sequence_length = n,
                   .tokens = tokens_.rows(begin, end),
                   .targets = tokens_.rows(begin, end),
                   .first_key = first_key_.rows(begin, end),
                   .positions = positions_.rows(begin, end),
                   .valid = valid_.rows(begin, end),
                   .valid_tokens = n},
                  state_, record_, {device_, workspace_, meter_});
  }
  void read_logits(std::vector<float>& logits) {
    logits.resize(static_cast<std::size_t>(logits_.numel()));
    if (logits_.dtype() == DType::kF32) {
      device_.read_to_host(std::span(logits), logits_);
      return;
    }
    std::vector<double> wide(logits.size());
    device_.read_to_host(std::span(wide), logits_);
    for (std::size_t i = 0; i < wide.size(); ++i)
      logits[i] = static_cast<float>(wide[i]);
  }
  MemoryTable used() const {
    MemoryTable table;
    table[MemoryClass::kParameters] = values_.used_bytes();
    table[MemoryClass::kActivations] = activations_.used_bytes();
    table[MemoryClass::kWorkspace] = workspace_.peak_bytes();
    return table;
  }
  const model::LanguageModel& language_model() const { return model_; }

 private:
  Device& device_;
  Arena values_;
  nn::ArenaMemory memory_;
  Arena activations_;
  Workspace workspace_;
  Meter meter_;
  parallel::LocalExchange exchange_;
  nn::ParameterSet parameters_;
  model::LanguageModel model_;
  model::StepRecord record_;
  model::LanguageModel::DecodeState state_;
  TensorView tokens_;
  TensorView first_key_;
  TensorView positions_;
  TensorView valid_;
  TensorView logits_;
};

Decoder::Decoder(const Config& config, std::int64_t max_call, std::int64_t max_length)
    : config_(config), device_(make_device(config, own_machine())) {
  const std::unique_ptr<Device> meta = make_meta_device(num_threads(config, own_machine()));
  Parts planned(config, max_call, max_length, *meta, Runtime::unbounded());
  planned.decode(std::vector<std::int32_t>(static_cast<std::size_t>(max_call)), 0);
  const MemoryTable memory = planned.used();
  check_budget(config, memory, 1, "fewer --tokens or a shorter --prompt help");
  parts_ = std::make_unique<Parts>(config, max_call, max_length, *device_, memory);
  parts_->upload();
}

Decoder::~Decoder() = default;

std::string Decoder::load(const std::filesystem::path& checkpoint, std::uint64_t tokenizer) {
  comm::World alone(std::move(comm::make_thread_transports(1).front()), {});
  const model::LanguageModel& model = parts_->language_model();
  return load_for_evaluation(checkpoint, config_, tokenizer, whole_refs(model), model, *device_,
                             alone.all());
}

std::vector<float>& Decoder::append(std::span<const std::int32_t> tokens) {
  parts_->decode(tokens, length_);
  length_ += static_cast<std::int64_t>(tokens.size());
  parts_->read_logits(logits_);
  return logits_;
}

}  // namespace ulmus::train
