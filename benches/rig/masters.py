"""Masters in temporary directories, halite's and stock ones; a table of programs is the only difference."""
import atexit
import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time

from . import procs

# Names of the programs by kind of master.
PROGRAMS = {
    "halite": {"master": "halite-master", "cli": "halite", "call": "halite-call", "minion": "halite-minion",
               "key": "halite-key", "run": "halite-run"},
    "stock": {"master": "salt-master", "cli": "salt", "call": "salt-call", "minion": "salt-minion",
              "key": "salt-key", "run": "salt-run"},
}

PILLAR_ITEMS = 50
MIB = 1 << 20

TOP_SLS = "base:\n  '*':\n    - items\n"
# Fifty items, each with a loop, a condition, a filter and a grain, like pillars of real fleets.
ITEMS_SLS = """\
{%% set domain = 'example.org' %%}
items:
{%%- for n in range(%d) %%}
  item{{ n }}:
    name: {{ 'service%%02d' | format(n) }}
    port: {{ 8000 + n }}
    enabled: {{ 'true' if n %% 2 else 'false' }}
    host: {{ grains['os'] | lower }}.{{ domain }}
    members:
    {%%- for host in ['web1', 'web2', 'db'] %%}
      - {{ host }}.{{ domain }}
    {%%- endfor %%}
{%%- endfor %%}
""" % PILLAR_ITEMS


def pillar():
    """What `ITEMS_SLS` must render to."""
    def item(n):
        members = [f"{host}.example.org" for host in ("web1", "web2", "db")]
        return {"name": f"service{n:02}", "port": 8000 + n, "enabled": n % 2 == 1, "host": "swarm.example.org", "members": members}

    return {"items": {f"item{n}": item(n) for n in range(PILLAR_ITEMS)}}


def free_ports(count):
    """Different ports that are free now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def write(path, data):
    """Writes a file and creates its parent directories."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data.encode() if isinstance(data, str) else data)


def tail(log):
    """The end of a log, for a message."""
    try:
        with open(log, errors="replace") as f:
            return "its log ends with:\n" + "".join(f.readlines()[-20:])
    except OSError:
        return "it has written no log"


class Failed(Exception):
    """A measurement failed."""


class Master:
    """One master with its own directory. The constructor does not start it."""

    def __init__(self, kind, programs, extra=""):
        """`kind` is halite or stock, `programs` the directory of its programs, `extra` more lines of configuration."""
        self.kind = kind
        self.programs = programs
        self.root = tempfile.mkdtemp(prefix="hc")
        self.publish_port, self.ret_port, metrics = free_ports(3)
        self.config = f"{self.root}/etc"
        self.process = None
        lines = [
            f"root_dir: {self.root}", "interface: 127.0.0.1", f"publish_port: {self.publish_port}",
            f"ret_port: {self.ret_port}", f"user: {pwd.getpwuid(os.getuid()).pw_name}", "auto_accept: true",
            f"pki_dir: {self.root}/pki", f"cachedir: {self.root}/cache", f"sock_dir: {self.root}/run",
            f"pidfile: {self.root}/pid", f"log_file: {self.root}/log",
            f"file_roots: {{base: ['{self.root}/files']}}", f"pillar_roots: {{base: ['{self.root}/pillar']}}",
            *([f"metrics_address: 127.0.0.1:{metrics}", "auth_rate_limit: 0"] if kind == "halite" else []),
        ]
        write(f"{self.config}/master", "\n".join(lines) + "\n" + extra)
        write(f"{self.root}/pillar/top.sls", TOP_SLS)
        write(f"{self.root}/pillar/items.sls", ITEMS_SLS)
        write(f"{self.root}/pillar.json", json.dumps(pillar()))
        write(f"{self.root}/files/big", os.urandom(MIB))
        write(f"{self.root}/files/small", os.urandom(4096))

    def program(self, name):
        """Path of one of its programs, by the name in `PROGRAMS`."""
        return os.path.join(self.programs, PROGRAMS[self.kind][name])

    def command(self, name, *args):
        """Command line of one of its programs with its configuration."""
        return [self.program(name), "-c", self.config, *args]

    def start(self):
        """Starts it and waits until its request port takes connections."""
        self.process = procs.start(self.command("master"))
        end = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.ret_port), timeout=1).close()
                return
            except OSError:
                pass
            if self.process.poll() is not None or time.monotonic() > end:
                raise Failed(f"{self.program('master')} does not start; {self.log()}")
            time.sleep(0.002)

    @property
    def pid(self):
        """Pid of its main process."""
        return self.process.pid

    def pids(self):
        """Pids of all its processes."""
        return procs.family(self.pid)

    def roles(self):
        """Pids of a halite master's processes by their role."""
        # The command line is the program, two words of options, and the role.
        return {" ".join(procs.command_line(pid)[3:]): pid for pid in self.pids()}

    def log(self):
        """The end of its log."""
        return tail(f"{self.root}/log")

    def stop(self):
        """Stops all its processes."""
        if self.process:
            procs.stop(self.process)
            self.process = None

    def remove(self):
        """Stops it. Its directory is removed at the end of all measurements: after many files are removed, ext4 creates files slowly for
        half a minute."""
        self.stop()
        atexit.register(shutil.rmtree, self.root, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()


def halite(top, given):
    """The directory with halite's programs: the given one, or that of a release build."""
    if given is None:
        return build(top)
    if not os.path.exists(os.path.join(given, "halite-master")):
        sys.exit(f"ERROR: --programs {given}: there is no halite-master")
    return given


def build(top):
    """Builds halite's programs in release mode; returns their directory."""
    names = [*PROGRAMS["halite"].values(), "halite-swarm"]
    argv = ["cargo", "build", "--release", "--quiet", *(word for name in names for word in ("--bin", name))]
    subprocess.run(argv, cwd=top, check=True)
    return os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(top, "target")), "release")


def version(path):
    """The version that a program prints."""
    ran = subprocess.run([path, "--version"], capture_output=True, text=True, check=True)
    return ran.stdout.strip().splitlines()[0]
