"""Logging."""
import logging

log = logging.getLogger(__name__)


def every():
    log.debug("a debug line")
    log.info("an info line")
    log.warning("a warning of %s", "corpus")
    log.error("an error of %s", "corpus")
    log.critical("a critical line")
    return log.name.rpartition(".")[2]


def special():
    """Levels of Salt's own."""
    log.trace("a trace line")
    log.garbage("a garbage line")
    return [hasattr(log, "trace"), logging.getLevelName(5)]


def exception():
    try:
        1 / 0
    except ZeroDivisionError:
        log.exception("it happened")
    return "logged"


def odd():
    log.error("percent %s and %d", "a", "not a number")
    log.error("unicode \u4f60")
    return "logged"
