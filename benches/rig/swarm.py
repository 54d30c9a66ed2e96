"""Load by halite-swarm, and the CPU time of a master under it."""
import json
import os
import subprocess
import time

from . import procs
from .masters import Failed


class Swarm:
    """halite-swarm, with keys that are reused between runs."""

    def __init__(self, program, keys, pool=16, timeout=10):
        """`keys` is a directory for `pool` key pairs, `timeout` how many seconds a minion waits for a reply."""
        self.program = program
        self.keys = keys
        self.pool = pool
        self.timeout = timeout

    def command(self, master, mode, minions, *more):
        """Command line of a swarm of that many minions at a master."""
        return [self.program, "--ret-port", str(master.ret_port), "--keys", self.keys, "--key-pool", str(self.pool), "--timeout", str(self.timeout),
                "--mode", mode, "--minions", str(minions), *map(str, more)]

    def run(self, master, mode, minions, *more, limit=120):
        """Runs a swarm to its end and returns its parts by name of operation.

        CPU time that the master still needs after the last answer counts to the last part.
        Raises Failed if any reply is missing or wrong."""
        argv = self.command(master, mode, minions, "--master-pids", master.pid, "--json", "--seconds", limit, *more)
        try:
            ran = subprocess.run(argv, capture_output=True, text=True, timeout=limit + 60, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            raise Failed(f"{' '.join(argv)} does not end") from None
        before = procs.cpu(master.pids())
        late = procs.wait_until_idle(master.pid) - before
        try:
            said = json.loads(ran.stdout)
        except ValueError:
            raise Failed(f"{' '.join(argv)}: {ran.stdout}{ran.stderr}") from None
        if ran.returncode or said["error_count"]:
            raise Failed(f"{' '.join(argv)}: {json.dumps(said)}\n{ran.stderr}{master.log()}")
        parts = {part["operation"]: part for part in said["parts"]}
        # Operations that were measured together share their CPU time.
        for part in said["parts"][1:] or said["parts"]:
            part["master_cpu_ms"] += late * 1000
            part["master_cpu_ms_per_operation"] = part["master_cpu_ms"] / max(1, part["count"])
        return parts


class Serving:
    """Minions that answer jobs inside a `with` block. Raises Failed if they received a wrong reply."""

    def __init__(self, swarm, master, minions, *more):
        self.argv = swarm.command(master, "serve", minions, *more)
        self.process = None

    def __enter__(self):
        self.process = procs.start(self.argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.process.stderr.readline()
        if "signed in" not in line:
            procs.stop(self.process)
            raise Failed(f"{' '.join(self.argv)}: {line}")
        return self

    def __exit__(self, kind, *_):
        procs.stop(self.process)
        if kind is None and self.process.returncode:
            raise Failed(f"{' '.join(self.argv)}: {self.process.stdout.read()}{self.process.stderr.read()}")


def timed(argv, **more):
    """Runs a command to its end: (CPU seconds of it and its children, wall seconds, standard output)."""
    begun = time.monotonic()
    process = procs.start(argv, stdout=subprocess.PIPE, **more)
    out = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    wall = time.monotonic() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    procs.stop(process)
    if process.returncode:
        raise Failed(f"{' '.join(argv)}: exit status {process.returncode}")
    return used.ru_utime + used.ru_stime, wall, out.decode(errors="replace")
