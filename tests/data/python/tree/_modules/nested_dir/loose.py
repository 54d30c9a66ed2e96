"""In a directory without `__init__.py`."""


def run():
    return "loose"
