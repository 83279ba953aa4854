// The program as a whole: its commands, exit statuses and where it prints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/cli/program.h"
#include "ulmus/base/file.h"

namespace ulmus::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

TEST(Main, VersionNamesBackEndsAndBlas) {
  const Finished run = run_program({"--version"});
  EXPECT_EQ(run.status, 0);
  EXPECT_THAT(run.out, AllOf(StartsWith("ulmus "), HasSubstr("cpu"), HasSubstr("OpenBLAS"),
                             HasSubstr("MPI")));
  EXPECT_THAT(run.err, IsEmpty());
}

TEST(Main, OperationsAreListed) {
  const Finished run = run_program({"--ops"});
  EXPECT_EQ(run.status, 0);
  for (const char* name : {"matmul", "router_select", "grouped_matmul", "adamw", "keep_counts"}) {
    EXPECT_THAT(run.out, HasSubstr(name));
  }
}

TEST(Main, HelpShowsWhatIsBuiltOnly) {
  const Finished run = run_program({"--help"});
  EXPECT_EQ(run.status, 0);
  for (const char* name : {"train", "eval", "generate", "data", "checkpoint", "parity", "bench"}) {
    EXPECT_THAT(run.out, HasSubstr(name));
  }
  for (const char* name : {"serve", "doctor"}) {
    EXPECT_THAT(run.out, Not(HasSubstr(name)));
  }
  EXPECT_THAT(run_program({"checkpoint", "--help"}).out, Not(HasSubstr("import-hf")));
}

TEST(Main, WhatIsNotBuiltIsRefusedByName) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"plan", "x.toml", "--ranks", "4"},
        {"serve", "--port", "1"},
        {"doctor"}}) {
    const Finished run = run_program(arguments);
    EXPECT_EQ(run.status, 2) << arguments[0];
    EXPECT_THAT(run.err, HasSubstr("ulmus " + arguments[0] + " is not built yet"));
    EXPECT_THAT(run.out, IsEmpty());
  }
  const Finished nested = run_program({"checkpoint", "export-hf", "--to", "x"});
  EXPECT_EQ(nested.status, 2);
  EXPECT_THAT(nested.err, HasSubstr("ulmus checkpoint export-hf is not built yet"));
  const Finished bench = run_program({"bench", "grouped"});
  EXPECT_EQ(bench.status, 2);
  EXPECT_THAT(bench.err, HasSubstr("ulmus bench grouped is not built yet; built: ceiling"));
}

TEST(Main, WrongUsageIsStatusTwo) {
  EXPECT_EQ(run_program({}).status, 2);
  EXPECT_EQ(run_program({"trian"}).status, 2);
  EXPECT_EQ(run_program({"train"}).status, 2);
  EXPECT_EQ(run_program({"train", "--bogus"}).status, 2);
  EXPECT_EQ(run_program({"data"}).status, 2);
  EXPECT_EQ(run_program({"bench"}).status, 2);
  EXPECT_EQ(run_program({"generate", "--checkpoint", "x"}).status, 2);
  EXPECT_EQ(
      run_program({"generate", "--checkpoint", "x", "--prompt", "y", "--tokens", "-3"}).status, 2);
  EXPECT_EQ(
      run_program({"generate", "--checkpoint", "x", "--prompt", "y", "--top-p", "nan"}).status, 2);
}

TEST(Main, JsonGoesToAFileAndLeavesADeviceAlone) {
  TestFolder folder;
  const std::string text = folder.write("text.txt", "some text, some more text");
  const auto train = [&](const std::string& json) {
    return run_program({"data", "tokenizer-train", text, "--vocab", "260", "--overwrite",
                        "--output", folder.path("t.json"), "--threads", "1", "--json", json});
  };
  EXPECT_EQ(train(folder.path("facts.json")).status, 0);
  EXPECT_THAT(read_file(folder.path("facts.json")), HasSubstr("\"vocab_size\": 260"));
  EXPECT_EQ(train("/dev/null").status, 0);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  EXPECT_EQ(train(folder.path("none/facts.json")).status, 2);
  EXPECT_EQ(train("/dev/full").status, 1);
}

TEST(Main, BenchListsAndSuggests) {
  EXPECT_THAT(run_program({"bench", "--list"}).out, HasSubstr("ceiling"));
  const Finished run = run_program({"bench", "cieling"});
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("did you mean ceiling?"));
}

}  // namespace
}  // namespace ulmus::test
