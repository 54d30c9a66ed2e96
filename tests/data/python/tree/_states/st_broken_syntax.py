"""Does not compile."""


def run(name)
    return {}
