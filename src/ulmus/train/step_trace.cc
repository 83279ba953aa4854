#include "ulmus/train/step_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <utility>

#include "ulmus/base/file.h"
#include "ulmus/comm/agreement.h"

namespace ulmus::train {

namespace {

using Track = TraceEvent::Track;

constexpr std::array<std::string_view, 4> kTrackNames = {"run", "operations", "waits", "transfers"};

std::string_view name_of(Track track) { return kTrackNames[static_cast<std::size_t>(track)]; }

/// What the viewer calls a rank and its tracks. Names here and below need no escapes.
std::string header(int rank) {
  std::string text = fmt::format(
      R"({{"name":"process_name","ph":"M","pid":{0},"args":{{"name":"rank {0}"}}}})", rank);
  for (std::size_t track = 0; track < kTrackNames.size(); ++track) {
    text += fmt::format(
        ",\n"
        R"({{"name":"thread_name","ph":"M","pid":{},"tid":{},"args":{{"name":"{}"}}}})",
        rank, track, kTrackNames[track]);
  }
  return text;
}

std::size_t capacity(const std::vector<std::int64_t>& steps) {
  return steps.empty() ? 0 : StepTrace::kCapacity;
}

}  // namespace

StepTrace::StepTrace(std::vector<std::int64_t> steps, Meter& meter, comm::World& world)
    : steps_(std::move(steps)), meter_(meter), world_(world), trace_(capacity(steps_)) {}

std::int64_t StepTrace::bytes(const std::vector<std::int64_t>& steps) {
  return static_cast<std::int64_t>(capacity(steps) * sizeof(TraceEvent));
}

StepTrace::~StepTrace() { attach(nullptr); }

void StepTrace::attach(Trace* trace) {
  is_on_ = trace != nullptr;
  meter_.attach(trace);
  world_.attach(trace);
}

Trace* StepTrace::active() { return is_on_ ? &trace_ : nullptr; }

void StepTrace::begin(std::int64_t step) {
  const bool is_wanted = std::ranges::find(steps_, step) != steps_.end();
  if (is_wanted && !has_origin_) {
    world_.all().barrier();
    origin_ = TraceEvent::Clock::now();
    has_origin_ = true;
  }
  if (is_wanted != is_on_) attach(is_wanted ? &trace_ : nullptr);
}

bool StepTrace::is_complete(std::int64_t step) const {
  return !steps_.empty() && step == *std::ranges::max_element(steps_);
}

std::string StepTrace::text() const {
  const int rank = world_.rank();
  const auto microseconds = [&](TraceEvent::Clock::time_point time) {
    // What was under way when the first traced step began begins with it.
    return std::chrono::duration<double, std::micro>(std::max(time, origin_) - origin_).count();
  };
  std::string text = header(rank);
  std::int64_t id = 0;
  for (const TraceEvent& event : trace_.events()) {
    const std::string args = event.group.empty() ? fmt::format(R"({{"number":{}}})", event.number)
                                                 : fmt::format(R"({{"group":"{}","number":{}}})",
                                                               event.group, event.number);
    const std::string common =
        fmt::format(R"("name":"{}","cat":"{}","pid":{},"tid":{})", event.name, name_of(event.track),
                    rank, static_cast<int>(event.track));
    const double begin = microseconds(event.begin);
    const double end = microseconds(event.end);
    if (event.track == Track::kTransfers) {  // they overlap, which only asynchronous spans may
      fmt::format_to(std::back_inserter(text),
                     ",\n"
                     R"({{{0},"ph":"b","id":"{1}.{2}","ts":{3:.3f},"args":{5}}})"
                     ",\n"
                     R"({{{0},"ph":"e","id":"{1}.{2}","ts":{4:.3f}}})",
                     common, rank, id++, begin, end, args);
    } else {
      fmt::format_to(std::back_inserter(text),
                     ",\n"
                     R"({{{},"ph":"X","ts":{:.3f},"dur":{:.3f},"args":{}}})",
                     common, begin, end - begin, args);
    }
  }
  return text;
}

std::int64_t StepTrace::write(const std::filesystem::path& path) {
  attach(nullptr);
  comm::Communicator& ranks = world_.all();
  const std::string mine = text();
  std::array<std::int64_t, 1> num_dropped = {trace_.num_dropped()};
  trace_.clear();
  ranks.all_reduce(num_dropped, comm::ReduceOp::kSum);
  std::filesystem::path part = path;
  part += ".part";
  std::optional<FileWriter> file;
  comm::agree(ranks, [&] {
    if (ranks.rank() != 0) return;
    file.emplace(part);
    file->write("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
  });
  for (int rank = 0; rank < ranks.size(); ++rank) {
    std::string events = ranks.rank() == rank ? mine : std::string();
    ranks.broadcast(events, rank);
    comm::agree(ranks, [&] {
      if (!file) return;
      if (rank > 0) file->write(",\n");
      file->write(events);
    });
  }
  comm::agree(ranks, [&] {
    if (!file) return;
    file->write(fmt::format("\n],\"otherData\":{{\"ranks\":{},\"dropped_events\":{}}}}}\n",
                            ranks.size(), num_dropped[0]));
    file->sync_and_close();
    std::filesystem::rename(part, path);
  });
  return num_dropped[0];
}

}  // namespace ulmus::train
