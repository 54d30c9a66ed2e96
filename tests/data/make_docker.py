"""What a Docker engine answers when states of halite talk to it, for tests/fast/docker.rs.

Run as root with the Python of an environment with Salt 3007, docker 7.1 and requests, from the top of the project:

    python tests/data/make_docker.py SOCKET HALITE_CALL

SOCKET is that of an engine that may be emptied: all of its containers, networks, volumes and images but those of this
recording are removed. A program busybox with static linking makes the images bb:1 and bb:2.

Each case of docker.yaml is played with stock and with halite. If results and what the engine holds afterwards are the
same, but for ids, times and addresses, the requests of halite with their answers are recorded in docker.json. A case is

    {state: docker_container.running, args: {name: c1, ...}, files: {name: text}, setup: shell lines,
     steps: [test, real, {step: test, args: {...}}], differs: why}

`{D}` is a directory, made anew for each. `D` in the shell is Docker's command. A case with `differs` is recorded in any case.
"""

import copy
import http.client
import json
import logging
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import warnings

warnings.simplefilter("ignore")

import salt.config  # noqa: E402
import salt.minion  # noqa: E402
import salt.state  # noqa: E402
import yaml  # noqa: E402

ENGINE, HALITE = sys.argv[1], sys.argv[2]
HERE = os.path.dirname(os.path.abspath(__file__))
WORK = tempfile.mkdtemp(prefix="halite-docker-")
SANDBOX = f"{WORK}/D"
PROXY = f"{WORK}/proxy.sock"
IMAGES = {
    "bb:1": "",
    "bb:2": 'ENV A=b PATH=/bin\nCMD ["sleep","300"]\nLABEL l=m\nVOLUME /data\nEXPOSE 80\n',
}
IGNORED = {"start_time", "duration", "__run_num__", "pid", "__sls__"}
# What differs from run to run in what an engine tells.
TIMES = {
    "StartedAt", "FinishedAt", "Created", "CreatedAt", "Pid", "SandboxID", "EndpointID", "ResolvConfPath", "HostnamePath",
    "HostsPath", "LogPath", "SandboxKey", "MacAddress", "Time_Elapsed", "Dir", "LowerDir", "MergedDir", "UpperDir", "WorkDir",
}  # fmt: skip
# What halite reads of long answers.
KEPT = {
    "container": ["Id", "Name", "Image", "State", "Config", "HostConfig", "NetworkSettings"],
    "list": ["Id", "Names", "State", "ImageID", "ParentId", "RepoTags"],
    "image": ["Id", "RepoTags"],
}


class Connection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(ENGINE)


def api(method, path):
    connection = Connection("engine")
    connection.request(method, path)
    body = connection.getresponse().read()
    try:
        return json.loads(body)
    except ValueError:
        return body.decode()


def shell(lines):
    """Runs lines with `D` for Docker's command."""
    text = f'D() {{ docker -H unix://{ENGINE} "$@"; }}\n{lines}'
    environment = {**os.environ, "DOCKER_BUILDKIT": "0"}
    subprocess.run(["sh", "-ec", text], cwd=SANDBOX, check=True, capture_output=True, env=environment)


def make_images():
    os.makedirs(f"{SANDBOX}/bin")
    shutil.copy(shutil.which("busybox"), f"{SANDBOX}/bin")
    for name in ("sh", "sleep", "echo", "true", "false", "env", "cat"):
        os.symlink("busybox", f"{SANDBOX}/bin/{name}")
    for name, lines in IMAGES.items():
        with open(f"{SANDBOX}/Dockerfile", "w") as f:
            f.write(f"FROM scratch\nADD bin /bin\nSTOPSIGNAL SIGKILL\n{lines}")
        shell(f"D image inspect {name} || D build -t {name} .")


def empty():
    for one in api("GET", "/containers/json?all=1"):
        api("DELETE", f"/containers/{one['Id']}?force=1&v=1")
    for one in api("GET", "/networks"):
        if one["Name"] not in ("none", "host", "bridge"):
            api("DELETE", f"/networks/{one['Id']}")
    for one in api("GET", "/volumes")["Volumes"] or []:
        api("DELETE", f"/volumes/{one['Name']}?force=1")
    for one in api("GET", "/images/json"):
        for tag in set(one["RepoTags"] or [one["Id"]]) - set(IMAGES):
            api("DELETE", f"/images/{tag}?force=1")


