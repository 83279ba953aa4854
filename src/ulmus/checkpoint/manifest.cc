#include "ulmus/checkpoint/manifest.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "ulmus/base/check.h"
#include "ulmus/base/error.h"
#include "ulmus/base/file.h"
#include "ulmus/base/strict_json.h"

namespace ulmus::checkpoint {

namespace {

using Json = nlohmann::json;

// Whole numbers go through std::to_string: unlike streams it knows no locale.

constexpr std::string_view kFileSuffix = ".safetensors";
/// Far above any real manifest; keeps a wrong file from filling the memory.
constexpr std::int64_t kMaxManifestBytes = std::int64_t{1} << 28U;

void check_length(std::int64_t bytes, std::string_view place) {
  if (bytes > kMaxManifestBytes) {
    fail_input(place, ": ", bytes, " bytes, at most ", kMaxManifestBytes);
  }
}

/// Elements between separators, one a line or all on one.
template <class Range, class Write>
std::string joined(const Range& range, std::string_view separator, Write&& write) {
  std::string out;
  for (const auto& item : range) {
    if (!out.empty()) out += separator;
    out += write(item);
  }
  return out;
}

template <class T>
std::string number_text(T value, std::string_view name) {
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(value)) {
      fail("checkpoint refused: ", name, " holds ", value, "; NaN and Inf are never saved");
    }
    return json_double(value);
  } else {
    return std::to_string(value);
  }
}

template <class T>
std::string vectors_text(const std::map<std::string, std::vector<T>>& vectors) {
  return joined(vectors, ",\n", [](const auto& entry) {
    const auto write = [&](T value) { return number_text(value, entry.first); };
    return concat(json_string(entry.first), ": [", joined(entry.second, ", ", write), "]");
  });
}

std::string tensor_text(const ManifestTensor& tensor) {
  const auto dims = tensor.shape.dims();
  return concat(
      "{\"bytes\": ", tensor.bytes, ", \"dtype\": \"", name_of(file_dtype_of(tensor.dtype)),
      "\", \"file\": ", json_string(tensor.file), ", \"hash\": \"", hash_text(tensor.hash),
      "\", \"name\": ", json_string(tensor.name), ", \"offset\": ", std::to_string(tensor.offset),
      ", \"shape\": [", joined(dims, ", ", [](std::int64_t size) { return std::to_string(size); }),
      "], \"slice_elements\": ", std::to_string(tensor.slice_elements), "}");
}

/// A block of lines between brackets; an empty one has none.
std::string block(char open, const std::string& lines, char close) {
  return lines.empty() ? concat(open, close) : concat(open, "\n", lines, "\n", close);
}

std::string text_with_hash(const Manifest& manifest, std::uint64_t hash) {
  const auto pair_text = [](const auto& entry) {
    return concat(json_string(entry.first), ": ", json_string(entry.second));
  };
  return concat(
      "{\n\"configuration\": ", block('{', joined(manifest.configuration, ",\n", pair_text), '}'),
      ",\n\"data_position\": ", std::to_string(manifest.data_position),
      ",\n\"doubles\": ", block('{', vectors_text(manifest.doubles), '}'),
      ",\n\"format_version\": ", std::to_string(manifest.format_version), ",\n\"hash\": \"",
      hash_text(hash), "\",\n\"integers\": ", block('{', vectors_text(manifest.integers), '}'),
      ",\n\"step\": ", std::to_string(manifest.step),
      ",\n\"tensors\": ", block('[', joined(manifest.tensors, ",\n", tensor_text), ']'),
      ",\n\"tokens\": ", std::to_string(manifest.tokens), "\n}\n");
}

Shape parse_shape(const Json& array, std::int64_t element_bytes, std::string_view place) {
  std::vector<std::int64_t> dims;
  for (const Json& size : array)
    dims.push_back(count_value(size, concat(place, ": \"shape\"")));
  if (dims.size() > Shape::kMaxRank) {
    fail_input(place, ": ", dims.size(), " dimensions, at most ", Shape::kMaxRank);
  }
  if (!checked_numel(dims, element_bytes)) fail_input(place, ": its shape has too many elements");
  return Shape(dims);
}

ManifestTensor parse_tensor(const Json& value, std::string_view file) {
  check_keys(value, {"bytes", "dtype", "file", "hash", "name", "offset", "shape", "slice_elements"},
             concat(file, ": tensors"));
  ManifestTensor tensor;
  tensor.name = string_field(value, "name", concat(file, ": tensors"));
  const std::string place = concat(file, ": tensor ", printable(tensor.name));
  if (tensor.name.empty()) fail_input(place, ": a tensor needs a name");
  tensor.file = string_field(value, "file", place);
  if (!is_plain_file_name(tensor.file)) {
    fail_input(place, ": file ", printable(tensor.file), " must be a plain name ending in ",
               kFileSuffix);
  }
  const std::string dtype = string_field(value, "dtype", place);
  if (dtype != "F32" && dtype != "F64") {
    fail_input(place, ": dtype ", printable(dtype), ", allowed are F32 and F64");
  }
  tensor.dtype = dtype == "F32" ? DType::kF32 : DType::kF64;
  tensor.shape = parse_shape(array_field(value, "shape", place), size_of(tensor.dtype), place);
  tensor.offset = count_field(value, "offset", place);
  tensor.bytes = count_field(value, "bytes", place);
  tensor.hash = hash_field(value, "hash", place);
  const std::int64_t numel = tensor.shape.numel();
  if (tensor.bytes != numel * size_of(tensor.dtype)) {
    fail_input(place, ": ", tensor.bytes, " bytes for ", tensor.shape, " of ", dtype);
  }
  tensor.slice_elements = count_field(value, "slice_elements", place);
  if (numel > 0 && (tensor.slice_elements == 0 || numel % tensor.slice_elements != 0)) {
    fail_input(place, ": slices of ", tensor.slice_elements, " do not divide ", tensor.shape);
  }
  return tensor;
}

