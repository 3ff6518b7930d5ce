// `Call`: what a plugin sees while one of its functions runs, behind the opaque `hami_call`. It
// belongs to the thread of that call.
#pragma once

#include <hami/abi.h>

#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "core/item.h"

namespace hami::plugin {

struct Call {
  const std::string& node;
  int instance = 0;
  Batch items = {};

  // What the plugin says is wrong.
  bool is_request = false;
  std::string message = {};
  std::string help = {};
  // How many results it handed over at once, if it did.
  std::optional<uint64_t> num_results = {};

  hami_call* handle() noexcept { return reinterpret_cast<hami_call*>(this); }
  static Call& of(hami_call* call) noexcept { return *reinterpret_cast<Call*>(call); }
  static const Call& of(const hami_call* call) noexcept {
    return *reinterpret_cast<const Call*>(call);
  }
};

// The error of a request, or of a backend while it runs.
std::exception_ptr error_of_run(bool is_request, std::string message, std::string help);

}  // namespace hami::plugin
