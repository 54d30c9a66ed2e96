"""`__virtual__` says yes."""


def __virtual__():
    return True


def run():
    return "virt_true"
