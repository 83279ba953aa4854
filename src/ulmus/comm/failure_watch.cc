#include "ulmus/comm/failure_watch.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "ulmus/base/check.h"

namespace ulmus::comm {

namespace {

constexpr std::size_t kMaxListed = 8;

/// The first texts that there are, separated by semicolons.
std::string join_texts(const std::vector<std::string>& texts) {
  std::string joined;
  std::size_t num_listed = 0;
  for (const std::string& text : texts) {
    if (text.empty() || ++num_listed > kMaxListed) continue;
    if (!joined.empty()) joined += "; ";
    joined += text;
  }
  if (num_listed > kMaxListed) joined += concat("; and ", num_listed - kMaxListed, " more");
  return joined;
}

}  // namespace

std::string name_ranks(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  if (ranks.empty()) return "no rank";
  if (ranks.size() == 1) return concat("rank ", ranks[0]);
  const std::size_t num_named = ranks.size() <= kMaxListed ? ranks.size() - 1 : kMaxListed - 1;
  std::string names = concat("ranks ", ranks[0]);
  for (std::size_t i = 1; i < num_named; ++i) {
    names += concat(", ", ranks[i]);
  }
  if (ranks.size() <= kMaxListed) return names + concat(" and ", ranks.back());
  return names + concat(" and ", ranks.size() - num_named, " others");
}

std::string in_seconds(std::chrono::milliseconds time) {
  return concat(static_cast<double>(time.count()) / 1000.0, " s");
}

FailureWatch::FailureWatch(Transport& transport, std::chrono::milliseconds timeout)
    : transport_(transport),
      timeout_(timeout),
      texts_(static_cast<std::size_t>(transport.size())),
      farewells_(texts_.size()) {
  ULMUS_CHECK(timeout.count() > 0, "a timeout of ", timeout.count(), " ms");
}

void FailureWatch::read_notices() {
  while (std::optional<Notice> notice = transport_.poll_notice()) {
    ULMUS_CHECK(0 <= notice->from && notice->from < transport_.size(), "a notice from rank ",
                notice->from, " of ", transport_.size());
    take(std::move(*notice));
  }
}

void FailureWatch::take(Notice notice) {
  const auto from = static_cast<std::size_t>(notice.from);
  switch (notice.kind) {
    case Notice::Kind::kEnding:
      farewells_[from] = Farewell::unpacked(notice.text);
      return;
    case Notice::Kind::kWaiting:
      patience_over_ = true;
      texts_[from] = std::move(notice.text);
      break;
    case Notice::Kind::kFailed:
      was_told_ = true;
      if (failure_.empty()) failure_ = concat("rank ", notice.from, " failed: ", notice.text);
      break;
  }
  others_know_ = true;
}

void FailureWatch::check() const {
  if (has_failed()) raise("");
  if (!patience_over_) return;
  throw CommError(concat("rank ", transport_.rank(), " was not waiting when ", join_texts(texts_)));
}

void FailureWatch::raise(std::string_view waiting) const {
  throw CommError(waiting.empty() ? failure_ : concat(failure_, "; ", waiting));
}

bool FailureWatch::must_speak(Clock::time_point deadline) const {
  return !has_spoken_ && (patience_over_ || Clock::now() >= deadline);
}

void FailureWatch::speak(std::string text) {
  using std::chrono::milliseconds;
  transport_.post_notice(Notice::Kind::kWaiting, text);
  texts_[static_cast<std::size_t>(transport_.rank())] = std::move(text);
  grace_end_ = Clock::now() + std::min(milliseconds(2000), timeout_ / 2);
  has_spoken_ = patience_over_ = others_know_ = true;
}

void FailureWatch::conclude_if_due() const {
  if (!has_spoken_) return;
  std::vector<int> missing;
  for (std::size_t rank = 0; rank < texts_.size(); ++rank) {
    if (texts_[rank].empty()) missing.push_back(static_cast<int>(rank));
  }
  if (missing.empty()) {
    throw CommError(concat("no rank goes on: their operations do not match, or messages are lost: ",
                           join_texts(texts_)));
  }
  if (Clock::now() < grace_end_) return;
  throw CommError(concat(name_ranks(std::move(missing)), " did not answer within ",
                         in_seconds(timeout_), "; ",
                         texts_[static_cast<std::size_t>(transport_.rank())]));
}

Clock::time_point FailureWatch::due(Clock::time_point deadline) const {
  return has_spoken_ ? grace_end_ : deadline;
}

void FailureWatch::fail(std::string_view why) noexcept {
  if (!std::exchange(others_know_, true)) transport_.post_notice(Notice::Kind::kFailed, why);
  note_own_failure(why);
}

std::string FailureWatch::Farewell::packed() const {
  return concat(status, ' ', is_intact, ' ', message);
}

FailureWatch::Farewell FailureWatch::Farewell::unpacked(const std::string& text) {
  Farewell farewell;
  std::istringstream in(text);
  in >> farewell.status >> farewell.is_intact;
  in.get();
  farewell.message.assign(std::istreambuf_iterator<char>(in), {});
  return farewell;
}

void FailureWatch::end(const Ending& ending) {
  constexpr std::size_t kMessageBytes = Transport::kMaxNoticeBytes - 20;  // the rest are numbers
  const Farewell farewell = {.status = static_cast<int>(ending.status),
                             .is_intact = transport_.is_intact(),
                             .message = ending.message.substr(0, kMessageBytes)};
  is_consequence_ = ending.is_consequence;
  farewells_[static_cast<std::size_t>(transport_.rank())] = farewell;
  transport_.post_notice(Notice::Kind::kEnding, farewell.packed());
}

std::optional<Parting> FailureWatch::parting() const {
  // Who failed first ends all; without such a rank everybody does.
  if (is_consequence_) return was_told_ ? std::nullopt : std::optional(Parting::kAlone);
  const std::optional<Farewell>& own = farewells_[static_cast<std::size_t>(transport_.rank())];
  ULMUS_CHECK(own.has_value(), "rank ", transport_.rank(), " has not ended");
  bool is_intact = true;
  bool all_ended = true;
  for (const std::optional<Farewell>& other : farewells_) {
    if (!other) {
      all_ended = false;
      continue;
    }
    if (other->status != own->status || other->message != own->message) return Parting::kAlone;
    is_intact = is_intact && other->is_intact;
  }
  if (!all_ended) return std::nullopt;
  return is_intact ? Parting::kTogether : Parting::kTorn;
}

void FailureWatch::note_own_failure(std::string_view why) noexcept {
  if (has_failed()) return;
  try {
    failure_ = concat("rank ", transport_.rank(), " failed: ", why);
  } catch (...) {
    failure_ = "failed";  // short enough to need no memory
  }
}

}  // namespace ulmus::comm
