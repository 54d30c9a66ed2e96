#!/usr/bin/env python
"""Writes config_cases.json: built-in defaults of Salt, and what it makes of configuration files.

Run it with a Python that can import salt (3008): python make_config_cases.py > config_cases.json
"""

import collections.abc
import json
import pathlib
import tempfile

import salt.config
from make_yaml_cases import encode

# Every case: role, files by name below the configuration directory, options to show.
PATHS = ["root_dir", "pki_dir", "cachedir", "sock_dir", "pidfile", "log_file"]
MASTER_PATHS = PATHS + ["key_logfile", "token_dir", "autosign_file", "autoreject_file", "autosign_grains_dir"]
LONG = "/" + "d" * 40

CASES = [
    ("master", {}, MASTER_PATHS),
    ("minion", {"minion": "id: m"}, PATHS),
    ("master", {"master": "root_dir: /r"}, MASTER_PATHS),
    ("minion", {"minion": "id: m\nroot_dir: /r"}, PATHS),
    ("master", {"master": "root_dir: /r\npki_dir: /x/pki\ncachedir: c\nsock_dir: /r/s\npidfile: run/../p\n"
                "autosign_file: /a\nautoreject_file: b\nautosign_grains_dir: /r/g\nlog_file: file:///dev/log\n"
                "key_logfile: k"}, MASTER_PATHS),
    ("master", {"master": "root_dir: /r/\nlog_file: udp://h:514/x"}, MASTER_PATHS[1:]),
    ("master", {"master": f"sock_dir: {LONG}"}, MASTER_PATHS),
    ("master", {"master": f"root_dir: /r\nsock_dir: {LONG}\ncachedir: /c"}, MASTER_PATHS),
    ("minion", {"minion": f"id: m\nsock_dir: {LONG}"}, PATHS),
    ("master", {"master": "cachedir: /var/cache/x\nsock_dir: /0123456789/0123456789x/"}, MASTER_PATHS),
    ("master", {"master": "log_dir: /l"}, ["log_file"]),
    ("master", {"master": "log_dir: /l\nlog_file: f"}, ["log_file"]),
    ("master", {"master": "log_dir: /l\nlog_file: /f"}, ["log_file"]),
    ("master", {"master": "open_mode: 1\nauto_accept: 'True'"}, ["open_mode", "auto_accept"]),
    ("master", {"master": "open_mode: yes\nauto_accept: on"}, ["open_mode", "auto_accept"]),
    ("master", {"master": "hash_type: SHA512"}, ["hash_type"]),
    ("master", {"master": "file_roots: /srv"}, ["file_roots"]),
    ("master", {"master": "file_roots: {base: [/a, /b], dev: /d, qa: }"}, ["file_roots"]),
    ("master", {"master": "pillar_roots:\n  base:\n    - /p"}, ["pillar_roots", "file_roots"]),
    ("master", {"master": "nodegroups:"}, ["nodegroups"]),
    ("master", {"master": "nodegroups:\n- a: 'L@x'\n- b: [c, d]"}, ["nodegroups"]),
    ("master", {"master": "worker_threads: 7"}, ["worker_pools"]),
    ("master", {"master": "worker_pools: {a: {worker_count: 2, commands: [_auth]}, b: {worker_count: 3, commands: ['*']}}"},
     ["worker_pools"]),
    ("master", {"master": "timeout: 1\nx: {a: 1, b: {c: 1}}\nl: [1]",
                "master.d/b.conf": "timeout: 3\nx: {b: {d: 1}}\nl: [3]",
                "master.d/a.conf": "timeout: 2\nx: {b: {c: 2}}\nl: [2]",
                "master.d/c.txt": "timeout: 9", "master.d/.h.conf": "timeout: 8"}, ["timeout", "x", "l"]),
    ("master", {"master": "timeout: 1\nx: {a: 1}\ninclude: extra/*.yml",
                "master.d/a.conf": "timeout: 2\nx: {b: 1}",
                "extra/1.yml": "timeout: 3\nx: {c: 1}\ninclude: [deep.yml, none.yml]", "extra/deep.yml": "timeout: 4\nx: {d: 1}"},
     ["timeout", "x"]),
    ("master", {"master": "timeout: 1\ninclude: one.yml", "one.yml": "include: two.yml\ntimeout: 2", "two.yml": "show_jid: true"},
     ["timeout", "show_jid"]),
    ("master", {"master": "default_include: conf/[ab]?.x\ntimeout: 1", "conf/a1.x": "timeout: 2", "conf/c1.x": "timeout: 3"},
     ["timeout"]),
    ("master", {"master": "default_include: ''\ntimeout: 1", "master.d/a.conf": "timeout: 2"}, ["timeout"]),
    ("master", {"master": "", "master.d/a.conf": "# nothing\n", "master.d/b.conf": "timeout: 3"}, ["timeout"]),
    ("master", {"master": "id: 12"}, ["id"]),
    ("minion", {"minion": "id: 0012"}, ["id"]),
    ("minion", {"minion": "id: yes"}, ["id"]),
    ("minion", {"minion": "id: 1.50"}, ["id"]),
    ("minion", {"minion": "id: web\nappend_domain: x.org"}, ["id"]),
    ("minion", {"minion": "id: web.x.org\nappend_domain: x.org"}, ["id"]),
    ("minion", {"minion": "id: web.\nappend_domain: x.org"}, ["id"]),
    ("minion", {"minion": "id: m\nmaster: a.example"}, ["master"]),
    ("minion", {"minion": "id: m\nmaster: [a, b:4510]"}, ["master"]),
    ("minion", {"minion": "id: m\ngrains: {a: [1, x], b: {c: yes}}"}, ["grains"]),
]


def plain(value):
    """Salt's own kinds of dict and list as Python's."""
    if isinstance(value, collections.abc.Mapping):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, collections.abc.Sequence) and not isinstance(value, (str, bytes)):
        return [plain(v) for v in value]
    return value


def effective(role, files, names):
    with tempfile.TemporaryDirectory() as name:
        top = pathlib.Path(name)
        for file, text in files.items():
            path = top / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        load = salt.config.master_config if role == "master" else salt.config.minion_config
        opts = load(str(top / role))
        return {n: encode(plain(opts.get(n))) for n in names}


def main():
    rows = [json.dumps([role, files, effective(role, files, names)]) for role, files, names in CASES]
    defaults = {
        "master": salt.config.DEFAULT_MASTER_OPTS,
        "minion": salt.config.DEFAULT_MINION_OPTS,
    }
    tables = []
    for role, opts in defaults.items():
        lines = [f"{json.dumps(k)}: {json.dumps(encode(plain(v)))}" for k, v in sorted(opts.items())]
        tables.append(f'  "{role}": {{\n   ' + ",\n   ".join(lines) + "\n  }")
    print('{\n "files": [\n  ' + ",\n  ".join(rows) + '\n ],\n "defaults": {\n' + ",\n".join(tables) + "\n }\n}")


if __name__ == "__main__":
    main()
