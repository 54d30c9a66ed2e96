"""Statements, white space, expressions."""


def cases(s):
    s.lines(
        r"""
plain text
{% if true %}a{% endif %}
{% if false %}a{% elif 1 %}b{% else %}c{% endif %}
{% if 0 %}a{% elif '' %}b{% else %}c{% endif %}
a {%- if true -%} b {%- endif -%} c
{# a comment #}x
a {#- tight -#} b
{{ 1 -}}  {{- 2 }}
{% raw %}{{ not }} {% this %}{% endraw %}
{%- raw -%}  {{ x }}  {%- endraw -%}  y
{% for i in [1,2,3] %}{{ i }},{% endfor %}
{% for i in [] %}{{ i }}{% else %}none{% endfor %}
{% for i in [1,2,3,4] if i is odd %}{{ loop.index }}/{{ loop.length }}:{{ i }} {% endfor %}
{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }};{% endfor %}
{% for k in {'a': 1, 'b': 2} %}{{ k }}{% endfor %}
{% for a, (b, c) in [(1, (2, 3)), (4, (5, 6))] %}{{ a }}{{ b }}{{ c }} {% endfor %}
{% for i in 'abc' %}{{ i }}-{% endfor %}
{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}
{% for i in [1,2,3] %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }} {% endfor %}
{% for i in [1,2,3] %}{{ loop.previtem|default('-') }}{{ i }}{{ loop.nextitem|default('-') }} {% endfor %}
{% for i in [1,2,3,4] %}{{ loop.cycle('odd', 'even') }} {% endfor %}
{% for i in [1,1,2,2,3] %}{{ loop.changed(i) }} {% endfor %}
{% for i in [1,2] %}{% for j in [1,2] %}{{ loop.depth }}{{ loop.depth0 }}{{ i }}{{ j }} {% endfor %}{% endfor %}
{% for i in [1,2] recursive %}{{ i }}{% endfor %}
{% for n in [{'v': 1, 'c': [{'v': 2, 'c': []}]}, {'v': 3, 'c': []}] recursive %}{{ n.v }}[{{ loop(n.c) }}]{% endfor %}
{% for i in 5 %}{{ i }}{% endfor %}
{% for i in none %}{{ i }}{% endfor %}
{% for i in missing %}{{ i }}{% endfor %}
{% for a, b in [1, 2] %}{{ a }}{% endfor %}
{% set x = 1 %}{{ x }}
{% set x, y = 1, 2 %}{{ x }}{{ y }}
{% set x = 1, 2 %}{{ x }}
{% set x %}block {{ 1 }}{% endset %}[{{ x }}]
{% set x | upper %}block{% endset %}[{{ x }}]
{% set ns = namespace(a=1) %}{% set ns.a = 2 %}{{ ns.a }}
{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}
{% set ns = namespace() %}{% for i in [1,2,3] %}{% set ns.last = i %}{% endfor %}{{ ns.last }}
{% set ns = namespace() %}{{ ns.missing }}
{% set d = {} %}{% set d.a = 1 %}{{ d }}
{% with %}{% set x = 1 %}{{ x }}{% endwith %}{{ x is defined }}
{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}
{% set a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}
{% filter upper %}abc{{ 'd' }}{% endfilter %}
{% filter replace('a', 'b')|upper %}banana{% endfilter %}
{% do [].append(1) %}x
{% set l = [] %}{% do l.append(1) %}{% do l.extend([2, 3]) %}{{ l }}
{% set d = {} %}{% do d.update({'a': 1}) %}{% do d.setdefault('b', []).append(2) %}{{ d }}
{% set l = [3, 1, 2] %}{% do l.sort() %}{% do l.insert(0, 9) %}{% do l.remove(2) %}{{ l }}{{ l.pop() }}{{ l }}
{% set l = [1] %}{% set m = l %}{% do m.append(2) %}{{ l }}
{% set l = [1,2,3] %}{{ l.index(2) }}{{ l.count(3) }}{% do l.reverse() %}{{ l }}{% do l.clear() %}{{ l }}
{% set d = {'a': 1} %}{% if d.update({'b': 2}) %}{% endif %}{{ d }}
{% set d = {'a': {'b': [1]}} %}{% do d.a.b.append(2) %}{{ d }}
{% autoescape true %}{{ '<' }}{% endautoescape %}
{% block a %}in block{% endblock %}
{% block a %}{% block b %}x{% endblock %}{% endblock a %}
{% macro m() %}x{% endmacro %}{{ m() }}
{% if x is defined %}a{% else %}b{% endif %}
{{ '{{' }}{{ '}}' }}
{{ "a" "b" }}
{{ 1 if true }}{{ 1 if false else 2 }}
{{ 1 if false }}
{{ (1 if false) is defined }}
{% if not x is defined %}y{% endif %}
{% if x is not defined and 1 in [1] and 2 not in [1] %}y{% endif %}
{{ 1 < 2 < 3 }}{{ 1 < 3 < 2 }}{{ 1 == 1.0 }}{{ 'a' != 'b' }}
{{ 1 and 2 }}{{ 0 or 'x' }}{{ not 0 }}{{ '' or none }}{{ none and 1 }}
{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 2 ** 0.5 }}
{{ -2 ** 2 }} {{ 2 ** 3 ** 2 }} {{ - 3 + 1 }} {{ +1 }}
{{ 1 ~ 2 ~ none ~ true }}
{{ 'a' * 3 }} {{ [1] * 2 }} {{ 3 * 'ab' }} {{ [1] + [2] }} {{ (1,) + (2,) }} {{ 'a' + 'b' }}
{{ 'a' + 1 }}
{{ 1 + 'a' }}
{{ [1] + (2,) }}
{{ 1 / 0 }}
{{ 1 // 0 }}
{{ 1 % 0 }}
{{ {'a': 1} + {'b': 2} }}
{{ 'b' in 'abc' }}{{ 'a' in {'a': 1} }}{{ 1 in (1, 2) }}{{ 'x' in ['y'] }}
{{ 1 in 5 }}
{{ 'a' < 1 }}
{{ [1, 2] < [1, 3] }}{{ 'a' < 'b' }}{{ (1, 'a') < (1, 'b') }}
{{ none < 1 }}
{{ 1_000 }} {{ 0x1f }} {{ 0o17 }} {{ 0b11 }} {{ 1.5e3 }} {{ 1e2 }} {{ 1_0.5 }}
{{ .5 }}
{{ 12345678901234567890 }} {{ 2 ** 64 }} {{ 2 ** 100 }}
{{ 9223372036854775807 }} {{ 9223372036854775807 + 1 }} {{ -9223372036854775808 - 1 }} {{ 4611686018427387904 * 4 }}
{{ [1, 2, 3][0] }}{{ [1, 2, 3][-1] }}{{ 'abc'[1] }}{{ (1, 2)[1] }}
{{ [1, 2, 3, 4][1:3] }}{{ [1, 2, 3, 4][::2] }}{{ [1, 2, 3, 4][::-1] }}{{ 'abcdef'[1:-1] }}{{ 'abc'[5:] }}{{ (1, 2, 3)[:-1] }}
{{ 'abcdef'[::-2] }}{{ 'abcdef'[4:1:-1] }}{{ [1,2,3][-2:] }}{{ [1,2,3][:99] }}
{{ 'abc'[::0] }}
{{ [1][5] }}
{{ {'a': 1}['b'] }}
{{ {'a': 1}.b }}
{{ {'a': {'b': 1}}.a.b }}{{ {'a': {'b': 1}}['a']['b'] }}{{ {'a': 1}.get('x', 5) }}{{ {'a': 1}.get('x') }}
{{ {'items': 1}['items'] }}
{{ {1: 'a', true: 'b', 1.0: 'c'} }}
{{ {'a': 1, 'a': 2} }}
{{ {[1]: 2} }}
{{ [1, [2, (3,)], {'a': none}] }}
{{ () }}{{ (1,) }}{{ [] }}{{ {} }}
{{ none }}{{ None }}{{ true }}{{ True }}{{ false }}{{ False }}
{{ 'it\'s' }} {{ "tab\there" }} {{ 'nl\nx' }} {{ 'u\u00e9' }} {{ '\x41' }} {{ '\\' }}
{{ ['it\'s', "q\"q", 'b\\s', 'n\nl'] }}
{{ range(5) }} {{ range(1, 5)|list }} {{ range(10, 0, -3)|list }} {{ range(3)|length }}
{{ range(200000)|length }}
{{ range(1.5) }}
{{ dict(a=1, b=2) }} {{ dict({'x': 1}, y=2) }} {{ dict([('a', 1)]) }}
{{ cycler('a', 'b').next() }}
{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{% do c.reset() %}{{ c.next() }}
{% set j = joiner('; ') %}{{ j() }}a{{ j() }}b{{ j() }}c
{{ odict([('b', 1), ('a', 2)]) }}
{{ raise('boom') }}
{% for i in range(3) -%} {{ i }} {%- if not loop.last %}, {% endif %} {%- endfor %}
{%+ if true %} x {%+ endif %}
{{ lipsum is defined }}{{ self is defined }}
{{ 1 is divisibleby 2 }}{{ 4 is divisibleby(2) }}{{ 3 is not odd }}
{{ 'a' is in ['a'] }}{{ 1 is eq 1 }}{{ 2 is gt(1) }}
{{ "%s-%s"|format(1, 2) }}{{ 'x'|upper|lower }}
{{ -1|abs }} {{ (-1)|abs }} {{ 1 + 2|string|length }}
{{ x.y }}
{{ x }}
{{ x.y.z is defined }}
{{ x['y'] }}
{{ x() }}
{{ 'a'() }}
{{ 'a'.nope }}
{{ 'a'.nope() }}
{{ none.x }}
{{ 1 .real }}
{{ ''.__class__ }}
{{ ''.__class__.__mro__ }}
{{ [1,2,3].0 }} {{ [[1,2]].0.1 }}
{{ {'a b': 1}['a b'] }}{{ {1: 2}[1] }}{{ {'1': 3}['1'] }}
{% if true %}
{% for %}
{% endfor %}
{% unknown %}
{{ 1 + }}
{{ 'x'|nofilter }}
{{ 'x' is notest }}
{{ ( }}
{{ a b }}
{{ 'unclosed }}
{% set %}
{% if %}{% endif %}
{{ [1, 2 }}
{{ {1 2} }}
{# unclosed
{{ x | }}
{{ 1 if }}
{% macro %}{% endmacro %}
{% block a %}{% endblock %}{% block a %}{% endblock %}
{% extends %}
{% set x = [1, 2, 3,] %}{{ x }}{{ {'a': 1,} }}{{ (1, 2,) }}
{{ [x for x in y] }}
{{ lambda: 1 }}
{{ 'a' if 'b' in 'abc' else 'c' if true else 'd' }}
{{ not true or true }} {{ not (true or true) }} {{ true and not false }}
{{ 'é日本😀'|length }} {{ 'é日本😀'[1:3] }} {{ ['é', '日本'] }}
{{ [1.0, 1.5, 1e20, 1e-5, 100000000000000000.0, 0.1 + 0.2, 1/3] }}
{{ 'inf'|float }} {{ '-inf'|float }} {{ 'nan'|float }}
{{ 1e16 }} {{ 1e15 }} {{ 123456789.125 }} {{ -0.0 }}
{{ true + 1 }} {{ true == 1 }} {{ [true, 1]|sum }} {{ 5 - true }}
{{ ('a', 'b') }} {{ ('a',) }}
{{ 'a\tb' }} {{ ['a\tb'] }} {{ {'k': 'a\tb'} }} {{ {'k': 'a\nb'} }} {{ {'k': ['a\nb']} }}
{{ {'a': True, 'b': None, 'c': 1.0, 'd': 'x', 'e': [1, 'y'], 'f': ('t',), 'g': {'h': 'i'}} }}
{{ {'a': True, 'b': None}|string }}
{{ {'k': 'a\nb'}|string }} {{ {'k': 'a\nb'} ~ '' }}
{{ {'k': 'it\'s\n "q" \\ é ☃ \x01'} }}
"""
    )
    s.case("trailing newline", "a\n")
    s.case("two trailing newlines", "a\n\n")
    s.case("no newline", "a")
    s.case("crlf", "a\r\nb\r\n{{ 1 }}\r\n")
    s.case("block lines", "a\n{% if true %}\nb\n{% endif %}\nc\n")
    s.case("block lines trimmed", "a\n{%- if true %}\nb\n{%- endif %}\nc\n")
    s.case("trim_blocks", "a\n{% if true %}\n  b\n{% endif %}\nc\n", opts={"jinja_env": {"trim_blocks": True}})
    s.case(
        "trim and lstrip blocks",
        "a\n  {% if true %}\n  b\n  {%+ if true %}\n  d\n  {% endif %}\n  {% endif +%}\nc {% if true %} x\n{% endif %}\n",
        opts={"jinja_env": {"trim_blocks": True, "lstrip_blocks": True}},
    )
    s.case("lstrip comment", "a\n  {# c #}\nb\n", opts={"jinja_env": {"lstrip_blocks": True, "trim_blocks": True}})
    s.case("old trim option", "a\n{% if true %}\nb\n{% endif %}\n", opts={"jinja_trim_blocks": True})
    s.case(
        "sls env",
        "a\n{% if true %}\nb\n{% endif %}\n",
        sls="x.y",
        opts={"jinja_sls_env": {"trim_blocks": True}, "jinja_env": {}},
    )
    s.case(
        "line statements",
        "# for i in [1, 2]\n  item {{ i }}\n# endfor\n## a comment\nend\n",
        opts={"jinja_env": {"line_statement_prefix": "#", "line_comment_prefix": "##"}},
    )
    s.case(
        "other delimiters",
        "<% if true %><< 1 >><# c #><% endif %>{{ x }}\n",
        opts={
            "jinja_env": {
                "block_start_string": "<%",
                "block_end_string": "%>",
                "variable_start_string": "<<",
                "variable_end_string": ">>",
                "comment_start_string": "<#",
                "comment_end_string": "#>",
            }
        },
    )
    s.case("header", '#jinja2: {"trim_blocks": true}\na\n{% if true %}\nb\n{% endif %}\n')
    s.case("header after shebang", '#!jinja|yaml\n#jinja2: {"trim_blocks": true}\na\n{% if true %}\nb\n{% endif %}\n')
    s.case("header malformed", "#jinja2: {x\na\n")
    s.case("undefined line", "a\nb\n{{ missing }}\nc\n")
    s.case("undefined in sls", "a\nb\n{{ pillar.missing }}\nc\n", sls="web.init", pillar={"x": 1})
    s.case("syntax error line", "a\n\n{% if x y %}\n{% endif %}\n")
    s.case("missing endif line", "a\n{% if true %}\nb\n")
    s.case("wrong end", "{% if true %}\n{% endfor %}\n")
    s.case("long error context", "\n".join(f"line {n}" for n in range(1, 20)) + "\n{{ nope }}\n" + "more\n" * 10)
    s.case("allow_undefined", "[{{ missing }}] {{ missing|length }} {% for x in missing %}{% endfor %}{{ missing == '' }}", opts={"allow_undefined": True})
    s.case("allow_undefined attribute", "{{ missing.x }}", opts={"allow_undefined": True})
    s.case("if expression over lines", "{{\n  1\n  +\n  2\n}}\n{%\n  if true\n%}x{% endif %}\n")
    s.case("raw keeps lines", "{% raw %}\n{% if x %}\n{{ y }}\n{% endraw %}\n")
    s.case("nested loop", "{% for a in [1,2] %}{% set o = loop %}{% for b in 'xy' %}{{ o.index }}{{ b }}{{ loop.last }} {% endfor %}{% endfor %}")
    s.case("loop var after", "{% for a in [1,2] %}{% endfor %}{{ a is defined }}{{ loop is defined }}")
    s.case("set in loop stays there", "{% set x = 0 %}{% for a in [1,2] %}{% set x = a %}{{ x }}{% endfor %}{{ x }}")
    s.case("set in if leaks", "{% if true %}{% set x = 1 %}{% endif %}{{ x }}")
    s.case("set before is seen in loop", "{% for a in [1,2] %}{{ x|default('-') }}{% set x = a %}{{ x }}{% endfor %}")
