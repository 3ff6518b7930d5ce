// `PythonCondition`: a predicate of the user, registered with `hami.condition`, as a condition.
#pragma once

#include <memory>

#include "core/condition.h"
#include "plan/build.h"

namespace hami::bind {

// Makes the condition whose predicate is `build.expr().host`.
std::shared_ptr<Condition> create_python_condition(Build& build);

}  // namespace hami::bind
