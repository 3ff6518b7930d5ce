// Bytes of model files in messages: what is UTF-8 stays, everything else becomes visible.
#include <string>

#include "backends/onnxruntime/utf8.h"
#include "onnx_fixture.h"

namespace hami::onnxruntime {
namespace {

TEST_SUITE_BEGIN("onnxruntime");

TEST_CASE("valid text stays as it is") {
  for (const std::string text : {"", "plain", "caf\xC3\xA9", "\xE6\x96\x87", "\xF0\x9F\x98\x80",
                                 "\xED\x9F\xBF", "\xEE\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    CHECK(valid_utf8(text) == text);
  }
}

TEST_CASE("every byte that is not text becomes a question mark") {
  struct Case {
    std::string text, valid;
  };
  const std::vector<Case> cases = {
      {"a\x81z", "a?z"},                        // a continuation without a beginning
      {"\xC3", "?"},                            // cut
      {"\xE6\x96", "??"},                       // cut
      {"\xC0\xAF", "??"},                       // ASCII in two bytes
      {"\xE0\x80\xAF", "???"},                  // ASCII in three
      {"\xF0\x80\x80\xAF", "????"},             // ASCII in four
      {"\xED\xA0\x80", "???"},                  // half of a pair
      {"\xF4\x90\x80\x80", "????"},             // beyond the last character
      {"\xFF\xFE", "??"},                       // never in UTF-8
      {"\xC3(\xE6\x96\x87", "?(\xE6\x96\x87"},  // goes on after a mistake
  };
  for (const Case& one : cases) CHECK(valid_utf8(one.text) == one.valid);
}

TEST_SUITE_END();

}  // namespace
}  // namespace hami::onnxruntime
