"""
Makes target_cases.json by running stock Salt's own code over fake minions.

    python3 make_target_cases.py 3006=/path/to/python 3008=/path/to/python

Each python must have that release of Salt. The results of the releases are merged: where they agree
there is one value, where they differ a map {"3006": ..., "3008": ...}.

The script writes keys and cached data in the layout of each release, asks CkMinions (the master's
prediction), the matcher modules (each minion's own verdict), subdict_match, nodegroup_comp,
parse_target, fnmatch, re, and some helpers, and records what they answer.
"""

import json
import os
import random
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))

# ---------------------------------------------------------------- the fleet


def grains(os_, family, num, v4, v6, **more):
    data = {
        "os": os_,
        "os_family": family,
        "num_cpus": num,
        "mem_total": num * 1000,
        "virtual": "kvm",
        "master": "salt",
        "ipv4": v4,
        "ipv6": v6,
        "roles": ["web", "Cache"],
        "init": None,
        "selinux": {"enabled": False, "enforced": "Disabled"},
        "osrelease": "12.5",
        "load": 1.5,
        "systemd": {"version": "252", "features": "+PAM -APPARMOR"},
    }
    data.update(more)
    return data


FLEET = {
    "web1": (
        grains("Debian", "Debian", 4, ["10.0.0.1", "127.0.0.1"], ["::1", "fe80::1"]),
        {
            "role": "web",
            "users": {"alice": {"uid": 1000, "shell": "/bin/bash"}, "bob": {"uid": 1001}},
            "ports": [80, 443],
            "secret": "p:w:d",
            1: {"x": "int key"},
            True: "bool is one",
        },
    ),
    "web2": (
        grains("Debian", "Debian", 8, ["10.0.0.2", "127.0.0.1"], ["::1"], roles=["web"]),
        {"role": "WEB", "users": {}, "ports": [8080], "list": [{"name": "a"}, {"name": "b", "k": {"z": 1}}, "plain"]},
    ),
    "web10.example.com": (
        grains("Ubuntu", "Debian", 16, ["10.0.1.10", "192.168.1.10"], [], osrelease="22.04"),
        {"role": "web", "env": "prod", "nested": [[1, 2], ["a", {"b": None}]], "url": "http://x:80/a"},
    ),
    "db-1": (
        grains("RedHat", "RedHat", 2, ["10.0.0.20"], ["2001:db8::20"], roles=["db"]),
        {"role": "db", "env": "prod", "a": {"b": {"c": {"d": "deep"}}}, "a:b": "flat"},
    ),
    "DB2": (
        grains("RedHat", "RedHat", 2, ["172.16.5.5"], ["2001:db8::21"], roles="db"),
        {"role": "db", "env": None, "flags": {"on": True, "off": False}},
    ),
    "mail.example.com": (
        grains("FreeBSD", "FreeBSD", 1, "10.0.0.40", "2001:db8::40", roles=[]),
        {"role": "mail", "weights": {"0": "zero", 1.5: "float"}, "mixed": [1, "two", {"three": 3}, None, True]},
    ),
    "win_host": (
        grains("Windows", "Windows", 4, ["192.168.1.77"], ["FE80::77"], path="C:\\Windows"),
        {},
    ),
    "edge[1]": (
        grains("Alpine", "Alpine", 1, ["10.255.255.255"], ["::ffff:10.0.0.1"], **{"a.b": "dot", "GPU [X]": "y"}),
        {"role": "edge*", "k?": "q"},
    ),
    "größe": (
        grains("Debian", "Debian", 3, ["127.0.0.1"], ["fe80::5%eth0"], city="Köln", ID="ÄÖÜ"),
        {"role": "ümlaut", "Straße": "GROSS"},
    ),
    "arm-node": (
        {"os": "Raspbian", "os_family": "Debian", "cpuarch": "aarch64", "*": "star", "x": {"*": {"y": 1}}},
        {"role": "iot", "*": {"z": 5}},
    ),
    "nocache": (grains("Debian", "Debian", 4, ["10.0.0.99"], []), {"role": "web"}),
    "ghost": (grains("Debian", "Debian", 4, ["10.0.0.66"], []), {"role": "web"}),
}
ACCEPTED = [name for name in FLEET if name != "ghost"]
CACHED = [name for name in FLEET if name != "nocache"]

