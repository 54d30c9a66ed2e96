"""Sends events through a master's bus to several listeners, and counts every one."""
import datetime
import re
import socket
import struct
import threading
import time

from .masters import Failed

# Events in flight; few enough that no master drops any for a listener that reads.
WINDOW = 200
PATIENCE = 60
TAG = re.compile(rb"compare/event/(\d{8})\n\n")
PROBE = b"compare/probe\n\n"
# Length of a match: that much of a chunk is kept, since a match may be split between chunks.
TAG_SIZE = len("compare/event/00000000\n\n")


def text(value):
    """Text in msgpack."""
    data = value.encode()
    return (bytes([0xA0 + len(data)]) if len(data) < 32 else b"\xda" + struct.pack(">H", len(data))) + data


def event(name):
    """An event as it goes to master_event_pull.ipc: length, envelope, tag and data, about 300 bytes."""
    stamp = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None).isoformat()
    data = b"\x82" + text("data") + text("x" * 200) + text("_stamp") + text(stamp)
    body = f"compare/{name}\n\n".encode() + data
    envelope = b"\x82" + text("head") + b"\x80" + text("body") + b"\xc5" + struct.pack(">H", len(body)) + body
    return struct.pack(">I", len(envelope)) + envelope


class Listener:
    """A connection to the bus that is read as fast as it comes."""

    def __init__(self, path):
        self.socket = connect(path)
        # Whether it has received a probe.
        self.there = False
        self.heard = 0
        self.wrong = None
        self.lock = threading.Condition()
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        """Counts events; their numbers must be consecutive."""
        rest = b""
        while chunk := self.socket.recv(1 << 18):
            rest += chunk
            numbers = [int(n) for n in TAG.findall(rest)]
            last = rest.rfind(b"compare/event/")
            keep = max(last + TAG_SIZE if last >= 0 and TAG.match(rest, last) else 0, len(rest) - TAG_SIZE + 1)
            with self.lock:
                self.there = self.there or PROBE in rest
                if numbers and numbers != list(range(self.heard, self.heard + len(numbers))):
                    self.wrong = f"events {numbers[0]} to {numbers[-1]} after {self.heard} of them"
                self.heard += len(numbers)
                self.lock.notify()
            rest = rest[keep:]

    def wait(self, count):
        """Waits until it has received that many."""
        with self.lock:
            come = self.lock.wait_for(lambda: self.wrong or self.heard >= count, PATIENCE)
            if self.wrong or not come:
                raise Failed(f"a listener heard {self.heard} of {count} events; {self.wrong or 'no more came'}")

    def close(self):
        """Disconnects."""
        self.socket.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.socket.close()


def connect(path):
    """A connection to a local socket."""
    one = socket.socket(socket.AF_UNIX)
    try:
        one.connect(path)
    except OSError:
        one.close()
        raise
    return one


def fire(sock_dir, count, listeners=4, window=WINDOW):
    """Fires that many events, a window at a time; every listener must receive all of them in order."""
    ears = [Listener(f"{sock_dir}/master_event_pub.ipc") for _ in range(listeners)]
    out = connect(f"{sock_dir}/master_event_pull.ipc")
    try:
        # A bus does not confirm new listeners, so send probes until all receive them.
        end = time.monotonic() + PATIENCE
        while not all(ear.there for ear in ears):
            out.sendall(event("probe"))
            time.sleep(0.02)
            if time.monotonic() > end:
                raise Failed("a listener hears nothing")
        for begin in range(0, count, window):
            end = min(count, begin + window)
            for number in range(begin, end):
                out.sendall(event(f"event/{number:08}"))
            for ear in ears:
                ear.wait(end)
    finally:
        out.close()
        for ear in ears:
            ear.close()
