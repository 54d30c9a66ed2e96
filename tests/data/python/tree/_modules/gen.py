"""Generators."""


def count(to=3):
    for number in range(to):
        yield number


def maps():
    yield {"a": 1}
    yield {"b": 2}


def mixed():
    yield {"a": 1}
    yield "text"


def empty():
    return
    yield


def fails():
    yield "first"
    raise ValueError("in the middle")


def given():
    return (number * number for number in range(4))


def lazy():
    return map(str, [1, 2])
