// Integers from Python: lists, tuples, arrays, whatever has a buffer of them.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <vector>

namespace hami::bind {

// Replaces `integers` by those of a sequence, or of a buffer with one dimension. Raises TypeError
// and OverflowError; `what` names the argument. May run code of the object's class.
void read_integers(pybind11::handle object, const char* what, std::vector<int64_t>& integers);

// The same for token ids; one beyond int32 is a request error.
std::vector<int32_t> read_token_ids(pybind11::handle object, const char* what);

}  // namespace hami::bind
