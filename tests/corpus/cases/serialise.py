"""Filters that write YAML, JSON, XML, Python."""

DATA = {
    "text": "plain",
    "number": 5,
    "float": 1.5,
    "yes": True,
    "none": None,
    "list": [1, "two", [3, [4]], {"five": 5, "six": [6]}],
    "map": {"b": 1, "a": {"deep": "x"}},
    "empty_list": [],
    "empty_map": {},
    "quoted": "yes",
    "number_text": "0644",
    "colon": "a: b",
    "hash": "a #b",
    "multi": "line one\nline two\n",
    "single": "it's",
    "double": 'say "hi"',
    "tab": "a\tb",
    "unicode": "é日本😀",
    "space": " lead",
    "star": "*x",
    "empty": "",
    "date": "2026-01-01",
    "long": "word " * 30,
}


def cases(s):
    s.expressions(
        r"""
{'b': 1, 'a': [1, 'x', none]}|yaml, {'b': 1, 'a': [1, 'x']}|yaml(false), [1, 2]|yaml, [1, [2, 3]]|yaml(false), 'x'|yaml, 5|yaml, none|yaml, true|yaml, 'yes'|yaml, ''|yaml, 'a: b'|yaml, 'multi\nline'|yaml, "it's"|yaml, 'é'|yaml, 1.0|yaml, 1e20|yaml, '5'|yaml, {}|yaml, []|yaml, '2026-01-01'|yaml, 'x'|yaml(false), '- a'|yaml, '*a'|yaml, 'a #b'|yaml, ' a'|yaml
(1, 2)|yaml, {'t': (1, 2)}|yaml, {1: 'a', none: 'b', true: 'c'}|yaml, 'null'|yaml, '~'|yaml, '1e3'|yaml, '0x1f'|yaml, '1_000'|yaml, '12:30'|yaml, 'on'|yaml, 'n'|yaml, '='|yaml, '<<'|yaml, 'a\tb'|yaml, '\x01'|yaml, '😀'|yaml, ('x' * 100)|yaml
{'a': {'b': {'c': [1, {'d': 2}]}}}|yaml(false)
{'k': 'a\nb\n'}|yaml(false), ['a\n\nb']|yaml(false), {'k': '  x\n y'}|yaml(false)
'é'.encode()|yaml, ('\xff'.encode('latin-1'))|yaml
range(3)|yaml
{'b': 1, 'a': [1, 'x', none, true, 1.5]}|json, {'b': 1, 'a': {'c': 2}}|json(indent=2), {'b': 1, 'a': 2}|json(sort_keys=false), 'é"\n'|json, [1, 2]|json(indent=4), {1: 'a'}|json, {}|json, []|json(indent=2), 'x'|json, none|json, 1e400|json
{1: 2, 'a': 3}|json
{'b': 1, 'a': [1, 'x', none, true, 1.5]}|python, 'x'|python, [1, (2,)]|python, {'é': '\n'}|python
{'root': {'a': 1, 'b': {'c': 'x', 'd': true}}}|xml
{'users': [{'name': 'a', 'groups': ['x', 'y']}, {'name': 'b'}]}|xml
{'root': {'user': [{'name': 'a', 'x': {'y': 1}}, {'name': 'b'}]}}|xml
[('root', 'text')]|xml
{'a': '<&>'}|xml
5|xml
{'root': {'item': [1, 2]}}|xml
{'name': 'thing', 'changes': true, 'warnings': 'OMG! Stuff is happening!'}|dict_to_sls_yaml_params, {'a': [1, 2], 'b': {'c': none}}|dict_to_sls_yaml_params, {'a': 1}|dict_to_sls_yaml_params(flow_style=true), {}|dict_to_sls_yaml_params
[1]|dict_to_sls_yaml_params
'x'|yaml_encode, 5|yaml_encode, true|yaml_encode, none|yaml_encode, 1.5|yaml_encode, 'a"b\n\té\x01😀\\'|yaml_encode, 1e20|yaml_encode, ''|yaml_encode
[1]|yaml_encode
{'a': 1}|yaml_encode
'a"b\n\té\x01😀\\'|yaml_dquote, "it's a\nb\n\nc"|yaml_squote, 5|yaml_dquote, none|yaml_squote, ' x '|yaml_squote, ''|yaml_dquote, ('long ' * 40)|yaml_dquote|length, 'a  b'|yaml_dquote, 'a\n'|yaml_squote
'{a: 1, b: [x, yes, ~]}'|load_yaml, 'a: 1\nb:\n  - c'|load_yaml, '5'|load_yaml, ''|load_yaml, '{"a": [1, 2.5, null, true, "é"]}'|load_json, '"x"'|load_json, '1e3'|load_json, ' [1] '|load_json
'[1, 2'|load_json
none|load_json
'NaN'|load_json
'{a: &x 1, b: *x}'|load_yaml, '!!binary aGk='|load_yaml, '!!set {a, b}'|load_yaml|sort, '2026-01-01'|load_yaml, '{a: 1, <<: {b: 2}}'|load_yaml
'!!python/object:os.system x'|load_yaml
"""
    )
    for name, template in [
        ("yaml flow", "{{ d|yaml }}"),
        ("yaml block", "{{ d|yaml(false) }}"),
        ("yaml block indented", "x:\n  {{ d|yaml(false)|indent(2) }}\n"),
        ("json", "{{ d|json }}"),
        ("json indented", "{{ d|json(indent=2) }}"),
        ("tojson", "{{ d|tojson }}"),
        ("python", "{{ d|python }}"),
        ("printed", "{{ d }}"),
        ("printed as string", "{{ d|string }}"),
        ("params", "{{ d|dict_to_sls_yaml_params }}"),
    ]:
        s.case(name, template, vars={"d": DATA})
    s.case("data into sls", "a: {{ d|yaml }}\nb:\n  {{ d|yaml(false)|indent(2) }}\nc: {{ d|json }}\ne: {{ d|tojson }}\n", kind="sls", vars={"d": DATA})
    s.case("json keeps key order of numbers", "{{ {'10': 1, '9': 2, 'b': 3, 'B': 4}|json }}")
    s.case("markup and text", "{{ ('<a>'|safe) ~ '<b>' }}{{ ({'a': '<'}|json)|upper }}{{ ({'a': 1}|json) ~ '\"x\"' }}")
    s.case("markup plus text", "{{ ({'a': 1}|json) + '\"x\"' }}|{{ '\"x\"' + ({'a': 1}|json) }}")
    s.case("markup percent", "{{ ('%s'|safe) % '<' }}|{{ ('{}'|safe).format('<') }}|{{ '%s' % ('<'|safe) }}")
    s.case("markup methods", "{{ ('a,b'|safe).split(',') }}{{ ('<'|safe).join(['<', '>']) }}{{ ('a'|safe)|replace('a', '<') }}{{ ('ab'|safe)[0] ~ '<' }}{{ ('a'|safe).replace('a', '<') }}")
    s.case("yaml in a block scalar", "x: |\n  {{ {'a': [1, 2], 'b': 'c'}|yaml(false)|indent(2) }}\n", kind="sls")
