#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ulmus/model/block.h"
#include "ulmus/model/config.h"
#include "ulmus/model/step_record.h"

namespace ulmus::model {

/// A decoder-only language model of any built family: embedding, blocks, final norm, head.
class LanguageModel {
 public:
  struct Options {
    std::uint64_t seed = 0;
    std::int64_t max_positions = 0;  ///< longest sequence
    std::int64_t head_chunk = 256;   ///< rows of logits that exist at once
    double head_z_loss = 0.0;
    nn::RouteTape* tape = nullptr;  ///< sees every route; outlives the model
  };
  /// What a forward pass leaves for the backward pass. kTraining keeps every block's; kForward
  /// reuses one block's memory for all, and cannot be followed by a backward pass.
  enum class Keep : std::uint8_t { kTraining, kForward };
  struct Activations {
    Keep keep = Keep::kTraining;
    TensorView embedded;         ///< [max N, D]
    TensorView embedded_normed;  ///< [max N, D]; empty without embed_norm
    nn::RmsNorm::Saved embed_norm;
    std::vector<Block::Saved> blocks;
    TensorView final_normed;  ///< [max N, D]
    nn::RmsNorm::Saved final_norm;
    TensorView grad[2];  ///< [max N, D] each: gradient of the residual stream
    Block::Pending pending_dense;
    Block::Pending pending_moe;
  };
  struct DecodeState {
    Activations activations;
    std::vector<nn::KeyValueCache> caches;
  };

  /// Registers all parameters. `buffers` holds tables and router state; `exchange` outlives this.
  LanguageModel(const ModelConfig& config, const Options& options, nn::TokenExchange& exchange,
                nn::ParameterSet& parameters, Arena& buffers);

  /// Fills the position tables. Once, before anything is computed.
  void upload_tables(Device& device) const;
  /// Initial weights of a part of a parameter that begins at element `first_element` of the whole
  /// tensor: a pure function of seed, name and element.
  void initialize(const nn::Parameter& parameter, TensorView part, std::int64_t first_element,
                  const ExecContext& ctx) const;

  Activations allocate_activations(Arena& arena, std::int64_t max_sequences,
                                   std::int64_t sequence_length, Keep keep) const;

  /// Adds a micro-batch's loss to the record and its gradients to the parameters.
  void forward_backward(const nn::Batch& batch, const nn::StepScale& scale,
                        Activations& activations, const StepRecord& record,
                        const ExecContext& ctx) const;
  /// Adds a micro-batch's loss to the record only.
  void forward_loss(const nn::Batch& batch, const nn::StepScale& scale, Activations& activations,
                    const StepRecord& record, const ExecContext& ctx) const;
  /// A forward pass, and the head for some of its rows: logits [n, V] overwritten with those of
  /// rows [rows_begin, rows_begin + n) of the batch.
  void forward_logits(TensorView logits, std::int64_t rows_begin, const nn::Batch& batch,
                      Activations& activations, const StepRecord& record,
                      const ExecContext& ctx) const;

  /// For a sequence of up to `max_length` tokens, at most `max_call` of them in one decode.
  DecodeState allocate_decode(Arena& arena, std::int64_t max_call, std::int64_t max_length) const;
  /// logits [1, V] overwritten: of the last of the batch's tokens, which continue the state's
  /// sequence. Error when they are more than fit.
  void decode(TensorView logits, const nn::Batch& batch, DecodeState& state,
              const StepRecord& record, const ExecContext& ctx) const;

  const ModelConfig& config() const { return config_; }
  const std::vector<Block>& blocks() const { return blocks_; }
  int num_moe_layers() const { return config_.layers - config_.dense_layers; }
  const nn::ParameterSet& parameters() const { return parameters_; }

 private:
  ConstTensorView embed(const nn::Batch& batch, Activations& activations,
                        const ExecContext& ctx) const;
  /// Everything before the final norm.
  ConstTensorView forward(const nn::Batch& batch, const nn::StepScale& scale,
                          Activations& activations, const StepRecord& record,
                          const ExecContext& ctx) const;
  /// Runs `head` while the weights of final norm and head may be read.
  template <class Head>
  void with_head(const Head& head) const;
  ConstTensorView final_norm(ConstTensorView x, Activations& activations,
                             const ExecContext& ctx) const;
  void backward(const nn::Batch& batch, const nn::StepScale& scale, Activations& activations,
                const ExecContext& ctx) const;
  nn::RouterRecord record_of(int layer, const StepRecord& record) const;

  ModelConfig config_;
  Options options_;
  nn::ParameterSet& parameters_;
  TensorView rope_tables_[2];  ///< by LayerType
  int embedding_unit_ = 0;
  std::vector<int> block_units_;
  int head_unit_ = 0;
  nn::Weight embedding_;
  nn::RmsNorm embed_norm_;
  std::vector<Block> blocks_;
  nn::RmsNorm final_norm_;
  nn::Weight head_;
};

/// Parameters of a model by role, without building it on a device.
struct ParameterCounts {
  std::int64_t total = 0;
  std::int64_t active = 0;  ///< experts counted top_k times instead of E times
};
ParameterCounts count_parameters(const nn::ParameterSet& parameters, const ModelConfig& config);

}  // namespace ulmus::model
