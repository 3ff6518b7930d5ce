#include "bind/caller_turn.h"

#include <algorithm>
#include <deque>

#include "bind/fork_guard.h"
#include "bind/gil.h"
#include "core/event.h"

namespace hami::bind {
namespace {

using std::chrono::microseconds;

// Long against the 50 microseconds that it takes to wake the next thread; short enough for forty
// callers to have their turns within a few hundredths of a second.
constexpr Duration kTurn = microseconds(300);
// How long the next thread needs to take the GIL, if there is one.
constexpr Duration kHandOver = microseconds(150);
// Looking at the clock costs as much as a tenth of a call.
constexpr int kCallsPerLook = 8;

struct Waiting {
  Event granted;
};

// Guarded by the GIL.
struct Turns {
  const void* holder = nullptr;  // the thread that has the turn
  TimePoint start{};             // of its turn
  int num_calls = 0;             // since the last look at the clock
  uint64_t num_turns = 0;
  std::deque<Waiting*> queue;  // the one that has waited longest first
  // Threads may be waiting for the GIL itself: somebody came from outside of the queue. They are
  // let in first, and join the queue when their turn is over.
  bool has_strangers = false;
  ForkGuard birth;

  void begin(const void* thread, TimePoint now) {
    holder = thread;
    start = now;
    num_calls = 0;
    ++num_turns;
  }

  void grant_next() {
    Waiting* next = queue.front();
    queue.pop_front();
    next->granted.set();
  }
};

Turns& turns() {
  static Turns all;
  // The waiting threads of the parent do not exist here.
  if (all.birth.is_in_child()) all = Turns();
  return all;
}

void wait(Waiting& self, TimePoint deadline) {
  const GilRelease no_gil;
  while (self.granted.wait(deadline) == Event::Wake::kInterrupted) {
  }
}

// Gives the GIL away until this thread has the turn again. Nobody is waited for in vain: a thread
// that had the turn may never call again.
void pass_on() {
  Turns& all = turns();
  const uint64_t own_turn = all.num_turns;
  const auto patience = [&] { return 2 * kTurn * static_cast<int64_t>(all.queue.size() + 2); };
  Waiting self;
  all.queue.push_back(&self);
  const bool is_known = !all.has_strangers && all.queue.front() != &self;
  if (is_known) all.grant_next();
  wait(self, Clock::now() + (is_known ? patience() : kHandOver));
  if (!is_known && !self.granted.is_set()) {
    const bool has_come = all.num_turns != own_turn;
    if (!has_come) all.has_strangers = false;
    const bool is_next = all.queue.front() == &self;
    if (!has_come && !is_next) all.grant_next();
    if (has_come || !is_next) wait(self, Clock::now() + patience());
  }
  if (!self.granted.is_set()) std::erase(all.queue, &self);
}

}  // namespace

void CallerTurn::end_call() {
#ifndef Py_GIL_DISABLED
  thread_local const char this_thread = 0;
  Turns& all = turns();
  if (all.holder != &this_thread) {
    all.has_strangers |= all.holder != nullptr;
    all.begin(&this_thread, Clock::now());
    return;
  }
  if (++all.num_calls < kCallsPerLook) return;
  all.num_calls = 0;
  if (Clock::now() - all.start < kTurn) return;
  if (all.has_strangers || !all.queue.empty()) pass_on();
  all.begin(&this_thread, Clock::now());
#endif
}

}  // namespace hami::bind