NODEGROUPS = {
    "one": "web1",
    "hosts": "web1 web2 db-1",
    "hostlist": ["web1", "web2"],
    "numbers": ["web1", "5x"],
    "regex": "web[0-9] db.?",
    "regexlist": ["web\\d", "db-1"],
    "globbed": "web*",
    "two": "web1 or web2",
    "mixed": "G@os:Debian or L@db-1,DB2",
    "nest": "N@two or N@hosts",
    "nestonly": "N@hosts",
    "nestlist": ["N@two", "or", "N@regex"],
    "negated": "not N@two",
    "parens": "( web1 or web2 ) and not web2",
    "cycle": "N@cycle2 or web1",
    "cycle2": "N@cycle or web2",
    "self": "web1 or N@self",
    "unknown": "N@nope or web1",
    "empty": "",
    "emptylist": [],
    "bad": 5,
    "wordsglob": "web1 web2*",
    "deep": "N@nest and not N@one",
}

# ---------------------------------------------------------------- the expressions

GLOBS = """* web* web1 web? web[12] web[!1] web[0-9]* *.example.com *b* DB2 db* [dD][bB]* web1* edge[1] edge[[]1] edge[[]1[]]
nope ??? ????? * ** web** *[!a-z]* [a-z]*-[0-9] [!w]* gr*e größe gr??e [ü]* *ö* web1,web2 {web1,web2} web10.* w*1* .* *. WEB1
[ web[ web[] win_host win-host *_* \\* ghost nocache""".split() + ["", " ", "web1 web2", "web\n"]

PCRES = """web .*1 web\\d$ web\\d+ (web|db) ^db-1$ web1|db-1 .*example.* [a-z]+-\\d DB (?i)db (?!web) (?!web).* (?=web)web1
(?P<x>w)eb(?P=x)? ([a-z])\\1 .*\\.com$ \\w+ \\W [ ( ) * +a a** a{1,2 web{1} web{1}$ w.*\\Z w.*\\z \\Aweb (?x)w\\ eb (?#c)web web$| (?:web)(?#x)1
[^w] [[]x edge\\[1\\] edge[[]1] größe gr\\w+e$ \\S+ .{4} .{4}$ (?i:WEB)1 (?i)WEB (?L)web (?a)gr\\w+e (?u)web (?s).* \\p{L} web[\\d] web[\\D]
web(?<=b)1 w(?<!x)eb (w)(e)(b)\\3? \\x77eb \\u0077eb \\167eb web1\\b web\\B1 (?>web)1 web?+ [a-\\d] [z-a] \\ (?P<a (?P<1>a) (?(1)a) ()(?(1)web|x)""".split() + ["", "web1 "]

LISTS = """web1 web1,web2 web1,nope,db-1 ,web1, web1,,web2 web1,web1 nope * WEB1 ghost web2,web1 größe nocache web,web1x edge[1]""".split() + [
    "", ",", "web1, web2", " web1", ["web1", "web2"], ["nope", "web1", "nope"], [], ["web1,web2"], ["db-1", "web1", "db-1"], [""],
]

GRAINS = """os:Debian os:debian os:DEB* os:* os *:Debian *:debian *:os *:* *:*:* os: :Debian os_family:Debian num_cpus:4 num_cpus:?
num_cpus:1* mem_total:16000 load:1.5 init:None init:none init:* roles:web roles:cache roles:CACHE roles:d* roles:db roles:0:web
roles:1:Cache roles:-1:cache roles:5:web selinux:enabled:false selinux:enabled:False selinux:enabled selinux:enab* selinux:* selinux:*:disabled
systemd:version:252 systemd:version:25? systemd:*:252 *:version:252 *:version *:enforced:Disabled *:*:252 osrelease:12.5 osrelease:22.04 nope:x nope:* ipv4:10.0.0.1
ipv4:10.* ipv6:::1 ipv6:fe80::1 ipv6:2001:db8::20 ipv6:* ipv6:*1 path:c:\\windows path:C:* city:köln city:KÖLN id:äöü ID:äöü a.b:dot gpu:y x:*:y x:*:y:1
GPU?[X]:y *:star *:star* *:1 x:y *:y:1 virtual:[k]vm virtual:[!a]* os:Deb:ian roles:[wx]eb roles:0 roles:*""".split() + [
    "GPU [X]:y", "systemd:features:+pam -apparmor", "roles:['web', 'cache']", "", ":", "::", "ipv4:['10.0.0.2', '127.0.0.1']",
]

