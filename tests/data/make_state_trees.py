"""What stock Salt's `state.*` functions return for whole trees, for tests/fast/state_trees.rs.

Run as root with the Python of an environment with Salt 3008.3, from the top of the project:

    python tests/data/make_state_trees.py

Writes state_trees.json beside state_trees.yaml. A tree is

    {name: ..., files: {path: text}, pillar: {path: text}, envs: true, opts: {...}, calls: [[function, argument...]...], differs: why}

With `envs`, the first part of each path is the environment. `{D}` is a directory for what the states make. The default call
is `state.apply a`. Recorded are returns, exit status and the files below {D}. A tree with `differs` is not compared: halite does
something else on purpose.
"""

import json
import logging
import os
import re
import shutil
import tempfile
import warnings

warnings.simplefilter("ignore")

import salt.client  # noqa: E402
import salt.config  # noqa: E402
import salt.utils.args  # noqa: E402
import yaml  # noqa: E402

logging.disable(logging.CRITICAL)
HERE = os.path.dirname(os.path.abspath(__file__))
# What differs from run to run.
IGNORED = {"start_time", "duration", "pid"}


def plain(value, work):
    if isinstance(value, dict):
        return {plain(str(k), work): plain(v, work) for k, v in value.items() if k not in IGNORED}
    if isinstance(value, (list, tuple)):
        return [plain(v, work) for v in value]
    if isinstance(value, str):
        mark = "Traceback (most recent call last):"
        if mark in value:
            head, _, rest = value.partition(mark)
            lines = [line for line in rest.strip().splitlines() if line.strip()]
            value = f"{head}{mark}\n{lines[-1]}\n"
        return value.replace(work, "{W}")
    return value


def write(top, files):
    for path, text in (files or {}).items():
        path = f"{top}/{path}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)


def play(tree, work):
    text = json.dumps(tree).replace("{D}", f"{work}/D")
    tree = json.loads(text)
    os.makedirs(f"{work}/D")
    write(f"{work}/srv", tree.get("files"))
    write(f"{work}/pillar", tree.get("pillar"))
    envs = sorted({path.split("/")[0] for path in tree["files"]}) if tree.get("envs") else []
    roots = {env: [f"{work}/srv/{env}"] for env in envs} or {"base": [f"{work}/srv"]}
    opts = {
        "id": "m1", "file_client": "local", "file_roots": roots, "pillar_roots": {"base": [f"{work}/pillar"]},
        "log_level": "quiet", "log_level_logfile": "quiet", "root_dir": f"{work}/root", **tree.get("opts", {}),
    }
    write(work, {"conf/minion": yaml.safe_dump(opts)})
    returns = []
    for fun, *args in tree.get("calls", [["state.apply", "a"]]):
        caller = salt.client.Caller(mopts=salt.config.minion_config(f"{work}/conf/minion"))
        functions = caller.sminion.functions
        positional, named = [], {}
        for arg in salt.utils.args.parse_input(args, no_parse=[]):
            if isinstance(arg, dict) and "__kwarg__" in arg:
                named.update({k: v for k, v in arg.items() if k != "__kwarg__"})
            else:
                positional.append(arg)
        functions.pack["__context__"]["retcode"] = 0
        try:
            value = functions[fun](*positional, **named)
            returns.append({"return": plain(value, work), "status": functions.pack["__context__"].get("retcode", 0)})
        except Exception as e:
            returns.append({"error": plain(str(e), work)})
    made = {}
    for top, _, files in os.walk(f"{work}/D"):
        for name in files:
            path = os.path.join(top, name)
            with open(path) as f:
                made[os.path.relpath(path, f"{work}/D")] = f.read()
    return returns, made


def main():
    with open(f"{HERE}/state_trees.yaml") as f:
        trees = yaml.safe_load(f)
    for tree in trees:
        tree.setdefault("calls", [["state.apply", "a"]])
        work = tempfile.mkdtemp(prefix="halite-trees-")
        tree["returns"], tree["made"] = play(tree, work)
        shutil.rmtree(work)
    text = "[\n" + ",\n".join(json.dumps(tree) for tree in trees) + "\n]\n"
    # Addresses of objects in error messages.
    text = re.sub(r"0x[0-9a-f]{8,}", "0x0", text)
    with open(f"{HERE}/state_trees.json", "w") as f:
        f.write(text)


main()
