// `hami._core.FakeModel`: the executor without a model, for tests and for engines without weights.
#pragma once

#include <pybind11/pybind11.h>

namespace hami::bind {

void define_llm_fake_model(pybind11::module_& module);

}  // namespace hami::bind
