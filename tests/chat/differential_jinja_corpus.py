"""Templates for differential_jinja.py: some hundred written ones, and a generator of random ones."""

import json

VARIABLES = {
    "n": 7, "m": -3, "f": 2.5, "big": 123456789012, "zero": 0, "t": True, "no": False, "nothing": None,
    "s": "Hello, World", "empty": "", "u": "Grüße, Ελλάδα – 日本語 🎉", "padded": "  \t two  words \n",
    "lines": "one\ntwo\r\n\nfour", "html": "<b a=\"1\">'x' & y</b>", "digits": "0042",
    "list": [3, 1, 2], "words": ["pear", "Apple", "fig", "apple"], "mixed": [1, "a", None, 2.0, [1], {"k": 1}],
    "nested": [[1, 2], [3, 4], [5, 6]], "none_list": [],
    "d": {"b": 1, "a": 2, "C": 3}, "deep": {"x": {"y": [{"z": "found"}]}}, "no_items": {},
    "users": [{"name": "Ann", "age": 30, "on": True}, {"name": "bob", "age": 25, "on": False},
              {"name": "Cy", "age": 30, "on": True}],
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"},
                 {"role": "assistant", "content": "Hello",
                  "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]}],
}

EXPRESSIONS = r"""
1 + 2 * 3 - 4
(1 + 2) * 3
7 // 2 ~ 7 % 3
-7 // 2
-7 % 3
7 % -3
7.5 // 2
-7.5 % 2
2 ** 10
2 ** -1
2 ** 3 ** 2
-2 ** 2
7 / 2
6 / 2
1 / 0
1 // 0
1.0 / 0
1e3
1.5e-7
1e16
1e15
123456789.123
0.1 + 0.2
1_000
0x1F
0b101
0o17
true and 1
0 or 'x'
'' or none
not 1
not none
1 if true
1 if false
1 if false else 2 if false else 3
(1 if no)
'a' + 'b' ~ 1 ~ none ~ true
'a' * 3
3 * 'ab'
[1] * 2
[1] + [2, 3]
(1, 2) + (3,)
[1] + (2,)
'a' + 1
1 + 'a'
none + 1
nope + 1
nope
nope.x
nope['x']
nope ~ 'x'
nope == nope
nope == none
nope in [1]
1 in nope
'x' in nope
nope is defined
nope is undefined
d.nope is defined
d.nope.x
d.nope
d.b
d['b']
d['nope']
d.items
list.0
list[0]
list[-1]
list[5]
list['x']
list[5] is defined
s[0]
s[-1]
s[99]
u[7]
u[1:5]
u[::-1]
u[-3:]
s[::2]
s[10:2:-3]
s[2:100]
s[-100:3]
list[::-1]
list[1:]
list[:-1]
list[5:]
list[::0]
nested[1][0]
deep.x.y[0].z
deep['x'].y.0.z
(1, 2)[0]
{'a': 1}.a
{'a': 1, 2: 'b', none: 3}
{'a': {'b': {}}}
[]
()
(1,)
(1, 'a', none)
[1, 2.0, 'x', none, true, [1], {'k': 'v'}]
"it's"
'say "hi"'
['it\'s', 'say "x"', "both ' \""]
'tab\tnew\nback\\slash'
['tab\tnew\nback\\slash\x00\x7f']
'\u00e9\x41\101\q'
['é', '\u200b', '\U0001F389']
'a' 'b' "c"
1 < 2 < 3
1 < 3 < 2
1 == 1.0
1 == true
'1' == 1
[1, 2] == [1, 2]
(1, 2) == [1, 2]
{'a': 1, 'b': 2} == {'b': 2, 'a': 1}
'a' < 'b'
[1, 2] < [1, 3]
1 < 'a'
none < 1
none == none
'ell' in s
'x' not in s
1 in list
'a' in d
[] in d
1 in 'abc'
not 1 in list
1 is number
1.0 is number
true is number
true is integer
1 is integer
1.0 is float
1 is float
'x' is string
d is mapping
list is mapping
list is sequence
s is sequence
d is sequence
1 is sequence
list is iterable
1 is iterable
none is none
1 is none
true is boolean
true is true
1 is true
false is false
0 is false
3 is odd
3 is even
9 is divisibleby 3
9 is divisibleby(4)
1 is eq 1
1 is equalto(2)
1 is ne 2
2 is gt 1
2 is lessthan 1
1 is in [1, 2]
'a' is in 'abc'
1 is sameas 1
none is sameas none
'abc' is lower
'ABC' is upper
'aBC' is upper
'upper' is filter
'nope' is filter
'odd' is test
1 is not none
1 is not odd
range is callable
s is callable
x is defined and x.y
s | upper
s|lower|length
u | upper
u | lower
'straße ǆ ﬁ ΑΣ' | upper
'ΑΣ ΌΣΟΣ' | lower
'hello wORLD-foo (bar) [x] it\'s' | title
'hello wORLD it\'s' | capitalize
'hello wORLD-foo it\'s'.title()
padded | trim
'xxaxx' | trim('x')
s | replace('l', 'L')
s | replace('l', 'L', 1)
'aaa' | replace('', '-')
'abc'.replace('', '-', 2)
[1, 2] | replace('1', 'x')
lines | indent
lines | indent(2, true)
lines | indent(2, first=true, blank=true)
lines | indent('> ')
'' | indent
html | escape
html | e | e
html | forceescape
('<b>' | safe) + '<i>'
'<i>' + ('<b>' | safe)
('<b>' | safe) ~ '<i>'
'x' | center(9)
'xy' | center(9) | length
'ab'.center(5, '*')
'ab'.center(6, '*')
'a'.ljust(4, '.') ~ 'b'.rjust(4)
'7'.zfill(3) ~ '-7'.zfill(4)
'%s is %d' | format('a', 3)
'%s %(x)s' | format(x=1)
'%(x)s|%(y)5.1f' | format(x=1, y=2.25)
'%s and %s' % ('a', 1)
'%5d|%-5d|%05d|%+d|%x|%X|%o' % (42, 42, 42, 42, 255, 255, 8)
'%.2f %e %g %g' % (3.14159, 12345.678, 0.00001, 100000)
'%s' % list
'%s %s' % 'a'
'%s' % ('a', 'b')
'%d' % 'x'
'%r' % 'x'
'%%' % ()
'{} {}'.format(1, 'a')
'{1} {0} {x}'.format(1, 2, x=3)
'{:>5}|{:<5}|{:^5}|{:05d}|{:.2f}|{:,}'.format('a', 'b', 'c', 42, 3.14159, 1234567)
'{!r}'.format('x')
'{0[0]} {1.a}'.format([1], {'a': 2})
'{{}}'.format()
'{}'.format()
'a b c'.split()
'a,b,,c'.split(',')
'a,b,c'.split(',', 1)
'a,b,c'.rsplit(',', 1)
' a  b '.split()
' a  b '.split(' ')
'  a b  c '.split(none, 1)
'  a b  c '.rsplit(none, 1)
''.split()
''.split(',')
'abc'.split('')
lines.splitlines()
lines.splitlines(true)
'a-b-c'.partition('-')
'a-b-c'.rpartition('-')
'abc'.partition('x')
padded.strip() ~ '|' ~ padded.lstrip() ~ '|' ~ padded.rstrip()
'xxhixx'.strip('x') ~ 'abcba'.lstrip('ab') ~ 'abc'.rstrip('c')
s.startswith('Hell') ~ s.endswith('ld') ~ s.startswith('x')
s.startswith(('x', 'He'))
s.startswith('llo', 2)
s.startswith(1)
s.find('o') ~ s.find('o', 5) ~ s.rfind('o') ~ s.find('zz')
u.find('日')
s.index('W')
s.index('zz')
s.count('l') ~ s.count('') ~ s.count('l', 3)
', '.join(['a', 'b'])
', '.join([1])
'-'.join('abc')
s.upper() ~ s.lower() ~ s.swapcase() ~ s.capitalize()
digits.isdigit() ~ s.isdigit() ~ 'abc'.isalpha() ~ 'a1'.isalnum() ~ ' '.isspace() ~ ''.isdigit() ~ 'é'.isalpha()
'ABC'.isupper() ~ 'abc'.islower() ~ '123'.isupper()
'prefix-x'.removeprefix('prefix-') ~ 'x.py'.removesuffix('.py')
s.nope
s.nope()
s.upper
list | join
list | join(', ')
users | join(', ', attribute='name')
mixed | join('|')
'abc' | join('-')
none | join
1 | join
list | length
s | count
u | length
d | length
none | length
1 | length
nope | length
list | first ~ list | last
none_list | first
none_list | last
'abc' | first ~ 'abc' | last
u | last
d | first
d | list
'abc' | list
range(3) | list
none | list
list | reverse | list
'abc' | reverse
list | sort
list | sort(reverse=true)
words | sort
words | sort(case_sensitive=true)
words | sort(true)
mixed | sort
users | sort(attribute='age') | map(attribute='name') | list
users | sort(attribute='age,name') | map(attribute='name') | list
users | sort(attribute='name', reverse=true) | map(attribute='name') | join(',')
words | unique | list
words | unique(true) | list
users | unique(attribute='age') | map(attribute='name') | list
words | min ~ words | max ~ list | min ~ list | max
none_list | min
users | max(attribute='age')
list | sum
users | sum(attribute='age')
words | sum
[0.1, 0.2] | sum
nested | sum(start=[])
users | groupby('age') | list
users | groupby('on')
users | map(attribute='name') | list
users | map(attribute='nope') | list
users | map(attribute='nope', default='-') | list
users | map(attribute='name') | map('upper') | join(' ')
words | map('length') | list
words | map('replace', 'p', 'P') | list
words | map | list
words | map('nope') | list
nested | map('first') | list
nested | map(attribute=1) | list
list | select('odd') | list
list | select('gt', 1) | list
mixed | select | list
mixed | reject | list
list | reject('odd') | list
users | selectattr('on') | map(attribute='name') | list
users | selectattr('age', 'equalto', 30) | list | length
users | selectattr('age', '>', 26) | map(attribute='name') | list
users | rejectattr('on') | map(attribute='name') | list
users | selectattr('nope') | list
users | selectattr('nope', 'defined') | list
users | selectattr('role', 'eq', 'x') | first
messages | selectattr('role', 'equalto', 'user') | first
messages | selectattr('role', 'equalto', 'nope') | list
words | select('in', ['fig', 'pear']) | list
list | select('nope') | list
'x' if list | select('gt', 100) else 'y'
list | select('gt', 100)
nope | selectattr('x') | list
d | items | list
d.items() | list
d.keys() | list
d.values() | list
d.items()
d.keys()
d.get('a') ~ d.get('zz') ~ d.get('zz', 5)
d.pop('a')
d.update({'x': 1})
list.append(4)
list.index(1) ~ list.count(3)
list.index(99)
d | dictsort
d | dictsort(true)
d | dictsort(by='value')
d | dictsort(false, 'value', true)
nope | items | list
1 | items | list
list | batch(2) | list
list | batch(2, 'x') | list
list | slice(2) | list
list | slice(2, 'x') | list
'12' | int ~ ' 12 ' | int ~ '12.7' | int ~ 'x' | int ~ 'x' | int(5) ~ none | int ~ 3.9 | int ~ true | int ~ -3.9 | int
'ff' | int(base=16) ~ '0x1f' | int(0, 16) ~ '101' | int(0, 2)
nope | int
[] | int
'1.5' | float ~ 'x' | float ~ 'x' | float(2.5) ~ 3 | float ~ '1e3' | float ~ ' 2 ' | float
'inf' | float
m | abs ~ -2.5 | abs
s | abs
2.5 | round ~ 3.5 | round ~ 2.675 | round(2) ~ 42 | round ~ 1234.5 | round(-2)
2.1 | round(method='ceil') ~ 2.9 | round(0, 'floor') ~ 2.14 | round(1, 'ceil')
1234 | round(-2)
nope | default('x') ~ none | default('x') ~ '' | default('x') ~ '' | default('x', true) ~ nope | d
d.nope | default('fallback')
nope.x | default('x')
1 | string ~ none | string ~ [1] | string
list | tojson
d | tojson
mixed | tojson
d | tojson(indent=2)
mixed | tojson(indent=4)
[] | tojson(indent=2)
{} | tojson(indent=2)
{'a': [], 'b': {}} | tojson(indent=2)
u | tojson
u | tojson(ensure_ascii=true)
html | tojson
'\u2028\x7f\x01\t\\' | tojson
d | tojson(sort_keys=true)
d | tojson(separators=(',', ':'))
d | tojson(indent='\t')
{1: 2, none: 3, true: 4, 2.5: 5} | tojson
1.0 | tojson ~ 1e20 | tojson ~ 1e-7 | tojson ~ true | tojson ~ none | tojson
(1, 2) | tojson
nope | tojson
range(3) | tojson
s | truncate(8)
'Hello wonderful world of words' | truncate(12)
'Hello wonderful world of words' | truncate(12, true)
'Hello wonderful world' | truncate(12, false, '…', 0)
s | wordcount ~ 'a_b c-d é' | wordcount
'a b&c/d é' | urlencode
s | nope
s is nope
d | attr('items') is callable
d | attr('b')
range(5) | list ~ range(2, 5) | list ~ range(5, 0, -2) | list
range(3)
range(0, 10, 3)
range(3)[1]
range(3) | length
range('x')
range(1000000)
range(1, 5, 0)
dict(a=1, b=2)
dict({'a': 1}, b=2)
dict([('a', 1), ['b', 2]])
namespace(a=1).a
namespace(a=1).b
namespace({'a': 1}, b=2).b
strftime_now('%Y-%m-%d %H:%M:%S %B %b %A %a %d %e %j %y %p %I %% %-d %-m %U %W %w %u')
raise_exception('boom ' ~ n)
raise_exception()
loop
loop.index
caller
[1, 2, 3][1:][0]
(list | length) - 1
list | length - 1
messages[messages | length - 1].role
messages | map(attribute='role') | list
messages[-1].tool_calls[0].function.arguments | tojson
messages[0]['content'].split(' ')[-1]
{'a': 1}['a']
{'a': 1}.items() | list
{**d}
[*list]
(1, 2), 3
1, 2
s.split(',')[0].strip().lower()[::-1]
1if true else 2
n-1
n -1
n - -1
+n
- n
not not n
n is defined and n > 5 and not no
(n > 5) == true
n == 7 or nope.x
no and nope.x
'a' ~ 'b' * 2
2 * 3 ~ 4
'ab' in 'cab' and 'x' not in 'y'
1 not in [2] == true
'%s' % nope
nope | upper
nope | trim
none | upper
none | trim
true | string | lower
1.0 ~ 2.50 ~ 1e100 ~ -0.0
[1.0, 1e-5, 1e22, 123456789012345680.0]
"a\
b"
d is mapping and d.items is callable
d['items'] is callable
d.a.b.c
d.a.b
(d.a).b is defined
s.x.y is defined
x.y is defined
messages.0.role
messages[0].nope.x
['a', 'b'][true]
d[none]
d[1.5]
'abc'[1.0]
'abc'[none:2]
s['x':]
d[1:2]
n[1:]
u | list | length
u | batch(3) | map('join') | join('|')
'é' < 'z'
'Z' < 'a'
'a' ~ (1, 'b') ~ {'x': none}
[none, true, 1.5] | join(',')
[[1, [2]], (3,)] | string
"{{ x }}"
'{% if %}'
""

""".strip("\n").split("\n")

TEMPLATES = [
    "plain text\n",
    "plain text\n\n",
    "",
    "\n",
    "a\r\nb\rc\n",
    "{{ 1 }}\n",
    "{{ 1 }}\n\n",
    "x {# comment #} y",
    "x\n  {# comment #}\ny",
    "x\n  {#- comment -#}\n  y",
    "{# unclosed",
    "{{ unclosed",
    "{% if x",
    "{{ }}",
    "{% %}",
    "{% nope %}",
    "{{ 'a' }",
    "{{ 'a }}",
    "{{ (1 }}",
    "{{ 1) }}",
    "{{ [1) }}",
    "{{ a b }}",
    "{{ 1 2 }}",
    "{{ . }}",
    "{{ ! }}",
    "{{ a.}}",
    "{{ a[] }}",
    "a\n{% if true %}\nb\n{% endif %}\nc",
    "a\n  {% if true %}\n  b\n  {% endif %}\nc",
    "a {% if true %} b {% endif %} c",
    "a\n  {%- if true -%}\n  b\n  {%- endif -%}\nc",
    "a  {{- 1 -}}  b",
    "a\n {{- 1 }}\n b",
    "a\n  {{ 1 }}\n b",
    "a\n  {%+ if true %}\n b{% endif %}",
    "a\n{% if true +%}\nb{% endif %}",
    "a\n{{+ 1 }}b",
    "  {% if true %}x{% endif %}",
    "\t{% if true %}x{% endif %}",
    "{% if true %}   {% if true %}x{% endif %}{% endif %}",
    "{% if true %}\n   {% if true %}x{% endif %}{% endif %}",
    "x{% if true %}   {% if true %}y{% endif %}{% endif %}",
    "{{ 1 }}   {% if true %}y{% endif %}",
    "{% set x = 1 %}\n\n{{ x }}",
    "{% if no %}a{% elif n > 5 %}b{% else %}c{% endif %}",
    "{% if no %}a{% else %}c{% endif %}",
    "{% if no %}a{% endif %}",
    "{% if nope %}a{% else %}b{% endif %}",
    "{% if n > 5: %}x{% endif %}",
    "{% if %}x{% endif %}",
    "{% if true %}",
    "{% endif %}",
    "{% else %}",
    "{% if true %}{% endfor %}",
    "{% for i in list %}{{ i }},{% endfor %}",
    "{% for i in none_list %}{{ i }}{% else %}none{% endfor %}",
    "{% for i in nope %}x{% else %}none{% endfor %}",
    "{% for i in none %}x{% endfor %}",
    "{% for i in 5 %}x{% endfor %}",
    "{% for c in 'aé日' %}{{ c }}.{% endfor %}",
    "{% for k in d %}{{ k }}{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k, v in d|items %}{{ k }}={{ v }};{% endfor %}",
    "{% for a, b in nested %}{{ a }}-{{ b }} {% endfor %}",
    "{% for (a, b) in nested %}{{ a }}-{{ b }} {% endfor %}",
    "{% for a, b, c in nested %}{{ a }}{% endfor %}",
    "{% for a, b in list %}{{ a }}{% endfor %}",
    "{% for i in list %}{{ loop.index }}/{{ loop.index0 }}/{{ loop.revindex }}/{{ loop.revindex0 }}/{{ "
    "loop.first }}/{{ loop.last }}/{{ loop.length }}/{{ loop.depth }} {% endfor %}",
    "{% for i in list %}{{ loop.previtem }}<{{ i }}<{{ loop.nextitem }} {% endfor %}",
    "{% for i in list %}{{ loop.cycle('a', 'b') }}{% endfor %}",
    "{% for i in [1, 1, 2] %}{{ loop.changed(i) }} {% endfor %}",
    "{% for i in list %}{{ loop }}{% endfor %}",
    "{% for i in list %}{{ loop.nope }}{{ loop.nope is defined }}{% endfor %}",
    "{% for i in list if i > 1 %}{{ loop.index }}:{{ i }} {% else %}no{% endfor %}",
    "{% for i in list if i > 9 %}{{ i }}{% else %}no{% endfor %}",
    "{% for u in users if u.on %}{{ u.name }}{{ ', ' if not loop.last }}{% endfor %}",
    "{% for i in range(10) %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "{% for i in range(6) %}{% if i is odd %}{% continue %}{% endif %}{{ i }}{% endfor %}",
    "{% for i in list %}{% for j in list %}{% if j == 1 %}{% break %}{% endif %}{{ i }}{{ j }} {% endfor "
    "%}{% endfor %}",
    "{% break %}",
    "{% for i in list %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}",
    "{% for i in list %}{% else %}{% break %}{% endfor %}",
    "{% for i in list %}{% set outer = loop %}{% for j in list %}{{ outer.index }}{{ loop.index }} {% "
    "endfor %}{% endfor %}",
    "{% set x = 1 %}{% for i in list %}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}",
    "{% for i in list %}{% set y = i %}{% endfor %}{{ y }}",
    "{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}",
    "{% for i in list %}{{ x }}{% set x = i %}{{ x }} {% endfor %}",
    "{% set n = n + 1 %}{{ n }}",
    "{% for i in list %}{% set n = n + 1 %}{{ n }} {% endfor %}{{ n }}",
    "{% for n in list %}{{ n }}{% endfor %}{{ n }}",
    "{% for i in i %}{{ i }}{% endfor %}",
    "{% for list in list %}{{ list }}{% endfor %}{{ list }}",
    "{% set ns = namespace(x=0) %}{% for i in list %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}",
    "{% set ns = namespace() %}{% set ns.y = 5 %}{{ ns.y }}{{ ns.z }}",
    "{% set d.x = 1 %}",
    "{% set nope.x = 1 %}",
    "{% set x.y = 1 %}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}",
    "{% set a, b = nested[0] %}{{ a }}{{ b }}",
    "{% set a, b = 1 %}",
    "{% set a, b = list %}",
    "{% set 1 = 2 %}",
    "{% set true = 1 %}",
    "{% set x %}a{{ n }}b{% endset %}[{{ x }}]",
    "{% set x | upper %}a{{ n }}b{% endset %}[{{ x }}]",
    "{% set x | upper | replace('A', 'z') %}a{% endset %}[{{ x }}]",
    "{% set x = 'a' if n > 5 else 'b' %}{{ x }}",
    "{% set x = 1, 2 %}{{ x }}",
    "{% set x %}{% set y = 1 %}{{ y }}{% endset %}{{ x }}{{ y }}",
    "{% set ns = namespace(a='') %}{% set ns.a %}text{% endset %}{{ ns.a }}",
    "{% macro m(a, b=2) %}{{ a }}-{{ b }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(b=5, a=4) }} {{ m() }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}",
    "{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}",
    "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}",
    "{% macro m(a=1, b) %}{% endmacro %}",
    "{% macro m(x) %}{% if x > 0 %}{{ x }}{{ m(x - 1) }}{% endif %}{% endmacro %}{{ m(5) }}",
    "{% macro m() %}{{ n }}{{ later }}{% endmacro %}{% set later = 5 %}{{ m() }}",
    "{{ m() }}{% macro m() %}x{% endmacro %}",
    "{% macro m() %}{% set q = 1 %}{{ q }}{% endmacro %}{{ m() }}{{ q }}",
    "{% macro m() %}x{% endmacro %}{{ m }}{{ m.name }}",
    "{% macro a() %}A{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}",
    "{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}body {{ n }}{% endcall %}",
    "{% macro m(l) %}{% for x in l %}{{ caller(x) }}{% endfor %}{% endmacro %}{% call(y) m(list) %}[{{ y "
    "}}]{% endcall %}",
    "{% macro m() %}{{ caller }}{% endmacro %}{{ m() }}",
    "{% macro m() %}{% if caller %}{{ caller() }}{% else %}none{% endif %}{% endmacro %}{{ m() }}{% call "
    "m() %}c{% endcall %}",
    "{% call s %}{% endcall %}",
    "{% macro m(x) %}{{ x }}{% endmacro %}{% call m(1) %}c{% endcall %}",
    "{% set r = m() if m is defined else 'none' %}{{ r }}",
    "{% macro f(a) -%}\n  {{ a }}\n{%- endmacro %}\n[{{ f(1) }}]",
    "{% macro m(a,) %}{{ a }}{% endmacro %}{{ m(1,) }}",
    "{% for i in [1,2] %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}",
    "{% macro m(x) %}{{ x|length }}{% endmacro %}{{ m('abc') }}{{ m(x=[1]) }}{{ m(*[[1, 2]]) }}{{ "
    "m(**{'x': 'abcd'}) }}",
    "{% filter upper %}a{{ s }}{% endfilter %}",
    "{% filter upper | replace('A', 'b') %}a{% endfilter %}",
    "{% filter nope %}a{% endfilter %}",
    "{% filter indent(2) %}a\nb{% endfilter %}",
    "{% with x = 1, y = n %}{{ x }}{{ y }}{% endwith %}{{ x }}",
    "{% with %}{% set x = 1 %}{{ x }}{% endwith %}{{ x }}",
    "{% with n = n + 1 %}{{ n }}{% endwith %}{{ n }}",
    "{% with a = 1, b = a %}{{ b }}{% endwith %}",
    "{% raw %}{{ x }}{% if %}{% endraw %}y",
    "a  {%- raw -%}  {{ x }}  {%- endraw -%}  b",
    "{% raw %}\n x{% endraw %}\ny",
    "{% raw %}unclosed",
    "  {% raw %}x{% endraw %}\n  {% endraw %}",
    "{%raw%}{%endraw%}",
    "{% generation %}a{{ n }}{% endgeneration %}b",
    "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% "
    "endgeneration %}{% endif %}{% endfor %}",
    "{% generation %}{% set zz = 1 %}{% endgeneration %}{{ zz }}",
    "{% print n %}",
    "{% include 'x' %}",
    "{% import 'x' as y %}",
    "{% from 'x' import y %}",
    "{% extends 'x' %}",
    "{% do list.append(1) %}",
    "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() "
    "}}{{ c.current }}",
    "{% set j = joiner('|') %}{% for i in list %}{{ j() }}{{ i }}{% endfor %}",
    "{% set j = joiner() %}{{ j() }}a{{ j() }}b",
    "{% for x in nested recursive %}{% if x is iterable %}[{{ loop(x) }}]{% else %}{{ x }}@{{ loop.depth "
    "}} {% endif %}{% endfor %}",
    "{% for x in list %}{{ loop(x) }}{% endfor %}",
    "{% for x in list recursive %}{{ x }}{% endfor %}",
    "{{ raise_exception('a message: ' + s) }}",
    "{% if messages[0].role != 'user' %}{{ raise_exception('Roles must alternate') }}{% endif %}",
    "{% set x = messages|selectattr('role', 'equalto', 'user') %}{{ x|list|length }}{{ x|list|length }}",
    "{% set x = list|map('string') %}{{ x|first }}{{ x|join(',') }}{{ x|list }}",
    "{% set x = d.items() %}{{ x|list|length }}{{ x|list|length }}{{ x|length }}",
    "{% set i = d|items %}{% for k, v in i %}{{ k }}{% endfor %}{% for k, v in i %}{{ k }}{% endfor %}",
    "{{ 'a' if t }}{{ 'b' if no }}",
    "{{ ('b' if no) is undefined }}",
    "{{ ('b' if no).x }}",
    "{{- s -}}",
    "{{-s-}}",
    "{{- -1 -}}",
    "{{ 1 -}}\n\n  x",
    "{{ {'a': {'b': 1}}['a']['b'] }}",
    "{{ {'a': {'b': 1}} }}",
    "{{{'a': 1}}}",
    "{%- set x = {'a': [1, {'b': 2}]} -%}{{ x.a[1].b }}",
    "{{ '}}' }}{{ '%}' }}{{ \"{{\" }}",
    "{% set x = '%}' %}{{ x }}",
    "{{ \"a\nb\" }}",
    "{{ 'a\r\nb' }}",
    "{#- a -#}\n{#- b -#}\nx",
    "{# a #}\n{# b #}\nx",
    "a{# x #}\nb",
    "{#+ a +#}\nx",
    "{% for m in messages %}{{ '<|' + m['role'] + '|>' }}\n{{ m['content'] | trim }}{% if not loop.last %}"
    "\n{% endif %}{% endfor %}",
    "{% for message in messages[1:] %}{{ message.role }}{% endfor %}",
    "{%- for message in messages %}\n    {%- if message.role == 'user' %}\n        {{- message.content }}\n "
    "   {%- endif %}\n{%- endfor %}\n",
    "{% set system = messages[0].content if messages[0].role == 'system' else '' %}{{ system }}",
    "{% set loop_messages = messages[1:] if messages[0].role == 'system' else messages %}{{ loop_messages|length }}",
    "{{ messages[-1].tool_calls[0].function.name }}",
    "{{ 'tool_calls' in messages[-1] }}{{ 'tool_calls' in messages[0] }}",
    "{{ messages[0].tool_calls is defined }}{{ messages[0].get('tool_calls') }}{{ "
    "messages[0].get('tool_calls', []) }}",
    "{{ tools is none }}{{ tools is defined }}{{ documents }}{{ add_generation_prompt }}",
    "{% set ns = namespace(found=false, idx=-1) %}{% for m in messages %}{% if m.role == 'user' and not "
    "ns.found %}{% set ns.found = true %}{% set ns.idx = loop.index0 %}{% endif %}{% endfor %}{{ "
    "ns.found }}{{ ns.idx }}",
    "{% set ns = namespace(out='') %}{% for m in messages %}{% set ns.out = ns.out ~ m.content ~ ';' %}"
    "{% endfor %}{{ ns.out }}",
    "{% for i in range(3) %}{{ i }}{{ ', ' if not loop.last else '.' }}{% endfor %}",
    "{% for k, v in {'a': 1, 'b': 2}|dictsort %}{{ k }}{{ v }}{% endfor %}",
    "{% for key in d|sort %}{{ key }}{% endfor %}",
    "{% for g, us in users|groupby('age') %}{{ g }}:{{ us|map(attribute='name')|join('+') }} {% endfor %}",
    "{% if 'a' in d and d.a == 2 and d['b'] is defined %}yes{% endif %}",
    "{% if not (t and no) %}yes{% endif %}",
    "{% if list|length > 2 and list[2] == 2 %}yes{% endif %}",
    "{% if messages|length == 3 %}yes{% endif %}",
    "{% if s is string and s is not mapping and s is iterable %}yes{% endif %}",
    "{{ s|upper|lower|title|trim|length }}",
    "{{ [1,2,3]|map('string')|map('upper')|join('-') }}",
    "{{ ' '.join(words|map('capitalize')) }}",
    "{% macro render(x, depth=0) %}{% if x is mapping %}{{ '{' }}{% for k, v in x.items() %}{{ k }}:{{ "
    "render(v, depth + 1) }}{{ ',' if not loop.last }}{% endfor %}{{ '}' }}{% elif x is iterable and x "
    "is not string %}[{% for i in x %}{{ render(i, depth + 1) }}{{ ',' if not loop.last }}{% endfor %}"
    "]{% else %}{{ x }}@{{ depth }}{% endif %}{% endmacro %}{{ render(deep) }}{{ render(mixed) }}",
]

CORPUS = [("{{ " + e + " }}", {}) for e in EXPRESSIONS if e] + [(t, {}) for t in TEMPLATES]

ATOMS = [
    "n", "m", "f", "zero", "t", "no", "nothing", "s", "empty", "u", "list", "words", "mixed", "nested", "d", "deep",
    "users", "messages", "nope", "1", "2", "-1", "0", "2.5", "'a'", "'l'", "''", "', '", "'é日'", "[]", "{}",
    "[1, 'b']", "{'k': 1}", "(1, 2)", "none", "true", "false", "range(3)", "padded", "lines", "'name'", "'age'",
]
FILTERS = [
    "upper", "lower", "trim", "length", "first", "last", "list", "string", "int", "float", "abs", "round", "reverse",
    "sort", "unique", "join", "join(',')", "tojson", "tojson(indent=2)", "title", "capitalize", "default('x')",
    "default('x', true)", "map('upper')", "map(attribute='name')", "select", "reject", "select('odd')",
    "selectattr('on')", "rejectattr('age', 'gt', 26)", "items", "dictsort", "min", "max", "sum", "wordcount",
    "replace('a', 'b')", "batch(2)", "indent", "count", "center(12)", "truncate(5)",
]
TESTS = [
    "defined", "undefined", "none", "string", "mapping", "sequence", "iterable", "number", "integer", "float",
    "boolean", "true", "false", "odd", "even", "in list", "eq 1", "gt 1", "divisibleby 2", "callable", "lower",
    "upper", "sameas none",
]
METHODS = [
    "upper()", "lower()", "strip()", "split()", "split(',')", "split('l')", "title()", "capitalize()",
    "startswith('H')", "endswith('d')", "replace('l', 'L')", "find('l')", "count('l')", "lstrip('H')", "rstrip()",
    "splitlines()", "isdigit()", "items()", "keys()", "values()", "get('a')", "get('a', 5)", "index(1)",
    "join(words)", "name", "role", "a", "0", "append(1)",
]
OPERATORS = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]


