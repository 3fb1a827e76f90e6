#include "quant/calibration_report.h"

#include <gtest/gtest.h>

#include <cctype>
#include <limits>

#include "quant/observer.h"
#include "quant/svg_plot.h"

namespace tandem {
namespace calibration_report_test {

// Checks that every tag is closed in order, every attribute quoted, and no bracket stray. Empty if so, or what is
// wrong.
std::string imbalance(std::string_view html) {
  std::vector<std::string> open;
  size_t at = 0;
  while (at < html.size()) {
    const char c = html[at];
    if (c == '>') return "a stray > at " + std::string(html.substr(at > 40 ? at - 40 : 0, 60));
    if (c == '&') {
      const size_t end = html.find(';', at);
      if (end == std::string_view::npos || end - at > 6) return "a stray &";
      at = end + 1;
      continue;
    }
    if (c != '<') {
      ++at;
      continue;
    }
    size_t end = at + 1;
    for (bool quoted = false; end < html.size() && (quoted || html[end] != '>'); ++end) {
      if (html[end] == '"') quoted = !quoted;
      if (html[end] == '<') return "a < inside of a tag: " + std::string(html.substr(at, 60));
    }
    if (end == html.size()) return "a tag without end";
    const std::string_view tag = html.substr(at + 1, end - at - 1);
    at = end + 1;
    if (tag.starts_with("!DOCTYPE") || tag.ends_with("/")) continue;
    const bool closing = tag.starts_with("/");
    std::string name;
    for (const char n : tag.substr(closing ? 1 : 0)) {
      if (std::isalnum(static_cast<unsigned char>(n)) == 0) break;
      name += n;
    }
    if (name.empty()) return "a tag without a name: " + std::string(tag);
    if (!closing) {
      open.push_back(name);
      continue;
    }
    if (open.empty() || open.back() != name)
      return "</" + name + "> closes " + (open.empty() ? "nothing" : open.back());
    open.pop_back();
  }
  return open.empty() ? "" : open.back() + " is never closed";
}

size_t count_of(std::string_view text, std::string_view what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + what.size())) ++count;
  return count;
}

TensorEncoding entry(DType dtype, float low, float high, double sqnr_db) {
  TensorEncoding e{dtype, *make_encoding(dtype, low, high, false), low, high};
  e.clipped = 0.0;
  e.sqnr_db = sqnr_db;
  e.method = "minmax";
  return e;
}

EncodingTable model_table(int layers) {
  EncodingTable table;
  for (int i = 0; i < layers; ++i) {
    const std::string layer = "layers." + std::to_string(i) + ".";
    for (const char* part : {"attention.q.out", "attention.k.out", "attention.v.out", "attention.residual", "mlp.gated",
                             "mlp.residual", "attention.norm.out"}) {
      const float size = 1.0f + static_cast<float>(i);
      EXPECT_TRUE(table.set(layer + part, entry(DType::kU16, -size, 2.0f * size, 80.0 - i)).ok());
    }
    EXPECT_TRUE(table.set("k_cache." + std::to_string(i), entry(DType::kU8, -1.0f, 1.0f, 38.0)).ok());
  }
  EXPECT_TRUE(table.set("logits", entry(DType::kU16, -10.0f, 20.0f, 84.0)).ok());
  EXPECT_TRUE(table.set_calibration({{"samples", 12}, {"method", "minmax"}}).ok());
  return table;
}

TEST(CalibrationReport, TheCheckItselfCanFail) {
  EXPECT_EQ(imbalance("<a><b/>x &lt; y</a>"), "");
  for (const char* wrong : {"<a>", "</a>", "<a><b></a></b>", "a > b", "a < b", "a & b", "<a title=\"<\">x</a>"}) {
    EXPECT_NE(imbalance(wrong), "") << wrong;
  }
}

TEST(CalibrationReport, OnePageWithATableAndPlots) {
  const std::string html = calibration_report_html(model_table(12), "Demo");
  EXPECT_EQ(imbalance(html), "");
  EXPECT_EQ(count_of(html, "<details"), 13u);
  EXPECT_NE(html.find("Layer 11: 8 tensors"), std::string::npos);
  EXPECT_NE(html.find("layers.11.mlp.gated"), std::string::npos);
  EXPECT_NE(html.find("samples"), std::string::npos);
  EXPECT_NE(html.find("<h2>Ranges per layer</h2>"), std::string::npos);
  EXPECT_NE(html.find("<h2>SQNR per layer</h2>"), std::string::npos);
  // A panel for each of residual, q, k, v, gated and the cache, none for the norm.
  EXPECT_NE(html.find(">mlp.residual</text>"), std::string::npos);
  EXPECT_EQ(html.find(">attention.norm.out</text>"), std::string::npos);
  // Self-contained.
  for (const char* outside : {"http", "<script", "src=", "href=", "url(", "@import"}) {
    EXPECT_EQ(html.find(outside), std::string::npos) << outside;
  }
  EXPECT_EQ(html.find("nan"), std::string::npos);
  EXPECT_EQ(html.find("inf"), std::string::npos);
  EXPECT_EQ(html.find("Device against"), std::string::npos);
}

