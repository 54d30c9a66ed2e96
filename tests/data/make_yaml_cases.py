#!/usr/bin/env python
"""Writes yaml_cases.json: what Salt's own YAML and argument code makes of each input.

Run it with a Python that can import salt (3008): python make_yaml_cases.py > yaml_cases.json

Values are encoded so that JSON keeps their type: floats {"f": text}, bytes {"b": hex}, maps {"m": [[key, value]]};
integers beyond 64 bits are text, which is what Salt sends for them.
"""

import json

import salt.utils.args
import salt.utils.yaml

SCALARS = """
yes No ON off true True TRUE FALSE y n Y yEs tRue
0 00 0644 -0644 +0644 0o644 0_7 07_7 08 09 0b101 -0b11 0b 0x1F 0xff_ff 0x -0x10 +12 -1 1_000 1__0 _1 1_ 0_
12:30:45 1:30 01:30 1:60 -1:30 0:0 10:20:30:40 1_0:30 1:3: 1:300
1e3 1.0e3 1.0e+3 1.e+3 1.5E-7 1. .5 -.5 +.5 00.5 1_0.5 ._5 .5_0 0.1 -1.25 1.5:3 190:20:30.15 190:20:30.
.inf -.INF +.Inf .iNf .nan .NaN -.nan .
9223372036854775807 9223372036854775808 18446744073709551615 18446744073709551616 -9223372036854775809
2026-11-21 2026-1-1 2001-12-14t21:59:43.10-05:00
~ null Null NULL nUll = << <<x - -- --- ... ! | > % %x @x `x &a *a ? ?x : :x x: a:b a#b #x
http://host:80/path?q=1 10.0.0.1 1.2.3 aa:bb:cc 192.168.0.1:4505 foo\\bar é 日本 😀 x]  x} [ ] { } [] {}
'quoted' "quoted" 'it''s' "a\\tb" "\\x41\\u00e9" "\\/" 'a\\nb' "bad\\q"
""".split()

