#include "ulmus/checkpoint/show.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/checkpoint/small_model.h"
#include "tests/checkpoint/temp_folder.h"
#include "ulmus/base/error.h"

namespace ulmus::checkpoint {
namespace {

namespace fs = std::filesystem;
using test::save_small;
using test::SmallModel;

TEST(Show, TellsTheFacts) {
  const test::TempFolder folder;
  SmallModel model(1);
  const fs::path path = save_small(model, folder.path(), 100);
  const ShowReport report = show(path);
  EXPECT_EQ(report.manifest.step, 100);
  EXPECT_EQ(report.manifest.tokens, 100'000);
  EXPECT_EQ(report.info.at("host"), "here");
  ASSERT_EQ(report.files.size(), 4);
  EXPECT_EQ(report.files[2].name, "layer-00.optimizer.safetensors");
  EXPECT_EQ(report.files[2].tensors, 2);
  EXPECT_EQ(report.files[2].bytes,
            static_cast<std::int64_t>(fs::file_size(path / report.files[2].name)));
  EXPECT_EQ(report.elements, 37 * 16 + 3 * 15'000 + 1 + 4097);
  fs::remove(path / "info.json");
  EXPECT_TRUE(show(path).info.empty());
  EXPECT_THROW(show(folder.path() / "none"), InputError);
}

}  // namespace
}  // namespace ulmus::checkpoint
