#include "ulmus/train/evaluator.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "ulmus/comm/agreement.h"
#include "ulmus/data/tokenizer.h"
#include "ulmus/train/token_data.h"

namespace ulmus::train {

namespace {

data::Loader make_loader(const Config& config) {
  if (config.data.eval.empty()) fail_input("data.eval is empty: nothing to evaluate on");
  const data::Packing packing = data::parse_packing(config.data.packing, "data.packing");
  const bool is_chunk = packing == data::Packing::kChunk;
  return {{{.name = "eval", .files = open_token_files(config, "data.eval", config.data.eval)}},
          {.sequence_length = config.data.sequence_length,
           .packing = packing,
           .leftover = is_chunk ? data::Leftover::kPad : data::Leftover::kDrop,
           // Packed documents lie in the order of their lengths: the first of them are no sample.
           .order = is_chunk ? data::Order::kSequential : data::Order::kShuffled,
           .seed = 0}};
}

}  // namespace

Evaluator::Evaluator(const Config& config, ThreadPool& pool, const parallel::Ranks& ranks)
    : deal_{.micro_sequences = config.batch.micro_sequences,
            .rank = ranks.here().data,
            .ranks = ranks.layout().data()} {
  comm::Communicator& world = ranks.world().all();
  comm::agree(world, [&] { loader_ = std::make_unique<data::Loader>(make_loader(config)); });
  verify_ids(*loader_, config, pool, world);
  comm::agree(world, [&] {
    num_sequences_ = loader_->num_instances();
    if (config.eval.tokens > 0) {
      num_sequences_ = std::clamp<std::int64_t>(config.eval.tokens / config.data.sequence_length, 1,
                                                num_sequences_);
    }
    count_targets(config);
  });
  std::array<std::int64_t, 2> sums = {num_targets_, text_bytes_};
  ranks.dense().all_reduce(sums, comm::ReduceOp::kSum);
  num_targets_ = sums[0];
  text_bytes_ = sums[1];
  comm::agree(world, [&] {
    if (num_targets_ == 0) fail_input("data.eval has no token to predict");
    if (text_bytes_ == 0) fail_input("data.eval stands for no byte of text");
  });
}

template <class Use>
void Evaluator::for_slots(const Use& use) {
  const std::int64_t a_slot = deal_.micro_sequences * deal_.ranks;
  for (std::int64_t first = 0; first < num_sequences_; first += a_slot) {
    loader_->load(first, std::min(a_slot, num_sequences_ - first), deal_, batch_);
    use(first);
  }
}

/// Of this rank's part.
void Evaluator::count_targets(const Config& config) {
  const data::Tokenizer tokenizer = load_tokenizer(config.data.tokenizer, config.model);
  for_slots([&](std::int64_t) {
    num_targets_ += batch_.loss_tokens;
    for (const std::int32_t target : batch_.targets) {
      const bool is_text = target >= 0 && target != tokenizer.end_of_text_id();
      if (!is_text) continue;
      if (target >= tokenizer.vocab_size()) {
        fail_input("data.eval holds token ", target, ", but ", config.data.tokenizer.string(),
                   " has only ", tokenizer.vocab_size());
      }
      text_bytes_ += static_cast<std::int64_t>(tokenizer.token_bytes(target).size());
    }
  });
}

EvalResult Evaluator::run(Runtime& runtime) {
  runtime.clear_record();
  for_slots([&](std::int64_t first) {
    runtime.evaluate(batch_, first, static_cast<double>(num_targets_));
  });
  runtime.reduce_record();
  const double loss = runtime.read_record().loss_ce;
  return {.tokens = num_targets_,
          .text_bytes = text_bytes_,
          .loss = loss,
          .perplexity = std::exp(loss),
          .bits_per_byte = loss / std::numbers::ln2 * static_cast<double>(num_targets_) /
                           static_cast<double>(text_bytes_)};
}

}  // namespace ulmus::train
