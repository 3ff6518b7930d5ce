#include "builtin/stages.h"

namespace hami {

StagedContainer::StagedContainer(Build& build) : Container(build) {
  for (size_t i = 0; i < children_.size(); ++i) {
    stages_.push_back({*children_[i], build.expr().children[i].prefix == "or", build.condition(i)});
  }
}

Traits StagedContainer::traits() const {
  Traits traits = common_traits(children_);
  traits.may_skip = false;
  for (const Stage& stage : stages_) {
    const bool may_skip = stage.backend.traits().may_skip;
    // After `(or)X` an item lacks a result only if X gave none; a judge lets none pass.
    const bool settles = stage.is_or || stage.backend.judges_results();
    traits.may_skip = settles ? may_skip : traits.may_skip || may_skip;
    if (stage.condition == nullptr) continue;
    Traits question = stage.condition->traits();
    question.may_skip = false;  // items for which it does not hold keep what they have
    traits = traits.combine(question);
  }
  return traits;
}

void StagedContainer::collect_reads(std::vector<Key>& reads) const {
  Container::collect_reads(reads);
  for (const Stage& stage : stages_) {
    if (stage.condition != nullptr) stage.condition->collect_reads(reads);
  }
}

}  // namespace hami
