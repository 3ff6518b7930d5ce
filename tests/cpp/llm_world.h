// A scheduler, the model without a model, and what each sequence must look like: whoever drives it
// checks after every call that pages, table and tokens are as they must be.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "llm/fake_model.h"
#include "llm/llm_scheduler.h"

// A check that costs no more than its condition while it holds.
#define MUST(...)                             \
  do {                                        \
    if (!(__VA_ARGS__)) REQUIRE(__VA_ARGS__); \
  } while (false)

namespace hami::llm {

// Counts of what a fuzz has seen, over all worlds.
struct Seen {
  int64_t num_steps = 0;
  int64_t num_recomputed = 0;
  int64_t num_swapped_out = 0;
  int64_t num_swapped_in = 0;
  int64_t num_hit_tokens = 0;
  int64_t num_evictions = 0;
  int64_t num_copies = 0;
  int64_t num_forks = 0;
  int64_t num_deferred = 0;
  int64_t num_ended_in_step = 0;
  int64_t num_gone = 0;
  int64_t num_ended = 0;
  int64_t num_discarded = 0;
  int64_t num_groups = 0;
};

class World {
 public:
  static constexpr int32_t kVocabSize = 4;

  explicit World(const Settings& settings)
      : scheduler(settings),
        model_(kVocabSize, settings.num_pages, settings.page_size, settings.num_swap_pages) {}

  // What is known of a sequence, by its own token history.
  struct Line {
    std::vector<int32_t> tokens;
    int32_t num_prompt = 0;
    int32_t most_tokens = 0;  // sampled ones
    int64_t width = 1;
    int64_t request = 0;
    bool prompt_logits = false;
    bool together = false;
  };

  int64_t add(NewRequest request) {
    Line line;
    line.tokens = request.prompt;
    line.num_prompt = static_cast<int32_t>(line.tokens.size());
    line.most_tokens = static_cast<int32_t>(std::min<int64_t>(
        request.max_tokens, scheduler.settings().max_model_len - line.num_prompt));
    line.width = request.width;
    line.prompt_logits = request.prompt_logits;
    line.together = request.together;
    const int64_t id = scheduler.add(std::move(request));
    line.request = id;
    lines[id] = std::move(line);
    return id;
  }

  void end(int64_t id, Ending ending) {
    if (ending == Ending::kAbort) scheduler.abort(id);
    if (ending == Ending::kFinish) scheduler.finish(id);
    if (ending == Ending::kFail) scheduler.fail(id);
    lines.erase(id);
  }

  // One step and the model's run of it, unless `runs` is false; checks everything. False when
  // nothing could run.
  bool step(bool runs = true) {
    plan = &scheduler.step();
    ++seen.num_steps;
    for (const auto& [id, reason] : plan->ended) {
      MUST(lines.erase(id) == 1);
      ++seen.num_ended_in_step;
    }
    check_pages();
    check_writes();
    check_groups();
    if (plan->num_rows() == 0) {
      MUST(plan->swap_out.empty());
      MUST(plan->swap_in.empty());
      MUST(plan->copies.empty());
      // Whoever waits gets somewhere, or somebody ended in its stead.
      MUST((lines.empty() || !plan->ended.empty()));
      return false;
    }
    if (!runs) return true;
    check_copied_table();
    logits_ = model_.run(*plan);
    check_logits();
    return true;
  }

  // The plan did not run, or not to its end.
  void discard() {
    scheduler.discard();
    ++seen.num_discarded;
    check_pages();
  }

  // The best token of each that samples, unless it ended meanwhile.
  int32_t best_token(size_t sample) const {
    const auto row =
        logits_.subspan(static_cast<size_t>(plan->sample_logits[sample]) * kVocabSize, kVocabSize);
    return static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
  }

