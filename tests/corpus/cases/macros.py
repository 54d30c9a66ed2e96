"""Macros, calls, includes, imports, inheritance."""

LIB = """\
{% set exported = 'from lib' %}
{% set _private = 'hidden' %}
{%- macro greet(name, greeting='Hello') -%}
{{ greeting }} {{ name }}
{%- endmacro %}
{%- macro ctx() -%}
{{ outer|default('no outer') }}
{%- endmacro %}
"""


def cases(s):
    s.lines(
        r"""
{% macro m(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(b=4, a=5) }}
{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m() }}
{% macro m(a) %}{{ a is defined }}{% endmacro %}{{ m() }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, x=2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}
{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}
{% macro m(a) %}{{ a }}{{ varargs|join(',') }}{{ kwargs.x }}{% endmacro %}{{ m(1, 2, 3, x=3) }}
{% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}body{% endcall %}
{% macro m(x) %}<{{ caller(x, 2) }}>{% endmacro %}{% call(a, b=5) m(1) %}{{ a }}{{ b }}{% endcall %}
{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}{% call m() %}{% endcall %}
{% macro m() %}x{% endmacro %}{% call m() %}{% endcall %}
{% macro m(a, b=1) %}{% endmacro %}{{ m.name }} {{ m.arguments }} {{ m.catch_kwargs }} {{ m.catch_varargs }} {{ m.caller }}
{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}
{% macro m() %}{% set x = 1 %}{% endmacro %}{{ m() }}{{ x is defined }}
{% set x = 1 %}{% macro m() %}{{ x }}{% endmacro %}{% set x = 2 %}{{ m() }}
{% macro m(l=[]) %}{% do l.append(1) %}{{ l }}{% endmacro %}{{ m() }}{{ m() }}
{% macro outer() %}{% macro inner() %}i{% endmacro %}[{{ inner() }}]{% endmacro %}{{ outer() }}
{% macro m(a) %}{{ a }}{% endmacro %}{% set l = [1, 2] %}{{ m(*l[:1]) }}{{ m(**{'a': 3}) }}
{% macro m(a) %}[{{ a }}]{% endmacro %}{{ m('x')|upper }}{{ m('y') ~ 'z' }}{{ m('abc')|length }}{{ m('a') == '[a]' }}
{% macro m() %}  spaces  {% endmacro %}[{{ m()|trim }}]
{% macro m() -%} a {%- endmacro %}[{{ m() }}]
{% for i in [1,2] %}{% macro m() %}{{ i|default('?') }}{% endmacro %}{{ m() }}{% endfor %}
{% macro m(a=1, b) %}{{ a }}{{ b }}{% endmacro %}{{ m(1, 2) }}
{% macro m(caller) %}{% endmacro %}{{ m(1) }}
{% block b %}{{ self.b is defined }}{% endblock %}
{% block t %}T{% endblock %}{{ self.t() }}
{% set x = 1 %}{% block t %}{{ x }}{% endblock %}
{% set x = 1 %}{% block t scoped %}{{ x }}{% endblock %}
{% for i in [1,2] %}{% block t scoped %}{{ i }}{% endblock %}{% endfor %}
{% for i in [1,2] %}{% block t %}{{ i|default('none') }}{% endblock %}{% endfor %}
{% block t required %}{% endblock %}
{{ caller() }}
{{ varargs }}
"""
    )
    files = {
        "lib.jinja": LIB,
        "inc.jinja": "included {{ x|default('no x') }} {{ pillar.p|default('-') }}\n",
        "base.jinja": "start\n{% block one %}one{% endblock %}\n{% block two %}two{% endblock %}\nend {{ x|default('-') }}\n",
        "mid.jinja": "{% extends 'base.jinja' %}{% block one %}mid({{ super() }}){% endblock %}",
        "app/map.jinja": "{% set conf = {'dir': tpldir, 'file': tplfile} %}{% import './other.jinja' as other %}",
        "app/other.jinja": "{% set v = 'other' %}",
        "app/init.sls": "x",
        "bad.jinja": "{{ nothing }}\n",
        "syntax.jinja": "{% if %}\n",
        "loop.jinja": "{% include 'loop.jinja' %}",
        "pil.jinja": "{% set role = grains.role %}{% set p = pillar.get('a', 'b') %}{% set s = salt['test.echo']('q') %}",
    }
    for name, template, more in [
        ("include", "a {% include 'inc.jinja' %} b", {}),
        ("include sees variables", "{% set x = 1 %}{% include 'inc.jinja' %}", {"pillar": {"p": 2}}),
        ("include sees loop variables", "{% for x in [1, 2] %}{% include 'inc.jinja' %}{% endfor %}", {}),
        ("include without context", "{% set x = 1 %}{% include 'inc.jinja' without context %}", {}),
        ("include missing", "{% include 'missing.jinja' %}", {}),
        ("include ignore missing", "a{% include 'missing.jinja' ignore missing %}b", {}),
        ("include list", "{% include ['missing.jinja', 'inc.jinja'] %}", {}),
        ("include list missing", "{% include ['missing.jinja', 'gone.jinja'] %}", {}),
        ("include expression", "{% set n = 'inc' %}{% include n ~ '.jinja' with context %}", {}),
        ("include keeps macros apart", "{% include 'lib.jinja' %}{{ greet is defined }}", {}),
        ("include with slash", "{% include '/inc.jinja' %}", {}),
        ("import", "{% import 'lib.jinja' as lib %}{{ lib.greet('you') }} {{ lib.exported }}", {}),
        ("import private", "{% import 'lib.jinja' as lib %}{{ lib._private }}", {}),
        ("import unknown name", "{% import 'lib.jinja' as lib %}{{ lib.nope }}", {}),
        ("import without context", "{% set outer = 1 %}{% import 'lib.jinja' as lib %}{{ lib.ctx() }}", {}),
        ("import with context", "{% set outer = 1 %}{% import 'lib.jinja' as lib with context %}{{ lib.ctx() }}", {}),
        ("from import", "{% from 'lib.jinja' import greet, exported as e %}{{ greet('me', greeting='Hi') }} {{ e }}", {}),
        ("from import with context", "{% set outer = 1 %}{% from 'lib.jinja' import ctx with context %}{{ ctx() }}", {}),
        ("from import missing name", "{% from 'lib.jinja' import nope %}{{ nope is defined }}", {}),
        ("from import missing name used", "{% from 'lib.jinja' import nope %}{{ nope }}", {}),
        ("from import missing file", "a\n{% from 'no.jinja' import nope %}", {}),
        ("import sees globals", "{% from 'pil.jinja' import role, p, s %}{{ role }}{{ p }}{{ s }}", {"grains": {"role": "web"}, "pillar": {"a": 1}}),
        ("import printed", "{% import 'inc.jinja' as i %}{{ i }}", {}),
        ("import in macro", "{% macro m() %}{% from 'lib.jinja' import greet %}{{ greet('x') }}{% endmacro %}{{ m() }}", {}),
        ("import relative", "{% from './map.jinja' import conf %}{{ conf.file }}", {"sls": "app"}),
        ("import tpldir", "{% from tpldir ~ '/map.jinja' import conf %}{{ conf.dir }} {{ tplfile }} {{ tpldir }} {{ tpldot }} {{ slspath }} {{ sls }}", {"sls": "app"}),
        ("import above the root", "{% from '../../x.jinja' import conf %}", {"sls": "app"}),
        ("extends", "{% extends 'base.jinja' %}{% block two %}changed{% endblock %} ignored", {}),
        ("extends twice", "{% extends 'mid.jinja' %}{% block one %}top({{ super() }}){% endblock %}", {}),
        ("extends with set", "{% extends 'base.jinja' %}{% set x = 5 %}{% block one %}{{ x }}{% endblock %}", {}),
        ("extends missing", "{% extends 'none.jinja' %}", {}),
        ("extends conditional", "{% if pillar.layout %}{% extends 'base.jinja' %}{% endif %}{% block one %}alone{% endblock %}", {"pillar": {"layout": False}}),
        ("super without parent", "{% extends 'base.jinja' %}{% block new %}{{ super() }}{% endblock %}{% block one %}{{ self.new() }}{% endblock %}", {}),
        ("error in import", "a\n{% from 'bad.jinja' import x %}", {}),
        ("error in included", "a\n{% include 'bad.jinja' %}", {}),
        ("syntax error in import", "a\n{% import 'syntax.jinja' as x %}", {}),
        ("show_full_context", "{{ show_full_context()['pillar'] }} {{ 'grains' in show_full_context() }}", {"pillar": {"a": 1}}),
        ("import twice is one module", "{% import 'lib.jinja' as a %}{% import 'lib.jinja' as b %}{{ a.exported == b.exported }}", {}),
    ]:
        s.case(name, template, files=files, **more)
