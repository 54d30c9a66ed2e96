"""Imports a function, which is no grain, and has a helper."""
from os.path import basename, join
import subprocess


def helper(value):
    return value.upper()


def run():
    out = subprocess.check_output(["echo", "from a command"]).decode().strip()
    return {"corpus_command": out, "corpus_basename": basename("/a/b")}
