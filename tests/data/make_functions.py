"""Names and arguments of stock Salt's execution functions, for tests/modules.

Run with the Python of an environment with Salt 3008.3, from the top of the project:

    python tests/data/make_functions.py > tests/data/functions.json

Modules whose programs are missing on this machine are read all the same.
"""

import importlib
import inspect
import json
import os
import sys
import warnings

warnings.simplefilter("ignore")
# The default of `shell` in the functions of cmd.
os.environ["SHELL"] = "/bin/sh"

# Name that users write -> files in salt/modules, several for those that depend on the system.
MODULES = {
    "aliases": ["aliases"],
    "alternatives": ["alternatives"],
    "archive": ["archive"],
    "at": ["at"],
    "beacons": ["beacons"],
    "cmd": ["cmdmod"],
    "config": ["config"],
    "cp": ["cp"],
    "cron": ["cron"],
    "data": ["data"],
    "debconf": ["debconfmod"],
    "defaults": ["defaults"],
    "disk": ["disk"],
    "environ": ["environ"],
    "event": ["event"],
    "extfs": ["extfs"],
    "file": ["file"],
    "firewalld": ["firewalld"],
    "git": ["git"],
    "grains": ["grains"],
    "group": ["groupadd"],
    "hashutil": ["hashutil"],
    "hosts": ["hosts"],
    "http": ["http"],
    "ini": ["ini_manage"],
    "ip": ["debian_ip"],
    "iptables": ["iptables"],
    "jinja": ["jinja"],
    "key": ["key"],
    "keyboard": ["keyboard"],
    "kmod": ["kmod"],
    "locale": ["localemod"],
    "log": ["logmod"],
    "lvm": ["linux_lvm"],
    "match": ["match"],
    "mine": ["mine"],
    "minion": ["minion"],
    "mount": ["mount"],
    "network": ["network"],
    "nftables": ["nftables"],
    "npm": ["npm"],
    "partition": ["parted_partition"],
    "pillar": ["pillar"],
    "pip": ["pip"],
    "pkg": ["aptpkg", "yumpkg", "zypperpkg"],
    "ps": ["ps"],
    "publish": ["publish"],
    "quota": ["quota"],
    "rabbitmq": ["rabbitmq"],
    "raid": ["mdadm_raid"],
    "random": ["mod_random"],
    "ret": ["ret"],
    "saltutil": ["saltutil"],
    "sdb": ["sdb"],
    "schedule": ["schedule"],
    "selinux": ["selinux"],
    "service": ["systemd_service"],
    "shadow": ["linux_shadow"],
    "slsutil": ["slsutil"],
    "ssh": ["ssh"],
    "state": ["state"],
    "status": ["status"],
    "supervisord": ["supervisord"],
    "sys": ["sysmod"],
    "sysctl": ["linux_sysctl"],
    "system": ["system"],
    "temp": ["temp"],
    "test": ["test"],
    "timezone": ["timezone"],
    "user": ["useradd"],
    "virtualenv": ["virtualenv_mod"],
    "x509": ["x509_v2"],
    "xfs": ["xfs"],
}


def plain(default):
    """A default as JSON; what JSON cannot say, as its text."""
    if default is None or isinstance(default, (bool, int, float, str)):
        return default
    return {"repr": repr(default)}


def spec(fun):
    """As sys.argspec, and the arguments that can only be given by keyword."""
    # As salt.utils.args.get_function_argspec, behind decorators.
    full = inspect.getfullargspec(inspect.unwrap(fun))
    defaults = full.defaults or ()
    required = len(full.args) - len(defaults)
    args = [[name] for name in full.args[:required]]
    args += [[name, plain(value)] for name, value in zip(full.args[required:], defaults)]
    args += [[name, plain(full.kwonlydefaults[name])] for name in full.kwonlyargs]
    return {
        "args": args,
        "varargs": full.varargs is not None,
        "keywords": full.varkw is not None,
    }


def functions(module):
    """Public functions, by the names under which Salt loads them."""
    alias = getattr(module, "__func_alias__", {})
    for name, fun in vars(module).items():
        if name.startswith("_") or isinstance(fun, type) or not callable(fun):
            continue
        # What a module imports from elsewhere is loaded too, unless it is a class.
        yield alias.get(name, name), fun


def main():
    all_functions = {}
    for public, files in MODULES.items():
        for file in files:
            module = importlib.import_module("salt.modules." + file)
            for name, fun in functions(module):
                try:
                    found = spec(fun)
                except TypeError:
                    continue
                found["file"] = file
                if getattr(fun, "__module__", "") != module.__name__:
                    continue
                all_functions.setdefault(f"{public}.{name}", found)
    rows = (f"{json.dumps(name)}: {json.dumps(all_functions[name])}" for name in sorted(all_functions))
    print("{\n" + ",\n".join(rows) + "\n}")


main()
