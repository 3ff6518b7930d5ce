// `LlmScheduler`: chooses in every step which sequences compute which tokens on which pages, and
// settles what came out. It knows no model and holds no tensors. The engine's thread alone uses it.
//
// A step spends a budget of tokens: decode rows first, one token each; then unfinished prefills in
// order, in chunks; then, if nobody had to make room, swapped sequences and waiting requests, while
// rows and pages allow: all pages of a new one's known tokens, and 1 % of the pool beyond. Out of
// pages, the last in order of those without a row in this step makes room; see `make_room`.
//
// A page is found in the prefix cache once the plan that fills it was committed. A waiting request
// whose next pages a prefill of this very step computes lets it go ahead instead of computing them
// too, for at most twice the steps that they take.
//
// The sequences of a request come and go one by one, except where it wants them `together`: those
// sample in the same steps, and make room at once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "llm/sequence.h"
#include "llm/sequence_pages.h"
#include "llm/settings.h"
#include "llm/step_plan.h"
#include "llm/waiting.h"

namespace hami::llm {

struct NewRequest {
  std::vector<int32_t> prompt;
  int64_t max_tokens = 16;
  int64_t min_tokens = 0;
  std::vector<int32_t> stop_ids;
  int64_t width = 1;  // rows reserved for forks
  int64_t priority = 0;
  std::string salt;
  std::string user;
  int64_t expected_tokens = 0;
  bool prompt_logits = false;
  bool together = false;  // its sequences sample in the same steps, as those of a beam search must
  double key = 0;         // of a policy of its own; only `kCustom` reads it
};

struct Stats {
  int64_t num_steps = 0;
  int64_t num_tokens = 0;
  int64_t num_sampled = 0;
  int64_t num_recomputed = 0;  // preemptions by recompute
  int64_t num_swapped_out = 0;
  int64_t num_swapped_in = 0;
  int64_t num_deferred = 0;
  int64_t num_copies = 0;
  int64_t num_forks = 0;
  int64_t num_aborted = 0;  // sequences
};

class LlmScheduler {
 public:
  // Throws a build error for settings that cannot be.
  explicit LlmScheduler(const Settings& settings);

  // The id of its sequence. Throws a request error for what can never run.
  int64_t add(NewRequest request);

  // Without rows when nothing can run. REQUIRES: the plan before was committed or had no rows;
  // std::logic_error otherwise.
  StepPlan& step();
  // What became of the plan in flight; `parents` and `tokens` as in the design page. Throws
  // std::invalid_argument, and changes nothing, when they do not fit the plan.
  void commit(std::span<const int64_t> parents, std::span<const int64_t> tokens,
              std::vector<std::pair<int64_t, const char*>>& results);
  // The plan in flight did not run, or not to its end: its rows are planned again; what it should
  // have copied is lost, and is computed again.
  void discard();
  bool has_plan_in_flight() const noexcept { return in_flight_; }

  void finish(int64_t id) { end(id, Ending::kFinish); }
  void abort(int64_t id) { end(id, Ending::kAbort); }
  void fail(int64_t id) { end(id, Ending::kFail); }

  void reset_prefix_cache();
  // Every sequence starts over with the tokens it has, and nothing computed before is found: for
  // other weights. REQUIRES: no plan is in flight; std::logic_error otherwise.
  void recompute_all();
  bool has_work() const noexcept { return !sequences_.empty(); }

  const Settings& settings() const noexcept { return settings_; }
  const Stats& stats() const noexcept { return stats_; }
  StepPlan& plan() noexcept { return plan_; }
  SequencePages& pages() noexcept { return pages_; }
  size_t num_waiting() const noexcept { return waiting_->size(); }
  size_t num_running() const noexcept { return running_.size(); }
  size_t num_swapped() const noexcept { return swapped_.size(); }
  // For tests of what must hold between steps.
  const std::vector<Sequence*>& running() const noexcept { return running_; }
  // Null when it has ended.
  const Sequence* find(int64_t id) const noexcept;

 private:
  struct Row {
    Sequence* sequence;
    int32_t num_tokens;
  };

  // llm_scheduler.cc: requests and their ends
  void check(const NewRequest& request) const;
  void end(int64_t id, Ending ending);
  // Takes a sequence out that has no row in a plan in flight.
  void remove(Sequence& sequence, Ending ending);
  void start_running(Sequence& sequence);
  void stop_running(Sequence& sequence);

  // scheduler_step.cc: who computes what
  void plan_all();
  void plan_decodes();
  void plan_prefills();
  bool plan_row(Sequence& sequence, int32_t num_tokens);
  bool has_room(Sequence& sequence, int32_t num_tokens);
  Sequence* make_room(Sequence& sequence);
  void preempt(Sequence& victim);
  void preempt_one(Sequence& victim);
  void end_in_step(Sequence& sequence);
  void lay_out();
  void lay_out_row(const Row& row);

  // scheduler_groups.cc: sequences that sample together
  bool is_in_group(const Sequence& sequence) const noexcept;
  std::vector<Sequence*> running_of(const Request& request) const;
  bool has_planned_mate(const Sequence& sequence) const noexcept;
  void plan_group(Sequence& first);
  void break_deadlock(bool may_preempt);

  // scheduler_admission.cc: who comes in
  void admit();
  bool bring_back(Sequence& sequence);
  bool admit_first();
  bool has_rows_for(const Request& request) const noexcept;
  bool can_have_pages(const Sequence& sequence) const noexcept;
  void plan_prefill(Sequence& sequence);
  bool should_defer(const Sequence& sequence) const noexcept;
  void recompute(Sequence& sequence);

  // scheduler_commit.cc: what came out
  void check_commit(std::span<const int64_t> parents, std::span<const int64_t> tokens);
  void close_rows();
  void close_plan();
  void take_back_swaps();
  Sequence& fork(Sequence& parent);
  const char* append(Sequence& sequence, int32_t token);
  Sequence* sampling(size_t index, int64_t id) const noexcept;

  Settings settings_;
  SequencePages pages_;
  StepPlan plan_;
  std::unique_ptr<Waiting> waiting_;
  std::vector<Sequence*> running_;  // in order
  std::set<Sequence*, RunsBefore> swapped_;
  std::unordered_map<int64_t, std::unique_ptr<Sequence>> sequences_;
  int64_t next_id_ = 0;
  int64_t num_requests_ = 0;
  int32_t num_reserved_rows_ = 0;
  Stats stats_;

  // Of the step being made, and then in flight.
  std::vector<Row> rows_;
  std::vector<Sequence*> samples_;
  std::vector<Sequence*> parents_;  // of a commit; null for those that ended
  std::vector<Sequence*> deferred_;
  std::vector<Sequence*> ending_;
  int32_t budget_ = 0;
  int32_t num_owed_ = 0;  // pages that running prefills still need
  bool has_preempted_ = false;
  bool in_flight_ = false;
};

}  // namespace hami::llm
