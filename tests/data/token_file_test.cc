#include "ulmus/data/token_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/test_files.h"
#include "tests/data/test_text.h"
#include "ulmus/base/error.h"

namespace ulmus::data {
namespace {

using testing::HasSubstr;

std::vector<std::int32_t> all(const TokenFile& file) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(file.num_tokens()));
  file.read(0, ids);
  return ids;
}

void check_round_trip(int vocab_size, TokenType type) {
  TestFolder folder;
  const Documents documents{{1, 2, vocab_size - 1}, {0}, counting(5, 100)};
  const auto file = write_tokens(folder, "train", documents, vocab_size);
  EXPECT_EQ(file->type(), type);
  EXPECT_EQ(file->num_tokens(), 104);
  EXPECT_EQ(file->num_documents(), 3);
  EXPECT_EQ(file->boundaries(), Boundaries::kIndex);
  EXPECT_EQ(file->document_begin(1), 3);
  EXPECT_EQ(file->document_end(1), 4);
  EXPECT_EQ(file->text_bytes(), 312);
  EXPECT_EQ(file->tokenizer()->vocab_size, vocab_size);
  std::vector<std::int32_t> expected;
  for (const auto& document : documents) {
    expected.insert(expected.end(), document.begin(), document.end());
  }
  EXPECT_EQ(all(*file), expected);
  file->verify_hashes();
  ThreadPool pool(2);
  file->verify_ids(vocab_size, 0, file->num_tokens(), pool);
  EXPECT_THAT(input_error([&] { file->verify_ids(vocab_size - 1, 0, file->num_tokens(), pool); }),
              testing::AllOf(HasSubstr("token 2 of 104"), HasSubstr("train.tokens")));
  EXPECT_THROW(file->read(100, std::span(expected).first(5)), Error);
}

TEST(TokenFile, GivesBackWhatWasWrittenAsUint16) { check_round_trip(65536, TokenType::kUint16); }
TEST(TokenFile, GivesBackWhatWasWrittenAsUint32) { check_round_trip(65537, TokenType::kUint32); }

TEST(TokenFile, IsLittleEndianAndFlat) {
  TestFolder folder;
  write_tokens(folder, "a", {{0x0102, 0x0304}}, 4096);
  EXPECT_EQ(read_file(folder.path() / "a.tokens"), std::string_view("\x02\x01\x04\x03", 4));
}

TEST(TokenFile, FindsTheFirstIdOutsideTheVocabularyWithAnyThreads) {
  TestFolder folder;
  std::vector<std::int32_t> ids(300000, 1);
  ids[170001] = 50;
  ids[290000] = 60;
  const auto file = write_tokens(folder, "a", {ids}, 100);
  for (const int num_threads : {1, 2, 5}) {
    ThreadPool pool(num_threads);
    EXPECT_THAT(input_error([&] { file->verify_ids(50, 0, file->num_tokens(), pool); }),
                HasSubstr("token 170001 of"));
    file->verify_ids(61, 0, file->num_tokens(), pool);
  }
}

TEST(TokenFile, ReadsRawFilesOfOtherPrograms) {
  TestFolder folder;
  const auto path = folder.write("part-0.npy", std::string_view("\1\0\2\0\0\0\3\0\0\0\4\0", 12));
  EXPECT_THAT(input_error([&] { TokenFile::open(path); }), HasSubstr("uint16 or uint32"));
  const TokenFile whole = TokenFile::open(path, {.type = TokenType::kUint16});
  EXPECT_EQ(whole.num_documents(), 1);
  EXPECT_EQ(whole.boundaries(), Boundaries::kWholeFile);
  EXPECT_EQ(whole.text_bytes(), std::nullopt);
  EXPECT_THROW(whole.verify_hashes(), InputError);
  const TokenFile ends = TokenFile::open(path, {.type = TokenType::kUint16, .end_of_text_id = 0});
  EXPECT_EQ(ends.boundaries(), Boundaries::kEndOfTextIds);
  EXPECT_EQ(ends.num_documents(), 3);  // 1 2 0 | 3 0 | 4
  EXPECT_EQ(ends.document_end(0), 3);
  EXPECT_EQ(ends.document_end(2), 6);
}

TEST(TokenFile, UsesTheIndexAndNotTheEndOfTextIds) {
  TestFolder folder;
  write_tokens(folder, "a", {{5, 0, 6, 0}, {7, 0}}, 10);
  std::filesystem::remove(folder.path() / "manifest.json");
  const TokenFile file = TokenFile::open(folder.path() / "a.tokens",
                                         {.type = TokenType::kUint16, .end_of_text_id = 0});
  EXPECT_EQ(file.boundaries(), Boundaries::kIndex);
  EXPECT_EQ(file.num_documents(), 2);
}

