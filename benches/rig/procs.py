"""Processes: descendants, CPU time, memory and descriptors from /proc; starting and stopping."""
import atexit
import contextlib
import os
import resource
import signal
import subprocess
import time

TICK = os.sysconf("SC_CLK_TCK")

# Processes started here and not stopped yet.
_started = []


def _stat(pid):
    """Fields of /proc/PID/stat from the state on; None if the process is gone or a zombie."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            # The name in parentheses may contain anything, so start after it.
            fields = f.read().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields


def family(pid):
    """Pids of a process and all its descendants, the process itself first."""
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
    """CPU seconds, user and system, of processes and their exited children."""
    every = filter(None, map(_stat, pids))
    return sum(sum(map(int, fields[11:15])) for fields in every) / TICK


def memory_kib(pid):
    """Memory of a process in KiB: `Rss`, `Pss` (pages that n processes share count as 1/n) and `Anonymous`, its private data."""
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


def command_line(pid):
    """The words of the command line, as in the process list."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read().replace(b"\0", b" ").decode(errors="replace").split()
    except OSError:
        return []


def start(argv, **more):
    """Starts a process that is stopped when this one exits; its output is discarded by default."""
    for stream in ("stdin", "stdout", "stderr"):
        more.setdefault(stream, subprocess.DEVNULL)
    process = subprocess.Popen(argv, **more)
    _started.append(process)
    return process


def stop(process, patience=20):
    """Stops a process returned by `start`, and all its descendants."""
    if process in _started:
        _started.remove(process)
    if process.poll() is not None:
        return
    processes = [(pid, _start_time(pid)) for pid in family(process.pid)]
    process.terminate()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        pass
    for pid, started in processes:
        # The pid may belong to another process by now, which has another start time.
        if started is not None and _start_time(pid) == started:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    process.wait()


def _start_time(pid):
    """When a process started, in ticks since boot; None if it is gone."""
    fields = _stat(pid)
    return fields and int(fields[19])


def lives(pid, started):
    """Whether the process of that pid that has started at that time, in ticks since boot, is still there."""
    return _start_time(pid) == started


def stop_all():
    """Stops all processes started here, the last one first."""
    for process in list(reversed(_started)):
        stop(process)


def raise_open_files(wanted):
    """Raises the limit of open files of processes started from now on, as far as this account may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for limits in ((max(soft, wanted), max(hard, wanted)), (hard, hard)):
        with contextlib.suppress(OSError, ValueError):
            return resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def most_minions(wanted):
    """The number of simulated minions in one process: `wanted`, or as many hundreds as its limit of open files allows, with two per
    minion and some more."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(wanted, (hard - 64) // 200 * 100)


def end_with_signals():
    """Makes SIGTERM and SIGHUP exit this program in order, so that all processes it started are stopped."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: exit(128 + number))


def wait_until_idle(pid, limit=30.0, share=0.03, span=0.5):
    """Waits until a process and its descendants use less than `share` of a core over `span` seconds, at most `limit` seconds; returns
    their CPU seconds."""
    end = time.monotonic() + limit
    before = cpu(family(pid))
    while True:
        time.sleep(span)
        now = cpu(family(pid))
        if now - before < share * span or time.monotonic() > end:
            return now
        before = now


atexit.register(stop_all)
