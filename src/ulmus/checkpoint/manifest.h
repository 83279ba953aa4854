#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ulmus/base/error.h"
#include "ulmus/checkpoint/safetensors.h"
#include "ulmus/tensor/dtype.h"
#include "ulmus/tensor/shape.h"

namespace ulmus::checkpoint {

/// One tensor of a checkpoint. Names are global and complete; nothing says which rank wrote it.
struct ManifestTensor {
  std::string name;
  std::string file;           ///< "layer-00.safetensors", a name without folders
  DType dtype = DType::kF32;  ///< f32 or f64
  Shape shape;
  std::int64_t slice_elements = 0;  ///< elements of one expert's slice; all of them when unstacked
  std::int64_t offset = 0;          ///< of its first byte, from the start of the file's data
  std::int64_t bytes = 0;
  std::uint64_t hash = 0;  ///< tensor_hash.h
  friend bool operator==(const ManifestTensor&, const ManifestTensor&) = default;
};

/// The facts of a checkpoint that hold under any layout: manifest.json.
///
/// Its text is canonical: the same facts give the same bytes. Keys are sorted; numbers have one
/// form; the text carries the XXH3-64 of itself (formed with zeros in its place), so that a
/// flipped bit anywhere in it is found. docs/formats/checkpoint.md has the bytes.
struct Manifest {
  static constexpr std::int64_t kFormatVersion = 2;

  std::int64_t format_version = kFormatVersion;
  std::int64_t step = 0;           ///< optimizer steps taken
  std::int64_t tokens = 0;         ///< tokens seen
  std::int64_t data_position = 0;  ///< of the loader
  /// Configuration of model and optimizer, key by key, in text form.
  std::map<std::string, std::string> configuration;
  std::vector<ManifestTensor> tensors;  ///< sorted by name
  /// Small state by name: skip-step windows and gate counters; counts of the previous step;
  /// balancing biases. Reads back bit for bit, subnormals and -0 included.
  std::map<std::string, std::vector<double>> doubles;
  std::map<std::string, std::vector<std::int64_t>> integers;
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

/// Keys of `integers` and `doubles` that others than the run itself read.
inline constexpr std::string_view kTokenizerHashKey = "data.tokenizer.xxh3_64";
inline constexpr std::string_view kTrainHashKey = "data.train.xxh3_64";
/// Ends the name of a layer's balancing biases: "layers.3.moe.router.bias".
inline constexpr std::string_view kRouterBiasSuffix = ".moe.router.bias";

/// The hash that `integers` keep under a key; nothing when there is none.
std::optional<std::uint64_t> kept_hash(const Manifest& manifest, std::string_view key);

/// A text of a manifest for people: as it is where all of it is printable ASCII, else as
/// printable() has it.
std::string shown_text(const std::string& text);

/// The canonical text. Error naming the vector when a number in it is not finite (design, law 9),
/// or when a name or text is not UTF-8.
std::string to_json(const Manifest& manifest);

/// A manifest of another format than this program reads: not to be judged here.
class FormatError : public InputError {
 public:
  using InputError::InputError;
};

/// Reads a text that nobody vouches for. FormatError for another format; InputError naming `place`
/// and the key: not JSON, unknown or missing keys, wrong types, a tensor listed twice or out of
/// order, sizes, offsets or slices that disagree, a file name with folders, a text that is not what
/// to_json writes (hash included).
Manifest parse_manifest(std::string_view text, std::string_view place);

/// The same from a file.
Manifest read_manifest(const std::filesystem::path& path);

/// Letters, digits, '-', '_' and '.', not first a '.', ending in .safetensors: a name that cannot
/// lead out of the folder.
bool is_plain_file_name(std::string_view name);

/// Tensors of each file in the order of their data. The pointers point into `manifest`.
std::map<std::string, std::vector<const ManifestTensor*>> tensors_by_file(const Manifest& manifest);

/// The entries of one file, as its header holds them.
std::vector<FileTensor> file_tensors(const std::vector<const ManifestTensor*>& tensors);

}  // namespace ulmus::checkpoint
