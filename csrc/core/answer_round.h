// `AnswerRound`: the time in which a thread answers the requests of one batch, one after another.
// What may wait until all have their answers is done once at its end, instead of between them.
#pragma once

#include <functional>
#include <vector>

namespace hami {

class AnswerRound {
 public:
  AnswerRound() noexcept;
  ~AnswerRound();
  AnswerRound(const AnswerRound&) = delete;
  AnswerRound& operator=(const AnswerRound&) = delete;

  // Runs `work` at the end of the innermost round that is open on this thread. False: there is
  // none, or no memory to keep it. REQUIRES: `work` does not throw.
  static bool at_end(std::function<void()> work) noexcept;

 private:
  AnswerRound* const outer_;
  std::vector<std::function<void()>> work_;
};

}  // namespace hami
