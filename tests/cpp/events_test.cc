// Waiting and waking.
#include <doctest/doctest.h>
#include <pthread.h>

#include <csignal>
#include <thread>
#include <vector>

#include "core/event.h"

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

TEST_SUITE_END();

}  // namespace
}  // namespace hami
