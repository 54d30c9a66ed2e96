"""YAML as state and pillar files have it."""


def cases(s):
    s.lines(
        r"""
a: yes\nb: No\nc: on\nd: OFF\ne: True\nf: y\ng: n
a: 0644\nb: 0o644\nc: "0644"\nd: 010\ne: 0x1F\nf: 0b11\ng: 1_000\nh: 08
a: 2026-01-01\nb: 2026-01-01 10:00:00\nc: 12:30\nd: 12:30:45
a: 1.5\nb: 1e3\nc: 1.0e+3\nd: .5\ne: .inf\nf: -.inf\ng: 1.
a: ~\nb: null\nc:\nd: ''\ne: Null
a: |\n  x\n  y\nb: >\n  x\n  y\n\n  z\nc: |-\n  x\nd: |+\n  x\n\ne: >-\n  f\n  g
a: |2\n    x\n   y
a: &x {b: 1}\nc: *x\nd:\n  <<: *x\n  e: 2
a: &x {b: 1, c: 2}\nd: &y {b: 3}\ne:\n  <<: [*x, *y]\n  f: 1
a:\n  <<: {b: 1}\n  b: 2
a: 1\na: 2
a:\n  b: 1\n  b: 2
1: a\n'1': b\ntrue: c
a: {b: [1, {c: d}], e: 'f'}
[a, b, c]
- a\n- b: 1\n  c: 2\n-\n  - x
x
5

# only comment
---\na: 1\n
---\na: 1\n---\nb: 2
a: 1\n...\n
a: é日本\nb: "\\u00e9\\x41\\n"\nc: 'it''s'
a: "x\n  y"\nb: 'x\n\n  y'\nc: x\n  y
a:\tb
a:\n\tb: 1
a: b: c
a: [1, 2
a: {b
a: 'x
a: *nope
a: @x
a: `x`
a: %x
a: - b
{{ x }}
{a: 1}: b
? a\n: b
[a]: 1
a: !!str 5\nb: !!int "5"\nc: !!float 1\nd: !!bool yes\ne: !!null ''
a: !nope x
a: !!python/object/apply:os.system [x]
a: !!binary aGVsbG8=
a: !!set {x, y}
a: !!omap [x: 1, y: 2]
a: x #c\nb: x#c\nc: 'x' #c
a b: c d\n"q k": v\n'r k': w
http://x.y/z: {url: http://a.b:80/c}
a: [x, y: 1, {z: 2}]
a: x,y\nb: [x,y]\nc: {x:y}
state:\n  file.managed:\n    - name: /etc/x\n    - mode: 0644\n    - contents: |\n        line\n          more\n    - require:\n      - pkg: vim
include:\n  - a.b\n  - c\nextend:\n  x:\n    service:\n      - watch:\n        - file: y
vim:\n  pkg.installed: []\nnginx:\n  pkg:\n    - installed\n  service.running:\n    - enable: True
a: >\n   folded\n   text\n\n   para\n     more\n   end
a:   spaced   \nb:     'x'   
a: 12345678901234567890\nb: -0\nc: +5\nd: 1:2
a: =\nb: '='
a: null\nnull: b
"a": "b\\\n   c"
a: ""\nb: " "\nc: '  '
key with spaces: 1\nkey-dash: 2\nkey.dot: 3
""".replace("\\n", "\x00"),
        kind="yaml",
    )
    for case in s.cases:
        case["template"] = case["template"].replace("\x00", "\n")
        case["name"] = case["name"].replace("\x00", "⏎")
    s.case("empty", "", kind="yaml")
    s.case("lots of whitespace", "\n\n  \n", kind="yaml")
    s.case("bom", "\ufeffa: 1\n", kind="yaml")
    s.case("crlf", "a: 1\r\nb: |\r\n  x\r\n  y\r\n", kind="yaml")
    s.case("nel and friends", "a: 'x\u0085y'\nb: \"x\u2028y\"\n", kind="yaml")
    s.case("nul", "a: \x00\n", kind="yaml")
    s.case("control", "a: \x01\n", kind="yaml")
    s.case("deep", "a:\n" + "".join("  " * n + f"k{n}:\n" for n in range(1, 30)) + "  " * 30 + "x: 1\n", kind="yaml")
    s.case("shebang and yaml", "#!jinja|yaml\na: {{ 1 + 1 }}\n", kind="sls")
    s.case("no data", "{# nothing #}\n", kind="sls")
    s.case("conflicting in sls", "{% for i in [1, 2] %}\nx:\n  cmd.run\n{% endfor %}\n", kind="sls")
    s.case("double braces", "a: {{ '{{' }}x{{ '}}' }}\n", kind="sls")
