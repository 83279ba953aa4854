#pragma once

#include <cstdint>

#include "ulmus/tensor/tensor_view.h"

namespace ulmus::nn {

/// One micro-batch as layers see it: N = num_sequences * sequence_length tokens on the device.
struct Batch {
  std::int64_t num_sequences = 0;
  std::int64_t sequence_length = 0;
  ConstTensorView tokens;     ///< [N] i32
  ConstTensorView targets;    ///< [N] i32, -1 where no loss is borne
  ConstTensorView first_key;  ///< [N] i32, index in the sequence where the token's document begins
  ConstTensorView positions;  ///< [N] i32, index in the sequence
  ConstTensorView valid;      ///< [N] u8, 0 for padding

  // Facts that the host knows from the data; they feed the meter and the layers' bookkeeping.
  std::int64_t valid_tokens = 0;
  std::int64_t pairs_full = 0;    ///< attended (query, key) pairs in a layer of full attention
  std::int64_t pairs_window = 0;  ///< ... and in a windowed one

  std::int64_t num_tokens() const { return num_sequences * sequence_length; }
};

/// Denominators of the step's objective (design, law 1), and where the step stands.
struct StepScale {
  double loss_tokens = 1.0;    ///< S_tok: valid loss tokens of the whole optimizer step
  double routed_tokens = 1.0;  ///< T_step: routed tokens of the whole optimizer step
  std::int64_t step = 0;
  std::int64_t first_token = 0;  ///< index of the micro-batch's token 0 in the step's order
};

}  // namespace ulmus::nn
