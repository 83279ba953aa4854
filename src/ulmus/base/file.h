#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "ulmus/base/error.h"

namespace ulmus {

/// The system refuses a file without saying that anything is wrong with it: no permission, too many
/// open files. A file that is missing, cut short or unreadable is any other InputError.
class AccessError : public InputError {
 public:
  using InputError::InputError;
};

/// Whole file as bytes. InputError naming the file when it cannot be read.
std::string read_file(const std::filesystem::path& path);

/// Reads at chosen places of a file. A file that is cut short meanwhile, or a disk that fails, is
/// an error here, where it would be the end of a process that had the file mapped.
class RangeReader {
 public:
  /// InputError naming the file when it cannot be opened or is no regular file.
  explicit RangeReader(const std::filesystem::path& path);
  ~RangeReader();
  RangeReader(RangeReader&& other) noexcept;
  RangeReader& operator=(RangeReader&& other) noexcept;
  RangeReader(const RangeReader&) = delete;
  RangeReader& operator=(const RangeReader&) = delete;

  /// Fills `to` with the bytes from `offset` on. May be called by several threads at a time.
  /// InputError naming file and offset when the disk fails or the file ends before.
  void read(std::int64_t offset, std::span<std::byte> to) const;
  /// When it was opened.
  std::int64_t size_bytes() const { return size_bytes_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  std::int64_t size_bytes_ = 0;
};

/// A file mapped for reading. Pages come from the page cache as they are touched; a process that
/// touches one that the disk does not give any more is killed (SIGBUS).
class MappedFile {
 public:
  /// InputError naming the file when it cannot be opened or mapped. An empty file maps to nothing.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Writes a file piece by piece; Error naming the file and the reason (disk full, read-only...).
class FileWriter {
 public:
  /// Creates or truncates.
  explicit FileWriter(const std::filesystem::path& path);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  /// Flushes to the disk (fsync) and closes. Without this call the destructor closes silently.
  void sync_and_close();

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

/// Writes at chosen places of a file, whose other places others may write at the same time. Errors
/// as FileWriter's.
class RangeWriter {
 public:
  enum class Open : std::uint8_t {
    kCreate,    ///< creates or truncates
    kExisting,  ///< Error when there is no such file
  };
  RangeWriter(const std::filesystem::path& path, Open open);
  ~RangeWriter();
  RangeWriter(const RangeWriter&) = delete;
  RangeWriter& operator=(const RangeWriter&) = delete;

  /// Gives the file its length; what nobody wrote reads as zeros.
  void resize(std::int64_t size_bytes);
  void write(std::int64_t offset, std::span<const std::byte> bytes);
  /// Flushes what any process on this machine has written to it, and closes.
  void sync_and_close();

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  std::int64_t waiting_bytes_ = 0;  // bytes since the disk was asked to begin
};

/// Replaces `path` by `text` so that a crash leaves either the old or the new file: temporary file
/// beside it, fsync, rename, fsync of the folder.
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// fsync of a folder, after a rename in it.
void sync_directory(const std::filesystem::path& path);

/// Bytes a non-root user could still write on the file system of `path` (an existing folder).
std::int64_t free_bytes(const std::filesystem::path& path);

/// An exclusive lock on a file, held until destruction; released by the kernel when the process
/// dies.
class FileLock {
 public:
  /// InputError "... is in use by another process" when somebody else holds it.
  explicit FileLock(const std::filesystem::path& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace ulmus
