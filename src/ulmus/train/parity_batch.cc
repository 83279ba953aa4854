#include "ulmus/train/parity_batch.h"

#include <algorithm>

#include "ulmus/base/philox.h"

namespace ulmus::train {

namespace {

/// Words of the stream of one sequence.
class Draws {
 public:
  Draws(PhiloxKey key, std::int64_t sequence) : key_(key), sequence_(sequence) {}
  std::uint32_t next() {
    const auto block = static_cast<std::uint32_t>(drawn_ / 4);
    const PhiloxCounter words = philox(key_, {static_cast<std::uint32_t>(sequence_), block, 0, 0});
    return words[static_cast<std::size_t>(drawn_++ % 4)];
  }

 private:
  PhiloxKey key_;
  std::int64_t sequence_;
  std::int64_t drawn_ = 0;
};

/// A token; a share `repeated` of them is token 0.
std::int32_t draw_token(Draws& draws, std::int64_t vocab, double repeated) {
  const auto token = static_cast<std::int32_t>(draws.next() % static_cast<std::uint32_t>(vocab));
  const bool is_repeated = repeated > 0.0 && uniform_float(draws.next()) < repeated;
  return is_repeated ? 0 : token;
}

void fill_sequence(data::HostBatch& batch, std::int64_t sequence, std::int64_t valid_length,
                   std::int64_t vocab, const ParityData& data, Draws draws) {
  const std::int64_t length = batch.sequence_length;
  const auto mean_document = static_cast<std::uint32_t>(data.mean_document);
  std::int64_t document = 0;
  for (std::int64_t i = 0; i < length; ++i) {
    const auto at = static_cast<std::size_t>(sequence * length + i);
    const bool is_valid = i < valid_length;
    if (draws.next() % mean_document == 0 || !is_valid) document = i;
    batch.tokens[at] = is_valid ? draw_token(draws, vocab, data.repeated) : 0;
    batch.document_begin[at] = static_cast<std::int32_t>(document);
    batch.valid[at] = is_valid ? 1 : 0;
    batch.targets[at] = -1;
    // The token before predicts this one, when both are of one document.
    if (is_valid && document < i) batch.targets[at - 1] = batch.tokens[at];
  }
  if (valid_length == length) {
    batch.targets[static_cast<std::size_t>((sequence + 1) * length - 1)] =
        draw_token(draws, vocab, data.repeated);
  }
}

void count(data::HostBatch& batch) {
  batch.loss_tokens =
      std::count_if(batch.targets.begin(), batch.targets.end(), [](auto t) { return t >= 0; });
  batch.valid_tokens = batch.valid_tokens_of(0, batch.num_sequences);
}

}  // namespace

data::HostBatch parity_step(const Config& config, std::int64_t step, const ParityData& data) {
  data::HostBatch batch;
  batch.sequence_length = config.data.sequence_length;
  batch.num_sequences = config.batch.tokens / batch.sequence_length;
  const auto size = static_cast<std::size_t>(batch.num_sequences * batch.sequence_length);
  batch.tokens.resize(size);
  batch.targets.resize(size);
  batch.document_begin.resize(size);
  batch.valid.resize(size);
  const PhiloxKey key =
      philox_key(config.run.seed, RandomPurpose::kTest, "parity." + std::to_string(step));
  for (std::int64_t s = 0; s < batch.num_sequences; ++s) {
    const bool is_padding = step % 2 == 1 && s > 0 && s == batch.num_sequences - 1;
    const bool ends_early = data.padded_every > 0 && s % data.padded_every == data.padded_every / 2;
    const double part = is_padding ? 1.0 : ends_early ? data.padding : 0.0;
    const auto padding =
        static_cast<std::int64_t>(part * static_cast<double>(batch.sequence_length));
    fill_sequence(batch, s, batch.sequence_length - padding, config.model.vocab, data, {key, s});
  }
  count(batch);
  return batch;
}

data::HostBatch dealt(const data::HostBatch& step, const data::Deal& deal) {
  data::HostBatch batch;
  batch.sequence_length = step.sequence_length;
  for (std::int64_t slot = 0; slot < deal.num_slots(step.num_sequences); ++slot) {
    const data::MicroBatch micro = deal.micro_batch(slot, step.num_sequences);
    batch.micro_batches.push_back(micro);
    batch.num_sequences += micro.num_sequences;
    const auto take = [&](auto& to, const auto& from) {
      const auto begin = from.begin() + micro.first_sequence * step.sequence_length;
      to.insert(to.end(), begin, begin + micro.num_sequences * step.sequence_length);
    };
    take(batch.tokens, step.tokens);
    take(batch.targets, step.targets);
    take(batch.document_begin, step.document_begin);
    take(batch.valid, step.valid);
  }
  count(batch);
  return batch;
}

}  // namespace ulmus::train
