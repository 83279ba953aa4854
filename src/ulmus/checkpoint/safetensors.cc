#include "ulmus/checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "ulmus/base/check.h"
#include "ulmus/base/error.h"
#include "ulmus/base/strict_json.h"

namespace ulmus::checkpoint {

namespace {

using Json = nlohmann::json;

constexpr std::int64_t kLengthBytes = 8;
constexpr std::int64_t kAlignment = 8;
/// The reference implementation refuses longer headers too.
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
constexpr std::string_view kMetadataKey = "__metadata__";

struct TypeFacts {
  FileDType dtype;
  std::string_view name;
  std::int64_t bytes;
};
constexpr std::array kTypes = {
    TypeFacts{FileDType::kF64, "F64", 8},   TypeFacts{FileDType::kF32, "F32", 4},
    TypeFacts{FileDType::kF16, "F16", 2},   TypeFacts{FileDType::kBF16, "BF16", 2},
    TypeFacts{FileDType::kI64, "I64", 8},   TypeFacts{FileDType::kI32, "I32", 4},
    TypeFacts{FileDType::kI16, "I16", 2},   TypeFacts{FileDType::kI8, "I8", 1},
    TypeFacts{FileDType::kU64, "U64", 8},   TypeFacts{FileDType::kU32, "U32", 4},
    TypeFacts{FileDType::kU16, "U16", 2},   TypeFacts{FileDType::kU8, "U8", 1},
    TypeFacts{FileDType::kBool, "BOOL", 1},
};

const TypeFacts& facts_of(FileDType dtype) { return kTypes[static_cast<std::size_t>(dtype)]; }

std::vector<std::int64_t> parse_shape(const Json& array, std::string_view place) {
  std::vector<std::int64_t> shape;
  for (const Json& size : array)
    shape.push_back(count_value(size, concat(place, ": \"shape\"")));
  return shape;
}

FileTensor parse_tensor(const std::string& name, const Json& value, std::string_view file) {
  const std::string place = concat(file, ": tensor ", printable(name));
  if (name.empty()) fail_input(place, ": a tensor needs a name");
  check_keys(value, {"dtype", "shape", "data_offsets"}, place);
  FileTensor tensor;
  tensor.name = name;
  const std::string dtype = string_field(value, "dtype", place);
  const std::optional<FileDType> known = file_dtype_named(dtype);
  if (!known) fail_input(place, ": dtype ", printable(dtype), " is not known here");
  tensor.dtype = *known;
  tensor.shape = parse_shape(array_field(value, "shape", place), place);
  const Json& offsets = array_field(value, "data_offsets", place);
  if (offsets.size() != 2) fail_input(place, ": \"data_offsets\" must be two numbers");
  tensor.offset = count_value(offsets[0], concat(place, ": \"data_offsets\""));
  const std::int64_t end = count_value(offsets[1], concat(place, ": \"data_offsets\""));
  if (end < tensor.offset) {
    fail_input(place, ": \"data_offsets\" run backwards, ", tensor.offset, " to ", end);
  }
  tensor.bytes = end - tensor.offset;
  const auto numel = checked_numel(tensor.shape, size_of(tensor.dtype));
  if (!numel) fail_input(place, ": its shape has too many elements");
  if (*numel * size_of(tensor.dtype) != tensor.bytes) {
    fail_input(place, ": ", *numel, " elements of ", dtype, " need ",
               *numel * size_of(tensor.dtype), " bytes, \"data_offsets\" give ", tensor.bytes);
  }
  return tensor;
}

/// Texts by name, which nothing here reads.
void check_metadata(const Json& value, std::string_view file) {
  const std::string place = concat(file, ": ", kMetadataKey);
  if (!value.is_object()) fail_input(place, ": not an object but ", value.type_name());
  for (const auto& item : value.items())
    string_field(value, item.key(), place);
}

/// Sorted tensors must cover [0, data_bytes) exactly once.
void check_coverage(const std::vector<FileTensor>& tensors, std::int64_t data_bytes,
                    std::string_view file) {
  std::int64_t covered = 0;
  for (const FileTensor& tensor : tensors) {
    const std::string place = concat(file, ": tensor ", printable(tensor.name));
    if (tensor.bytes > data_bytes || tensor.offset > data_bytes - tensor.bytes) {
      fail_input(place, ": bytes ", tensor.offset, " to ", tensor.offset + tensor.bytes,
                 " lie outside the file's data of ", data_bytes,
                 " bytes: the file is truncated or damaged");
    }
    if (tensor.offset < covered) {
      fail_input(place, ": overlaps the tensor before it by ", covered - tensor.offset, " bytes");
    }
    if (tensor.offset > covered) {
      fail_input(place, ": ", tensor.offset - covered, " bytes before it belong to no tensor");
    }
    covered += tensor.bytes;
  }
  if (covered != data_bytes) {
    fail_input(file, ": ", data_bytes - covered, " bytes after the last tensor belong to none");
  }
}

/// Length and text of the header; their lengths are checked before memory is taken for them.
std::string read_header(const RangeReader& reader) {
  const std::string file = reader.path().string();
  if (reader.size_bytes() < kLengthBytes) {
    fail_input(file, ": ", reader.size_bytes(), " bytes are too few for a safetensors file");
  }
  std::string header(kLengthBytes, '\0');
  reader.read(0, std::as_writable_bytes(std::span(header)));
  std::uint64_t length = 0;
  std::memcpy(&length, header.data(), kLengthBytes);
  if (length > kMaxHeaderBytes) {
    fail_input(file, ": header length ", length, ", at most ", kMaxHeaderBytes,
               " bytes are allowed: not a safetensors file, or damaged");
  }
  if (static_cast<std::int64_t>(length) > reader.size_bytes() - kLengthBytes) {
    fail_input(file, ": header length ", length, " in a file of ", reader.size_bytes(),
               " bytes: the file is truncated or damaged");
  }
  header.resize(kLengthBytes + length);
  reader.read(kLengthBytes, std::as_writable_bytes(std::span(header).subspan(kLengthBytes)));
  if (length == 0 || header[kLengthBytes] != '{') {
    fail_input(file, ": the header is not a JSON object");
  }
  return header;
}

}  // namespace

std::int64_t size_of(FileDType dtype) { return facts_of(dtype).bytes; }

std::string_view name_of(FileDType dtype) { return facts_of(dtype).name; }

std::optional<FileDType> file_dtype_named(std::string_view name) {
  for (const TypeFacts& facts : kTypes) {
    if (facts.name == name) return facts.dtype;
  }
  return std::nullopt;
}

FileDType file_dtype_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return FileDType::kF32;
    case DType::kF64:
      return FileDType::kF64;
    case DType::kI32:
      return FileDType::kI32;
    case DType::kI64:
      return FileDType::kI64;
    case DType::kU8:
      return FileDType::kU8;
  }
  fail("dtype ", dtype, " has no form in a file");
}

