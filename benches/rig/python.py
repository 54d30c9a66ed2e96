"""Users' Python on minions, halite's and stock's: the first function of a job, further ones, states, and memory."""
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from statistics import median

from . import figures, procs
from .masters import PROGRAMS, Failed, Master, write
from .minions import Minion, answer
from .states import good
from .swarm import timed


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    jobs: int = 10
    calls: int = 2000
    loop: int = 1000
    states: int = 200
    # Runs of the same states, of which the middle one counts.
    runs: int = 3
    # Seconds that a minion rests before its memory is measured.
    rest: float = 3.0


QUICK = Plan(jobs=2, calls=40, loop=40, states=5, runs=1, rest=0.2)

# Calls between two readings of the clocks, at most.
BATCH = 100
# How long the process of a job may live after its answer.
END = 15


@dataclass(frozen=True)
class Row:
    """One figure of both minions. Lower is better."""

    name: str
    title: str
    unit: str
    # The goal for halite, in the unit; None if there is none.
    goal: float | None = None
    # Whether it is the difference of two figures, which may be near nothing: its ratio says nothing.
    is_difference: bool = False


ROWS = [
    Row("ping-cpu", "job `test.ping` through a master", "CPU ms"),
    Row("ping-wall", "the same", "ms"),
    Row("first-cpu", "job of one function in Python through a master", "CPU ms"),
    Row("first-wall", "the same", "ms"),
    Row("first-more-cpu", "the first function in Python of a job: the difference of these", "CPU ms", 60, True),
    Row("first-more-wall", "the same", "ms", 60, True),
    Row("python-cpu", "each further one: in Python, from Python", "CPU us", 200),
    Row("python-wall", "the same", "us", 200),
    Row("native-cpu", "each further one: `test.echo`, from Python", "CPU us", 200),
    Row("native-wall", "the same", "us", 200),
    Row("jinja-cpu", "each further one: in Python, from Jinja", "CPU us", 200),
    Row("jinja-wall", "the same", "us", 200),
    Row("native-states-cpu", "{states} `test.nop`", "CPU s"),
    Row("native-states-wall", "the same", "s"),
    Row("python-states-cpu", "{states} states in Python that do nothing", "CPU s"),
    Row("python-states-wall", "the same", "s"),
    Row("states-more-cpu", "the difference of these", "CPU s", 0.5, True),
    Row("states-more-wall", "the same", "s", 0.5, True),
    Row("memory-before", "minion, idle, after {jobs} jobs `test.ping`", "MiB PSS"),
    Row("memory-after", "the same, after {jobs} jobs with Python", "MiB PSS"),
    Row("memory-job", "what a job adds while its function in Python runs", "MiB PSS"),
    Row("memory-host", "of that, the process with Python", "MiB PSS"),
]

MODULE = '''"""What benches/rig/python.py measures."""
import os
import time


def one(value):
    """Little work."""
    return value


def who():
    """The process that this runs in: its pid, and when it has started in ticks since boot."""
    with open("/proc/self/stat") as f:
        return [os.getpid(), int(f.read().rsplit(")", 1)[1].split()[19])]


def stay(path):
    """Writes the pid into a file and waits until somebody removes it, at most a minute."""
    with open(path + ".new", "w") as f:
        f.write(str(os.getpid()))
    os.rename(path + ".new", path)
    end = time.monotonic() + 60
    while os.path.exists(path) and time.monotonic() < end:
        time.sleep(0.02)
    return True


_PIDS = []


def clocks():
    """Seconds since some time, CPU seconds of this process and of the one of halite's that it belongs to, if any, and their number."""
    if not _PIDS:
        above = os.getppid()
        with open("/proc/%d/comm" % above) as f:
            _PIDS.extend([os.getpid()] + ([above] if f.read().startswith("halite") else []))
    # The number of the clock of a process, as Linux computes it (CPUCLOCK_SCHED).
    return [time.monotonic(), sum(time.clock_gettime((~pid << 3) | 2) for pid in _PIDS), len(_PIDS)]


def calls(function, count, batch):
    """Calls a function so often; what the clocks say before, between batches, and after."""
    __salt__[function]("some text")
    marks = [clocks()]
    for _ in range(count // batch):
        for _ in range(batch):
            __salt__[function]("some text")
        marks.append(clocks())
    return marks
'''

STATE = '''"""What benches/rig/python.py measures."""


def nop(name):
    """Does nothing."""
    return {"name": name, "changes": {}, "result": True, "comment": "Success!"}
'''

