// The origins of the parts of a rendering. Data is in Greek, templates are in Latin letters, so that every letter of
// the result shows where it came from, whatever was done to it.
#include "chat/jinja/jinja_test.h"
#include "chat/jinja/unicode.h"

namespace tandem::jinja {
namespace origin_test {

constexpr std::string_view kVariables = R"({
  "d": "αβ γδ", "e": "ε<|ζ|>η", "lines": "αα\nββ\n\nγγ", "padded": "  \n αβ\t ", "sigma": "ΑΣ ΒΣ", "one": "λ",
  "list": ["μ", "νξ", "ο"], "pairs": {"κκ": "ππ", "ρ": ["ς", {"τ": "υ"}]}, "n": 77, "x": 7.5, "yes": true,
  "messages": [{"ρρ": "φ", "σσ": "χ ψ"}, {"ρρ": "ω", "σσ": "αχ"}], "empty": "", "fill": "ω",
  "expanding": "ΐΰ ΐ", "format": "αα %s ββ", "braces": "αα {} ββ", "quotes": "α'β\"γ\\δ\u0001ε"
})";

bool is_greek(char32_t c) { return (c >= 0x370 && c < 0x400) || (c >= 0x1f00 && c < 0x2000); }
bool is_latin(char32_t c) { return c < 0x80 && is_alpha(c); }

// Every Greek letter is data, every Latin one the template's. Digits and punctuation may be either, except where the
// case says that they are data.
void check(std::string_view source, Origin origin = Origin::kData, bool digits_are_data = false) {
  SCOPED_TRACE(source);
  const auto parsed = Template::parse(source);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  const auto variables = parse_json_value(kVariables, "variables", origin);
  ASSERT_TRUE(variables.ok()) << variables.error().message;
  const auto text = parsed->render_marked(*variables);
  ASSERT_TRUE(text.ok()) << text.error().message;
  SCOPED_TRACE(text->bytes());
  EXPECT_EQ(*parsed->render(*variables), text->bytes());
  size_t last_end = 0;
  for (const OriginSpan& span : text->spans()) {
    EXPECT_LT(span.begin, span.end);
    EXPECT_LE(last_end, span.begin);
    EXPECT_LE(span.end, text->size());
    EXPECT_EQ(span.origin, origin);
    last_end = span.end;
  }
  OriginCursor cursor(*text);
  size_t offset = 0;
  bool some = false;
  for (const char32_t c : to_code_points(text->bytes())) {
    const Origin found = cursor.at(offset);
    if (is_greek(c) || (digits_are_data && c >= '0' && c <= '9')) {
      EXPECT_EQ(found, origin) << "at byte " << offset;
      some = true;
    }
    if (is_latin(c)) {
      EXPECT_EQ(found, Origin::kTemplate) << "at byte " << offset;
    }
    offset += to_utf8({&c, 1}).size();
  }
  EXPECT_TRUE(some) << "no data in it";
}

TEST(Origins, OfOutputsAndOperators) {
  for (const char* source : {"A{{ d }}B",
                             "{{ 'a' + d + 'b' }}",
                             "{{ 'a' ~ d ~ 'b' ~ e }}",
                             "{{ d[0] }}x",
                             "{{ d[-1] }}",
                             "{{ ('a' ~ d)[1:3] }}",
                             "{{ ('abc' ~ d ~ 'xyz')[::2] }}",
                             "{{ ('abc' ~ d ~ 'xyz')[::-1] }}",
                             "{{ ('ab' ~ d)[-3:] }}",
                             "{{ ('a' ~ one) * 3 }}",
                             "{{ 2 * one }}a",
                             "{{ 'a%sb' % d }}",
                             "{{ '%s-%5s|%-5s' % (one, one, one) }}",
                             "{{ '%(k)s' % {'k': d} }}",
                             "{{ '%r' % d }}",
                             "{{ '%.1s' % d }}x",
                             "{{ '%c' % one }}x",
                             "{{ format % 'mid' }}",
                             "{{ [d, 'a'] }}",
                             "{{ {'a': d} }}",
                             "{{ {d: 'a'} }}",
                             "{{ (d, 'a') }}",
                             "{{ pairs }}abc",
                             "{{ d if yes else 'a' }}",
                             "{{ empty or d }}a",
                             "{{ yes and d }}",
                             "{{ d|string }}",
                             "{{ ('a' ~ d) in ['x'] or d }}",
                             "{{ pairs.items() }}",
                             "{{ pairs.keys()|list }}",
                             "{{ pairs.values()|list }}",
                             "{{ pairs['κκ'] }}a",
                             "{{ pairs.get('κκ', 'a') }}",
                             "{{ pairs.get('zz', d) }}"}) {
    check(source);
    check(source, Origin::kAssistant);
  }
}

