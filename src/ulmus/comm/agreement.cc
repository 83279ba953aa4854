#include "ulmus/comm/agreement.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

namespace ulmus::comm {

namespace {

/// What a rank tells the others about its body.
struct Outcome {
  std::int32_t failed = 0;
  std::int32_t exit_code = 0;
  std::int64_t length = 0;
  std::array<char, 4080> message{};
};

Outcome failure(const char* message, ExitCode exit_code) {
  Outcome outcome{.failed = 1, .exit_code = static_cast<std::int32_t>(exit_code)};
  const std::size_t length = std::min(std::strlen(message), outcome.message.size());
  outcome.length = static_cast<std::int64_t>(length);
  std::memcpy(outcome.message.data(), message, length);
  return outcome;
}

Outcome outcome_of(const std::function<void()>& body) {
  try {
    body();
    return {};
  } catch (const CommError&) {
    throw;
  } catch (const Error& error) {
    return failure(error.what(), error.exit_code());
  } catch (const std::exception& error) {
    return failure(error.what(), ExitCode::kFailed);
  }
}

}  // namespace

void agree(Communicator& group, const std::function<void()>& body) {
  if (group.size() == 1) {
    body();
    return;
  }
  const std::array<Outcome, 1> mine = {outcome_of(body)};
  std::vector<Outcome> all(static_cast<std::size_t>(group.size()));
  group.all_gather_bytes(std::as_writable_bytes(std::span(all)), std::as_bytes(std::span(mine)));
  for (const Outcome& outcome : all) {
    if (outcome.failed == 0) continue;
    const std::string message(outcome.message.data(), static_cast<std::size_t>(outcome.length));
    const auto exit_code = static_cast<ExitCode>(outcome.exit_code);
    throw Error(message, exit_code, ErrorScope::kEveryRank);
  }
}

}  // namespace ulmus::comm