DOCUMENTS = [
    "",
    " ",
    "\n\n",
    "# only a comment",
    "---",
    "--- a",
    "--- a\n...\n",
    "--- a\n--- b",
    "a\n---\nb",
    "a: 1\nb: 2",
    "b: 1\na: 2",
    "a: 1\na: 2",
    "1: a\n1.0: b",
    "true: a\n1: b",
    "1: a\n'1': b",
    "a:\n  b:\n    c: 1\n  d: [1, two, 3.0]\n",
    "a:\n- 1\n- 2\n",
    "a:\n  - 1\n  -\n  - x: 1\n    y: 2\n",
    "- - 1\n  - 2\n- 3\n",
    "[a, b, [c, {d: e}]]",
    "{a: 1, b: {c: 2}, d}",
    "{a, b: }",
    '{"a":1}',
    "{a:1}",
    "{a: b: c}",
    "[a: 1, b: 2]",
    "[a, b",
    "{a",
    "[a,, b]",
    "[a, b,]",
    "a: b: c",
    "a: 'x' y",
    "a: |\n  x",
    "a: |\n  x\n  ",
    "a: |\n   x\n  ",
    "a: >-\n  x",
    "a: |+\n  x",
    "[::1]",
    "[x:]",
    "{a:?b}",
    "[fe80::1, a:b]",
    "[>=1.2]",
    "{v: '>=1.2'}",
    "!!seq [:x]",
    "- :x\n- ?x\n",
    "a:\n- {}\n- :x\n- [:x: 1]",
    "a:\n- {}\n- :x\n- ?x\n",
    "{}: :x",
    "[]: &a\n  ?x: :y",
    "a: |\n  line 1\n   line 2\n\n  line 3\n",
    "a: |-\n  x\n",
    "a: |+\n  x\n\n",
    "a: >\n  folded\n  text\n\n  next\n",
    "a: >-\n  x\n  y\n",
    "a: |2\n    x\n",
    "a: plain\n  goes on\n  here",
    "a: 'single\n  goes on'",
    'a: "double\\\n  goes on"',
    'a:\n  b: "x\ny"',
    "a:\n  b: 'x\n y'\n  c: 1\n",
    'a:\n  b: "x\\\ny"\n  c: 1\n',
    "a:\n    b: 'it''s\n\n  z'\n    c: 1\n",
    '- a:\n    - "x\n y \\"q\\"\n\n z"\n    - 2\n',
    'a:\n  b: "x\n# y"\n',
    "a: x # comment",
    "a: x#y",
    "a: 'x'# comment",
    "a: [x]# comment\nb: {}#\n",
    "a: 'x'#y: z",
    "a\tb: c",
    "a:\tb",
    "a:\t\tb\nc: \td\ne:\n  f:\t- g",
    "a: |\n  b:\tc\nd:\te",
    "\ta: b",
    "a: 1\n\tb: 2",
    "? a\n: b",
    "? [a]\n: 1",
    "? {a: 1}\n: 1",
    "? a\n? b\n",
    "a: &x {b: 1}\nc: *x",
    "a: &x 1\nb: *x",
    "a: *nothing",
    "a: &secret! x",
    "a: &secret/",
    "a: &x-1_b [1]\nb: [*x-1_b, &y 2, &z]",
    "a: !!str &x 1\nb: &y !!str 2\nc: *x",
    "base: &b {x: 1, y: 2}\nd:\n  <<: *b\n  y: 3",
    "d:\n  y: 3\n  <<: {x: 1, y: 2}\n  z: 4",
    "d:\n  <<: [{a: 1}, {b: 2}]\n  c: 3",
    "d:\n  <<: [{a: 1, b: 1}, {b: 2}]\n",
    "d:\n  <<: {1: x}\n  '1': y",
    "d:\n  <<: {<<: {a: 1}, b: 2}\n  c: 3",
    "d:\n  <<: {a: 1}\n  <<: {b: 2}",
    "d:\n  <<: x",
    "d:\n  <<: [x]",
    "d:\n  '<<': {a: 1}",
    "<<: null",
    "=: 1",
    "a: =",
    "!!str 12",
    "!!str yes",
    "!!str [a]",
    "! 12",
    "!!int '12'",
    "!!int 0x1f",
    "!!int 0644",
    "!!int x",
    "!!float 3",
    "!!float x",
    "!!float 1e3",
    "!!bool yes",
    "!!bool maybe",
    "!!null x",
    "!!python/unicode x",
    "!!python/unicode 1",
    "!!python/str x",
    "!!python/object:os.system x",
    "!!python/object/apply:os.system [id]",
    "!!python/tuple [1, 2]",
    "!!binary aGVsbG8=",
    "!!binary a1b2c3",
    "!!binary /w==",
    "!!binary |\n  aGVs\n  bG8=\n",
    "!!binary a",
    "!!binary é",
    "!!timestamp 2020-01-01",
    "!!set {a}",
    "!!omap [a: 1, b: 2]",
    "!!pairs [a: 1, a: 2]",
    "!!omap {a: 1}",
    "!!map [a]",
    "!!seq {a: 1}",
    "!foo x",
    "!!foo x",
    "!<tag:yaml.org,2002:str> 1",
    "%YAML 1.1\n---\na: yes",
    "%TAG ! tag:yaml.org,2002:\n---\n!str 1",
    "a: \x07",
    "a: \x1b[0m",
    "a: \x7f",
    "a: \u0085b",
    "\ufeffa: 1",
    "a: 1\r\nb: 2\r\n",
    "a: 'b\n\n  c'",
    "key with spaces: v",
    "'quoted key': v",
    '"a": 1',
    "a:\n",
    "- a\n-b",
    "-a: 1",
    "a: - b",
    "a: [1, 2]: 3",
    "mode: 0755\nmode2: '0755'",
    "a: 1\n b: 2",
    "a:\n  b: 1\n c: 2",
    "{{ x }}",
    "a: {{ x }}",
    "a: %x",
    "a: @x",
    "a: `x`",
    "- !!str\n- !!null\n- ",
    "interface: ::",
    "interface: 0.0.0.0",
    "file_roots:\n  base:\n    - /srv/salt\n  dev: [/srv/dev]\n",
    "base:\n  '*':\n    - core\n  'G@os:Debian and web*':\n    - web\n",
    "nginx:\n  pkg.installed: []\n  service.running:\n    - require:\n      - pkg: nginx\n",
]