def random_expression(rng, depth):
    if depth <= 0 or rng.random() < 0.2:
        return rng.choice(ATOMS)
    inner = lambda: random_expression(rng, depth - 1)  # noqa: E731
    kind = rng.randrange(12)
    if kind <= 2:
        return f"({inner()} {rng.choice(OPERATORS)} {inner()})"
    if kind <= 5:
        return f"({inner()} | {rng.choice(FILTERS)})"
    if kind == 6:
        return f"({inner()} is {rng.choice(['', 'not '])}{rng.choice(TESTS)})"
    if kind == 7:
        return f"({inner()}).{rng.choice(METHODS)}"
    if kind == 8:
        return f"({inner()} if {inner()} else {inner()})"
    if kind == 9:
        part = lambda: rng.choice(["", "0", "1", "2", "-1", "-2", "9"])  # noqa: E731
        return f"({inner()})[{part()}:{part()}:{rng.choice(['', '1', '-1', '2', '-2'])}]"
    if kind == 10:
        return f"({inner()})[{inner()}]"
    pair = f"{{'k': {inner()}, 'j': {inner()}}}"
    return rng.choice([f"[{inner()}, {inner()}]", f"(not {inner()})", pair, f"(-{inner()})"])


def random_template(rng, depth=2):
    parts = []
    for _ in range(rng.randrange(1, 4)):
        kind = rng.randrange(9)
        dash = lambda: rng.choice(["", "", "-"])  # noqa: E731
        body = lambda: random_template(rng, depth - 1) if depth > 0 else "{{ i }}"  # noqa: E731
        space = rng.choice(["", " ", "\n", "\n  ", "  \n"])
        if kind <= 3 or depth <= 0:
            parts.append(f"{space}{{{{{dash()} {random_expression(rng, 3)} {dash()}}}}}")
        elif kind == 4:
            begin = f"{space}{{%{dash()} if {random_expression(rng, 2)} {dash()}%}}{space}"
            parts.append(f"{begin}{body()}{{%{dash()} else %}}{body()}{space}{{% endif {dash()}%}}")
        elif kind == 5:
            begin = f"{space}{{%{dash()} for i in {random_expression(rng, 2)} %}}{space}"
            parts.append(f"{begin}{body()}{{{{ loop.index }}}}{space}{{% endfor {dash()}%}}")
        elif kind == 6:
            parts.append(f"{space}{{%{dash()} set i = {random_expression(rng, 3)} {dash()}%}}{space}{{{{ i }}}}")
        elif kind == 7:
            macro = f"{{% macro q(i, j=1) %}}{body()}{{{{ j }}}}{{% endmacro %}}"
            parts.append(f"{macro}{space}{{{{ q({random_expression(rng, 1)}) }}}}")
        else:
            parts.append(f"{space}text {{# c #}}{space}")
    return "".join(parts)


