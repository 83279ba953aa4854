#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "ulmus/data/deal.h"
#include "ulmus/data/instances.h"
#include "ulmus/data/sampler.h"

namespace ulmus::data {

/// What one rank takes of a step's sequences, row after row: element s * sequence_length + i is
/// position i of its sequence s. The rows' meaning: InstanceRows.
struct HostBatch {
  std::int64_t num_sequences = 0;
  /// One for each slot; their sequences lie one after the other.
  std::vector<MicroBatch> micro_batches;
  std::int64_t sequence_length = 0;
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;
  std::vector<std::int32_t> document_begin;
  std::vector<std::uint8_t> valid;
  std::int64_t loss_tokens = 0;   ///< targets >= 0: S_tok of these sequences
  std::int64_t valid_tokens = 0;  ///< valid != 0: T_step of these sequences

  /// Makes room for a rank's part of up to so many sequences.
  void reserve(std::int64_t max_sequences, const Deal& deal, std::int64_t length);

  /// Of sequences [begin, end): the sum over valid tokens of the keys they attend to, positions
  /// max(document_begin, i - window + 1) to i; window 0 = no window.
  std::int64_t attended_pairs(std::int64_t begin, std::int64_t end, std::int64_t window) const;
  /// Valid tokens of sequences [begin, end).
  std::int64_t valid_tokens_of(std::int64_t begin, std::int64_t end) const;
};

/// Files that are drawn from together, as one pool of instances.
struct DataSource {
  std::string name;
  TokenFiles files;
  double weight = 1.0;  ///< share of the training order, see Mixture
};

enum class Order {
  kShuffled,    ///< Sampler: any position, epochs without end
  kSequential,  ///< position = instance, source after source, each once: for evaluation
};

struct LoaderOptions {
  std::int64_t sequence_length = 0;
  Packing packing = Packing::kChunk;
  Leftover leftover = Leftover::kDrop;
  Order order = Order::kShuffled;
  std::uint64_t seed = 0;
};

/// Gives the sequences of any stretch of the training order. Immutable; may be used from several
/// threads.
class Loader {
 public:
  /// InputError as Instances and Sampler.
  Loader(std::vector<DataSource> sources, const LoaderOptions& options);

  /// Instances of all sources: one epoch, or what evaluation reads.
  std::int64_t num_instances() const { return num_instances_; }
  std::int64_t sequence_length() const { return options_.sequence_length; }
  int num_sources() const { return static_cast<int>(instances_.size()); }
  const Instances& instances(int source) const {
    return instances_[static_cast<std::size_t>(source)];
  }
  /// Tokens of all files.
  std::int64_t num_tokens() const;
  /// TokenFile::verify_ids for tokens [begin, end) of all files, one after the other.
  void verify_ids(int vocab_size, std::int64_t begin, std::int64_t end, ThreadPool& pool) const;

  /// Which instance a position is.
  Draw draw(std::int64_t position) const;

  /// Overwrites `batch` with what `deal` gives its rank of a step of positions [first_position,
  /// first_position + num_sequences); allocates only when the batch grows. num_sequences >= 1. With
  /// kSequential the stretch must lie inside num_instances().
  void load(std::int64_t first_position, std::int64_t num_sequences, const Deal& deal,
            HostBatch& batch) const;

 private:
  LoaderOptions options_;
  std::vector<Instances> instances_;
  std::vector<Sampler> sampler_;  // one with kShuffled
  std::int64_t num_instances_ = 0;

  void fill(std::int64_t position, std::size_t at, HostBatch& batch) const;
};

/// Loads one batch ahead in a thread of its own, into two batches that are used in turns.
class Prefetcher {
 public:
  /// `loader` must outlive the prefetcher. Steps of up to `max_sequences` allocate nothing.
  Prefetcher(const Loader& loader, const Deal& deal, std::int64_t max_sequences);
  ~Prefetcher() = default;
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// Starts loading; the batch that wait() gave out before stays as it is. At most one request may
  /// be open.
  void request(std::int64_t first_position, std::int64_t num_sequences);
  bool has_request() const { return open_; }

  /// The batch of the open request, as soon as it is there. It stays valid through one further
  /// request, until that one's wait(). Rethrows what the loading threw.
  const HostBatch& wait();

 private:
  enum class State { kIdle, kRequested, kReady };
  void work(const std::stop_token& stop);

  const Loader& loader_;
  Deal deal_;
  std::array<HostBatch, 2> batches_;
  int spare_ = 0;      // the batch that the thread may write
  bool open_ = false;  // caller's side only
  std::mutex mutex_;
  std::condition_variable_any changed_;
  State state_ = State::kIdle;
  std::int64_t first_position_ = 0;
  std::int64_t num_sequences_ = 0;
  std::exception_ptr error_;
  std::jthread thread_;  // last: it starts when everything else is there and ends first
};

}  // namespace ulmus::data
