"""Mixed load on a halite master, and samples of its processes meanwhile."""
import contextlib
import csv
import json
import os
import subprocess
import threading
import time

from . import bus, drift, procs
from .masters import Failed

# Time limit of commands in seconds; far more than they need.
PATIENCE = 120
# Only the first failures are printed; the others are counted.
TOLD = 10


class Sampler:
    """Periodically writes memory, descriptors and CPU time of every process of a master to a CSV file."""

    HEADS = ["seconds", "process", "pid", "rss_kib", "pss_kib", "anonymous_kib", "descriptors", "threads", "cpu_seconds"]

    def __init__(self, master, path, every):
        self.master = master
        self.every = every
        self.begun = time.monotonic()
        # By role: [(seconds, private MiB)], [(seconds, descriptors)]; of all processes: [(seconds, PSS MiB)].
        self.memory, self.descriptors, self.total = {}, {}, []
        self.file = open(path, "w", newline="")
        self.writer = csv.writer(self.file)
        self.writer.writerow(self.HEADS)

    def sample(self):
        """One row per running process."""
        at, total = time.monotonic() - self.begun, 0
        for role, pid in self.master.roles().items():
            kib, open_files = procs.memory_kib(pid), procs.descriptors(pid)
            threads = len(os.listdir(f"/proc/{pid}/task")) if os.path.exists(f"/proc/{pid}/task") else 0
            if not kib["Rss"]:
                continue
            total += kib["Pss"]
            self.writer.writerow([f"{at:.1f}", role, pid, kib["Rss"], kib["Pss"], kib["Anonymous"], open_files, threads,
                                  f"{procs.cpu([pid]):.2f}"])
            self.memory.setdefault(role, []).append((at, kib["Anonymous"] / 1024))
            self.descriptors.setdefault(role, []).append((at, open_files))
        self.total.append((at, total / 1024))
        self.file.flush()

    def run(self, stop):
        """Samples until `stop` is set."""
        while not stop.wait(self.every):
            self.sample()