def conversation(rng):
    """Messages and variables as chat templates get them."""
    texts = ["Hi", "", "  spaced \n", "Ünïcödé 日本 🎉", "<think>\nhm\n</think>\n\nAnswer", "a\nb",
             "<tool_response>\nx\n</tool_response>", "/no_think please", "\"quoted\" & <b>"]
    messages = []
    if rng.random() < 0.5:
        messages.append({"role": "system", "content": rng.choice(texts)})
    for i in range(rng.randrange(0, 5)):
        role = ["user", "assistant"][i % 2] if rng.random() < 0.9 else rng.choice(["tool", "ipython", "system", "user"])
        message = {"role": role, "content": rng.choice(texts)}
        if rng.random() < 0.05:
            message["content"] = rng.choice([None, [{"type": "text", "text": "part"}, {"type": "image"}]])
        if role == "assistant" and rng.random() < 0.3:
            arguments = rng.choice([{"city": "Málaga", "days": 3}, "{\"a\": 1}", {}])
            message["tool_calls"] = [{"type": "function", "id": "1", "function": {"name": "f", "arguments": arguments}}]
        if role == "assistant" and rng.random() < 0.2:
            message["reasoning_content"] = rng.choice(["because", None, "\nx\n"])
        messages.append(message)
    variables = {"messages": messages, "add_generation_prompt": rng.random() < 0.5, "eos_token": "</s>"}
    if rng.random() < 0.8:
        variables["bos_token"] = "<s>"
    if rng.random() < 0.3:
        variables["tools"] = [{"type": "function", "function": {"name": "f", "parameters": {"z": 1, "a": [1.5, None]}}}]
    if rng.random() < 0.2:
        variables["documents"] = [{"doc_id": 1, "text": "A doc", "title": "T"}]
    for name in ("enable_thinking", "thinking", "tools_in_user_message"):
        if rng.random() < 0.3:
            variables[name] = rng.random() < 0.5
    if rng.random() < 0.1:
        variables["controls"] = {"citations": True}
    return json.loads(json.dumps(variables))