TEST(Origins, OfMethods) {
  for (const char* source : {"{{ padded.strip() }}a",
                             "{{ ('ab' ~ d ~ 'yz').strip('az') }}",
                             "{{ padded.lstrip() ~ 'a' ~ padded.rstrip() }}",
                             "{{ ('a b ' ~ d).split() }}",
                             "{{ ('a b ' ~ d).split(' ', 1)[1] }}",
                             "{{ ('a-' ~ d ~ '-b').rsplit('-', 1) }}",
                             "{{ d.split('β') }}a",
                             "{{ ('ab' ~ d).partition('b') }}",
                             "{{ ('ab' ~ d).rpartition('β') }}",
                             "{{ lines.splitlines() }}",
                             "{{ ('ab\n' ~ lines).splitlines(true)|join }}",
                             "{{ ('ab' ~ d).replace('b', 'c') }}",
                             "{{ 'abc'.replace('b', d) }}",
                             "{{ d.replace('β', 'bb') }}",
                             "{{ ('a' ~ one).replace('', '-') }}",
                             "{{ 'ab'.replace('', one) }}",
                             "{{ ('ab' ~ d).upper() }}",
                             "{{ ('AB' ~ d).lower() }}",
                             "{{ ('ab ' ~ d).title() }}",
                             "{{ ('ab' ~ d).capitalize() }}",
                             "{{ ('aB' ~ d).swapcase() }}",
                             "{{ ('a' ~ expanding ~ 'b').upper() }}",
                             "{{ ('A' ~ sigma ~ 'B').lower() }}",
                             "{{ ('a' ~ expanding ~ 'b' ~ d).title() }}",
                             "{{ ('AB' ~ d).casefold() }}",
                             "{{ ', '.join(list) }}a",
                             "{{ d.join(['a', 'b']) }}",
                             "{{ 'a'.join(list) }}",
                             "{{ 'a{}b{}'.format(d, 'c') }}",
                             "{{ '{0}a{k}'.format(one, k=d) }}",
                             "{{ '{:>9}'.format(d) ~ 'a' }}",
                             "{{ '{:^9}|{:x<9}'.format(d, d) }}",
                             "{{ '{!r}a'.format(d) }}",
                             "{{ braces.format('a') }}",
                             "{{ '{:.2}a'.format(d) }}",
                             "{{ 'ab'.ljust(5, fill) }}",
                             "{{ d.rjust(9, 'x') }}",
                             "{{ ('a' ~ d).center(12) }}",
                             "{{ d.zfill(9) ~ 'a' }}",
                             "{{ ('ab' ~ d).removeprefix('a') }}",
                             "{{ (d ~ 'ab').removesuffix('b') }}"}) {
    check(source);
  }
}

