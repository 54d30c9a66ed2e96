"""What halite's master needs for the same work over each of its transports, and with halite's own handshake."""
import os
import subprocess
import tempfile
from dataclasses import dataclass
from statistics import median

from . import figures, procs
from .masters import Failed, Master
from .swarm import Serving, Swarm

# Transport of each, and whether it has TLS. The minions sign in as Salt's, but for the second.
TRANSPORTS = {
    "zeromq": ("zeromq", False),
    "zeromq, handshake": ("zeromq", False),
    "tcp": ("tcp", False),
    "tcp, TLS": ("tcp", True),
    "ws": ("ws", False),
    "ws, TLS": ("ws", True),
}

# Name, title and unit of each row.
ROWS = (
    ("signin-first", "first sign-in", "CPU ms"),
    ("signin-again", "sign-in of a known minion", "CPU ms"),
    ("return", "return", "CPU ms"),
    ("job", "job to {minions} minions, all answer", "CPU ms"),
    ("pillar", "pillar of 50 items through Jinja and YAML", "CPU ms"),
    ("file-chunk", "file, chunk of 1 MiB", "CPU ms"),
    ("memory", "request server and publisher, each connected minion", "KiB PSS"),
)


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    minions: int = 1000
    jobs: int = 20
    returns: int = 20_000
    pillars: int = 2000
    chunks: int = 300


QUICK = Plan(minions=20, jobs=2, returns=100, pillars=20, chunks=5)


def measure(programs, plan, rounds, keep, late):
    """Measures each transport once per round; `keep` is called after each with all figures so far. Returns failures."""
    found, failures = {}, []
    with tempfile.TemporaryDirectory(prefix="hk") as keys, tempfile.TemporaryDirectory(prefix="ht") as tls:
        certificate(tls)
        for _ in range(rounds):
            for name, (transport, has_tls) in TRANSPORTS.items():
                if late():
                    return [*failures, "no time for all rounds"]
                swarm = Over(os.path.join(programs, "halite-swarm"), keys, transport, f"{tls}/cert.pem" if has_tls else None, "handshake" in name)
                extra = f"transport: {transport}\n"
                if has_tls:
                    extra += f"ssl: {{certfile: {tls}/cert.pem, keyfile: {tls}/key.pem}}\n"
                try:
                    with Master("halite", programs, extra) as master:
                        for row, value in one(master, swarm, plan).items():
                            found.setdefault(name, {}).setdefault(row, []).append(value)
                except Failed as e:
                    failures.append(f"{name}: {e}")
                keep(found)
    return failures


def certificate(place):
    """A certificate for 127.0.0.1, with an RSA key of 2048 bits, as most are."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{place}/key.pem", "-out", f"{place}/cert.pem",
                    "-days", "2", "-subj", "/CN=bench", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)


class Over(Swarm):
    """A swarm that uses a transport."""

    def __init__(self, program, keys, transport, ca, noise):
        super().__init__(program, keys)
        self.more = ["--transport", transport, *(["--ca", ca] if ca else []), *(["--noise"] if noise else [])]

    def command(self, master, mode, minions, *more):
        return super().command(master, mode, minions, *self.more, *more)


def one(master, swarm, plan):
    """The figures of one master."""
    master.start()
    found = {}
    procs.wait_until_idle(master.pid)
    before = of_connections(master)
    with Serving(swarm, master, plan.minions):
        procs.wait_until_idle(master.pid)
        found["memory"] = max(0.0, of_connections(master) - before) * 1024 / plan.minions
    parts = swarm.run(master, "signin", plan.minions, "--rounds", 2)
    found["signin-first"] = parts["sign-in"]["master_cpu_ms_per_operation"]
    found["signin-again"] = parts["sign-in again"]["master_cpu_ms_per_operation"]
    parts = swarm.run(master, "returns", plan.minions, "--count", plan.returns)
    found["return"] = parts["return"]["master_cpu_ms_per_operation"]
    parts = swarm.run(master, "pillar", plan.minions, "--count", plan.pillars)
    found["pillar"] = parts["pillar"]["master_cpu_ms_per_operation"]
    parts = swarm.run(master, "jobs", plan.minions, "--jobs", plan.jobs, "--cachedir", f"{master.root}/cache")
    found["job"] = parts["job"]["master_cpu_ms_per_operation"]
    parts = swarm.run(master, "files", 20, "--file", "salt://big", "--chunk", "--count", plan.chunks)
    found["file-chunk"] = parts["file request"]["master_cpu_ms_per_operation"]
    return found


def of_connections(master):
    """Memory of the two processes that hold the connections of minions."""
    roles = master.roles()
    return procs.pss_mib([roles["ReqServer MWorkerQueue"], roles["PubServerChannel._publish_daemon"]])


def table(found, plan):
    """Header and lines: each row with the figure of each transport, and its ratio to ZeroMQ's."""
    names = [name for name in TRANSPORTS if name in found]
    lines = []
    for row, title, unit in ROWS:
        values = [found[name].get(row, []) for name in names]
        first = median(values[0]) if values and values[0] else None
        cells = []
        for name, these in zip(names, values):
            cell = figures.spread(these)
            if name != "zeromq" and these and first:
                cell += f"; {figures.number(median(these) / first)} times"
            cells.append(cell)
        lines.append([title.format(**plan), unit, *cells])
    return ["work", "unit", *names], lines
