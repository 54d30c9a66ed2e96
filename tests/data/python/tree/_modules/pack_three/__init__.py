"""A package that imports its parts by their full name, which works because the directory of modules is on Python's path."""
from pack_three.helper import twice


def run(value=2):
    return twice(value)


def __virtual__():
    return True


def file():
    return __file__.rpartition("_modules/")[2] or __file__.rpartition("modules/")[2]
