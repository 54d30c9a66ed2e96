"""How much CPU and memory a halite master needs, by minions, jobs per minute and workers."""
import time
from dataclasses import dataclass

from . import figures, procs
from .masters import Failed, Master
from .swarm import Serving, timed

# More replies per second than the simulated minions can give while a master runs on the same two cores.
MOST_ANSWERS = 5000
# Number of jobs from which the time of one job is computed.
JOBS = 5


@dataclass(frozen=True)
class Plan:
    """What is measured for the table."""

    # (minions, workers) of each line; the most important first, in case time runs out.
    lines: tuple = ((1000, 5), (10_000, 5), (100, 5), (5000, 5), (1000, 1), (1000, 2), (1000, 10), (5000, 2), (10_000, 2))
    # Jobs per minute.
    rates: tuple = (0, 6, 60)
    # How long CPU time is measured for each rate.
    seconds: float = 10.0

    def heads(self):
        """Header of the table."""
        return ["minions", "workers", "memory at rest, MiB PSS", "after the load", "a job to all, s", "CPU ms of it",
                *(f"CPU at {rate} jobs a minute" for rate in self.rates)]


QUICK = Plan(lines=((20, 2),), rates=(0, 60), seconds=1.0)


def measure(programs, swarm, plan, keep, late):
    """Measures line by line; `keep` is called after each with all lines so far, sorted; it stops once `late` returns true.

    Returns failures."""
    lines, failures = [], []
    for wanted, workers in plan.lines:
        minions = procs.most_minions(wanted)
        if late():
            break
        try:
            with Master("halite", programs, f"worker_threads: {workers}\n") as master:
                cells = one(master, swarm, minions, plan)
        except Failed as e:
            failures.append(f"{minions} minions, {workers} workers: {e}")
            continue
        lines.append([minions, workers, *cells])
        lines.sort(key=lambda line: line[:2])
        keep([[str(cell) for cell in line] for line in lines])
    return failures


def one(master, swarm, minions, plan):
    """Cells of one line, without its first two."""
    master.start()
    parts = swarm.run(master, "jobs", minions, "--jobs", JOBS, "--cachedir", f"{master.root}/cache")
    job = parts["job"]
    with Serving(swarm, master, minions):
        procs.wait_until_idle(master.pid)
        idle = procs.pss_mib(master.pids())
        shares = [share(master, minions, rate, plan.seconds) for rate in plan.rates]
        loaded = procs.pss_mib(master.pids())
    return [figures.number(idle), figures.number(loaded), figures.number(job["latency_ms"]["p50"] / 1000),
            figures.number(job["master_cpu_ms_per_operation"]), *shares]


def share(master, minions, rate, seconds):
    """CPU time of the master as a share of one core while that many jobs per minute go to all minions.

    "-" if this machine cannot simulate that."""
    if minions * rate / 60 > MOST_ANSWERS:
        return "-"
    procs.wait_until_idle(master.pid)
    pause = 60 / rate if rate else seconds
    # Whole jobs only, and at least one.
    jobs = max(1, int(seconds / pause)) if rate else 0
    before, begun = procs.cpu(master.pids()), time.monotonic()
    for number in range(jobs):
        time.sleep(max(0.0, begun + number * pause - time.monotonic()))
        timed(master.command("cli", "--async", "*", "test.ping"))
    due = begun + max(1, jobs) * pause
    if time.monotonic() > due:
        return "-"
    time.sleep(due - time.monotonic())
    used = procs.cpu(master.pids()) - before
    return f"{used / (time.monotonic() - begun):.1%}"
