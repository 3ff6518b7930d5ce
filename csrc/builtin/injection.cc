// `DI[a, b, ...]`: each backend gets the next one as the one to call, and `a` is called. Wiring
// only: it builds to `a`.
#include "plan/build.h"

namespace hami {
namespace {

std::shared_ptr<Backend> create_injection(Build& build) {
  auto next = build.child(build.num_children() - 1);
  for (size_t i = build.num_children() - 1; i-- > 0;) {
    auto wrapper = build.child(i);
    wrapper->inject(next);
    build.scope().keep(next);
    next = std::move(wrapper);
  }
  return next;
}

const Registration registration{
    BackendClass{.name = "DI",
                 .family = "wiring",
                 .doc = "Injects each backend into the one before it and calls the first.",
                 .min_children = 1,
                 .max_children = -1,
                 .create = create_injection}};

}  // namespace
}  // namespace hami
