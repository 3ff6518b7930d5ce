#include "llm/llm_scheduler.h"

#include <algorithm>
#include <stdexcept>

#include "core/error.h"

namespace hami::llm {
namespace {

std::string quoted(int64_t number) { return backticked(std::to_string(number)); }

void check_ids(const char* what, const std::vector<int32_t>& ids) {
  const auto wrong = std::find_if(ids.begin(), ids.end(), [](int32_t id) { return id < 0; });
  if (wrong == ids.end()) return;
  throw Error(ErrorKind::kRequest, "llm-token-id",
              std::string("`") + what + "` has the token id " + quoted(*wrong),
              "token ids count from 0");
}

const Settings& checked(const Settings& settings) {
  settings.check();
  return settings;
}

size_t most_tokens_in_step(const Settings& settings) {
  const int64_t all = int64_t{settings.max_running} * settings.max_model_len;
  return static_cast<size_t>(std::min<int64_t>(settings.max_batched_tokens, all));
}

}  // namespace

LlmScheduler::LlmScheduler(const Settings& settings)
    : settings_(checked(settings)),
      pages_(settings),
      plan_(settings.max_running, most_tokens_in_step(settings), settings.num_swap_pages),
      waiting_(make_waiting(settings.policy)) {
  auto& table = pages_.table();
  plan_.page_table = {table.data(), static_cast<size_t>(table.max_rows()) * table.max_pages()};
  plan_.max_pages = table.max_pages();
  running_.reserve(settings.max_running);
  rows_.reserve(settings.max_running);
}

void LlmScheduler::check(const NewRequest& request) const {
  const auto length = static_cast<int64_t>(request.prompt.size());
  if (length == 0) {
    throw Error(ErrorKind::kRequest, "llm-prompt-empty", "the prompt has no tokens",
                "send at least one token");
  }
  if (length >= settings_.max_model_len) {
    throw Error(ErrorKind::kRequest, "llm-prompt-too-long",
                "the prompt has " + quoted(length) + " tokens, and `max_model_len` is " +
                    quoted(settings_.max_model_len),
                "shorten the prompt to at most " + std::to_string(settings_.max_model_len - 1) +
                    " tokens, or set a larger `max_model_len`");
  }
  const int32_t wanted = pages_.pages_for(length);
  const int32_t most = settings_.num_pages - 1;
  if (wanted > most) {
    throw Error(ErrorKind::kRequest, "llm-prompt-pool",
                "the prompt needs " + quoted(wanted) + " pages, and the pool has " + quoted(most),
                "shorten the prompt to at most " +
                    std::to_string(int64_t{most} * settings_.page_size) +
                    " tokens, or set a larger `num_pages`");
  }
  check_ids("prompt_ids", request.prompt);
  if (request.max_tokens < 1) {
    throw Error(ErrorKind::kRequest, "llm-max-tokens",
                "`max_tokens` is " + quoted(request.max_tokens), "ask for 1 or more");
  }
  if (request.min_tokens < 0) {
    throw Error(ErrorKind::kRequest, "llm-min-tokens",
                "`min_tokens` is " + quoted(request.min_tokens), "ask for 0 or more");
  }
  if (request.together && request.width > settings_.max_batched_tokens) {
    throw Error(ErrorKind::kRequest, "llm-width",
                "the request wants " + quoted(request.width) +
                    " sequences in the same steps, and `max_batched_tokens` is " +
                    quoted(settings_.max_batched_tokens),
                "ask for fewer, or set a larger `max_batched_tokens`");
  }
  if (request.width < 1 || request.width > settings_.max_running) {
    throw Error(ErrorKind::kRequest, "llm-width",
                "the request wants " + quoted(request.width) +
                    " sequences at once, and `max_running` is " + quoted(settings_.max_running),
                "ask for 1 to " + std::to_string(settings_.max_running) +
                    ", or set a larger `max_running`");
  }
}

int64_t LlmScheduler::add(NewRequest wanted) {
  check(wanted);
  auto request = std::make_shared<Request>();
  request->arrival = num_requests_++;
  request->arrival_step = stats_.num_steps;
  request->num_prompt = static_cast<int32_t>(wanted.prompt.size());
  const int64_t most = settings_.max_model_len - request->num_prompt;
  request->max_tokens = static_cast<int32_t>(std::min(wanted.max_tokens, most));
  request->min_tokens = static_cast<int32_t>(std::min<int64_t>(wanted.min_tokens, most));
  request->stop_ids = std::move(wanted.stop_ids);
  request->width = static_cast<int32_t>(wanted.width);
  request->priority = wanted.priority;
  request->salt = std::move(wanted.salt);
  request->prompt_logits = wanted.prompt_logits;
  request->together = wanted.together;
  const auto expected = std::clamp<int64_t>(wanted.expected_tokens, 0, request->max_tokens);
  request->key = settings_.policy == Policy::kCustom
                     ? wanted.key
                     : key_of(settings_, *request, static_cast<int32_t>(expected));
  request->account = waiting_->join(wanted.user);
  request->num_live = 1;

  auto sequence = std::make_unique<Sequence>();
  sequence->id = next_id_++;
  sequence->request = std::move(request);
  sequence->tokens = std::move(wanted.prompt);
  Sequence& added = *sequence;
  sequences_.emplace(added.id, std::move(sequence));
  waiting_->push(added);
  return added.id;
}

const Sequence* LlmScheduler::find(int64_t id) const noexcept {
  const auto found = sequences_.find(id);
  return found == sequences_.end() ? nullptr : found->second.get();
}

void LlmScheduler::end(int64_t id, Ending ending) {
  const auto found = sequences_.find(id);
  if (found == sequences_.end()) return;
  Sequence& sequence = *found->second;
  if (sequence.num_planned > 0) {
    // The executor may still write its pages.
    sequence.ending = std::max(sequence.ending, ending);
  } else {
    remove(sequence, ending);
  }
}

void LlmScheduler::remove(Sequence& sequence, Ending ending) {
  switch (sequence.state) {
    case State::kWaiting:
      waiting_->erase(sequence);
      break;
    case State::kRunning:
      stop_running(sequence);
      break;
    case State::kSwapped:
      swapped_.erase(&sequence);
      break;
  }
  pages_.release(sequence);
  if (ending == Ending::kFail) pages_.forget(sequence);
  if (ending == Ending::kAbort) ++stats_.num_aborted;
  Request& request = *sequence.request;
  if (--request.num_live == 0) waiting_->leave(request.account);
  sequences_.erase(sequence.id);
}

void LlmScheduler::start_running(Sequence& sequence) {
  sequence.state = State::kRunning;
  const auto place = std::upper_bound(running_.begin(), running_.end(), &sequence, RunsBefore());
  running_.insert(place, &sequence);
  Request& request = *sequence.request;
  if (request.num_running++ == 0) num_reserved_rows_ += request.width;
}

void LlmScheduler::stop_running(Sequence& sequence) {
  const auto place = std::lower_bound(running_.begin(), running_.end(), &sequence, RunsBefore());
  running_.erase(place);
  Request& request = *sequence.request;
  if (--request.num_running == 0) num_reserved_rows_ -= request.width;
}

void LlmScheduler::recompute_all() {
  if (in_flight_) {
    throw std::logic_error("a plan is in flight: commit it, or discard it, before all start over");
  }
  while (!running_.empty()) {
    Sequence& sequence = *running_.back();
    stop_running(sequence);
    recompute(sequence);
    ++stats_.num_recomputed;
  }
  while (!swapped_.empty()) {
    Sequence& sequence = **swapped_.begin();
    swapped_.erase(swapped_.begin());
    recompute(sequence);
    ++stats_.num_recomputed;
  }
  pages_.clear_cache();
}

void LlmScheduler::reset_prefix_cache() {
  pages_.clear_cache();
  for (const auto& [id, sequence] : sequences_) {
    const bool has_state = sequence->num_computed > 0 || sequence->num_planned > 0;
    if (has_state) sequence->may_cache = false;
  }
}

}  // namespace hami::llm
