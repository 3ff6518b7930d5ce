#include "bind/integers.h"

#include <cstring>
#include <limits>
#include <string>

#include "bind/errors.h"
#include "bind/owned.h"

namespace py = pybind11;

namespace hami::bind {
namespace {

class Buffer {
 public:
  explicit Buffer(PyObject* object) {
    if (PyObject_GetBuffer(object, &view_, PyBUF_RECORDS_RO) != 0) throw py::error_already_set();
  }
  ~Buffer() { PyBuffer_Release(&view_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  const Py_buffer& view() const noexcept { return view_; }

 private:
  Py_buffer view_;
};

template <class Integer>
void copy(const Py_buffer& view, std::vector<int64_t>& integers) {
  const auto* from = static_cast<const char*>(view.buf);
  const Py_ssize_t stride = view.strides == nullptr ? view.itemsize : view.strides[0];
  for (Py_ssize_t i = 0; i < view.shape[0]; ++i, from += stride) {
    Integer integer;
    std::memcpy(&integer, from, sizeof integer);
    integers.push_back(static_cast<int64_t>(integer));
  }
}

// The kind of integer a format stands for: its sign, or 0 when it is none.
int sign_of(const char* format) {
  if (format == nullptr) return 1;
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  if (*format == '\0' || format[1] != '\0') return 0;
  if (std::strchr("bhilqn", *format) != nullptr) return -1;
  return std::strchr("BHILQN", *format) != nullptr ? 1 : 0;
}

// False when the buffer holds something else.
bool copy_buffer(const Py_buffer& view, std::vector<int64_t>& integers) {
  const int sign = sign_of(view.format);
  if (view.ndim != 1 || sign == 0) return false;
  switch (view.itemsize) {
    case 1:
      sign < 0 ? copy<int8_t>(view, integers) : copy<uint8_t>(view, integers);
      return true;
    case 2:
      sign < 0 ? copy<int16_t>(view, integers) : copy<uint16_t>(view, integers);
      return true;
    case 4:
      sign < 0 ? copy<int32_t>(view, integers) : copy<uint32_t>(view, integers);
      return true;
    case 8:
      sign < 0 ? copy<int64_t>(view, integers) : copy<uint64_t>(view, integers);
      return true;
    default:
      return false;
  }
}

[[noreturn]] void refuse(py::handle object, const char* what) {
  throw py::type_error(std::string("`") + what + "` must be a sequence of ints, or a buffer of " +
                       "them with one dimension, not `" + Py_TYPE(object.ptr())->tp_name + "`");
}

int64_t integer_of(PyObject* object, const char* what) {
  const Owned index(PyNumber_Index(object));
  if (!index) {
    PyErr_Clear();
    throw py::type_error(std::string("`") + what + "` has an item that is no int but `" +
                         Py_TYPE(object)->tp_name + "`");
  }
  const int64_t integer = PyLong_AsLongLong(index.get());
  if (integer == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  return integer;
}

}  // namespace

void read_integers(py::handle object, const char* what, std::vector<int64_t>& integers) {
  integers.clear();
  if (PyObject_CheckBuffer(object.ptr()) != 0) {
    const Buffer buffer(object.ptr());
    if (!copy_buffer(buffer.view(), integers)) refuse(object, what);
    return;
  }
  if (PySequence_Check(object.ptr()) == 0) refuse(object, what);
  // A tuple of its own: code of an item's class may change a list meanwhile.
  const Owned items(PySequence_Tuple(object.ptr()));
  if (!items) throw py::error_already_set();
  const Py_ssize_t num_items = PyTuple_GET_SIZE(items.get());
  integers.reserve(static_cast<size_t>(num_items));
  for (Py_ssize_t i = 0; i < num_items; ++i) {
    integers.push_back(integer_of(PyTuple_GET_ITEM(items.get(), i), what));
  }
}

std::vector<int32_t> read_token_ids(py::handle object, const char* what) {
  std::vector<int64_t> integers;
  read_integers(object, what, integers);
  std::vector<int32_t> ids;
  ids.reserve(integers.size());
  for (const int64_t integer : integers) {
    if (integer < std::numeric_limits<int32_t>::min() ||
        integer > std::numeric_limits<int32_t>::max()) {
      raise(Error(
          ErrorKind::kRequest, "llm-token-id",
          std::string("`") + what + "` has the token id " + backticked(std::to_string(integer)),
          "token ids count from 0"));
    }
    ids.push_back(static_cast<int32_t>(integer));
  }
  return ids;
}

}  // namespace hami::bind
