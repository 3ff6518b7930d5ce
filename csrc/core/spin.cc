#include "core/spin.h"

#include <sched.h>

#include <algorithm>

namespace hami {
namespace {

// After so many waits without a look, one looks again whether it pays by now.
constexpr uint32_t kProbe = 16;

// Those that this process may use.
int num_processors() noexcept {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

// Threads of this process that look right now, and how many may.
std::atomic<int> num_looking{0};
const int most_looking = num_processors() - 1;

}  // namespace

void Spin::renew() noexcept { num_looking = 0; }

Duration Spin::begin() noexcept {
  if (credit_.load(std::memory_order_relaxed) <= 0 &&
      num_refused_.fetch_add(1, std::memory_order_relaxed) % kProbe != kProbe - 1) {
    return Duration::zero();
  }
  if (num_looking.fetch_add(1, std::memory_order_relaxed) >= most_looking) {
    num_looking.fetch_sub(1, std::memory_order_relaxed);
    return Duration::zero();
  }
  return limit_;
}

void Spin::end(bool has_come) noexcept {
  num_looking.fetch_sub(1, std::memory_order_relaxed);
  const int credit = credit_.load(std::memory_order_relaxed);
  // A failure costs a whole limit, a success saves about one.
  credit_.store(std::clamp(credit + (has_come ? 1 : -1), -1, kMaxCredit),
                std::memory_order_relaxed);
}

void Spin::relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace hami
