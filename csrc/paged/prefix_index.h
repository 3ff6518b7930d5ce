// `PrefixIndex`: which page holds the state of which tokens, given all tokens before them. Each
// indexed page stands for one path of whole pages from a root; every salt (a tenant, an adapter)
// has a root of its own. Tokens are compared on every hit: a hash only finds candidates. The index
// holds no references; its owner is `PageToKVPoolAllocator`. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "paged/page_pool.h"

namespace hami::paged {

enum class PrefixCache { kNone, kHash, kRadix };

using Tokens = std::span<const int32_t>;

class PrefixIndex {
 public:
  virtual ~PrefixIndex() = default;

  // Appends the pages of the longest known prefix of `tokens`, whole pages only.
  virtual void match(std::string_view salt, Tokens tokens, std::vector<Page>& pages) const = 0;
  // Makes `page` found as the one after `parent` (`kNoPage`: the first) with these tokens, one
  // page's worth. Returns the page that is found from now on: an older one with the same tokens
  // stays; `kNoPage` when this index keeps nothing. REQUIRES: `parent` is indexed, under this salt.
  virtual Page insert(std::string_view salt, Page parent, Tokens tokens, Page page) = 0;
  // Takes out a page. REQUIRES: it is indexed, and no page comes after it.
  virtual void evict(Page page) = 0;
  // Takes out a page and all that come after it; appends them.
  virtual void forget(Page page, std::vector<Page>& removed) = 0;
  virtual void clear() = 0;
};

// `hash_mask` makes hashes collide, for tests.
std::unique_ptr<PrefixIndex> make_prefix_index(PrefixCache kind, int32_t num_pages,
                                               int32_t page_size, uint64_t hash_mask = ~uint64_t{});

// The tokens of every indexed page, to compare on a hit, and their hashes.
class PageTokens {
 public:
  PageTokens(int32_t num_pages, int32_t page_size, uint64_t hash_mask);

  size_t page_size() const noexcept { return page_size_; }
  void set(Page page, Tokens tokens) noexcept;
  bool equal(Page page, Tokens tokens) const noexcept;
  // The part of `tokens` that page number `index` of a sequence holds.
  Tokens part(Tokens tokens, size_t index) const noexcept {
    return tokens.subspan(index * page_size_, page_size_);
  }
  uint64_t hash(uint64_t seed, Tokens tokens) const noexcept;
  uint64_t hash(std::string_view salt) const noexcept;

 private:
  size_t page_size_;
  uint64_t hash_mask_;
  std::vector<int32_t> tokens_;
};

}  // namespace hami::paged
