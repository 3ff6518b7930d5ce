// Laws of the round in which a thread answers a batch: what may wait is done at its end, in order.
#include "core/answer_round.h"

#include <doctest/doctest.h>

#include <string>
#include <thread>

namespace hami {
namespace {

TEST_SUITE("answer_round") {
  TEST_CASE("work waits until the end of the round, and keeps its order") {
    std::string done;
    {
      const AnswerRound round;
      CHECK(AnswerRound::at_end([&] { done += 'a'; }));
      CHECK(AnswerRound::at_end([&] { done += 'b'; }));
      CHECK(done.empty());
    }
    CHECK(done == "ab");
  }

  TEST_CASE("without a round nothing waits") {
    bool is_done = false;
    CHECK_FALSE(AnswerRound::at_end([&] { is_done = true; }));
    CHECK_FALSE(is_done);
  }

  TEST_CASE("a round inside another ends by itself") {
    std::string done;
    const AnswerRound outer;
    CHECK(AnswerRound::at_end([&] { done += 'o'; }));
    {
      const AnswerRound inner;
      CHECK(AnswerRound::at_end([&] { done += 'i'; }));
    }
    CHECK(done == "i");
  }

  TEST_CASE("work that adds work adds it to the outer round, or finds none") {
    bool has_found_one = true;
    {
      const AnswerRound round;
      CHECK(AnswerRound::at_end([&] { has_found_one = AnswerRound::at_end([] {}); }));
    }
    CHECK_FALSE(has_found_one);
  }

  TEST_CASE("a round belongs to its thread") {
    const AnswerRound round;
    bool has_found_one = true;
    std::thread([&] { has_found_one = AnswerRound::at_end([] {}); }).join();
    CHECK_FALSE(has_found_one);
  }
}

}  // namespace
}  // namespace hami
