"""`__virtual__` says no, without a reason."""


def __virtual__():
    return False


def run():
    return "never"
