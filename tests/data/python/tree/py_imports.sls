#!py
import os
from collections import OrderedDict


def _helper(word):
    return word.upper()


def run():
    found = OrderedDict()
    found["z " + _helper("x")] = {"test.nop": []}
    found["a"] = {"test": ["nop", {"name": os.path.basename("/x/y")}]}
    found["globals"] = {"test.nop": [{"name": " ".join(sorted(n for n in globals() if n.startswith("__") and n not in dir(__builtins__) and n not in ("__builtins__", "__file__", "__cached__", "__annotations__")))}]}
    return found
