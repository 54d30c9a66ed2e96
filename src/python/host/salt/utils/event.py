"""Events of halite's minion or master: fired, and listened to."""
import fnmatch
import re
import time

SALT, TAGPARTER, TAGEND = "salt", "/", "\n\n"
TAGS = {name: name for name in "auth job key minion syndic presence run wheel cloud fileserver queue".split()}

# One question to halite waits so long at most, in milliseconds: it holds back those of all other threads.
SLICE = 100
# Seconds between questions, in which other threads ask theirs. A lock alone is not fair.
BREATH = 0.005
# Seconds between attempts to listen again.
AGAIN = 0.5
# Streams of objects that nobody has any more.
LEFT = []

MATCHES = {
    "startswith": lambda tag, wanted: tag.startswith(wanted),
    "endswith": lambda tag, wanted: tag.endswith(wanted),
    "find": lambda tag, wanted: wanted in tag,
    "regex": lambda tag, wanted: re.search("^" + wanted, tag) is not None,
    "fnmatch": fnmatch.fnmatch,
}


def tagify(suffix="", prefix="", base=SALT):
    """Parts of a tag, joined; empty ones are left out."""
    from salt.utils.stringutils import to_str

    parts = [base, prefix] + ([suffix] if isinstance(suffix, str) or not hasattr(suffix, "__iter__") else list(suffix))
    texts = [to_str(part) if isinstance(part, (str, bytes)) else str(part) for part in parts]
    return TAGPARTER.join(filter(None, texts))


class SaltEvent:
    """Events on this minion's bus, and with `fire_master` to the master's.

    `cpub` tells whether it listens. What comes while it listens is kept by halite until it is read here."""

    def __init__(self, node, sock_dir=None, opts=None, listen=True, io_loop=None, keep_loop=False, raise_errors=False):
        self.node = node
        self.opts = opts if opts is not None else _options()
        self.raise_errors = raise_errors
        self.cpub = self.cpush = False
        # What has been subscribed to, and what has come for it.
        self.pending_tags, self.pending_events = [], []
        self._number = None
        # When to try again after the stream has ended, and when other threads last had a turn.
        self._again = self._rested = 0
        if listen:
            self.connect_pub()

    def connect_pub(self, timeout=None):
        """Listens from now on; whether it does."""
        try:
            self._open()
        except Exception as error:
            _log("info", "Cannot listen to events: %s", error)
        return self.cpub

    def _open(self):
        if not self.cpub:
            while LEFT:
                _close(LEFT.pop())
            self._number = _ask("event_open", self.node)
            self.cpub = True

    def close_pub(self):
        """Listens no more; what has come and has not been read is gone."""
        if self.cpub:
            number, self._number, self.cpub = self._number, None, False
            self.pending_events = []
            _close(number)

    def connect_pull(self, timeout=1):
        """There is nothing to connect before something is fired."""
        self.cpush = True
        return True

    def close_pull(self):
        self.cpush = False

    def destroy(self):
        self.close_pub()
        self.close_pull()

    def __del__(self):
        # This may run in the middle of a message to halite: nothing is asked here.
        if getattr(self, "_number", None) is not None:
            LEFT.append(self._number)

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.destroy()

    def subscribe(self, tag=None, match_type=None):
        """Keeps events with such tags while `get_event` looks for others."""
        if tag is not None:
            self.pending_tags.append((tag, self._match(match_type)))

    def unsubscribe(self, tag, match_type=None):
        """Ends one subscription; kept events that no other one is for are gone."""
        known = (tag, self._match(match_type))
        if tag is not None:
            if known in self.pending_tags:
                self.pending_tags.remove(known)
            self.pending_events = [event for event in self.pending_events if self._is_wanted(event)]

    def _match(self, match_type):
        usual = MATCHES.get(self.opts.get("event_match_type"), MATCHES["startswith"])
        return MATCHES.get(match_type, usual)

    def _is_wanted(self, event):
        return any(match(event["tag"], tag) for tag, match in self.pending_tags)

    def get_event(self, wait=5, tag="", full=False, match_type=None, no_block=False, auto_reconnect=False):
        """The data of the next event with such a tag, with `full` its tag, too; None if there is none after `wait` seconds.

        A `wait` of 0 is without end; with `no_block` one event at most is looked at, if there is one."""
        match = self._match(match_type)
        event = self._kept(tag, match) or self._fresh(wait, tag, match, no_block, auto_reconnect)
        return event if full or event is None else event["data"]

    def _kept(self, tag, match):
        """The first fitting event of those that were kept. What no subscription is for any more is dropped."""
        found, kept = None, []
        for event in self.pending_events:
            fits = match(event["tag"], tag)
            if fits and found is None:
                found = event
            elif fits or self._is_wanted(event):
                kept.append(event)
        self.pending_events = kept
        return found

    def _fresh(self, wait, tag, match, no_block, auto_reconnect):
        until = None if wait == 0 and not no_block else time.monotonic() + (0 if no_block else wait)
        while True:
            try:
                event = self._next(until, self.raise_errors and not auto_reconnect)
            except KeyboardInterrupt:
                return {"tag": "salt/event/exit", "data": {}}
            if event is None:
                return None
            if match(event["tag"], tag):
                return event
            if self._is_wanted(event):
                self.pending_events.append(event)
            if no_block or until is not None and time.monotonic() > until:
                return None

    def _next(self, until, raises=False):
        """The next event of all; None if none has come in time, or when there is no stream at all."""
        while True:
            left = SLICE if until is None else max(0, min(SLICE, int((until - time.monotonic()) * 1000)))
            if not self._listens(raises):
                if not self._again:
                    return None
                pause = min(AGAIN, left / 1000)
            else:
                try:
                    found = _ask("event_next", self._number, left)
                except Exception as error:
                    self._ended(error)
                    if raises:
                        raise
                    continue
                if found is not None:
                    # While events come one after another, others have their turn as well.
                    now = time.monotonic()
                    if now - self._rested > SLICE / 1000:
                        self._rested = now
                        time.sleep(BREATH)
                    return {"data": found[1], "tag": found[0]}
                pause = BREATH
            if until is not None and time.monotonic() >= until:
                return None
            time.sleep(pause)

    def _listens(self, raises):
        """Listens if it does not; after the stream has ended, now and then."""
        if self.cpub:
            return True
        if not self._again:
            return self.connect_pub()
        if time.monotonic() >= self._again:
            self._again = time.monotonic() + AGAIN
            try:
                self._open()
            except Exception:
                if raises:
                    raise
        return self.cpub

    def _ended(self, error):
        """The stream has ended, as when a master restarts. Events until it is back are lost; kept ones are not."""
        _log("warning", "The stream of events has ended: %s", error)
        self._number, self.cpub, self._again = None, False, time.monotonic()

    def get_event_noblock(self):
        """The next event of all, if there is one now."""
        return self._next(time.monotonic())

    def get_event_block(self):
        """The next event of all."""
        return self._next(None)

    def iter_events(self, tag="", full=False, match_type=None, auto_reconnect=False):
        """Events with such tags without end. Where there is no stream at all it raises what halite says."""
        if not self.cpub and not self._again:
            self._open()
        while True:
            event = self.get_event(tag=tag, full=full, match_type=match_type, auto_reconnect=auto_reconnect)
            if event is not None:
                yield event

    def set_event_handler(self, event_handler):
        raise NotImplementedError("halite has no event loop for event handlers here; use iter_events")

    def fire_event(self, data, tag, timeout=1000):
        return _salt("event.fire", *_checked(data, tag))

    def fire_master(self, data, tag, timeout=1000):
        return _salt("event.fire_master", *_checked(data, tag))


