"""Filters and tests of Jinja itself."""

USERS = [
    {"name": "bob", "age": 30, "city": "Rome", "tags": ["a"], "addr": {"zip": 2, "street": {"no": 7}}},
    {"name": "Ann", "age": 25, "city": "oslo", "tags": [], "addr": {"zip": 1, "street": {"no": 9}}},
    {"name": "carl", "age": 30, "city": "Oslo", "tags": ["b", "c"], "addr": {"zip": 3, "street": {"no": 8}}},
]


def cases(s):
    s.expressions(
        r"""
(-5)|abs, 5.5|abs, true|abs, (-0.0)|abs
'x'|abs
[1, 2, 3, 4, 5]|batch(2)|list, [1, 2, 3]|batch(2, 'x')|list, []|batch(2)|list, 'abcde'|batch(2)|list
[1, 2, 3, 4, 5]|slice(2)|list, [1, 2, 3, 4, 5]|slice(3, 'x')|list, [1]|slice(3)|list, [1, 2, 3, 4, 5, 6, 7]|slice(3)|list
'hELLO wORLD'|capitalize, 5|capitalize, ''|capitalize
'ab'|center(6) ~ '|', 'ab'|center(1), 5|center(4) ~ '|'
[1, 2]|count, 'abc'|length, {'a': 1}|length, ()|count, range(4)|length
5|length
none|length
x|default('d'), ''|default('d'), ''|default('d', true), 0|default('d', boolean=true), none|default('d'), none|d('d', true), x|default, false|d(1)
x.y|default('d')
{}.x.y|default('d')
{}.x|default('d')
{'b': 1, 'A': 2, 'c': 0}|dictsort, {'b': 1, 'A': 2}|dictsort(true), {'b': 1, 'A': 2}|dictsort(false, 'value'), {'b': 1, 'A': 2}|dictsort(reverse=true), {'b': 'X', 'a': 'y'}|dictsort(by='value', case_sensitive=true)
{'b': 1}|dictsort(by='x')
{1: 'a', 'b': 2}|dictsort
'<a href="x">\'&</a>'|e, '<'|escape, 5|e, none|escape, ['<']|e
'<'|safe|e, '<'|e|e, '<'|forceescape, ('<'|safe)|forceescape
1|filesizeformat, 0|filesizeformat, 999|filesizeformat, 1000|filesizeformat, 1500|filesizeformat, 1048576|filesizeformat, 1048576|filesizeformat(true), 1023|filesizeformat(true), 1e30|filesizeformat, '2000'|filesizeformat, 1.5|filesizeformat
'x'|filesizeformat
[1, 2]|first, 'abc'|first, {'a': 1}|first, (5,)|first, range(3)|first
[]|first
[]|first|default('none')
[1, 2]|last, 'abc'|last, {'a': 1, 'b': 2}|last, range(3)|last
[]|last
'1.5'|float, 'x'|float, 'x'|float(2.5), 5|float, '1e3'|float, ' 2 '|float, none|float, none|float(7), '1_0'|float, 'Infinity'|float, []|float
'%s-%s'|format('a', 1), '%(a)s'|format(a=1), '%d'|format(3.7), 'x'|format, '%s'|format([1])
'%s'|format(1, a=2)
users|groupby('age')|map('first')|list, users|groupby('city')|map('first')|list, users|groupby('city', case_sensitive=true)|map('first')|list, users|groupby('nope', default='z')|map('first')|list, users|groupby('addr.zip')|map('last')|map('first')|map(attribute='name')|list
users|groupby('age')|list
users|groupby('nope')
'a\nb\n\nc'|indent, 'a\nb'|indent(2), 'a\nb'|indent(2, true), 'a\n\nb'|indent(2, true, true), 'a\nb'|indent('> '), 'a\nb'|indent(width=1, first=true), 'a\n'|indent ~ '|', ''|indent(first=true) ~ '|'
5|indent
'42'|int, '42.9'|int, 'x'|int, 'x'|int(7), '0x1f'|int(base=16), 'ff'|int(0, 16), '101'|int(base=2), 42.9|int, -42.9|int, true|int, none|int, '  5 '|int, '1_000'|int, '0o17'|int(base=8), '0b11'|int(0, 0), '1e3'|int, 'inf'|int, ''|int, '12345678901234567890'|int, []|int
{'a': 1}|items|list, x|items|list
[1]|items|list
[1, 2]|join, [1, 2]|join(', '), 'abc'|join('-'), {'a': 1, 'b': 2}|join, [none, true, 1.0]|join('|'), users|join(',', attribute='name'), [[1], ('a',)]|join(' '), [1, 2]|join(0)
5|join
'abc'|list, {'a': 1}|list, (1, 2)|list, range(3)|list, 'é日'|list
5|list
'ABC'|lower, 5|lower, none|upper, 'straße'|upper, true|lower
users|map(attribute='name')|list, users|map(attribute='addr.zip')|list, users|map(attribute='addr.street.no')|list, users|map(attribute='tags.0', default='-')|list, ['a', 'B']|map('upper')|list, [1, 2]|map('string')|list, ['a-b']|map('replace', '-', '+')|list, [[1, 2], [3, 4]]|map(attribute=1)|list, [[3], [1, 2]]|map('length')|list, ['1', 'x']|map('int', default=9)|list, [[2, 1]]|map('sort')|list
users|map(attribute='nope')|list
users|map(attribute='nope', default='d')|list
users|map(attribute='name')|join(',')
[1]|map('nofilter')|list
[1]|map(attribute='a', x=1)|list
none|map('upper')|list
5|map('upper')|list
[3, 1, 2]|min, [3, 1, 2]|max, 'hello'|min, (1, 5)|max, ['b', 'A']|min, {'z': 1, 'y': 2}|max
[]|min
users|min(attribute='age')
{'b': 1, 'a': [1, 2]}|pprint, 'x'|pprint, [1, 'two', none, 3.0, (1,)]|pprint, {}|pprint
{'key number one': 'a long value here', 'key number two': ['a list', 'of several', 'texts that go beyond'], 'z': {'nested': {'deep': [1, 2, 3]}}}|pprint
[1, 2, 3, 4]|select('odd')|list, [1, 0, '', 'a']|select|list, [1, 2, 3, 4]|reject('even')|list, [1, 0, none]|reject|list, [1, 2, 3]|select('gt', 1)|list, ['a', 'b']|select('in', ['b'])|list, [1, 2, 3]|select('divisibleby', 3)|list, ['a1', 'b']|select('match', 'a')|list, [1, 'a']|select('string')|list, {'a': 1}|select('eq', 'a')|list, 'abc'|reject('eq', 'b')|join
[1]|select('notest')|list
users|selectattr('tags')|map(attribute='name')|list, users|rejectattr('tags')|map(attribute='name')|list, users|selectattr('age', 'eq', 30)|map(attribute='name')|list, users|selectattr('addr.zip', '>', 1)|map(attribute='name')|list, users|rejectattr('city', 'equalto', 'Rome')|map(attribute='name')|list, users|selectattr('tags', 'defined')|list|length, users|selectattr('nope', 'undefined')|list|length, users|selectattr('tags.1', 'defined')|map(attribute='name')|list
users|selectattr('nope')|list
users|selectattr|list
'a-b-a'|replace('a', 'x'), 'a-b-a'|replace('a', 'x', 1), 5|replace(5, 6), 'aaa'|replace('a', '', 2), 'a.b'|replace('.', '\\.')
'abc'|reverse, [1, 2, 3]|reverse|list, (1, 2)|reverse|list, {'a': 1, 'b': 2}|reverse|list, range(3)|reverse|list, [1, 2]|reverse|first
5|reverse
42.55|round, 42.55|round(1), 42.55|round(1, 'floor'), 42.551|round(1, 'ceil'), 2.5|round, 3.5|round, 5|round, 5|round(2), 1234|round(-2), 2.675|round(2), 42.55|round|int, -1.5|round, 5.0|round(method='floor'), 7|round(0, 'ceil'), 0.5|round, 1e20|round(2), 2|round(-1), 15|round(-1), 25|round(-1)
1.5|round(0, 'x')
'x'|round
[3, 1, 2]|sort, [3, 1, 2]|sort(true), ['b', 'A', 'c']|sort, ['b', 'A', 'c']|sort(case_sensitive=true), users|sort(attribute='name')|map(attribute='name')|list, users|sort(attribute='age,name')|map(attribute='name')|list, users|sort(reverse=true, attribute='age')|map(attribute='name')|list, users|sort(attribute='addr.street.no')|map(attribute='name')|list, 'cab'|sort, {'b': 1, 'a': 2}|sort, [[2, 1], [1, 2]]|sort, [[1, 'b'], [0, 'a']]|sort(attribute=0), [true, 0, 2]|sort, [1.5, 1]|sort
[1, 'a']|sort
[none, 1]|sort
users|sort(attribute='nope')
5|string, none|string, [1, 'a']|string, 1.0|string, true|string|length, {'a': 'b'}|string
'<p>a  <b>b</b>\n c</p>&lt;'|striptags, 'a <!-- c --> b'|striptags, 'a < b'|striptags, '&amp;&eacute;&#39;'|striptags, 5|striptags
[1, 2, 3]|sum, [1.5, 2]|sum, []|sum, [1]|sum(start=10), users|sum(attribute='age'), users|sum(attribute='addr.zip'), [[1], [2]]|sum(start=[]), {'a': 1}.values()|sum
['a', 'b']|sum
'hello world-foo bar_baz (qux) <x>'|title, "they're"|title, 'ABC dEF'|title, 'a.b'|title, ''|title, 5|title
' x '|trim ~ '|', 'xxaxx'|trim('x'), 5|trim
'foo bar baz qux'|truncate(9), 'foo bar baz qux'|truncate(9, true), 'foo bar baz qux'|truncate(11), 'foo bar baz qux'|truncate(11, false, '...', 0), 'foo bar baz qux'|truncate(9, end='~'), 'foobarbazqux'|truncate(5), 'é日本語文字列です長い'|truncate(5, true, '…', 0), 'abc'|truncate
'abc'|truncate(2)
5|truncate
[1, 2, 1, 'a', 'A']|unique, 'abcab'|unique|list|length, [[1], [1], [2]]|unique, [1, 1.0, true]|unique
(3, 1, 3)|unique|list
'a b&c/d?e=é'|urlencode, {'a b': 'c/d', 'x': 1}|urlencode, [('k', 'v w')]|urlencode, 5|urlencode, '~_-.'|urlencode, none|urlencode
'see http://example.com/x?a=1&b=2 and www.foo.org, (https://a.io) me@x.com mailto:z@y.net <x>'|urlize
'http://example.com/long/path/that/is/long'|urlize(20), 'http://a.com'|urlize(nofollow=true), 'http://a.com'|urlize(target='_blank', rel='me'), 'ftp://x.y tel:+1'|urlize(extra_schemes=['tel:']), 'http://1.2.3.4:80/ https://[::1]/ foo.com/x example.xyz http://localhost a@b'|urlize
'http://a.com'|urlize(extra_schemes=['bad scheme'])
'Hello, big  world! it\'s a_b é-1'|wordcount, ''|wordcount, 5|wordcount
'the quick brown fox jumps over the lazy dog'|wordwrap(10), 'averyveryverylongword x'|wordwrap(5), 'averyverylong x'|wordwrap(5, false), 'a\n\nb c d'|wordwrap(3), 'a b c'|wordwrap(3, wrapstring='|'), 'well-known half-baked'|wordwrap(6), 'well-known half-baked'|wordwrap(6, break_on_hyphens=false), '  leading and   inner   spaces  '|wordwrap(12)
{'class': 'a', 'id': none, 'x': 5, 'y': '<"'}|xmlattr, {'a': 1}|xmlattr(false), {}|xmlattr ~ '|'
{'a b': 1}|xmlattr
{'a': [1, true, none], 'b': '<x>&\'"é'}|tojson, {'b': 1, 'a': 2}|tojson, [1.0, 1e20, 1e-7]|tojson, 'x'|tojson, none|tojson, {'a': {'b': [1]}}|tojson(indent=2), {'b': 1, 'a': 2}|tojson(sort_keys=true), {1: 2, none: 3, true: 4, 1.5: 5}|tojson, (1, 2)|tojson, 'é\n\t\x01😀/'|tojson, {'a': 'é'}|tojson(ensure_ascii=false), []|tojson(indent=1), {'a': []}|tojson(2), [1, 2]|tojson(separators=[',', ':'])
{(1, 2): 3}|tojson
'x'.encode()|tojson
[('nan'|float), ('inf'|float)]|tojson, [('nan'|float), -('inf'|float)]
[1, 2]|random in [1, 2], []|random is undefined, 'a'|random
[[1, 2], [3]]|sum(start=[])|list, [1, 2, 3]|map('float')|sum, ['b', 'a']|sort|first|upper
'a'|upper|center(5)|trim|e|lower|title|replace('A', 'z')
x|upper
x|int
x|length
x|join
x|list
x|string
x|tojson
x|sort
x|first
x|yaml
none|sort
none|first
none|list
none|join
""",
        vars={"users": USERS},
    )
    s.expressions(
        r"""
1 is odd, 2 is odd, 2 is even, -1 is odd, 2.0 is even, true is odd
'a' is odd
10 is divisibleby 5, 10 is divisibleby(3), 10 is not divisibleby 3
1 is divisibleby 0
x is defined, x is undefined, x is not defined, 1 is defined, none is defined, {}.a is defined, {'a': {}}.a.b is undefined
none is none, 0 is none, none is not none, None is none
true is boolean, 1 is boolean, false is false, 0 is false, true is true, 1 is true
1 is integer, true is integer, 1.0 is integer, 1.0 is float, 1 is float, 1 is number, 1.5 is number, true is number, '1' is number
'abc' is lower, 'Abc' is lower, 'ABC' is upper, '1' is lower, 5 is lower, none is lower
'a' is string, 1 is string, ('a'|safe) is string, [] is string, none is string, 'a'.encode() is string
{} is mapping, [] is mapping, dict() is mapping, none is mapping, 'a' is mapping
[] is sequence, () is sequence, 'a' is sequence, {} is sequence, 1 is sequence, range(2) is sequence, none is sequence, {}.items() is sequence
[] is iterable, 'a' is iterable, {} is iterable, 1 is iterable, none is iterable, ([]|map('upper')) is iterable, range(1) is iterable
range is callable, 'a' is callable, 'a'.upper is callable, none is callable, dict is callable
none is sameas none, 1 is sameas 1, true is sameas true, 1 is sameas true, [] is sameas []
'a' is sameas 'a'
'a' is escaped, ('a'|safe) is escaped, ('a'|e) is escaped, ({}|json) is escaped
1 is in [1, 2], 'a' is in 'abc', 'x' is not in {'a': 1}, 3 is in((1, 2))
3 is in (1, 2)
1 is in 5
1 is eq 1, 1 is equalto 1.0, 1 is ne 2, 'a' is eq 'a', [1] is eq [1], none is eq none
1 is lt 2, 1 is lessthan 1, 2 is gt 1, 2 is greaterthan(2), 1 is le 1, 1 is ge 2, 'a' is lt 'b'
1 is lt 'a'
'upper' is filter, 'nope' is filter, 'yaml' is filter, 'odd' is test, 'nope' is test, 'match' is test
'abc' is match('a'), 'abc' is match('b'), 'ABC' is match('a', ignorecase=true), 'a\nb' is match('a$', multiline=true), 'a\nb' is match('a$'), 'abc' is match('.*c$')
5 is match('5')
'abc' is match('(')
[] is list, () is list, 'a' is list, range(2) is list
1 is odd and 2 is even, not 1 is even, 1 is not even, (1 is odd) ~ 'x'
x is none
x is mapping, x is string, x is number
x is sequence
x is iterable
x is odd
x.y is defined
none.y is defined
[1, 2, 3] is sequence and [1, 2, 3] is not string and [1, 2, 3] is not mapping
"""
    )
    s.case("attr paths", "{{ users|map(attribute='addr.street')|map(attribute='no')|sort|list }} {{ users|sum(attribute='addr.street.no') }}", vars={"users": USERS})
    s.case("groupby loop", "{% for city, who in users|groupby('city') %}{{ city }}: {{ who|map(attribute='name')|join(', ') }}\n{% endfor %}", vars={"users": USERS})
    s.case("groupby names", "{% for g in users|groupby('age') %}{{ g.grouper }}={{ g.list|length }}={{ g[0] }};{% endfor %}", vars={"users": USERS})
    s.case("filter block args", "{% filter indent(2, true)|upper %}a\nb{% endfilter %}")
    s.case("generators print once", "{% set m = ['a', 'b']|map('upper') %}{{ m|join }}{{ m|join }}|{{ m is iterable }}")
    s.case("sort keeps order", "{{ [{'a': 1, 'b': 'x'}, {'a': 0, 'b': 'y'}, {'a': 1, 'b': 'z'}]|sort(attribute='a')|map(attribute='b')|join }}")
    s.case("pprint wide", "{{ d|pprint }}", vars={"d": {"services": [{"name": "http", "ports": [80, 8080, 8000], "comment": "a service that serves"}, {"name": "ssh", "ports": [22], "enabled": True}], "text": "word " * 30, "empty": {}, "n": None}})
