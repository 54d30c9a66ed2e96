"""Methods of Python's own values, `%` and `str.format`."""


def cases(s):
    s.expressions(
        r"""
'aBc'.upper(), 'aBc'.lower(), 'aBc'.swapcase(), 'aBc dEf'.title(), 'aBc'.capitalize(), 'ẞß'.casefold()
"they're bill's o'neil 3rd x".title()
'ab'.center(7), 'ab'.center(6, '*'), 'abc'.center(6, '*'), 'ab'.ljust(5, '.'), 'ab'.rjust(5), '-7'.zfill(5), '7'.zfill(3), '+x'.zfill(4)
'ab'.center(5, 'xx')
'banana'.count('a'), 'banana'.count('an'), 'banana'.count('a', 2), 'banana'.count('a', 2, 4), 'aaa'.count('')
'banana'.find('n'), 'banana'.find('x'), 'banana'.rfind('n'), 'banana'.index('n'), 'banana'.rindex('a'), 'banana'.find('a', 2), 'banana'.find('a', -1)
'banana'.index('x')
'a-b'.startswith('a'), 'a-b'.startswith(('x', 'a')), 'a-b'.endswith('b'), 'abc'.startswith('b', 1), 'abc'.endswith('b', 0, 2), ''.startswith('')
'a'.startswith(1)
'a,b,,c'.split(','), 'a,b,c'.split(',', 1), ' a  b '.split(), ' a b c '.split(None, 1), 'abc'.split('x'), ''.split(), ''.split(','), 'a  b'.split(' ')
'a,b,c'.rsplit(',', 1), ' a b  c '.rsplit(None, 1), 'a b'.rsplit(), 'a,b'.split(sep=',', maxsplit=0)
'a'.split('')
'a\nb\r\nc\n'.splitlines(), 'a\nb\n'.splitlines(true), ''.splitlines(), 'a\x0bb\x1cc\u2028d'.splitlines()
'a.b.c'.partition('.'), 'a.b.c'.rpartition('.'), 'abc'.partition('.'), 'abc'.rpartition('.')
' x '.strip(), '[' ~ ' x '.lstrip() ~ ']', ' x '.rstrip(), 'xxaxx'.strip('x'), 'abcba'.strip('ab'), 'xxa'.lstrip('x'), 'axx'.rstrip('x')
'a-b-c'.replace('-', '+'), 'a-b-c'.replace('-', '', 1), 'abc'.replace('', '.'), 'aaa'.replace('a', 'b', 0)
', '.join(['a', 'b']), ''.join('abc'), '-'.join(('x',)), ','.join({'k': 1})
','.join([1, 2])
','.join(1)
'abc'.isalpha(), 'ab1'.isalpha(), 'ab1'.isalnum(), '12'.isdigit(), '1.2'.isdigit(), ''.isdigit(), '²'.isdigit(), '²'.isdecimal(), '½'.isnumeric()
'abc'.islower(), 'Abc'.islower(), 'ABC'.isupper(), 'A1'.isupper(), '1'.isupper(), 'Abc Def'.istitle(), 'abc Def'.istitle()
' \t'.isspace(), ''.isspace(), 'a b'.isidentifier(), 'a_b'.isidentifier(), '1a'.isidentifier(), 'abc'.isascii(), 'é'.isascii(), 'a\n'.isprintable(), 'a b'.isprintable()
'a\tb\tcd'.expandtabs(4), 'a\tb'.expandtabs()
'abc'.removeprefix('a'), 'abc'.removeprefix('x'), 'abc'.removesuffix('bc'), 'abc'.removesuffix('')
'é'.encode(), 'é'.encode('utf-8'), 'abc'.encode('ascii'), 'é'.encode('latin-1'), 'é'.encode('ascii', 'ignore'), 'é'.encode('ascii', 'replace')
'é'.encode('ascii')
'é'.encode().decode(), 'é'.encode().decode('utf-8'), 'é'.encode().hex(), 'abc'.encode()[0], 'abc'.encode()|length, 'abc'.encode().upper()
'abc'.translate({97: 'x', 98: none})
'abc'.maketrans('ab', 'xy')
'x'.nothing()
'x'.upper(1)
'x'.join()
'{}'.format('a'), '{} {}'.format(1, 2), '{1} {0}'.format('a', 'b'), '{x}'.format(x=1), '{0}{0}'.format('z'), '{{}}'.format()
'{0[0]} {0[1]}'.format([1, 2]), '{d[k]}'.format(d={'k': 'v'}), '{0.real}'.format(3), '{a.b}'.format(a={'b': 1})
'{:>5}|{:<5}|{:^5}|{:*^5}|{:5}|{:5}'.format('a', 'b', 'c', 'd', 'e', 1)
'{:d} {:x} {:X} {:o} {:b} {:#x} {:#o} {:#b} {:c}'.format(255, 255, 255, 8, 5, 255, 8, 5, 65)
'{:05d} {:+d} {: d} {:,} {:_} {:08.3f} {:<8d}| {:^8d}| {:=+6d}'.format(42, 42, 42, 1234567, 1234567, 3.14159, 42, 42, 42)
'{:f} {:.2f} {:e} {:.3e} {:g} {:g} {:g} {:.3g} {:%} {:.1%} {:n}'.format(1.5, 1.555, 12345.678, 12345.678, 0.0001, 1e10, 100000.0, 1234.5, 0.25, 0.256, 12)
'{:.3} {:.2} {:5.1f}|{:.0f} {:.0f} {} {}'.format('abcdef', 1.0, 2.25, 0.5, 1.5, 1e16, 1.0)
'{!r} {!s} {!a}'.format('é', 'b', 'é'), '{!r:>6}'.format('a')
'{:{w}}|{:{a}{w}}'.format('x', 'y', w=4, a='>')
'{}'.format(none), '{}'.format(true), '{}'.format([1, 'a']), '{:5}|'.format(true), '{:d}'.format(true)
'{:>10}'.format(none)
'{} {}'.format(1)
'{x}'.format(y=1)
'{0} {}'.format(1, 2)
'{:d}'.format('a')
'{:s}'.format(1)
'{'.format(1)
'}'.format(1)
'{:5}'.format([1])
'{a[0][b]}'.format(a=[{'b': 'c'}])
'{0.__class__}'.format(1)
'{x} {y}'.format_map({'x': 1, 'y': 2})
'%s' % 'a', '%s %s' % (1, 2), '%d%%' % 5, '%s' % none, '%s' % true, '%s' % [1, 'a'], '%s' % ([1],), '%s' % {'a': 1}
'%(a)s-%(b)d' % {'a': 'x', 'b': 3}, '%(a)5s|%(a)-5s|' % {'a': 'x'}
'%5d|%-5d|%05d|%+d|% d|%x|%X|%#x|%o|%#o|%c|%c' % (42, 42, 42, 42, 42, 255, 255, 255, 8, 8, 'a', 66)
'%f %.2f %e %.1e %g %G %5.1f|%-8.2f|%08.2f' % (1.5, 1.555, 12345.678, 12345.678, 0.00001, 1e20, 2.25, 3.14159, -3.14159)
'%r %a %s' % ('é', 'é', 'é'), '%.2s|%5.1s|' % ('abc', 'xyz'), '%*d' % (5, 42), '%.*f' % (2, 3.14159), '%-*d|' % (5, 1)
'%d' % 3.99, '%d' % true, '%i' % 3, '%u' % 3, '%s' % 1.0, '%x' % -255, '%05d' % -42, '%+.1f' % 0.05
'%d' % 'a'
'%x' % 1.5
'%s %s' % 1
'%s' % (1, 2)
'%s %s' % (1,)
'%(a)s' % {'b': 1}
'%(a)s' % 1
'%y' % 1
'%' % 1
'a' % 1
'a' % []
'a' % {}
'%c' % 'ab'
'%f' % 'x'
'%s' % ()
'%5s|%-5s|%5s' % ('é', 'é', none)
'%.0f %.0f %.0f %.3f' % (0.5, 1.5, 2.5, 2.0005)
{'a': 1}.keys(), {'a': 1}.values(), {'a': 1}.items()
{'a': 1, 'b': 2}.keys()|list, {'a': 1}.items()|list, {'a': 1, 'b': 2}.values()|sum
{'a': 1}.get('a'), {'a': 1}.get('b'), {'a': 1}.get('b', 2), {'a': 1}.copy(), {'a': 1}.keys()|length
{'a': 1, 'b': 2}.pop('a'), {}.pop('a', 5), {'a': 1}.popitem(), {'a': 1}.setdefault('a', 2), {}.setdefault('a')
{}.pop('a')
{}.popitem()
{'a': 1}.update({'b': 2}), {}.fromkeys(['a', 'b'], 0), {}.fromkeys('ab')
{'a': 1}.has_key('a')
{'a': 1} == {'a': 1.0}, {'a': 1, 'b': 2} == {'b': 2, 'a': 1}, [1, 2] == (1, 2), 'a' in {'a': 1}.keys(), 1 in {'a': 1}.values(), ('a', 1) in {'a': 1}.items()
[1, 2, 1].count(1), [1, 2].index(2), [3, 1, 2].copy(), (1, 2, 1).count(1), (1, 2).index(2)
[1].index(5)
[].pop()
[1].remove(5)
[1, 2, 3].pop(0), [1, 2, 3].pop(-2), [1].append(2), [2, 1].sort(), [1].extend('ab')
[1].pop(5)
(1, 2).append(3)
5 .bit_length(), 255 .bit_length(), (-1).bit_length(), 2.0.is_integer(), 2.5.is_integer(), 0.5.as_integer_ratio(), 5 .numerator, 1.5.real, 3 .conjugate()
2.5.hex(), 255 .to_bytes(2, 'big'), 10 .bit_count()
true.real, true.bit_length()
'abc'.__len__()
'a'.format
[1, 2].__class__
{'a': 1}.x|default('none'), {'a': {'b': 1}}.a.c|default('none'), [1].x is defined, 'a'.x is defined, 5 .x is defined
{'x': {'keys': 5}}.x['keys'], {'keys': 5}['keys'], {'a': 1}['keys'] is defined
'abc'['upper'](), {'a': 1}['get']('a')
'a b'.split()[0], 'a.b'.split('.')|last, ('a' ~ 'b').upper(), 'x'.upper().lower()
'ß'.upper(), 'İ'.lower()|length, 'ŉ'.title(), 'ǆ'.capitalize(), 'Σ'.lower(), 'ΑΣ'.lower()
'a' 'b'.upper()
'abc'.replace('b', 1)
'abc'.find(1)
'a,b'.split(1)
'abc'|attr('upper')
'abc'|attr('nope')
('abc'|attr('upper'))()
'abc'|method_call('upper'), 'a,b'|method_call('split', ','), 'abc'|method_call('nope'), {'a': 1}|method_call('get', 'b', 7)
1.5.is_integer, 1
"""
        .replace("'a'.format\n", "")
        .replace("1.5.is_integer, 1\n", "")
        .replace("'abc'|attr('upper')\n", "")
        .replace("{{ 'a' 'b'.upper() }}\n", "")
    )
    s.case("dict views follow", "{% set d = {'a': 1} %}{% set k = d.keys() %}{% do d.update(b=2) %}{{ k }}{{ k|list }}")
    s.case("dict changed while looping", "{% set d = {'a': 1} %}{% for k in d %}{% do d.update({'b' ~ k: 2}) %}{% endfor %}")
    s.case("list grows while looping", "{% set l = [1] %}{% for k in l %}{% if k < 4 %}{% do l.append(k + 1) %}{% endif %}{{ k }}{% endfor %}")
    s.case("sort by key", "{% set l = ['b', 'A', 'c'] %}{% do l.sort(reverse=true) %}{{ l }}")
    s.case("format with pillar", "{{ '%(x)s and %(y)s' % pillar }}", pillar={"x": 1, "y": "z", "unused": []})
    s.case("self reference", "{% set l = [1] %}{% do l.append(l) %}{{ l|length }}")
    s.case("percent of list", "{{ '%s' % pillar.l }} {{ '%s' % (pillar.l|join(',')) }}", pillar={"l": [1, "b"]})
