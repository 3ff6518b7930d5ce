// Errors of the core. A wrong user gets an `Error` with a stable code, the value and one thing to
// do; it may be thrown and read on any thread. Errors of user code travel as what they are.
#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace hami {

// What went wrong, from the caller's point of view; each kind is one public exception class.
enum class ErrorKind {
  kConfig,
  kBuild,
  kRequest,
  kQueueFull,
  kDeadlineExceeded,
  kCancelled,
  kClosed,
};

class Error : public std::exception {
 public:
  // `code` is a slug with a section in docs/errors.md; `help` is one thing to do, or empty.
  Error(ErrorKind kind, std::string code, std::string message, std::string help = "",
        std::string where = "");

  const char* what() const noexcept override { return message_.c_str(); }
  ErrorKind kind() const noexcept { return kind_; }
  const std::string& code() const noexcept { return code_; }
  const std::string& message() const noexcept { return message_; }
  const std::string& help() const noexcept { return help_; }
  const std::string& where() const noexcept { return where_; }

  // The same error, said to have happened at `where` unless it already names a place.
  Error at(const std::string& where) const;

 private:
  ErrorKind kind_;
  std::string code_;
  std::string message_;
  std::string help_;
  std::string where_;
};

// An exception of the host language on its way through the core: it reaches the caller as itself.
class HostError : public std::exception {
 public:
  // False where running the batch again would be wrong or dangerous: out of memory, a broken
  // device, a worker process that died.
  virtual bool may_rerun() const noexcept = 0;
};

// The text of whatever exception `error` holds, for notes and messages.
std::string describe(const std::exception_ptr& error);

// `text` in backticks, as error messages quote values.
std::string backticked(std::string_view text);

}  // namespace hami
