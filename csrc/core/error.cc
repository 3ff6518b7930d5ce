#include "core/error.h"

#include <utility>

namespace hami {

Error::Error(ErrorKind kind, std::string code, std::string message, std::string help,
             std::string where)
    : kind_(kind),
      code_(std::move(code)),
      message_(std::move(message)),
      help_(std::move(help)),
      where_(std::move(where)) {}

Error Error::at(const std::string& where) const {
  return where_.empty() ? Error(kind_, code_, message_, help_, where) : *this;
}

std::string describe(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception that is not a std::exception";
  }
}

std::string backticked(std::string_view text) {
  std::string out = "`";
  out += text;
  out += '`';
  return out;
}

}  // namespace hami