TEST(Origins, OfFilters) {
  for (const char* source : {"{{ padded|trim }}a",
                             "{{ ('a' ~ d ~ 'z')|trim('az') }}",
                             "{{ ('ab' ~ d)|upper }}",
                             "{{ ('AB' ~ d)|lower }}",
                             "{{ ('ab ' ~ d)|title }}",
                             "{{ ('ab' ~ d)|capitalize }}",
                             "{{ ('ab' ~ d)|replace('b', 'c') }}",
                             "{{ 'ab'|replace('b', d) }}",
                             "{{ ('ab\n' ~ lines)|indent }}",
                             "{{ lines|indent('xx', true, true) }}",
                             "{{ 'a\nb'|indent(fill) }}",
                             "{{ d|center(20) }}a",
                             "{{ ('a' ~ d)|escape }}",
                             "{{ d|forceescape ~ 'a' }}",
                             "{{ d|safe }}a",
                             "{{ ('a'|safe) + d }}",
                             "{{ '%s a'|format(d) }}",
                             "{{ ('ab' ~ d ~ 'cd')|truncate(6, true, 'x', 0) }}",
                             "{{ ('ab' ~ d ~ 'cd')|truncate(6, true, fill, 0) }}",
                             "{{ list|join('a') }}",
                             "{{ ['a', 'b']|join(d) }}",
                             "{{ messages|join('-', attribute='σσ') }}a",
                             "{{ list|first }}a",
                             "{{ list|last }}",
                             "{{ d|first }}",
                             "{{ d|last }}a",
                             "{{ d|list }}",
                             "{{ ('ab' ~ d)|reverse }}",
                             "{{ list|reverse|list }}",
                             "{{ list|batch(2, 'a')|list }}",
                             "{{ list|slice(2, 'a')|list }}",
                             "{{ list|map('upper')|list }}a",
                             "{{ messages|map(attribute='σσ')|join }}",
                             "{{ list|select('string')|list }}",
                             "{{ list|reject('number')|list }}",
                             "{{ messages|selectattr('ρρ', 'eq', 'φ')|list }}",
                             "{{ messages|rejectattr('ρρ', 'eq', 'φ')|list }}",
                             "{{ pairs|items|list }}",
                             "{{ list|sort(reverse=true) }}",
                             "{{ pairs|dictsort }}",
                             "{{ list|unique|list }}",
                             "{{ list|min }}",
                             "{{ list|max ~ 'a' }}",
                             "{{ messages|groupby('ρρ') }}",
                             "{{ missing|default(d) }}a",
                             "{{ missing|default('a') ~ d }}",
                             "{{ [['a'], list]|sum(start=[]) }}"}) {
    check(source);
  }
}

