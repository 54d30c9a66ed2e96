"""Adds to a native module, and wants one of its functions: the file has another name than the native one."""

__virtualname__ = "test"


def __virtual__():
    return __virtualname__


def ping():
    return "from override_part"


def corpus_added():
    return __salt__["test.echo"]("added to test")
