#include "ulmus/train/handshake.h"

#include <xxhash.h>

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ulmus/base/file.h"
#include "ulmus/base/strict_json.h"
#include "ulmus/checkpoint/manifest.h"
#include "ulmus/comm/agreement.h"
#include "ulmus/train/config_file.h"

namespace ulmus::train {

namespace {

std::uint64_t hash_of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

void check(int rank, std::string_view what, const std::string& theirs, const std::string& first) {
  if (theirs == first) return;
  fail_input("rank ", rank, " has another ", what, " (", theirs, ") than rank 0 (", first,
             "): start every rank with the same one");
}

}  // namespace

Hand own_hand(Config config) {
  config.device.threads = 0;
  const std::string text = to_toml(config);
  return {.program = hash_of(MappedFile("/proc/self/exe").bytes()),
          .config = hash_of(std::as_bytes(std::span(text))),
          .format = checkpoint::Manifest::kFormatVersion};
}

void shake_hands(comm::World& world, const std::function<Hand()>& own) {
  std::array<Hand, 1> mine{};
  comm::agree(world.all(), [&] { mine[0] = own(); });
  std::vector<Hand> all(static_cast<std::size_t>(world.size()));
  world.all().all_gather_bytes(std::as_writable_bytes(std::span(all)),
                               std::as_bytes(std::span(mine)));
  comm::agree(world.all(), [&] {
    for (int rank = 1; rank < world.size(); ++rank) {
      const Hand& hand = all[static_cast<std::size_t>(rank)];
      check(rank, "program", hash_text(hand.program), hash_text(all[0].program));
      check(rank, "configuration", hash_text(hand.config), hash_text(all[0].config));
      check(rank, "checkpoint format", std::to_string(hand.format), std::to_string(all[0].format));
    }
  });
}

}  // namespace ulmus::train
