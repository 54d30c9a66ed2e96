"""What stock Salt makes of the Python files below tree/, for the comparison with halite.

    python3 tests/data/python/stock.py target/salt/3008 tests/data/python/expected-3008.json
    python3 tests/data/python/stock.py target/salt/3006 tests/data/python/expected-3006.json
    python3 tests/data/python/stock.py --program target/debug/halite-call /tmp/halite.json --against tests/data/python/expected-3008.json

`--only NAME` (also a part of one, more than once) makes only these calls, and leaves the others in the file; `--keep` keeps the directory and says where it is;
`--cold` starts a new salt-call for each call, which takes ten times as long;
`--part 1/3` makes only the first third of them;
`--python PROGRAM` sets the option `python` of halite's configuration.

A call of calls.json: `name`, `args` (`{W}` is a directory for files, empty before each call), `files` it is about, `compare`:

    return     the function's return and the exit status
    highstate  the same for a run of states
    error      stderr (the last line of a traceback) and the exit status
    text       what is printed, without `--out`
    log        what modules of the corpus log, at `level` (`error`)

Others: `ignore` (keys anywhere in the return), `pick` (of a return that is a map, only these keys), `own` (of a list or map, only
what is of this corpus: begins with one of these), `out` (another outputter), `stdin`, `level`, `differs` (why 3006 and 3008
differ), `halite` (why halite need not do the same). A record has `return` or `stdout`, `stderr`, `rc`, `log`, and the files in {W}.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
VOLATILE = {"start_time", "duration", "pid"}


def configure(top, program, python):
    for name in ("conf", "cache", "pki", "run", "work", "home"):
        os.makedirs(os.path.join(top, name), mode=0o700)
    shutil.copytree(os.path.join(HERE, "tree"), os.path.join(top, "tree"), ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(os.path.join(HERE, "pillar"), os.path.join(top, "pillar"))
    config = {
        "id": "python-minion",
        "file_client": "local",
        "file_roots": {"base": [top + "/tree"]},
        "pillar_roots": {"base": [top + "/pillar"]},
        "cachedir": top + "/cache",
        # Its default does not follow `cachedir`.
        "extension_modules": top + "/cache/extmods",
        "pki_dir": top + "/pki",
        "sock_dir": top + "/run",
        "pidfile": top + "/run/minion.pid",
        "log_file": top + "/minion.log",
        "log_level": "quiet",
        "log_level_logfile": "quiet",
        "corpus_dir": top + "/work",
        "corpus.option": "from the configuration",
        "corpus_sdb_profile": {"driver": "corpus_sdb"},
        "grains": {"corpus_configured": "from the configuration", "corpus_roles": ["a", "b"]},
        "enable_fqdns_grains": False,
        "enable_gpu_grains": False,
    }
    if python:
        config["python"] = python
    with open(top + "/conf/minion", "w") as stream:
        json.dump(config, stream)
    return top + "/conf"


def text_of(text, top):
    """Text without what changes from run to run."""
    text = text.replace(os.path.realpath(top), "$DIR").replace(top, "$DIR")
    text = re.sub(r"Traceback \(most recent call last\):\n(?:[ |+].*\n|\n(?=  )|During handling.*\n|The above exception.*\n|Traceback .*\n|\w[\w.]*(?:: .*)?\n(?=\n(?:During|The above)))*", "Traceback:\n", text)
    text = re.sub(r"0x[0-9a-f]{6,}", "0xADDRESS", text)
    text = re.sub(r"\b(pid|PID)(['\": ]+)\d+", r"\1\2N", text)
    text = re.sub(r"(Started: |\"start_time\": \")\d\d:\d\d:\d\d\.\d+", r"\1TIME", text)
    text = re.sub(r"(Duration: |Total run time: *|\"duration\": )[\d.]+", r"\1N", text)
    return re.sub(r"/[\w./+-]*/(?:site-packages|lib/python3\.\d+)/", "$LIB/", text)


def plain(value, top, ignore):
    if isinstance(value, dict):
        return {text_of(key, top): plain(one, top, ignore) for key, one in value.items() if key not in ignore}
    if isinstance(value, list):
        return [plain(one, top, ignore) for one in value]
    return text_of(value, top) if isinstance(value, str) else value


def constant(name):
    return "constant " + name


def parsed(text):
    """The JSON at the end of an output, and what was printed before it."""
    lines = text.splitlines(keepends=True)
    for at, line in enumerate(lines):
        if line[:1] in "{[\"":
            try:
                return json.loads("".join(lines[at:]), parse_constant=constant), "".join(lines[:at])
            except ValueError:
                pass
    return None, text


def narrowed(value, call):
    if "pick" in call and isinstance(value, dict):
        value = {key: value[key] for key in call["pick"] if key in value}
    if "own" in call and isinstance(value, dict):
        value = {key: one for key, one in value.items() if key.startswith(tuple(call["own"]))}
    if "own" in call and isinstance(value, list):
        value = [one for one in value if isinstance(one, str) and one.startswith(tuple(call["own"]))]
    return value


def files_in(directory, top):
    found = {}
    for folder, _, names in os.walk(directory):
        for name in sorted(names):
            path = os.path.join(folder, name)
            with open(path, errors="replace") as stream:
                found[os.path.relpath(path, directory)] = text_of(stream.read(), top)
    return found


def read(path):
    with open(path, "rb") as stream:
        return stream.read().decode("utf-8", "backslashreplace")


WARM = {}


def run(command, stdin, env, top, cold):
    """The exit status; the standard streams are files."""
    streams = {key: os.path.join(top, key) for key in ("stdin", "stdout", "stderr")}
    with open(streams["stdin"], "w") as stream:
        stream.write(stdin)
    for key in ("stdout", "stderr"):
        open(streams[key], "w").close()
    python = os.path.join(os.path.dirname(command[0]), "python")
    if cold or WARM.get("off") or not os.path.exists(python):
        with open(streams["stdin"]) as a, open(streams["stdout"], "w") as b, open(streams["stderr"], "w") as c:
            return subprocess.run(command, stdin=a, stdout=b, stderr=c, env=env, timeout=300, cwd=top).returncode
    if "process" not in WARM:
        WARM["process"] = subprocess.Popen([python, os.path.join(HERE, "warm.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, cwd=top)
    process = WARM["process"]
    process.stdin.write((json.dumps({"argv": command, **streams}) + "\n").encode())
    process.stdin.flush()
    return int(process.stdout.readline())


def make(call, program, conf, top):
    work = top + "/work"
    shutil.rmtree(work)
    os.mkdir(work, 0o700)
    log = top + "/call.log"
    if os.path.exists(log):
        os.remove(log)
    command = [program, "-c", conf, "--local", "--retcode-passthrough"]
    out = call.get("out", "json")
    if call["compare"] == "text":
        out = call.get("out")
    command += ["--out=" + out] if out else []
    if call["compare"] == "log":
        command += ["--log-file", log, "--log-file-level", call.get("level", "error")]
    command += [arg.replace("{W}", work) for arg in call["args"]]
    env = {"PATH": os.environ["PATH"], "HOME": top + "/home", "LANG": "C.UTF-8", "TERM": "dumb", "PYTHONWARNINGS": "ignore", "PYTHONDONTWRITEBYTECODE": "1"}
    status = run(command, call.get("stdin", ""), env, top, call["compare"] == "log" or call["name"] == "sync")
    stdout, stderr = read(top + "/stdout"), re.sub(r".*DeprecationWarning: .*\n(?:  .*\n)?", "", read(top + "/stderr"))
    record = {"rc": status}
    value, printed = (None, stdout) if call["compare"] == "text" else parsed(stdout)
    if value is not None:
        value = value.get("local", value) if isinstance(value, dict) else value
        ignore = VOLATILE | set(call.get("ignore", ())) if call["compare"] == "highstate" else set(call.get("ignore", ()))
        record["return"] = plain(narrowed(value, call), top, ignore)
    if printed.startswith("\n    ") and "\nUsage:\n" in stderr:
        # Salt's own documentation of the function.
        printed = "DOCUMENTATION"
    if printed:
        record["stdout"] = text_of(printed, top)
    if stderr:
        record["stderr"] = text_of(stderr, top)
    if call["compare"] == "log":
        record["log"] = logged(log, top)
    made = files_in(work, top)
    if made:
        record["files"] = made
    return record


def logged(path, top):
    """Records without the time, the module's file name and line."""
    if not os.path.exists(path):
        return []
    with open(path, errors="replace") as stream:
        lines = stream.read()
    heads = re.split(r"^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[,.]\d+ ?", lines, flags=re.M)[1:]
    heads = [one for one in heads if one.lstrip("[").startswith("salt.loaded.ext.")]
    return [re.sub(r"\]\[\d+\]", "]", re.sub(r" *:\d+ *\]", "]", text_of(one, top))).strip() for one in heads]