NAMES = {}


def learn():
    """The names of ids."""
    for one in api("GET", "/containers/json?all=1"):
        NAMES[one["Id"]] = "C(" + one["Names"][0].strip("/") + ")"
    for one in api("GET", "/networks"):
        NAMES[one["Id"]] = f"N({one['Name']})"
    for one in api("GET", "/images/json"):
        NAMES[one["Id"]] = f"I({sorted(one['RepoTags'] or ['?'])[0]})"


def plain(value):
    if isinstance(value, dict):
        shown = {k: ("T" if v else v) if k in TIMES else plain(v) for k, v in value.items() if k not in IGNORED}
        return {plain(str(k)): v for k, v in shown.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if not isinstance(value, str):
        return value
    head, mark, rest = value.partition("Traceback (most recent call last):")
    if mark:
        value = head + mark + "\n" + [line for line in rest.splitlines() if line.strip()][-1]
    value = value.replace(WORK, "{W}")
    for key, name in NAMES.items():
        value = value.replace(key, name).replace(key.removeprefix("sha256:")[:12], name)
    # What the engine chose.
    value = re.sub(r"\b(172\.(1[89]|2\d|3[01])|192\.168)\.\d+\.(\d+)(/\d+)?", r"AUTO.\3", value)
    return re.sub(r"\b[0-9a-f]{64}\b", "ID", value)


def world():
    learn()
    found = {one["Names"][0]: api("GET", f"/containers/{one['Id']}/json") for one in api("GET", "/containers/json?all=1")}
    found |= {"net " + one["Name"]: api("GET", "/networks/" + one["Id"]) for one in api("GET", "/networks")}
    found |= {"volume " + one["Name"]: one for one in api("GET", "/volumes")["Volumes"] or [] if len(one["Name"]) < 64}
    found["images"] = sorted(tag for one in api("GET", "/images/json") for tag in one["RepoTags"] or ["?"])
    return plain(found)


def filled(value):
    if isinstance(value, str):
        return value.replace("{D}", SANDBOX).replace("{W}", WORK)
    if isinstance(value, dict):
        return {k: filled(v) for k, v in value.items()}
    return [filled(v) for v in value] if isinstance(value, list) else value


def configuration(which, engine):
    place = f"{WORK}/conf/{which}"
    os.makedirs(place)
    with open(f"{place}/minion", "w") as f:
        yaml.safe_dump({
            "id": "m1", "file_client": "local", "root_dir": f"{WORK}/root", "log_level": "quiet", "log_level_logfile": "quiet",
            "file_roots": {"base": [f"{WORK}/srv"]}, "docker.url": f"unix://{engine}",
        }, f)  # fmt: skip
    return place


class Stock:
    def __init__(self):
        opts = salt.config.minion_config(configuration("stock", ENGINE) + "/minion")
        self.minion = salt.minion.SMinion(opts)
        self.states = {}

    def __call__(self, fun, args, test):
        if test not in self.states:
            opts = {**copy.deepcopy(self.minion.opts), "test": test}
            self.states[test] = salt.state.State(opts, initial_pillar={})
        state = self.states[test]
        context = state.functions.pack["__context__"]
        if hasattr(context, "clear"):
            context.clear()
        module, function = fun.split(".")
        return state.call({**copy.deepcopy(args), "state": module, "fun": function, "__id__": args["name"]})


class Halite:
    def __init__(self):
        self.configuration = configuration("halite", PROXY)

    def __call__(self, fun, args, test):
        words = [HALITE, "-c", self.configuration, "--local", "--out=json", "--log-level=quiet", "state.single", fun, f"test={test}"]
        words += [f"{k}={json.dumps(v)}" for k, v in args.items()]
        answer = subprocess.run(words, capture_output=True, text=True)
        return next(iter(json.loads(answer.stdout)["local"].values()))


DIALOGUE = []


def read_head(file):
    lines = []
    while line := file.readline().strip():
        lines.append(line.decode())
    return lines


def read_body(file, head, answer):
    headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:])}
    if headers.get("transfer-encoding") == "chunked":
        body = b""
        while size := int(file.readline().split(b";")[0], 16):
            body += file.read(size)
            file.readline()
        file.readline()
        return body
    if "content-length" in headers:
        return file.read(int(headers["content-length"]))
    return file.read() if answer else b""


