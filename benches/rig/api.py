"""The REST services of both masters, halite's and stock's `salt-api`, under the same requests."""
import contextlib
import http.client
import json
import os
import selectors
import socket
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass

from . import bus, figures, procs
from .masters import Failed, Master, free_ports, write
from .swarm import Serving, Swarm

# Name, title and unit of each row.
ROWS = (
    ("login", "`/login`", "CPU ms"),
    ("run-one", "`/run`, `local test.ping` to one minion", "CPU ms"),
    ("run-all", "the same to {minions} minions", "CPU ms"),
    ("minions", "`GET /minions` of {minions}", "CPU ms"),
    ("few", "event to {few} listeners, {rate} a second", "CPU ms"),
    ("many", "event to {many} listeners, {rate} a second", "CPU ms"),
    ("listener", "each of these listeners", "KiB PSS"),
    ("idle", "service, idle", "MiB PSS"),
)
USER = {"username": "bench", "password": "bench-bench", "eauth": "file"}
# Requests of several rows are sent over so many connections at a time.
CLIENTS = 4


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    minions: int = 1000
    logins: int = 100
    pings: int = 200
    all: int = 10
    few: int = 100
    many: int = 2000
    rate: int = 1000
    seconds: int = 5


QUICK = Plan(minions=20, logins=8, pings=8, all=2, few=5, many=10, rate=100, seconds=1)


class Service:
    """A master with its REST service."""

    def __init__(self, kind, programs, plan):
        [self.port] = free_ports(1)
        users = tempfile.mkdtemp(prefix="hu") + "/users"
        write(users, "bench:bench-bench\n")
        os.chmod(users, 0o600)
        settings = f"{{port: {self.port}, host: 127.0.0.1, disable_ssl: true, thread_pool: {plan.few + 50}"
        settings += ", rate_limit: 0}" if kind == "halite" else "}"
        self.master = Master(kind, programs, f"""\
external_auth: {{file: {{^filename: {users}, ^filetype: text, bench: ['.*', '@runner', '@wheel', '@jobs']}}}}
netapi_enable_clients: [local, local_async, runner, wheel]
rest_cherrypy: {settings}
""")
        self.api = None

    def start(self):
        """Starts both and waits until the service answers."""
        self.master.start()
        if self.master.kind == "stock":
            self.api = procs.start([os.path.join(self.master.programs, "salt-api"), "-c", self.master.config])
        end = time.monotonic() + 60
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException):
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
                connection.request("GET", "/")
                if connection.getresponse().status == 200:
                    return
            if time.monotonic() > end:
                raise Failed(f"the REST service does not answer; {self.master.log()}")
            time.sleep(0.05)

    def pids(self):
        """Those of the service alone."""
        return procs.family(self.api.pid) if self.api else [self.master.roles()["SaltAPI"]]

    def cpu(self):
        """CPU seconds of master and service."""
        return procs.cpu(self.master.pids()) + (procs.cpu(procs.family(self.api.pid)) if self.api else 0)

    def stop(self):
        """Stops both."""
        if self.api:
            procs.stop(self.api)
        self.master.remove()


