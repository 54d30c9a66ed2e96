"""Runs something as soon as a module has been imported."""
import importlib.util
import sys


def after(name, then):
    """Calls `then` with the module when its import has ended, before anybody else has it."""
    sys.meta_path.insert(0, Afterwards(name, then))


class Afterwards:
    def __init__(self, name, then):
        self.name, self.then = name, then
        self.is_looking = False

    def find_spec(self, name, path=None, target=None):
        if name != self.name or self.is_looking:
            return None
        self.is_looking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.is_looking = False
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module):
            # An import that fails is followed by another one.
            run(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            self.then(module)

        spec.loader.exec_module = exec_module
        return spec