std::optional<std::int64_t> checked_numel(std::span<const std::int64_t> shape,
                                          std::int64_t element_bytes) {
  std::int64_t bytes = element_bytes;
  for (const std::int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  }
  return bytes / element_bytes;
}

void place_one_after_another(std::vector<FileTensor>& tensors) {
  std::int64_t offset = 0;
  for (FileTensor& tensor : tensors) {
    const auto numel = checked_numel(tensor.shape, size_of(tensor.dtype));
    ULMUS_CHECK(numel.has_value(), "tensor ", tensor.name, ": too many elements");
    tensor.offset = offset;
    tensor.bytes = *numel * size_of(tensor.dtype);
    offset += tensor.bytes;
  }
}

std::string safetensors_header(std::span<const FileTensor> tensors, const FileMetadata& metadata) {
  std::string json = "{";
  std::string_view separator;
  if (!metadata.empty()) {
    json += concat(json_string(kMetadataKey), ":{");
    for (const auto& [key, text] : metadata) {
      json += concat(separator, json_string(key), ":", json_string(text));
      separator = ",";
    }
    json += "}";
  }
  std::set<std::string_view> names = {kMetadataKey};
  for (const FileTensor& tensor : tensors) {
    ULMUS_CHECK(!tensor.name.empty() && names.insert(tensor.name).second, "tensor name ",
                printable(tensor.name), " is empty, reserved or given twice");
    json += concat(json.size() > 1 ? "," : "", json_string(tensor.name), ":{\"dtype\":\"",
                   name_of(tensor.dtype), "\",\"shape\":[");
    separator = "";
    for (const std::int64_t size : tensor.shape) {
      json += concat(separator, std::to_string(size));
      separator = ",";
    }
    json += concat("],\"data_offsets\":[", std::to_string(tensor.offset), ",",
                   std::to_string(tensor.offset + tensor.bytes), "]}");
  }
  json += "}";
  json.resize((json.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  const std::uint64_t length = json.size();
  std::string header(kLengthBytes, '\0');
  std::memcpy(header.data(), &length, kLengthBytes);
  return header + json;
}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path,
                                     std::vector<FileTensor> tensors, const FileMetadata& metadata,
                                     RangeWriter::Open open)
    : path_(path), file_(path, open) {
  place_one_after_another(tensors);
  const std::string header = safetensors_header(tensors, metadata);
  data_begin_ = static_cast<std::int64_t>(header.size());
  for (const FileTensor& tensor : tensors)
    data_bytes_ += tensor.bytes;
  if (open == RangeWriter::Open::kExisting) return;
  file_.resize(data_begin_ + data_bytes_);
  file_.write(0, std::as_bytes(std::span(header)));
}

void SafetensorsWriter::write(std::int64_t offset, std::span<const std::byte> bytes) {
  const auto count = static_cast<std::int64_t>(bytes.size());
  ULMUS_CHECK(0 <= offset && offset + count <= data_bytes_, path_.string(), ": bytes ", offset,
              " to ", offset + count, " of ", data_bytes_);
  file_.write(data_begin_ + offset, bytes);
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : file_(path), header_(read_header(file_)) {
  const std::string file = path.string();
  const Json header = parse_strict_json(std::string_view(header_).substr(kLengthBytes), file);
  for (const auto& item : header.items()) {
    if (item.key() == kMetadataKey) {
      check_metadata(item.value(), file);
    } else {
      tensors_.push_back(parse_tensor(item.key(), item.value(), file));
    }
  }
  std::sort(tensors_.begin(), tensors_.end(), [](const FileTensor& a, const FileTensor& b) {
    return std::tie(a.offset, a.bytes, a.name) < std::tie(b.offset, b.bytes, b.name);
  });
  check_coverage(tensors_, file_.size_bytes() - static_cast<std::int64_t>(header_.size()), file);
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    by_name_.emplace(tensors_[i].name, i);
}

const FileTensor* SafetensorsFile::find(std::string_view name) const {
  const auto found = by_name_.find(std::string(name));
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

void SafetensorsFile::read(const FileTensor& tensor, std::int64_t begin,
                           std::span<std::byte> to) const {
  const auto count = static_cast<std::int64_t>(to.size());
  ULMUS_CHECK(0 <= begin && begin <= tensor.bytes - count, tensor.name, ": ", count,
              " bytes from byte ", begin, " of ", tensor.bytes);
  file_.read(static_cast<std::int64_t>(header_.size()) + tensor.offset + begin, to);
}

}  // namespace ulmus::checkpoint
