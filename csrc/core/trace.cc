#include "core/trace.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace hami {
namespace {

constexpr std::array<const char*, kNumTraceKinds> kKinds = {
    "submit",   "refuse", "dispatch", "batch",   "forward", "notify", "hold",
    "gil_wait", "python", "settle",   "partial", "answer",  "return", "queue"};
constexpr std::array<const char*, kNumTraceOutcomes> kOutcomes = {
    "ok", "error", "deadline_exceeded", "cancelled", "closed"};

uint64_t number_of_this_thread() noexcept {
  static std::atomic<uint64_t> last{0};
  thread_local const uint64_t number = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return number;
}

// What this thread writes to now, of each recording that it takes part in: one for each pipeline,
// so rarely more than one.
struct Place {
  uint64_t session = 0;
  std::shared_ptr<Trace::Block> block;
};
thread_local std::vector<Place> places;

}  // namespace

const char* to_string(TraceKind kind) noexcept { return kKinds[static_cast<size_t>(kind)]; }
const char* to_string(TraceOutcome outcome) noexcept {
  return kOutcomes[static_cast<size_t>(outcome)];
}

Trace::Block::Block()
    : thread(number_of_this_thread()), native_id(syscall(SYS_gettid)), handle(pthread_self()) {
  std::array<char, 16> name{};
  if (pthread_getname_np(pthread_self(), name.data(), name.size()) == 0) thread_name = name.data();
}

int32_t Trace::find_node(std::string_view name) const noexcept {
  const auto found = std::ranges::find(nodes_, name);
  return found == nodes_.end() ? -1 : static_cast<int32_t>(found - nodes_.begin());
}

void Trace::record(const TraceRecord& record) noexcept {
  const uint64_t session = session_.load(std::memory_order_relaxed);
  if (session == 0) return;
  Block* block = nullptr;
  try {
    block = block_of_this_thread(session);
  } catch (const std::bad_alloc&) {  // a recording is not worth a request
  }
  if (block == nullptr) {
    num_dropped_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  // When the recording has ended meanwhile, nobody looks at this place any more.
  const size_t index = block->num_records.load(std::memory_order_relaxed);
  block->records[index] = record;
  block->num_records.store(index + 1, std::memory_order_release);
}

Trace::Block* Trace::block_of_this_thread(uint64_t session) {
  const auto place = std::ranges::find(places, session, &Place::session);
  if (place != places.end()) {
    Block& block = *place->block;
    if (block.num_records.load(std::memory_order_relaxed) < Block::kCapacity) return &block;
    auto next = add_block(session);
    if (next == nullptr) return nullptr;
    place->block = std::move(next);
    return place->block.get();
  }
  auto first = add_block(session);
  if (first == nullptr) return nullptr;
  // Those of recordings that have ended; this thread alone still has them.
  std::erase_if(places, [](const Place& old) { return old.block.use_count() == 1; });
  return places.emplace_back(session, std::move(first)).block.get();
}

std::shared_ptr<Trace::Block> Trace::add_block(uint64_t session) {
  if (is_full_.load(std::memory_order_relaxed)) return nullptr;
  const std::lock_guard lock(mutex_);
  if (session_.load(std::memory_order_relaxed) != session) return nullptr;
  if (blocks_.size() >= max_blocks_) {
    is_full_.store(true, std::memory_order_relaxed);
    return nullptr;
  }
  return blocks_.emplace_back(std::make_shared<Block>());
}

bool Trace::start(size_t max_records) {
  static std::atomic<uint64_t> last_session{0};
  const std::lock_guard lock(mutex_);
  if (is_on()) return false;
  max_blocks_ = std::max<size_t>(1, (max_records + Block::kCapacity - 1) / Block::kCapacity);
  is_full_.store(false, std::memory_order_relaxed);
  num_dropped_.store(0, std::memory_order_relaxed);
  begin_ = Clock::now();
  session_.store(last_session.fetch_add(1, std::memory_order_relaxed) + 1);
  return true;
}

std::optional<TraceRecording> Trace::stop() {
  std::vector<std::shared_ptr<Block>> blocks;
  TraceRecording recording;
  {
    const std::lock_guard lock(mutex_);
    if (!is_on()) return {};
    session_.store(0);
    recording.begin = begin_;
    blocks.swap(blocks_);
  }
  recording.end = Clock::now();
  recording.num_dropped = num_dropped_.load(std::memory_order_relaxed);
  // A thread takes its blocks one after another, so that its records stay in order.
  for (const auto& block : blocks) {
    auto& threads = recording.threads;
    auto thread = std::ranges::find(threads, block->thread, &TraceRecording::Thread::number);
    if (thread == threads.end()) {
      threads.push_back({block->thread, block->native_id, block->handle, block->thread_name, {}});
      thread = threads.end() - 1;
    }
    const auto records = block->records.begin();
    const auto count =
        static_cast<std::ptrdiff_t>(block->num_records.load(std::memory_order_acquire));
    thread->records.insert(thread->records.end(), records, records + count);
  }
  return recording;
}

}  // namespace hami