TEST(TokenFile, RefusesOddAndEmptyAndChangedFiles) {
  TestFolder folder;
  const TokenFileOptions wide{.type = TokenType::kUint32};
  const auto odd = folder.write("odd.npy", "abcdef");
  EXPECT_THAT(input_error([&] { TokenFile::open(odd, wide); }), HasSubstr("no multiple"));
  const auto empty = folder.write("empty.npy", "");
  EXPECT_THAT(input_error([&] { TokenFile::open(empty, wide); }), HasSubstr("is empty"));
  EXPECT_THROW(TokenFile::open(folder.path() / "absent.npy", wide), InputError);

  write_tokens(folder, "a", {counting(0, 50)}, 100);
  const auto path = folder.path() / "a.tokens";
  EXPECT_THAT(input_error([&] { TokenFile::open(path, wide); }), HasSubstr("not uint32"));
  std::string bytes = read_file(path);
  bytes[60] ^= 1;
  folder.write("a.tokens", bytes);
  EXPECT_THAT(input_error([&] { TokenFile::open(path).verify_hashes(); }), HasSubstr("hash"));
  folder.write("a.tokens", bytes.substr(0, 98));
  EXPECT_THAT(input_error([&] { TokenFile::open(path); }), HasSubstr("manifest says 100"));
  folder.write("a.tokens", bytes);
  std::filesystem::remove(folder.path() / "a.index");
  EXPECT_THAT(input_error([&] { TokenFile::open(path); }), HasSubstr("a.index"));
}

TEST(TokenFile, RefusesEveryDamagedIndex) {
  TestFolder folder;
  write_tokens(folder, "a", {counting(0, 5), counting(0, 7), counting(0, 9)}, 100);
  const std::string good = read_file(folder.path() / "a.index");
  for (const bool with_manifest : {true, false}) {
    if (!with_manifest) std::filesystem::remove(folder.path() / "manifest.json");
    const auto open = [&] {
      TokenFile::open(folder.path() / "a.tokens", {.type = TokenType::kUint16});
    };
    for (std::size_t size = 0; size < good.size(); size += 3) {
      folder.write("a.index", good.substr(0, size));
      EXPECT_THROW(open(), InputError) << "cut to " << size;
    }
    for (std::size_t bit = 0; bit < good.size() * 8; bit += 7) {
      std::string bad = good;
      bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
      folder.write("a.index", bad);
      EXPECT_THROW(open(), InputError) << "bit " << bit;
    }
    folder.write("a.index", good + good);
    EXPECT_THROW(open(), InputError);
    folder.write("a.index", good);
    open();
  }
}

/// An index whose hash is right, whatever it says.
std::string index_of(const std::vector<std::uint64_t>& numbers) {
  std::string bytes = "ULMUSIDX";
  const auto put = [&](std::uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8) {
      bytes.push_back(static_cast<char>((number >> shift) & 0xFFU));
    }
  };
  for (const std::uint64_t number : numbers)
    put(number);
  put(hash_bytes(std::as_bytes(std::span(bytes))));
  return bytes;
}

TEST(TokenFile, RefusesAWholeIndexThatContradictsItself) {
  TestFolder folder;
  write_tokens(folder, "a", {counting(0, 5), counting(0, 7)}, 100);
  std::filesystem::remove(folder.path() / "manifest.json");
  const auto open = [&](const std::vector<std::uint64_t>& numbers) {
    folder.write("a.index", index_of(numbers));
    TokenFile::open(folder.path() / "a.tokens", {.type = TokenType::kUint16});
  };
  open({1, 12, 2, 5, 12});
  const std::uint64_t huge = std::uint64_t{1} << 63U;
  EXPECT_THAT(input_error([&] { open({2, 12, 2, 5, 12}); }), HasSubstr("format 2"));
  EXPECT_THAT(input_error([&] { open({1, 13, 2, 5, 13}); }), HasSubstr("for 13 tokens"));
  EXPECT_THAT(input_error([&] { open({1, 12, 2, 5, 11}); }), HasSubstr("ends at 11"));
  EXPECT_THAT(input_error([&] { open({1, 12, 3, 5, 5, 12}); }), HasSubstr("document 1 ends"));
  EXPECT_THAT(input_error([&] { open({1, 12, 2, 0, 12}); }), HasSubstr("document 0 ends"));
  EXPECT_THAT(input_error([&] { open({1, 12, 2, huge, 12}); }), HasSubstr("document 1 ends"));
  EXPECT_THAT(input_error([&] { open({1, 12, 0}); }), HasSubstr("ends at 0"));
  for (const std::uint64_t documents : {std::uint64_t{1}, std::uint64_t{3}, huge, huge + 2}) {
    EXPECT_THAT(input_error([&] { open({1, 12, documents, 5, 12}); }), HasSubstr("do not hold"));
  }
}