/// Sorted by name, each name once, and each file's data covered without hole or overlap.
void check_tensors(const Manifest& manifest, std::string_view place) {
  std::map<std::string_view, std::int64_t> file_bytes;
  std::string_view previous;
  for (const ManifestTensor& tensor : manifest.tensors) {
    if (tensor.name == previous) {
      fail_input(place, ": tensor ", printable(tensor.name), " is listed twice");
    }
    if (tensor.name < previous) {
      fail_input(place, ": tensor ", printable(tensor.name), " is out of order");
    }
    previous = tensor.name;
    std::int64_t& end = file_bytes[tensor.file];
    if (tensor.offset != end) {
      fail_input(place, ": tensor ", printable(tensor.name), " begins at byte ", tensor.offset,
                 " of ", tensor.file, ", the tensors before it end at ", end);
    }
    if (__builtin_add_overflow(end, tensor.bytes, &end)) {
      fail_input(place, ": ", tensor.file, ": too many bytes");
    }
  }
}

void parse_value(double& out, const Json& value, std::string_view place) {
  if (!value.is_number_float()) {
    fail_input(place, ": not a number with a point or an exponent but ", value.type_name());
  }
  out = value.get<double>();
}

void parse_value(std::int64_t& out, const Json& value, std::string_view place) {
  if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<std::int64_t>() < 0)) {
    fail_input(place, ": not a whole number of 63 bits");
  }
  out = value.get<std::int64_t>();
}

template <class T>
std::map<std::string, std::vector<T>> parse_vectors(const Json& root, std::string_view key,
                                                    std::string_view file) {
  std::map<std::string, std::vector<T>> vectors;
  for (const auto& item : object_field(root, key, file).items()) {
    const std::string place = concat(file, ": \"", key, "\": ", printable(item.key()));
    if (!item.value().is_array()) fail_input(place, " must be an array");
    std::vector<T>& values = vectors[item.key()];
    for (const Json& value : item.value())
      parse_value(values.emplace_back(), value, place);
  }
  return vectors;
}

}  // namespace

bool is_plain_file_name(std::string_view name) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  return name.size() > kFileSuffix.size() && name.ends_with(kFileSuffix) && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), is_plain);
}

std::optional<std::uint64_t> kept_hash(const Manifest& manifest, std::string_view key) {
  const auto found = manifest.integers.find(std::string(key));
  if (found == manifest.integers.end() || found->second.size() != 1) return std::nullopt;
  return std::bit_cast<std::uint64_t>(found->second.front());
}

std::string shown_text(const std::string& text) {
  const auto is_safe = [](char c) { return c >= ' ' && c <= '~'; };
  return std::ranges::all_of(text, is_safe) ? text : printable(text);
}

std::string to_json(const Manifest& manifest) {
  return text_with_hash(manifest, hash_of(text_with_hash(manifest, 0)));
}

Manifest parse_manifest(std::string_view text, std::string_view place) {
  check_length(static_cast<std::int64_t>(text.size()), place);
  const Json root = parse_strict_json(text, place);
  // First of all: the keys of a newer format are not ours to judge.
  const std::int64_t version = count_field(root, "format_version", place);
  if (version != Manifest::kFormatVersion) {
    throw FormatError(concat(place, ": format_version ", version, ", this program reads ",
                             Manifest::kFormatVersion));
  }
  check_keys(root,
             {"configuration", "data_position", "doubles", "format_version", "hash", "integers",
              "step", "tensors", "tokens"},
             place);
  Manifest manifest;
  manifest.format_version = version;
  manifest.step = count_field(root, "step", place);
  manifest.tokens = count_field(root, "tokens", place);
  manifest.data_position = count_field(root, "data_position", place);
  const std::string configuration = concat(place, ": configuration");
  for (const auto& item : object_field(root, "configuration", place).items()) {
    manifest.configuration.emplace(item.key(),
                                   string_field(root["configuration"], item.key(), configuration));
  }
  for (const Json& tensor : array_field(root, "tensors", place)) {
    manifest.tensors.push_back(parse_tensor(tensor, place));
  }
  check_tensors(manifest, place);
  manifest.doubles = parse_vectors<double>(root, "doubles", place);
  manifest.integers = parse_vectors<std::int64_t>(root, "integers", place);
  hash_field(root, "hash", place);
  if (to_json(manifest) != text) {
    fail_input(place, ": its text does not agree with its own hash: damaged or edited");
  }
  return manifest;
}

Manifest read_manifest(const std::filesystem::path& path) {
  check_length(RangeReader(path).size_bytes(), path.string());  // before memory is taken for it
  return parse_manifest(read_file(path), path.string());
}

std::map<std::string, std::vector<const ManifestTensor*>> tensors_by_file(
    const Manifest& manifest) {
  std::map<std::string, std::vector<const ManifestTensor*>> files;
  for (const ManifestTensor& tensor : manifest.tensors)
    files[tensor.file].push_back(&tensor);
  return files;
}

std::vector<FileTensor> file_tensors(const std::vector<const ManifestTensor*>& tensors) {
  std::vector<FileTensor> entries;
  for (const ManifestTensor* tensor : tensors) {
    const auto dims = tensor->shape.dims();
    entries.push_back({tensor->name,
                       file_dtype_of(tensor->dtype),
                       {dims.begin(), dims.end()},
                       tensor->offset,
                       tensor->bytes});
  }
  return entries;
}

}  // namespace ulmus::checkpoint