TEST(CalibrationReport, ShowsDeviceSqnrAndHistograms) {
  CalibrationReportExtras extras;
  extras.device_sqnr = {{"layers.0.mlp.residual", 61.25},
                        {"<i>&", 12.0},
                        {"equal", std::numeric_limits<double>::infinity()},
                        {"broken", std::numeric_limits<double>::quiet_NaN()}};
  extras.histograms["logits"] = {1.0, 5.0, 1000.0, 2.0, 0.0, std::numeric_limits<double>::quiet_NaN(), -1.0};
  extras.histograms["not there"] = {1.0};
  const std::string html = calibration_report_html(model_table(2), "Demo", extras);
  EXPECT_EQ(imbalance(html), "");
  EXPECT_NE(html.find("Device against"), std::string::npos);
  EXPECT_NE(html.find("61.2"), std::string::npos);
  EXPECT_NE(html.find("<td>equal</td>"), std::string::npos);
  EXPECT_NE(html.find("&lt;i&gt;&amp;"), std::string::npos);
  EXPECT_EQ(html.find("<i>"), std::string::npos);
  EXPECT_GE(count_of(html, "<path"), 1u);
  EXPECT_EQ(html.find("nan"), std::string::npos);
}

TEST(CalibrationReport, NamesAreEscaped) {
  const std::string nasty = "layers.0.mlp.</td><script>alert('x')</script>\"&";
  EncodingTable table;
  TensorEncoding e = entry(DType::kU16, -1.0f, 1.0f, 50.0);
  e.method = "<b>";
  ASSERT_TRUE(table.set(nasty, e).ok());
  ASSERT_TRUE(table.set("<script>", e).ok());
  ASSERT_TRUE(table.set_calibration({{"<u>", "</table>"}, {"list", {"<s>"}}}).ok());
  CalibrationReportExtras extras;
  extras.histograms[nasty] = {1.0, 2.0};
  extras.device_sqnr = {{nasty, 5.0}};
  const std::string html = calibration_report_html(table, "</title><script>", extras);
  EXPECT_EQ(imbalance(html), "");
  EXPECT_EQ(html.find("<script"), std::string::npos);
  EXPECT_EQ(html.find("<b>"), std::string::npos);
  EXPECT_EQ(html.find("<u>"), std::string::npos);
  EXPECT_EQ(html.find("<s>"), std::string::npos);
  EXPECT_EQ(count_of(html, "</title>"), 1u + count_of(html, "<g><title>") + count_of(html, "\"><title>"));
  EXPECT_EQ(escape_html("a\x01"
                        "b"),
            "a\xef\xbf\xbd"
            "b");
}

TEST(CalibrationReport, HandlesOddTables) {
  EXPECT_EQ(imbalance(calibration_report_html({}, "")), "");
  EncodingTable table;
  TensorEncoding unknown;
  unknown.encoding = {ir::EncodingKind::kPerTensor, 5e33f, 0};
  unknown.observed_min = -std::numeric_limits<float>::max();
  unknown.observed_max = std::numeric_limits<float>::max();
  for (const char* name :
       {"layers.0.mlp.residual", "layers.99999999999.x", "layers.", "layers.-1.x", "k_cache.", "k_cache.0",
        "layers.3.attention.q[64:128].out", "layers.3.attention.q[0:64].out", "x[[]", "]"}) {
    ASSERT_TRUE(table.set(name, unknown).ok());
  }
  const std::string html = calibration_report_html(table, "odd");
  EXPECT_EQ(imbalance(html), "");
  EXPECT_EQ(html.find("nan"), std::string::npos);
  EXPECT_EQ(html.find("inf"), std::string::npos);
  // The heads of one tensor share a panel.
  EXPECT_EQ(count_of(html, ">attention.q.out</text>"), 1u);
}

}  // namespace calibration_report_test
}  // namespace tandem
