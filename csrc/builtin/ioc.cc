// `IoC[I1, I2; F]`: makes I1 and I2 in written order, then F, which may name them. It is wiring
// only: what it builds to is F itself.
#include "plan/build.h"

namespace hami {
namespace {

std::shared_ptr<Backend> create_ioc(Build& build) {
  BuildContext& context = build.context();
  const size_t num_outer = context.bound.size();
  const size_t num_phase1 = build.expr().num_phase1;
  for (size_t i = 0; i < num_phase1; ++i) {
    auto backend = build.child(i);
    build.scope().keep(backend);
    context.bound.emplace_back(build.expr().children[i].name, std::move(backend));
  }
  std::shared_ptr<Backend> main;
  for (size_t i = num_phase1; i < build.num_children(); ++i) {
    if (main != nullptr) build.scope().keep(main);
    main = build.child(i);
  }
  context.bound.resize(num_outer);
  return main;
}

const Registration registration{BackendClass{
    .name = "IoC",
    .family = "wiring",
    .doc = "Phase 1 makes and names backends that share their options; phase 2 is what runs.",
    .min_children = 1,
    .max_children = -1,
    .create = create_ioc}};

}  // namespace
}  // namespace hami
