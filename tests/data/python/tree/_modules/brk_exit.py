"""Leaves while it is loaded."""
import sys

sys.exit(4)


def run():
    return "never"
