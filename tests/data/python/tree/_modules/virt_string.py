"""`__virtual__` gives another name."""


def __virtual__():
    return "virt_renamed"


def run():
    return "virt_renamed"
