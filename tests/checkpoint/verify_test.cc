#include "ulmus/checkpoint/verify.h"

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

TEST(Verify, CountsWhatItLookedAt) {
  const test::TempFolder folder;
  SmallModel model(1);
  const fs::path path = save_small(model, folder.path(), 100);
  for (const fs::path& spelling : {path, path / "", folder.path() / "x" / ".." / path.filename()}) {
    fs::create_directories(folder.path() / "x");
    const VerifyReport report = verify(spelling);
    EXPECT_THAT(report.differences, ::testing::IsEmpty());
    EXPECT_EQ(report.files_checked, 6);
    EXPECT_EQ(report.tensors_checked, 7);
    std::int64_t bytes = 0;
    for (const TensorRef& tensor : model.tensors)
      bytes += tensor.view.size_bytes();
    EXPECT_EQ(report.bytes, bytes);
  }
  EXPECT_THROW(verify(folder.path() / "none"), InputError);
}

}  // namespace
}  // namespace ulmus::checkpoint
