"""Filters of Salt, except those of networks and serialisation."""


def cases(s):
    s.expressions(
        r"""
'yes'|to_bool, 'True'|to_bool, '1'|to_bool, 'on'|to_bool, 'no'|to_bool, 1|to_bool, 0|to_bool, -1|to_bool, none|to_bool, true|to_bool, [1]|to_bool, []|to_bool, {}|to_bool, 1.5|to_bool, ()|to_bool
'my_text'|quote, "it's"|quote, 'a b'|quote, ''|quote, 'a/b-c_d.e:f@g%h+i=j,k'|quote, '$x'|quote, 'é'|quote
5|quote
'a.b*c[d]-e f#\n'|regex_escape, 'é/_:,~&%"\''|regex_escape
'abcd'|regex_search('^(.*)BC(.*)$', ignorecase=true), 'abcd'|regex_search('bc'), 'abcd'|regex_search('x'), 'a\nb'|regex_search('^b', multiline=true), 'a1b22'|regex_search('([a-z])(\d+)$'), 'ab'|regex_search('(x)?b'), 'foo=bar'|regex_search('(?P<k>\w+)=(?P<v>\w+)')
'abcd'|regex_match('^(.*)BC(.*)$', ignorecase=true), 'abcd'|regex_match('bc'), 'abcd'|regex_match('ab'), 'x\ny'|regex_match('x$'), 'x\n'|regex_match('x$'), 'é1'|regex_match('\w+')
'a(b'|regex_search('(')
5|regex_search('5')
'lets replace spaces'|regex_replace('\s+', '__'), 'ab12cd'|regex_replace('(\d+)', '<\\1>'), 'John Smith'|regex_replace('(?P<f>\w+) (?P<l>\w+)', '\\g<l> \\g<f>'), 'AbAb'|regex_replace('a', 'x', ignorecase=true), 'a\nb'|regex_replace('^', '> ', multiline=true), 'abc'|regex_replace('', '-'), 'abc'|regex_replace('b*', 'X'), 'a.b'|regex_replace('\.', '\\n'), 'x'|regex_replace('x', '\\g<0>\\g<0>')
'a'|regex_replace('a', '\\2')
'a'|regex_replace('(a)', '\\g<nope>')
'aab'|regex_search('(?<=a)b'), 'abab'|regex_match('(ab)\\1'), 'foo.sls'|regex_replace('(?i)\.SLS$', ''), 'x-y_z'|regex_replace('[^a-z]', '')
'example'|uuid, 'é'|uuid, ''|uuid
5|uuid
[1, 2, 3, 4]|avg, [1.5, 2.5]|avg, 5|avg, '2.5'|avg
[]|avg
['a', 'b']|avg
[1, 2, 3]|union([2, 4]), [1, 2]|intersect([2, 3]), [1, 2, 3]|difference([2]), [1, 2, 3]|symmetric_difference([3, 4]), ['b', 'a', 'b']|union(['c']), [[1]]|union([[1], [2]]), []|union([]), ['a']|difference(['a'])
(1, 2)|union((2, 3)), (1, 2, 3)|intersect((3, 2)), (1, 2)|difference((2,)), (1, 2)|symmetric_difference((2, 3))
[1]|union((2,))
(1, 2, 2)|unique, ('b', 'b')|unique, [1, [2], [2]]|unique, []|unique
[3, [4, 2, ['x']]]|flatten, [3, [4, [2]]]|flatten(levels=1), [3, none, [4, [2]]]|flatten(levels=1, preserve_nulls=true), [3, none, 'null', 'None', '']|flatten, [(1, 2), 'ab']|flatten, [[1], {'k': 2}]|flatten, []|flatten
5|flatten
[1, 2, 3]|combinations(2)|list, 'abc'|permutations(2)|list|length, [1, 2]|product([3, 4])|list, [1, 2]|combinations_with_replacement(2)|list, [1, 2, 3]|compress([1, 0, 1])|list, [1, 2]|zip(['a', 'b', 'c'])|list, [1, 2]|zip_longest(['a'], fillvalue='-')|list, [1, 2]|permutations|list, [1, 2]|product(repeat=2)|list, [1, 2]|zip_longest([3])|list, [1]|zip|list
[1, 2]|combinations
'foo'|sequence, ['a']|sequence, {'a': 1}|sequence, (1,)|sequence, none|sequence, 5|sequence
'x'|skip ~ '|', 5|skip, [1]|skip
'5'|to_num, '5.5'|to_num, 'x'|to_num, ' 7 '|to_num, 5|to_num, 5.7|to_num, '0x10'|to_num, '1e3'|to_num, '5'|str_to_num, true|to_num, 'nan'|to_num, '1_000'|to_num
none|to_num
'ff'|is_hex, '0xff'|is_hex, 'xyz'|is_hex, 5|is_hex, none|is_hex, ''|is_hex, ' a '|is_hex
'a b'|contains_whitespace, 'ab'|contains_whitespace, ''|contains_whitespace, 'a\tb'|contains_whitespace
'2G'|human_to_bytes, '30MB'|human_to_bytes, '64KiB'|human_to_bytes, '5'|human_to_bytes, '1.5k'|human_to_bytes, 'x'|human_to_bytes, '5 MB'|human_to_bytes(handle_metric=true), '5'|human_to_bytes('M'), 5|human_to_bytes, '1.2.3G'|human_to_bytes, '7Q'|human_to_bytes, ' 3 TB '|human_to_bytes, '1E'|human_to_bytes, '5b'|human_to_bytes
'web1'|check_whitelist_blacklist(whitelist=['web*']), 'web1'|check_whitelist_blacklist(blacklist=['web*']), 'web1'|check_whitelist_blacklist(whitelist='db*'), 'web1'|check_whitelist_blacklist, 'web1'|check_whitelist_blacklist(['web.*'], ['web2']), 'web12'|check_whitelist_blacklist(['web\d+$'])
'web1'|check_whitelist_blacklist(5)
'camelCaseString'|to_snake_case, 'HTTPServer'|to_snake_case, 'getURLFor'|to_snake_case, 'x'|to_snake_case, 'A1B'|to_snake_case
''|to_snake_case
'snake_case_here'|to_camelcase, 'snake_case'|to_camelcase(uppercamel=true), '_x_y'|to_camelcase, 'abc'|to_camelcase, 'aBC_dEF'|to_camelcase
1040814000|strftime, '1040814000'|strftime, 1040814000|date_format('%Y/%m/%d %H:%M:%S'), 1040814000.5|strftime('%f'), '1040814000.25'|strftime('%s %j %a %A %b %B %d %e %y %I %p %M %S %U %W %w %Z%z %% %x %X %c %D %F %T %R %G-%V %u %h %n|%t|')
'not a date'|strftime
'hello'|base64_encode, 'aGVsbG8='|base64_decode, 'é'|base64_encode, ''|base64_encode, 'w6k='|base64_decode, '/w=='|base64_decode, 'aGVs\nbG8='|base64_decode, 'aGVsbG8=!'|base64_decode
'aGVsbG8'|base64_decode
5|base64_encode
'x'|md5, 'x'|sha1, 'x'|sha256, 'x'|sha512, 'é'|md5, ''|sha256, 'x'.encode()|sha1
5|md5
'get salted'|hmac('shared secret', 'eBWf9bstXg+NiP5AOwppB5HMvZiYMPzEM9W5YMm/AmQ='), 'get salted'|hmac('wrong', 'x'), 'get salted'|hmac_compute('shared secret')
{'a': {'b': {'c': 1}}}|traverse('a:b:c'), {'a': [10, {'k': 5}]}|traverse('a:0'), {'a': [10, {'k': 5}]}|traverse('a:k'), {'a': 1}|traverse('x:y', 'd'), {'a': 1}|traverse('a:b', 'd'), {'a': {1: 'x'}}|traverse('a:1'), {'a': {'b': 1}}|traverse('a.b', delimiter='.'), [1, [2, 3]]|traverse('1:0'), {'a': 1}|traverse(['a']), {1: 2}|traverse(1), {true: 2}|traverse('yes'), {'a': 'str'}|traverse('a:0', 'd'), {'a': [1]}|traverse('a:5', 'd'), {'a': [1]}|traverse('a:-1')
{'a': 1, 'b': 2}|to_entries, ['x', 'y']|to_entries, [{'key': 'a', 'value': 1}, {'name': 'b', 'Value': 2}, {'Key': 'c', 'value': none}]|from_entries, [{'key': 0, 'value': 1}]|from_entries, {'a': 1}|to_entries|from_entries, [{'key': 'a'}]|from_entries
'x'|to_entries
'a'|substring_in_list(['xay', 'b']), 'z'|substring_in_list(['xay', 'b']), 'a'|substring_in_list([])
[1]|is_list, 'a'|is_list, (1,)|is_list, [1]|is_iter, 'a'|is_iter, {}|is_iter, 5|is_iter, 'a'|is_iter(ignore=none)
['foo', 'Foo', 'bar', 'Bar']|sorted_ignorecase
[1]|sorted_ignorecase
['+--+', '| id | name |', '+--+', '| 1 | a |', '| 2 | b c |', '']|mysql_to_dict('id'), ['| id | v |', '| 1 | 2.5 |']|mysql_to_dict('v')
[true, false]|exactly_one_true, [1, 1]|exactly_one_true, [0, '', 3]|exactly_one_true, [1, 1, 0]|exactly_n_true(2), []|exactly_n_true(0), [1]|exactly_n_true(0), [1, 1, 1]|exactly_n_true(2)
{'a': 1, 'b': 2}|compare_dicts({'b': 3, 'b': 2})|dictsort, {'a': 1}|compare_dicts({'a': 2}), {'a': 1}|compare_dicts({'a': 1}), [1, 2]|compare_lists([2, 3]), [1]|compare_lists([1]), ['a', 'a']|compare_lists([])
{}|set_dict_key_value('a:b:c', 1), {'a': {'b': 1}}|set_dict_key_value('a:b', 2), {'a': 1}|set_dict_key_value('a:b', 2), {}|set_dict_key_value('a.b', 1, delimiter='.'), {'a': {}}|update_dict_key_value('a', {'x': 1}), {}|update_dict_key_value('a:b', {'x': 1}), {'a': [1]}|append_dict_key_value('a', 2), {}|append_dict_key_value('a:b', 2), {'a': [1]}|extend_dict_key_value('a', [2, 3]), {}|extend_dict_key_value('a', 'xy'), {'a': none}|append_dict_key_value('a', 1)
{'a': 1}|append_dict_key_value('a', 2)
{'a': 1}|update_dict_key_value('a', {'b': 1})
{'a': [1]}|extend_dict_key_value('a', 5)
{'a': {}}|update_dict_key_value('a', 5)
{'é': ['x', {'y': 1}, ('t',)], 'n': none}|json_encode_dict, ['é', 1, ['x']]|json_encode_list, {'a': 'b'}|json_decode_dict, ['a']|json_decode_list
'é'|to_bytes, 'abc'|to_bytes|length, 'é'|to_bytes('latin-1')
5|to_bytes
range(10)|list|random_shuffle(seed='static'), ['a', 'b', 'c', 'd']|random_sample(2, seed='static'), [1, 2, 3]|random_shuffle('x'), range(30)|list|random_sample(10, 'minion1')
[1, 2, 3]|random_shuffle|sort, [1, 2, 3]|random_sample(2)|length, 5|random_hash|length, 5|rand_str('sha256')|length, 12|random_str|length, 'AC:DE:48'|gen_mac|length
[1]|random_sample(5)
'a'|path_join('b', 'c'), '/a/'|path_join('/b//', '../c'), 'a'|path_join, ''|path_join('x'), '/'|path_join('a'), '//a'|path_join('b'), './a/./b'|path_join('..')
'a' is match('a') and 'b' is equalto 'b'
[1, 2, 3, 4, 5, 6]|select('odd')|union([9])
'a,b'|method_call('split', ',')|join('+')
ifelse is defined
raise is defined, odict is defined, show_full_context is defined
"""
    )
    s.expressions(
        r"""
data|json_query('services[].port'), data|json_query('services[0].name'), data|json_query('services[?port > `30`].name'), data|json_query('missing'), data|json_query('services[*].{n: name, p: port}'), data|json_query('length(services)'), data|json_query('services[-1].host'), data|json_query('sort_by(services, &port)[].name'), data|json_query("services[?name == 'ssh'] | [0].host"), data|json_query('meta.*'), data|json_query('keys(meta)'), data|json_query('services[:2].port'), data|json_query('[services[0].port, meta.a]'), data|json_query('max(services[].port)'), data|json_query('meta."a"'), data|json_query("join(',', services[].name)"), data|json_query('@.meta.b || `5`'), data|json_query("services[?contains(name, 's') && port < `24`].port")
data|json_query('services[')
data|json_query('nofunc(@)')
""",
        vars={"data": {"services": [{"name": "http", "host": "1.2.3.4", "port": 80}, {"name": "smtp", "host": "1.2.3.5", "port": 25}, {"name": "ssh", "host": "1.2.3.6", "port": 22}], "meta": {"a": 1, "b": None}}},
    )
    s.case("set_dict mutates", "{% set d = {'a': 1} %}{% set e = d|set_dict_key_value('b:c', 2) %}{{ d }}{% do d|append_dict_key_value('l', 1) %}{{ e }}")
    s.case("quoting in a command", "cmd: {{ ['a b', \"c'd\", 'e']|map('quote')|join(' ') }}")
    s.case("strict undefined in containers", "{{ [1, missing]|tojson }}")
    s.case("strict undefined in filters", "{{ {'a': missing.b}|json }}")
    s.case("undefined in a list printed", "{{ [missing] }}")
    s.case("several undefined", "{{ [missing, other]|yaml }}")
