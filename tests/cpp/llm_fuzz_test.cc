// The scheduler under random traffic: with a model whose logits change with every fault of paging,
// beside sequences that only know their own tokens. `HAMI_FUZZ_STEPS` sets how long.
#include <doctest/doctest.h>

#include <cstdlib>
#include <random>

#include "llm_world.h"

namespace hami::llm {
namespace {

TEST_SUITE_BEGIN("llm_fuzz");

class Fuzz {
 public:
  explicit Fuzz(uint64_t seed) : random_(seed), world_(some_settings()) {}

  void run(int num_steps) {
    for (int i = 0; i < num_steps; ++i) {
      INFO("step " << i);
      while (chance(3) && world_.lines.size() < 12) add();
      if (chance(12)) end_one();
      if (chance(60)) world_.scheduler.reset_prefix_cache();
      if (chance(80)) world_.scheduler.recompute_all();
      world_.check_pages();
      const bool fails = chance(40);
      if (!world_.step(!fails || chance(2))) continue;
      while (chance(12)) end_one();
      if (chance(90)) world_.scheduler.reset_prefix_cache();
      if (fails) {
        world_.discard();
        continue;
      }
      settle();
    }
    // Without new ones everything ends.
    for (int i = 0; !world_.lines.empty(); ++i) {
      REQUIRE(i < 5000);
      if (world_.step()) world_.commit_best();
    }
    REQUIRE_FALSE(world_.scheduler.has_work());
    REQUIRE(world_.scheduler.pages().pool().num_referenced() == 0);
  }

  void count(Seen& total) { world_.count(total); }

 private:
  // Once in `num`.
  bool chance(int num) { return random_() % static_cast<uint64_t>(num) == 0; }
  int between(int least, int most) {
    return least + static_cast<int>(random_() % static_cast<uint64_t>(most - least + 1));
  }

  Settings some_settings() {
    Settings settings;
    settings.page_size = between(1, 5);
    settings.num_pages = between(4, chance(5) ? 200 : 30);
    settings.max_running = between(1, 8);
    settings.max_model_len = between(8, 60);
    settings.max_batched_tokens = between(1, 40);
    settings.prefix_cache = static_cast<paged::PrefixCache>(between(0, 2));
    settings.policy = static_cast<Policy>(between(0, 5));
    settings.preempt = static_cast<Preempt>(between(0, 1));
    settings.num_swap_pages = settings.preempt == Preempt::kSwap ? between(1, 40) : 0;
    settings.max_preemptions = between(0, 3);
    settings.ageing_steps = between(1, 20);
    return settings;
  }

  void add() {
    const Settings& settings = world_.scheduler.settings();
    const int most_in_pool = (settings.num_pages - 1) * settings.page_size;
    const int most = std::min(settings.max_model_len - 1, most_in_pool);
    NewRequest request;
    // Often the beginning of an earlier one.
    if (!history_.empty() && !chance(3)) request.prompt = history_[random_() % history_.size()];
    request.prompt.resize(std::min<size_t>(request.prompt.size(), between(0, most)));
    const size_t length = std::min<size_t>(request.prompt.size() + between(1, 8), most);
    while (request.prompt.size() < length) request.prompt.push_back(between(0, 3));
    request.max_tokens = between(1, 30);
    request.width = between(1, std::min(3, settings.max_running));
    request.priority = between(0, 3);
    request.salt = chance(4) ? "tenant" : "";
    request.user = std::string(1, static_cast<char>('a' + between(0, 2)));
    request.expected_tokens = between(0, 20);
    request.prompt_logits = chance(10);
    request.key = between(0, 5);
    request.together = request.width <= settings.max_batched_tokens && chance(3);
    world_.add(std::move(request));
  }

  void end_one() {
    if (world_.lines.empty()) return;
    auto line = world_.lines.begin();
    std::advance(line, between(0, static_cast<int>(world_.lines.size()) - 1));
    if (history_.size() < 30) {
      history_.push_back(line->second.tokens);
    } else {
      history_[random_() % history_.size()] = line->second.tokens;
    }
    const int64_t id = line->first;
    world_.end(id, static_cast<Ending>(between(1, 3)));
    // Twice, and one that never was.
    if (chance(2)) world_.scheduler.abort(id);
    if (chance(2)) world_.scheduler.fail(int64_t{1} << 40);
  }

  // Commits with forks where the width allows, and drops.
  void settle() {
    std::vector<int64_t> parents;
    std::vector<int64_t> tokens;
    std::map<int64_t, int64_t> live;
    for (const auto& [id, line] : world_.lines) ++live[line.request];
    const StepPlan& plan = *world_.plan;
    for (size_t i = 0; i < plan.sample_sequences.size(); ++i) {
      const int64_t id = plan.sample_sequences[i];
      const auto line = world_.lines.find(id);
      const int32_t best = world_.best_token(i);
      if (line == world_.lines.end()) {
        if (chance(2)) continue;
      } else if (chance(25)) {
        --live[line->second.request];
        continue;
      }
      parents.push_back(id);
      tokens.push_back(best);
      if (line == world_.lines.end()) continue;
      while (live[line->second.request] < line->second.width && chance(2)) {
        ++live[line->second.request];
        const size_t at = random_() % (parents.size() + 1);
        parents.insert(parents.begin() + static_cast<ptrdiff_t>(at), id);
        tokens.insert(tokens.begin() + static_cast<ptrdiff_t>(at), between(0, 3));
      }
    }
    world_.commit(parents, tokens);
  }

  std::mt19937_64 random_;
  World world_;
  std::vector<std::vector<int32_t>> history_;
};

TEST_CASE("random traffic: every token as without pages, no page lost, nobody left behind") {
  const char* const wanted = std::getenv("HAMI_FUZZ_STEPS");
  const int64_t num_steps = wanted == nullptr ? 100000 : std::atoll(wanted);
  Seen seen;
  for (uint64_t seed = 1; seen.num_steps < num_steps; ++seed) {
    INFO("seed " << seed);
    Fuzz fuzz(seed);
    fuzz.run(300);
    fuzz.count(seen);
  }
  MESSAGE("steps " << seen.num_steps << ", recomputed " << seen.num_recomputed << ", swapped out "
                   << seen.num_swapped_out << " and in " << seen.num_swapped_in << ", hit tokens "
                   << seen.num_hit_tokens << ", evictions " << seen.num_evictions << ", copies "
                   << seen.num_copies << ", forks " << seen.num_forks << ", deferred "
                   << seen.num_deferred << ", ended in a step " << seen.num_ended_in_step
                   << ", gone " << seen.num_gone << ", ended " << seen.num_ended << ", discarded "
                   << seen.num_discarded << ", groups " << seen.num_groups);
  for (const int64_t count : {seen.num_recomputed, seen.num_swapped_out, seen.num_swapped_in,
                              seen.num_hit_tokens, seen.num_evictions, seen.num_copies,
                              seen.num_forks, seen.num_deferred, seen.num_ended_in_step,
                              seen.num_gone, seen.num_ended, seen.num_discarded, seen.num_groups}) {
    CHECK(count > 100);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace hami::llm
