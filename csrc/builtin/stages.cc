#include "builtin/stages.h"

namespace hami {

StagedContainer::StagedContainer(Build& build) : Container(build) {
  for (size_t i = 0; i < children_.size(); ++i) {
    stages_.push_back({*children_[i], build.expr().children[i].prefix == "or", build.condition(i)});
  }
}

// Asks every child once: nested containers would otherwise double the work with each level.
Traits StagedContainer::traits() const {
  Traits all{.is_inline = true, .is_reentrant = true};
  for (const Stage& stage : stages_) {
    const Traits own = stage.backend.traits();
    // After `(or)X` an item lacks a result only if X gave none; a judge lets none pass.
    const bool settles = stage.is_or || stage.backend.judges_results();
    const bool may_skip = settles ? own.may_skip : all.may_skip || own.may_skip;
    all = all.combine(own);
    // Items for which a stage's condition does not hold keep what they have.
    if (stage.condition != nullptr) all = all.combine(stage.condition->traits());
    all.may_skip = may_skip;
  }
  return all;
}

void StagedContainer::collect_reads(std::vector<Key>& reads) const {
  Container::collect_reads(reads);
  for (const Stage& stage : stages_) {
    if (stage.condition != nullptr) stage.condition->collect_reads(reads);
  }
}

}  // namespace hami