PILLARS = """role:web role:WEB role:w* role:edge* role:edge? role:* users:alice users:ali* users:alice:uid users:alice:uid:1000
users:alice:uid:10* users:*:uid:1000 users:*:uid users:*:1001 users:*:* users:* users:bob:* ports:80 ports:8* ports:0:80 ports:-1:443 ports:1:443 secret:p:w:d secret:p:* secret:p
1:x 1:x:int* 1:* true:x True:x yes:x 0x1:x 01:x 1.0:x list:name list:name:a list:name:b list:k:z list:k:z:1 list:0:name:a list:1:name:b list:plain list:pl* list:a list:2:plain
nested:0:1 nested:0:0:1 nested:1:1:b nested:1:1:b:none nested:*1* url:http://x:80/a url:http:* url:*80* a:b:c:d:deep a:b:c:d a:b:flat a:b:c:* a:*:c:d:deep a:b:*:d:deep *:b:c:d:deep
*:c *:*:c a:b env:none env:None env:prod flags:on:true flags:on flags:off:false flags:True flags:x weights:0:zero weights:1.5:float
mixed:1 mixed:two mixed:three mixed:three:3 mixed:none mixed:true mixed:2:three:3 mixed:* straße:gross Straße:gross STRASSE:gross k?:q *:z *:z:5 *:*:z:5 *:role""".split()

GRAIN_PCRES = """os:deb os:^deb os:ian os:(Debian|RedHat)$ os:.*ian num_cpus:\\d$ num_cpus:\\d\\d num_cpus:\\D os:\\S+$ os:[ os:( roles:web|db roles:c.*e ipv4:10\\.0\\.0\\.\\d+$
selinux:enabled:f selinux:en.*: *:version:2\\d\\d os:(?!deb) os:(?i)DEB os:(?P<x>d)eb os:Debian\\Z nope:.* os:.* os: : ipv6:2001:db8:.* systemd:.*:x .*:debian roles:.* city:K.ln id:Ä""".split()

PILLAR_PCRES = """role:web role:w.b$ role:(web|db) users:alice:uid:1\\d+ users:al.* users:.*:uid secret:p:.* a:b:c:d:d.*p a:b:f ports:\\d{2}$ ports:44 list:name:[ab] env:^none$ role:* role:[""".split()

IPS = """10.0.0.1 10.0.0.0/24 10.0.0.0/8 10.0.0.1/24 10.0.0.1/32 10.0.0.0/255.255.255.0 10.0.0.0/0.0.0.255 192.168.1.0/24 127.0.0.1 0.0.0.0/0 ::1 ::/0 fe80::/10 fe80::1 fe80::77 FE80::1
2001:db8::20 2001:db8::/32 2001:DB8:0::20 10.0.0 10.0.0.300 junk 10.0.0.0/33 10.0.0.0/-1 10.0.0.0/ 010.0.0.1 10.255.255.255 ::ffff:10.0.0.1 ::ffff:a00:1 10.0.0.4 1.2.3.4 10.0.0.0/08
fe80::5%eth0 fe80::5 2001:db8::/129 0.0.0.0/255.255.0.255 172.16.0.0/12""".split() + ["", " 10.0.0.1"]

