// What an `LlmScheduler` is made with, and the words for it. Checked once, at construction.
#pragma once

#include <cstdint>
#include <string_view>

#include "paged/prefix_index.h"

namespace hami::llm {

// Who runs first; see `Waiting`. `kCustom`: by a key that comes with the request.
enum class Policy { kFcfs, kPriority, kFair, kShortest, kPrefillFirst, kCustom };
// What happens to a sequence that must make room.
enum class Preempt { kRecompute, kSwap };

struct Settings {
  int32_t num_pages = 0;  // page 0 included
  int32_t page_size = 16;
  int32_t max_running = 256;
  int32_t max_model_len = 4096;
  int32_t max_batched_tokens = 512;
  paged::PrefixCache prefix_cache = paged::PrefixCache::kRadix;
  Policy policy = Policy::kFcfs;
  Preempt preempt = Preempt::kRecompute;
  int32_t num_swap_pages = 0;
  int32_t max_preemptions = 3;  // after that many a sequence is no victim any more
  int32_t ageing_steps = 100;   // under `priority`, so many steps of waiting are worth one level

  int32_t max_pages_per_row() const noexcept { return (max_model_len + page_size - 1) / page_size; }
  // New requests leave this many pages to those that run.
  int32_t watermark() const noexcept { return num_pages / 100; }
  // Throws a build error with the value and what it may be.
  void check() const;
};

// Throw a build error that lists the words there are.
paged::PrefixCache prefix_cache_named(std::string_view name);
Policy policy_named(std::string_view name);
Preempt preempt_named(std::string_view name);

}  // namespace hami::llm
