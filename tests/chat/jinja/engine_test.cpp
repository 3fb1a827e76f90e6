// The engine's own templates with what Jinja2 3.1.6 renders, set up as in transformers.
// tests/chat/differential_jinja.py compares many more with Jinja2 itself.
#include "chat/jinja/jinja_test.h"

namespace tandem::jinja {
namespace engine_test {

constexpr const char* kData = R"json({
  "n": 7, "t": true, "nothing": null, "s": "Hello, World", "u": "Grüße 日本", "list": [3, 1, 2],
  "d": {"b": 1, "a": 2}, "mixed": [1, "a", null, 2.0, [1], {"k": 1}],
  "users": [{"name": "Ann", "age": 30}, {"name": "bob", "age": 25}],
  "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": " Hi "}]})json";

struct Pair {
  const char* source;
  const char* expected;
};

void expect_all(std::initializer_list<Pair> pairs) {
  for (const Pair& pair : pairs) EXPECT_EQ(render(pair.source, kData), pair.expected) << pair.source;
}

TEST(Engine, WhiteSpaceAsTransformersSetsIt) {
  expect_all({{"text\n", "text"},
              {"text\n\n", "text\n"},
              {"a\r\nb\rc", "a\nb\nc"},
              {"a\n  {% if t %}\n  b\n  {% endif %}\nc", "a\n  b\nc"},
              {"a {% if t %} b {% endif %} c", "a  b  c"},
              {"a\n  {%- if t -%}\n  b\n  {%- endif -%}\nc", "abc"},
              {"a\n  {{ n }}\n b", "a\n  7\n b"},
              {"a  {{- n -}}  b", "a7b"},
              {"a\n  {%+ if t %}\nb{% endif +%}\nc", "a\n  b\nc"},
              {"x\n  {# note #}\ny", "x\ny"},
              {"{% raw %}{{ n }}{% endraw %}", "{{ n }}"},
              {"{{ '}}' }}{{ \"{%\" }}", "}}{%"}});
}

TEST(Engine, ExpressionsAreAsInPython) {
  expect_all(
      {{"{{ 7 // 2 ~ -7 // 2 ~ -7 % 3 }}", "3-42"},
       {"{{ 6 / 2 }} {{ 2 ** -1 }} {{ 2 ** 10 }} {{ 1e16 }} {{ 0.1 + 0.2 }}", "3.0 0.5 1024 1e+16 0.30000000000000004"},
       {"{{ 1 < 2 < 3 }}{{ 1 == 1.0 }}{{ 'a' in 'cat' }}{{ 9 not in list }}", "TrueTrueTrueTrue"},
       {"{{ mixed }}", "[1, 'a', None, 2.0, [1], {'k': 1}]"},
       {"{{ (1,) }}{{ {'a': none} }}{{ ['it\\'s', '\\t'] }}", "(1,){'a': None}[\"it's\", '\\t']"},
       {"{{ u[::-1] }}|{{ u[-2:] }}|{{ u[1] }}|{{ u|length }}", "本日 eßürG|日本|r|8"},
       {"{{ list[::-1] }}{{ list[1:] }}{{ list[-1] }}", "[2, 1, 3][1, 2]2"},
       {"{{ 'a' if n > 5 else 'b' }}{{ 'c' if n > 9 }}", "a"},
       {"{{ 0 or 'x' }}{{ '' and 1 }}{{ not n }}", "xFalse"},
       {"{{ '%s is %03d' % ('a', 7) }}{{ '{:>4}'.format('b') }}", "a is 007   b"},
       {"{{ 'a' 'b' ~ 1 }}", "ab1"},
       {"{{ nope }}{{ d.nope }}{{ nope is defined }}{{ 'x' in nope }}", "FalseFalse"},
       {"{{ d.a }}{{ d['b'] }}{{ list.0 }}{{ users[0].name }}", "213Ann"}});
}

TEST(Engine, StatementsAndScopes) {
  expect_all(
      {{"{% set x = 1 %}{% for i in list %}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}", "4 2 3 1"},
       {"{% set ns = namespace(x=0) %}{% for i in list %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}", "6"},
       {"{% for i in list if i > 1 %}{{ loop.index }}/{{ loop.length }}:{{ i }}{{ ',' if not loop.last }}{% endfor %}",
        "1/2:3,2/2:2"},
       {"{% for k, v in d.items() %}{{ k }}{{ v }}{% endfor %}", "b1a2"},
       {"{% for i in [] %}x{% else %}none{% endfor %}", "none"},
       {"{% for i in range(9) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 4 %}{% break %}{% endif %}{{ i }}{% "
        "endfor %}",
        "023"},
       {"{% set x %}a{{ n }}{% endset %}[{{ x }}]", "[a7]"},
       {"{% macro m(a, b=2) %}{{ a }}-{{ b }};{% endmacro %}{{ m(1) }}{{ m(b=5, a=4) }}{{ m() }}", "1-2;4-5;-2;"},
       {"{% macro f(x) %}{% if x > 0 %}{{ x }}{{ f(x - 1) }}{% endif %}{% endmacro %}{{ f(4) }}", "4321"},
       {"{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}b{% endcall %}", "<b>"},
       {"{% filter upper %}a{{ s }}{% endfilter %}", "AHELLO, WORLD"},
       {"{% with x = n + 1 %}{{ x }}{% endwith %}{{ x }}", "8"},
       {"{% generation %}{{ n }}{% endgeneration %}", "7"}});
}

