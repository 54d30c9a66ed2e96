"""`__utils__`."""


def join():
    return __utils__["corpus_tools.join"]("a", "b")


def contains():
    return ["corpus_tools.join" in __utils__, "corpus_tools.absent" in __utils__, "corpus_never.run" in __utils__]


def salt_inside():
    return __utils__["corpus_inside.echo"]("through utils")


def opts_inside():
    return __utils__["corpus_inside.identity"]()


def imported():
    import salt.utils.stringutils

    return [salt.utils.stringutils.to_bytes("x").decode(), __utils__["corpus_tools.join"]("c", "d", sep="+")]


def renamed():
    return __utils__["corpus_tools2.run"]()


def missing():
    return __utils__["corpus_tools.absent"]()
