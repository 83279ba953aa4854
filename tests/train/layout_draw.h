#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "ulmus/train/parity.h"

namespace ulmus::test {

/// Draws that are the same everywhere: no distribution of the standard library, whose results
/// differ between its implementations.
class Dice {
 public:
  /// Those of one attempt at case `number` of a seed, whatever other cases drew.
  Dice(std::uint32_t seed, int number, int attempt);

  /// From low to high, both included.
  std::int64_t between(std::int64_t low, std::int64_t high);
  bool chance(int percent) { return between(1, 100) <= percent; }
  template <class T>
  T one_of(const std::vector<T>& choices) {
    return choices[static_cast<std::size_t>(between(0, std::ssize(choices) - 1))];
  }

 private:
  std::mt19937_64 engine_;
};

/// A configuration with ranks to run it on, drawn as a pure function of (seed, number).
struct DrawnCase {
  std::string toml;                  ///< the configuration, as `ulmus parity` reads it
  train::Config config;              ///< the same
  int ranks = 1;                     ///< 1 ... 6
  train::ParityScene scene;          ///< what the sequences are, and the router state
  std::string scene_text;            ///< the same for people
  std::vector<std::string> layouts;  ///< a few of the legal ones, at least one
};
DrawnCase draw_case(std::uint32_t seed, int number);

}  // namespace ulmus::test
