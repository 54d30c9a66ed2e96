"""Salt's own statements: load_*, import_*, profile; and what formulas do with them."""

DEFAULTS = """\
app:
  port: 8080
  name: demo
  list: [1, 2]
  on: yes
  mode: 0644
  text: |
    line one
    line two
empty:
"""


def cases(s):
    s.lines(
        r"""
{% load_yaml as x %}{a: 1, b: [2, 'three']}{% endload %}{{ x.a }}{{ x.b }}{{ x }}
{% load_json as x %}{"a": 1, "b": [true, null, 1.5]}{% endload %}{{ x.a }}{{ x.b }}
{% load_text as x %} some text {% endload %}[{{ x }}]
{% load_yaml as x %}- {{ 1 + 1 }}{% endload %}{{ x }}
{% load_yaml as x %}{% endload %}{{ x }}
{% load_yaml as x %}a: [1{% endload %}{{ x }}
{% load_yaml as x %}a: 1, b: 2: 3{% endload %}{{ x }}
{% load_json as x %}{a: 1}{% endload %}{{ x }}
{% load_xml as x %}{% endload %}
{% load_yaml x %}{% endload %}
{% load_yaml as x %}
{% profile as 'render' %}inside{% endprofile %}
{{ '{a: 1}'|load_yaml }}{{ '[1, 2]'|load_json }}{{ 'x'|load_text }}
{{ 'a: b: c'|load_yaml }}
{{ '{'|load_json }}
{{ 5|load_json }}
{{ 5|load_yaml }}
{% set x = 'a: 2026-01-01'|load_yaml %}{{ x }}
{% set x = 'yes'|load_yaml %}{{ x }} {{ '0644'|load_yaml }} {{ '1:30'|load_yaml }} {{ '~'|load_yaml }} {{ '1e3'|load_yaml }}
{% import_yaml 'defaults.yaml' as d %}
"""
    )
    s.case("load_yaml multi-line", "{% load_yaml as x %}\na: 1\nb:\n  - c\n  - d: 2\n{% endload %}{{ x }}|{{ x|yaml }}|{{ x|json }}\n")
    s.case("load_yaml with loop", "{% load_yaml as x %}\n{% for i in [1, 2] %}\nk{{ i }}: v{{ i }}\n{% endfor %}\n{% endload %}{{ x }}\n")
    s.case("load_yaml error context", "one\n{% load_yaml as x %}\na: 1\nb: [\nc: 2\n{% endload %}\n")
    s.case("load_yaml duplicate", "{% load_yaml as x %}\na: 1\na: 2\n{% endload %}{{ x }}\n")
    s.case("load in loop", "{% for i in [1, 2] %}{% load_yaml as x %}v: {{ i }}{% endload %}{{ x.v }}{% endfor %}{{ x is defined }}")
    s.case("load_yaml in macro", "{% macro m(a) %}{% load_yaml as x %}[{{ a }}]{% endload %}{{ x }}{% endmacro %}{{ m(5) }}")
    s.case("load_yaml attribute", "{% set ns = namespace() %}{% load_yaml as ns.x %}a: 1{% endload %}{{ ns.x }}")
    files = {
        "defaults.yaml": DEFAULTS,
        "d.json": '{"a": [1, {"b": null}], "c": 1.50}\n',
        "motd.txt": "Welcome to {{ grains.id }}\n",
        "bad.yaml": "a: [1\n",
        "bad.json": "{a}",
        "tmpl.yaml": "who: {{ grains.id }}\nx: {{ x|default('none') }}\n",
        "empty.yaml": "",
        "f/map.jinja": "{% import_yaml 'f/defaults.yaml' as defaults %}{% set m = salt['grains.get']('os', 'x') %}"
        "{% set conf = defaults.conf %}{% do conf.update({'os': m}) %}",
        "f/defaults.yaml": "conf:\n  a: 1\n",
    }
    grains = {"id": "m1", "os": "Debian", "os_family": "Debian", "cpus": 4, "ipv4": ["127.0.0.1", "10.0.0.5"]}
    for name, template in [
        ("import_yaml", "{% import_yaml 'defaults.yaml' as d %}{{ d.app.port }} {{ d.app }} {{ d.empty }}"),
        ("import_json", "{% import_json 'd.json' as d %}{{ d }} {{ d.a[1].b }}"),
        ("import_text", "{% import_text 'motd.txt' as t %}[{{ t }}]"),
        ("import_yaml renders", "{% import_yaml 'tmpl.yaml' as d %}{{ d }}"),
        ("import_yaml with context", "{% set x = 5 %}{% import_yaml 'tmpl.yaml' as d with context %}{{ d }}"),
        ("import_yaml empty", "{% import_yaml 'empty.yaml' as d %}{{ d }}"),
        ("import_yaml bad", "a\n{% import_yaml 'bad.yaml' as d %}{{ d }}"),
        ("import_json bad", "a\n{% import_json 'bad.json' as d %}{{ d }}"),
        ("import_yaml missing", "a\n{% import_yaml 'nope.yaml' as d %}{{ d }}"),
        ("import_yaml expression", "{% set n = 'd' %}{% import_json n ~ '.json' as d %}{{ d.c }}"),
        ("map.jinja", "{% from 'f/map.jinja' import conf with context %}{{ conf }}"),
        ("multi-line value printed", "x: {{ d }}\n{% import_yaml 'defaults.yaml' as d %}{{ d.app }}\n{{ d.app.text|indent(4) }}|{{ d.app.text|yaml_dquote }}\n"),
        ("import_yaml in loop", "{% for i in [1, 2] %}{% import_yaml 'defaults.yaml' as d %}{% do d.app.list.append(i) %}{{ d.app.list }}{% endfor %}"),
    ]:
        s.case(name, template.replace("x: {{ d }}\n", ""), files=files, grains=grains)
    s.case("salt calls", "{{ salt['test.echo']('x') }} {{ salt['grains.get']('a:b', 'd') }} {{ salt['pillar.get']('p:q') }} {{ salt['test.args'](1, 'b', c=2) }}", grains={"a": {"b": 1}}, pillar={"p": {"q": [1]}})
    s.case("salt constant", "{{ salt['pkg.version']('vim') }}{% if salt['file.directory_exists']('/x') %}yes{% endif %}", salt={"pkg.version": "9.1", "file.directory_exists": True})
    s.case("salt missing function", "{{ salt['no.such']('x') }}")
    s.case("grains of a formula", "{% set os = salt['grains.get']('os_family') %}{{ {'Debian': {'pkg': 'apache2'}, 'RedHat': {'pkg': 'httpd'}}.get(grains.os_family).pkg }} {{ grains['cpus'] * 2 }} {{ grains.ipv4|reject('equalto', '127.0.0.1')|first }} {{ os }}", grains=grains)
    s.case("grains missing", "{{ grains['nope'] }}", grains=grains)
    s.case("grains missing default", "{{ grains.get('nope', 'x') }}{{ grains['nope']|default('y') }}", grains=grains)
    s.case("pillar loop", "{% for user, args in pillar.get('users', {}).items() %}\n{{ user }}:\n  user.present:\n    - uid: {{ args['uid'] }}\n{% if 'groups' in args %}\n    - groups:\n{% for g in args.groups %}\n      - {{ g }}\n{% endfor %}\n{% endif %}\n{% endfor %}\n", kind="sls", pillar={"users": {"ann": {"uid": 1001, "groups": ["wheel"]}, "bob": {"uid": 1002}}})
    s.case("dict into sls", "{% set d = {'a': True, 'b': None, 'c': [1, 'x'], 'd': {'e': 'multi\nline'}} %}x: {{ d }}\ny: {{ d|yaml }}\nz: {{ d|json }}\nw: {{ d|tojson }}\n", kind="sls")
    s.case("context into sls", "{{ sls }} {{ slspath }} {{ tplfile }} {{ tpldir }} {{ slsdotpath }} {{ slscolonpath }} {{ sls_path }} {{ tpldot }}", sls="a.b.c", files={"a/b/c.sls": ""})
    s.case("opts in template", "{{ opts.id }} {{ opts['file_client'] }} {{ saltenv }} {{ env }}")
    s.case("pillar values in yaml", "{% for k, v in pillar.items() %}{{ k }}: {{ v|yaml_encode }}\n{% endfor %}", kind="sls", pillar={"a": "yes", "b": True, "c": None, "d": 5, "e": "x: y", "f": "it's \"q\"\n", "g": 1.5, "h": "0644"})
