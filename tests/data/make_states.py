"""What stock Salt's state functions return, for tests/fast/states.rs.

Run as root with the Python of an environment with Salt 3008.3, from the top of the project; files of cases can be named to
record only these:

    python tests/data/make_states.py [tests/data/states/cmd.yaml ...]

Writes a .json file beside each .yaml file of tests/data/states. A case is

    {state: cmd.run, args: {name: ..., ...}, setup: shell lines, fakes: [apt], steps: [test, real, real], differs: why}

`{D}` is its sandbox, made anew for each case, `{W}/srv` the file server. Each step calls the state once, in test mode or for
real. An entry with `setup` alone is the first part of the setup of all cases after it. `fakes` names directories of
tests/data/states/fakes whose programs are put into {D}/bin, which is first in PATH. All of it runs in a mount namespace of
its own with a copy of /etc. The sandbox is recorded afterwards: types, modes, owners, links, digests. A case with `differs` is not compared: halite
does something else on purpose.
"""

import ctypes
import hashlib
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
import copy

warnings.simplefilter("ignore")

import salt.config  # noqa: E402
import salt.minion  # noqa: E402
import salt.state  # noqa: E402
import yaml  # noqa: E402

NAMES = [os.path.abspath(name) for name in sys.argv[1:]]
HERE = os.path.dirname(os.path.abspath(__file__))
WORK = f"{tempfile.gettempdir()}/halite-states-{os.getpid()}"
SANDBOX = f"{WORK}/D"
STEPS = ["test", "real", "real"]
KEYS = {"state", "args", "setup", "fakes", "steps", "differs"}
# Modules that hold more between calls than a run of states does.
FRESH = {"grains", "host", "ssh_auth", "ssh_known_hosts"}
# What stock 3008 does not have, what holds lists of packages for the life of a process, and what make_sql_states.py
# records.
NOT_CALLS = {"alternatives.yaml", "mysql.yaml", "pkg.yaml", "postgres.yaml"}
# What only 3007 has: recorded by its Python, when named.
SERIES_3007 = {"acme.yaml", "apache.yaml", "augeas.yaml", "gem.yaml", "npm.yaml", "postgres_cluster.yaml", "supervisord.yaml"}
# What differs from run to run.
IGNORED = {"start_time", "duration", "__run_num__", "pid", "__sls__"}


GRAINS = {"gl": ["a", "b"], "gm": {"l": ["a"], "k": "v", "deep": {"x": 1}}, "gt": "t", "gn": None}
# What a host of another family says of itself, for files whose names end so.
FAMILIES = {"redhat": {"os_family": "RedHat", "os": "CentOS", "osfullname": "CentOS Linux", "osrelease": "8.5", "osmajorrelease": 8}}


def grains():
    ending = NAMES[0].removesuffix(".yaml").rpartition("_")[2]
    return {**GRAINS, **FAMILIES.get(ending, {})}


def options():
    os.makedirs(f"{WORK}/conf/stock")
    conf = f"{WORK}/conf/stock/minion"
    with open(conf, "w") as f:
        yaml.safe_dump({
            "id": "m1", "file_client": "local", "root_dir": f"{WORK}/root-stock", "grains": grains(), "file_roots": {"base": [f"{WORK}/srv"]},
            "pillar_roots": {"base": [f"{WORK}/pillar"]}, "log_level": "quiet", "log_level_logfile": "quiet", "fileserver_list_cache_time": 0,
        }, f)
    return salt.config.minion_config(conf)


class Stock:
    """One compiler per mode for all cases: creating one takes most of a second."""

    def __init__(self):
        opts = options()
        self.minion = salt.minion.SMinion(opts)
        self.states = {}

    def call(self, fun, kwargs, test, again=False):
        if fun.split(".")[0] in FRESH or fun == "file.recurse" or "pillar" in kwargs:
            ret = self.minion.functions["state.single"](fun, test=test, **copy.deepcopy(kwargs))
            return next(iter(ret.values())) if isinstance(ret, dict) else ret
        if test not in self.states:
            opts = copy.deepcopy(self.minion.opts)
            opts["test"] = test
            self.states[test] = salt.state.State(opts, initial_pillar=opts.get("pillar", {}))
        state = self.states[test]
        context = state.functions.pack["__context__"]
        if hasattr(context, "clear"):
            context.clear()
        module, function = fun.split(".")
        # Whether a module loads may depend on the sandbox's programs.
        if f"{module}.{function}" not in state.states and not again:
            del self.states[test]
            return self.call(fun, kwargs, test, again=True)
        # Stock removes parts of conditions as it reads them.
        kwargs = copy.deepcopy(kwargs)
        low = {**kwargs, "state": module, "fun": function, "__id__": kwargs["name"]}
        return state.verify_data(low) or state.call(low)


def today():
    """What /etc/shadow says of a password that was changed now."""
    return int(time.time()) // 86400


def plain(value):
    if isinstance(value, dict):
        value = {k: "TODAY" if k == "lstchg" and v == today() else v for k, v in value.items()}
        return {plain(str(k)): plain(v) for k, v in value.items() if k not in IGNORED}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, str):
        mark = "Traceback (most recent call last):"
        if mark in value:
            # The lines of code in between are stock's own.
            head, _, rest = value.partition(mark)
            lines = [line for line in rest.strip().splitlines() if line.strip()]
            value = f"{head}{mark}\n{lines[-1] if lines else ''}\n"
        value = value.replace(SANDBOX, "{D}").replace(WORK, "{W}")
        value = re.sub(r"'query time': {[^}]*}", "'query time': {}", value)
        return value.replace("root-stock", "ROOT").replace("conf/stock", "CONF")
    return value