TEST(Engine, FiltersTestsAndMethods) {
  expect_all({{"{{ s|upper }}{{ u|upper }}{{ 'it\\'s a-b'|title }}", "HELLO, WORLDGRÜSSE 日本It's A-B"},
              {"{{ d|tojson }}{{ u|tojson }}{{ '<&>'|tojson }}", "{\"b\": 1, \"a\": 2}\"Grüße 日本\"\"<&>\""},
              {"{{ {'a': [], 'b': [1]}|tojson(indent=2) }}", "{\n  \"a\": [],\n  \"b\": [\n    1\n  ]\n}"},
              {"{{ users|map(attribute='name')|join(', ') }}{{ users|sum(attribute='age') }}", "Ann, bob55"},
              {"{{ users|selectattr('age', '>', 26)|list|length }}{{ list|select('odd')|list }}", "1[3, 1]"},
              {"{{ list|sort }}{{ d|dictsort }}{{ list|max }}", "[1, 2, 3][('a', 2), ('b', 1)]3"},
              {"{{ messages[1].content|trim }}.{{ nope|default('x') }}{{ ''|d('y', true) }}", "Hi.xy"},
              {"{{ '12.7'|int }}{{ 2.5|round }}{{ 2.675|round(2) }}{{ -3|abs }}", "122.02.673"},
              {"{{ 'a,b'.split(',') }}{{ ' x '.strip() }}{{ 'abc'.startswith('ab') }}{{ 'aXbX'.replace('X', '') }}",
               "['a', 'b']xTrueab"},
              {"{{ d.get('zz', 5) }}{{ d.keys()|list }}{{ 'items' in d }}", "5['b', 'a']False"},
              {"{{ 3 is odd }}{{ s is string }}{{ d is mapping }}{{ n is divisibleby 7 }}{{ none is none }}",
               "TrueTrueTrueTrueTrue"},
              {"{% set g = list|select('odd') %}{{ g|list }}{{ g|list }}{{ 'y' if g }}", "[3, 1][]y"}});
}

TEST(Engine, TimesAreAsGiven) {
  RenderOptions options;
  options.now = *parse_iso_time("2025-07-04T09:05:03");
  EXPECT_EQ(render("{{ strftime_now('%d %b %Y|%B %-d|%A %H:%M:%S|%j %%') }}", "{}", options),
            "04 Jul 2025|July 4|Friday 09:05:03|185 %");
  EXPECT_EQ(parse_iso_time("2024-02-29")->tm_yday, 59);
  EXPECT_EQ(parse_iso_time("2024-02-29 10:00:00.5+02:00")->tm_wday, 4);
  for (const char* bad : {"", "now", "2025-13-01", "2025-02-29", "2025-07-04T25:00:00", "2025-07-04x"}) {
    EXPECT_FALSE(parse_iso_time(bad).ok()) << bad;
  }
}

TEST(Engine, ErrorsSayWhereAndWhy) {
  const auto has = [](std::string_view source, std::string_view part) {
    const std::string text = render(source, kData);
    EXPECT_NE(text.find(part), std::string::npos) << source << " gave " << text;
    EXPECT_TRUE(text.starts_with("error: ")) << source;
  };
  EXPECT_EQ(render("a\n{{ raise_exception('No: ' ~ n) }}", kData), "error: No: 7");
  has("a\n\n{{ nope.x }}", "line 3 of the template: 'nope' is undefined");
  has("{{ 'a' + n }}", "can only concatenate str (not \"int\") to str");
  has("{{ n|frobnicate }}", "no filter named 'frobnicate'");
  has("{{ n is frobnicated }}", "no test named 'frobnicated'");
  has("{% if n %}\n", "endif");
  has("\n{% frob %}", "line 2 of the template: unknown tag 'frob'");
  has("{% include 'x' %}", "not supported");
  has("{{ list.append(1) }}", "unsafe");
  has("{{ d.x.y }}", "'dict object' has no attribute 'x'");
  has("{{ 1 / 0 }}", "division by zero");
  has("{{ 9223372036854775807 + 1 }}", "64 bits");
  has("{{ 'unfinished }}", "string");
  has("{% for a, b in [[1]] %}{% endfor %}", "unpack");
  has("{% break %}", "outside of a loop");
  has("{% set d.x = 1 %}", "non-namespace");
  EXPECT_TRUE(fails("\xff"));
  EXPECT_TRUE(fails("{{ '\xe2\x82' }}"));
}

TEST(Json, KeepsOrderAndRefusesWhatItCannotHold) {
  EXPECT_EQ(render("{{ v|tojson }}", R"({"v": {"z": 1.0, "a": [1e20, "é\u0000"], "z": 2}})"),
            "{\"z\": 2, \"a\": [1e+20, \"é\\u0000\"]}");
  for (const std::string bad : {"", "{", "[1,]", "18446744073709551615", "{\"a\": 123456789012345678901234567890}",
                                "\"\xff\"", "nul", "{\"a\" 1}"}) {
    EXPECT_FALSE(parse_json_value(bad, "x").ok()) << bad;
  }
  EXPECT_FALSE(parse_json_value(std::string(1000, '['), "x").ok());
  EXPECT_FALSE(parse_json_value(std::string_view("1\0", 2), "x").ok());
}

}  // namespace engine_test
}  // namespace tandem::jinja
