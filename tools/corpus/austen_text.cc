// austen_text RDB OUTDIR
//
// Reads Jane Austen's six novels from the file Rdata.rdb of Debian's package r-cran-janeaustenr and
// writes them as plain text:
//
//   OUTDIR/novels/*.txt     the six novels, whole
//   OUTDIR/heldout/*.txt    the second half of Pride and Prejudice: judge the final model with it
//   OUTDIR/train/*.txt      everything else
//   OUTDIR/dev/*.txt        the second half of Persuasion: choose settings with it
//   OUTDIR/dev-train/*.txt  everything but the two second halves
//
// A novel is halved at the paragraph boundary nearest to the middle of its bytes.
//
// The file is a row of records: the uncompressed length (4 bytes, big-endian), then one zlib
// stream. Inside is R's XDR serialisation, version 3, of one vector of strings, the lines.

#include <zlib.h>

#include <array>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <iostream>
#include <map>
#include <string>
#include <string_view>

#include "ulmus/base/error.h"
#include "ulmus/base/file.h"

namespace {

using ulmus::fail_input;

constexpr std::uint32_t kLargestNovel = 1U << 24U;
constexpr std::uint32_t kSerialisationVersion = 3;
constexpr std::uint32_t kStringVector = 16;
constexpr std::uint32_t kString = 9;

struct Title {
  std::string_view first_line;
  std::string_view file_stem;
};
constexpr std::array<Title, 6> kTitles{{{"EMMA", "emma"},
                                        {"MANSFIELD PARK", "mansfield-park"},
                                        {"NORTHANGER ABBEY", "northanger-abbey"},
                                        {"Persuasion", "persuasion"},
                                        {"PRIDE AND PREJUDICE", "pride-and-prejudice"},
                                        {"SENSE AND SENSIBILITY", "sense-and-sensibility"}}};

/// Reads big-endian numbers and strings, never beyond the end.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  std::string_view take(std::size_t n) {
    if (n > bytes_.size()) fail_input("the R data end too early");
    const std::string_view taken = bytes_.substr(0, n);
    bytes_.remove_prefix(n);
    return taken;
  }

  std::uint32_t number() {
    std::uint32_t value = 0;
    for (const char byte : take(4))
      value = (value << 8U) | static_cast<unsigned char>(byte);
    return value;
  }

  std::string_view rest() const { return bytes_; }

 private:
  std::string_view bytes_;
};

/// Inflates the zlib stream at the reader's place and moves past it.
std::string inflate_record(Reader& reader) {
  const std::uint32_t size = reader.number();
  if (size > kLargestNovel) fail_input("a record of ", size, " bytes is not one of these novels");
  std::string out(size, '\0');
  std::string in(reader.rest());  // zlib wants it writable
  z_stream stream{};
  if (inflateInit(&stream) != Z_OK) ulmus::fail("zlib does not start");
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int status = inflate(&stream, Z_FINISH);
  const std::size_t consumed = in.size() - stream.avail_in;
  const bool whole = status == Z_STREAM_END && stream.avail_out == 0;
  inflateEnd(&stream);
  if (!whole) fail_input("a record does not inflate to its ", size, " bytes");
  reader.take(consumed);
  return out;
}

/// The strings of a serialised string vector, a newline after each.
std::string lines_of(std::string_view serialised) {
  Reader reader(serialised);
  if (reader.take(2) != "X\n" || reader.number() != kSerialisationVersion) {
    fail_input("a record is not R's XDR serialisation of version 3");
  }
  reader.number();               // the R that wrote it
  reader.number();               // the oldest R that reads it
  reader.take(reader.number());  // name of the encoding
  if ((reader.number() & 0xFFU) != kStringVector) fail_input("a record is no vector of strings");
  const std::uint32_t num_lines = reader.number();
  std::string text;
  for (std::uint32_t i = 0; i < num_lines; ++i) {
    if ((reader.number() & 0xFFU) != kString) fail_input("line ", i, " of a novel is no string");
    text += reader.take(reader.number());
    text += '\n';
  }
  return text;
}

std::string_view stem_of(std::string_view text) {
  const std::string_view first_line = text.substr(0, text.find('\n'));
  for (const Title& title : kTitles) {
    if (title.first_line == first_line) return title.file_stem;
  }
  fail_input("an unknown novel begins with \"", first_line.substr(0, 60), "\"");
}

std::map<std::string, std::string> read_novels(const std::filesystem::path& path) {
  const std::string file = ulmus::read_file(path);
  std::map<std::string, std::string> novels;
  for (Reader reader(file); !reader.rest().empty();) {
    std::string text = lines_of(inflate_record(reader));
    const std::string stem(stem_of(text));
    novels[stem] = std::move(text);
  }
  if (novels.size() != kTitles.size()) {
    fail_input(path.string(), " holds ", novels.size(), " novels, not ", kTitles.size());
  }
  return novels;
}

/// First byte of the paragraph that begins nearest to the middle.
std::size_t middle_of(std::string_view text) {
  const std::size_t half = text.size() / 2;
  const std::size_t before = text.rfind("\n\n", half);
  const std::size_t after = text.find("\n\n", half);
  if (before == std::string_view::npos || after == std::string_view::npos) {
    fail_input("a novel has no paragraph boundary around its middle");
  }
  const std::size_t nearest = half - before < after - half ? before : after;
  return text.find_first_not_of('\n', nearest);
}

void write(const std::filesystem::path& folder, const std::string& stem, std::string_view text) {
  std::filesystem::create_directories(folder);
  ulmus::write_file_atomically(folder / (stem + ".txt"), text);
}

void write_splits(const std::map<std::string, std::string>& novels,
                  const std::filesystem::path& out) {
  for (const auto& [stem, novel] : novels) {
    const std::string_view text = novel;
    const std::size_t middle = middle_of(text);
    const bool held_out = stem == "pride-and-prejudice";
    const bool dev = stem == "persuasion";
    if (held_out) write(out / "heldout", stem, text.substr(middle));
    if (dev) write(out / "dev", stem, text.substr(middle));
    write(out / "train", stem, held_out ? text.substr(0, middle) : text);
    write(out / "dev-train", stem, held_out || dev ? text.substr(0, middle) : text);
    write(out / "novels", stem, text);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: austen_text RDB OUTDIR\n";
    return static_cast<int>(ulmus::ExitCode::kUsage);
  }
  try {
    write_splits(read_novels(argv[1]), argv[2]);
  } catch (const ulmus::Error& error) {
    std::cerr << "austen_text: " << error.what() << "\n";
    return static_cast<int>(error.exit_code());
  } catch (const std::exception& error) {
    std::cerr << "austen_text: " << error.what() << "\n";
    return static_cast<int>(ulmus::ExitCode::kFailed);
  }
  return 0;
}
