"""An underscore first."""


def run():
    return "hidden"
