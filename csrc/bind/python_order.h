// The order of waiting requests as a class in Python defines it: `scheduler = "Name"`.
#pragma once

#include <memory>

#include "schedule/order.h"

namespace hami::bind {

// REQUIRES: `scheduler_class` is a Python class with a method `order`.
std::unique_ptr<Order> create_python_order(const Any& scheduler_class);

}  // namespace hami::bind
