"""Not here."""


def __virtual__():
    return False


def run():
    return "never"
