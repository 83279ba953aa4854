#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "ulmus/base/file.h"
#include "ulmus/train/config_file.h"
#include "ulmus/train/config_keys.h"

namespace ulmus::train {
namespace {

std::multiset<std::string> table_rows(const std::string& text) {
  std::multiset<std::string> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("| `")) rows.insert(line);
  }
  return rows;
}

TEST(ConfigReference, TheDocumentHasTheParsersKeys) {
  const std::string document = read_file(ULMUS_TEST_DATA "/../../docs/configuration.md");
  const std::multiset<std::string> documented = table_rows(document);
  const std::multiset<std::string> known = table_rows(key_reference());
  for (const std::string& row : known) {
    EXPECT_TRUE(documented.contains(row)) << "docs/configuration.md lacks: " << row;
  }
  for (const std::string& row : documented) {
    EXPECT_TRUE(known.contains(row)) << "the parser does not know: " << row;
  }
  EXPECT_EQ(known.size(), config_keys().size());
}

TEST(ConfigReference, EveryNameOfTheInterfaceIsAKey) {
  const std::vector<std::string> promised = {"run.dir",
                                             "run.name",
                                             "run.seed",
                                             "run.log_level",
                                             "run.log_every",
                                             "run.max_steps",
                                             "run.max_tokens",
                                             "run.timeout_s",
                                             "run.trace",
                                             "model.family",
                                             "model.d_model",
                                             "model.layers",
                                             "model.heads",
                                             "model.kv_heads",
                                             "model.head_dim",
                                             "model.vocab",
                                             "model.norm",
                                             "model.norm_eps",
                                             "model.qk_norm",
                                             "model.rope.theta",
                                             "model.window.size",
                                             "model.dense_layers",
                                             "model.ffn_hidden",
                                             "model.tied",
                                             "model.embed_scale",
                                             "model.embed_norm",
                                             "model.init_std",
                                             "moe.experts",
                                             "moe.top_k",
                                             "moe.expert_hidden",
                                             "moe.shared_hidden",
                                             "moe.shared_gate",
                                             "moe.gate",
                                             "moe.groups",
                                             "moe.group_top_k",
                                             "moe.weights",
                                             "moe.scale",
                                             "moe.balance_loss",
                                             "moe.balance_scope",
                                             "moe.z_loss",
                                             "moe.bias_update",
                                             "moe.routing",
                                             "moe.overflow",
                                             "moe.capacity",
                                             "moe.drop_order",
                                             "data.tokenizer",
                                             "data.train",
                                             "data.eval",
                                             "data.sequence_length",
                                             "data.packing",
                                             "data.mix",
                                             "optim.lr",
                                             "optim.schedule",
                                             "optim.warmup",
                                             "optim.betas",
                                             "optim.eps",
                                             "optim.weight_decay",
                                             "optim.clip",
                                             "optim.skip_sigma",
                                             "optim.head_z_loss",
                                             "optim.groups",
                                             "optim.phases",
                                             "batch.tokens",
                                             "batch.micro_sequences",
                                             "parallel.pipeline",
                                             "parallel.stages_per_rank",
                                             "parallel.schedule",
                                             "parallel.expert",
                                             "parallel.context",
                                             "parallel.params",
                                             "parallel.reshard",
                                             "parallel.prefetch",
                                             "parallel.split",
                                             "parallel.activation_cap",
                                             "parallel.exchange",
                                             "precision.compute",
                                             "precision.exchange",
                                             "precision.saved_activations",
                                             "precision.scale_rule",
                                             "memory.recompute",
                                             "memory.budget_gib",
                                             "memory.head_chunk",
                                             "checkpoint.every",
                                             "checkpoint.keep",
                                             "checkpoint.async",
                                             "checkpoint.load",
                                             "checkpoint.load_optimizer",
                                             "eval.every",
                                             "eval.tokens",
                                             "device.kind",
                                             "device.threads"};
  std::set<std::string> known;
  for (const ConfigKey& key : config_keys()) {
    known.insert(key.name);
  }
  EXPECT_EQ(known.size(), config_keys().size()) << "a key is listed twice";
  for (const std::string& name : promised) {
    EXPECT_TRUE(known.contains(name)) << name;
  }
}

}  // namespace
}  // namespace ulmus::train
