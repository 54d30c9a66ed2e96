"""The same grain twice."""


def a_first():
    return {"corpus_twice": {"a": 1}}


def b_second():
    return {"corpus_twice": {"b": 2}}
