// The recorder of timelines: what is kept, what is bounded, and that threads do not disturb each
// other or whoever stops.
#include "core/trace.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <barrier>
#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace hami {
namespace {

TEST_SUITE_BEGIN("trace");

constexpr size_t kMany = 1 << 20;

TraceRecord numbered(int64_t value, uint64_t request = 0) {
  return {.kind = TraceKind::kPartial, .begin = Clock::now(), .request = request, .value = value};
}

std::vector<int64_t> values_of(const TraceRecording::Thread& thread) {
  std::vector<int64_t> values;
  for (const TraceRecord& record : thread.records) values.push_back(record.value);
  return values;
}

size_t num_records(const TraceRecording& recording) {
  size_t count = 0;
  for (const auto& thread : recording.threads) count += thread.records.size();
  return count;
}

TEST_CASE("nothing_is_recorded_while_nobody_records") {
  Trace trace;
  trace.record(numbered(1));
  CHECK(!trace.is_on());
  CHECK(!trace.stop());
  REQUIRE(trace.start(kMany));
  const auto recording = trace.stop();
  trace.record(numbered(2));
  REQUIRE(recording);
  CHECK(recording->threads.empty());
}

TEST_CASE("a_record_comes_back_as_it_was") {
  Trace trace;
  REQUIRE(trace.start(kMany));
  const TimePoint begin = Clock::now();
  const TraceRecord given{.kind = TraceKind::kForward,
                          .detail = 2,
                          .node = 3,
                          .instance = 4,
                          .begin = begin,
                          .end = begin + std::chrono::nanoseconds(5),
                          .request = 6,
                          .batch = 7,
                          .value = -8};
  trace.record(given);
  const auto recording = trace.stop();
  REQUIRE(recording);
  REQUIRE(num_records(*recording) == 1);
  const TraceRecord& kept = recording->threads[0].records[0];
  CHECK(kept.kind == TraceKind::kForward);
  CHECK(kept.detail == 2);
  CHECK(kept.node == 3);
  CHECK(kept.instance == 4);
  CHECK(kept.end - kept.begin == std::chrono::nanoseconds(5));
  CHECK(kept.request == 6);
  CHECK(kept.batch == 7);
  CHECK(kept.value == -8);
  CHECK(recording->begin <= kept.begin);
  CHECK(kept.begin <= recording->end);
}

TEST_CASE("a_record_without_an_end_is_a_moment") {
  const TraceRecord record = numbered(1);
  CHECK(record.begin == record.end);
}

TEST_CASE("one_thread_keeps_its_order_over_many_blocks") {
  Trace trace;
  REQUIRE(trace.start(kMany));
  constexpr int64_t kCount = 3 * Trace::Block::kCapacity + 7;
  for (int64_t i = 0; i < kCount; ++i) trace.record(numbered(i));
  const auto recording = trace.stop();
  REQUIRE(recording);
  REQUIRE(recording->threads.size() == 1);
  const auto values = values_of(recording->threads[0]);
  REQUIRE(values.size() == kCount);
  CHECK(std::ranges::is_sorted(values));
  CHECK(values.back() == kCount - 1);
  CHECK(recording->num_dropped == 0);
}

TEST_CASE("what_finds_no_room_is_counted") {
  Trace trace;
  REQUIRE(trace.start(1));  // one block, as small as it gets
  constexpr int64_t kBlock = Trace::Block::kCapacity;
  for (int64_t i = 0; i < kBlock + 10; ++i) trace.record(numbered(i));
  const auto recording = trace.stop();
  REQUIRE(recording);
  CHECK(num_records(*recording) == kBlock);
  CHECK(recording->num_dropped == 10);
}

TEST_CASE("the_room_is_shared_by_all_threads") {
  Trace trace;
  REQUIRE(trace.start(4 * Trace::Block::kCapacity));
  constexpr int kThreads = 8;
  constexpr int64_t kEach = 2 * Trace::Block::kCapacity;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int64_t value = 0; value < kEach; ++value) trace.record(numbered(value));
    });
  }
  for (auto& thread : threads) thread.join();
  const auto recording = trace.stop();
  REQUIRE(recording);
  CHECK(num_records(*recording) <= 4 * Trace::Block::kCapacity);
  CHECK(static_cast<int64_t>(num_records(*recording)) + recording->num_dropped == kThreads * kEach);
}

TEST_CASE("a_second_start_is_refused_until_the_first_is_stopped") {
  Trace trace;
  CHECK(trace.start(kMany));
  CHECK(!trace.start(kMany));
  CHECK(trace.stop());
  CHECK(trace.start(kMany));
  CHECK(trace.stop());
}

