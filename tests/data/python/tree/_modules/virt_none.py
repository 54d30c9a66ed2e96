"""`__virtual__` without a return."""


def __virtual__():
    pass


def run():
    return "virt_none"
