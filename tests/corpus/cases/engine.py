"""The language itself: expressions, statements, white space, templates that use one another."""


def cases(s):
    values = {"l": [1, 2, 3], "d": {"x": 1, "items2": 2}, "s": "str", "n": None}
    s.expressions(
        r"""
1+2
2**3**2
-2**2
7//2
-7//2
7%3
-7%3
7.5//2
-7.5%2
1/2
4/2
1e3
1_000
0x_ff
0b11
0o17
1.5e-7
1e16
1e22
123456789012345678901234567890
2**100
-(2**100)//3
2**-1
"a" "b"
"a" ~ 1 ~ none ~ true
[1,2,3][1:]
[1,2,3][::-1]
"hello"[1:3]
"héllo"[::-1]
(1,)
()
(1,2)
{}
{"a":1}
{1:"a", "b":[1,"x'y"]}
[1,2.0,none,true,"a\n"]
"\x41\u00e9\101\q"
'it\'s'
not true
not 1 == 2
1 < 2 < 3
1 < 3 < 2
1 in [1,2]
3 not in [1,2]
"a" in "abc"
"a" in {"a":1}
1 == 1.0
true == 1
"1" == 1
[1]==[1]
[1,2]<[1,3]
1 if true
1 if false else 2
"x" if false
(1 if false) ~ "x"
none or 5
0 and 5
1 and 2 or 3
a
a.b
a.b.c
undefinedvar or 1
l[5]
l[-1]
l["x"]
l.0
l[0]
d.x
d["x"]
d.nope
d["nope"]
d[1]
d[[1]]
s.nope
n.x
n[0]
5 .real
5[0]
1 + "a"
"a" + 1
[1]+1
[1]+(1,)
1 - "a"
"a" * 3
3 * "a"
[1]*2
"a"*"b"
"a" < 1
none < 1
1/0
1//0
1%0
1.0/0
1.0//0
1.0%0
0**-1
-"a"
+true
-true
true+true
range(5)
range(2,10,3)
range(5)[1:3]
range(5)[-1]
range(200000)
range(0)
range(1,2,0)
3 in range(5)
dict(a=1,b=2)
dict([("a",1)])
dict({"a":1}, c=3)
dict(5)
namespace(a=1)
namespace(a=1).a
namespace().x
a[1:2]
d[1:2]
"abc"["a":]
[1,2,3][::0]
nofunc()
d()
5()
"a".nope()
d.x.y
l.x()
d.nope()
__x__
d.__class__
"".__class__
"" is defined
x is defined
(1,2)+(3,)
1 is not defined
-5|abs
loop
none
None
True
false
1.0
1e400
-1e400
0.1+0.2
100000000000000000.0
1.0e-5
12345.678
3.0*2
10**20
10**20/10**19
7/7
2**0.5
5 .__class__
"%s" % 1
"a%sb" % "x"
"%d items" % 3
"%s %s" % (1,"b")
"%(a)s" % {"a":1}
"%s" % undefinedvar
{"a":1}["a"]
{"a":{"b":"x\ny"}}
[{"a":"x\ty\"z\\"}]
{"a":none,"b":1.5,"c":"plain","d":"q'uote"}
("a",)
[undefinedvar]
[undefinedvar, 1] == 1
undefinedvar == 1
undefinedvar != 1
1 == undefinedvar
undefinedvar in [1]
1 in undefinedvar
1 in 5
1 in "abc"
undefinedvar + 1
1 + undefinedvar
undefinedvar < 1
-undefinedvar
not undefinedvar
undefinedvar[1]
undefinedvar.x
undefinedvar()
undefinedvar[1:]
"a" ~ undefinedvar
{undefinedvar: 1}
{[1]: 1}
{1:2, 1.0:3, true:4}
{"a":1}=={"a":1.0}
caller
super()
self
1 <> 2
1 ! 2
a b
(1
1)
[1,2}
{1:2
"abc
1 +
"a" is "b"
1 is eq 1
1 is divisibleby 2
{% %}
x if
foo.bar.baz(1,2
f(a=1, 2)
f(*a, *b)
f(**a, *b)
1 if 2 else
l[1,2]
l[]
x..y
x.1.5
x.1
a|nofilter
a is notest
"x" if 1 else 2|nofilter
1;2
a=1
@
"\xz"
"\N{DASH}"
1 if a is defined else a|nofilter
1__0
007
1a
é
not
is
1 is
1 is in [1]
1 in
1 not
1 not in
x is not
*a
{**a}
[*a]
{% raw %}
""",
        vars=values,
    )
    s.case('{% for i in [1,2,3] %}{{ i }},{% endfor %}', '{% for i in [1,2,3] %}{{ i }},{% endfor %}')
    s.case('{% for i in [1,2,3] %}{{ loop.index }}/{{ loop.length }} {{ loop.first }} {{ loop.last }} {{ loop.revindex }} {{ loop.re', '{% for i in [1,2,3] %}{{ loop.index }}/{{ loop.length }} {{ loop.first }} {{ loop.last }} {{ loop.revindex }} {{ loop.revindex0 }} {{ loop.index0 }} {{ loop.depth }} {{ loop.depth0 }};{% endfor %}')
    s.case("{% for i in [1,2,3] %}{{ loop.cycle('a','b') }}{% endfor %}", "{% for i in [1,2,3] %}{{ loop.cycle('a','b') }}{% endfor %}")
    s.case('{% for i in [1,1,2] %}{{ loop.changed(i) }}{% endfor %}', '{% for i in [1,1,2] %}{{ loop.changed(i) }}{% endfor %}')
    s.case('{% for i in [1,2,3] %}{{ loop.previtem if not loop.first }}-{{ loop.nextitem if not loop.last }} {% endfor %}', '{% for i in [1,2,3] %}{{ loop.previtem if not loop.first }}-{{ loop.nextitem if not loop.last }} {% endfor %}')
    s.case('{% for i in [1,2,3] %}{{ loop.previtem }}{% endfor %}', '{% for i in [1,2,3] %}{{ loop.previtem }}{% endfor %}')
    s.case('{% for i in [1,2,3] %}{{ loop.nextitem }}{% endfor %}', '{% for i in [1,2,3] %}{{ loop.nextitem }}{% endfor %}')
    s.case('{% for i in [1,2,3,4] if i % 2 == 0 %}{{ i }}{{ loop.index }}{{ loop.length }}{% endfor %}', '{% for i in [1,2,3,4] if i % 2 == 0 %}{{ i }}{{ loop.index }}{{ loop.length }}{% endfor %}')
    s.case('{% for i in [] %}x{% else %}empty{% endfor %}', '{% for i in [] %}x{% else %}empty{% endfor %}')
    s.case('{% for i in [1] %}x{% else %}empty{% endfor %}', '{% for i in [1] %}x{% else %}empty{% endfor %}')
    s.case('{% for i in [1,2,3] if i > 5 %}x{% else %}empty{% endfor %}', '{% for i in [1,2,3] if i > 5 %}x{% else %}empty{% endfor %}')
    s.case('{% for i in [1,2] %}{% continue %}x{% else %}empty{% endfor %}', '{% for i in [1,2] %}{% continue %}x{% else %}empty{% endfor %}')
    s.case('{% for i in [1,2] %}{% break %}x{% else %}empty{% endfor %}', '{% for i in [1,2] %}{% break %}x{% else %}empty{% endfor %}')
    s.case('{% for a, b in [(1,2),(3,4)] %}{{ a }}{{ b }}{% endfor %}', '{% for a, b in [(1,2),(3,4)] %}{{ a }}{{ b }}{% endfor %}')
    s.case('{% for a, (b, c) in [(1,(2,3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}', '{% for a, (b, c) in [(1,(2,3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}')
    s.case('{% for a, b in [(1,2,3)] %}{{ a }}{% endfor %}', '{% for a, b in [(1,2,3)] %}{{ a }}{% endfor %}')
    s.case('{% for a, b in [(1,)] %}{{ a }}{% endfor %}', '{% for a, b in [(1,)] %}{{ a }}{% endfor %}')
    s.case('{% for a, b in [1] %}{{ a }}{% endfor %}', '{% for a, b in [1] %}{{ a }}{% endfor %}')
    s.case('\\n\\n{% for a in 5 %}{{ a }}{% endfor %}', '\n\n{% for a in 5 %}{{ a }}{% endfor %}')
    s.case('\\n\\n{% for a in undef %}{{ a }}{% endfor %}', '\n\n{% for a in undef %}{{ a }}{% endfor %}')
    s.case('{% for i in [1,2,3,4,5] %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 4 %}{% break %}{% endif %}{{ i }}{% endfor ', '{% for i in [1,2,3,4,5] %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %}')
    s.case('{% set x = 1 %}{% for i in [1,2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}', '{% set x = 1 %}{% for i in [1,2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}')
    s.case('{% set ns = namespace(x=1) %}{% for i in [1,2] %}{% set ns.x = ns.x + i %}{{ ns.x }}{% endfor %}{{ ns.x }}', '{% set ns = namespace(x=1) %}{% for i in [1,2] %}{% set ns.x = ns.x + i %}{{ ns.x }}{% endfor %}{{ ns.x }}')
    s.case('{% set a, b = 1, 2 %}{{ a }}{{ b }}', '{% set a, b = 1, 2 %}{{ a }}{{ b }}')
    s.case('{% set a, ns.b = 1, 2 %}{{ a }}{{ b }}', '{% set a, ns.b = 1, 2 %}{{ a }}{{ b }}')
    s.case('{% set a.b = 1 %}', '{% set a.b = 1 %}', vars={'a': {}})
    s.case('{% set a.b = 1 %} again', '{% set a.b = 1 %}')
    s.case('{% set x %}abc{{ 1 }}{% endset %}[{{ x }}]', '{% set x %}abc{{ 1 }}{% endset %}[{{ x }}]')
    s.case('{% set x = 1, 2 %}{{ x }}', '{% set x = 1, 2 %}{{ x }}')
    s.case('{% set 5 = 1 %}', '{% set 5 = 1 %}')
    s.case('{% set [a] = 1 %}', '{% set [a] = 1 %}')
    s.case('{% set true = 1 %}', '{% set true = 1 %}')
    s.case('{% set loop = 1 %}{{ loop }}', '{% set loop = 1 %}{{ loop }}')
    s.case('{% for loop in [1] %}{% endfor %}', '{% for loop in [1] %}{% endfor %}')
    s.case('{% for x in [1] %}{% set loop = 1 %}{% endfor %}', '{% for x in [1] %}{% set loop = 1 %}{% endfor %}')
    s.case('{% macro f(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ f(1) }}|{{ f(1, 3) }}|{{ f(b=5, a=4) }}', '{% macro f(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ f(1) }}|{{ f(1, 3) }}|{{ f(b=5, a=4) }}')
    s.case('{% macro f(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ f() }}', '{% macro f(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ f() }}')
    s.case('{% macro f(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ f(1) }}', '{% macro f(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ f(1) }}')
    s.case('{% macro f(a) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1,2,3,x=4) }}', '{% macro f(a) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1,2,3,x=4) }}')
    s.case('{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1,2,3) }}', '{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1,2,3) }}')
    s.case('{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1,x=2) }}', '{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1,x=2) }}')
    s.case('{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1,a=2) }}', '{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1,a=2) }}')
    s.case('{% macro f(a) %}{{ a }}{% endmacro %}{{ f }} {{ f.name }} {{ f.arguments }} {{ f.catch_kwargs }} {{ f.catch_varargs }} {', '{% macro f(a) %}{{ a }}{% endmacro %}{{ f }} {{ f.name }} {{ f.arguments }} {{ f.catch_kwargs }} {{ f.catch_varargs }} {{ f.caller }}')
    s.case('{% macro f(a) %}[{{ caller() }}]{% endmacro %}{% call f(1) %}body{% endcall %}', '{% macro f(a) %}[{{ caller() }}]{% endmacro %}{% call f(1) %}body{% endcall %}')
    s.case('{% macro f(a) %}[{{ caller(1, 2) }}]{% endmacro %}{% call(x, y=5) f(1) %}body{{ x }}{{ y }}{% endcall %}', '{% macro f(a) %}[{{ caller(1, 2) }}]{% endmacro %}{% call(x, y=5) f(1) %}body{{ x }}{{ y }}{% endcall %}')
    s.case('{% macro f(a) %}[{{ caller() }}]{% endmacro %}{{ f(1) }}', '{% macro f(a) %}[{{ caller() }}]{% endmacro %}{{ f(1) }}')
    s.case('{% macro f(a) %}x{% endmacro %}{% call f(1) %}body{% endcall %}', '{% macro f(a) %}x{% endmacro %}{% call f(1) %}body{% endcall %}')
    s.case('{% macro f(a, caller) %}{{ caller() }}{% endmacro %}', '{% macro f(a, caller) %}{{ caller() }}{% endmacro %}')
    s.case('{% macro f(a, caller=none) %}{{ caller() if caller }}{% endmacro %}{{ f(1) }}{% call f(1) %}b{% endcall %}', '{% macro f(a, caller=none) %}{{ caller() if caller }}{% endmacro %}{{ f(1) }}{% call f(1) %}b{% endcall %}')
    s.case('{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(3) }}', '{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(3) }}')
    s.case('{% macro f() %}{{ x }}{% endmacro %}{% set x = 1 %}{{ f() }}', '{% macro f() %}{{ x }}{% endmacro %}{% set x = 1 %}{{ f() }}')
    s.case('{% set x = 1 %}{% macro f() %}{% set x = 2 %}{{ x }}{% endmacro %}{{ f() }}{{ x }}', '{% set x = 1 %}{% macro f() %}{% set x = 2 %}{{ x }}{% endmacro %}{{ f() }}{{ x }}')
    s.case('{% for i in [1,2] %}{% macro f() %}{{ i }}{% endmacro %}{{ f() }}{% endfor %}', '{% for i in [1,2] %}{% macro f() %}{{ i }}{% endmacro %}{{ f() }}{% endfor %}')
    s.case('{% if false %}a{% elif 1 %}b{% else %}c{% endif %}', '{% if false %}a{% elif 1 %}b{% else %}c{% endif %}')
    s.case('{% if false %}a{% elif 0 %}b{% else %}c{% endif %}', '{% if false %}a{% elif 0 %}b{% else %}c{% endif %}')
    s.case('\\n{% if false %}a\\n{% elif undefd %}b{% else %}c{% endif %}', '\n{% if false %}a\n{% elif undefd %}b{% else %}c{% endif %}')
    s.case('\\n{% if false %}a\\n{% elif 1 %}\\n{{ undefd }}{% else %}c{% endif %}', '\n{% if false %}a\n{% elif 1 %}\n{{ undefd }}{% else %}c{% endif %}')
    s.case('{% if 1 %}{% set x = 5 %}{% endif %}{{ x }}', '{% if 1 %}{% set x = 5 %}{% endif %}{{ x }}')
    s.case('{% with a=1, b=2 %}{{ a }}{{ b }}{% set c = 4 %}{{ c }}{% endwith %}{{ c }}', '{% with a=1, b=2 %}{{ a }}{{ b }}{% set c = 4 %}{{ c }}{% endwith %}{{ c }}')
    s.case('{% with %}{% set c = 4 %}{{ c }}{% endwith %}', '{% with %}{% set c = 4 %}{{ c }}{% endwith %}')
    s.case('{% set a = 1 %}{% with a=2, b=a %}{{ a }}{{ b }}{% endwith %}{{ a }}', '{% set a = 1 %}{% with a=2, b=a %}{{ a }}{{ b }}{% endwith %}{{ a }}')
    s.case("{% autoescape true %}{{ '<' }}{% set x %}<b>{% endset %}{{ x }}{{ '<' ~ x }}{% endautoescape %}{{ '<' }}", "{% autoescape true %}{{ '<' }}{% set x %}<b>{% endset %}{{ x }}{{ '<' ~ x }}{% endautoescape %}{{ '<' }}")
    s.case("{% autoescape true %}{% macro f() %}<i>{{ '<' }}{% endmacro %}{{ f() }}{{ ['<'] }}{{ {'a':'<'} }}{% endautoescape %}", "{% autoescape true %}{% macro f() %}<i>{{ '<' }}{% endmacro %}{{ f() }}{{ ['<'] }}{{ {'a':'<'} }}{% endautoescape %}")
    s.case("{{ '<' }}<", "{{ '<' }}<", opts={'jinja_env': {'autoescape': True}})
    s.case('{% do [1].append(2) %}x', '{% do [1].append(2) %}x')
    s.case('{% do %}', '{% do %}')
    s.case('{% raw %}{{ a }}{% b %}{% endraw %}x', '{% raw %}{{ a }}{% b %}{% endraw %}x')
    s.case('a {%- raw -%}  {{ a }}  {%- endraw -%}  b', 'a {%- raw -%}  {{ a }}  {%- endraw -%}  b')
    s.case('{% raw %}\\n x\\n{% endraw %}\\n y', '{% raw %}\n x\n{% endraw %}\n y', opts={'jinja_env': {'trim_blocks': True, 'lstrip_blocks': True}})
    s.case('  {% raw %}\\n x\\n  {% endraw %}\\n y', '  {% raw %}\n x\n  {% endraw %}\n y', opts={'jinja_env': {'trim_blocks': True, 'lstrip_blocks': True}})
    s.case('a  {# c #}  b {#- d -#}  e {#+ f +#}\\n g', 'a  {# c #}  b {#- d -#}  e {#+ f +#}\n g')
    s.case('a\\n  {# c #}\\nb', 'a\n  {# c #}\nb', opts={'jinja_env': {'trim_blocks': True, 'lstrip_blocks': True}})
    s.case('a\\n  {#+ c +#}\\nb', 'a\n  {#+ c +#}\nb', opts={'jinja_env': {'trim_blocks': True, 'lstrip_blocks': True}})
    s.case('a\\n  {% if 1 %}\\n  b\\n  {% endif %}\\nc', 'a\n  {% if 1 %}\n  b\n  {% endif %}\nc', opts={'jinja_env': {'trim_blocks': True}})
    s.case('a\\n  {% if 1 %}\\n  b\\n  {% endif %}\\nc again', 'a\n  {% if 1 %}\n  b\n  {% endif %}\nc', opts={'jinja_env': {'lstrip_blocks': True}})
    s.case('a\\n  {% if 1 %}\\n  b\\n  {% endif %}\\nc again again', 'a\n  {% if 1 %}\n  b\n  {% endif %}\nc', opts={'jinja_env': {'trim_blocks': True, 'lstrip_blocks': True}})
    s.case('a\\n  {%+ if 1 +%}\\n  b\\n  {%+ endif +%}\\nc', 'a\n  {%+ if 1 +%}\n  b\n  {%+ endif +%}\nc', opts={'jinja_env': {'trim_blocks': True, 'lstrip_blocks': True}})
    s.case('a\\n  {%- if 1 -%}\\n  b\\n  {%- endif -%}\\nc', 'a\n  {%- if 1 -%}\n  b\n  {%- endif -%}\nc', opts={'jinja_env': {'trim_blocks': True, 'lstrip_blocks': True}})
    s.case('a\\n  {{ 1 }}\\n b {{- 2 -}} \\n c {{+ 3 }}', 'a\n  {{ 1 }}\n b {{- 2 -}} \n c {{+ 3 }}', opts={'jinja_env': {'trim_blocks': True, 'lstrip_blocks': True}})
    s.case('  {% if 1 %}{% if 1 %} x {% endif %}{% endif %}', '  {% if 1 %}{% if 1 %} x {% endif %}{% endif %}', opts={'jinja_env': {'lstrip_blocks': True}})
    s.case('x\\n', 'x\n')
    s.case('x\\n\\n', 'x\n\n')
    s.case('x\\n again', 'x\n', opts={'jinja_env': {'keep_trailing_newline': True}})
    s.case('x\r\\ny\rz\\n', 'x\r\ny\rz\n')
    s.case('', '')
    s.case('\\n', '\n')
    s.case('# for i in [1,2]:\\n{{ i }}\\n# endfor\\nx', '# for i in [1,2]:\n{{ i }}\n# endfor\nx', opts={'jinja_env': {'line_statement_prefix': '#'}})
    s.case('  % for i in [1,2]\\n{{ i }} ## c\\n  % endfor\\nx ## foo\\n## bar\\ny', '  % for i in [1,2]\n{{ i }} ## c\n  % endfor\nx ## foo\n## bar\ny', opts={'jinja_env': {'line_statement_prefix': '%', 'line_comment_prefix': '##'}})
    s.case('% set x = [\\n 1, 2\\n]\\n{{ x }}', '% set x = [\n 1, 2\n]\n{{ x }}', opts={'jinja_env': {'line_statement_prefix': '%'}})
    s.case('%- if 1\\n x\\n%- endif\\n', '%- if 1\n x\n%- endif\n', opts={'jinja_env': {'line_statement_prefix': '%'}})
    s.case('a %% b\\n%% set x = 1\\n{{ x }}', 'a %% b\n%% set x = 1\n{{ x }}', opts={'jinja_env': {'line_statement_prefix': '%%'}})
    s.case('<% if 1 %>$<1>', '<% if 1 %>$<1>', opts={'jinja_env': {'block_start_string': '<%', 'block_end_string': '%>', 'variable_start_string': '$<', 'variable_end_string': '>'}})
    s.case('<% if 1 %>${ 1 }<% endif %>', '<% if 1 %>${ 1 }<% endif %>', opts={'jinja_env': {'block_start_string': '<%', 'block_end_string': '%>', 'variable_start_string': '${', 'variable_end_string': '}'}})
    s.case('{% for x in [1,[2,[3]]] recursive %}{{ loop.depth }}{% if x == 1 %}{{ x }}{% else %}({{ loop(x) }}){% endif %}{% endfor ', '{% for x in [1,[2,[3]]] recursive %}{{ loop.depth }}{% if x == 1 %}{{ x }}{% else %}({{ loop(x) }}){% endif %}{% endfor %}')
    s.case('{% for x in [1,2] %}{{ loop([1]) }}{% endfor %}', '{% for x in [1,2] %}{{ loop([1]) }}{% endfor %}')
    s.case('{% filter upper %}abc{{ 1 }}{% endfilter %}', '{% filter upper %}abc{{ 1 }}{% endfilter %}')
    s.case("{% include 'a' %}", "{% include 'a' %}", files={'a': 'A{{ x }}'}, vars={'x': 5})
    s.case("{% set y = 3 %}{% include 'a' %}{{ y }}", "{% set y = 3 %}{% include 'a' %}{{ y }}", files={'a': 'A{{ y }}{% set y = 4 %}{{ y }}'})
    s.case("{% set y = 3 %}{% include 'a' without context %}", "{% set y = 3 %}{% include 'a' without context %}", files={'a': 'A{{ y }}'})
    s.case("{% for i in [1,2] %}{% include 'a' %}{% endfor %}", "{% for i in [1,2] %}{% include 'a' %}{% endfor %}", files={'a': 'A{{ i }}{{ loop.index }}'})
    s.case("{% for i in [1,2] %}{{ loop.last }}{% include 'a' %}{% endfor %}", "{% for i in [1,2] %}{{ loop.last }}{% include 'a' %}{% endfor %}", files={'a': 'A{{ i }}{{ loop.index }}'})
    s.case("{% include 'b' %}", "{% include 'b' %}", files={'a': 'A'})
    s.case("{% include 'b' ignore missing %}x", "{% include 'b' ignore missing %}x", files={'a': 'A'})
    s.case("{% include ['b','a'] %}x", "{% include ['b','a'] %}x", files={'a': 'A'})
    s.case("{% include ['b','c'] %}x", "{% include ['b','c'] %}x", files={'a': 'A'})
    s.case('{% include [] %}x', '{% include [] %}x', files={'a': 'A'})
    s.case('{% include undefd %}x', '{% include undefd %}x', files={'a': 'A'})
    s.case('{% include 5 %}x', '{% include 5 %}x', files={'a': 'A'})
    s.case("{% include 'a' %} again", "{% include 'a' %}", files={'a': '\n\n{{ foo.bar }}'})
    s.case("{% include 'a' %} again again", "{% include 'a' %}", files={'a': '\n\n{% foo %}'})
    s.case("{% import 'a' as m %}{{ m.f(1) }}{{ m.x }}{{ m.y }}", "{% import 'a' as m %}{{ m.f(1) }}{{ m.x }}{{ m.y }}", files={'a': '{% macro f(a) %}[{{ a }}]{% endmacro %}{% set x = 5 %}'})
    s.case("{% import 'a' as m %}[{{ m }}]", "{% import 'a' as m %}[{{ m }}]", files={'a': 'text{% set x = 5 %}'})
    s.case("{% import 'a' as m %}{{ m._x }}", "{% import 'a' as m %}{{ m._x }}", files={'a': 'text{% set _x = 5 %}'})
    s.case("{% from 'a' import f, x as z %}{{ f(1) }}{{ z }}", "{% from 'a' import f, x as z %}{{ f(1) }}{{ z }}", files={'a': '{% macro f(a) %}[{{ a }}]{% endmacro %}{% set x = 5 %}'})
    s.case("\\n{% from 'a' import q %}{{ q }}", "\n{% from 'a' import q %}{{ q }}", files={'a': '{% set x = 5 %}'})
    s.case("{% from 'a' import _q %}{{ q }}", "{% from 'a' import _q %}{{ q }}", files={'a': '{% set x = 5 %}'})
    s.case("{% set v = 1 %}{% from 'a' import f with context %}{{ f() }}{% set v = 2 %}{{ f() }}", "{% set v = 1 %}{% from 'a' import f with context %}{{ f() }}{% set v = 2 %}{{ f() }}", files={'a': '{% macro f() %}{{ v }}{% endmacro %}'})
    s.case("{% set v = 1 %}{% from 'a' import f %}{{ f() }}", "{% set v = 1 %}{% from 'a' import f %}{{ f() }}", files={'a': '{% macro f() %}{{ v }}{% endmacro %}'})
    s.case("{% from 'a' import f without context %}{{ f() }}", "{% from 'a' import f without context %}{{ f() }}", files={'a': '{% macro f() %}{{ v }}{% endmacro %}'}, vars={'v': 5})
    s.case("{% from 'a' import f, %}{{ f() }}", "{% from 'a' import f, %}{{ f() }}", files={'a': '{% macro f() %}{{ v }}{% endmacro %}'}, vars={'v': 5})
    s.case("{% from 'a' import f,g with context %}{{ f() }}{{ g }}", "{% from 'a' import f,g with context %}{{ f() }}{{ g }}", files={'a': '{% macro f() %}{{ v }}{% endmacro %}{% set g = 1 %}'}, vars={'v': 5})
    s.case("{% from 'a' import %}{{ f() }}", "{% from 'a' import %}{{ f() }}", files={'a': ''})
    s.case("{% extends 'base' %}{% block a %}child{{ super() }}{% endblock %}junk{{ undefd }}", "{% extends 'base' %}{% block a %}child{{ super() }}{% endblock %}junk{{ undefd }}", files={'base': '<{% block a %}base{% endblock %}>{% block b %}B{% endblock %}'})
    s.case("{% extends 'mid' %}{% block a %}child{{ super() }}{% endblock %}", "{% extends 'mid' %}{% block a %}child{{ super() }}{% endblock %}", files={'base': '<{% block a %}base{% endblock %}>{% block b %}B{% endblock %}', 'mid': '{% extends "base" %}{% block a %}mid{{ super() }}{% endblock %}{% block b %}M{{ self.a() }}{% endblock %}'})
    s.case("{% extends 'base' %}{% set x = 1 %}{% block a %}{{ x }}{% endblock %}", "{% extends 'base' %}{% set x = 1 %}{% block a %}{{ x }}{% endblock %}", files={'base': '<{% block a %}base{% endblock %}>{{ x }}'})
    s.case('{% block a %}x{{ super() }}{% endblock %}', '{% block a %}x{{ super() }}{% endblock %}')
    s.case('{% block a %}x{% endblock a %}{{ self.a() }}', '{% block a %}x{% endblock a %}{{ self.a() }}')
    s.case('{% block a %}x{% endblock %}{% block a %}y{% endblock %}', '{% block a %}x{% endblock %}{% block a %}y{% endblock %}')
    s.case('{% for i in [1,2] %}{% block a scoped %}{{ i }}{% endblock %}{% endfor %}', '{% for i in [1,2] %}{% block a scoped %}{{ i }}{% endblock %}{% endfor %}')
    s.case('{% for i in [1,2] %}{% block a %}{{ i }}{% endblock %}{% endfor %}', '{% for i in [1,2] %}{% block a %}{{ i }}{% endblock %}{% endfor %}')
    s.case("{% extends 'base' %}", "{% extends 'base' %}", files={'base': '{% block a required %}{% endblock %}'})
    s.case("{% extends 'base' %}{% block a %}1{% endblock %}", "{% extends 'base' %}{% block a %}1{% endblock %}", files={'base': '{% block a required %}{% endblock %}'})
    s.case('{% block a required %}x{% endblock %}', '{% block a required %}x{% endblock %}')
    s.case('{% block a-b %}x{% endblock %}', '{% block a-b %}x{% endblock %}')
    s.case("{% if 1 %}{% extends 'base' %}{% endif %}x{% block a %}c{% endblock %}", "{% if 1 %}{% extends 'base' %}{% endif %}x{% block a %}c{% endblock %}", files={'base': '<{% block a %}base{% endblock %}>'})
    s.case("{% for i in [1] %}{% extends 'base' %}{% endfor %}", "{% for i in [1] %}{% extends 'base' %}{% endfor %}", files={'base': ''})
    s.case("{% extends 'a' %}{% extends 'a' %}", "{% extends 'a' %}{% extends 'a' %}", files={'a': ''})
    s.case("{% macro f() %}m{% endmacro %}{% extends 'base' %}{% block a %}{{ f() }}{% endblock %}", "{% macro f() %}m{% endmacro %}{% extends 'base' %}{% block a %}{{ f() }}{% endblock %}", files={'base': '<{% block a %}base{% endblock %}>'})
    s.case('{% print 1, 2 %}', '{% print 1, 2 %}')
    s.case('{% foo %}', '{% foo %}')
    s.case('{% if 1 %}', '{% if 1 %}')
    s.case('{% for x in y %}{% if x %}{% endfor %}', '{% for x in y %}{% if x %}{% endfor %}')
    s.case('{% for x in y %}', '{% for x in y %}')
    s.case('{% endfor %}', '{% endfor %}')
    s.case('{% if 1 %}{% endfor %}', '{% if 1 %}{% endfor %}')
    s.case('{% block x %}{% endfoo %}', '{% block x %}{% endfoo %}')
    s.case('{% for in y %}{% endfor %}', '{% for in y %}{% endfor %}')
    s.case('{% for x y %}{% endfor %}', '{% for x y %}{% endfor %}')
    s.case('{% set x %}', '{% set x %}')
    s.case('{% set %}', '{% set %}')
    s.case('{% macro f(a=1, b) %}{% endmacro %}', '{% macro f(a=1, b) %}{% endmacro %}')
    s.case('{% macro f %}{% endmacro %}', '{% macro f %}{% endmacro %}')
    s.case('{% call 5 %}{% endcall %}', '{% call 5 %}{% endcall %}')
    s.case('{{ 1', '{{ 1')
    s.case('{% if 1', '{% if 1')
    s.case('{# foo', '{# foo')
    s.case('{% raw %}foo', '{% raw %}foo')
    s.case("{{ 'a }}", "{{ 'a }}")
    s.case('a}}b%}c#}', 'a}}b%}c#}')
    s.case("{{ {'a': {'b': 1}} }}", "{{ {'a': {'b': 1}} }}")
    s.case("{{ {'a': {'b': 1}}}}", "{{ {'a': {'b': 1}}}}")
    s.case('{{ foo }}\\n{{ bar }}\\n{{ baz }}', '{{ foo }}\n{{ bar }}\n{{ baz }}', vars={'foo': 1, 'bar': 2})
    s.case('{{ foo\\n.bar\\n.baz }}', '{{ foo\n.bar\n.baz }}', vars={'foo': {'bar': None}})
    s.case('{{ foo\\n| nofi }}', '{{ foo\n| nofi }}', vars={'foo': 1})
    s.case("{% set x = {\\n 'a': undefd.x\\n} %}", "{% set x = {\n 'a': undefd.x\n} %}")
    s.case('{% macro f() %}\\n{{ undefd }}\\n{% endmacro %}\\n\\n{{ f() }}', '{% macro f() %}\n{{ undefd }}\n{% endmacro %}\n\n{{ f() }}')
    s.case("\\n{% from 'a' import f %}{{ f() }}", "\n{% from 'a' import f %}{{ f() }}", files={'a': '\n{% macro f() %}\n{{ undefd }}{% endmacro %}'})
    s.case('\\n{% block x %}\\n{{ undefd }}{% endblock %}', '\n{% block x %}\n{{ undefd }}{% endblock %}')
    s.case('\\n{% call undefd() %}\\nx{% endcall %}', '\n{% call undefd() %}\nx{% endcall %}')
    s.case("{% profile as 'x' %}a{% endprofile %}b", "{% profile as 'x' %}a{% endprofile %}b")
    s.case('{% for x in l %}{% if x < 5 %}{% do l.append(x+1) %}{% endif %}{{ x }}{% endfor %}', '{% for x in l %}{% if x < 5 %}{% do l.append(x+1) %}{% endif %}{{ x }}{% endfor %}', vars={'l': [1]})
    s.case('{% set x = 5 %}{% block a %}{{ x }}{% endblock %}', '{% set x = 5 %}{% block a %}{{ x }}{% endblock %}')
    s.case('{% set x = 5 %}{% block a %}{% set x = 6 %}{{ x }}{% endblock %}{{ x }}', '{% set x = 5 %}{% block a %}{% set x = 6 %}{{ x }}{% endblock %}{{ x }}')
    s.case('{% for i in [1] %}{% set q = i %}{% block a %}{{ q }}{% endblock %}{% endfor %}', '{% for i in [1] %}{% set q = i %}{% block a %}{{ q }}{% endblock %}{% endfor %}')
    s.case("{% macro f(x) %}{{ x }}{% endmacro %}{{ f(*[1]) }}{{ f(**{'x':2}) }}{{ f(*[1], **{'x':2}) }}", "{% macro f(x) %}{{ x }}{% endmacro %}{{ f(*[1]) }}{{ f(**{'x':2}) }}{{ f(*[1], **{'x':2}) }}")
    s.case('{{ f(*5) }}', '{{ f(*5) }}', vars={'f': 1})
    s.case("{{ dict(**{'a':1}) }}{{ dict(a=1, **{'b':2}) }}", "{{ dict(**{'a':1}) }}{{ dict(a=1, **{'b':2}) }}")
    s.case("{% set j = joiner('|') %}{{ j() }}a{{ j() }}b", "{% set j = joiner('|') %}{{ j() }}a{{ j() }}b")
    s.case("{% set c = cycler('a','b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{% do c.reset() %}{{ c.next() }}", "{% set c = cycler('a','b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{% do c.reset() %}{{ c.next() }}")
    s.case("{{ raise('boom') }}", "{{ raise('boom') }}")
    s.case("\\n{{ raise('boom') }}", "\n{{ raise('boom') }}")
    s.case("{{ odict([('a',1)]) }}{{ odict([('a',1)]).nope }}", "{{ odict([('a',1)]) }}{{ odict([('a',1)]).nope }}")
    s.case("{{ odict([('a',1)]) ~ '' }}", "{{ odict([('a',1)]) ~ '' }}")
    s.case("{{ [odict([('a','x\\ny')])] }}{{ {'a':'x\\ny'} ~ '' }}", "{{ [odict([('a','x\ny')])] }}{{ {'a':'x\ny'} ~ '' }}")
    s.case("{{ namespace(a=1) ~ '' }}", "{{ namespace(a=1) ~ '' }}")
    s.case('{% set x = namespace() %}{{ x.foo }}', '{% set x = namespace() %}{{ x.foo }}')
    s.case("{% import 'a' as m %}{{ m.foo() }}", "{% import 'a' as m %}{{ m.foo() }}", files={'a': ''})
    s.case('{{ self.foo() }}', '{{ self.foo() }}')
    s.case('{{ loop.index }}', '{{ loop.index }}')
    s.case('{% for i in [1] %}{{ loop.nope }}{% endfor %}', '{% for i in [1] %}{{ loop.nope }}{% endfor %}')
    s.case('{% for i in [1] %}{{ loop }}{% endfor %}', '{% for i in [1] %}{{ loop }}{% endfor %}')
    s.case('{% macro f() %}{% endmacro %}{{ f.nope }}', '{% macro f() %}{% endmacro %}{{ f.nope }}')
    s.case('{% set x = 1 %}{% set x = x + 1 %}{{ x }}', '{% set x = 1 %}{% set x = x + 1 %}{{ x }}')
    s.case('{% for k in d %}{{ k }}{% endfor %}', '{% for k in d %}{{ k }}{% endfor %}', vars={'d': {'b': 1, 'a': 2}})
    s.case("{% for c in 'héy' %}{{ c }}{% endfor %}", "{% for c in 'héy' %}{{ c }}{% endfor %}")
    s.case('{% if a is defined and a.b %}x{% endif %}', '{% if a is defined and a.b %}x{% endif %}')
    s.case('{{ x }}{% set x = 2 %}{{ x }}', '{{ x }}{% set x = 2 %}{{ x }}', vars={'x': 1})
    s.case('{% if false %}{% set x = 2 %}{% endif %}{{ x }}', '{% if false %}{% set x = 2 %}{% endif %}{{ x }}', vars={'x': 1})
    s.case('{% if false %}{% set x = 2 %}{% endif %}{{ x }} again', '{% if false %}{% set x = 2 %}{% endif %}{{ x }}')
    s.case('{% for i in [1,2] %}{{ x }}{% set x = i %}{% endfor %}', '{% for i in [1,2] %}{{ x }}{% set x = i %}{% endfor %}', vars={'x': 0})
    s.case('{% set x %}{% set y = 1 %}{{ y }}{% endset %}{{ x }}{{ y }}', '{% set x %}{% set y = 1 %}{{ y }}{% endset %}{{ x }}{{ y }}')
    s.case('{% load_yaml as x %}a{% endload %}', '{% load_yaml as x %}a{% endload %}')
    s.case('{%if 1%}a{%endif%}{{1}}{%-if 1-%}a{%-endif-%}', '{%if 1%}a{%endif%}{{1}}{%-if 1-%}a{%-endif-%}')
    s.case('{% if 1: %}x{% endif: %}', '{% if 1: %}x{% endif: %}')
    s.case('{% for i in 1,2,3 %}{{ i }}{% endfor %}', '{% for i in 1,2,3 %}{{ i }}{% endfor %}')
    s.case('{% for i in (1,2,3) if i != 2 recursive %}{{ i }}{% endfor %}', '{% for i in (1,2,3) if i != 2 recursive %}{{ i }}{% endfor %}')
    s.case('{% for i in range(3) %}{% for j in range(2) %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}', '{% for i in range(3) %}{% for j in range(2) %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}')
    s.case('{% for i in range(3) %}{% set outer = loop %}{% for j in range(2) %}{{ outer.index }}{% endfor %}{% endfor %}', '{% for i in range(3) %}{% set outer = loop %}{% for j in range(2) %}{{ outer.index }}{% endfor %}{% endfor %}')
    s.case('{% for i in [1,2] %}{% for j in [1] %}x{% else %}{{ loop.index }}{% endfor %}{% endfor %}', '{% for i in [1,2] %}{% for j in [1] %}x{% else %}{{ loop.index }}{% endfor %}{% endfor %}')
    s.case('{% for i in [1,2] %}{% for j in [] %}x{% else %}{{ loop.index }}{% endfor %}{% endfor %}', '{% for i in [1,2] %}{% for j in [] %}x{% else %}{{ loop.index }}{% endfor %}{% endfor %}')
    s.case('{% for i in [1,2] %}{% for j in [loop.index] %}{{ j }}{% endfor %}{% endfor %}', '{% for i in [1,2] %}{% for j in [loop.index] %}{{ j }}{% endfor %}{% endfor %}')
    s.case('{{ (1 if false).x }}', '{{ (1 if false).x }}')
    s.case('{{ x.y }}', '{{ x.y }}', vars={'x': 1})
    s.case('{% macro f(a) %}{{ a }}{{ kwargs.x }}{% endmacro %}{{ f(1, x=2, caller=5) }}', '{% macro f(a) %}{{ a }}{{ kwargs.x }}{% endmacro %}{{ f(1, x=2, caller=5) }}')
    s.case("{{ '%s' % (1,2) }}", "{{ '%s' % (1,2) }}")
    s.case('{{ show_full_context().x }}', '{{ show_full_context().x }}', vars={'x': [1, {'a': 2}]})
    s.case('{% set q = 5 %}{{ show_full_context().q }}', '{% set q = 5 %}{{ show_full_context().q }}', vars={'x': [1, {'a': 2}]})
    s.case('{% trans %}x{% endtrans %}', '{% trans %}x{% endtrans %}')
    s.case('{% set x = [] %}{% set y = x %}{{ x is y }}', '{% set x = [] %}{% set y = x %}{{ x is y }}')
    s.case("{% from 'a' import f as g, f as h %}{{ g() }}{{ h() }}", "{% from 'a' import f as g, f as h %}{{ g() }}{{ h() }}", files={'a': '{% macro f() %}F{% endmacro %}'})
    s.case("{% import 'a' as a %}{% import 'a' as b %}{{ a.l is b.l }}{{ a.l }}", "{% import 'a' as a %}{% import 'a' as b %}{{ a.l is b.l }}{{ a.l }}", files={'a': '{% set l = [1] %}'})
    s.case("{% include 'a' %} again again again", "{% include 'a' %}", files={'a': '{% include "b" %}', 'b': '{{ x }}{{ nope }}'}, vars={'x': 1})