TEST_CASE("a_recording_has_nothing_of_the_one_before") {
  Trace trace;
  REQUIRE(trace.start(1));
  for (int64_t i = 0; i < 1000; ++i) trace.record(numbered(i));
  REQUIRE(trace.stop());
  REQUIRE(trace.start(kMany));
  trace.record(numbered(-1));
  const auto second = trace.stop();
  REQUIRE(second);
  REQUIRE(num_records(*second) == 1);
  CHECK(second->threads[0].records[0].value == -1);
  CHECK(second->num_dropped == 0);
}

TEST_CASE("ids_go_on_from_one_recording_to_the_next") {
  Trace trace;
  REQUIRE(trace.start(kMany));
  const uint64_t first = trace.new_id();
  REQUIRE(trace.stop());
  REQUIRE(trace.start(kMany));
  CHECK(first > 0);
  CHECK(trace.new_id() > first);
}

TEST_CASE("two_traces_on_one_thread_do_not_mix") {
  Trace first;
  Trace second;
  REQUIRE(first.start(kMany));
  REQUIRE(second.start(kMany));
  for (int64_t i = 0; i < 1000; ++i) {
    first.record(numbered(i));
    second.record(numbered(-i));
  }
  const auto positive = first.stop();
  const auto negative = second.stop();
  REQUIRE(num_records(*positive) == 1000);
  REQUIRE(num_records(*negative) == 1000);
  CHECK(std::ranges::all_of(values_of(positive->threads[0]), [](int64_t v) { return v >= 0; }));
  CHECK(std::ranges::all_of(values_of(negative->threads[0]), [](int64_t v) { return v <= 0; }));
}

TEST_CASE("a_thread_that_has_ended_leaves_its_records") {
  Trace trace;
  REQUIRE(trace.start(kMany));
  std::thread([&] {
    pthread_setname_np(pthread_self(), "short-lived");
    trace.record(numbered(1));
  }).join();
  std::thread([&] { trace.record(numbered(2)); }).join();
  const auto recording = trace.stop();
  REQUIRE(recording->threads.size() == 2);
  CHECK(recording->threads[0].name == "short-lived");
  CHECK(recording->threads[0].native_id > 0);
  CHECK(recording->threads[0].number != recording->threads[1].number);
}

TEST_CASE("a_trace_that_ends_before_its_threads_leaves_them_nothing_to_hold") {
  auto trace = std::make_unique<Trace>();
  REQUIRE(trace->start(kMany));
  trace->record(numbered(1));
  trace.reset();  // this thread still has its block
  Trace next;
  REQUIRE(next.start(kMany));
  next.record(numbered(2));
  const auto recording = next.stop();
  REQUIRE(num_records(*recording) == 1);
  CHECK(recording->threads[0].records[0].value == 2);
}

TEST_CASE("stopping_while_threads_record_takes_whole_records_alone") {
  Trace trace;
  constexpr int kThreads = 4;
  constexpr int kRounds = 50;
  std::atomic<bool> is_over{false};
  std::barrier ready(kThreads + 1);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      ready.arrive_and_wait();
      for (int64_t value = 1; !is_over.load(); ++value) {
        trace.record(numbered(value, static_cast<uint64_t>(value)));
      }
    });
  }
  ready.arrive_and_wait();
  for (int round = 0; round < kRounds; ++round) {
    REQUIRE(trace.start(64 * Trace::Block::kCapacity));
    std::this_thread::yield();
    const auto recording = trace.stop();
    REQUIRE(recording);
    for (const auto& thread : recording->threads) {
      CHECK(std::ranges::is_sorted(values_of(thread)));
      CHECK(std::ranges::all_of(thread.records, [](const TraceRecord& record) {
        return record.kind == TraceKind::kPartial &&
               record.request == static_cast<uint64_t>(record.value);
      }));
    }
  }
  is_over = true;
  for (auto& thread : threads) thread.join();
}

TEST_CASE("nodes_are_found_by_their_names") {
  Trace trace;
  trace.set_nodes({"decode", "detect"});
  CHECK(trace.find_node("detect") == 1);
  CHECK(trace.find_node("gone") == -1);
}

TEST_CASE("every_kind_and_outcome_has_a_name_of_its_own") {
  std::set<std::string> names;
  for (size_t i = 0; i < kNumTraceKinds; ++i) names.insert(to_string(static_cast<TraceKind>(i)));
  CHECK(names.size() == kNumTraceKinds);
  CHECK(std::string(to_string(TraceKind::kQueue)) == "queue");
  for (size_t i = 0; i < kNumTraceOutcomes; ++i) {
    names.insert(to_string(static_cast<TraceOutcome>(i)));
  }
  CHECK(names.size() == kNumTraceKinds + kNumTraceOutcomes);
  CHECK(std::string(to_string(TraceOutcome::kClosed)) == "closed");
}

TEST_SUITE_END();

}  // namespace
}  // namespace hami