ARGUMENTS = SCALARS + [
    "",
    " ",
    " x ",
    " 1 ",
    "None",
    "none",
    "1_000_000",
    " 1_0 ",
    "12_",
    "__",
    "20240101000000123456",
    "a b",
    "a: b",
    "a:b",
    "{a: b}",
    "{a: [1, yes]}",
    "{'a': None}",
    " {a: 1}",
    "{}",
    "{",
    "[1, 2]",
    "[::1]",
    "[::1]:4505",
    "[>=1.2]",
    "{pkg: >=1.2}",
    "&& x",
    "& x",
    "&x/y z",
    ": x",
    ": # x",
    "[x:]",
    "[a, 'b', 0644]",
    " [1]",
    "- a",
    "#",
    " # x",
    "x #y",
    "x#y",
    "1 # c",
    "[1, '#']",
    "{a: '#'}",
    "'x' # y",
    "a\tb",
    "1\n",
    "a\nb",
    "\r",
    "!!str 1",
    "!!binary aGVsbG8=",
    "!!int '7'",
    "!x y",
    "!",
    "|",
    "!!null x",
    "*",
    "*.example.org",
    "web[1-3]",
    "[0-9]+",
    "G@os:Debian",
    "rm -rf /tmp/x; echo 'done'",
    "echo \"it's\"",
    "{% if x %}",
    "{{ grains.id }}",
    "{a: b",
    "%Y-%m-%d",
    "@daily",
    "&x 1",
    "&x",
    "2026-11-21",
    "1:30",
    "a: b: c",
    "~",
    "~/file",
    "\x1b[0m",
    "é",
    "\ufeffx",
    "<html>",
    ">=1.2",
    "> x",
    "| x",
    "? x",
    "?",
    "- ",
    "-",
    "x:",
    "x: ",
    "...x",
    "--- x",
    "-- x",
    "'",
    '"',
    "''",
    '""',
    "'a' b",
    "[]",
    "[[]]",
    "[1",
    "0777_",
    "99999999999999999999999",
    "{a: 1, a: 2}",
    "{a: 1} b",
    "[1] b",
    "=",
    "<<",
    "[<<]",
    "{<<: {a: 1}}",
    "[=]",
]

INPUTS = [
    [],
    ["a", "b=1", "c=x=y", "=x", "d==x"],
    ["a-b=1", "a.b=2", "1a=3", "_x=4", "a b=5", "é=6"],
    ["x=[1, 2]", "y={a: 1}", "z=None", "e=", "s= "],
    ["b=1", "b=2"],
    ["a=b\nc", "a=b\n", "a\n=b"],
    ["-a=1", "--opt=1", "a/b=1", "a:b=1", "a-=1", "٣=1"],
    ["__kwarg__=True", "test=True", "pillar={'a': 'b'}"],
]

