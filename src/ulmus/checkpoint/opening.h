#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ulmus/base/error.h"
#include "ulmus/base/file.h"
#include "ulmus/checkpoint/manifest.h"

/// What everybody does first with the folder of a checkpoint that nobody vouches for.
namespace ulmus::checkpoint {

/// A checkpoint is not what was once saved: bytes that do not agree with their hash, a header that
/// is not the manifest's, a file that is missing, cut short or not one of it. The message begins
/// with "damaged checkpoint". What says nothing about the bytes is no damage: no permission,
/// another format, a folder that is no checkpoint or has another name.
class DamageError : public InputError {
 public:
  using InputError::InputError;
};

/// Runs `body`, in which an InputError means that the checkpoint `dir` is damaged; those that do
/// not, AccessError and FormatError, go through as they are.
template <class Body>
auto as_damage(const std::filesystem::path& dir, Body&& body) {
  try {
    return body();
  } catch (const AccessError&) {
    throw;
  } catch (const FormatError&) {
    throw;
  } catch (const InputError& error) {
    throw DamageError(concat("damaged checkpoint ", dir.string(), ": ", error.what()));
  }
}

/// InputError when there is no such folder.
void require_folder(const std::filesystem::path& dir);

/// The manifest. InputError where there is none, naming the checkpoint that may have been meant:
/// the newest of a run folder or of a folder of checkpoints. DamageError when it is not as it was
/// written, or missing from a folder that has a checkpoint's name.
Manifest open_manifest(const std::filesystem::path& dir);

/// InputError when a folder named after a step is not named after that of its manifest.
void check_name(const std::filesystem::path& dir, const Manifest& manifest);

/// Names of the files of a checkpoint's folder that it does not know, in order.
std::vector<std::string> stray_files(const std::filesystem::path& dir, const Manifest& manifest);

/// InputError naming a tensor file that the manifest does not know.
void refuse_stray_tensors(const std::filesystem::path& dir, const Manifest& manifest);

/// Where to go from a damaged checkpoint, to be put behind the message: "; the newest ..." names
/// the newest of the others in its folder that looks whole, by its manifest and the headers and
/// lengths of all its files. A moment's work: no tensor is read.
std::string way_out(const std::filesystem::path& dir);

}  // namespace ulmus::checkpoint
