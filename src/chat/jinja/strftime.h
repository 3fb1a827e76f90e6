// Times as text, as Python's strftime writes them in the C locale, whatever locale the app has set.
#pragma once

#include <ctime>
#include <string>
#include <string_view>

namespace tandem::jinja {

std::string format_time(std::string_view format, const std::tm& time);

}  // namespace tandem::jinja
