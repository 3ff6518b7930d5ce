// The pages of a cache: who holds which, what is found again, what goes first.
#include "paged/page_pool.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "paged/page_to_kv_pool_allocator.h"
#include "paged/prefix_index.h"
#include "paged/req_to_page_table.h"

namespace hami::paged {
namespace {

TEST_SUITE_BEGIN("paged");

TEST_CASE("page 0 is never handed out, and every other page once") {
  PagePool pool(5);
  std::vector<Page> pages;
  for (Page page = pool.take(); page != kNoPage; page = pool.take()) pages.push_back(page);
  std::sort(pages.begin(), pages.end());
  CHECK(pages == std::vector<Page>{1, 2, 3, 4});
  CHECK(pool.num_referenced() == 4);
  for (const Page page : pages) pool.release(page);
  CHECK(pool.num_free() == 4);
}

TEST_CASE("a page is free when its last holder is gone") {
  PagePool pool(2);
  const Page page = pool.take();
  pool.share(page);
  pool.release(page);
  CHECK(pool.num_holders(page) == 1);
  CHECK(pool.num_free() == 0);
  pool.release(page);
  CHECK(pool.num_free() == 1);
}

TEST_CASE("cached pages wait in the order in which they were given back") {
  PagePool pool(4);
  const std::vector<Page> pages = {pool.take(), pool.take(), pool.take()};
  for (const Page page : pages) pool.set_cached(page);
  for (const int i : {1, 0, 2}) pool.release(pages[i]);
  CHECK(pool.num_cached() == 3);
  CHECK(pool.oldest_cached() == pages[1]);
  pool.share(pages[1]);
  CHECK(pool.oldest_cached() == pages[0]);
  pool.release(pages[1]);
  pool.drop_cached(pages[0]);
  CHECK(pool.oldest_cached() == pages[2]);
  CHECK(pool.num_free() == 1);
}

TEST_CASE("the states of pages sum up to the pool, whatever happens") {
  PagePool pool(17);
  std::mt19937 random(1);
  std::vector<int> holders(17);
  std::vector<bool> is_cached(17);
  for (int i = 0; i < 20000; ++i) {
    const Page page = static_cast<Page>(random() % 16 + 1);
    switch (random() % 4) {
      case 0: {
        const Page taken = pool.take();
        if (taken == kNoPage) break;
        REQUIRE(holders[taken] == 0);
        REQUIRE_FALSE(is_cached[taken]);
        ++holders[taken];
        break;
      }
      case 1:
        if (holders[page] == 0 && !is_cached[page]) break;
        pool.share(page);
        ++holders[page];
        break;
      case 2:
        if (holders[page] == 0) break;
        pool.release(page);
        --holders[page];
        break;
      default:
        if (is_cached[page]) {
          pool.drop_cached(page);
          is_cached[page] = false;
        } else if (holders[page] > 0) {
          pool.set_cached(page);
          is_cached[page] = true;
        }
    }
    int num_referenced = 0;
    int num_cached = 0;
    for (Page p = 1; p < 17; ++p) {
      REQUIRE(pool.num_holders(p) == holders[p]);
      num_referenced += holders[p] > 0 ? 1 : 0;
      num_cached += holders[p] == 0 && is_cached[p] ? 1 : 0;
    }
    REQUIRE(pool.num_referenced() == num_referenced);
    REQUIRE(pool.num_cached() == num_cached);
    REQUIRE(pool.num_free() == 16 - num_referenced - num_cached);
  }
}

TEST_CASE("the table tells each changed row once, and forgets the pages of a row given back") {
  ReqToPageTable table(2, 3);
  const int32_t row = table.take_row();
  table.set(row, 0, 5);
  table.set(row, 1, 6);
  CHECK(table.dirty_rows() == std::vector<int32_t>{row});
  table.clean();
  CHECK(table.dirty_rows().empty());
  table.touch(row);
  table.touch(row);
  CHECK(table.dirty_rows() == std::vector<int32_t>{row});
  CHECK(std::ranges::equal(table.row(row), std::vector<Page>{5, 6, 0}));
  CHECK(table.take_row() >= 0);
  CHECK(table.take_row() == -1);
  table.release_row(row, 2);
  CHECK(std::ranges::equal(table.row(row), std::vector<Page>{0, 0, 0}));
  CHECK(table.take_row() == row);
}

constexpr int32_t kPageSize = 2;

// Lets whole pages of `tokens` be found, as somebody does who has just computed them, and goes.
void remember(PageToKVPoolAllocator& allocator, const std::string& salt,
              const std::vector<int32_t>& tokens) {
  std::vector<Page> pages;
  allocator.match(salt, tokens, pages);
  for (const Page page : pages) allocator.share(page);
  const size_t num_whole = tokens.size() / kPageSize;
  while (pages.size() < num_whole) {
    const Page page = allocator.allocate();
    if (page == kNoPage) break;
    const Page parent = pages.empty() ? kNoPage : pages.back();
    const Page found = allocator.insert(
        salt, parent, Tokens(tokens).subspan(pages.size() * kPageSize, kPageSize), page);
    pages.push_back(page);
    CHECK(found == page);
  }
  for (size_t i = pages.size(); i > 0; --i) allocator.release(pages[i - 1]);
}

size_t num_found(const PageToKVPoolAllocator& allocator, const std::string& salt,
                 const std::vector<int32_t>& tokens) {
  std::vector<Page> pages;
  allocator.match(salt, tokens, pages);
  return pages.size();
}

TEST_CASE("whole pages are found again, under their salt, and nothing behind the first miss") {
  for (const auto cache : {PrefixCache::kHash, PrefixCache::kRadix}) {
    PageToKVPoolAllocator allocator(20, kPageSize, cache);
    remember(allocator, "a", {1, 2, 3, 4, 5, 6, 7});
    CHECK(num_found(allocator, "a", {1, 2, 3, 4, 5, 6, 7}) == 3);
    CHECK(num_found(allocator, "a", {1, 2, 3, 9, 5, 6}) == 1);
    CHECK(num_found(allocator, "a", {1, 9, 3, 4, 5, 6}) == 0);
    CHECK(num_found(allocator, "a", {3, 4}) == 0);
    CHECK(num_found(allocator, "a", {1}) == 0);
    CHECK(num_found(allocator, "b", {1, 2, 3, 4}) == 0);
    CHECK(num_found(allocator, "", {1, 2, 3, 4}) == 0);
  }
}

TEST_CASE("without a cache nothing is found and every page is free again") {
  PageToKVPoolAllocator allocator(4, kPageSize, PrefixCache::kNone);
  const Page page = allocator.allocate();
  CHECK(allocator.insert("", kNoPage, std::vector<int32_t>{1, 2}, page) == kNoPage);
  allocator.release(page);
  CHECK(allocator.pool().num_free() == 3);
}

TEST_CASE("known tokens keep the page that was first") {
  for (const auto cache : {PrefixCache::kHash, PrefixCache::kRadix}) {
    PageToKVPoolAllocator allocator(4, kPageSize, cache);
    const std::vector<int32_t> tokens = {1, 2};
    const Page first = allocator.allocate();
    const Page second = allocator.allocate();
    CHECK(allocator.insert("", kNoPage, tokens, first) == first);
    CHECK(allocator.insert("", kNoPage, tokens, second) == first);
    allocator.release(second);
    allocator.release(first);
    CHECK(allocator.pool().num_cached() == 1);
  }
}

TEST_CASE("the end of the path used least recently goes first") {
  for (const auto cache : {PrefixCache::kHash, PrefixCache::kRadix}) {
    PageToKVPoolAllocator allocator(6, kPageSize, cache);  // 5 pages
    remember(allocator, "", {1, 2, 3, 4, 5, 6});
    remember(allocator, "", {1, 2, 7, 8});
    const Page free = allocator.allocate();
    const Page evicted = allocator.allocate();
    CHECK(allocator.num_evictions() == 1);
    CHECK(num_found(allocator, "", {1, 2, 3, 4, 5, 6}) == 2);
    CHECK(num_found(allocator, "", {1, 2, 7, 8}) == 2);
    allocator.release(free);
    allocator.release(evicted);
  }
}

TEST_CASE("forgotten pages take those behind them along, and nothing else") {
  for (const auto cache : {PrefixCache::kHash, PrefixCache::kRadix}) {
    PageToKVPoolAllocator allocator(20, kPageSize, cache);
    remember(allocator, "", {1, 2, 3, 4, 5, 6});
    remember(allocator, "", {1, 2, 3, 4, 7, 8, 9, 9});
    remember(allocator, "", {1, 2, 4, 4});
    allocator.forget("", std::vector<int32_t>{1, 2, 3, 4, 5, 6}, 1);
    CHECK(num_found(allocator, "", {1, 2, 3, 4, 7, 8}) == 1);
    CHECK(num_found(allocator, "", {1, 2, 4, 4}) == 2);
    CHECK(allocator.pool().num_cached() == 2);
    allocator.clear_cache();
    CHECK(allocator.pool().num_free() == 19);
    CHECK(num_found(allocator, "", {1, 2}) == 0);
  }
}

TEST_CASE("nothing is found behind a page that was forgotten while somebody held it") {
  for (const auto cache : {PrefixCache::kHash, PrefixCache::kRadix}) {
    PageToKVPoolAllocator allocator(20, kPageSize, cache);
    const std::vector<int32_t> first = {1, 2};
    const Page page = allocator.allocate();
    allocator.insert("", kNoPage, first, page);
    allocator.forget("", first, 0);
    const Page next = allocator.allocate();
    CHECK(allocator.insert("", page, std::vector<int32_t>{3, 4}, next) == kNoPage);
    allocator.release(next);
    allocator.release(page);
    CHECK(allocator.pool().num_free() == 19);
  }
}

std::vector<int32_t> some_tokens(std::mt19937& random) {
  std::vector<int32_t> tokens(random() % 12);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % 2);
  return tokens;
}

TEST_CASE("hash and radix find the same, evict the same, forget the same") {
  std::mt19937 random(2);
  PageToKVPoolAllocator hash(24, kPageSize, PrefixCache::kHash);
  PageToKVPoolAllocator radix(24, kPageSize, PrefixCache::kRadix);
  for (int i = 0; i < 30000; ++i) {
    const auto tokens = some_tokens(random);
    const std::string salt = random() % 3 == 0 ? "x" : "";
    REQUIRE(num_found(hash, salt, tokens) == num_found(radix, salt, tokens));
    const unsigned choice = random() % 40;
    const size_t from = random() % 3;
    for (auto* allocator : {&hash, &radix}) {
      if (choice == 0) {
        allocator->clear_cache();
      } else if (choice < 4) {
        allocator->forget(salt, tokens, from);
      } else {
        remember(*allocator, salt, tokens);
      }
    }
    REQUIRE(hash.pool().num_cached() == radix.pool().num_cached());
    REQUIRE(hash.num_evictions() == radix.num_evictions());
  }
  CHECK(hash.num_evictions() > 1000);
}

TEST_CASE("hashes that all collide find nothing wrong") {
  for (const auto cache : {PrefixCache::kHash, PrefixCache::kRadix}) {
    const auto index = make_prefix_index(cache, 64, kPageSize, 0);
    std::map<std::pair<std::string, std::vector<int32_t>>, Page> pages;
    std::mt19937 random(3);
    for (Page next = 1; next < 64;) {
      auto tokens = some_tokens(random);
      tokens.resize(tokens.size() / kPageSize * kPageSize);
      const std::string salt(1, random() % 2 == 0 ? 'a' : 'b');
      Page parent = kNoPage;
      std::vector<int32_t> path;
      for (size_t i = 0; i < tokens.size() && next < 64; i += kPageSize) {
        path.insert(path.end(), tokens.begin() + i, tokens.begin() + i + kPageSize);
        const auto known = pages.find({salt, path});
        const Page found = index->insert(salt, parent, Tokens(path).subspan(i, kPageSize), next);
        CHECK(found == (known == pages.end() ? next : known->second));
        if (known == pages.end()) pages[{salt, path}] = next++;
        parent = found;
      }
    }
    for (const auto& [key, page] : pages) {
      std::vector<Page> found;
      index->match(key.first, key.second, found);
      CHECK(found.size() == key.second.size() / kPageSize);
      CHECK(found.back() == page);
    }
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace hami::paged