  void commit(const std::vector<int64_t>& parents, const std::vector<int64_t>& tokens) {
    const std::vector<int64_t> samples(plan->sample_sequences.begin(),
                                       plan->sample_sequences.end());
    scheduler.commit(parents, tokens, results);
    MUST(results.size() == parents.size());
    std::map<int64_t, Line> before;
    for (const int64_t id : samples) {
      const auto found = lines.find(id);
      if (found == lines.end()) continue;
      before[id] = std::move(found->second);
      lines.erase(found);
    }
    for (size_t i = 0; i < parents.size(); ++i) {
      const auto& [id, reason] = results[i];
      const auto parent = before.find(parents[i]);
      if (parent == before.end()) {
        MUST(std::string(reason) == "gone");
        ++seen.num_gone;
        continue;
      }
      Line line = parent->second;
      line.tokens.push_back(static_cast<int32_t>(tokens[i]));
      const auto num_sampled = static_cast<int32_t>(line.tokens.size()) - line.num_prompt;
      const bool is_last = num_sampled == line.most_tokens;
      MUST(std::string(reason) == (is_last ? "length" : ""));
      if (is_last) {
        ++seen.num_ended;
      } else {
        MUST(lines.emplace(id, std::move(line)).second);
      }
    }
    check_pages();
  }

  // Every sampling sequence goes on with its best token.
  void commit_best() {
    std::vector<int64_t> tokens;
    for (size_t i = 0; i < plan->sample_sequences.size(); ++i) tokens.push_back(best_token(i));
    commit({plan->sample_sequences.begin(), plan->sample_sequences.end()}, tokens);
  }

  // What must hold between any two calls.
  void check_pages() {
    const auto& pool = scheduler.pages().pool();
    const auto& settings = scheduler.settings();
    std::vector<int32_t> holders(settings.num_pages);
    std::set<int32_t> rows;
    std::map<int64_t, int64_t> widths;  // rows that running requests may need
    for (const Sequence* sequence : scheduler.running()) {
      for (const paged::Page page : sequence->pages) ++holders[page];
      MUST(rows.insert(sequence->row).second);
      const auto row = scheduler.pages().table().row(sequence->row);
      MUST(std::equal(sequence->pages.begin(), sequence->pages.end(), row.begin()));
      for (size_t i = sequence->pages.size(); i < row.size(); ++i) MUST(row[i] == 0);
      MUST(sequence->num_left() > 0);
    }
    MUST(std::is_sorted(scheduler.running().begin(), scheduler.running().end(), RunsBefore()));
    int32_t num_referenced = 0;
    for (paged::Page page = 1; page < settings.num_pages; ++page) {
      MUST(pool.num_holders(page) == holders[page]);
      num_referenced += holders[page] > 0 ? 1 : 0;
    }
    MUST(pool.num_holders(0) == 0);
    MUST(pool.num_referenced() == num_referenced);
    MUST(pool.num_free() + pool.num_cached() + num_referenced == settings.num_pages - 1);
    size_t num_swapped = 0;
    for (const auto& [id, line] : lines) {
      const Sequence* sequence = scheduler.find(id);
      MUST(sequence != nullptr);
      MUST(sequence->tokens == line.tokens);
      num_swapped += sequence->swapped_pages.size();
      if (sequence->state == State::kRunning) continue;
      MUST(sequence->pages.empty());
      MUST(sequence->row == -1);
    }
    MUST(scheduler.pages().num_free_swap_pages() + num_swapped ==
         static_cast<size_t>(settings.num_swap_pages));
  }

  // Counts what this world has seen into `total`.
  void count(Seen& total) {
    const Stats& stats = scheduler.stats();
    total.num_steps += seen.num_steps;
    total.num_gone += seen.num_gone;
    total.num_ended += seen.num_ended;
    total.num_ended_in_step += seen.num_ended_in_step;
    total.num_discarded += seen.num_discarded;
    total.num_groups += seen.num_groups;
    total.num_recomputed += stats.num_recomputed;
    total.num_swapped_out += stats.num_swapped_out;
    total.num_swapped_in += stats.num_swapped_in;
    total.num_copies += stats.num_copies;
    total.num_forks += stats.num_forks;
    total.num_deferred += stats.num_deferred;
    total.num_hit_tokens += scheduler.pages().num_hit_tokens();
    total.num_evictions += scheduler.pages().allocator().num_evictions();
  }