COMPOUNDS = [
    "web1", "web*", "web1 or web2", "web* and web1", "web* and not web1", "not web*", "not web1 and not web2", "web* not web1",
    "G@os:Debian", "G@os:Debian and web*", "G@os:Debian and not web1", "G@os:Debian or db-1", "E@web\\d$", "E@web\\d$ or L@db-1,DB2",
    "L@web1,nope", "not L@web1,nope", "L@nope and web1", "L@nope,web1 or L@nope2,db-1", "web1 and L@nope", "not ( L@nope )",
    "P@os:(Deb|Red).*", "P@os:^[dr]", "I@role:web", "I@role:w*", "J@role:(web|db)$", "I@users:alice:uid:1000", "I|@users|alice|uid|1000",
    "G|@os|Debian", "G^@os^Debian", "G@@os@Debian", "G.@os.Debian", "GG@osGDebian", "G:@os:Debian", "P|@os|deb", "J%@role%we.", "G|@selinux|enabled|false",
    "G|@a.b|dot", "G.@a.b", "S@10.0.0.0/24", "S@10.0.0.1", "not S@10.0.0.0/8", "S@junk", "not S@junk", "S@10.0.0.1/24", "S@2001:db8::/32",
    "( web1 or web2 ) and web1", "( web1 or db-1 ) and not ( db-1 or DB2 )", "web1 or db-1 and web2", "web1 or db-1 and db-1", "not web1 or web1",
    "( not web1 )", "( ( web1 ) )", "not ( not web1 )", "( web1 or ( web2 and not ( db-1 ) ) )", "web1 and ( web1 or web2 )", "web1 or ( db-1 and G@os:RedHat )",
    "", " ", "and web1", "or web1", "web1 and", "web1 or", "not", "( and web1 )", "( or web1 )", "web1 web2", "web1 and and web1", "web1 or or web2",
    "not not web1", ")", "(", "( )", "( web1", "web1 )", "( web1 ) )", "( ( web1 )", "web1 ( web2 )", "( web1 ) ( web2 )", "web1 or ( )", "( ) or web1",
    "not and web1", "web1 not", "web1 AND web2", "web1 OR web2", "NOT web1", "(web1 or web2)", "web1 & web2", "and", "not ( web1 or web2", "web1 or not",
    "X@web1", "Q@x", "G@", "L@", "E@", "@web1", "G@os", "G|@os:Debian", "L@web1,web2 and web2", "L|@web1", "E@[", "web1 or E@[", "web1 or P@os:[", "E@(", "web1 or E@(",
    "R@web1", "R@%x or web1", "not R@web1", "web1 or R@x",
    "N@one", "N@hosts", "N@two", "N@hosts and web1", "not N@hosts", "not N@two", "web2 and N@two", "db-1 and N@two", "N@two and web2", "N@nest", "N@nest and web1", "not N@nest",
    "N@nope", "web1 or N@nope", "web1 N@nope", "not N@nope", "N@nope or web1", "N@cycle", "N@self", "N@empty", "web1 or N@empty", "N@mixed and not N@one", "( N@two ) and web2", "N@regex",
    "N@parens", "N@deep", "N@unknown", "N@bad", "N@negated", "not N@negated", "N@",
    "web1\tor\nweb2", "web1\u00a0or\u2003web2", "web1\x1cor\x1dweb2", "web1\u200bor web2", "größe or web1", "G@city:köln", "not größe and gr*",
    ["web1", "or", "web2"], ["web*", "and", "G@os:Debian"], ["web1 or web2"], ["not", "web1"], [], ["G@roles:['web', 'cache']"], ["N@two", "and", "web2"],
    "M@web1", "M@web*", "not M@web1", "T@dummy", "not T@dummy", "M@nope or web1",
    "nocache", "G@os:Debian or nocache", "not G@os:Debian", "ghost", "ghost or web1", "L@ghost", "G@os:Debian and ghost", "* and not G@os:*", "*", "not *",
]

DELIMITED = [
    ("grain", "os|Debian", "|"), ("grain", "os:Debian", "|"), ("grain", "selinux|enabled|false", "|"), ("grain", "os::Debian", "::"), ("grain", "path|c:\\windows", "|"),
    ("grain", "ipv6|fe80::1", "|"), ("grain", "*|Debian", "|"), ("grain", "*|*:Debian", "|"), ("grain", "a.b|dot", "|"), ("grain", "systemd|version:252", "|"),
    ("grain", "systemd|*:252", "|"), ("grain", "os", "o"), ("grain", "os:Debian", "s:D"), ("grain_pcre", "os|deb.*", "|"), ("grain_pcre", "os.deb", "."),
    ("grain_pcre", "ipv4|10\\.0\\.0\\.1$", "|"), ("pillar", "users|alice|uid|1000", "|"), ("pillar", "users|alice|uid:1000", "|"), ("pillar", "users|alice:uid:1000", "|"),
    ("pillar", "users|*:uid:1000", "|"), ("pillar", "secret|p:w:d", "|"), ("pillar", "url|http://x:80/a", "|"), ("pillar", "a|b:flat", "|"), ("pillar", "a:b|flat", "|"), ("pillar", "a|b|c|d|deep", "|"),
    ("pillar_pcre", "role|we.", "|"), ("pillar_exact", "role|web", "|"), ("pillar_pcre", "role:we.", ":"), ("compound", "G@os:Debian", "|"), ("pillar", "1|x|int key", "|"), ("grain", "ipv4|12:30", "|"),
]

