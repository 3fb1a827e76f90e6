#include "deploy/sha256.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

namespace tandem {
namespace sha256_test {

std::string sum(std::string_view text, size_t step) {
  Sha256 sha;
  for (size_t at = 0; at < text.size(); at += step) {
    const std::string_view part = text.substr(at, std::min(step, text.size() - at));
    sha.update({reinterpret_cast<const uint8_t*>(part.data()), part.size()});
  }
  return sha.finish();
}

// NIST's examples.
TEST(Sha256, KnownAnswers) {
  EXPECT_EQ(sum("", 1), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sum("abc", 3), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sum("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sum(std::string(1'000'000, 'a'), 4096), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesDoNotMatter) {
  for (const size_t size : {1u, 55u, 56u, 57u, 63u, 64u, 65u, 127u, 128u, 1000u}) {
    const std::string text(size, 'x');
    for (const size_t step : {1u, 7u, 63u, 64u, 65u})
      EXPECT_EQ(sum(text, step), sum(text, size)) << size << " " << step;
  }
}

}  // namespace sha256_test
}  // namespace tandem
