"""What modules log, for halite's log."""
import logging

# Salt's own levels.
LEVELS = {5: "TRACE", 1: "GARBAGE", 15: "PROFILE"}


class Handler(logging.Handler):
    def __init__(self, wire):
        super().__init__()
        self.wire = wire

    def emit(self, record):
        try:
            text = self.format(record)
        except Exception:
            text = str(record.msg)
        number = record.levelno
        level = "error" if number >= 40 else "warn" if number >= 30 else "info" if number >= 20 else "debug" if number >= 10 else "trace"
        # As lines that are printed.
        self.wire.tell("log", level, record.name, text[:8192])


def method(number):
    """`log.trace(...)` and its siblings, which Salt's loggers have."""

    def log(self, text, *args, **kwargs):
        if self.isEnabledFor(number):
            self._log(number, text, args, **kwargs)

    return log


def with_traceback(inner):
    """Takes Salt's keyword `exc_info_on_loglevel`: a traceback if that level is logged."""

    def log(self, level, text, args, exc_info_on_loglevel=None, **kwargs):
        if exc_info_on_loglevel is not None and logging.getLogger().isEnabledFor(exc_info_on_loglevel):
            kwargs["exc_info"] = True
        return inner(self, level, text, args, **kwargs)

    return log


def install(wire):
    """Sends all records to halite, at the level that it logs."""
    for number, name in LEVELS.items():
        logging.addLevelName(number, name)
        setattr(logging.Logger, name.lower(), method(number))
    logging.Logger._log = with_traceback(logging.Logger._log)
    root = logging.getLogger()
    root.addHandler(Handler(wire))
    root.setLevel(wire.ask("log_level"))
    return root