EMITTED = [
    {"a": 1, "b": [1, 2, {"c": []}], "d": {}},
    {"z": 1, "A": 2, "é": 3, "a": 4, "_": 5},
    {1: 2, "z": 3, None: 4},
    {2: "a", 10: "b", 1: "c", True: "d"},
    {2: "a", 1.5: "b", -1: "c"},
    [], {}, "x", "", None, True, False, -5, 2**63, 2**64 - 1,
    1.0, 1e20, 1e16, 1e15, 0.1, 123456789.123, 1e-5, 0.0001, 1.5e-7, -0.0, 1.7976931348623157e308, 5e-324,
    float("inf"), float("-inf"), float("nan"),
    "multi\nline", "multi\nline\n", "\n", "tab\there", "\u2028x", "\x1b[0m", "a\x00b", "\u0085x", "a\rb", "\u00a0x",
    " lead", "trail ", "a  b", "a\n\nb", "  a\nb", "a\n b", "a \nb", "\ta", "a\t", "x\n\n\n", "'q'", '"dq"', "it's", "a'b: c",
    "---a", "...a", "a---", "? x", "?x", "- x", "-x", ": x", ":x", "x:", "a: b", "a #b", "a# b",
    "[x", "x]", ",x", "x,y", "{x", "x}", "\ufeffx", "a\u200bb", "\ud7ff", "\ufffd", "\x7f", "\x80", "\U0001f600 smile",
    "x" * 100, ("word " * 30).strip(), ("word: " * 30).strip(), ("line " * 20).strip() + "\nb", "x " * 45 + " ",
    " " + "x " * 60, "a" * 79 + " b", "a" * 80 + " b", "a" * 81 + " b", "a ba" * 40, "long " * 30 + "\n" + "x", "it's " * 30,
    "\x1b " * 40, "a\\b  " * 30, "é " * 60,
    b"abc\xff", b"", b"x" * 100,
    {"a": "multi\nline", "b": "long " * 30, "c": {"d": "word " * 20 + "end"}},
    [[1, 2], [3, [4]]], [[], [[]], {}], [{"a": 1, "b": 2}, {"c": {"d": 1}}], {"a": [{"b": [{"c": None}]}]},
    {"k" * 128: 1}, {"k" * 129: [1, 2]}, {"k" * 129: {"a": 1}}, {"a\nb": 1}, {"": 1}, {"yes": 1}, {1.5: 1}, {"a: b": "#"},
    {b"abc": 1}, {"a": b"abc"}, [b"abc", {"x": b"abc\n"}],
    {"web1": {"pkg_|-nginx_|-nginx_|-installed": {"result": True, "changes": {}, "comment": "All fine.", "duration": 12.5}}},
    {"web1": ["one", "two"], "web2": "Minion did not return. [No response]"},
] + SCALARS


def encode(value):
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**64 else str(value)
    if isinstance(value, float):
        return {"f": repr(value)}
    if isinstance(value, bytes):
        return {"b": value.hex()}
    if isinstance(value, (list, tuple, set)):
        return [encode(item) for item in value]
    return {"m": [[encode(k), encode(v)] for k, v in value.items()]}


def loaded(text):
    """The value, or the line and column of the error (from 1) where PyYAML tells them."""
    try:
        return {"value": encode(salt.utils.yaml.safe_load(text))}
    except Exception as exc:  # ValueError and the like come from single scalars
        mark = getattr(exc, "problem_mark", None)
        return {"error": [mark.line + 1, mark.column + 1] if mark else None}


def main():
    out = {
        "load": [[text, loaded(text)] for text in SCALARS + DOCUMENTS],
        "arg": [[text, encode(salt.utils.args.yamlify_arg(text))] for text in ARGUMENTS],
        "input": [
            [args, [encode(list(part)) if isinstance(part, list) else encode(part)
                    for part in salt.utils.args.parse_input(args, condition=False)]]
            for args in INPUTS
        ],
        "dump": [
            [encode(value), salt.utils.yaml.safe_dump(value, default_flow_style=False)]
            for value in EMITTED
        ],
    }
    lines = []
    for name, cases in out.items():
        rows = ",\n  ".join(json.dumps(case) for case in cases)
        lines.append(f' "{name}": [\n  {rows}\n ]')
    print("{\n" + ",\n".join(lines) + "\n}")


if __name__ == "__main__":
    main()
