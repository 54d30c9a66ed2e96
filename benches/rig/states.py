"""State runs of halite's minion and of a stock one: without a master (`halite-call --local`), and through one."""
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass

from . import figures, procs
from .masters import PROGRAMS, Failed, Master, write
from .minions import Minion

TEMPLATE = """# written by {{ opts.id }}
server {
    listen {{ port }};
    name {{ name }}.example.org;
{%- for peer in peers %}
    peer {{ peer }};
{%- endfor %}
}
"""


@dataclass(frozen=True)
class Plan:
    """Sizes of the runs."""

    nops: int = 1000
    files: int = 300


QUICK = Plan(nops=20, files=5)

# Rows: name, title, the SLS file, how often it has been applied before.
ROWS = [
    ("nothing", "one state that does nothing", "nothing", 0),
    ("nops", "{nops} `test.nop`, each with a requirement", "nops", 0),
    ("files", "{files} `file.managed` from a template, first run", "files", 0),
    ("files-again", "the same, nothing to do", "files", 1),
    ("formula", "formula: 20 files, 10 packages, users, commands, nothing to do", "formula", 1),
]


def trees(top, out, plan):
    """Writes the SLS files."""
    managed = """{{% for n in range({count}) %}}
{out}/{prefix}{{{{ n }}}}.conf:
  file.managed:
    - source: salt://site.conf.jinja
    - template: jinja
    - mode: '0640'
    - context: {{port: {{{{ 8000 + n }}}}, name: host{{{{ n }}}}, peers: [a, b, c]}}
{{% endfor %}}
"""
    nops = "{%% for n in range(%d) %%}\nnop{{ n }}:\n  test.nop:\n    - name: nop{{ n }}\n{%%- if n %%}\n    - require: [{test: nop{{ n - 1 }}}]\n{%%- endif %%}\n{%% endfor %%}\n"
    formula = f"""{out}/formula:
  file.directory: [makedirs: true]
base packages:
  pkg.installed:
    - pkgs: [bash, coreutils, dpkg, findutils, grep, gzip, hostname, sed, tar, util-linux]
root:
  user.present: []
root group:
  group.present: [name: root]
{out}/formula/link:
  file.symlink: [target: /etc/hostname]
{{% for n in range(5) %}}
true {{{{ n }}}}:
  cmd.run: [unless: 'true']
{{% endfor %}}
"""
    write(f"{top}/site.conf.jinja", TEMPLATE)
    write(f"{top}/nothing.sls", "nothing: test.nop\n")
    write(f"{top}/nops.sls", nops % plan.nops)
    write(f"{top}/files.sls", managed.format(count=plan.files, out=out, prefix="f"))
    write(f"{top}/formula.sls", formula + managed.format(count=20, out=f"{out}/formula", prefix="g"))


def good(text):
    """Checks the results of a run. Raises Failed."""
    try:
        states = next(iter(json.loads(text).values()))
        wrong = [name for name, state in states.items() if state["result"] is not True]
    except (ValueError, StopIteration, AttributeError, TypeError) as e:
        raise Failed(f"no results of states: {e}: {text[:500]}") from None
    if wrong or not states:
        raise Failed(f"{len(wrong)} of {len(states)} states failed, the first is {wrong[:1]}")


def local(kind, programs, plan):
    """Figures without a master: CPU seconds, seconds and peak memory in MiB by name of the row."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="hs") as top:
        trees(f"{top}/srv", f"{top}/out", plan)
        os.mkdir(f"{top}/out")
        write(f"{top}/etc/minion", f"id: bench\nroot_dir: {top}/root\nfile_client: local\nfile_roots: {{base: [{top}/srv]}}\nlog_file: {top}/log\n")
        argv = [os.path.join(programs, PROGRAMS[kind]["call"]), "-c", f"{top}/etc", "--local", "--out=json", "state.apply"]
        for name, _, sls, _ in ROWS:
            if name == "formula":
                once([*argv, sls])
            found[name] = once([*argv, sls])
    return found


# Starts a command and prints what it used. The system counts what the process had before it became the command, which is little here.
MEASURE = """
import os, sys, time
begun = time.monotonic()
child = os.fork()
if not child:
    os.execv(sys.argv[1], sys.argv[1:])
used = os.wait4(child, 0)[2]
wall = time.monotonic() - begun
sys.stderr.write("\\n%r %r %r" % (used.ru_utime + used.ru_stime, wall, used.ru_maxrss / 1024))
"""


def once(argv):
    """Runs a command; its CPU seconds with those of its children, its seconds, and the peak memory of the largest of them in MiB."""
    words = [sys.executable, "-I", "-S", "-c", MEASURE, *argv]
    ran = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    good(ran.stdout.decode())
    return [float(figure) for figure in ran.stderr.decode().splitlines()[-1].split()[-3:]]


def through_master(kind, programs, plan):
    """Figures through a master: CPU seconds of the minion and its jobs, and seconds from the command to its end."""
    found = {}
    with Master(kind, programs) as master, tempfile.TemporaryDirectory(prefix="hs") as top:
        trees(f"{master.root}/files", f"{top}/out", plan)
        os.mkdir(f"{top}/out")
        master.start()
        with Minion(master, top) as minion:
            for name, _, sls, _ in ROWS:
                for _ in range(2 if name == "formula" else 1):
                    before = procs.cpu(minion.pids())
                    # The kernel counts in steps of 10 ms: short runs are repeated.
                    runs = 5 if name in ("nothing", "nops") else 1
                    for _ in range(runs):
                        wall, out = minion.run("state.apply", sls)
                        good(out)
                    after = minion.idle()
                found[name] = [(after - before) / runs, wall]
    return found


def measure(programs, plan, rounds, keep, late):
    """Measures all kinds in turn; `keep` is called with all figures so far. Returns failures."""
    found, failures = {}, []
    for number in range(rounds):
        for way, run in (("local", local), ("master", through_master)):
            for kind, where in programs.items():
                if late():
                    continue
                try:
                    for name, values in run(kind, where, plan).items():
                        for what, value in zip(("cpu", "wall", "peak"), values):
                            found.setdefault(f"{way} {name} {what}", {}).setdefault(kind, []).append(value)
                except Failed as e:
                    failures.append(f"{kind}, {way}, round {number + 1}: {e}")
                keep(found)
    return failures


def table(found, plan):
    """Header and lines of the table."""
    kinds = [kind for kind in ("stock", "halite") if any(kind in values for values in found.values())]
    heads = ["state run", "unit", *kinds, *(["stock / halite"] if len(kinds) == 2 else [])]
    lines = []
    for way, said in (("local", ""), ("master", ", through a master")):
        for name, title, _, _ in ROWS:
            for what, unit in (("cpu", "CPU s"), ("wall", "s"), ("peak", "MiB, peak")):
                values = found.get(f"{way} {name} {what}")
                if not values:
                    continue
                cells = [figures.spread(values.get(kind, [])) for kind in kinds]
                if len(kinds) == 2:
                    cells.append(figures.spread(figures.ratios(values.get("stock", []), values.get("halite", []))))
                lines.append([title.format(nops=plan["nops"], files=plan["files"]) + said, unit, *cells])
    return heads, lines
