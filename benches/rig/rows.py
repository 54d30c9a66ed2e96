"""The rows of the comparison: what each measures, its unit and its goal."""
import json
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from typing import Callable

from . import bus, procs
from .figures import median
from .masters import Failed, free_ports, write
from .swarm import Serving, timed


@dataclass
class Row:
    """One figure of both masters. Lower is better."""

    name: str
    title: str
    unit: str
    # The goal for halite, in the unit; None if there is none.
    goal: float | None
    # The least that this machine needs, from the ceilings; None if unknown.
    ceiling: Callable[[dict], float] | None = None


@dataclass
class Sizes:
    """Numbers of operations and minions."""

    minions: int = 1000
    # For operations that do not depend on the number of minions: pillars, files.
    few: int = 64
    rounds: int = 2
    # Operations for halite and for a stock master: each takes enough CPU time to stand out from noise.
    returns: dict = field(default_factory=lambda: {"halite": 60_000})
    req: dict = field(default_factory=lambda: {"halite": 20_000, "stock": 300})
    jobs: dict = field(default_factory=lambda: {"halite": 30, "stock": 4})
    pillars: dict = field(default_factory=lambda: {"halite": 1500, "stock": 100})
    chunks: dict = field(default_factory=lambda: {"halite": 1000, "stock": 400})
    requests: dict = field(default_factory=lambda: {"halite": 20_000, "stock": 3000})
    events: dict = field(default_factory=lambda: {"halite": 100_000, "stock": 8000})
    many: int = 10_000
    commands: dict = field(default_factory=lambda: {"halite": 20, "stock": 5})
    idle: float = 5.0


QUICK = Sizes(
    minions=20, few=20, rounds=1, returns={"halite": 200}, req={"halite": 100, "stock": 40}, jobs={"halite": 2, "stock": 2},
    pillars={"halite": 20, "stock": 20}, chunks={"halite": 20, "stock": 20}, requests={"halite": 100, "stock": 100},
    events={"halite": 500, "stock": 500}, commands={"halite": 2, "stock": 1}, many=100, idle=0.5,
)


def _hop(c):
    """A round trip to a worker process, with 64 in flight."""
    return c["zmq hop 64"]


ROWS = [
    Row("signin", "first sign-in", "CPU ms", 0.45, lambda c: _hop(c) + c["rsa sign"] + 2 * c["rsa encrypt"]),
    Row("signin-again", "sign-in again with token", "CPU ms", 0.75,
        lambda c: _hop(c) + c["rsa sign"] + c["rsa decrypt"] + 3 * c["rsa encrypt"]),
    Row("return", "return, acknowledged and kept", "CPU ms", 0.07,
        lambda c: _hop(c) + c["crypticle open 300"] + c["crypticle seal 300"] + c["job store append"]),
    Row("req", "return that makes its own jid", "CPU ms", 0.08,
        lambda c: _hop(c) + c["crypticle open 300"] + c["crypticle seal 300"] + c["job store append"]),
    Row("job", "whole job, `'*' test.ping` to {minions} minions", "CPU ms", 100),
    Row("job-wall", "the same, from publication to last acknowledgement", "s", 0.15),
    Row("pillar", "pillar of 50 items through Jinja and YAML", "CPU ms", 1.5),
    Row("file-chunk", "file, 1 MiB chunk", "CPU ms", 1.2, lambda c: _hop(c) + c["crypticle seal 1048576"]),
    Row("file-small", "file, 4 KiB request", "CPU ms", 0.08,
        lambda c: _hop(c) + c["crypticle open 300"] + c["crypticle seal 4096"]),
    Row("event", "event to 4 listeners, 200 at a time", "CPU ms", 0.02),
    Row("event-single", "event to 4 listeners, one at a time", "CPU ms", None),
    Row("start", "start to first ping answered", "s", 0.2),
    Row("memory-idle", "master, all processes, idle", "MiB PSS", 12),
    Row("memory-loaded", "master, all processes, after load", "MiB PSS", 30),
    Row("cli-cpu", "CLI `test.ping` on one minion", "CPU s", 0.01),
    Row("cli-wall", "CLI `test.ping` on one minion", "s", 0.03),
    Row("call", "`halite-call --local test.ping`", "s", 0.02),
    Row("minion-memory", "minion", "MiB PSS", 5),
    Row("many", "`'*' test.ping` to {many} minions, all answer", "s", None),
    Row("many-cpu", "the same", "CPU ms each", 0.1),
    Row("many-memory", "master, all processes, after that", "MiB PSS", None),
]