class MinionEvent(SaltEvent):
    """The bus of the minion that runs this."""

    def __init__(self, opts=None, listen=True, io_loop=None, raise_errors=False):
        super().__init__("minion", None, opts, listen, raise_errors=raise_errors)


class MasterEvent(SaltEvent):
    """The bus of the master that runs this."""

    def __init__(self, sock_dir=None, opts=None, listen=True, io_loop=None, keep_loop=False, raise_errors=False):
        super().__init__("master", sock_dir, opts, listen, raise_errors=raise_errors)

    def fire_event(self, data, tag, timeout=1000):
        data, tag = _checked(data, tag)
        return _ask("fire", tag, data)

    fire_master = fire_event


LocalClientEvent = MasterEvent


class NamespacedEvent:
    """Fires events whose tags begin with `base`."""

    def __init__(self, event, base, print_func=None):
        self.event, self.base, self.print_func = event, base, print_func

    def fire_event(self, data, tag):
        self.event.fire_event(data, tagify(tag, base=self.base))
        if self.print_func is not None:
            self.print_func(tag, data)

    def destroy(self):
        self.event.destroy()

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.destroy()


def get_event(node, sock_dir=None, transport=None, opts=None, listen=True, io_loop=None, keep_loop=False, raise_errors=False):
    """The bus of the minion or master that runs this."""
    if isinstance(transport, dict):
        # As of 3007 there is no `transport`, and what follows it stands one place before.
        listen = listen if opts is None else opts
        opts = transport
    here = _options().get("__role", "minion")
    if node != here:
        raise ValueError("a %s of halite has no event bus of a %s here" % (here, node))
    if node == "master":
        return MasterEvent(sock_dir, opts, listen, raise_errors=raise_errors)
    return SaltEvent(node, sock_dir, opts, listen, raise_errors=raise_errors)


def get_master_event(opts=None, sock_dir=None, listen=True, io_loop=None, raise_errors=False):
    return get_event("master", sock_dir, opts=opts, listen=listen, raise_errors=raise_errors)


def _checked(data, tag):
    if not str(tag):
        raise ValueError("Empty tag.")
    if not (hasattr(data, "keys") and hasattr(data, "__setitem__")):
        raise ValueError("Dict object expected, not '%s'." % (data,))
    return data, tag


def _close(number):
    """A stream that has ended meanwhile, or belongs to the parent of this process, is as good as closed."""
    try:
        _ask("event_close", number)
    except Exception:
        pass


def _log(level, text, *args):
    import logging

    getattr(logging.getLogger(__name__), level)(text, *args)


def _options():
    from halite.main import HERE

    return HERE["loader"].opts


def _ask(what, *args):
    from halite.main import ask

    return ask(what, *args)


def _salt(name, *args):
    from halite.main import salt

    return salt()[name](*args)
