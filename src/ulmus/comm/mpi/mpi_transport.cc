#include "ulmus/comm/mpi/mpi_transport.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <deque>
#include <list>
#include <numeric>
#include <utility>
#include <vector>

#include "ulmus/base/check.h"
#include "ulmus/comm/tag.h"

namespace ulmus::comm {

namespace {

/// Looks at the messages before the core is offered to others: ranks may outnumber cores.
constexpr int kSpins = 100;
/// How long giving up all messages of a rank may take.
constexpr std::chrono::milliseconds kAbandonTime{200};
/// How long notices that others have asked for may take to leave.
constexpr std::chrono::milliseconds kFlushTime{200};

/// What is known of a request besides the library's handle.
struct MpiMessage {
  int peer = 0;
  std::uint32_t tag = 0;
  std::size_t num_bytes = 0;
  bool is_receive = false;
  bool is_done = false;
  bool is_free = true;
  int error = MPI_SUCCESS;
  std::int64_t received_bytes = 0;
  std::uint64_t seen_polls = 0;  // when it was last found pending
};

class MpiTransport final : public Transport {
 public:
  explicit MpiTransport(std::shared_ptr<MpiState> state);
  ~MpiTransport() override;
  MpiTransport(const MpiTransport&) = delete;
  MpiTransport& operator=(const MpiTransport&) = delete;

  int rank() const override { return state_->rank; }
  int size() const override { return state_->size; }
  std::string_view backend() const override { return "mpi"; }
  int node_leader() const override { return state_->node_leader; }
  bool is_intact() const override { return !state_->has_failed; }
  void reserve(std::size_t num_requests) override;

  RequestId start_send(int to, std::uint32_t tag, std::span<const std::byte> bytes) override;
  RequestId start_receive(int from, std::uint32_t tag, std::span<std::byte> bytes) override;
  bool test(RequestId request) override;
  void abandon(RequestId request) noexcept override;
  void wait_for_change(Clock::time_point until) override;
  void post_notice(Notice::Kind kind, std::string_view text) noexcept override;
  std::optional<Notice> poll_notice() override;

 private:
  void check(int code, std::string_view what) const { check_mpi(code, what, *state_); }
  RequestId take(int peer, std::uint32_t tag, std::size_t num_bytes);
  void give_back(RequestId request);
  void poll();
  void complete(std::size_t slot, const MPI_Status& status, bool has_status_error);
  void receive_notice();
  void complete_notice(const MPI_Status& status, bool has_status_error);
  void flush_notices();
  [[noreturn]] void fail_message(const MpiMessage& message) const;
  MpiMessage& message(RequestId request) { return messages_[static_cast<std::size_t>(request)]; }

