#include "ulmus/data/loader.h"

#include <algorithm>

#include "ulmus/base/check.h"

namespace ulmus::data {

namespace {

std::array<HostBatch, 2> reserved_batches(std::int64_t max_sequences, const Deal& deal,
                                          std::int64_t length) {
  std::array<HostBatch, 2> batches;
  for (HostBatch& batch : batches)
    batch.reserve(max_sequences, deal, length);
  return batches;
}

}  // namespace

void HostBatch::reserve(std::int64_t max_sequences, const Deal& deal, std::int64_t length) {
  const std::int64_t slots = deal.num_slots(max_sequences);
  const std::int64_t sequences = std::min(max_sequences, slots * deal.micro_sequences);
  const auto size = static_cast<std::size_t>(sequences * length);
  micro_batches.reserve(static_cast<std::size_t>(slots));
  tokens.reserve(size);
  targets.reserve(size);
  document_begin.reserve(size);
  valid.reserve(size);
}

std::int64_t HostBatch::attended_pairs(std::int64_t begin, std::int64_t end,
                                       std::int64_t window) const {
  std::int64_t pairs = 0;
  for (std::int64_t s = begin; s < end; ++s) {
    for (std::int64_t i = 0; i < sequence_length; ++i) {
      const auto at = static_cast<std::size_t>(s * sequence_length + i);
      if (valid[at] == 0) continue;
      std::int64_t first = document_begin[at];
      if (window > 0) first = std::max(first, i - window + 1);
      pairs += i - first + 1;
    }
  }
  return pairs;
}

std::int64_t HostBatch::valid_tokens_of(std::int64_t begin, std::int64_t end) const {
  return std::count_if(valid.begin() + begin * sequence_length,
                       valid.begin() + end * sequence_length,
                       [](std::uint8_t v) { return v != 0; });
}

Loader::Loader(std::vector<DataSource> sources, const LoaderOptions& options) : options_(options) {
  std::vector<SampledSource> sampled;
  for (DataSource& source : sources) {
    instances_.emplace_back(std::move(source.files), options.sequence_length, options.packing,
                            options.leftover);
    num_instances_ += instances_.back().size();
    sampled.push_back({source.name, instances_.back().size(), source.weight});
  }
  if (instances_.empty()) fail_input("no source of data");
  if (options.order == Order::kShuffled) sampler_.emplace_back(options.seed, sampled);
}

std::int64_t Loader::num_tokens() const {
  std::int64_t tokens = 0;
  for (const Instances& instances : instances_) {
    for (const auto& file : instances.files())
      tokens += file->num_tokens();
  }
  return tokens;
}

void Loader::verify_ids(int vocab_size, std::int64_t begin, std::int64_t end,
                        ThreadPool& pool) const {
  std::int64_t first = 0;  // of a file, counted over all of them
  for (const Instances& instances : instances_) {
    for (const auto& file : instances.files()) {
      const std::int64_t tokens = file->num_tokens();
      file->verify_ids(vocab_size, std::clamp<std::int64_t>(begin - first, 0, tokens),
                       std::clamp<std::int64_t>(end - first, 0, tokens), pool);
      first += tokens;
    }
  }
}

Draw Loader::draw(std::int64_t position) const {
  if (options_.order == Order::kShuffled) return sampler_.front().at(position);
  ULMUS_CHECK(position >= 0 && position < num_instances_, "position ", position, " of ",
              num_instances_);
  for (int source = 0;; ++source) {
    const std::int64_t size = instances(source).size();
    if (position < size) return {source, position, 0};
    position -= size;
  }
}

void Loader::fill(std::int64_t position, std::size_t at, HostBatch& batch) const {
  const auto length = static_cast<std::size_t>(options_.sequence_length);
  const Draw drawn = draw(position);
  instances(drawn.source)
      .fill(drawn.index, {.tokens = std::span(batch.tokens).subspan(at, length),
                          .targets = std::span(batch.targets).subspan(at, length),
                          .document_begin = std::span(batch.document_begin).subspan(at, length),
                          .valid = std::span(batch.valid).subspan(at, length)});
}

void Loader::load(std::int64_t first_position, std::int64_t num_sequences, const Deal& deal,
                  HostBatch& batch) const {
  ULMUS_CHECK(first_position >= 0 && num_sequences >= 1, num_sequences, " sequences from position ",
              first_position);
  batch.num_sequences = 0;
  batch.micro_batches.clear();
  for (std::int64_t slot = 0; slot < deal.num_slots(num_sequences); ++slot) {
    batch.micro_batches.push_back(deal.micro_batch(slot, num_sequences));
    batch.num_sequences += batch.micro_batches.back().num_sequences;
  }
  const auto length = static_cast<std::size_t>(options_.sequence_length);
  const std::size_t size = static_cast<std::size_t>(batch.num_sequences) * length;
  batch.sequence_length = options_.sequence_length;
  batch.tokens.resize(size);
  batch.targets.resize(size);
  batch.document_begin.resize(size);
  batch.valid.resize(size);
  std::size_t at = 0;
  for (const MicroBatch& micro : batch.micro_batches) {
    for (std::int64_t s = 0; s < micro.num_sequences; ++s) {
      fill(first_position + micro.first_sequence + s, at, batch);
      at += length;
    }
  }
  batch.loss_tokens =
      std::count_if(batch.targets.begin(), batch.targets.end(), [](auto t) { return t >= 0; });
  batch.valid_tokens = batch.valid_tokens_of(0, batch.num_sequences);
}

Prefetcher::Prefetcher(const Loader& loader, const Deal& deal, std::int64_t max_sequences)
    : loader_(loader),
      deal_(deal),
      batches_(reserved_batches(max_sequences, deal, loader.sequence_length())),
      thread_([this](const std::stop_token& stop) { work(stop); }) {}

void Prefetcher::request(std::int64_t first_position, std::int64_t num_sequences) {
  ULMUS_CHECK(!open_, "a request is open already");
  open_ = true;
  {
    const std::scoped_lock lock(mutex_);
    first_position_ = first_position;
    num_sequences_ = num_sequences;
    error_ = nullptr;
    state_ = State::kRequested;
  }
  changed_.notify_all();
}

const HostBatch& Prefetcher::wait() {
  ULMUS_CHECK(open_, "no request is open");
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return state_ == State::kReady; });
  state_ = State::kIdle;
  open_ = false;
  if (error_) std::rethrow_exception(error_);
  const HostBatch& ready = batches_[static_cast<std::size_t>(spare_)];
  spare_ = 1 - spare_;
  return ready;
}

void Prefetcher::work(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return state_ == State::kRequested; })) {
    HostBatch& batch = batches_[static_cast<std::size_t>(spare_)];
    const std::int64_t first_position = first_position_;
    const std::int64_t num_sequences = num_sequences_;
    lock.unlock();
    std::exception_ptr error;
    try {
      loader_.load(first_position, num_sequences, deal_, batch);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    error_ = error;
    state_ = State::kReady;
    changed_.notify_all();
  }
}

}  // namespace ulmus::data
