#include "tokenizer/unigram.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "unicode/utf8.h"

namespace tandem {
namespace {

// A binary search among the children of a node. Pieces of real vocabularies have about ten bytes; the budget suffices
// even for matching one of about a hundred at every position.
constexpr uint64_t kWorkPerTrieStep = 2;

}  // namespace

double lowest_score(const TokenizerBlob& blob) {
  double lowest = std::numeric_limits<double>::infinity();
  for (uint32_t id = 0; id < blob.vocab_size(); ++id) {
    if ((blob.token(id).flags & kTokenModel) != 0 && blob.score(id) < lowest) lowest = blob.score(id);
  }
  return lowest;
}

Status UnigramEncoder::encode(std::string_view word, std::vector<int32_t>& ids, const Refusal& refused) {
  nodes_.assign(word.size() + 1, {0.0, kNoToken, 0});
  const auto offer = [&](size_t begin, size_t end, double score, uint32_t id) {
    Node& node = nodes_[end];
    if (node.length == 0 || score > node.score) node = {score, id, static_cast<uint32_t>(end - begin)};
  };
  for (size_t begin = 0; begin < word.size();) {
    const double score = nodes_[begin].score;
    const size_t length = next_valid_utf8(word.substr(begin)).length;
    bool is_known = false;
    size_t looked_at = begin;
    std::optional<TokenizerBlob::TrieNode> node = blob_.trie_root();
    for (size_t end = begin; end < word.size();) {
      node = blob_.trie_child(*node, static_cast<uint8_t>(word[end]));
      if (!node) break;
      looked_at = ++end;
      if (node->id == kNoToken || refused(node->id)) continue;
      offer(begin, end, score + blob_.score(node->id), node->id);
      is_known |= end - begin == length;
    }
    if (!budget_.spend(kWorkPerTrieStep * (looked_at - begin + 1))) {
      return resource_exhausted("the tokenizer's pieces of up to {} bytes take too long on this text",
                                looked_at - begin);
    }
    if (!is_known) {
      const Node& there = nodes_[begin + length];
      const double unknown = score + unknown_score_;
      if (there.length == 0 || unknown > there.score) {
        if (blob_.unk_id() == kNoToken) {
          return corrupt("the text has \"{}\", which is not in the vocabulary, and there is no unknown token",
                         word.substr(begin, length));
        }
        offer(begin, begin + length, unknown, blob_.unk_id());
      }
    }
    begin += length;
  }
  // Walked from the end to the start; then unknown tokens in a row become one.
  path_.clear();
  for (size_t end = word.size(); end > 0;) {
    if (nodes_[end].length == 0) return corrupt("the tokenizer's trie is damaged");
    path_.push_back(static_cast<uint32_t>(end));
    end -= nodes_[end].length;
  }
  std::reverse(path_.begin(), path_.end());
  size_t begin = 0;
  for (size_t i = 0; i < path_.size();) {
    const uint32_t id = nodes_[path_[i]].id;
    size_t last = i;
    while (id == blob_.unk_id() && last + 1 < path_.size() && nodes_[path_[last + 1]].id == id) ++last;
    TANDEM_TRY(append(word.substr(begin, path_[last] - begin), id, ids, refused));
    begin = path_[last];
    i = last + 1;
  }
  return ok_status();
}

Status UnigramEncoder::append(std::string_view piece, uint32_t id, std::vector<int32_t>& ids,
                              const Refusal& refused) const {
  if (id == blob_.unk_id()) {
    id = find(piece);
    if (id == kNoToken || refused(id)) {
      const auto byte_id = [&](char byte) { return blob_.byte_ids()[static_cast<uint8_t>(byte)]; };
      if (blob_.byte_fallback() &&
          std::none_of(piece.begin(), piece.end(), [&](char byte) { return byte_id(byte) == kNoToken; })) {
        for (const char byte : piece) ids.push_back(static_cast<int32_t>(byte_id(byte)));
        return ok_status();
      }
      id = blob_.unk_id();
    }
  }
  ids.push_back(static_cast<int32_t>(id));
  return ok_status();
}

uint32_t UnigramEncoder::find(std::string_view piece) const {
  TokenizerBlob::TrieNode node = blob_.trie_root();
  for (const char byte : piece) {
    const auto child = blob_.trie_child(node, static_cast<uint8_t>(byte));
    if (!child) return kNoToken;
    node = *child;
  }
  return node.id;
}

}  // namespace tandem