TEST(TokenFileWriter, ShowsNothingBeforeItIsDone) {
  TestFolder folder;
  {
    TokenFileWriter writer(folder.path(), "a", {.vocab_size = 10});
    writer.append(std::vector<std::int32_t>{1, 2});
    writer.end_document(1);
    EXPECT_FALSE(std::filesystem::exists(folder.path() / "a.tokens"));
    EXPECT_THROW(TokenFileWriter(folder.path(), "b", {.vocab_size = 10}), InputError);
  }
  for (const auto& item : std::filesystem::directory_iterator(folder.path())) {
    EXPECT_EQ(item.path().filename(), ".lock");
  }
}

TEST(TokenFileWriter, KeepsTheOtherFilesOfTheFolder) {
  TestFolder folder;
  write_tokens(folder, "b", {{1}}, 10);
  write_tokens(folder, "a", {{2, 3}}, 10);
  const Manifest manifest = Manifest::load(folder.path());
  ASSERT_EQ(manifest.files.size(), 2U);
  EXPECT_EQ(manifest.files[0].name, "a.tokens");
  EXPECT_EQ(manifest.files[1].num_tokens, 1);
  EXPECT_THAT(input_error([&] { write_tokens(folder, "a", {{2}}, 10); }), HasSubstr("exists"));
  TokenFileWriter writer(folder.path(), "a", {.fingerprint = 7, .vocab_size = 10}, Overwrite::kYes);
  writer.append(std::vector<std::int32_t>{4});
  writer.end_document(1);
  writer.finish();
  EXPECT_EQ(TokenFile::open(folder.path() / "a.tokens").num_tokens(), 1);
  EXPECT_EQ(TokenFile::open(folder.path() / "b.tokens").num_tokens(), 1);
}

TEST(TokenFileWriter, RefusesWhatCannotBe) {
  TestFolder folder;
  const TokenizerFacts facts{.vocab_size = 10};
  for (const std::string stem : {"", "../a", ".hidden", "x/y"}) {
    EXPECT_THROW(TokenFileWriter(folder.path(), stem, facts), InputError) << stem;
  }
  {
    TokenFileWriter writer(folder.path(), "a", facts);
    EXPECT_THROW(writer.append(std::vector<std::int32_t>{10}), Error);
    EXPECT_THROW(writer.append(std::vector<std::int32_t>{-1}), Error);
    EXPECT_THROW(writer.end_document(0), Error);
    EXPECT_THROW(writer.finish(), InputError);
  }
  write_tokens(folder, "a", {{1}}, 10);
  EXPECT_THAT(input_error([&] { TokenFileWriter(folder.path(), "b", {.vocab_size = 11}); }),
              HasSubstr("another tokenizer"));
  EXPECT_THROW(TokenFileWriter("/proc/nothing", "a", facts), InputError);
}

TEST(Manifest, RefusesGarbageWithoutACrash) {
  TestFolder folder;
  write_tokens(folder, "a", {counting(0, 5)}, 100);
  const std::string good = read_file(folder.path() / "manifest.json");
  EXPECT_EQ(Manifest::parse(good, "manifest").to_json(), good);
  TestRandom random("manifest damage");
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    try {
      Manifest::parse(damaged(good, random), "manifest");
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr("manifest"));
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string changed = good;
    changed.replace(changed.find(from), from.size(), to);
    return input_error([&] { Manifest::parse(changed, "manifest"); });
  };
  EXPECT_THAT(with("a.tokens", "../../etc/passwd"), HasSubstr("plain name"));
  EXPECT_THAT(with("\"tokens\": 5", "\"tokens\": 6"), HasSubstr("do not make"));
  EXPECT_THAT(with("\"tokens\": 5", "\"tokens\": 99999999999999999999"), HasSubstr("tokens"));
  EXPECT_THAT(with("\"tokens\": 5", "\"tokens\": -5"), HasSubstr("\"tokens\""));
  EXPECT_THAT(with("uint16", "int8"), HasSubstr("allowed: uint16, uint32"));
  EXPECT_THAT(with("\"dtype\"", "\"dtyp\""), HasSubstr("did you mean \"dtype\""));
  EXPECT_THAT(with("\"version\": 1", "\"version\": 2"), HasSubstr("\"version\""));
}

}  // namespace
}  // namespace ulmus::data
