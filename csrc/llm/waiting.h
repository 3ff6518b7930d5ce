// `Waiting`: the sequences that wait for a place, in the order of a policy.
//
// Nobody starves. Under `fcfs`, `priority`, `shortest` and `prefill_first` the key of a request is
// fixed when it arrives, and grows with the steps the scheduler has made until then: a later
// request can only be ahead for so many steps. A step is worth one token of `expected_tokens` under
// `shortest` and of what a user has had under `fair`, and `1 / ageing_steps` levels of `priority`.
#pragma once

#include <memory>
#include <set>
#include <string_view>

#include "llm/sequence.h"
#include "llm/settings.h"

namespace hami::llm {

class Waiting {
 public:
  virtual ~Waiting() = default;
  virtual void push(Sequence& sequence) = 0;
  virtual void erase(Sequence& sequence) = 0;
  // Who comes next; null when nobody waits.
  virtual Sequence* first() = 0;
  virtual size_t size() const noexcept = 0;

  // A user's requests come and go, and are served. Only `fair` keeps accounts.
  virtual Account* join(std::string_view user);
  virtual void leave(Account* account);
  void serve(const Request& request, int32_t num_tokens) noexcept {
    if (request.account != nullptr) request.account->served += num_tokens;
  }
};

std::unique_ptr<Waiting> make_waiting(Policy policy);

// The key of a request that arrives now; `expected_tokens` 0: unknown.
double key_of(const Settings& settings, const Request& request, int32_t expected_tokens);

}  // namespace hami::llm