TEST(Origins, OfJson) {
  for (const char* source :
       {"{{ pairs|tojson }}a", "{{ messages|tojson(indent=2) }}", "{{ {'a': d, 'b': [list, 'c']}|tojson }}",
        "{{ pairs|tojson(sort_keys=true, separators=('a', 'b')) }}", "{{ ('a' ~ d ~ 'b')|tojson }}"}) {
    check(source);
  }
  // Escapes in data are data too.
  const auto text =
      Template::parse("{{ d|tojson(ensure_ascii=true) }}")->render_marked(*parse_json_value(R"({"d": "αβ"})", ""));
  EXPECT_EQ(text->bytes(), R"("\u03b1\u03b2")");
  EXPECT_EQ(text->spans(), (std::vector<OriginSpan>{{1, 13, Origin::kData}}));
  const auto quoted =
      Template::parse("{{ [q] }}{{ '<'|e ~ q|e }}")->render_marked(*parse_json_value(R"({"q": "'\"\u0001"})", ""));
  EXPECT_EQ(quoted->bytes(), R"(['\'"\x01']&lt;&#39;&#34;)"
                             "\x01");
  EXPECT_EQ(quoted->spans(), (std::vector<OriginSpan>{{2, 9, Origin::kData}, {15, 26, Origin::kData}}));
}

TEST(Origins, OfStatements) {
  for (const char* source :
       {"{% for c in d %}{{ c }}a{% endfor %}",
        "{% for c in 'ab' ~ d %}{{ c }}{% endfor %}",
        "{% for m in messages %}a{{ m['σσ'] }}b{% endfor %}",
        "{% set t = 'a' ~ d %}{{ t }}",
        "{% set t %}a{{ d }}b{% endset %}{{ t|upper }}",
        "{% set t | upper %}a{{ d }}{% endset %}{{ t }}",
        "{% macro f(x, y='b') %}a{{ x }}{{ y }}{% endmacro %}{{ f(d) }}{{ f('c', y=d) }}",
        "{% macro f() %}a{{ varargs }}{% endmacro %}{{ f(d) }}",
        "{% macro f() %}a{{ kwargs.k }}{% endmacro %}{{ f(k=d) }}",
        "{% macro f() %}a{{ caller(d) }}{% endmacro %}{% call(x) f() %}b{{ x }}{% endcall %}",
        "{% set ns = namespace(t='') %}{% for c in d %}{% set ns.t = ns.t ~ c ~ 'a' %}{% endfor %}{{ ns.t }}",
        "{% filter upper %}a{{ d }}b{% endfilter %}",
        "{% with t = d %}a{{ t }}{% endwith %}",
        "{% set a, b = list[:2] %}{{ a }}x{{ b }}",
        "{% for k, v in pairs.items() %}{{ k }}a{{ v }}{% endfor %}",
        "{% set j = joiner(fill) %}{% for c in 'abc' %}{{ j() }}{{ c }}{% endfor %}",
        "{% set c = cycler('a', d) %}{{ c.next() }}{{ c.next() }}",
        "{% for x in [1, 2] %}{{ loop.cycle('a', d) }}{% endfor %}",
        "{% for m in list recursive %}a{{ m if m is string else loop(m) }}{% endfor %}",
        "{% for m in [list] recursive %}a{{ m if m is string else loop(m) }}{% endfor %}",
        "{% for m in list %}{{ loop.previtem }}a{{ loop.nextitem }}{% endfor %}",
        "{{ namespace(t=d).t }}a"}) {
    check(source);
  }
}

// A number ends up as text, and '<|' ~ n ~ '|>' may be a token.
TEST(Origins, OfNumbers) {
  for (const char* source : {"{{ n }}a", "{{ n + 1 }}", "{{ 1 - x }}", "{{ -n }}", "{{ n|string }}", "{{ x|int }}",
                             "{{ n|float }}", "{{ '%d' % n }}", "{{ '{:o}'.format(n) }}", "{{ [n, x]|tojson }}",
                             "{{ [n, x] }}", "{{ n|abs }}", "{{ x|round }}", "{{ range(n)|last }}", "{{ range(n)[3] }}",
                             "{{ '44'|int + n }}", "{{ [n, x]|sum }}", "{{ '%.1f' % x }}", "{{ n // 2 }}"}) {
    check(source, Origin::kData, true);
  }
  const auto text =
      Template::parse("{{ 'αβ'|length }}{{ '7'|int }}{{ range(3)|last }}")->render_marked(*parse_json_value("{}", ""));
  EXPECT_TRUE(text->is_own());
}

TEST(Origins, UntrackedTextIsData) {
  EXPECT_EQ(Value::string("text").origin(), Origin::kData);
  EXPECT_EQ(Value::literal("text").origin(), Origin::kTemplate);
  EXPECT_EQ(parse_json_value("\"text\"", "")->origin(), Origin::kData);
}

// What a template compares and looks up does not depend on origins.
TEST(Origins, DoNotChangeComparisons) {
  EXPECT_EQ(render("{{ '</t>' in d }}{{ d.split('</t>')[1] }}{{ d.startswith('a') }}{{ d == 'a</t>b' }}{{ {'k': 1}[k] "
                   "}}{{ {k: 2}['k'] }}",
                   R"({"d": "a</t>b", "k": "k"})"),
            "TruebTrueTrue12");
}

}  // namespace origin_test
}  // namespace tandem::jinja