class Load:
    """The load on the master, with one thread per kind of operation."""

    def __init__(self, master, swarm, minions):
        self.master = master
        self.swarm = swarm
        self.minions = minions
        self.stop = threading.Event()
        self.lock = threading.Lock()
        self.done = {}
        self.failures = []
        self.echoes = 0

    def kinds(self):
        """The operations, and the pause after each in seconds."""
        return [
            (self.ping, 0.5), (self.sign_ins, 1), (self.returns, 0.5), (self.own_jids, 1), (self.commands, 0.5),
            (self.pillars, 0.5), (self.files, 0.5), (self.events, 0.5), (self.deletion, 5), (self.listener_that_goes, 0.2), (self.slow_listener, 0),
        ]

    def run(self, seconds, until=lambda: False):
        """Loads the master for that long, then waits for pending operations."""
        threads = [threading.Thread(target=self.again, args=kind, daemon=True) for kind in self.kinds()]
        for thread in threads:
            thread.start()
        end = time.monotonic() + seconds
        while time.monotonic() < end and not until():
            time.sleep(0.2)
        self.stop.set()
        for thread in threads:
            thread.join(PATIENCE * 2)

    def again(self, what, pause):
        """Repeats one operation until the end."""
        name = what.__name__.replace("_", " ")
        while not self.stop.is_set():
            try:
                what()
                with self.lock:
                    self.done[name] = self.done.get(name, 0) + 1
            except (Failed, OSError, ValueError, subprocess.SubprocessError) as e:
                with self.lock:
                    self.failures.append(f"{name}: {e}")
                # Do not repeat an operation that fails immediately as fast as possible.
                self.stop.wait(1)
            self.stop.wait(pause)

    def command(self, name, *args):
        """Runs one of halite's commands and returns its output."""
        argv = self.master.command(name, *args)
        ran = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)
        if ran.returncode:
            raise Failed(f"{' '.join(argv)}: exit status {ran.returncode}: {ran.stdout[-500:]}{ran.stderr[-500:]}")
        return ran.stdout

    def ping(self):
        """Pings all minions; every connected one must answer."""
        out = json.loads(self.command("cli", "--out=json", "--static", f"--timeout={PATIENCE // 2}", "sw-*", "test.ping"))
        silent = [n for n in range(self.minions) if out.get(f"sw-{n}") is not True]
        if silent or len(out) != self.minions:
            raise Failed(f"{len(silent)} of {self.minions} minions do not answer a ping; {len(out)} are listed")

    def sign_ins(self):
        """New minions: first and repeated sign-ins."""
        self.load("signin", 50, "--prefix", "si", "--rounds", 2)

    def returns(self):
        """Returns for jids made by the swarm."""
        self.load("returns", 50, "--prefix", "re", "--count", 1000)

    def own_jids(self):
        """Returns for which the master creates a jid."""
        self.load("returns", 20, "--prefix", "rq", "--count", 200, "--req")

    def commands(self):
        """Commands of an operator, with checks of their output."""
        self.echoes += 1
        said = json.loads(self.command("cli", "--out=json", "sw-0", "test.echo", f"text {self.echoes}"))
        if said != {"sw-0": f"text {self.echoes}"}:
            raise Failed(f"test.echo returned {said}")
        if "sw-0" not in self.command("key", "--out=json", "-L"):
            raise Failed("halite-key -L does not list sw-0")
        self.command("run", "--out=json", "fileserver.envs")

    def pillars(self):
        """Pillars with Jinja and YAML; a minion must get the same one each time."""
        self.load("pillar", 10, "--prefix", "pi", "--count", 100, "--expect", f"{self.master.root}/pillar.json")

    def files(self):
        """Whole files, compared with their hashes."""
        self.load("files", 10, "--prefix", "fi", "--count", 20, "--file", "salt://big")
        self.load("files", 10, "--prefix", "fi", "--count", 200, "--file", "salt://small")

    def events(self):
        """Events to four listeners, each of which must receive all."""
        bus.fire(f"{self.master.root}/run", 500)

    def deletion(self):
        """Keys are created and deleted, which changes the publication key."""
        self.load("signin", 3, "--prefix", "gone")
        self.command("key", "-y", "-d", "gone-*")

    def listener_that_goes(self):
        """A listener on the bus that receives a little and disconnects."""
        with self.listen() as ear:
            ear.settimeout(0.3)
            with contextlib.suppress(TimeoutError):
                ear.recv(65536)

    def slow_listener(self):
        """A listener that reads far more slowly than events come, for a minute at a time."""
        with self.listen() as ear:
            ear.settimeout(1)
            end = time.monotonic() + 60
            while time.monotonic() < end and not self.stop.wait(0.5):
                with contextlib.suppress(TimeoutError):
                    if not ear.recv(512):
                        # The master may disconnect slow listeners.
                        return

    def listen(self):
        """A connection to the bus."""
        return bus.connect(f"{self.master.root}/run/master_event_pub.ipc")

    def load(self, mode, minions, *more):
        """Runs a swarm to its end."""
        argv = self.swarm.command(self.master, mode, minions, "--json", "--seconds", PATIENCE, *more)
        ran = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE * 2, stdin=subprocess.DEVNULL)
        if ran.returncode:
            raise Failed(f"{' '.join(argv)}: {ran.stdout}{ran.stderr}")

    def complaints(self):
        """Failures, and operations that never succeeded."""
        never = [f"{what.__name__.replace('_', ' ')} was never done" for what, _ in self.kinds()
                 if what.__name__.replace("_", " ") not in self.done]
        more = [f"and {len(self.failures) - TOLD} failures more"] if len(self.failures) > TOLD else []
        return self.failures[:TOLD] + more + never


def verdict(sampler, before, after, limits, slopes):
    """Complaints about the processes. `before` and `after` are open files by role at rest; `slopes` is whether to check slopes."""
    out = []
    for role, samples in sampler.memory.items():
        judged = samples if slopes else [(0.0, max(value for _, value in samples))]
        told = [drift.memory(judged, limits)]
        if slopes:
            told.append(drift.descriptors(sampler.descriptors[role], limits))
        if role in before and role in after:
            told.append(drift.rest(before[role][1], after[role][1], limits))
        out += [f"{role}: {complaint}" for complaint in told if complaint]
    for role, (pid, _) in before.items():
        if role not in after:
            out.append(f"{role} has ended")
        elif after[role][0] != pid:
            out.append(f"{role} has ended and was started again")
    return out


def at_rest(master):
    """(pid, open files) by role, when the master is idle."""
    procs.wait_until_idle(master.pid)
    return {role: (pid, procs.descriptors(pid)) for role, pid in master.roles().items()}


def summary(sampler):
    """Rows of a table: each process at the start and the end, after the warm-up."""
    heads = ["process", "own MiB, first third", "last third", "MiB per hour", "descriptors, first", "last"]
    lines = []
    for role, samples in sorted(sampler.memory.items()):
        lines.append([role, *trend(samples), *ends(sampler.descriptors[role])])
    lines.append(["all of them, PSS", *trend(sampler.total), "", ""])
    return heads, lines


def trend(samples):
    """Medians of the first and the last third, and growth per hour."""
    points = drift.binned(drift.warm(samples))
    first, last = drift.thirds([value for _, value in points])
    return [f"{drift.median(first):.1f}", f"{drift.median(last):.1f}", f"{drift.slope(points) * 3600:+.2f}"]


def ends(samples):
    """Minimum of the first and of the last third."""
    first, last = drift.thirds([value for _, value in drift.warm(samples)])
    return [str(min(first)), str(min(last))]
