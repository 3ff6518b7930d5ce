// The queue between requests: its order, its bound, and waiters that end exactly once.
#include <doctest/doctest.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "core/queue.h"

namespace hami {
namespace {

TEST_SUITE_BEGIN("value_queue");

using Outcome = Queue::Outcome;

// Writes down how it ended; `before_end` runs first.
class Note final : public Queue::Waiter {
 public:
  explicit Note(const void* owner = nullptr, int64_t number = 0) : Waiter(owner) {
    value = Value(number);
  }
  bool is_wanted() const noexcept override { return wanted; }
  void end(Outcome how) noexcept override {
    ++num_ends;
    outcome = how;
    if (on_end) on_end();
  }

  std::atomic<bool> wanted{true};
  std::atomic<int> num_ends{0};
  Outcome outcome = Outcome::kClosed;
  std::function<void()> on_end;
};

Ref<Note> push(Queue& queue, int64_t number, const void* owner = nullptr) {
  auto note = make_ref<Note>(owner, number);
  queue.push(note);
  return note;
}

Ref<Note> pop(Queue& queue, const void* owner = nullptr) {
  auto note = make_ref<Note>(owner, -1);
  queue.pop(note);
  return note;
}

bool is_done(const Ref<Note>& note) {
  return note->num_ends == 1 && note->outcome == Outcome::kDone;
}

TEST_CASE("values leave in the order in which they came") {
  Queue queue(10);
  for (int i = 0; i < 10; ++i) CHECK(is_done(push(queue, i)));
  CHECK(queue.size() == 10);
  for (int i = 0; i < 10; ++i) {
    const auto note = pop(queue);
    CHECK(is_done(note));
    CHECK_FALSE(note->has_waited);
    CHECK(note->value.as_int() == i);
  }
  CHECK(queue.size() == 0);
}

TEST_CASE("a push into a full queue waits, and the queue never holds more than its capacity") {
  Queue queue(2);
  std::vector<Ref<Note>> pushes;
  for (int i = 0; i < 5; ++i) pushes.push_back(push(queue, i));
  CHECK(queue.size() == 2);
  CHECK(is_done(pushes[1]));
  CHECK(pushes[2]->num_ends == 0);
  CHECK(pushes[2]->has_waited);
  for (int i = 0; i < 5; ++i) {
    CHECK(pop(queue)->value.as_int() == i);
    CHECK(queue.size() == static_cast<size_t>(i < 3 ? 2 : 4 - i));
  }
  for (const auto& one : pushes) CHECK(is_done(one));
}

TEST_CASE("those who wait to pop are served first come, first served") {
  Queue queue(1);
  std::vector<Ref<Note>> pops;
  for (int i = 0; i < 3; ++i) pops.push_back(pop(queue));
  for (int i = 0; i < 3; ++i) {
    CHECK(pops[static_cast<size_t>(i)]->num_ends == 0);
    CHECK(is_done(push(queue, i)));
    CHECK(is_done(pops[static_cast<size_t>(i)]));
    CHECK(pops[static_cast<size_t>(i)]->value.as_int() == i);
  }
  CHECK(queue.size() == 0);
}

TEST_CASE("a waiter that nobody wants takes nothing, and the next one gets its turn") {
  Queue queue(1);
  const auto gone = pop(queue);
  const auto next = pop(queue);
  gone->wanted = false;
  push(queue, 7);
  CHECK(gone->outcome == Outcome::kCalledOff);
  CHECK(gone->num_ends == 1);
  CHECK(gone->value.as_int() == -1);
  CHECK(is_done(next));
  CHECK(next->value.as_int() == 7);
}

TEST_CASE("a push that nobody wants puts nothing") {
  Queue queue(1);
  push(queue, 1);
  const auto gone = push(queue, 2);
  const auto next = push(queue, 3);
  gone->wanted = false;
  CHECK(pop(queue)->value.as_int() == 1);
  CHECK(gone->outcome == Outcome::kCalledOff);
  CHECK(pop(queue)->value.as_int() == 3);
  CHECK(is_done(next));
}

TEST_CASE("calling off ends all waiters of one owner and nobody else") {
  Queue queue(1);
  const int mine = 0;
  const int other = 0;
  const auto first = pop(queue, &mine);
  const auto second = pop(queue, &other);
  const auto third = pop(queue, &mine);
  queue.call_off(&mine);
  CHECK(first->outcome == Outcome::kCalledOff);
  CHECK(third->outcome == Outcome::kCalledOff);
  CHECK(second->num_ends == 0);
  push(queue, 5);
  CHECK(is_done(second));
  queue.call_off(&mine);
  queue.call_off(&other);
  CHECK(first->num_ends + second->num_ends + third->num_ends == 3);
}

TEST_CASE("calling off the unwanted leaves the wanted in their order") {
  Queue queue(1);
  std::vector<Ref<Note>> pops;
  for (int i = 0; i < 4; ++i) pops.push_back(pop(queue));
  pops[0]->wanted = pops[2]->wanted = false;
  queue.call_off_unwanted();
  CHECK(pops[0]->num_ends + pops[2]->num_ends == 2);
  CHECK(pops[1]->num_ends + pops[3]->num_ends == 0);
  push(queue, 1);
  push(queue, 3);
  CHECK(pops[1]->value.as_int() == 1);
  CHECK(pops[3]->value.as_int() == 3);
}

TEST_CASE("close ends who waits, drops what waits, and refuses who comes") {
  Queue queue(1);
  const auto gone = make_ref<Note>();
  gone->value = Value(Ref<List>(make_ref<List>()));
  queue.push(gone);
  const auto waits = push(queue, 2);
  queue.close();
  CHECK(waits->outcome == Outcome::kClosed);
  CHECK(waits->num_ends == 1);
  CHECK(queue.size() == 0);
  CHECK(push(queue, 3)->outcome == Outcome::kClosed);
  CHECK(pop(queue)->outcome == Outcome::kClosed);
  queue.close();
  CHECK(waits->num_ends == 1);
}

TEST_CASE("a waiter that ends may use the queue, since no lock is held") {
  Queue queue(1);
  const auto first = make_ref<Note>();
  const auto second = make_ref<Note>();
  first->on_end = [&] { queue.pop(second); };
  queue.pop(first);
  push(queue, 1);
  CHECK(is_done(first));
  CHECK(second->num_ends == 0);
  push(queue, 2);
  CHECK(second->value.as_int() == 2);
  const auto last = make_ref<Note>();
  last->on_end = [&] { queue.close(); };
  queue.pop(last);
  queue.close();
  CHECK(last->num_ends == 1);
}

// Four threads push and four pop, some of them give up; every value has exactly one fate.
TEST_CASE("under threads that give up no value is lost and none comes twice") {
  constexpr int kNumPerThread = 5000;
  Queue queue(3);
  std::mutex mutex;
  std::multiset<int64_t> put;
  std::multiset<int64_t> taken;
  std::atomic<int> num_ends{0};
  std::vector<std::vector<Ref<Note>>> notes(8);
  const auto work = [&](size_t index) {
    for (int i = 0; i < kNumPerThread; ++i) {
      const int64_t number = static_cast<int64_t>(index) * kNumPerThread + i;
      auto note = make_ref<Note>(&notes[index], number);
      note->on_end = [&, index, self = note.get()] {
        ++num_ends;
        if (self->outcome != Outcome::kDone) return;
        const std::lock_guard lock(mutex);
        (index % 2 == 0 ? put : taken).insert(self->value.as_int());
      };
      notes[index].push_back(note);
      index % 2 == 0 ? queue.push(note) : queue.pop(note);
      if (i % 7 == 0) note->wanted = false;
      if (i % 50 == 0) queue.call_off(&notes[index]);
      if (i % 500 == 0) queue.call_off_unwanted();
    }
  };
  std::vector<std::thread> threads;
  for (size_t index = 0; index < notes.size(); ++index) threads.emplace_back(work, index);
  for (std::thread& thread : threads) thread.join();
  for (const auto& some : notes) queue.call_off(&some);
  CHECK(num_ends == 8 * kNumPerThread);
  while (queue.size() > 0) taken.insert(pop(queue)->value.as_int());
  CHECK(put == taken);
  CHECK(std::set<int64_t>(put.begin(), put.end()).size() == put.size());
}

TEST_SUITE_END();

}  // namespace
}  // namespace hami
