#include "core/answer_round.h"

#include <new>
#include <utility>

namespace hami {
namespace {

thread_local AnswerRound* open_round = nullptr;

}  // namespace

AnswerRound::AnswerRound() noexcept : outer_(std::exchange(open_round, this)) {}

AnswerRound::~AnswerRound() {
  open_round = outer_;
  for (const auto& work : work_) work();
}

bool AnswerRound::at_end(std::function<void()> work) noexcept {
  if (open_round == nullptr) return false;
  try {
    open_round->work_.push_back(std::move(work));
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace hami
