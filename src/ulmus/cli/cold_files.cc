#include "ulmus/cli/cold_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "ulmus/base/error.h"
#include "ulmus/base/file.h"

namespace ulmus::cli {

namespace fs = std::filesystem;

namespace {

/// A file opened for reading.
class OpenFile {
 public:
  explicit OpenFile(const fs::path& path) : path_(path), fd_(::open(path.c_str(), O_RDONLY)) {
    check(fd_ >= 0, "open");
  }
  ~OpenFile() { ::close(fd_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int fd() const { return fd_; }
  void check(bool is_ok, const char* what) const {
    if (!is_ok) fail("cannot ", what, " ", path_.string(), ": ", std::strerror(errno));
  }

 private:
  fs::path path_;
  int fd_;
};

/// Pages of a file, and those of them in memory.
struct Pages {
  std::size_t all = 0;
  std::size_t cached = 0;
};

Pages pages_of(const fs::path& path) {
  const MappedFile file(path);
  const auto page_bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t size = file.bytes().size();
  Pages pages = {.all = (size + page_bytes - 1) / page_bytes};
  if (size == 0) return pages;
  std::vector<unsigned char> is_cached(pages.all);
  // The call takes a pointer to writable memory and does not write.
  void* begin = const_cast<std::byte*>(file.bytes().data());  // NOLINT(*-const-cast)
  if (::mincore(begin, size, is_cached.data()) != 0) {
    fail("cannot see which pages of ", path.string(), " are cached: ", std::strerror(errno));
  }
  pages.cached = static_cast<std::size_t>(
      std::ranges::count_if(is_cached, [](unsigned char page) { return (page & 1U) != 0; }));
  return pages;
}

}  // namespace

std::vector<fs::path> files_of(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

double evict(std::span<const fs::path> files) {
  Pages sum;
  for (const fs::path& path : files) {
    {
      const OpenFile file(path);
      errno = ::posix_fadvise(file.fd(), 0, 0, POSIX_FADV_DONTNEED);
      file.check(errno == 0, "evict the cached pages of");
    }
    const Pages pages = pages_of(path);
    sum.all += pages.all;
    sum.cached += pages.cached;
  }
  return sum.all == 0 ? 0.0 : static_cast<double>(sum.cached) / static_cast<double>(sum.all);
}

}  // namespace ulmus::cli