EXACTS = """role:web role:WEB role:w* role:edge* users:alice users:ali* users:alice:uid:1000 users:*:uid:1000 ports:80 ports:8* secret:p:w:d *:web a:b:flat env:none list:plain users:* role""".split()

OTHERS = [("range", "web1"), ("range", "%x"), ("nodegroup", "hosts"), ("nodegroup", "two"), ("nodegroup", "nest"), ("nodegroup", "nope"), ("nodegroup", "cycle"), ("nodegroup", "bad"), ("nodegroup", "regexlist"), ("nodegroup", "empty"),
          ("nodegroup", "deep"), ("compound_pillar_exact", "I@role:w*"), ("compound_pillar_exact", "I@role:web"), ("compound_pillar_exact", "J@role:we."), ("compound_pillar_exact", "web1 or J@role:db"),
          ("compound_pillar_exact", "G@os:Deb* and not I@role:web")]


def cases():
    out = []
    for kind, exprs in (
        ("glob", GLOBS), ("pcre", PCRES), ("list", LISTS), ("grain", GRAINS), ("grain_pcre", GRAIN_PCRES), ("pillar", PILLARS),
        ("pillar_pcre", PILLAR_PCRES), ("pillar_exact", EXACTS), ("ipcidr", IPS), ("compound", COMPOUNDS),
    ):
        out.extend((kind, expr, ":") for expr in exprs)
    out.extend(DELIMITED)
    out.extend((kind, expr, ":") for kind, expr in OTHERS)
    return out


# ---------------------------------------------------------------- small functions, by chance and by hand


def fnmatch_cases():
    rnd = random.Random(4505)
    out = []
    for _ in range(900):
        pattern = "".join(rnd.choice("abc-]]![[^*?ü\\&") for _ in range(rnd.randint(0, 9)))
        for _ in range(2):
            out.append((pattern, "".join(rnd.choice("abc-]![^ü\\&\n") for _ in range(rnd.randint(0, 4)))))
    return out


def regex_cases():
    rnd = random.Random(4506)
    pieces = ["a", "b", "1", ".", "*", "+", "?", "??", "*?", "++", "{2}", "{1,2}", "{,2}", "{", "}", "{}", "{a}", "(", ")", "(?:", "|", "[ab]", "[^a]", "[", "]", "[]a]", "[^]a]",
              "[a-c]", "[a-]", "[-a]", "[a&&b]", "[a--b]", "[[a]", "[[:a:]]", "[\\]a]", "[\\w-]", "\\d", "\\w", "\\W", "\\s", "\\b", "\\B", "^", "$", "\\A", "\\Z", "\\1", "\\2", "\\0", "\\01", "\\101", "(?=a)",
              "(?!a)", "(?<=a)", "(?<!a)", "(?i)", "(?i:", "(?-i:", "(?m)", "(?s)", "(?x)", "(?x: ", "(?P<n>", "(?P=n)", "(?#z)", "(?>", "(?(1)", "\\-", "\\n", "\\x61", "\\e", " ", "#", "\n", "A", "ü", "~", "&&", "(?P<n", "(?<n>", "\\", "(?"]
    out = []
    for _ in range(1300):
        pattern = "".join(rnd.choice(pieces) for _ in range(rnd.randint(1, 6)))
        opened = sum(1 for i, c in enumerate(pattern) if c == "(") - pattern.count(")")
        if opened > 0 and rnd.random() < 0.8:
            pattern += ")" * opened
        for text in ("", "ab", rnd.choice(["a", "aa", "aab", "b1", "AB", "a\n", "a b", "ba", "üa", "a-b", "{a}", "]a", "aaa", "a\nb", "&", "1"])):
            out.append((pattern, text))
    return out


SUBDICT = [
    {"a": {"b": {"c": "d", "e": [1, {"f": "g"}]}}, "l": [["x", "y"], {"k": ["v", "w"]}], "*": {"q": 1}, "n": None, "t": True, "0": "zero", "f": 1.0},
    {"a": "b:c", "a:b": "c", "A": {"B": "C"}, "x": {"": "empty"}, "": {"y": "z"}, "big": 1e20, "small": 1e-7, "neg": -5},
    {1: "one", 2.5: "float", None: "none", False: "no", "s": {"1": "text", 1: "int"}, "lst": [{"1": "t"}, {1: "i"}, "z"]},
    {},
]


