// The order in which waiting tasks run: a number for each task, and the lower one runs first. It is
// fixed when the task arrives.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/value.h"
#include "schedule/task.h"

namespace hami {

class Order {
 public:
  virtual ~Order() = default;
  // REQUIRES: arrival, deadline and priority of the task are set. Any thread, no lock held; what
  // this throws is the task's error.
  virtual int64_t order_of(const Task& task) const = 0;
  // Whether tasks run as they arrive.
  virtual bool is_arrival() const noexcept { return false; }
  // Whether it looks at any key of the request (host-language code).
  virtual bool reads_everything() const noexcept { return false; }
};

// The order that `scheduler` names, or that a class of the host language defines.
std::unique_ptr<Order> make_order(const Value& scheduler);

// Makes an order from a class of the host language; set once by the binding.
using HostOrderFactory = std::unique_ptr<Order> (*)(const Any& scheduler_class);
void set_host_order_factory(HostOrderFactory factory);

}  // namespace hami
