"""`__virtual__` says no, with a reason."""


def __virtual__():
    return False, "the corpus does not want this one"


def run():
    return "never"
