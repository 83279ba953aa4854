#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ulmus/device/arena.h"
#include "ulmus/model/language_model.h"
#include "ulmus/parallel/local_exchange.h"
#include "ulmus/train/config.h"

namespace ulmus::train {

/// A model that continues one sequence token by token, keys and values cached.
class Decoder {
 public:
  /// Room for `max_length` tokens in all, at most `max_call` of them in one append. InputError when
  /// that takes more memory than memory.budget_gib, or than the machine has free.
  Decoder(const Config& config, std::int64_t max_call, std::int64_t max_length);
  ~Decoder();
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  /// load_for_evaluation (checkpointing.h) of the weights.
  std::string load(const std::filesystem::path& checkpoint, std::uint64_t tokenizer);
  /// Appends tokens to the sequence; logits of the token after them, [V].
  std::vector<float>& append(std::span<const std::int32_t> tokens);

 private:
  class Parts;
  Config config_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Parts> parts_;
  std::int64_t length_ = 0;
  std::vector<float> logits_;
};

/// Draws a token: softmax(logits / temperature) cut to the likeliest tokens whose probabilities
/// reach `top_p` together; equal ones by ascending id. `uniform` in [0, 1) chooses.
/// temperature 0: the likeliest.
std::int32_t sample_token(std::vector<float>& logits, double temperature, double top_p,
                          double uniform);

}  // namespace ulmus::train
