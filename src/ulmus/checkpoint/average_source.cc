#include "ulmus/checkpoint/average_source.h"

#include <algorithm>
#include <bit>
#include <string_view>
#include <utility>

#include "ulmus/base/error.h"
#include "ulmus/base/strict_json.h"
#include "ulmus/checkpoint/opening.h"
#include "ulmus/checkpoint/tensor_ref.h"

namespace ulmus::checkpoint {

namespace fs = std::filesystem;

namespace {

/// Differences that a message lists; the rest are counted.
constexpr std::size_t kMaxDifferences = 40;

bool is_weight(const ManifestTensor& tensor) {
  return !tensor.name.ends_with(kFirstMomentSuffix) && !tensor.name.ends_with(kSecondMomentSuffix);
}

bool describes_model(std::string_view key) {
  return key.starts_with("model.") || key.starts_with("moe.");
}

AverageSource read_source(const fs::path& given) {
  AverageSource source;
  source.given = given;
  source.manifest = open_manifest(given);
  for (const ManifestTensor& tensor : source.manifest.tensors) {
    if (is_weight(tensor)) source.weights.emplace(tensor.name, &tensor);
  }
  for (const auto& [name, values] : source.manifest.doubles) {
    if (name.ends_with(kRouterBiasSuffix)) source.biases.emplace(name, values);
  }
  if (source.weights.empty()) fail_input(given.string(), " holds no weights");
  return source;
}

/// Opens the files that hold weights; their headers must be what the manifest promises.
void open_files(AverageSource& source) {
  for (const auto& [name, tensors] : tensors_by_file(source.manifest)) {
    if (std::ranges::none_of(tensors, [](const auto* tensor) { return is_weight(*tensor); })) {
      continue;
    }
    source.files.emplace(name, open_checked(source.given / name, tensors));
  }
}

/// Differences between checkpoints, a line each.
class Differences {
 public:
  Differences(const AverageSource& first, const AverageSource& other)
      : first_(first), other_(other) {}

  /// Name and values are texts of files; "" stands for what a checkpoint does not have.
  void compare(std::string_view name, const std::string& first, const std::string& other) {
    if (first == other) return;
    ++count_;
    if (count_ > kMaxDifferences) return;
    const auto text = [](const std::string& value) {
      return value.empty() ? "absent" : shown_text(value);
    };
    lines_ += concat("\n  ", printable(name), ": ", text(first), " and ", text(other));
  }
  void refuse_if_any() const {
    if (count_ == 0) return;
    const std::string more =
        count_ > kMaxDifferences ? concat("\n  and ", count_ - kMaxDifferences, " more") : "";
    fail_input("no mean of different models: ", first_.given.string(), " and ",
               other_.given.string(), " differ in ", count_, " places:", lines_, more);
  }

