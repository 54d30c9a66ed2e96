"""Frames between this process and halite: a length, then a value in marshal's format.

Each request gets one answer. While a request is worked on, the other side may be asked something, and may itself ask for
more before it answers: requests and answers nest like calls. Each question has a number that its answer repeats: an
exception of a signal handler may leave a question before its answer is there.
"""
import _thread
import marshal
import os

from halite.values import plain

PID = os.getpid()


class Closed(BaseException):
    """halite has ended the connection. Not an Exception: no user's `except` may swallow it."""


class Wire:
    def __init__(self, fd):
        self.fd = fd
        # What has been read of messages to come. It outlives an exception in the middle of a message.
        self.pending = bytearray()
        # One exchange at a time; a thread of the user's waits for the others.
        self.lock = _thread.RLock()
        # What to do with a request that comes while we wait for an answer.
        self.serve = None
        # Questions without an answer yet, and answers that another thread has read.
        self.asked = 0
        self.waiting = set()
        self.answers = {}
        # Seconds without a request after which this process ends.
        self.idle = None

    def rest(self):
        """Waits for the next request."""
        if self.idle is not None and not self.pending:
            import select

            poll = select.poll()
            poll.register(self.fd, select.POLLIN)
            if not poll.poll(self.idle * 1000):
                raise Closed()

    def read(self):
        while len(self.pending) < 4 or len(self.pending) < 4 + int.from_bytes(self.pending[:4], "little"):
            more = os.read(self.fd, 1 << 18)
            if not more:
                raise Closed()
            self.pending += more
        end = 4 + int.from_bytes(self.pending[:4], "little")
        body = bytes(self.pending[4:end])
        del self.pending[:end]
        return marshal.loads(body)

    def write(self, message):
        mine()
        try:
            body = marshal.dumps(message, 2)
        except ValueError:
            # Subclasses of dict and the like, which marshal does not know.
            body = marshal.dumps(plain(message), 2)
        rest = memoryview(len(body).to_bytes(4, "little") + body)
        whole = len(rest)
        try:
            while rest:
                rest = rest[os.write(self.fd, rest) :]
        except BaseException:
            # Half a message is no message; nobody can go on after it.
            if len(rest) < whole:
                os._exit(70)
            raise

    def ask(self, what, *args):
        """Asks halite; raises what the function raises there."""
        with self.lock:
            self.asked += 1
            number = self.asked
            self.waiting.add(number)
            try:
                self.write(("ask", what, args, number))
                kind, answer = self.answer(number)
            finally:
                self.waiting.discard(number)
                self.answers.pop(number, None)
        if kind == "ok":
            return answer
        from halite.errors import exception

        raise exception(answer)

    def answer(self, number):
        """Waits for the answer to a question; serves requests that come before it."""
        while number not in self.answers:
            message = self.read()
            if message[0] in ("ok", "err"):
                if message[2] in self.waiting:
                    self.answers[message[2]] = message[:2]
                continue
            # Other threads may ask while this one works.
            depth = self.lock._release_save()
            try:
                self.serve(*message)
            finally:
                self.lock._acquire_restore(depth)
        return self.answers.pop(number)

    def tell(self, *message):
        """Says something that gets no answer."""
        if os.getpid() == PID:
            with self.lock:
                self.write(message)


def mine():
    """A child that a function has forked has none of this."""
    if os.getpid() != PID:
        raise RuntimeError("a child process that this function has forked cannot call halite")
