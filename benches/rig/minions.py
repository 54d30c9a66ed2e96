"""Minions of masters in temporary directories."""
import json
import os
import subprocess
import time

from . import procs
from .masters import PROGRAMS, Failed, tail, write

NAME = "bench"


class Minion:
    """A minion of a master's kind that answers its jobs inside a `with` block."""

    def __init__(self, master, top, extra=""):
        """`top` is a directory for it, `extra` more lines of configuration. The master must run."""
        self.master = master
        self.config = f"{top}/etc"
        self.log = f"{top}/log"
        self.process = None
        write(f"{self.config}/minion", f"id: {NAME}\nroot_dir: {top}/root\nmaster: 127.0.0.1\nmaster_port: {master.ret_port}\n"
              f"publish_port: {master.publish_port}\nlog_file: {self.log}\nacceptance_wait_time: 1\n{extra}")

    def __enter__(self):
        program = os.path.join(self.master.programs, PROGRAMS[self.master.kind]["minion"])
        self.process = procs.start([program, "-c", self.config])
        try:
            # A job that is published between a minion's sign-in and its subscription is lost.
            ping = self.command("test.ping", seconds=3)
            end = time.monotonic() + 180
            while "true" not in (ran := subprocess.run(ping, capture_output=True, text=True, check=False)).stdout:
                if time.monotonic() > end or self.process.poll() is not None:
                    raise Failed(f"the minion of {self.master.kind} does not answer: {ran.stderr[-500:]}; {tail(self.log)}")
        except BaseException:
            procs.stop(self.process)
            raise
        return self

    def __exit__(self, *_):
        procs.stop(self.process)

    def command(self, *job, seconds=120):
        """Command line of the CLI for a job of it: a function and its arguments."""
        return self.master.command("cli", "--out=json", "--static", "-t", str(seconds), NAME, *job)

    def run(self, *job):
        """Runs a job: seconds from the command to its end, and what the CLI prints. Raises Failed if it prints nothing."""
        begun = time.monotonic()
        ran = subprocess.run(self.command(*job), capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        wall = time.monotonic() - begun
        if not ran.stdout.strip():
            raise Failed(f"{' '.join(job)}: no answer after {wall:.0f} s, exit status {ran.returncode}: {ran.stderr[-1000:]}")
        return wall, ran.stdout

    def ask(self, *job):
        """Runs a job: seconds from the command to its end, and what the function returns. Raises Failed if the minion does not answer."""
        wall, out = self.run(*job)
        return wall, answer(out)

    def idle(self):
        """Waits until it has nothing to do; CPU seconds of it and its jobs so far. It waits for the end of a job after it has returned."""
        procs.wait_until_idle(self.process.pid, limit=5)
        return procs.cpu(procs.family(self.process.pid))

    def pids(self):
        """Pids of all its processes."""
        return procs.family(self.process.pid)


def answer(out):
    """What the only minion has returned, from what a command has printed. Raises Failed if that is no answer."""
    try:
        [value] = json.loads(out).values()
    except (ValueError, AttributeError) as e:
        raise Failed(f"no answer: {e}: {out[:500]}") from None
    return value