class Client:
    """One connection."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self.headers = {"Content-Type": "application/json", "Accept": "application/json"}

    def ask(self, method, path, body=None):
        """The answer, read as JSON."""
        text = json.dumps(body) if body is not None else None
        try:
            self.connection.request(method, path, text, self.headers)
            answer = self.connection.getresponse()
        except (BrokenPipeError, ConnectionResetError, http.client.RemoteDisconnected):
            # CherryPy closes connections on which nothing was asked for ten seconds.
            self.connection.close()
            self.connection.request(method, path, text, self.headers)
            answer = self.connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise Failed(f"{method} {path}: {answer.status} {text[:300]}")
        return json.loads(text)

    def log_in(self):
        """Uses a session from now on."""
        self.headers["X-Auth-Token"] = self.ask("POST", "/login", USER)["return"][0]["token"]
        return self


def each(service, count, clients, request):
    """CPU milliseconds of a request, of so many over some connections."""
    failures = []

    def work(client, number):
        try:
            for _ in range(number):
                request(client)
        except (Failed, OSError, http.client.HTTPException) as e:
            failures.append(e)

    before = service.cpu()
    threads = [threading.Thread(target=work, args=(client, count // len(clients))) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise Failed(f"{len(failures)} clients failed: {failures[0]}")
    procs.wait_until_idle(service.master.pid)
    return (service.cpu() - before) * 1000 / (count // len(clients) * len(clients))


class Listeners:
    """Connections to `/events`, read as fast as it comes."""

    def __init__(self, service, token, count):
        self.selector = selectors.DefaultSelector()
        self.heard = 0
        self.done = False
        head = f"GET /events HTTP/1.1\r\nHost: x\r\nX-Auth-Token: {token}\r\n\r\n".encode()
        for number in range(count):
            # halite takes 1024 connections of one address.
            source = (f"127.0.0.{2 + number // 500}", 0)
            one = socket.create_connection(("127.0.0.1", service.port), source_address=source)
            one.sendall(head)
            one.setblocking(False)
            self.selector.register(one, selectors.EVENT_READ)
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        """Counts events."""
        while not self.done:
            for key, _ in self.selector.select(0.2):
                with contextlib.suppress(BlockingIOError):
                    self.heard += key.fileobj.recv(1 << 18).count(b"tag: compare/event/")

    def close(self):
        """Disconnects."""
        self.done = True
        self.thread.join()
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()


def events(service, token, listeners, plan):
    """CPU milliseconds of an event to so many listeners, and KiB of each."""
    procs.wait_until_idle(service.master.pid)
    idle = procs.pss_mib(service.pids())
    ears = Listeners(service, token, listeners)
    try:
        # Each has its answer once the first event comes to it.
        pull = bus.connect(f"{service.master.root}/run/master_event_pull.ipc")
        end, base = time.monotonic() + 60, 0
        while ears.heard - base < listeners:
            base = ears.heard
            pull.sendall(bus.event("event/00000000"))
            time.sleep(0.5 + listeners / 2000)
            if time.monotonic() > end:
                raise Failed(f"only {ears.heard - base} of {listeners} listeners hear")
        each_kib = (procs.pss_mib(service.pids()) - idle) * 1024 / listeners
        before, heard, count = service.cpu(), ears.heard, plan.rate * plan.seconds
        begun = time.monotonic()
        for number in range(count):
            pull.sendall(bus.event(f"event/{number:08}"))
            time.sleep(max(0.0, begun + (number + 1) / plan.rate - time.monotonic()))
        end = time.monotonic() + 120
        while ears.heard - heard < count * listeners:
            if time.monotonic() > end:
                raise Failed(f"{ears.heard - heard} of {count * listeners} events were heard")
            time.sleep(0.1)
        return (service.cpu() - before) * 1000 / count, each_kib
    finally:
        ears.close()


def one(service, swarm, plan, failures):
    """The figures of one master: (row, value) of each that succeeds."""
    service.start()

    def log_in():
        return [Client(service.port).log_in() for _ in range(CLIENTS)]

    def tried(row, measured):
        """Stock's service does not finish every row; the others are worth knowing."""
        try:
            yield from measured()
        except Failed as e:
            failures.append(f"{service.master.kind}, {row}: {e}")

    clients = log_in()
    procs.wait_until_idle(service.master.pid)
    yield "idle", procs.pss_mib(service.pids())

    def logins():
        yield "login", each(service, plan.logins, [Client(service.port) for _ in range(CLIENTS)], lambda c: c.ask("POST", "/login", USER))

    yield from tried("login", logins)
    # A user has so many sessions at most; those of before may have ended.
    clients = log_in()
    ping = {"client": "local", "fun": "test.ping", **USER}

    def run(target, answers):
        def request(client):
            said = client.ask("POST", "/run", [{**ping, "tgt": target}])["return"][0]
            if sum(value is True for value in said.values()) != answers:
                raise Failed(f"{target}: {str(said)[:300]}")
        return request

    def pings():
        yield "run-one", each(service, plan.pings, clients, run(minion_of(service), 1))

    def pings_of_all():
        yield "run-all", each(service, plan.all, clients[:1], run("*", plan.minions))

    def grains():
        yield "minions", each(service, plan.all, clients[:1], lambda c: c.ask("GET", "/minions"))

    with Serving(swarm, service.master, plan.minions):
        yield from tried("run-one", pings)
        yield from tried("run-all", pings_of_all)
        yield from tried("minions", grains)
    token = clients[0].headers["X-Auth-Token"]

    def listeners(row, count):
        found, each_kib = events(service, token, count, plan)
        yield row, found
        if row == ("many" if service.master.kind == "halite" else "few"):
            yield "listener", each_kib

    yield from tried("few", lambda: listeners("few", plan.few))
    # Stock has a thread for each.
    if service.master.kind == "halite":
        yield from tried("many", lambda: listeners("many", plan.many))


def minion_of(service):
    """The id of one of its minions."""
    listed = os.listdir(f"{service.master.root}/pki/minions")
    return sorted(listed)[0]


def measure(programs, swarm_program, plan, rounds, keep, late):
    """Measures the services in turn; `keep` is called after each with all figures so far. Returns failures."""
    found, failures = {}, []
    with tempfile.TemporaryDirectory(prefix="hk") as keys:
        swarm = Swarm(swarm_program, keys)
        for _ in range(rounds):
            for kind, where in programs.items():
                if late():
                    return [*failures, "no time for all rounds"]
                service = Service(kind, where, plan)
                try:
                    for row, value in one(service, swarm, plan, failures):
                        found.setdefault(kind, {}).setdefault(row, []).append(value)
                except (Failed, subprocess.SubprocessError) as e:
                    failures.append(f"{kind}: {e}")
                finally:
                    service.stop()
                keep(found)
    return failures


def table(found, plan):
    """Header and lines: each row with the figures of both, and how often halite's fit into stock's."""
    lines = []
    for row, title, unit in ROWS:
        stock, halite = (found.get(kind, {}).get(row, []) for kind in ("stock", "halite"))
        ratio = figures.spread(figures.ratios(stock, halite)) if stock and halite else "-"
        lines.append([title.format(**plan), unit, figures.spread(stock), figures.spread(halite), ratio])
    return ["work", "unit", "stock", "halite", "times less"], lines
