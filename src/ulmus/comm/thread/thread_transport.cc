#include "ulmus/comm/thread/thread_transport.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <utility>

#include "ulmus/base/check.h"
#include "ulmus/comm/tag.h"

namespace ulmus::comm {

namespace {

/// One end of a message. A send is linked in the mailbox of its receiver until that takes it.
struct ThreadMessage {
  int peer = 0;
  std::uint32_t tag = 0;
  std::size_t num_bytes = 0;
  const std::byte* from = nullptr;  // of a send
  std::byte* to = nullptr;          // of a receive
  bool is_send = false;
  bool is_linked = false;         // of a send: under the mutex of its mailbox
  std::atomic<bool> done{false};  // the last that the other end writes
  ThreadMessage* next = nullptr;
  ThreadMessage* previous = nullptr;
};

/// First come, first served.
class MessageList {
 public:
  void push(ThreadMessage& message) {
    message.previous = last_;
    message.next = nullptr;
    (last_ == nullptr ? first_ : last_->next) = &message;
    last_ = &message;
  }
  void remove(ThreadMessage& message) {
    (message.previous == nullptr ? first_ : message.previous->next) = message.next;
    (message.next == nullptr ? last_ : message.next->previous) = message.previous;
  }
  ThreadMessage* first() const { return first_; }

 private:
  ThreadMessage* first_ = nullptr;
  ThreadMessage* last_ = nullptr;
};

/// What other ranks leave for one rank.
struct Mailbox {
  explicit Mailbox(int size) : sends(static_cast<std::size_t>(size)) {}
  std::mutex mutex;
  std::condition_variable changed;
  std::uint64_t num_changes = 0;
  std::vector<MessageList> sends;  // by sender: not taken yet
  std::deque<Notice> notices;
  std::atomic<std::uint64_t> num_notices{0};  // so far; lets its rank look without the mutex

