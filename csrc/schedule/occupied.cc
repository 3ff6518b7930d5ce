#include "schedule/occupied.h"

namespace hami {
namespace {

thread_local const Occupied* current = nullptr;

}  // namespace

Occupied::Occupied(const PipelineLoad& pipeline, const std::string& node)
    : pipeline_(pipeline), node_(node), outer_(current) {
  current = this;
}

Occupied::~Occupied() { current = outer_; }

const Occupied* Occupied::innermost() noexcept { return current; }

}  // namespace hami
