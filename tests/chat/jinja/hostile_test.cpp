// Templates that try to hang the app that renders them, or to exhaust its memory.
#include <chrono>

#include "chat/jinja/jinja_test.h"

namespace tandem::jinja {
namespace hostile_test {

std::string repeated(std::string_view text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

// An error about a limit, in bounded time.
void expect_refused(const std::string& source) {
  const auto start = std::chrono::steady_clock::now();
  const auto parsed = Template::parse(source);
  Error error;
  if (!parsed.ok()) {
    error = parsed.error();
  } else {
    RenderOptions options;  // Less than usual, because sanitizers are slow.
    options.limits.steps = 500'000;
    options.limits.memory = size_t{16} << 20;
    const auto text = parsed->render(*parse_json_value(R"({"s": "text", "messages": []})", "v"), options);
    ASSERT_FALSE(text.ok()) << source.substr(0, 200);
    error = text.error();
  }
  EXPECT_EQ(error.code, ErrorCode::kResourceExhausted) << source.substr(0, 200) << ": " << error.message;
  EXPECT_LT(error.message.size(), 300u);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_LT(seconds.count(), 60.0) << source.substr(0, 200);  // A few seconds; sanitizers take longer.
}

TEST(Hostile, EndlessWorkIsStopped) {
  expect_refused("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}");
  expect_refused("{% for a in range(99999) %}{% for b in range(99999) %}{{ a }}{% endfor %}{% endfor %}");
  expect_refused("{{ range(1000000000) }}");
  expect_refused("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}");
  expect_refused("{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}");
  expect_refused("{% macro m(x) %}{{ m(x) }}{{ m(x) }}{% endmacro %}{{ m(1) }}");
  expect_refused("{% macro m() %}{{ caller }}{% call m() %}{% endcall %}{% endmacro %}{{ m() }}");
  expect_refused("{% for x in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}");
  expect_refused(
      "{% set ns = namespace(f=1) %}{% macro m() %}{% macro i() %}{% endmacro %}{{ ns.m() }}{% endmacro %}"
      "{% set ns.m = m %}{{ m() }}");
}

// Operations that are slow on a single number, tuple or padding.
TEST(Hostile, EndlessWorkInOneOperationIsStopped) {
  const std::string loop = "{% for i in range(99999) %}{% for j in range(99999) %}{% set q = ";
  const std::string end = " %}{% endfor %}{% endfor %}";
  expect_refused(loop + "1e300|round(300)" + end);
  expect_refused(loop + "'%.99999f'|format(1e300)" + end);
  expect_refused(loop + "'{:,.0f}'.format(1e300)" + end);
  expect_refused(loop + "'a'|center(1000000)" + end);
  expect_refused("{% set s='a'*1000000 %}{% set t=('a'*999999~'b',)*100000 %}" + loop + "s.startswith(t)" + end);
}

// Text and data alternate a hundred thousand times: each part is counted once.
TEST(Hostile, ChangingTheCaseOfManyPartsIsLinear) {
  EXPECT_EQ(render("{% set x=('a'~c)*100000 %}{{ x|upper|length }}", R"({"c": "b"})"), "200000");
}

TEST(Hostile, EndlessMemoryIsStopped) {
  expect_refused("{{ 'a' * 9999999999 }}");
  expect_refused("{{ [1] * 9999999999 }}");
  expect_refused("{% set ns = namespace(s='aa') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}");
  expect_refused("{% set ns = namespace(s='aa') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}");
  expect_refused(
      "{% set ns = namespace(s='aa') %}{% for i in range(99) %}{% set ns.s = ns.s|replace('a', 'aa') %}{% endfor %}");
  expect_refused(
      "{% set ns = namespace(s='aa') %}{% for i in range(99) %}{% set ns.s = ns.s.join([ns.s, ns.s]) %}{% endfor %}");
  expect_refused("{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}");
  expect_refused(
      "{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}");
  expect_refused(
      "{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s|tojson "
      "}}");
  expect_refused(
      "{% set ns = namespace(s=[1], t=[1]) %}{% for i in range(99) %}{% set ns.s = [ns.s, ns.s] %}"
      "{% set ns.t = [ns.t, ns.t] %}{% endfor %}{{ ns.s == ns.t }}");
  expect_refused("{% set ns = namespace(s=1) %}{% for i in range(9999) %}{% set ns.s = [ns.s] %}{% endfor %}");
  expect_refused(
      "{% set ns = namespace(s=1) %}{% for i in range(9999) %}{% set ns.s = namespace(s=ns.s) %}{% endfor %}");
  expect_refused("{% for i in range(99999) %}{{ 'a' * 99999 }}{% endfor %}");
  expect_refused("{{ s.center(9999999999) }}");
  expect_refused("{{ s|indent(9999999999) }}");
  expect_refused("{{ 'a'.ljust(999999999) }}");
  expect_refused(
      "{% set ns = namespace(l=[]) %}{% for i in range(99999) %}{% set ns.l = [ns.l|length, range(99999)|list] %}{% "
      "set ns.k = ns.l %}{% for j in range(99999) %}{% endfor %}{% endfor %}");
}

TEST(Hostile, DeepNestingIsRefused) {
  expect_refused("{{ " + repeated("(", 100000) + repeated(")", 100000) + " }}");
  expect_refused("{{ " + repeated("[", 100000) + repeated("]", 100000) + " }}");
  expect_refused("{{ " + repeated("not ", 100000) + "1 }}");
  expect_refused("{{ " + repeated("-", 100000) + "1 }}");
  expect_refused("{{ 1" + repeated(" + 1", 100000) + " }}");
  expect_refused("{{ s" + repeated(".x", 100000) + " }}");
  expect_refused("{{ s" + repeated("|upper", 100000) + " }}");
  expect_refused("{{ s" + repeated("(1)", 100000) + " }}");
  expect_refused("{{ 1" + repeated(" if 1 else 1", 100000) + " }}");
  expect_refused(repeated("{% if 1 %}", 50000) + repeated("{% endif %}", 50000));
  expect_refused(repeated("{% for i in s %}", 50000) + repeated("{% endfor %}", 50000));
}

TEST(Hostile, SelfReferencesDoNotLeak) {
  // Nothing leaks: the sanitizers check.
  EXPECT_EQ(render("{% set ns = namespace() %}{% set ns.me = ns %}{{ ns.me.me.me is defined }}"), "True");
  EXPECT_EQ(render("{% set ns = namespace() %}{% set ns.l = [ns, {'x': ns}] %}{{ ns.l|length }}"), "2");
  EXPECT_EQ(
      render("{% set ns = namespace() %}{% for i in [1] %}{% set ns.loop = loop %}{% endfor %}{{ ns.loop.index }}"),
      "1");
  EXPECT_EQ(render("{% macro m() %}x{% endmacro %}{% set ns = namespace(m=m) %}{{ ns.m() }}"), "x");
  EXPECT_EQ(
      render("{% set ns = namespace(t=1) %}{% for i in range(500) %}{% set a = namespace() %}{% set a.next = ns.t %}"
             "{% if loop.index % 100 == 0 %}{% set ns.t = 1 %}{% else %}{% set ns.t = a %}{% endif %}{% endfor %}ok"),
      "ok");
  // A chain from its end: each namespace knows only the next.
  EXPECT_EQ(
      render("{% set ns = namespace() %}{% set ns.tail = namespace() %}{% for i in range(20000) %}{% set t = ns.tail %}"
             "{% set t.next = namespace() %}{% set ns.tail = t.next %}{% endfor %}ok"),
      "ok");
}

// An operation on half a megabyte, 40 times, with a tenth of the usual steps.
std::string render_operation(const char* operation) {
  const std::string setup =
      "{% set a = 'a' * 500000 %}{% set n = 'a' * 30000 + 'b' %}{% set u = 'é' * 300000 %}{% set s = ' ' * 500000 %}"
      "{% set l = range(50000)|list %}{% set t = (1,) * 100000 %}";
  RenderOptions options;
  options.limits.steps /= 10;
  return render(setup + "{% for i in range(40) %}{% set x = " + operation + " %}{% endfor %}ok", "{}", options);
}

// Steps stand for time: what examines each character is charged for each.
TEST(Hostile, OperationsOnLongTextsAreChargedForTheirLength) {
  for (const char* operation :
       {"s.strip()", "s|trim", "a.strip('a')", "a|title", "u.title()", "u.upper()", "u.startswith('é', 299999)",
        "u[299999]", "u[::-1]", "a|wordcount", "s.split()", "u|tojson(ensure_ascii=true)", "{t: 1}[t]", "t in {t: 1}",
        "{t: 1} == {t: 1}", "[t, t]|unique|list", "l|selectattr('x')|list", "u.isalpha()", "a|urlencode"}) {
    const std::string text = render_operation(operation);
    EXPECT_NE(text.find("takes too long"), std::string::npos) << operation << ": " << text.substr(0, 200);
  }
}

// Comparing all of `n` at each position of `a` took a second for each of the forty.
TEST(Hostile, SearchesAreLinear) {
  for (const char* operation : {"a.find(n)", "a.rfind(n)", "a.count(n)", "n in a", "a.split(n)", "a.rsplit(n)",
                                "a.replace(n, 'x')", "a.partition(n)", "a.rpartition(n)", "a|replace(n, '')"}) {
    const auto start = std::chrono::steady_clock::now();
    const std::string text = render_operation(operation);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    EXPECT_TRUE(text == "ok" || text.find("takes too long") != std::string::npos) << text.substr(0, 200);
    EXPECT_LT(seconds.count(), 30.0) << operation;  // A tenth of a second; sanitizers take longer.
  }
}

TEST(Hostile, ManyNamesAreChargedForTheSearch) {
  std::string names;
  std::string attributes = "{% set ns = namespace() %}";
  std::string keys = "{% set d = {";
  for (int i = 0; i < 20'000; ++i) {
    const std::string number = std::to_string(i);
    names.append("{% set v").append(number).append(" = 1 %}");
    attributes.append("{% set ns.v").append(number).append(" = 1 %}");
    keys.append(number).append(": 1, ");
  }
  names += "{% for i in range(9000) %}{% set x = v19999 + v19998 + v19997 %}{% endfor %}";
  attributes += "{% for i in range(9000) %}{% set x = ns.v19999 + ns.v19998 + ns.v19997 %}{% endfor %}";
  keys += "} %}{% for i in range(9) %}{% set x = d == d %}{% endfor %}";
  RenderOptions options;
  options.limits.steps /= 10;
  for (const std::string& source : {names, attributes, keys}) {
    const std::string text = render(source, "{}", options);
    EXPECT_NE(text.find("takes too long"), std::string::npos) << text.substr(0, 200);
  }
}

// Text that is written piece by piece is charged once, not again for everything before it.
TEST(Hostile, LongResultsOfOrdinaryOperationsAreNotRefused) {
  std::string list = R"({"tools": [)";
  for (int i = 0; i < 20'000; ++i) list += (i > 0 ? "," : "") + std::string(R"({"name": "function", "n": [1, 2.5]})");
  list += "]}";
  EXPECT_GT(render("{{ tools|tojson }}", list).size(), 600'000u);
  EXPECT_GT(render("{{ tools|tojson(indent=4) }}", list).size(), 600'000u);
  EXPECT_GT(render("{{ tools }}", list).size(), 600'000u);
  EXPECT_EQ(render("{{ (['0123456789'] * 60000)|join(', ') }}", list).size(), 60'000u * 12 - 2);
  EXPECT_EQ(render("{{ ('ab' * 400000).replace('a', 'xy')|length }}", list), "1200000");
}

TEST(Hostile, OrdinaryTemplatesAreFarFromTheLimits) {
  const std::string chat = "{% for m in messages %}{{ '<|' + m.role + '|>' + m.content|trim + '\\n' }}{% endfor %}";
  std::string messages = R"({"messages": [)";
  for (int i = 0; i < 2000; ++i) {
    messages += (i > 0 ? "," : "") + std::string(R"({"role": "user", "content": ")") + std::string(2000, 'x') + "\"}";
  }
  RenderOptions options;
  options.limits.steps /= 20;
  EXPECT_EQ(render(chat, messages + "]}", options).size(), 2000u * (2000 + 9));
}

}  // namespace hostile_test
}  // namespace tandem::jinja