  /// Under the mutex.
  void announce() {
    ++num_changes;
    changed.notify_one();  // only its rank waits on it
  }
};

/// Outlives every transport that knows it.
struct Hub {
  explicit Hub(int size) {
    for (int rank = 0; rank < size; ++rank) {
      mailboxes.emplace_back(size);
    }
  }
  Mailbox& of(int rank) { return mailboxes[static_cast<std::size_t>(rank)]; }
  std::deque<Mailbox> mailboxes;
};

class ThreadTransport final : public Transport {
 public:
  ThreadTransport(std::shared_ptr<Hub> hub, int rank)
      : hub_(std::move(hub)),
        rank_(rank),
        size_(static_cast<int>(hub_->mailboxes.size())),
        own_(hub_->of(rank)),
        receives_(static_cast<std::size_t>(size_)) {}
  ~ThreadTransport() override {
    for (std::size_t id = 0; id < in_use_.size(); ++id) {
      if (in_use_[id]) abandon(static_cast<RequestId>(id));
    }
  }
  ThreadTransport(const ThreadTransport&) = delete;
  ThreadTransport& operator=(const ThreadTransport&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string_view backend() const override { return "thread"; }
  int node_leader() const override { return 0; }
  void reserve(std::size_t num_requests) override;

  RequestId start_send(int to, std::uint32_t tag, std::span<const std::byte> bytes) override;
  RequestId start_receive(int from, std::uint32_t tag, std::span<std::byte> bytes) override;
  bool test(RequestId request) override;
  void abandon(RequestId request) noexcept override;
  void wait_for_change(Clock::time_point until) override;
  void post_notice(Notice::Kind kind, std::string_view text) noexcept override;
  std::optional<Notice> poll_notice() override;

 private:
  RequestId take(int peer, std::uint32_t tag, std::size_t num_bytes);
  void give_back(RequestId request);
  ThreadMessage& message(RequestId request) { return messages_[static_cast<std::size_t>(request)]; }
  bool take_one(int sender);
  void check_pair(const ThreadMessage& send, const ThreadMessage& receive) const;

  std::shared_ptr<Hub> hub_;
  int rank_;
  int size_;
  Mailbox& own_;
  std::vector<MessageList> receives_;   // by sender, in the order in which they were posted
  std::deque<ThreadMessage> messages_;  // peers hold pointers to them, so they stay where they are
  std::vector<bool> in_use_;
  std::vector<RequestId> free_;
  std::uint64_t seen_changes_ = 0;
  std::uint64_t seen_notices_ = 0;
};

void ThreadTransport::reserve(std::size_t num_requests) {
  const std::size_t begin = messages_.size();
  if (num_requests <= begin) return;
  // Operations come one by one: at least twice as many, so that all together cost little.
  const std::size_t size = std::max(num_requests, 2 * begin);
  free_.reserve(size);
  in_use_.resize(size);
  while (messages_.size() < size) {
    free_.push_back(static_cast<RequestId>(messages_.size()));
    messages_.emplace_back();
  }
}

RequestId ThreadTransport::take(int peer, std::uint32_t tag, std::size_t num_bytes) {
  ULMUS_CHECK(0 <= peer && peer < size_ && tag < (1U << kTagBits) && num_bytes <= kMaxMessageBytes,
              "a message of ", num_bytes, " bytes with tag ", tag, " to or from rank ", peer,
              " of ", size_);
  if (free_.empty()) reserve(messages_.size() + 1);
  const RequestId request = free_.back();
  free_.pop_back();
  in_use_[static_cast<std::size_t>(request)] = true;
  ThreadMessage& taken = message(request);
  taken.peer = peer;
  taken.tag = tag;
  taken.num_bytes = num_bytes;
  taken.done.store(false, std::memory_order_relaxed);
  return request;
}

void ThreadTransport::give_back(RequestId request) {
  in_use_[static_cast<std::size_t>(request)] = false;
  free_.push_back(request);
}

RequestId ThreadTransport::start_send(int to, std::uint32_t tag, std::span<const std::byte> bytes) {
  const RequestId request = take(to, tag, bytes.size());
  ThreadMessage& send = message(request);
  send.is_send = true;
  send.from = bytes.data();
  Mailbox& mailbox = hub_->of(to);
  const std::lock_guard lock(mailbox.mutex);
  send.is_linked = true;
  mailbox.sends[static_cast<std::size_t>(rank_)].push(send);
  mailbox.announce();
  return request;
}

RequestId ThreadTransport::start_receive(int from, std::uint32_t tag, std::span<std::byte> bytes) {
  const RequestId request = take(from, tag, bytes.size());
  ThreadMessage& receive = message(request);
  receive.is_send = false;
  receive.to = bytes.data();
  receives_[static_cast<std::size_t>(from)].push(receive);
  return request;
}

bool ThreadTransport::test(RequestId request) {
  ThreadMessage& asked = message(request);
  if (!asked.is_send && !asked.done.load(std::memory_order_relaxed)) {
    while (take_one(asked.peer)) {
    }
  }
  if (!asked.done.load(std::memory_order_acquire)) return false;
  give_back(request);
  return true;
}

void ThreadTransport::check_pair(const ThreadMessage& send, const ThreadMessage& receive) const {
  const Tag sent = Tag::unpacked(send.tag);
  const Tag expected = Tag::unpacked(receive.tag);
  if (sent.kind != expected.kind) {
    fail("rank ", receive.peer, " is in ", sent, ", rank ", rank_, " in ", expected);
  }
  if (send.num_bytes != receive.num_bytes) {
    fail("rank ", receive.peer, " sends ", send.num_bytes, " bytes, rank ", rank_, " expects ",
         receive.num_bytes, " (", sent, ")");
  }
}

/// The first receive from `sender` whose message is there: copies it.
bool ThreadTransport::take_one(int sender) {
  const auto idx = static_cast<std::size_t>(sender);
  ThreadMessage* send = nullptr;
  ThreadMessage* receive = nullptr;
  {
    const std::lock_guard lock(own_.mutex);
    for (receive = receives_[idx].first(); receive != nullptr; receive = receive->next) {
      for (send = own_.sends[idx].first(); send != nullptr; send = send->next) {
        if (Tag::operation(send->tag) == Tag::operation(receive->tag)) break;
      }
      if (send != nullptr) break;
    }
    if (send == nullptr) return false;
    check_pair(*send, *receive);
    own_.sends[idx].remove(*send);
    send->is_linked = false;
  }
  receives_[idx].remove(*receive);
  if (send->num_bytes > 0) std::memcpy(receive->to, send->from, send->num_bytes);
  receive->done.store(true, std::memory_order_relaxed);
  send->done.store(true, std::memory_order_release);  // `send` may be gone from here on
  Mailbox& mailbox = hub_->of(sender);
  const std::lock_guard lock(mailbox.mutex);
  mailbox.announce();
  return true;
}

void ThreadTransport::abandon(RequestId request) noexcept {
  ThreadMessage& given_up = message(request);
  if (!given_up.is_send) {
    const bool is_waiting = !given_up.done.load(std::memory_order_relaxed);
    if (is_waiting) receives_[static_cast<std::size_t>(given_up.peer)].remove(given_up);
  } else {
    Mailbox& mailbox = hub_->of(given_up.peer);
    std::unique_lock lock(mailbox.mutex);
    if (given_up.is_linked) {
      mailbox.sends[static_cast<std::size_t>(rank_)].remove(given_up);
      given_up.is_linked = false;
    } else {
      lock.unlock();
      // Taken: the receiver copies right now, or has done so.
      std::unique_lock own_lock(own_.mutex);
      own_.changed.wait(own_lock, [&] { return given_up.done.load(std::memory_order_acquire); });
    }
  }
  give_back(request);
}

void ThreadTransport::wait_for_change(Clock::time_point until) {
  std::unique_lock lock(own_.mutex);
  own_.changed.wait_until(lock, until, [&] { return own_.num_changes != seen_changes_; });
  seen_changes_ = own_.num_changes;
}

void ThreadTransport::post_notice(Notice::Kind kind, std::string_view text) noexcept {
  for (int other = 0; other < size_; ++other) {
    if (other == rank_) continue;
    try {
      Mailbox& mailbox = hub_->of(other);
      const std::lock_guard lock(mailbox.mutex);
      mailbox.notices.push_back(
          {.kind = kind, .from = rank_, .text = std::string(text.substr(0, kMaxNoticeBytes))});
      mailbox.num_notices.fetch_add(1, std::memory_order_release);
      mailbox.announce();
    } catch (...) {
      continue;  // out of memory: that rank learns of it by its deadline
    }
  }
}

std::optional<Notice> ThreadTransport::poll_notice() {
  if (own_.num_notices.load(std::memory_order_acquire) == seen_notices_) return std::nullopt;
  const std::lock_guard lock(own_.mutex);
  Notice notice = std::move(own_.notices.front());
  own_.notices.pop_front();
  ++seen_notices_;
  return notice;
}

}  // namespace

std::vector<std::unique_ptr<Transport>> make_thread_transports(int size) {
  ULMUS_CHECK(size >= 1, "a world of ", size, " ranks");
  const auto hub = std::make_shared<Hub>(size);
  std::vector<std::unique_ptr<Transport>> transports;
  transports.reserve(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    transports.push_back(std::make_unique<ThreadTransport>(hub, rank));
  }
  return transports;
}

}  // namespace ulmus::comm