def differences(name, call, ours, theirs):
    keys = {"error": ("stderr", "rc"), "text": ("stdout", "rc"), "log": ("log", "rc")}.get(call["compare"], ("return", "stdout", "rc", "files"))
    return ["%s: %s: %s instead of %s" % (name, key, json.dumps(ours.get(key), ensure_ascii=False), json.dumps(theirs.get(key), ensure_ascii=False)) for key in keys if ours.get(key) != theirs.get(key)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("venv", nargs="?")
    parser.add_argument("out")
    parser.add_argument("--program")
    parser.add_argument("--python")
    parser.add_argument("--only", action="append")
    parser.add_argument("--against")
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--progress", action="store_true")
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--keep", action="store_true")
    args = parser.parse_args()
    WARM["off"] = args.cold
    program = os.path.abspath(args.program or os.path.join(args.venv, "bin", "salt-call"))
    with open(os.path.join(HERE, "calls.json")) as stream:
        calls = json.load(stream)
    assert len({call["name"] for call in calls}) == len(calls), "names are not unique"
    part, parts = map(int, args.part.split("/"))
    calls = calls[len(calls) * (part - 1) // parts : len(calls) * part // parts]
    top = tempfile.mkdtemp(prefix="hpy")
    conf = configure(top, program, args.python)
    sync = {"name": "sync", "args": ["saltutil.sync_all", "saltenv=base"], "compare": "return"}
    found = {"sync": make(sync, program, conf, top)}
    for call in calls:
        if args.only and not any(part in call["name"] for part in args.only):
            continue
        found[call["name"]] = make(call, program, conf, top)
        if args.progress:
            print(call["name"], json.dumps(found[call["name"]]), flush=True)
    if args.keep:
        print("kept", top)
    else:
        shutil.rmtree(top, ignore_errors=True)
    made = set(found)
    if args.only and os.path.exists(args.out):
        with open(args.out) as stream:
            found = {**json.load(stream), **found}
    with open(args.out, "w") as stream:
        # One call a line.
        lines = ["%s: %s" % (json.dumps(name), json.dumps(found[name], sort_keys=True, ensure_ascii=True)) for name in sorted(found)]
        stream.write("{\n" + ",\n".join(lines) + "\n}\n")
    if not args.against:
        return 0
    with open(args.against) as stream:
        theirs = json.load(stream)
    bad = 0
    for call in [sync] + calls:
        name = call["name"]
        if name not in made:
            continue
        lines = differences(name, call, found[name], theirs.get(name, {}))
        bad += bool(lines) and "halite" not in call
        for line in lines:
            print(("(need not) " if "halite" in call else "") + line)
    print("%d calls, %d with differences" % (len(made), bad))
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
