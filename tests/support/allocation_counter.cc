#include "tests/support/allocation_counter.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::int64_t> num_calls{0};  // NOLINT: the replaced functions have no other home

void* counted(std::size_t size) noexcept {
  num_calls.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(size > 0 ? size : 1);  // NOLINT: beneath operator new
}

void* counted(std::size_t size, std::align_val_t alignment) noexcept {
  num_calls.fetch_add(1, std::memory_order_relaxed);
  const auto unit = static_cast<std::size_t>(alignment);
  return std::aligned_alloc(unit, (size + unit - 1) / unit * unit + (size > 0 ? 0 : unit));
}

void* or_throw(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// NOLINTBEGIN: replacements of the global allocation functions. All of them: a sanitizer replaces
// those that are left, and then takes a pair of one's new and the other's delete for a mismatch.
// Not inlined: the compiler would see one of a pair without the other, and warn. The array forms
// call these by themselves.
[[gnu::noinline]] void* operator new(std::size_t size) { return or_throw(counted(size)); }
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return counted(size);
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment) {
  return or_throw(counted(size, alignment));
}
[[gnu::noinline]] void* operator new(std::size_t size, std::align_val_t alignment,
                                     const std::nothrow_t&) noexcept {
  return counted(size, alignment);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t,
                                       const std::nothrow_t&) noexcept {
  std::free(memory);
}
// NOLINTEND

namespace ulmus::test {

std::int64_t num_allocations() { return num_calls.load(std::memory_order_relaxed); }

}  // namespace ulmus::test
