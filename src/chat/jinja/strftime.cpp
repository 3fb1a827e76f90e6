#include "chat/jinja/strftime.h"

#include <charconv>

#include "base/error.h"
#include "chat/jinja/template.h"

namespace tandem::jinja {
namespace {

constexpr std::string_view kDays[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
constexpr std::string_view kMonths[] = {"January", "February", "March",     "April",   "May",      "June",
                                        "July",    "August",   "September", "October", "November", "December"};

bool is_leap(int year) { return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0; }

// Monday is 1; the first week is the one with the year's first Thursday.
struct IsoWeek {
  int year;
  int week;
};
IsoWeek iso_week(const std::tm& t) {
  const int year = t.tm_year + 1900;
  const int weekday = (t.tm_wday + 6) % 7;
  const int week = (t.tm_yday - weekday + 10) / 7;
  const auto weeks_in = [](int y) {
    const auto last = [](int x) { return (x + x / 4 - x / 100 + x / 400) % 7; };
    return last(y) == 4 || last(y - 1) == 3 ? 53 : 52;
  };
  if (week < 1) return {year - 1, weeks_in(year - 1)};
  if (week > weeks_in(year)) return {year + 1, 1};
  return {year, week};
}

std::string number(int value, int width, char fill, char flag) {
  if (flag == '-') return std::to_string(value);
  if (flag == '_') fill = ' ';
  if (flag == '0') fill = '0';
  std::string digits = std::to_string(value);
  if (digits.size() < static_cast<size_t>(width)) digits.insert(0, static_cast<size_t>(width) - digits.size(), fill);
  return digits;
}

std::string directive(char c, char flag, const std::tm& t) {
  const int year = t.tm_year + 1900;
  const int hour12 = t.tm_hour % 12 == 0 ? 12 : t.tm_hour % 12;
  const std::string_view day = kDays[static_cast<size_t>(t.tm_wday) % 7];
  const std::string_view month = kMonths[static_cast<size_t>(t.tm_mon) % 12];
  const auto expand = [&](std::string_view format) { return format_time(format, t); };
  switch (c) {
    case 'a': return std::string(day.substr(0, 3));
    case 'A': return std::string(day);
    case 'b':
    case 'h': return std::string(month.substr(0, 3));
    case 'B': return std::string(month);
    case 'c': return expand("%a %b %e %H:%M:%S %Y");
    case 'C': return number(year / 100, 2, '0', flag);
    case 'd': return number(t.tm_mday, 2, '0', flag);
    case 'D':
    case 'x': return expand("%m/%d/%y");
    case 'e': return number(t.tm_mday, 2, ' ', flag);
    case 'f': return "000000";
    case 'F': return expand("%Y-%m-%d");
    case 'G': return number(iso_week(t).year, 1, '0', flag);
    case 'g': return number(iso_week(t).year % 100, 2, '0', flag);
    case 'H': return number(t.tm_hour, 2, '0', flag);
    case 'I': return number(hour12, 2, '0', flag);
    case 'j': return number(t.tm_yday + 1, 3, '0', flag);
    case 'k': return number(t.tm_hour, 2, ' ', flag);
    case 'l': return number(hour12, 2, ' ', flag);
    case 'm': return number(t.tm_mon + 1, 2, '0', flag);
    case 'M': return number(t.tm_min, 2, '0', flag);
    case 'n': return "\n";
    case 'p': return t.tm_hour < 12 ? "AM" : "PM";
    case 'P': return t.tm_hour < 12 ? "am" : "pm";
    case 'r': return expand("%I:%M:%S %p");
    case 'R': return expand("%H:%M");
    case 's': {
      std::tm copy = t;
      copy.tm_isdst = -1;
      return std::to_string(static_cast<long long>(std::mktime(&copy)));
    }
    case 'S': return number(t.tm_sec, 2, '0', flag);
    case 't': return "\t";
    case 'T':
    case 'X': return expand("%H:%M:%S");
    case 'u': return number(t.tm_wday == 0 ? 7 : t.tm_wday, 1, '0', flag);
    case 'U': return number((t.tm_yday + 7 - t.tm_wday) / 7, 2, '0', flag);
    case 'V': return number(iso_week(t).week, 2, '0', flag);
    case 'w': return number(t.tm_wday, 1, '0', flag);
    case 'W': return number((t.tm_yday + 7 - (t.tm_wday + 6) % 7) / 7, 2, '0', flag);
    case 'y': return number(year % 100, 2, '0', flag);
    case 'Y': return number(year, 1, '0', flag);
    case 'z':
    case 'Z': return "";  // A time without a zone.
    case '%': return "%";
    default: return flag != 0 ? std::string("%") + flag + c : std::string("%") + c;
  }
}

}  // namespace

std::string format_time(std::string_view format, const std::tm& time) {
  std::string text;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      text += format[i];
      continue;
    }
    char flag = 0;
    char c = format[++i];
    bool upper = false;
    if ((c == '-' || c == '_' || c == '0' || c == '^' || c == '#') && i + 1 < format.size()) {
      upper = c == '^';
      flag = upper ? '\0' : c;
      c = format[++i];
    }
    std::string part = directive(c, flag, time);
    if (upper) {
      for (char& x : part) x = x >= 'a' && x <= 'z' ? static_cast<char>(x - 32) : x;
    }
    text += part;
  }
  return text;
}