def subdict_cases():
    rnd = random.Random(4507)
    words = ["a", "b", "c", "d", "e", "f", "g", "l", "k", "v", "x", "y", "z", "*", "0", "1", "-1", "2.5", "none", "None", "False", "no", "s", "lst", "", "b:c", "A", "B", "?", "n", "t", "true", "1.0", "big", "1e+20", "small", "1e-07", "q", "[bc]", "['x', 'y']", "*:1"]
    out = []
    for _ in range(2500):
        expr = ":".join(rnd.choice(words) for _ in range(rnd.randint(1, 5)))
        delimiter = ":"
        if rnd.random() < 0.2:
            expr, delimiter = expr.replace(":", "|", rnd.randint(1, 3)), "|"
        mode = rnd.choice([(False, False), (False, False), (True, False), (False, True), (True, True)])
        out.append((rnd.randrange(len(SUBDICT)), expr, delimiter) + mode)
    return out


STRINGS = [None, True, False, 0, -7, 1.0, 1.5, 1e15, 1e16, 123456789012345680.0, 1e-4, 1e-5, 0.1, 1e22, float("inf"), float("-inf"), float("nan"), -0.0, 2**63, "a'b", ["a'b", 'a"b', "a'\"b", "\n\t\\", "ü\x07\x7f", b"\xff'"],
           {"a": [1, None], 2: {"x": True}}, [], {}, b"\xff\x00\"'\n"]
WORDS = ["web*", "G@x", "G|@x", "G@@", "G@@x", "L@x", "L|@x", "I:@a:b", "", "@", "G", "G@", "GG@x", "R@x", "N@x", "S@x", "E@", "Z@x", "Gü@x", "P @x", "GP@x", "g@x", "T@x", "M@x"]
JIDS = ["20261121092637195592", "20261121092637195592_4711", "20261121092637195592_", "2026112109263719559", "202611210926371955921", "", "abc", "20260228235959000001"]
IDS = ["a", "a.b", "a b", "größe", "..", ".", "", "a/b", "/a", "a\\b", "a\0b", "*", "a,b", "-x", "a\nb", "UP"]


# ---------------------------------------------------------------- what runs inside one release


def worker(release):
    import warnings

    warnings.simplefilter("ignore")
    import logging

    logging.disable(logging.CRITICAL)
    import fnmatch
    import re

    import salt.cache
    import salt.config
    import salt.loader
    import salt.payload
    import salt.utils.data
    import salt.utils.jid
    import salt.utils.minions
    import salt.utils.verify

    root = tempfile.mkdtemp()
    opts = salt.config.apply_master_config({
        "root_dir": root, "pki_dir": "/pki", "cachedir": "/cache", "sock_dir": "/sock", "extension_modules": root + "/ext", "conf_file": root + "/master", "nodegroups": NODEGROUPS,
    })
    with open(os.path.join(HERE, "..", "vectors", "keys.json")) as handle:
        pem = re.search(r"-----BEGIN PUBLIC KEY-----[^\"]*-----END PUBLIC KEY-----", handle.read()).group().replace("\\n", "\n")
    os.makedirs(os.path.join(opts["pki_dir"], "minions"))
    for name in ACCEPTED:
        with open(os.path.join(opts["pki_dir"], "minions", name), "w") as handle:
            handle.write(pem)
    cache = salt.cache.factory(opts)
    for name in CACHED:
        data, pillar = FLEET[name]
        if release == "3006":
            cache.store(f"minions/{name}", "data", {"grains": data, "pillar": pillar})
        else:
            cache.store("grains", name, data)
            cache.store("pillar", name, pillar)

    ck = salt.utils.minions.CkMinions(opts)
    assert sorted(ck._pki_minions()) == sorted(ACCEPTED), ck._pki_minions()

    def loaded(name, data, pillar):
        own = salt.config.apply_minion_config({"id": name, "root_dir": root, "cachedir": "/minion", "extension_modules": root + "/ext"}, minion_id=name)
        own["grains"], own["pillar"], own["nodegroups"] = data, pillar, NODEGROUPS
        return salt.loader.matchers(own)

    def predicted(kind, expr, delimiter):
        res = ck.check_minions(expr, kind, delimiter=delimiter)
        return [sorted(set(res["minions"])), sorted(set(res["missing"]))]

    def verdict(matchers, kind, expr, delimiter):
        # As Minion._target_load calls them.
        func = matchers.get(f"{kind}_match.match")
        if func is None:
            return False
        try:
            if kind in ("grain", "grain_pcre", "pillar"):
                return bool(func(expr, delimiter=delimiter))
            return bool(func(expr))
        except Exception:  # the job is dropped
            return False

    out = {"targets": [], "fnmatch": [], "regex": [], "subdict": [], "str": [], "words": [], "jids": [], "ids": [], "groups": {}}
    for case in cases():
        out["targets"].append({"master": predicted(*case), "minion": []})
    # One minion after the other: loaded modules of several minions would share their globals.
    for name in sorted(FLEET):
        matchers = loaded(name, *FLEET[name])
        for case, result in zip(cases(), out["targets"]):
            if verdict(matchers, *case):
                result["minion"].append(name)
    for pattern, text in fnmatch_cases():
        out["fnmatch"].append(fnmatch.fnmatch(text, pattern))
    for pattern, text in regex_cases():
        try:
            out["regex"].append(bool(re.match(pattern, text)))
        except Exception:
            out["regex"].append(None)
    for which, expr, delimiter, regex, exact in subdict_cases():
        out["subdict"].append(bool(salt.utils.data.subdict_match(SUBDICT[which], expr, delimiter=delimiter, regex_match=regex, exact_match=exact)))
    for value in STRINGS:
        out["str"].append([salt.payload.dumps(value, use_bin_type=True).hex(), str(value), str(value).lower()])
    for word in WORDS:
        found = salt.utils.minions.parse_target(word)
        out["words"].append([found["engine"], found["delimiter"], found["pattern"]])
    for jid in JIDS:
        out["jids"].append(salt.utils.jid.jid_to_time(jid) if salt.utils.jid.is_jid(jid) else None)
    for name in IDS:
        out["ids"].append(salt.utils.verify.valid_id(opts, name))
    for name in NODEGROUPS:
        try:
            out["groups"][name] = list(salt.utils.minions.nodegroup_comp(name, NODEGROUPS))
        except Exception as exc:
            out["groups"][name] = None
    dump = lambda data: salt.payload.dumps(data, use_bin_type=True).hex()
    out["fleet"] = {name: [dump(data), dump(pillar)] for name, (data, pillar) in FLEET.items()}
    out["data"] = [dump(data) for data in SUBDICT]
    return out


