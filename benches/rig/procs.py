"""Processes: families, CPU time, memory and descriptors from /proc, and the ones started here."""
import atexit
import contextlib
import os
import resource
import signal
import subprocess
import time

TICK = os.sysconf("SC_CLK_TCK")

# What was started here and has not been ended yet.
_started = []


def _stat(pid):
    """Fields of /proc/PID/stat from the state on; None if the process is gone or a zombie."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            # The name in parentheses may hold anything, so count from behind it.
            fields = f.read().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields


def family(pid):
    """Pids of a process and of all below it, the process itself first."""
    below = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        fields = _stat(name)
        if fields:
            below.setdefault(int(fields[1]), []).append(int(name))
    found, left = [], [pid]
    while left:
        one = left.pop(0)
        if _stat(one):
            found.append(one)
        left += below.get(one, [])
    return found


def cpu(pids):
    """CPU seconds of processes and of their ended children, user and system."""
    every = filter(None, map(_stat, pids))
    return sum(sum(map(int, fields[11:15])) for fields in every) / TICK


def memory_kib(pid):
    """Memory of a process in KiB: `Rss`, `Pss` (pages that n processes share count as 1/n) and `Anonymous`, its own data."""
    found = {"Rss": 0, "Pss": 0, "Anonymous": 0}
    with contextlib.suppress(OSError), open(f"/proc/{pid}/smaps_rollup") as f:
        for line in f:
            name, _, value = line.partition(":")
            if name in found:
                found[name] = int(value.split()[0])
    return found


def pss_mib(pids):
    """Proportional memory of processes in MiB."""
    return sum(memory_kib(pid)["Pss"] for pid in pids) / 1024


def descriptors(pid):
    """Number of open files of a process."""
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return 0


def words(pid):
    """The words that the process list shows."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read().replace(b"\0", b" ").decode(errors="replace").split()
    except OSError:
        return []


def start(argv, **more):
    """Starts a process that is ended with this one; its output goes nowhere unless told otherwise."""
    for stream in ("stdin", "stdout", "stderr"):
        more.setdefault(stream, subprocess.DEVNULL)
    process = subprocess.Popen(argv, **more)
    _started.append(process)
    return process


def stop(process, patience=20):
    """Ends a process that `start` gave, and all below it."""
    if process in _started:
        _started.remove(process)
    if process.poll() is not None:
        return
    everybody = [(pid, _born(pid)) for pid in family(process.pid)]
    process.terminate()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        pass
    for pid, born in everybody:
        # A pid may have been given to somebody else meanwhile; the time of its start tells.
        if born is not None and _born(pid) == born:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    process.wait()


def _born(pid):
    """When a process began, in ticks since the system did; None if it is gone."""
    fields = _stat(pid)
    return fields and int(fields[19])


def stop_all():
    """Ends all that was started here, the last first."""
    for process in list(reversed(_started)):
        stop(process)


def raise_open_files(wanted):
    """Lets what is started from now on open so many files, as far as this account may say so."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for limits in ((max(soft, wanted), max(hard, wanted)), (hard, hard)):
        with contextlib.suppress(OSError, ValueError):
            return resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def most_minions(wanted):
    """As many simulated minions in one process as wanted, or as its open files allow, in whole hundreds: two each and some more."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(wanted, (hard - 64) // 200 * 100)


def end_with_signals():
    """Lets SIGTERM and SIGHUP end this program as Ctrl-C does, so that nothing it started stays."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: exit(128 + number))


def settle(pid, limit=30.0, share=0.03, span=0.5):
    """Waits until a family uses less than `share` of a core over `span` seconds; gives its CPU seconds then."""
    end = time.monotonic() + limit
    before = cpu(family(pid))
    while True:
        time.sleep(span)
        now = cpu(family(pid))
        if now - before < share * span or time.monotonic() > end:
            return now
        before = now


atexit.register(stop_all)