  std::shared_ptr<MpiState> state_;
  MPI_Comm data_ = MPI_COMM_NULL;
  MPI_Comm notices_ = MPI_COMM_NULL;
  // Slot 0 is the next notice; a request's id is its slot.
  std::vector<MpiMessage> messages_;
  std::vector<MPI_Request> requests_;
  std::vector<int> ended_;
  std::vector<MPI_Status> statuses_;
  std::vector<RequestId> free_;
  std::size_t num_slots_ = 1;  // those beyond are free
  std::uint64_t num_polls_ = 0;
  std::uint64_t notice_polls_ = 0;  // when a notice was last asked for
  std::uint64_t num_changes_ = 0;
  std::uint64_t seen_changes_ = 0;
  std::array<char, kMaxNoticeBytes> notice_text_{};
  std::deque<Notice> received_notices_;
  std::list<std::pair<std::string, std::vector<MPI_Request>>> posted_notices_;
  std::optional<Clock::time_point> abandon_end_;
};

MpiTransport::MpiTransport(std::shared_ptr<MpiState> state)
    : state_(std::move(state)),
      messages_(1),
      requests_(1, MPI_REQUEST_NULL),
      ended_(1),
      statuses_(1) {
  for (MPI_Comm* copy : {&data_, &notices_}) {
    check(watched(*state_, "MPI_Comm_dup", [&] { return MPI_Comm_dup(MPI_COMM_WORLD, copy); }),
          "MPI_Comm_dup");
  }
  check(MPI_Comm_set_errhandler(data_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check(MPI_Comm_set_errhandler(notices_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  int* largest_tag = nullptr;
  int is_set = 0;
  check(MPI_Comm_get_attr(data_, MPI_TAG_UB, static_cast<void*>(&largest_tag), &is_set),
        "MPI_Comm_get_attr");
  ULMUS_CHECK(is_set != 0 && *largest_tag >= (1 << kTagBits) - 1,
              "this MPI has too few message tags");
  receive_notice();
}

MpiTransport::~MpiTransport() {
  for (std::size_t slot = 1; slot < num_slots_; ++slot) {
    if (!messages_[slot].is_free) abandon(static_cast<RequestId>(slot));
  }
  log_mpi(MPI_Cancel(requests_.data()), "MPI_Cancel", *state_);
  flush_notices();
  if (state_->has_failed) return;
  log_mpi(
      watched(*state_, "MPI_Wait", [&] { return MPI_Wait(requests_.data(), MPI_STATUS_IGNORE); }),
      "MPI_Wait", *state_);
  for (MPI_Comm* copy : {&notices_, &data_}) {
    log_mpi(watched(*state_, "MPI_Comm_free", [&] { return MPI_Comm_free(copy); }), "MPI_Comm_free",
            *state_);
  }
}

/// Everybody has asked for what was posted, unless something has failed.
void MpiTransport::flush_notices() {
  const Clock::time_point end = Clock::now() + kFlushTime;
  for (auto& [text, requests] : posted_notices_) {
    for (int is_done = 0; is_done == 0 && !state_->has_failed;) {
      log_mpi(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &is_done,
                          MPI_STATUSES_IGNORE),
              "MPI_Testall", *state_);
      if (is_done == 0 && Clock::now() >= end) state_->has_failed = true;
    }
  }
}

void MpiTransport::reserve(std::size_t num_requests) {
  const std::size_t begin = messages_.size();
  const std::size_t end = num_requests + 1;
  if (end <= begin) return;
  // Operations come one by one: at least twice as many, so that all together cost little.
  const std::size_t size = std::max(end, 2 * begin);
  free_.reserve(size);
  messages_.resize(size);
  requests_.resize(size, MPI_REQUEST_NULL);
  ended_.resize(size);
  statuses_.resize(size);
  // Below those that are free already: low slots are taken first, since poll() looks at all up to
  // the highest that is in use.
  std::vector<RequestId> added(size - begin);
  std::iota(added.rbegin(), added.rend(), static_cast<RequestId>(begin));
  free_.insert(free_.begin(), added.begin(), added.end());
}

RequestId MpiTransport::take(int peer, std::uint32_t tag, std::size_t num_bytes) {
  ULMUS_CHECK(0 <= peer && peer < size() && tag < (1U << kTagBits) && num_bytes <= kMaxMessageBytes,
              "a message of ", num_bytes, " bytes with tag ", tag, " to or from rank ", peer,
              " of ", size());
  if (free_.empty()) reserve(messages_.size());
  const RequestId request = free_.back();
  free_.pop_back();
  message(request) = {.peer = peer, .tag = tag, .num_bytes = num_bytes, .is_free = false};
  num_slots_ = std::max(num_slots_, static_cast<std::size_t>(request) + 1);
  return request;
}

void MpiTransport::give_back(RequestId request) {
  message(request).is_free = true;
  free_.push_back(request);
  while (num_slots_ > 1 && messages_[num_slots_ - 1].is_free) {
    --num_slots_;
  }
}

RequestId MpiTransport::start_send(int to, std::uint32_t tag, std::span<const std::byte> bytes) {
  const RequestId request = take(to, tag, bytes.size());
  check(MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, to, static_cast<int>(tag),
                  data_, &requests_[static_cast<std::size_t>(request)]),
        "MPI_Isend");
  return request;
}

RequestId MpiTransport::start_receive(int from, std::uint32_t tag, std::span<std::byte> bytes) {
  const RequestId request = take(from, tag, bytes.size());
  message(request).is_receive = true;
  check(MPI_Irecv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, from,
                  static_cast<int>(tag), data_, &requests_[static_cast<std::size_t>(request)]),
        "MPI_Irecv");
  return request;
}

/// Looks at all messages once; one call of the library advances them all.
void MpiTransport::poll() {
  ++num_polls_;
  int num_ended = 0;
  const int code = MPI_Testsome(static_cast<int>(num_slots_), requests_.data(), &num_ended,
                                ended_.data(), statuses_.data());
  const bool has_status_error = code == MPI_ERR_IN_STATUS;
  if (!has_status_error) check(code, "MPI_Testsome");
  for (int i = 0; i < num_ended; ++i) {  // MPI_UNDEFINED, when nothing is pending, is negative
    const auto idx = static_cast<std::size_t>(i);
    complete(static_cast<std::size_t>(ended_[idx]), statuses_[idx], has_status_error);
  }
}

void MpiTransport::complete(std::size_t slot, const MPI_Status& status, bool has_status_error) {
  ++num_changes_;
  if (slot == 0) return complete_notice(status, has_status_error);
  MpiMessage& ended = messages_[slot];
  ended.is_done = true;
  if (has_status_error) ended.error = status.MPI_ERROR;
  if (!ended.is_receive) return;
  int num_bytes = 0;
  check(MPI_Get_count(&status, MPI_BYTE, &num_bytes), "MPI_Get_count");
  ended.received_bytes = num_bytes;
}

bool MpiTransport::test(RequestId request) {
  MpiMessage& asked = message(request);
  // Asked again without a look in between: look now. A round over all requests looks once.
  if (!asked.is_done && asked.seen_polls == num_polls_) poll();
  asked.seen_polls = num_polls_;
  if (!asked.is_done) return false;
  const bool has_length =
      !asked.is_receive || asked.received_bytes == static_cast<std::int64_t>(asked.num_bytes);
  if (asked.error != MPI_SUCCESS || !has_length) fail_message(asked);
  give_back(request);
  return true;
}

void MpiTransport::fail_message(const MpiMessage& message) const {
  int error_class = MPI_SUCCESS;
  MPI_Error_class(message.error, &error_class);
  state_->has_failed = true;
  if (message.error == MPI_SUCCESS || error_class == MPI_ERR_TRUNCATE) {
    fail("rank ", message.peer, " sends ", message.received_bytes, " bytes, rank ", rank(),
         " expects ", message.num_bytes, " (", Tag::unpacked(message.tag), ")");
  }
  fail(
      mpi_error_text(message.error, concat("message ", message.is_receive ? "from" : "to", " rank ",
                                           message.peer, " (", Tag::unpacked(message.tag), ")")));
}

void MpiTransport::abandon(RequestId request) noexcept {
  const auto slot = static_cast<std::size_t>(request);
  state_->has_failed = true;
  if (!abandon_end_) abandon_end_ = Clock::now() + kAbandonTime;
  if (messages_[slot].is_receive && !messages_[slot].is_done) MPI_Cancel(&requests_[slot]);
  while (!messages_[slot].is_done) {
    int is_done = 0;
    if (MPI_Test(&requests_[slot], &is_done, MPI_STATUS_IGNORE) != MPI_SUCCESS) break;
    messages_[slot].is_done = is_done != 0;
    if (is_done == 0 && Clock::now() >= *abandon_end_) return;  // its slot is never used again
  }
  give_back(request);
}

void MpiTransport::wait_for_change(Clock::time_point until) {
  for (int spin = 0; num_changes_ == seen_changes_; ++spin) {
    poll();
    if (num_changes_ != seen_changes_ || Clock::now() >= until) break;
    if (spin >= kSpins) sched_yield();
  }
  seen_changes_ = num_changes_;
}

void MpiTransport::receive_notice() {
  check(MPI_Irecv(notice_text_.data(), static_cast<int>(notice_text_.size()), MPI_CHAR,
                  MPI_ANY_SOURCE, MPI_ANY_TAG, notices_, requests_.data()),
        "MPI_Irecv");
}

void MpiTransport::complete_notice(const MPI_Status& status, bool has_status_error) {
  if (has_status_error) check(status.MPI_ERROR, "a notice");
  const bool is_known = 0 <= status.MPI_TAG && status.MPI_TAG < Notice::kNumKinds &&
                        0 <= status.MPI_SOURCE && status.MPI_SOURCE < size();
  if (!is_known || status.MPI_TAG != static_cast<int>(Notice::Kind::kEnding)) {
    state_->has_failed = true;
  }
  ULMUS_CHECK(is_known, "a notice with tag ", status.MPI_TAG, " from rank ", status.MPI_SOURCE,
              " of ", size());
  int length = 0;
  check(MPI_Get_count(&status, MPI_CHAR, &length), "MPI_Get_count");
  received_notices_.push_back(
      {.kind = static_cast<Notice::Kind>(status.MPI_TAG),
       .from = status.MPI_SOURCE,
       .text = std::string(notice_text_.data(), static_cast<std::size_t>(length))});
  receive_notice();
}

void MpiTransport::post_notice(Notice::Kind kind, std::string_view text) noexcept {
  if (kind != Notice::Kind::kEnding) state_->has_failed = true;
  try {
    // Kept to the end: whether they arrive is not waited for.
    auto& [kept, requests] = posted_notices_.emplace_back(
        text.substr(0, kMaxNoticeBytes),
        std::vector<MPI_Request>(static_cast<std::size_t>(size()), MPI_REQUEST_NULL));
    for (int other = 0; other < size(); ++other) {
      if (other == rank()) continue;
      // An error with one rank must not keep the others from hearing.
      MPI_Isend(kept.data(), static_cast<int>(kept.size()), MPI_CHAR, other, static_cast<int>(kind),
                notices_, &requests[static_cast<std::size_t>(other)]);
    }
  } catch (...) {
    return;  // out of memory: the others learn of it by their deadline
  }
}

std::optional<Notice> MpiTransport::poll_notice() {
  if (received_notices_.empty() && notice_polls_ == num_polls_) poll();
  notice_polls_ = num_polls_;
  if (received_notices_.empty()) return std::nullopt;
  Notice notice = std::move(received_notices_.front());
  received_notices_.pop_front();
  return notice;
}

}  // namespace

std::unique_ptr<Transport> make_mpi_transport(std::shared_ptr<MpiState> state) {
  return std::make_unique<MpiTransport>(std::move(state));
}

}  // namespace ulmus::comm
