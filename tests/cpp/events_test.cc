// Waiting and waking.
#include <doctest/doctest.h>
#include <pthread.h>

#include <csignal>
#include <functional>
#include <thread>
#include <vector>

#include "core/event.h"
#include "core/spin.h"

namespace hami {
namespace {

TEST_SUITE_BEGIN("events");

TEST_CASE("a set event never blocks, and stays set") {
  Event event;
  CHECK_FALSE(event.is_set());
  event.set();
  event.set();
  CHECK(event.wait() == Event::Wake::kSet);
  CHECK(event.wait(TimePoint::min()) == Event::Wake::kSet);
}

TEST_CASE("a deadline that passes ends the wait") {
  Event event;
  CHECK(event.wait(Clock::now()) == Event::Wake::kTimeout);
  CHECK(event.wait(Clock::now() + std::chrono::milliseconds(2)) == Event::Wake::kTimeout);
  CHECK_FALSE(event.is_set());
}

TEST_CASE("setting wakes every waiter") {
  Event event;
  std::vector<std::thread> waiters;
  for (int i = 0; i < 8; ++i) {
    waiters.emplace_back([&event] { CHECK(event.wait() == Event::Wake::kSet); });
  }
  event.set();
  for (std::thread& waiter : waiters) waiter.join();
}

TEST_CASE("a signal interrupts the wait, so that Ctrl-C can be seen") {
  struct sigaction action{};
  action.sa_handler = [](int) {};
  struct sigaction before{};
  sigaction(SIGUSR1, &action, &before);
  Event event;
  std::atomic<bool> is_over{false};
  const pthread_t waiter = pthread_self();
  // Signals come until one has met the wait: there is no telling when it begins.
  std::thread caller([&] {
    while (!is_over) pthread_kill(waiter, SIGUSR1);
  });
  CHECK(event.wait(Clock::now() + std::chrono::seconds(30)) == Event::Wake::kInterrupted);
  is_over = true;
  caller.join();
  sigaction(SIGUSR1, &before, nullptr);
}

// --- turns ---

// A waiter of one event: what it does when it has been let in is up to the test.
struct Waiter {
  Event event;
  std::atomic<bool> has_come{false};
  std::atomic<bool> may_pass{false};
  std::thread thread;

  void start() {
    thread = std::thread([this] {
      CHECK(event.wait() == Event::Wake::kSet);
      has_come = true;
      may_pass.wait(false);
      event.pass();
    });
    // The kernel tells nobody that a thread sleeps; one that has not begun to needs no waking.
    while (!event.has_waiters()) std::this_thread::yield();
  }
  void let_pass() {
    may_pass = true;
    may_pass.notify_one();
  }
  void wait_until_come() {
    while (!has_come) std::this_thread::yield();
  }
};

TEST_CASE("sleepers that take turns are woken one after another, in their order") {
  std::vector<Waiter> waiters(4);
  for (Waiter& waiter : waiters) waiter.start();
  for (Waiter& waiter : waiters) waiter.event.set_in_turn();
  for (size_t i = 0; i < waiters.size(); ++i) {
    waiters[i].wait_until_come();
    CHECK(WakeGate::instance().is_occupied());
    for (size_t later = i + 1; later < waiters.size(); ++later) CHECK(!waiters[later].has_come);
    waiters[i].let_pass();
  }
  for (Waiter& waiter : waiters) waiter.thread.join();
  CHECK_FALSE(WakeGate::instance().is_occupied());
}

TEST_CASE("an event that nobody sleeps on takes no turn") {
  Event event;
  event.set_in_turn();
  CHECK_FALSE(WakeGate::instance().is_occupied());
  CHECK(event.wait() == Event::Wake::kSet);
  event.pass();
  CHECK_FALSE(WakeGate::instance().is_occupied());
}

TEST_CASE("whoever leaves the line early lets the others have their turns") {
  std::atomic<uint32_t> words[4] = {};
  WakeGate::Place places[4];
  WakeGate gate;
  for (int i = 0; i < 4; ++i) gate.come(places[i], words[i], 1);
  gate.pass(places[2]);
  gate.pass(places[1]);
  CHECK(gate.is_occupied());
  gate.pass(places[0]);  // the last one comes to the gate
  CHECK(gate.is_occupied());
  gate.pass(places[3]);
  CHECK_FALSE(gate.is_occupied());
  gate.pass(places[3]);  // outside: changes nothing
  CHECK_FALSE(gate.is_occupied());
}

TEST_CASE("a forked child finds the gate free, whoever stood at it in the parent") {
  std::atomic<uint32_t> word{0};
  WakeGate::Place place;
  WakeGate::instance().come(place, word, 1);
  WakeGate& of_parent = WakeGate::instance();
  WakeGate::renew();
  CHECK_FALSE(WakeGate::instance().is_occupied());
  of_parent.pass(place);
}

TEST_CASE("many threads in turns all come through, whenever they begin to wait") {
  std::atomic<int> num_through{0};
  for (int round = 0; round < 200; ++round) {
    std::vector<Event> events(8);
    std::vector<std::thread> threads;
    for (Event& event : events) {
      threads.emplace_back([&] {
        CHECK(event.wait() == Event::Wake::kSet);
        event.pass();
        ++num_through;
      });
    }
    for (Event& event : events) event.set_in_turn();
    for (std::thread& thread : threads) thread.join();
  }
  CHECK(num_through == 1600);
  CHECK_FALSE(WakeGate::instance().is_occupied());
}

TEST_CASE("an event of one waiter can be used again") {
  Event event;
  event.set();
  event.reset();
  CHECK_FALSE(event.is_set());
  CHECK(event.wait(Clock::now()) == Event::Wake::kTimeout);
  event.set();
  CHECK(event.wait() == Event::Wake::kSet);
}

// --- looking before sleeping ---

TEST_CASE("a look that pays sees what comes") {
  Spin spin(std::chrono::seconds(30));
  std::atomic<bool> is_done{false};
  std::thread other([&] { is_done = true; });
  bool has_come = spin.until([&] { return is_done.load(); });
  other.join();
  // On a single processor nobody may look while others have work.
  if (!has_come) has_come = spin.until([&] { return is_done.load(); });
  CHECK(has_come);
}

TEST_CASE("looks that never pay become rare") {
  Spin spin(std::chrono::microseconds(1));
  int num_looks = 0;
  for (int i = 0; i < 1000; ++i) {
    int num_asked = 0;
    CHECK_FALSE(spin.until([&] { return ++num_asked < 0; }));
    num_looks += num_asked > 1;
  }
  CHECK(num_looks < 100);
}

TEST_CASE("a forked child may look, however many threads looked in the parent") {
  const auto looks = [] {
    int num_looks = 0;
    Spin spin(std::chrono::microseconds(10));
    spin.until([&] { return ++num_looks < 0; });
    return num_looks > 1;
  };
  const bool may_look = looks();  // not on a single processor
  bool is_one_left = true;
  // Each look inside another one: as many as may be at a time, and one that is refused.
  std::function<void()> look_inside = [&] {
    int num_looks = 0;
    Spin spin(std::chrono::seconds(30));
    spin.until([&] {
      if (++num_looks == 2) look_inside();
      return num_looks > 1;
    });
    is_one_left = is_one_left && num_looks > 1;
    if (num_looks > 1) return;
    Spin::renew();
    CHECK(looks() == may_look);
  };
  look_inside();
  CHECK_FALSE(is_one_left);
  Spin::renew();
}

TEST_SUITE_END();

}  // namespace
}  // namespace hami
