// Compiled for the oldest x86-64, unlike everything else (CMakeLists.txt), and run before any
// other code of the program, so that a processor that is too old gets a sentence and not a SIGILL.
// It therefore includes nothing of ours and calls no inline function of the standard library.
#include <unistd.h>

#include <cstddef>

namespace {

constexpr int kFailed = 1;

struct Feature {
  const char* name;
  int present;
};

void write_text(const char* text) {
  std::size_t size = 0;
  while (text[size] != '\0') {
    ++size;
  }
  // Nobody is left to tell when standard error is closed.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text, size);
}

__attribute__((constructor(101))) void check_cpu() {
  __builtin_cpu_init();
  const Feature features[] = {
      {"avx2", __builtin_cpu_supports("avx2")},     {"fma", __builtin_cpu_supports("fma")},
      {"bmi", __builtin_cpu_supports("bmi")},       {"bmi2", __builtin_cpu_supports("bmi2")},
      {"popcnt", __builtin_cpu_supports("popcnt")}, {"f16c", __builtin_cpu_supports("f16c")},
      {"lzcnt", __builtin_cpu_supports("lzcnt")},   {"movbe", __builtin_cpu_supports("movbe")},
  };
  bool is_complete = true;
  for (const Feature& feature : features) {
    if (feature.present != 0) continue;
    write_text(is_complete ? "ulmus: error: this program needs an x86-64-v3 processor (2013 and "
                             "later); this one lacks: "
                           : " ");
    write_text(feature.name);
    is_complete = false;
  }
  if (is_complete) return;
  write_text("\n");
  ::_exit(kFailed);
}

}  // namespace