 private:
  const AverageSource& first_;
  const AverageSource& other_;
  std::string lines_;
  std::size_t count_ = 0;
};

/// Compares every entry of two maps; describe(value) is what must be equal.
template <class Value, class Describe>
void compare_maps(Differences& differences, const std::map<std::string, Value>& first,
                  const std::map<std::string, Value>& other, Describe&& describe) {
  const auto text_in = [&](const auto& map, const std::string& name) {
    const auto found = map.find(name);
    return found == map.end() ? std::string() : describe(found->second);
  };
  for (const auto& entry : first)
    differences.compare(entry.first, describe(entry.second), text_in(other, entry.first));
  for (const auto& entry : other) {
    if (!first.contains(entry.first)) {
      differences.compare(entry.first, "", describe(entry.second));
    }
  }
}

std::map<std::string, std::string> model_settings(const Manifest& manifest) {
  std::map<std::string, std::string> settings;
  for (const auto& [key, value] : manifest.configuration) {
    if (describes_model(key)) settings.emplace(key, value);
  }
  return settings;
}

void check_same_model(const AverageSource& first, const AverageSource& other) {
  Differences differences(first, other);
  compare_maps(differences, model_settings(first.manifest), model_settings(other.manifest),
               [](const std::string& value) { return value; });
  compare_maps(differences, first.weights, other.weights, [](const ManifestTensor* tensor) {
    const std::int64_t numel = tensor->shape.numel();
    const std::int64_t slices = numel == 0 ? 0 : numel / tensor->slice_elements;
    return concat(tensor->shape, ' ', tensor->dtype, " in ", slices,
                  slices == 1 ? " slice" : " slices");
  });
  compare_maps(differences, first.biases, other.biases,
               [](const std::vector<double>& bias) { return concat('[', bias.size(), ']'); });
  differences.refuse_if_any();
}

/// Any two that know their tokenizer must have the same.
void check_tokenizers(std::span<const AverageSource> sources) {
  const AverageSource* known = nullptr;
  std::uint64_t first = 0;  // its tokenizer
  for (const AverageSource& source : sources) {
    const auto hash = kept_hash(source.manifest, kTokenizerHashKey);
    if (!hash) continue;
    if (known == nullptr) {
      known = &source;
      first = *hash;
    }
    if (first == *hash) continue;
    fail_input("no mean of models with different tokenizers: ", known->given.string(), " (xxh3_64 ",
               hash_text(first), ") and ", source.given.string(), " (", hash_text(*hash), ")");
  }
}

void check_distinct(std::span<const fs::path> checkpoints) {
  std::map<fs::path, fs::path> given;
  for (const fs::path& path : checkpoints) {
    std::error_code error;
    const fs::path canonical = fs::canonical(path, error);
    if (error) fail_input(path.string(), ": there is no such folder");
    const auto [found, is_new] = given.emplace(canonical, path);
    if (!is_new) {
      fail_input("the same checkpoint twice: ", found->second.string(), " and ", path.string(),
                 " are ", canonical.string());
    }
  }
}

}  // namespace

std::vector<AverageSource> open_sources(std::span<const fs::path> checkpoints) {
  if (checkpoints.size() < 2) {
    fail_input("a mean needs two checkpoints or more, given: ",
               checkpoints.empty() ? "none" : checkpoints.front().string());
  }
  check_distinct(checkpoints);
  std::vector<AverageSource> sources;
  for (const fs::path& path : checkpoints)
    sources.push_back(read_source(path));
  for (const AverageSource& other : sources)
    check_same_model(sources.front(), other);
  check_tokenizers(sources);
  for (AverageSource& source : sources)
    open_files(source);
  return sources;
}

std::map<std::string, std::vector<std::int64_t>> data_hashes(
    std::span<const AverageSource> sources) {
  std::map<std::string, std::vector<std::int64_t>> hashes;
  const auto keep = [&](std::string_view key, const AverageSource& of) {
    if (const auto hash = kept_hash(of.manifest, key)) {
      hashes.emplace(key, std::vector<std::int64_t>{std::bit_cast<std::int64_t>(*hash)});
    }
  };
  keep(kTrainHashKey, sources.back());
  for (const AverageSource& source : sources)
    keep(kTokenizerHashKey, source);
  return hashes;
}

WeightReading::WeightReading(const AverageSource& source, const std::string& name)
    : source_(&source), tensor_(source.weights.at(name)) {}

std::span<const std::byte> WeightReading::read(const Piece& piece) {
  const std::int64_t element_bytes = size_of(tensor_->dtype);
  const std::int64_t elements = piece.element_end - piece.element_begin;
  bytes_.resize(static_cast<std::size_t>(elements * element_bytes));
  const SafetensorsFile& file = source_->files.at(tensor_->file);
  file.read(*file.find(tensor_->name), piece.element_begin * element_bytes, bytes_);
  findings_.add(look_at(*tensor_, piece.block_begin, piece.block_end, bytes_));
  return bytes_;
}

}  // namespace ulmus::checkpoint
