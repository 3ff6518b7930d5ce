#include "llm/settings.h"

#include <array>
#include <string>
#include <utility>

#include "core/error.h"

namespace hami::llm {
namespace {

template <class Choice, size_t num>
Choice chosen(const char* setting, std::string_view name,
              const std::array<std::pair<std::string_view, Choice>, num>& choices) {
  std::string known;
  for (const auto& [word, choice] : choices) {
    if (word == name) return choice;
    known += (known.empty() ? "" : ", ") + backticked(word);
  }
  throw Error(ErrorKind::kBuild, "llm-setting",
              std::string("`") + setting + "` cannot be " + backticked(name),
              "use one of " + known);
}

void check_range(const char* setting, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return;
  throw Error(ErrorKind::kBuild, "llm-setting",
              std::string("`") + setting + "` is " + backticked(std::to_string(value)),
              "it can be from " + std::to_string(least) + " to " + std::to_string(most));
}

constexpr int64_t kMost = int64_t{1} << 24;
constexpr int64_t kMostSlots = int64_t{1} << 31;

}  // namespace

void Settings::check() const {
  check_range("page_size", page_size, 1, kMost);
  check_range("num_pages", num_pages, 2, kMostSlots / page_size - 1);
  check_range("max_running", max_running, 1, kMost);
  check_range("max_model_len", max_model_len, 2, kMost);
  check_range("max_batched_tokens", max_batched_tokens, 1, kMost);
  check_range("num_swap_pages", num_swap_pages, preempt == Preempt::kSwap ? 1 : 0, kMostSlots - 1);
  check_range("max_preemptions", max_preemptions, 0, kMost);
  check_range("ageing_steps", ageing_steps, 1, kMost);
}

paged::PrefixCache prefix_cache_named(std::string_view name) {
  using paged::PrefixCache;
  return chosen<PrefixCache, 3>("prefix_cache", name,
                                {{{"radix", PrefixCache::kRadix},
                                  {"hash", PrefixCache::kHash},
                                  {"none", PrefixCache::kNone}}});
}

Policy policy_named(std::string_view name) {
  return chosen<Policy, 5>("policy", name,
                           {{{"fcfs", Policy::kFcfs},
                             {"priority", Policy::kPriority},
                             {"fair", Policy::kFair},
                             {"shortest", Policy::kShortest},
                             {"prefill_first", Policy::kPrefillFirst}}});
}

Preempt preempt_named(std::string_view name) {
  return chosen<Preempt, 2>("preempt", name,
                            {{{"recompute", Preempt::kRecompute}, {"swap", Preempt::kSwap}}});
}

}  // namespace hami::llm
