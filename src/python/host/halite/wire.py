"""Frames between this process and halite: a length, then a value in marshal's format.

Each request gets one answer. While a request is worked on, the other side may be asked something, and may itself ask for
more before it answers: requests and answers nest like calls.
"""
import _thread
import marshal
import os

from halite.values import plain

PID = os.getpid()


class Closed(BaseException):
    """halite has ended the connection. Not an Exception: no user's `except` may swallow it."""


class Wire:
    def __init__(self, fd, stream):
        self.fd = fd
        self.stream = stream
        # One exchange at a time; a thread of the user's waits for the others.
        self.lock = _thread.RLock()
        # What to do with a request that comes while we wait for an answer.
        self.serve = None

    def read(self):
        head = self.stream.read(4)
        if len(head) < 4:
            raise Closed()
        body = self.stream.read(int.from_bytes(head, "little"))
        return marshal.loads(body)

    def write(self, message):
        try:
            body = marshal.dumps(message, 2)
        except ValueError:
            # Subclasses of dict and the like, which marshal does not know.
            body = marshal.dumps(plain(message), 2)
        rest = memoryview(len(body).to_bytes(4, "little") + body)
        while rest:
            rest = rest[os.write(self.fd, rest) :]

    def ask(self, what, *args):
        """Asks halite; raises what the function raises there."""
        if os.getpid() != PID:
            raise RuntimeError("a child process that this function has forked cannot call halite")
        with self.lock:
            self.write(("ask", what, args))
            while True:
                kind, answer = self.read()
                if kind == "ok":
                    return answer
                if kind == "err":
                    from halite.errors import exception

                    raise exception(answer)
                self.serve(kind, answer)

    def tell(self, *message):
        """Says something that gets no answer."""
        if os.getpid() == PID:
            with self.lock:
                self.write(message)
