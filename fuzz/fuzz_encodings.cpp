// Tables of encodings from hostile JSON: an error or a table that survives being written and read again, and a report.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "quant/calibration_report.h"
#include "quant/encoding_table.h"
#include "quant/observer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto table = tandem::EncodingTable::from_json(text);
  if (!table.ok()) {
    if (table.error().message.empty()) std::abort();
    return 0;
  }
  for (const auto& [name, e] : table->entries()) {
    if (table->find(name) != &e) std::abort();
    const tandem::Interval range = tandem::encoded_range(e.dtype, e.encoding);
    if (!(range.low <= 0.0f && range.high >= 0.0f)) std::abort();
  }
  const auto again = tandem::EncodingTable::from_json(table->to_json());
  if (!again.ok() || !(*again == *table)) std::abort();
  if (tandem::calibration_report_html(*table, text.substr(0, 64)).empty()) std::abort();
  return 0;
}
