"""Decorators of functions for templates: halite's templates do not see them, the functions stay as they are."""


class _Mark:
    def __init__(self, name=None):
        self.name = name

    def __call__(self, function):
        return function


jinja_filter = jinja_test = jinja_global = JinjaFilter = JinjaTest = JinjaGlobal = _Mark
