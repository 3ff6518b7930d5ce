#include "llm/sequence_pages.h"

#include <algorithm>
#include <unordered_map>

namespace hami::llm {

using paged::kNoPage;
using paged::Page;
using paged::Tokens;

SequencePages::SequencePages(const Settings& settings)
    : allocator_(settings.num_pages, settings.page_size, settings.prefix_cache),
      table_(settings.max_running, settings.max_pages_per_row()) {
  free_swap_pages_.reserve(settings.num_swap_pages);
  for (Page page = settings.num_swap_pages - 1; page >= 0; --page) free_swap_pages_.push_back(page);
}

int32_t SequencePages::take_cached(Sequence& sequence, int32_t max_tokens) {
  if (!sequence.may_cache) return 0;
  allocator_.match(sequence.request->salt,
                   Tokens(sequence.tokens).first(static_cast<size_t>(max_tokens)), sequence.pages);
  for (const Page page : sequence.pages) allocator_.share(page);
  sequence.num_indexed = static_cast<int32_t>(sequence.pages.size());
  return sequence.num_indexed;
}

void SequencePages::open(Sequence& sequence) {
  sequence.row = table_.take_row();
  for (size_t i = 0; i < sequence.pages.size(); ++i) {
    table_.set(sequence.row, i, sequence.pages[i]);
  }
  const int32_t num_hits = sequence.num_indexed;
  if (sequence.swapped_pages.empty()) {
    sequence.num_computed = num_hits * allocator_.page_size();
    num_hit_tokens_ += sequence.num_computed;
    num_query_tokens_ += sequence.num_known();
  }
  sequence.num_foreign = std::min(sequence.num_foreign, num_hits);
}

void SequencePages::swap_in(Sequence& sequence, StepPlan& plan) {
  open(sequence);
  for (size_t i = 0; i < sequence.swapped_pages.size(); ++i) {
    const Page from = sequence.swapped_pages[i];
    free_swap_pages_.push_back(from);
    if (i < static_cast<size_t>(sequence.num_indexed)) continue;
    const Page to = allocator_.allocate();
    set_page(sequence, i, to);
    plan.swap_in.push({from, to});
    sequence.transfer_step = plan.serial;
  }
  sequence.swapped_pages.clear();
}

bool SequencePages::needs_copy(const Sequence& sequence) const noexcept {
  const auto next = static_cast<size_t>(sequence.num_computed / allocator_.page_size());
  return next < sequence.pages.size() && allocator_.is_shared(sequence.pages[next]);
}

void SequencePages::set_page(Sequence& sequence, size_t index, Page page) {
  if (index == sequence.pages.size()) {
    sequence.pages.push_back(page);
  } else {
    sequence.pages[index] = page;
  }
  table_.set(sequence.row, index, page);
}

bool SequencePages::grow(Sequence& sequence, int32_t num_tokens, StepPlan& plan) {
  const auto wanted = static_cast<size_t>(pages_for(num_tokens));
  const size_t had = sequence.pages.size();
  const bool copies = needs_copy(sequence);
  const size_t num_new = (wanted > had ? wanted - had : 0) + (copies ? 1 : 0);
  if (num_new == 0) return true;
  if (num_new > static_cast<size_t>(pool().num_available())) return false;
  if (copies) {
    const auto next = static_cast<size_t>(sequence.num_computed / allocator_.page_size());
    const Page from = sequence.pages[next];
    const Page to = allocator_.allocate();
    set_page(sequence, next, to);
    allocator_.release(from);
    plan.copies.push({from, to});
    sequence.transfer_step = plan.serial;
  }
  for (size_t i = had; i < wanted; ++i) set_page(sequence, i, allocator_.allocate());
  return true;
}

int32_t SequencePages::num_needed(std::span<Sequence* const> sequences) const {
  int32_t num_pages = 0;
  std::unordered_map<Page, int32_t> num_left;  // holders of a page that has to be copied
  for (const Sequence* sequence : sequences) {
    num_pages += num_owed(*sequence);
    const auto next = static_cast<size_t>(sequence->num_computed / allocator_.page_size());
    if (next >= sequence->pages.size()) continue;
    const Page page = sequence->pages[next];
    auto& left = num_left.try_emplace(page, pool().num_holders(page)).first->second;
    if (left-- > 1) ++num_pages;
  }
  return num_pages;
}

int64_t SequencePages::most_tokens(const Sequence& sequence) const noexcept {
  const int64_t num_pages = static_cast<int64_t>(sequence.pages.size()) + pool().num_available() -
                            (needs_copy(sequence) ? 1 : 0);
  return num_pages * allocator_.page_size();
}

void SequencePages::index(Sequence& sequence) {
  const int32_t page_size = allocator_.page_size();
  while (sequence.may_cache && (sequence.num_indexed + 1) * page_size <= sequence.num_computed) {
    const auto i = static_cast<size_t>(sequence.num_indexed);
    const Page page = sequence.pages[i];
    const Page found = allocator_.insert(
        sequence.request->salt, i == 0 ? kNoPage : sequence.pages[i - 1],
        Tokens(sequence.tokens).subspan(i * static_cast<size_t>(page_size), page_size), page);
    if (found == kNoPage) {
      sequence.may_cache = false;
      return;
    }
    if (found != page) {
      allocator_.share(found);
      allocator_.release(page);
      set_page(sequence, i, found);
    }
    ++sequence.num_indexed;
  }
}

void SequencePages::fork(const Sequence& parent, Sequence& child) {
  child.pages = parent.pages;
  child.num_indexed = parent.num_indexed;
  child.num_foreign = parent.num_foreign;
  child.may_cache = parent.may_cache;
  child.row = table_.take_row();
  for (size_t i = 0; i < child.pages.size(); ++i) {
    allocator_.share(child.pages[i]);
    table_.set(child.row, i, child.pages[i]);
  }
}

bool SequencePages::swap_out(Sequence& sequence, StepPlan& plan) {
  const auto num_pages = static_cast<size_t>(pages_for(sequence.num_computed));
  if (num_pages > free_swap_pages_.size()) return false;
  std::vector<Page> swapped(num_pages);
  for (size_t i = 0; i < num_pages; ++i) {
    swapped[i] = free_swap_pages_.back();
    free_swap_pages_.pop_back();
    plan.swap_out.push({sequence.pages[i], swapped[i]});
  }
  release(sequence);
  sequence.swapped_pages = std::move(swapped);
  sequence.transfer_step = plan.serial;
  return true;
}

void SequencePages::release(Sequence& sequence) {
  if (sequence.row >= 0) table_.release_row(sequence.row, sequence.pages.size());
  sequence.row = -1;
  release_pages(sequence);
  for (const Page page : sequence.swapped_pages) free_swap_pages_.push_back(page);
  sequence.swapped_pages.clear();
}

void SequencePages::release_pages(Sequence& sequence) {
  // Last to first: whoever is found in the cache is found with all before it.
  for (size_t i = sequence.pages.size(); i > 0; --i) allocator_.release(sequence.pages[i - 1]);
  sequence.pages.clear();
  sequence.num_indexed = 0;
}

void SequencePages::forget(const Sequence& sequence) {
  const auto num_foreign = static_cast<size_t>(sequence.num_foreign);
  allocator_.forget(sequence.request->salt, Tokens(sequence.tokens), num_foreign);
}

int32_t SequencePages::num_owed(const Sequence& sequence) const noexcept {
  return std::max(0, pages_for(sequence.num_known()) - static_cast<int32_t>(sequence.pages.size()));
}

}  // namespace hami::llm