  LlmScheduler scheduler;
  std::map<int64_t, Line> lines;
  StepPlan* plan = nullptr;
  std::vector<std::pair<int64_t, const char*>> results;
  Seen seen;

 private:
  // Nobody else holds a page that a row writes; the budget and the order of rows are kept.
  void check_writes() {
    const auto& settings = scheduler.settings();
    MUST(plan->num_tokens() <= settings.max_batched_tokens);
    MUST(plan->num_rows() <= settings.max_running);
    for (const int32_t slot : plan->slots) {
      MUST(scheduler.pages().pool().num_holders(slot / settings.page_size) == 1);
    }
    for (int32_t row = 0; row < plan->num_rows(); ++row) {
      const int32_t num_tokens = plan->query_starts[row + 1] - plan->query_starts[row];
      if (row < plan->num_decode_rows) MUST(num_tokens == 1);
      const Line& line = lines.at(plan->sequences[row]);
      const int32_t begin = plan->context_lens[row] - num_tokens;
      for (int32_t i = 0; i < num_tokens; ++i) {
        MUST(plan->token_ids[plan->query_starts[row] + i] == line.tokens[begin + i]);
      }
    }
  }

  // A copy of the page table that is given the changed rows alone is right for every row of the
  // plan.
  void check_copied_table() {
    const auto host = plan->page_table;
    const auto max_pages = static_cast<size_t>(plan->max_pages);
    copied_table_.resize(host.size());
    for (const int32_t row : plan->dirty_rows) {
      const auto from = host.subspan(static_cast<size_t>(row) * max_pages, max_pages);
      std::copy(from.begin(), from.end(), copied_table_.begin() + row * plan->max_pages);
    }
    for (int32_t row = 0; row < plan->num_rows(); ++row) {
      const auto begin = static_cast<size_t>(plan->table_rows[row]) * max_pages;
      const auto pages = host.subspan(begin, scheduler.pages().pages_for(plan->context_lens[row]));
      MUST(std::equal(pages.begin(), pages.end(),
                      copied_table_.begin() + static_cast<ptrdiff_t>(begin)));
    }
  }

  // Those who must sample together do.
  void check_groups() {
    std::map<int64_t, int64_t> num_sampling;
    for (const int64_t id : plan->sample_sequences) ++num_sampling[lines.at(id).request];
    for (const auto& [id, line] : lines) {
      if (line.together && num_sampling.count(line.request) > 0) --num_sampling[line.request];
    }
    for (const auto& [request, num] : num_sampling) {
      const auto line = std::find_if(lines.begin(), lines.end(), [&](const auto& entry) {
        return entry.second.request == request;
      });
      if (!line->second.together) continue;
      MUST(num == 0);
      ++seen.num_groups;
    }
  }

  // The logits of every sample are those of its own tokens, computed without pages.
  void check_logits() {
    std::vector<float> expected(kVocabSize);
    for (size_t i = 0; i < plan->sample_sequences.size(); ++i) {
      const Line& line = lines.at(plan->sample_sequences[i]);
      FakeModel::reference_logits(line.tokens, expected);
      const auto row =
          logits_.subspan(static_cast<size_t>(plan->sample_logits[i]) * kVocabSize, kVocabSize);
      MUST(std::equal(row.begin(), row.end(), expected.begin()));
    }
    size_t num_wanted = 0;
    for (int32_t row = 0; row < plan->num_rows(); ++row) {
      const Line& line = lines.at(plan->sequences[row]);
      const int32_t num_tokens = plan->query_starts[row + 1] - plan->query_starts[row];
      const bool samples = plan->context_lens[row] == static_cast<int32_t>(line.tokens.size());
      num_wanted += line.prompt_logits ? num_tokens : samples ? 1 : 0;
    }
    MUST(plan->logit_tokens.size() == num_wanted);
  }

  FakeModel model_;
  std::span<float> logits_;
  std::vector<int32_t> copied_table_;
};

}  // namespace hami::llm
