#include "bind/llm_text_object.h"

#include <pybind11/stl.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "bind/guarded.h"
#include "bind/integers.h"
#include "bind/method.h"
#include "llm/text_stream.h"

namespace py = pybind11;

namespace hami::bind {
namespace {

using Table = std::shared_ptr<llm::TokenTable>;

struct StreamObject {
  StreamObject(Table table, std::vector<std::string> stop, bool include_stop, bool skip_special)
      : stream(std::move(table), std::move(stop), include_stop, skip_special) {}
  std::mutex mutex;  // for programs that share a stream among threads, against the rule
  llm::TextStream stream;
};

Table make_table(const py::sequence& tokens, const py::object& special_ids,
                 bool strip_leading_space) {
  std::vector<std::string> bytes;
  bytes.reserve(py::len(tokens));
  for (const py::handle token : tokens) {
    if (!PyBytes_Check(token.ptr())) {
      throw py::type_error("token " + std::to_string(bytes.size()) + " is no bytes but `" +
                           Py_TYPE(token.ptr())->tp_name + "`");
    }
    bytes.push_back(py::reinterpret_borrow<py::bytes>(token));
  }
  const auto special = read_token_ids(special_ids, "special_ids");
  return guarded(
      [&] { return std::make_shared<llm::TokenTable>(bytes, special, strip_leading_space); });
}

std::string decode(const llm::TokenTable& table, const py::object& ids, bool skip_special) {
  std::vector<int64_t> read;
  read_integers(ids, "ids", read);
  return guarded([&] {
    // The stream lives no longer than the table.
    llm::TextStream stream({std::shared_ptr<void>(), &table}, {}, false, skip_special);
    std::string text;
    for (const int64_t id : read) text += stream.push(id);
    return text + stream.flush();
  });
}

py::bytes bytes_of(const llm::TokenTable& table, int64_t id) {
  const auto bytes = guarded([&] { return table.bytes_of(id); });
  return py::bytes(bytes.data(), bytes.size());
}

std::unique_ptr<StreamObject> make_stream(const py::object& table, std::vector<std::string> stop,
                                          bool include_stop, bool skip_special) {
  made<llm::TokenTable>(table);
  auto shared = table.cast<Table>();
  return guarded([&] {
    return std::make_unique<StreamObject>(std::move(shared), std::move(stop), include_stop,
                                          skip_special);
  });
}

std::string push(StreamObject& self, int64_t token_id) {
  return guarded([&] {
    const std::lock_guard lock(self.mutex);
    return self.stream.push(token_id);
  });
}

std::string flush(StreamObject& self) {
  const std::lock_guard lock(self.mutex);
  return self.stream.flush();
}

py::object stopped(StreamObject& self) {
  const std::lock_guard lock(self.mutex);
  const std::string* const text = self.stream.stopped();
  return text == nullptr ? py::object(py::none()) : py::str(*text);
}

}  // namespace

void define_llm_text(py::module_& module) {
  py::class_<llm::TokenTable, Table>(module, "TokenTable",
                                     "The bytes of every token of a vocabulary.")
      .def(py::init(&make_table), py::arg("tokens"), py::arg("special_ids") = py::tuple(),
           py::arg("strip_leading_space") = false)
      .def("decode", method(&decode), py::arg("ids"), py::arg("skip_special") = true)
      .def("bytes_of", method(&bytes_of), py::arg("id"))
      .def("__len__", method(&llm::TokenTable::size));
  py::class_<StreamObject>(module, "TextStream", "The text of a sequence while its tokens come.")
      .def(py::init(&make_stream), py::arg("table"), py::arg("stop") = std::vector<std::string>(),
           py::arg("include_stop") = false, py::arg("skip_special") = true)
      .def("push", method(&push), py::arg("token_id"))
      .def("flush", method(&flush))
      .def_property_readonly("stopped",
                             [](py::handle self) { return stopped(made<StreamObject>(self)); });
}

}  // namespace hami::bind