def shortened(path, value):
    """An answer without what halite does not read."""
    kind = None
    if re.search(r"/containers/[^/]+/json", path):
        kind = "container"
    elif re.search(r"/images/.+/json$", path):
        kind = "image"
    elif re.search(r"/(containers|images)/json", path):
        kind = "list"
    cut = lambda one: {k: v for k, v in one.items() if k in KEPT[kind] or "message" in one}  # noqa: E731
    if kind is None:
        return value
    return [cut(one) for one in value] if isinstance(value, list) else cut(value)


def pass_on(client):
    with client, client.makefile("rwb") as to_client, socket.socket(socket.AF_UNIX) as engine:
        engine.connect(ENGINE)
        with engine.makefile("rwb") as to_engine:
            head = read_head(to_client)
            body = read_body(to_client, head, False)
            method, path, _ = head[0].split()
            lines = [line for line in head if not line.lower().startswith(("transfer-encoding", "content-length"))]
            to_engine.write("\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body)
            to_engine.flush()
            answer = read_head(to_engine)
            status = int(answer[0].split()[1])
            said = read_body(to_engine, answer, True) if status not in (204, 304) else b""
        to_client.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(said)}\r\n\r\n".encode() + said)
        to_client.flush()
    if path == "/version":
        # Asked for once per process.
        return
    sent = json.loads(body) if body.startswith(b"{") else None
    try:
        said = shortened(path, json.loads(said))
    except ValueError:
        said = said.decode("latin1")
    DIALOGUE.append([method, path, sent, status, said])


def proxy():
    server = socket.socket(socket.AF_UNIX)
    server.bind(PROXY)
    server.listen(8)
    while True:
        pass_on(server.accept()[0])


def play(case, call):
    empty()
    NAMES.clear()
    for path in ("D", "srv"):
        shutil.rmtree(f"{WORK}/{path}", ignore_errors=True)
        os.makedirs(f"{WORK}/{path}")
    for name, text in case.get("files", {}).items():
        os.makedirs(os.path.dirname(f"{SANDBOX}/{name}"), exist_ok=True)
        with open(f"{SANDBOX}/{name}", "w") as f:
            f.write(text)
    if "setup" in case:
        shell(filled(case["setup"]))
    learn()
    raw, shown = [], []
    DIALOGUE.clear()
    for step in case.get("steps", ["test", "real", "real"]):
        step = step if isinstance(step, dict) else {"step": step}
        args = filled({"name": "c1", **case.get("args", {}), **step.get("args", {})})
        raw.append(call(case["state"], args, step["step"] == "test"))
        learn()
        shown.append(plain(raw[-1]))
    return raw, shown, world()


def main():
    logging.disable(logging.CRITICAL)
    os.makedirs(SANDBOX)
    make_images()
    threading.Thread(target=proxy, daemon=True).start()
    stock, halite = Stock(), Halite()
    with open(f"{HERE}/docker.yaml") as f:
        cases = yaml.safe_load(f)
    recorded = []
    for case in cases:
        _, *wanted = play(case, stock)
        raw, *found = play(case, halite)
        if wanted != found and "differs" not in case:
            print(f"not recorded: {case['state']} {case.get('args')}")
            for stock_one, halite_one in zip([*wanted[0], wanted[1]], [*found[0], found[1]]):
                if stock_one != halite_one:
                    print(f"  stock  {stock_one}\n  halite {halite_one}")
            continue
        recorded.append({**case, "results": raw, "dialogue": copy.deepcopy(DIALOGUE)})
    empty()
    text = ",\n".join(json.dumps(case, separators=(",", ":")) for case in recorded).replace(WORK, "{W}")
    with open(f"{HERE}/docker.json", "w") as f:
        f.write(f"[\n{text}\n]\n")
    print(f"{len(recorded)} of {len(cases)} cases recorded")
    shutil.rmtree(WORK, ignore_errors=True)


if __name__ == "__main__":
    main()
