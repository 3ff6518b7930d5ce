// `Register[X]`, `InstancesRegister[X]` and `Forward[name]`: names of one pipeline. They are wiring
// only and build to the backend they name.
#include "core/error.h"
#include "plan/build.h"

namespace hami {
namespace {

std::shared_ptr<Backend> create_register(Build& build) {
  auto backend = build.child(0);
  build.scope().add(build.params().get_str("name"), backend);
  return backend;
}

// Each copy is built in surroundings of its own: its index, and options that it shares with nobody.
std::shared_ptr<Backend> create_instances(Build& build) {
  const std::string name = build.params().get_str("name");
  const int64_t num_instances = build.params().get_int("instance_num");
  std::shared_ptr<Backend> last;
  for (int64_t i = 0; i < num_instances; ++i) {
    BuildContext context{.scope = build.scope(),
                         .node_name = build.node_name(),
                         .node_params = build.node_params(),
                         .instance_index = static_cast<int>(i),
                         .bound = build.context().bound};
    last = hami::build(build.expr().children[0], context);
    build.scope().add(name + "." + std::to_string(i), last);
  }
  return last;
}

const Registration registration_of_register{BackendClass{
    .name = "Register",
    .family = "wiring",
    .doc = "Builds its child and registers it in the pipeline.",
    .params = {{.name = "name", .type = "str", .doc = "the name", .is_required = true}},
    .min_children = 1,
    .max_children = 1,
    .create = create_register}};

const Registration registration_of_instances{BackendClass{
    .name = "InstancesRegister",
    .family = "wiring",
    .doc = "Builds `instance_num` copies of its child, registered as `name.0`, `name.1`, ...",
    .params = {{.name = "name", .type = "str", .doc = "the common name", .is_required = true},
               {.name = "instance_num",
                .type = "int",
                .doc = "how many copies",
                .default_value = Value(int64_t{1}),
                .min = 1,
                .max = 4096}},
    .min_children = 1,
    .max_children = 1,
    .create = create_instances}};

const Registration registration_of_forward{
    BackendClass{.name = "Forward",
                 .family = "wiring",
                 .doc = "Calls a backend that has a name already: bound in phase 1, or registered.",
                 .min_children = 1,
                 .max_children = 1,
                 .create = [](Build& build) { return build.child(0); }}};

}  // namespace
}  // namespace hami
