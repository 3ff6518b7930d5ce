// Requests and their sequences, as the parts of `LlmScheduler` share them. Engine's thread only.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "paged/page_pool.h"

namespace hami::llm {

// What a user has had, in tokens; see `FairWaiting`.
struct Account {
  double served = 0;
  int32_t num_live = 0;
};

// What the sequences of a request have in common.
struct Request {
  int64_t arrival = 0;
  int64_t arrival_step = 0;
  double key = 0;  // the lower one runs first, then the earlier one
  int32_t num_prompt = 0;
  int32_t max_tokens = 0;
  int32_t min_tokens = 0;
  std::vector<int32_t> stop_ids;
  int32_t width = 1;
  int64_t priority = 0;
  std::string salt;
  Account* account = nullptr;  // under `fair`
  bool prompt_logits = false;
  bool together = false;     // all its sequences sample in the same step
  int32_t num_live = 0;      // sequences that have not ended
  int32_t num_running = 0;   // of these; its rows are reserved as long as there is one
  int32_t num_deferred = 0;  // steps it has waited for a prefix that another one computes
  int32_t num_after = 0;     // of the sequences, while a commit is checked
};

enum class State { kWaiting, kRunning, kSwapped };
// How a sequence ends that is part of a plan in flight; the stronger one counts.
enum class Ending { kNone, kFinish, kAbort, kFail };

// One line of tokens with pages of its own.
struct Sequence {
  int64_t id = 0;
  std::shared_ptr<Request> request;
  std::vector<int32_t> tokens;  // known ones
  int32_t num_computed = 0;
  State state = State::kWaiting;
  int32_t num_preemptions = 0;

  std::vector<paged::Page> pages;
  std::vector<paged::Page> swapped_pages;  // in the second pool, while swapped
  int32_t row = -1;                        // in the page table, while running
  int32_t num_indexed = 0;                 // first pages, which the prefix index knows
  int32_t num_foreign = std::numeric_limits<int32_t>::max();  // first pages it did not compute
  // False once its pages depend on some that the index does not know.
  bool may_cache = true;

  // In the plan in flight.
  int32_t num_planned = 0;
  int32_t num_appearances = 0;
  Ending ending = Ending::kNone;
  int64_t transfer_step = 0;  // the last step that copied pages of it

  int32_t num_known() const noexcept { return static_cast<int32_t>(tokens.size()); }
  int32_t num_left() const noexcept { return num_known() - num_computed; }
  int32_t num_sampled() const noexcept { return num_known() - request->num_prompt; }
};

// Who runs first, and who makes room last.
inline bool is_before(const Sequence& a, const Sequence& b) noexcept {
  return std::tuple(a.request->key, a.request->arrival, a.id) <
         std::tuple(b.request->key, b.request->arrival, b.id);
}

struct RunsBefore {
  bool operator()(const Sequence* a, const Sequence* b) const noexcept { return is_before(*a, *b); }
};

}  // namespace hami::llm
