#include "ulmus/base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "ulmus/base/error.h"

namespace ulmus {

namespace {

/// Written bytes that may wait in memory before the disk is asked to begin.
constexpr std::int64_t kWritebackBytes = std::int64_t{8} << 20U;

std::string reason() { return std::strerror(errno); }

/// Throws what the error `code` of opening or reading a file means.
[[noreturn]] void fail_reading(int code, const std::string& what) {
  const std::string message = concat(what, ": ", std::strerror(code));
  const bool is_about_the_file = code == ENOENT || code == ENOTDIR || code == EIO;
  if (is_about_the_file) throw InputError(message);
  throw AccessError(message);
}

/// A file opened for reading, and its size.
struct Opened {
  int fd;
  std::int64_t size_bytes;
};

Opened open_regular(const std::filesystem::path& path) {
  // Without waiting: a pipe in a file's place would have us wait for its writer.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) fail_reading(errno, concat("cannot open ", path.string()));
  struct stat status{};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(fd);
    fail_input(path.string(), " is not a regular file");
  }
  return {fd, static_cast<std::int64_t>(status.st_size)};
}

void sync_and_close_file(int fd, const std::filesystem::path& path) {
  const bool synced = ::fsync(fd) == 0;
  std::string why = synced ? "" : reason();
  const bool closed = ::close(fd) == 0;
  if (synced && !closed) why = reason();
  if (!synced || !closed) fail("cannot flush ", path.string(), ": ", why);
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  const Opened file = open_regular(path);
  size_ = static_cast<std::size_t>(file.size_bytes);
  if (size_ > 0) {
    void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.fd, 0);
    if (address == MAP_FAILED) {
      const std::string why = reason();
      ::close(file.fd);
      fail_input("cannot map ", path.string(), ": ", why);
    }
    data_ = static_cast<const std::byte*>(address);
  }
  ::close(file.fd);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

RangeReader::RangeReader(const std::filesystem::path& path) : path_(path) {
  const Opened file = open_regular(path);
  fd_ = file.fd;
  size_bytes_ = file.size_bytes;
}

RangeReader::~RangeReader() {
  if (fd_ >= 0) ::close(fd_);
}

RangeReader::RangeReader(RangeReader&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      size_bytes_(std::exchange(other.size_bytes_, 0)) {}

RangeReader& RangeReader::operator=(RangeReader&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

void RangeReader::read(std::int64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t count = ::pread(fd_, to.data(), to.size(), offset);
    if (count < 0) {
      if (errno == EINTR) continue;
      fail_reading(errno, concat("cannot read ", path_.string(), " at byte ", offset));
    }
    if (count == 0) {
      fail_input(path_.string(), ": ends at byte ", offset, ", where ", to.size(),
                 " bytes more should be");
    }
    to = to.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
}

std::string read_file(const std::filesystem::path& path) {
  const RangeReader file(path);
  std::string text(static_cast<std::size_t>(file.size_bytes()), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

FileWriter::FileWriter(const std::filesystem::path& path)
    : path_(path), fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {
  if (fd_ < 0) fail("cannot write ", path.string(), ": ", reason());
}

FileWriter::~FileWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void FileWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      fail("cannot write ", path_.string(), ": ", reason());
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void FileWriter::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

void FileWriter::sync_and_close() { sync_and_close_file(std::exchange(fd_, -1), path_); }

RangeWriter::RangeWriter(const std::filesystem::path& path, Open open)
    : path_(path),
      fd_(::open(path.c_str(),
                 O_WRONLY | O_CLOEXEC | (open == Open::kCreate ? O_CREAT | O_TRUNC : 0), 0644)) {
  if (fd_ < 0) fail("cannot write ", path.string(), ": ", reason());
}

RangeWriter::~RangeWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void RangeWriter::resize(std::int64_t size_bytes) {
  if (::ftruncate(fd_, size_bytes) != 0) fail("cannot write ", path_.string(), ": ", reason());
}

void RangeWriter::write(std::int64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), offset);
    if (written < 0) {
      if (errno == EINTR) continue;
      fail("cannot write ", path_.string(), ": ", reason());
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += written;
    waiting_bytes_ += written;
  }
  if (waiting_bytes_ < kWritebackBytes) return;
  waiting_bytes_ = 0;
  // The disk begins while more is written. Only a hint: an error will be told by fsync.
  ::sync_file_range(fd_, 0, 0, SYNC_FILE_RANGE_WRITE);
}

void RangeWriter::sync_and_close() { sync_and_close_file(std::exchange(fd_, -1), path_); }

void sync_directory(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail("cannot open folder ", path.string(), ": ", reason());
  const bool synced = ::fsync(fd) == 0;
  const std::string why = reason();
  ::close(fd);
  if (!synced) fail("cannot flush folder ", path.string(), ": ", why);
}

void write_file_atomically(const std::filesystem::path& path, std::string_view text) {
  std::error_code status_error;
  const auto kind = std::filesystem::status(path, status_error).type();
  if (kind != std::filesystem::file_type::not_found &&
      kind != std::filesystem::file_type::regular && kind != std::filesystem::file_type::none) {
    fail_input(path.string(), " is no regular file, so it is not replaced");
  }
  std::filesystem::path temporary = path;
  temporary += ".part";
  FileWriter writer(temporary);
  writer.write(text);
  writer.sync_and_close();
  std::error_code error;
  std::filesystem::rename(temporary, path, error);
  if (error)
    fail("cannot rename ", temporary.string(), " to ", path.string(), ": ", error.message());
  const std::filesystem::path folder = path.parent_path();
  sync_directory(folder.empty() ? std::filesystem::path(".") : folder);
}

std::int64_t free_bytes(const std::filesystem::path& path) {
  struct statvfs status{};
  if (::statvfs(path.c_str(), &status) != 0) {
    fail("cannot ask for the free space of ", path.string(), ": ", reason());
  }
  return static_cast<std::int64_t>(status.f_bavail) * static_cast<std::int64_t>(status.f_frsize);
}

FileLock::FileLock(const std::filesystem::path& path)
    : fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
  if (fd_ < 0) fail_input("cannot write ", path.string(), ": ", reason());
  int status = 0;
  do {
    status = ::flock(fd_, LOCK_EX | LOCK_NB);
  } while (status != 0 && errno == EINTR);
  if (status == 0) return;
  const bool is_held = errno == EWOULDBLOCK;
  const std::string why = reason();
  ::close(fd_);
  if (!is_held) fail_input("cannot lock ", path.string(), ": ", why);
  fail_input(std::filesystem::absolute(path).parent_path().string(),
             " is in use by another process (lock ", path.string(),
             "); wait for it or choose another folder");
}

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace ulmus
