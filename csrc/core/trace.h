// `Trace`: what one pipeline does, station by station, while somebody records it. Any thread may
// record; each writes to blocks of its own, so that no lock is on the way of a request. While
// nobody records, a station costs one look at a number that does not change.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/event.h"

namespace hami {

enum class TraceKind : uint8_t {
  kSubmit,    // a dict was read; `batch` is the id of the request that this one is an element of
  kRefuse,    // the request was not let in
  kDispatch,  // it was decided that the request goes to `node`, where its stay begins at `end`
  kBatch,     // from its arrival in the queue of the node to the start of its run
  kForward,   // a run: `value` rows; on the thread of `instance`, or in place where that is -1
  kNotify,    // the items of the run were answered or carried on
  kHold,      // the whole run of an item by a backend that answers each when it likes
  kGilWait,   // for the lock of the interpreter
  kPython,    // code that holds that lock
  kSettle,    // the stay at the node has ended
  kPartial,   // a partial result went out
  kAnswer,    // `detail` is a TraceOutcome, `value` how many requests are left inside
  kReturn,    // the answer was written into the caller's dict
  kQueue,     // `value` items wait in the queue of the node
};
inline constexpr size_t kNumTraceKinds = 14;
const char* to_string(TraceKind kind) noexcept;

enum class TraceOutcome : uint8_t { kOk, kError, kDeadlineExceeded, kCancelled, kClosed };
inline constexpr size_t kNumTraceOutcomes = 5;
const char* to_string(TraceOutcome outcome) noexcept;

// What happened from `begin` to `end`, or at `begin` where both are the same.
struct TraceRecord {
  TraceKind kind = TraceKind::kSubmit;
  uint8_t detail = 0;
  int32_t node = -1;
  int32_t instance = -1;
  TimePoint begin{};
  TimePoint end = begin;
  uint64_t request = 0;
  uint64_t batch = 0;
  int64_t value = 0;
};
static_assert(std::is_same_v<Clock::period, std::nano> && sizeof(TraceRecord) == 56 &&
              std::is_trivially_copyable_v<TraceRecord>);

struct TraceRecording {
  struct Thread {
    uint64_t number = 0;    // no other thread of the process has it, ever
    int64_t native_id = 0;  // the kernel's, which it may give to another thread later
    uint64_t handle = 0;    // that of POSIX, by which CUPTI knows it
    std::string name;
    std::vector<TraceRecord> records;  // in the order in which they were written
  };
  std::vector<Thread> threads;
  int64_t num_dropped = 0;  // records for which there was no room
  TimePoint begin;
  TimePoint end;
};

class Trace {
 public:
  // Names the nodes by their numbers. REQUIRES: before the first record.
  void set_nodes(std::vector<std::string> nodes) { nodes_ = std::move(nodes); }
  const std::vector<std::string>& nodes() const noexcept { return nodes_; }
  // -1 for a name that is none of them.
  int32_t find_node(std::string_view name) const noexcept;

  bool is_on() const noexcept { return session_.load(std::memory_order_relaxed) != 0; }
  // For a request or a batch. Ids go on from one recording to the next, in which the ends of what
  // had begun before are so known for what they are.
  uint64_t new_id() noexcept { return last_id_.fetch_add(1, std::memory_order_relaxed) + 1; }
  // Does nothing while nobody records.
  void record(const TraceRecord& record) noexcept;

  // Begins to record, up to about `max_records`, rounded up to whole blocks. False when somebody
  // records already.
  bool start(size_t max_records);
  // Ends it. Nothing when nobody records.
  std::optional<TraceRecording> stop();

  // One thread's share of the room. Others see what was written when `num_records` has grown.
  struct Block {
    static constexpr size_t kCapacity = 256;
    Block();
    const uint64_t thread;
    const int64_t native_id;
    const uint64_t handle;
    std::string thread_name;
    std::atomic<size_t> num_records{0};
    std::array<TraceRecord, kCapacity> records;
  };

 private:
  Block* block_of_this_thread(uint64_t session);
  std::shared_ptr<Block> add_block(uint64_t session);

  std::vector<std::string> nodes_;
  // The number of the recording, which no other recording of the process has; 0 while there is
  // none. Every station looks at it, so it shares no line of the cache with what changes.
  alignas(64) std::atomic<uint64_t> session_{0};
  std::atomic<uint64_t> last_id_{0};
  std::atomic<bool> is_full_{false};
  std::atomic<int64_t> num_dropped_{0};

  std::mutex mutex_;  // of the rest
  size_t max_blocks_ = 0;
  std::vector<std::shared_ptr<Block>> blocks_;
  TimePoint begin_{};
};

}  // namespace hami