# Not measured for a stock master by default: they take it minutes.
MANY = ["many", "many-cpu", "many-memory"]

NAMES = [row.name for row in ROWS]


class Round:
    """All wanted rows of one master, measured once, in its own directory."""

    def __init__(self, master, swarm, sizes, wanted, keep=lambda found: None, late=lambda: False):
        """`keep` is called with the figures by row after each step; once `late` returns true, steps are skipped."""
        self.master = master
        self.swarm = swarm
        self.sizes = sizes
        self.wanted = wanted
        self.keep = keep
        self.late = late
        self.found = {}

    def run(self):
        """Measures; returns failures. A failed step only loses its own rows."""
        self.start()
        failures = []
        for step in (self.idle, self.sign_ins, self.returns, self.req, self.jobs, self.pillar, self.files, self.events, self.commands,
                     self.minion, self.loaded, self.many):
            if self.late():
                break
            try:
                step()
            except Failed as e:
                failures.append(f"{self.master.kind}, {step.__name__.replace('_', ' ')}: {e}")
            self.keep({name: value for name, value in self.found.items() if name in self.wanted})
        return failures

    def wants(self, *names):
        """Whether one of these rows is wanted."""
        return any(name in self.wanted for name in names)

    def each(self, parts, operation):
        """CPU ms of the master per operation."""
        return parts[operation]["master_cpu_ms_per_operation"]

    def start(self):
        """The second start: the first one creates keys, the time of which varies."""
        self.master.start()
        if not self.wants("start"):
            return
        self.ping_one()
        self.master.stop()
        begun = time.monotonic()
        self.master.start()
        self.found["start"] = self.ping_one() - begun

    def ping_one(self):
        """Signs in one minion and pings it with the CLI; returns the time of its reply."""
        with Serving(self.swarm, self.master, 1):
            self.cli()
            return time.monotonic()

    def cli(self):
        """Pings one minion with the CLI: (CPU s, wall s)."""
        used, wall, out = timed(self.master.command("cli", "--out=json", "sw-0", "test.ping"))
        if json.loads(out or "{}").get("sw-0") is not True:
            raise Failed(f"the CLI says {out!r}; {self.master.log()}")
        return used, wall

    def idle(self):
        """Memory of a master that has done nothing yet."""
        if not self.wants("memory-idle"):
            return
        procs.wait_until_idle(self.master.pid)
        time.sleep(self.sizes.idle)
        self.found["memory-idle"] = procs.pss_mib(self.master.pids())

    def sign_ins(self):
        """First sign-ins, which store the keys that later rows need, and repeated ones."""
        if not self.wants("signin", "signin-again", "req", "memory-loaded"):
            return
        parts = self.swarm.run(self.master, "signin", self.sizes.minions, "--rounds", self.sizes.rounds)
        self.found["signin"] = self.each(parts, "sign-in")
        self.found["signin-again"] = self.each(parts, "sign-in again")

    def returns(self):
        """Returns for jobs of the swarm's own. A stock master fails on returns for jobs that it has not published:
        `jobs` gives its figure."""
        if self.master.kind == "stock" or not self.wants("return", "memory-loaded"):
            return
        count = self.sizes.returns[self.master.kind]
        parts = self.swarm.run(self.master, "returns", self.sizes.minions, "--count", count)
        self.found["return"] = self.each(parts, "return")

    def req(self):
        """Returns for which the master creates a jid, like those of salt-call."""
        if not self.wants("req"):
            return
        count = self.sizes.req[self.master.kind]
        parts = self.swarm.run(self.master, "returns", self.sizes.minions, "--count", count, "--req")
        self.found["req"] = self.each(parts, "return")

    def jobs(self):
        """Jobs for all minions, one after another."""
        stock = self.master.kind == "stock"
        if not self.wants("job", "job-wall", "memory-loaded", *(["return"] if stock else [])):
            return
        parts = self.job_parts(self.sizes.minions, self.sizes.jobs[self.master.kind])
        self.found["job"] = self.each(parts, "job")
        self.found["job-wall"] = parts["job"]["latency_ms"]["p50"] / 1000
        if stock:
            # Includes the publication, a few percent of the total.
            self.found["return"] = self.each(parts, "job answer")

    def job_parts(self, minions, jobs):
        """Runs that many jobs, each answered by all of that many minions."""
        return self.swarm.run(self.master, "jobs", minions, "--jobs", jobs, "--cachedir", f"{self.master.root}/cache")

    def pillar(self):
        """Pillars, each compiled again."""
        if not self.wants("pillar", "memory-loaded"):
            return
        count = self.sizes.pillars[self.master.kind]
        parts = self.swarm.run(self.master, "pillar", self.sizes.few, "--count", count, "--expect", f"{self.master.root}/pillar.json")
        self.found["pillar"] = self.each(parts, "pillar")

    def files(self):
        """Chunks of a file of 1 MiB, and a file of 4 KiB."""
        for name, file, sizes in (("file-chunk", "big", self.sizes.chunks), ("file-small", "small", self.sizes.requests)):
            if self.wants(name, "memory-loaded"):
                count = sizes[self.master.kind]
                parts = self.swarm.run(self.master, "files", self.sizes.few, "--file", f"salt://{file}", "--chunk", "--count", count)
                self.found[name] = self.each(parts, "file request")

    def events(self):
        """Events fired on the local bus."""
        count = self.sizes.events[self.master.kind]
        for name, times, window in (("event", count, 200), ("event-single", count // 8, 1)):
            if not self.wants(name, "memory-loaded"):
                continue
            before = procs.wait_until_idle(self.master.pid)
            bus.fire(f"{self.master.root}/run", times, window=window)
            self.found[name] = (procs.wait_until_idle(self.master.pid) - before) * 1000 / times

    def commands(self):
        """The median of several runs of the CLI."""
        if not self.wants("cli-cpu", "cli-wall"):
            return
        with Serving(self.swarm, self.master, 1):
            self.cli()
            runs = [self.cli() for _ in range(self.sizes.commands[self.master.kind])]
        self.found["cli-cpu"] = median([used for used, _ in runs])
        self.found["cli-wall"] = median([wall for _, wall in runs])

    def minion(self):
        """A real minion of the same kind at the master, and its masterless command."""
        if not self.wants("call", "minion-memory"):
            return
        root = tempfile.mkdtemp(prefix="hn")
        write(f"{root}/etc/minion", f"root_dir: {root}\nid: real\nmaster: 127.0.0.1\nmaster_port: {self.master.ret_port}\n"
              f"publish_port: {self.master.publish_port}\nacceptance_wait_time: 1\nenable_fqdns_grains: false\n"
              f"pki_dir: {root}/pki\ncachedir: {root}/cache\nsock_dir: {root}/run\npidfile: {root}/pid\nlog_file: {root}/log\n"
              f"tcp_pub_port: {free_ports(1)[0]}\ntcp_pull_port: {free_ports(1)[0]}\n")
        try:
            if self.wants("call"):
                argv = [self.master.program("call"), "-c", f"{root}/etc", "--local", "--out=json", "test.ping"]
                timed(argv)
                self.found["call"] = median([timed(argv)[1] for _ in range(self.sizes.commands[self.master.kind])])
            if self.wants("minion-memory"):
                self.found["minion-memory"] = self.minion_memory(root)
        finally:
            shutil.rmtree(root, ignore_errors=True)

    def minion_memory(self, root):
        """Memory of a minion that has answered a job and is idle."""
        daemon = procs.start([self.master.program("minion"), "-c", f"{root}/etc"])
        try:
            self.wait_for_minion(daemon)
            procs.wait_until_idle(daemon.pid)
            time.sleep(self.sizes.idle)
            return procs.pss_mib(procs.family(daemon.pid))
        finally:
            procs.stop(daemon)

    def wait_for_minion(self, daemon):
        """Repeats until the minion has answered: publications before it listens are lost."""
        end = time.monotonic() + 120
        argv = self.master.command("cli", "--out=json", "--timeout=2", "real", "test.ping")
        while time.monotonic() < end and daemon.poll() is None:
            ran = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)
            if '"real": true' in ran.stdout:
                return
            time.sleep(0.2)
        raise Failed(f"{self.master.program('minion')} does not answer; {self.master.log()}")

    def loaded(self):
        """Memory of the master after all other rows."""
        if not self.wants("memory-loaded"):
            return
        procs.wait_until_idle(self.master.pid)
        time.sleep(self.sizes.idle)
        self.found["memory-loaded"] = procs.pss_mib(self.master.pids())

    def many(self):
        """Ten thousand minions, all of which must answer."""
        if not self.wants(*MANY):
            return
        parts = self.job_parts(self.sizes.many, 3)
        self.found["many"] = parts["job"]["latency_ms"]["p50"] / 1000
        self.found["many-cpu"] = self.each(parts, "job answer")
        self.found["many-memory"] = procs.pss_mib(self.master.pids())
