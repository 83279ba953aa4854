#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/program.h"
#include "ulmus/base/file.h"
#include "ulmus/base/strict_json.h"

namespace ulmus::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// A checkpoint from elsewhere, whose texts would clear the terminal.
TEST(CheckpointCommand, ShowPrintsForeignTextsSafely) {
  const TestFolder folder;
  const std::string config = std::string(ULMUS_CONFIGS) + "/parity.toml";
  const Finished trained =
      run_program({"train", config, "--set", "model.layers=2", "--set", "run.max_steps=0", "--set",
                   "run.dir=" + folder.path("run")});
  ASSERT_EQ(trained.status, 0) << trained.err;
  const std::string path = folder.path("run/checkpoints/step-00000000");
  std::string text = read_file(path + "/manifest.json");
  const std::string key = "\"model.family\": \"";
  const std::size_t value = text.find(key) + key.size();
  ASSERT_GT(value, key.size());
  text.insert(value, "\\u001b[2J");
  const std::size_t hash = text.find("\"hash\": \"", text.find("\"format_version\"")) + 9;
  text.replace(hash, 16, std::string(16, '0'));
  text.replace(hash, 16, hash_text(hash_of(text)));
  write_file_atomically(path + "/manifest.json", text);
  const Finished shown = run_program({"checkpoint", "show", path, "--tensors"});
  ASSERT_EQ(shown.status, 0) << shown.err;
  EXPECT_THAT(shown.out, AllOf(HasSubstr("model.family = \"\\x1b[2J"), Not(HasSubstr("\x1b"))));
  EXPECT_THAT(shown.out, AllOf(HasSubstr("program = ulmus "), HasSubstr("host = "),
                               HasSubstr("device = cpu, ")));
}

}  // namespace
}  // namespace ulmus::test