def tree():
    found = {}
    for top, dirs, files in os.walk(SANDBOX):
        # What git keeps for itself has times in it.
        if os.path.basename(top) == ".git":
            dirs.clear()
            continue
        # The fakes are known.
        if top == SANDBOX:
            dirs[:] = [name for name in dirs if name != "bin"]
        for name in dirs + files:
            path = os.path.join(top, name)
            stat = os.lstat(path)
            entry = [oct(stat.st_mode)[2:], stat.st_uid, stat.st_gid]
            if os.path.islink(path):
                entry.append(plain(os.readlink(path)))
            elif os.path.isfile(path):
                with open(path, "rb") as f:
                    text = f.read().replace(SANDBOX.encode(), b"{D}").replace(WORK.encode(), b"{W}")
                if name in ("shadow", "shadow-"):
                    text = text.replace(b":%d:" % today(), b":TODAY:")
                entry.append(hashlib.sha256(text).hexdigest())
            found[os.path.relpath(path, SANDBOX)] = entry
    return found


def filled(value):
    if isinstance(value, str):
        return value.replace("{D}", SANDBOX).replace("{W}", WORK)
    if isinstance(value, dict):
        return {filled(k): filled(v) for k, v in value.items()}
    if isinstance(value, list):
        return [filled(v) for v in value]
    return value


def apart():
    """Leaves the host's mounts and /etc alone."""
    os.unshare(os.CLONE_NEWNS) if hasattr(os, "unshare") else LIBC.unshare(0x20000)
    run = lambda *words: subprocess.run(words, check=True)  # noqa: E731
    run("mount", "--make-rprivate", "/")
    os.makedirs(f"{WORK}/over")
    run("mount", "-t", "tmpfs", "tmpfs", f"{WORK}/over")
    os.makedirs(f"{WORK}/over/upper"), os.makedirs(f"{WORK}/over/work")
    run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir=/etc,upperdir={WORK}/over/upper,workdir={WORK}/over/work", "/etc")
    if NAMES[0].rpartition("/")[2].startswith("service"):
        # As on a host that systemd has booted.
        os.makedirs("/run/systemd", exist_ok=True)
        run("mount", "-t", "tmpfs", "tmpfs", "/run/systemd")
        os.makedirs("/run/systemd/system")
    os.makedirs("/etc/systemd/system", exist_ok=True)
    run("mount", "-t", "tmpfs", "tmpfs", "/etc/systemd/system")
    os.environ["FAKE_SYSTEM"] = "/etc/systemd/system"
    os.environ["PATH"] = f"{SANDBOX}/bin:" + os.environ["PATH"]


LIBC = ctypes.CDLL(None)


def play(stock, case):
    with open("/proc/self/mounts") as f:
        for line in reversed(f.read().splitlines()):
            if line.split()[1].startswith(SANDBOX + "/"):
                subprocess.run(["umount", "-l", line.split()[1]], check=False)
    for path in ("D", "srv"):
        shutil.rmtree(f"{WORK}/{path}", ignore_errors=True)
        os.makedirs(f"{WORK}/{path}")
    for name in case.get("fakes", []):
        shutil.copytree(f"{HERE}/states/fakes/{name}", f"{SANDBOX}/bin", dirs_exist_ok=True, symlinks=True)
    if setup := case.get("setup"):
        subprocess.run(["/bin/sh", "-ec", filled(setup)], cwd=SANDBOX, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    args = filled(dict(case.get("args", {})))
    args.setdefault("name", "x")
    results = [plain(stock.call(case["state"], args, step == "test")) for step in case.get("steps", STEPS)]
    return {"results": results, "tree": tree()}


def main():
    if len(NAMES) != 1:
        # A process for each: some of them change what is mounted.
        for name in NAMES or sorted(os.path.join(HERE, "states", name) for name in os.listdir(f"{HERE}/states") if name.endswith(".yaml")):
            if os.path.basename(name) not in NOT_CALLS | (set() if NAMES else SERIES_3007):
                subprocess.run([sys.executable, "-W", "ignore", __file__, name], check=True)
        return
    os.makedirs(WORK)
    os.umask(0o022)
    logging.disable(logging.CRITICAL)
    os.chdir("/")
    apart()
    stock = Stock()
    for name in NAMES:
        with open(name) as f:
            cases = yaml.safe_load(f)
        recorded = []
        before = ""
        for case in cases:
            if set(case) - KEYS or not all(isinstance(step, str) for step in case.get("steps", [])):
                # For other ways of comparing.
                continue
            if "state" not in case:
                before = case["setup"]
                continue
            if before:
                case["setup"] = before + "\n" + case.get("setup", "")
            try:
                recorded.append({**case, **play(stock, case)})
            except subprocess.CalledProcessError as e:
                print(f"{name}: the setup of {case['state']} {case.get('args')} failed: {e.stderr}")
        with open(name.removesuffix(".yaml") + ".json", "w") as f:
            f.write("[\n" + ",\n".join(json.dumps(case) for case in recorded) + "\n]\n")
        print(f"{name}: {len(recorded)} cases")
    shutil.rmtree(WORK, ignore_errors=True)


if __name__ == "__main__":
    main()