# The clocks are a function in Python like that which is measured, so that each batch has one call more.
LOOP = """\
{%% do salt['bench.one']('some text') %%}
{%%- set marks = [salt['bench.clocks']()] %%}
{%%- for _ in range(%d) %%}
{%%- for _ in range(%d) %%}{%% do salt['bench.one']('some text') %%}{%% endfor %%}
{%%- do marks.append(salt['bench.clocks']()) %%}
{%%- endfor %%}
marks:
  test.nop:
    - name: '{{ marks | json }}'
"""


def tree(top, plan):
    """Writes modules and SLS files."""
    states = "{%% for n in range(%d) %%}\nstate{{ n }}: %s.nop\n{%% endfor %%}\n"
    write(f"{top}/_modules/bench.py", MODULE)
    write(f"{top}/_states/benchstate.py", STATE)
    write(f"{top}/loop.sls", LOOP % (plan.loop // batch(plan.loop), batch(plan.loop) - 1))
    write(f"{top}/native.sls", states % (plan.states, "test"))
    write(f"{top}/python.sls", states % (plan.states, "benchstate"))


def batch(count):
    """Calls between two readings of the clocks, of so many."""
    return min(BATCH, max(1, count // 2))


def settings(kind):
    """Lines of a minion's configuration. `python3` in PATH may be a script that looks for the real one at each start."""
    return f"python: {sys.executable}\n" if kind == "halite" else ""


def each(kind, marks, size):
    """Microseconds of a call, CPU and wall, from readings of the clocks around batches of that many calls. Other work on the machine makes
    some batches slow; the middle one counts. Raises Failed if these are no such readings."""
    # halite's Python is a process of its own.
    processes = 2 if kind == "halite" else 1
    if not isinstance(marks, list) or len(marks) < 2 or not all(isinstance(mark, list) and mark[2:] == [processes] for mark in marks):
        raise Failed(f"no times of calls: {str(marks)[:500]}")
    wall = median(after[0] - before[0] for before, after in zip(marks, marks[1:]))
    return {"cpu": (marks[-1][1] - marks[0][1]) / (len(marks) - 1) / size * 1e6, "wall": wall / size * 1e6}


def local(kind, programs, plan):
    """Figures without a master: further calls and states. A generator of names and values."""
    with tempfile.TemporaryDirectory(prefix="hs") as top:
        tree(f"{top}/srv", plan)
        write(f"{top}/etc/minion", f"id: bench\nroot_dir: {top}/root\nfile_client: local\nfile_roots: {{base: [{top}/srv]}}\nlog_file: {top}/log\n"
              + settings(kind))
        command = [os.path.join(programs, PROGRAMS[kind]["call"]), "-c", f"{top}/etc", "--local", "--out=json"]

        def run(*job):
            with open(f"{top}/said", "w+") as said:
                try:
                    return timed([*command, *job], stderr=said)
                except Failed as e:
                    said.seek(0)
                    raise Failed(f"{e}: {said.read()[-1000:]}") from None

        run("saltutil.sync_all")
        for name, function in (("python", "bench.one"), ("native", "test.echo")):
            size = batch(plan.calls)
            _, _, out = run("bench.calls", function, str(plan.calls), str(size))
            for what, value in each(kind, answer(out), size).items():
                yield f"{name}-{what}", value
        _, _, out = run("state.apply", "loop")
        good(out)
        [state] = answer(out).values()
        for what, value in each(kind, json.loads(state["name"]), batch(plan.loop)).items():
            yield f"jinja-{what}", value
        # In turn: other work slows both down.
        found = {"native": [], "python": []}
        for _ in range(plan.runs):
            for name, runs in found.items():
                used, wall, out = run("state.apply", name)
                good(out)
                runs.append((used, wall))
        for number, what in enumerate(("cpu", "wall")):
            native, python = (median(run[number] for run in found[name]) for name in ("native", "python"))
            yield f"native-states-{what}", native
            yield f"python-states-{what}", python
            yield f"states-more-{what}", python - native


def through_master(kind, programs, plan):
    """Figures of jobs of a minion: the first function in Python of a job, and memory. A generator of names and values."""
    with Master(kind, programs) as master, tempfile.TemporaryDirectory(prefix="hs") as top:
        tree(f"{master.root}/files", plan)
        master.start()
        with Minion(master, top, settings(kind)) as minion:
            minion.ask("saltutil.sync_all")
            # Read for the first time, by all that takes part.
            pings(minion, plan.jobs)
            yield "memory-before", resting(minion, plan)
            pythons(minion, 1)
            used, walls = {pings: 0, pythons: 0}, {pings: [], pythons: []}
            # In turn, but not one by one: CPU time is known to hundredths of a second only.
            for number in portions(plan.jobs):
                for jobs in used:
                    before = minion.idle()
                    walls[jobs] += jobs(minion, number)
                    used[jobs] += minion.idle() - before
            for name, jobs in (("ping", pings), ("first", pythons)):
                yield f"{name}-cpu", used[jobs] * 1000 / plan.jobs
                yield f"{name}-wall", median(walls[jobs]) * 1000
            yield "first-more-cpu", (used[pythons] - used[pings]) * 1000 / plan.jobs
            yield "first-more-wall", (median(walls[pythons]) - median(walls[pings])) * 1000
            idle = resting(minion, plan)
            yield "memory-after", idle
            whole, host = during(minion, f"{top}/stay")
            yield "memory-job", whole - idle
            # With stock, all of the job is one process with Python.
            if kind == "halite":
                yield "memory-host", host


def portions(jobs):
    """Numbers of jobs that are measured at once, the sum of which is `jobs`."""
    whole, rest = divmod(jobs, 5)
    return [5] * whole + ([rest] if rest else [])


def pings(minion, number):
    """Runs that many jobs without Python; seconds of each."""
    walls = []
    for _ in range(number):
        wall, value = minion.ask("test.ping")
        if value is not True:
            raise Failed(f"test.ping: {str(value)[:500]}")
        walls.append(wall)
    return walls


def pythons(minion, number):
    """Runs that many jobs of one function in Python; seconds of each. Raises Failed if the process with Python outlives one of them."""
    walls, hosts = [], []
    for _ in range(number):
        wall, value = minion.ask("bench.who")
        if not isinstance(value, list) or len(value) != 2:
            raise Failed(f"bench.who: {str(value)[:500]}")
        walls.append(wall)
        hosts.append(value)
    end = time.monotonic() + END
    while left := [pid for pid, started in hosts if procs.lives(pid, started)]:
        if time.monotonic() > end:
            raise Failed(f"{len(left)} of {number} processes with Python live on after their job, such as {procs.command_line(left[0])[:3]}")
        time.sleep(0.05)
    return walls


def resting(minion, plan):
    """Memory of an idle minion."""
    minion.idle()
    time.sleep(plan.rest)
    return procs.pss_mib(minion.pids())


def during(minion, path):
    """Memory of all processes of a minion while a function in Python runs, and of the process that it runs in."""
    job = procs.start(minion.command("bench.stay", path))
    try:
        end = time.monotonic() + 30
        while not os.path.exists(path):
            if time.monotonic() > end:
                raise Failed("bench.stay does not run")
            time.sleep(0.02)
        with open(path) as f:
            host = int(f.read())
        time.sleep(0.3)
        return procs.pss_mib({*minion.pids(), host}), procs.pss_mib([host])
    finally:
        if os.path.exists(path):
            os.remove(path)
            try:
                job.wait(10)
            except subprocess.TimeoutExpired:
                pass
        procs.stop(job)


def measure(programs, plan, rounds, keep, late):
    """Measures all kinds in turn; `keep` is called with all figures so far. Returns failures."""
    found, failures = {}, []
    for number in range(rounds):
        for run in (local, through_master):
            for kind, where in programs.items():
                if late():
                    failures.append(f"{kind}, {run.__name__.replace('_', ' ')}, round {number + 1}: no time")
                    continue
                try:
                    for name, value in run(kind, where, plan):
                        found.setdefault(name, {}).setdefault(kind, []).append(value)
                except Failed as e:
                    failures.append(f"{kind}, {run.__name__.replace('_', ' ')}, round {number + 1}: {e}")
                keep(found)
    return failures


def table(found, plan):
    """Header and lines of the table."""
    kinds = [kind for kind in ("stock", "halite") if any(kind in values for values in found.values())]
    heads = ["work", "unit", *kinds, *(["stock / halite"] if len(kinds) == 2 else []), "goal"]
    lines = []
    for row in ROWS:
        values = found.get(row.name)
        if not values:
            continue
        cells = [figures.spread(values.get(kind, [])) for kind in kinds]
        if len(kinds) == 2:
            ratios = [] if row.is_difference else figures.ratios(values.get("stock", []), values.get("halite", []))
            cells.append(figures.spread(ratios))
        lines.append([row.title.format(jobs=plan["jobs"], states=plan["states"]), row.unit, *cells, figures.number(row.goal)])
    return heads, lines
