#include "paged/prefix_index.h"

#include <algorithm>
#include <functional>

#include "paged/hash_prefix_index.h"
#include "paged/radix_prefix_index.h"

namespace hami::paged {
namespace {

class NoPrefixIndex final : public PrefixIndex {
 public:
  void match(std::string_view, Tokens, std::vector<Page>&) const override {}
  Page insert(std::string_view, Page, Tokens, Page) override { return kNoPage; }
  void evict(Page) override {}
  void forget(Page, std::vector<Page>&) override {}
  void clear() override {}
};

// The finalizer of splitmix64.
uint64_t mixed(uint64_t value) noexcept {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

}  // namespace

PageTokens::PageTokens(int32_t num_pages, int32_t page_size, uint64_t hash_mask)
    : page_size_(page_size),
      hash_mask_(hash_mask),
      tokens_(static_cast<size_t>(num_pages) * static_cast<size_t>(page_size)) {}

void PageTokens::set(Page page, Tokens tokens) noexcept {
  std::copy(tokens.begin(), tokens.end(),
            tokens_.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(page) * page_size_));
}

bool PageTokens::equal(Page page, Tokens tokens) const noexcept {
  return std::equal(tokens.begin(), tokens.end(),
                    tokens_.data() + static_cast<size_t>(page) * page_size_);
}

uint64_t PageTokens::hash(uint64_t seed, Tokens tokens) const noexcept {
  uint64_t hash = seed;
  for (const int32_t token : tokens) {
    hash = (hash ^ static_cast<uint32_t>(token)) * 0x9e3779b97f4a7c15ULL;
    hash ^= hash >> 29;
  }
  return mixed(hash) & hash_mask_;
}

uint64_t PageTokens::hash(std::string_view salt) const noexcept {
  return mixed(std::hash<std::string_view>{}(salt)) & hash_mask_;
}

std::unique_ptr<PrefixIndex> make_prefix_index(PrefixCache kind, int32_t num_pages,
                                               int32_t page_size, uint64_t hash_mask) {
  PageTokens tokens(kind == PrefixCache::kNone ? 0 : num_pages, page_size, hash_mask);
  switch (kind) {
    case PrefixCache::kHash:
      return std::make_unique<HashPrefixIndex>(num_pages, std::move(tokens));
    case PrefixCache::kRadix:
      return std::make_unique<RadixPrefixIndex>(num_pages, std::move(tokens));
    case PrefixCache::kNone:
      break;
  }
  return std::make_unique<NoPrefixIndex>();
}

}  // namespace hami::paged
