// The errors with which a node's scheduler ends a task that it cannot run.
#pragma once

#include <cstdint>
#include <exception>
#include <string>

namespace hami::refusal {

// The pipeline was closed while the task waited or ran.
std::exception_ptr closed(const std::string& node);
// The task has more rows than any instance takes.
std::exception_ptr too_large(const std::string& node, int64_t num_rows, int64_t max_rows);
// The backend did not come back in time.
std::exception_ptr hung(const std::string& node, int instance, double after_ms);
// Nobody came to share a batch, and alone the task has fewer rows than every `min`.
std::exception_ptr too_small(const std::string& node);

}  // namespace hami::refusal