# ---------------------------------------------------------------- merging


def merged(results, *path):
    values = {}
    for release, result in results.items():
        for step in path:
            result = result[step]
        values[release] = result
    first = next(iter(values.values()))
    return first if all(value == first for value in values.values()) else values


def main():
    results = {}
    for arg in sys.argv[1:]:
        release, python = arg.split("=", 1)
        run = subprocess.run([python, __file__, "--worker", release], stdout=subprocess.PIPE, check=True)
        results[release] = json.loads(run.stdout.decode().splitlines()[-1])
    any_ = next(iter(results.values()))
    lines = []

    def section(name, rows):
        body = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
        lines.append(f"{json.dumps(name)}: [\n{body}\n]")

    section("fleet", [[name, *data, name in ACCEPTED, name in CACHED] for name, data in any_["fleet"].items()])
    section("nodegroups", [[name, value, merged(results, "groups", name)] for name, value in NODEGROUPS.items()])
    section("targets", [
        {"type": kind, "tgt": expr, "delimiter": delimiter, "master": merged(results, "targets", n, "master"), "minion": merged(results, "targets", n, "minion")}
        for n, (kind, expr, delimiter) in enumerate(cases())
    ])
    section("fnmatch", [[*case, merged(results, "fnmatch", n)] for n, case in enumerate(fnmatch_cases())])
    section("regex", [[*case, merged(results, "regex", n)] for n, case in enumerate(regex_cases())])
    section("data", any_["data"])
    section("subdict", [[*case, merged(results, "subdict", n)] for n, case in enumerate(subdict_cases())])
    section("str", any_["str"])
    section("words", [[word, merged(results, "words", n)] for n, word in enumerate(WORDS)])
    section("jids", [[jid, merged(results, "jids", n)] for n, jid in enumerate(JIDS)])
    section("ids", [[name, merged(results, "ids", n)] for n, name in enumerate(IDS)])
    with open(os.path.join(HERE, "target_cases.json"), "w") as handle:
        handle.write("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    if sys.argv[1] == "--worker":
        json.dump(worker(sys.argv[2]), sys.stdout)
        print()
    else:
        main()