Result<std::tm> parse_iso_time(std::string_view text) {
  const auto bad = [&] {
    return invalid_argument("\"{}\" is no ISO time; write it as 2025-07-04T09:05:03", text.substr(0, 40));
  };
  int parts[6] = {0, 1, 1, 0, 0, 0};
  const size_t widths[6] = {4, 2, 2, 2, 2, 2};
  const std::string_view before[6] = {"", "-", "-", "T ", ":", ":"};
  size_t at = 0;
  for (size_t i = 0; i < 6; ++i) {
    if (at == text.size() && i == 3) break;  // A date alone.
    if (i > 0) {
      if (at >= text.size() || before[i].find(text[at]) == std::string_view::npos) {
        if (i == 5) break;  // Without seconds.
        return bad();
      }
      ++at;
    }
    if (text.size() - at < widths[i]) return bad();
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + at + widths[i], parts[i]);
    if (error != std::errc() || end != text.data() + at + widths[i] || parts[i] < 0) return bad();
    at += widths[i];
  }
  // A fraction and a zone may follow.
  if (text.substr(at).find_first_not_of(".0123456789Z+-:") != std::string_view::npos) return bad();
  const int month_days[12] = {31, is_leap(parts[0]) ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  if (parts[1] < 1 || parts[1] > 12 || parts[2] < 1 || parts[2] > month_days[parts[1] - 1] || parts[3] > 23 ||
      parts[4] > 59 || parts[5] > 60) {
    return bad();
  }
  std::tm time = {};
  time.tm_year = parts[0] - 1900;
  time.tm_mon = parts[1] - 1;
  time.tm_mday = parts[2];
  time.tm_hour = parts[3];
  time.tm_min = parts[4];
  time.tm_sec = parts[5];
  time.tm_yday = parts[2] - 1;
  for (int m = 0; m < time.tm_mon; ++m) time.tm_yday += month_days[m];
  // Zeller's congruence for the day of the week.
  const int m = time.tm_mon < 2 ? time.tm_mon + 13 : time.tm_mon + 1;
  const int y = time.tm_mon < 2 ? parts[0] - 1 : parts[0];
  const int h = (parts[2] + 13 * (m + 1) / 5 + y + y / 4 - y / 100 + y / 400) % 7;
  time.tm_wday = (h + 6) % 7;
  time.tm_isdst = -1;
  return time;
}

}  // namespace tandem::jinja
