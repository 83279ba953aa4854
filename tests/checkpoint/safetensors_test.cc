#include "ulmus/checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/checkpoint/temp_folder.h"
#include "ulmus/base/error.h"
#include "ulmus/base/philox.h"

namespace ulmus::checkpoint {
namespace {

using test::message_of;
using test::slurp;
using test::spill;
using ::testing::HasSubstr;

std::string with_length(std::uint64_t length, const std::string& rest) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + rest;
}

std::string file_of(const std::string& header, const std::string& data) {
  return with_length(header.size(), header + data);
}

std::string data_of(const SafetensorsFile& file, std::string_view name) {
  const FileTensor* tensor = file.find(name);
  EXPECT_NE(tensor, nullptr) << name;
  std::string bytes(static_cast<std::size_t>(tensor->bytes), '\0');
  file.read(*tensor, 0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

class Safetensors : public ::testing::Test {
 protected:
  /// The refusal of a file with these bytes; empty when it is read.
  std::string refusal(const std::string& bytes) {
    spill(path(), bytes);
    return message_of<InputError>([&] { SafetensorsFile file(path()); });
  }
  std::filesystem::path path() const { return folder_.path() / "x.safetensors"; }

 private:
  test::TempFolder folder_;
};

TEST_F(Safetensors, WritesTheBytesOfTheFormat) {
  const float values[] = {1.0F, -2.0F};
  SafetensorsWriter writer(path(), {{"b", FileDType::kF32, {2, 1}}, {"a", FileDType::kU8, {3}}},
                           {{"format", "pt"}}, RangeWriter::Open::kCreate);
  writer.write(8, test::as_bytes("xyz"));
  writer.write(0, std::as_bytes(std::span(values)));
  writer.sync_and_close();

  std::string header =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
      R"("a":{"dtype":"U8","shape":[3],"data_offsets":[8,11]}})";
  while (header.size() % 8 != 0)
    header += ' ';
  std::string data(8, '\0');
  std::memcpy(data.data(), values, 8);
  EXPECT_EQ(slurp(path()), file_of(header, data + "xyz"));

  const SafetensorsFile file(path());
  ASSERT_EQ(file.tensors().size(), 2);
  EXPECT_EQ(file.tensors()[0], (FileTensor{"b", FileDType::kF32, {2, 1}, 0, 8}));
  EXPECT_EQ(data_of(file, "b"), data);
  EXPECT_EQ(data_of(file, "a"), "xyz");
  EXPECT_EQ(file.find("c"), nullptr);
}

TEST_F(Safetensors, ReadsEveryTypeAndForeignHeaders) {
  // No padding, spaces, other key order, tensors not in the order of their data.
  const std::string header = R"({ "z":{"shape":[],"data_offsets":[2,10],"dtype":"I64"},)"
                             R"("n":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]},)"
                             R"("e":{"dtype":"F16","shape":[0,7],"data_offsets":[10,10]} } )";
  spill(path(), file_of(header, "0123456789"));
  const SafetensorsFile file(path());
  ASSERT_EQ(file.tensors().size(), 3);
  EXPECT_EQ(file.tensors()[0].name, "n");
  EXPECT_EQ(file.tensors()[1].name, "z");
  EXPECT_EQ(data_of(file, "z"), "23456789");
  EXPECT_EQ(data_of(file, "e"), "");
  for (const char* name : {"F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U64", "U32",
                           "U16", "U8", "BOOL"}) {
    const auto dtype = file_dtype_named(name);
    ASSERT_TRUE(dtype.has_value()) << name;
    EXPECT_EQ(name_of(*dtype), name);
    EXPECT_GT(size_of(*dtype), 0);
  }
}

TEST_F(Safetensors, RefusesAbsurdLengths) {
  EXPECT_THAT(refusal(""), HasSubstr("too few"));
  EXPECT_THAT(refusal("1234567"), HasSubstr("too few"));
  EXPECT_THAT(refusal(with_length(UINT64_MAX, "{}")), HasSubstr("header length 18446744073709551"));
  EXPECT_THAT(refusal(with_length(100'000'001, "{}")), HasSubstr("header length 100000001"));
  EXPECT_THAT(refusal(with_length(3, "{}")), HasSubstr("header length 3 in a file of 10 bytes"));
  EXPECT_THAT(refusal(with_length(0, "{}")), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal(with_length(2, "[]")), HasSubstr("not a JSON object"));
  EXPECT_EQ(refusal(with_length(2, "{}")), "");
}

TEST_F(Safetensors, RefusesTensorsThatDoNotFit) {
  const auto one = [](const std::string& entry) { return "{\"t\":{" + entry + "}}"; };
  const struct {
    std::string header;
    const char* message;
  } cases[] = {
      {one(R"("dtype":"F32","shape":[2],"data_offsets":[0,12])"), "need 8 bytes"},
      {one(R"("dtype":"F32","shape":[4],"data_offsets":[0,16])"), "outside the file's data"},
      {one(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"), "run backwards"},
      {one(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])"), "after the last tensor"},
      {one(R"("dtype":"F32","shape":[2],"data_offsets":[4,12])"), "belong to no tensor"},
      {one(R"("dtype":"F33","shape":[3],"data_offsets":[0,12])"), "dtype \"F33\""},
      {one(R"("dtype":"F32","shape":[-3],"data_offsets":[0,12])"), "whole number"},
      {one(R"("dtype":"F32","shape":[3.0],"data_offsets":[0,12])"), "whole number"},
      {one(R"("dtype":"F32","shape":3,"data_offsets":[0,12])"), "\"shape\" must be an array"},
      {one(R"("dtype":"F32","shape":[3],"data_offsets":[0])"), "two numbers"},
      {one(R"("dtype":"F32","shape":[3],"data_offsets":[0,12,13])"), "two numbers"},
      {one(R"("dtype":"F32","shape":[3])"), "\"data_offsets\" is missing"},
      {one(R"("dtype":"F32","shape":[3],"data_offsets":[0,12],"more":1)"), "unknown key"},
      {one(R"("dtype":"F32","shape":[9223372036854775807,2],"data_offsets":[0,12])"), "too many"},
      {one(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])"), "too many"},
      {one(R"("dtype":"U8","shape":[9223372036854775807],)"
           R"("data_offsets":[0,9223372036854775807])"),
       "outside the file's data"},
      {one(R"("dtype":"U8","shape":[0],)"
           R"("data_offsets":[9223372036854775807,9223372036854775807])"),
       "outside the file's data"},
      {R"({"t":7})", "not an object"},
      {R"({"":{"dtype":"U8","shape":[12],"data_offsets":[0,12]}})", "needs a name"},
      {R"({"__metadata__":[]})", "__metadata__"},
      {R"({"__metadata__":{"a":1}})", "must be a string"},
      {R"({"t":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},)"
       R"("u":{"dtype":"U8","shape":[8],"data_offsets":[4,12]}})",
       "\"u\": overlaps"},
      {R"({"t":{"dtype":"U8","shape":[12],"data_offsets":[0,12]},)"
       R"("t":{"dtype":"U8","shape":[12],"data_offsets":[0,12]}})",
       "\"t\" is given twice"},
      {R"({"t":)", "not valid JSON"},
  };
  for (const auto& [header, message] : cases) {
    EXPECT_THAT(refusal(file_of(header, std::string(12, 'd'))), HasSubstr(message)) << header;
  }
}

TEST_F(Safetensors, AnyDamageIsRefusedOrReadInsideTheFile) {
  SafetensorsWriter writer(path(), {{"a.b", FileDType::kF32, {2, 3}}, {"c", FileDType::kU8, {5}}},
                           {{"k", "v"}}, RangeWriter::Open::kCreate);
  writer.write(0, test::as_bytes(std::string(29, 'd')));
  writer.sync_and_close();
  const std::string good = slurp(path());
  const PhiloxKey key = philox_key(7, RandomPurpose::kTest, "damage");
  int refused = 0;
  for (std::uint32_t i = 0; i < 3000; ++i) {
    const PhiloxCounter draw = philox(key, {i, 0, 0, 0});
    std::string bytes = good;
    bytes[draw[0] % bytes.size()] = static_cast<char>(draw[1]);
    if (draw[2] % 4 == 0) bytes.resize(draw[3] % (bytes.size() + 20), 'x');
    spill(path(), bytes);
    refused += message_of<InputError>([&] {
                 const SafetensorsFile file(path());
                 std::size_t sum = file.header().size();
                 for (const FileTensor& tensor : file.tensors())
                   sum += data_of(file, tensor.name).size();
                 EXPECT_EQ(sum, bytes.size());
               }).empty()
                   ? 0
                   : 1;
  }
  EXPECT_GT(refused, 1000);
}

TEST_F(Safetensors, ReadsParts) {
  spill(path(), file_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[2,6]},)"
                        R"("b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
                        "BBabcd"));
  const SafetensorsFile file(path());
  std::string two(2, '\0');
  const auto read = [&](std::int64_t begin) {
    file.read(*file.find("a"), begin, std::as_writable_bytes(std::span(two)));
    return two;
  };
  EXPECT_EQ(read(1), "bc");
  EXPECT_EQ(read(2), "cd");
  EXPECT_THROW(read(3), Error);
  EXPECT_THROW(read(-1), Error);
}

/// With the file mapped, this would end the process.
TEST_F(Safetensors, AFileCutShortAfterItWasOpenedIsNamed) {
  const std::string bytes = file_of(
      R"({"a":{"dtype":"U8","shape":[8192],"data_offsets":[0,8192]}})", std::string(8192, 'd'));
  spill(path(), bytes);
  const SafetensorsFile file(path());
  std::filesystem::resize_file(path(), bytes.size() - 5000);
  EXPECT_THAT(message_of<InputError>([&] { data_of(file, "a"); }),
              HasSubstr(path().string() + ": ends at byte "));
}

TEST_F(Safetensors, WriterHoldsItsPromise) {
  constexpr auto kCreate = RangeWriter::Open::kCreate;
  SafetensorsWriter writer(path(), {{"a", FileDType::kU8, {3}}}, {}, kCreate);
  EXPECT_THROW(writer.write(0, test::as_bytes("abcd")), Error);
  EXPECT_THROW(writer.write(2, test::as_bytes("ab")), Error);
  EXPECT_THROW(writer.write(-1, test::as_bytes("a")), Error);
  const auto refused = [&](const std::vector<FileTensor>& tensors) {
    EXPECT_THROW(SafetensorsWriter(path(), tensors, {}, kCreate), Error);
  };
  refused({{"a", FileDType::kU8, {1}}, {"a", FileDType::kU8, {1}}});
  refused({{"__metadata__", FileDType::kU8, {1}}});
}

TEST_F(Safetensors, SeveralWritersFillOneFile) {
  const std::vector<FileTensor> tensors = {{"a", FileDType::kU8, {3}}, {"b", FileDType::kU8, {2}}};
  SafetensorsWriter first(path(), tensors, {}, RangeWriter::Open::kCreate);
  SafetensorsWriter second(path(), tensors, {}, RangeWriter::Open::kExisting);
  second.write(2, test::as_bytes("CDE"));
  first.write(0, test::as_bytes("AB"));
  first.sync_and_close();
  second.sync_and_close();
  const SafetensorsFile file(path());
  EXPECT_EQ(data_of(file, "b"), "DE");
  EXPECT_TRUE(slurp(path()).ends_with("ABCDE"));
  std::filesystem::remove(path());
  EXPECT_THROW(SafetensorsWriter(path(), tensors, {}, RangeWriter::Open::kExisting), Error);
}

}  // namespace
}  // namespace ulmus::checkpoint
