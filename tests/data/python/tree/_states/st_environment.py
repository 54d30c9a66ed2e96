"""What one state changes for those after it."""
import os


def set_grain(name, value):
    __grains__[name] = value
    return {"name": name, "result": True, "changes": {}, "comment": "grain set"}


def see_grain(name):
    return {"name": name, "result": True, "changes": {}, "comment": "%s; module: %s" % (__grains__.get(name), __salt__["grains.get"](name, "none"))}


def set_variable(name, value):
    os.environ[name] = value
    return {"name": name, "result": True, "changes": {}, "comment": "variable set"}


def see_variable(name):
    return {"name": name, "result": True, "changes": {}, "comment": "%s" % os.environ.get(name)}
