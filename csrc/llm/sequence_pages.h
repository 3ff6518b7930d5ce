// `SequencePages`: the pages of sequences, from admission to release: hits in the prefix cache,
// growth, sharing among forks, copies before a write, and the second pool of those swapped out.
// `LlmScheduler` alone uses it, and decides who gets pages.
#pragma once

#include <span>
#include <vector>

#include "llm/sequence.h"
#include "llm/settings.h"
#include "llm/step_plan.h"
#include "paged/page_to_kv_pool_allocator.h"
#include "paged/req_to_page_table.h"

namespace hami::llm {

class SequencePages {
 public:
  explicit SequencePages(const Settings& settings);

  // --- a sequence that waits ---
  // Holds the cached pages of its first tokens, at most of `max_tokens`; returns how many pages.
  int32_t take_cached(Sequence& sequence, int32_t max_tokens);
  // Undoes it.
  void give_back_cached(Sequence& sequence) { release_pages(sequence); }
  // Gives a running one a row for its pages. REQUIRES: a row is free.
  void open(Sequence& sequence);
  // New pages for what is in the second pool, behind those taken from the cache, and a row.
  // REQUIRES: enough pages are available.
  void swap_in(Sequence& sequence, StepPlan& plan);

  // --- a sequence that runs ---
  // Room for `num_tokens` tokens, all behind the computed ones ready to be written: new pages, and
  // a copy of its own where it shares the page of the next one. False, and nothing changed, when
  // there are not enough pages.
  bool grow(Sequence& sequence, int32_t num_tokens, StepPlan& plan);
  // Pages that one token more for each of these needs.
  int32_t num_needed(std::span<Sequence* const> sequences) const;
  // How many tokens it can have without taking a page from another one.
  int64_t most_tokens(const Sequence& sequence) const noexcept;
  // Lets its full pages be found; where others hold the same tokens, their pages replace its own.
  void index(Sequence& sequence);
  // `child` holds the same pages, in a row of its own.
  void fork(const Sequence& parent, Sequence& child);
  // Copies its pages to the second pool and releases them; false when that is full.
  bool swap_out(Sequence& sequence, StepPlan& plan);

  // Gives all back, in whatever state it is.
  void release(Sequence& sequence);
  // Takes what it computed itself out of the cache.
  void forget(const Sequence& sequence);
  void clear_cache() { allocator_.clear_cache(); }

  const paged::PageToKVPoolAllocator& allocator() const noexcept { return allocator_; }
  const paged::PagePool& pool() const noexcept { return allocator_.pool(); }
  paged::ReqToPageTable& table() noexcept { return table_; }
  int32_t pages_for(int64_t num_tokens) const noexcept { return allocator_.pages_for(num_tokens); }
  // Pages that its known tokens need beyond those it holds.
  int32_t num_owed(const Sequence& sequence) const noexcept;
  int32_t num_free_swap_pages() const noexcept {
    return static_cast<int32_t>(free_swap_pages_.size());
  }
  int64_t num_hit_tokens() const noexcept { return num_hit_tokens_; }
  int64_t num_query_tokens() const noexcept { return num_query_tokens_; }

 private:
  // The page of its next token, if others hold it too.
  bool needs_copy(const Sequence& sequence) const noexcept;
  void set_page(Sequence& sequence, size_t index, paged::Page page);
  void release_pages(Sequence& sequence);

  paged::PageToKVPoolAllocator allocator_;
  paged::ReqToPageTable table_;
  std::vector<paged::Page> free_swap_pages_;
  int64_t num_hit_tokens_ = 0;
  int64_t num_query_tokens_ = 0;
};

}  // namespace hami::llm
