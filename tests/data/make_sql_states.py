"""What stock Salt's states for databases return, and how halite's talk to the programs of these databases meanwhile.

Stock's states for MySQL use a driver and no program, so both play each case at a real server, and halite's dialogue with
its program is recorded for tests/fast/states.rs. Run as root with the Python of an environment with Salt (3008.3 for
PostgreSQL; 3007.15 with MySQLdb, as in Debian's python3-mysqldb, and sqlparse for MySQL), from the top of the project:

    python tests/data/make_sql_states.py postgres|mysql HALITE_CALL [NUMBER ...]

with the servers that make_sql_servers.sh starts. With numbers, only these cases are played and recorded anew. A case is

    {state: postgres_user.present, args: {name: ..., ...}, sql: statements before, files: {name: text},
     steps: [test, real, real], differs: why}

`files` are those of the file server. An entry with `common` has arguments of all cases after it. What differs is printed.
"""

import json
import logging
import os
import re
import shutil
import subprocess
import sys

import yaml

KIND, CALL, ONLY = sys.argv[1], os.path.abspath(sys.argv[2]), [int(n) for n in sys.argv[3:]]
sys.argv = sys.argv[:1]

import make_states as plain  # noqa: E402

PG = ["/usr/bin/psql", "-qAtX", "-v", "ON_ERROR_STOP=1", "-h", "/tmp/halite-sql/pg", "-U", "postgres"]
MY = ["/usr/bin/mariadb", "--no-defaults", "-uroot", "-S", "/tmp/halite-sql/my/s", "-Nr"]
# Writes down each call of a program.
PROXY = """#!%s -SE
import json, subprocess, sys
name, args = sys.argv[0].rpartition("/")[2], sys.argv[1:]
given = "" if "-c" in args else sys.stdin.read()
ran = subprocess.run(["/usr/bin/" + name, *args], input=given, capture_output=True, text=True)
statement = args[args.index("-c") + 1] if "-c" in args else given
with open(%r, "a") as f:
    f.write(json.dumps([statement, ran.returncode, ran.stdout, ran.stderr]) + "\\n")
sys.stdout.write(ran.stdout), sys.stderr.write(ran.stderr)
sys.exit(ran.returncode)
"""


def sql(text, words=None):
    words = words or (PG if KIND == "postgres" else MY)
    ran = subprocess.run(words, input=text, capture_output=True, text=True)
    if ran.returncode:
        sys.exit(f"{text}: {ran.stderr}")
    return ran.stdout.split("\n")[:-1]


def reset(case):
    shutil.rmtree(f"{plain.WORK}/srv"), os.makedirs(f"{plain.WORK}/srv")
    for name, text in case.get("files", {}).items():
        with open(f"{plain.WORK}/srv/{name}", "w") as f:
            f.write(text + "\n")
    if KIND == "postgres":
        for name in sql("select datname from pg_database where datname not in ('postgres', 'template0', 'template1')"):
            name = name.replace('"', '""')
            sql(f'alter database "{name}" is_template false; drop database "{name}" with (force)')
        for name in sql("select spcname from pg_tablespace where spcname not like 'pg\\_%'"):
            sql(f'drop tablespace "{name}"')
        for name in sql("select rolname from pg_roles where rolname not like 'pg\\_%' and rolname <> 'postgres'"):
            name = name.replace('"', '""')
            sql(f'drop owned by "{name}"; drop role "{name}"')
        sql("alter language plpgsql owner to postgres; revoke all on database postgres from public; grant connect, temporary on database postgres to public")
        for place in ("ts1", "ts2"):
            shutil.rmtree(f"/tmp/halite-sql/{place}", ignore_errors=True)
            os.makedirs(f"/tmp/halite-sql/{place}")
            shutil.chown(f"/tmp/halite-sql/{place}", "postgres")
    else:
        own = ("information_schema", "mysql", "performance_schema", "sys")
        for name in sql("show databases"):
            if name not in own:
                sql("drop database `%s`" % name.replace("`", "``"))
        for line in sql("select concat(quote(user), '@', quote(host)) from mysql.user where user not in ('root', 'mariadb.sys', 'mysql', 'PUBLIC', '')"):
            sql(f"drop user {line}")
    sql(case.get("sql", "select 1"))


def halite(case, args, log):
    results = []
    for step in case.get("steps", plain.STEPS):
        # Not as arguments: texts with a # are no YAML there.
        with open(f"{plain.WORK}/srv/case.sls", "w") as f:
            f.write("#!yaml\n" + json.dumps({args["name"]: {case["state"]: [{key: value} for key, value in args.items()]}}))
        words = [CALL, "--local", "-c", f"{plain.WORK}/conf/halite", "--out=json", "state.sls", "case", f"test={step == 'test'}"]
        ran = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "PATH": f"{plain.WORK}/proxy:" + os.environ["PATH"]})
        try:
            ret = json.loads(ran.stdout)["local"]
        except (ValueError, KeyError):
            ret = ran.stdout + ran.stderr
        results.append(plain.plain(next(iter(ret.values())) if isinstance(ret, dict) else ret))
    calls = []
    if os.path.exists(log):
        with open(log) as f:
            calls = [json.loads(line) for line in f]
        os.remove(log)
    return results, calls


def dialogue(calls):
    """Statements with numbers, then answers by number."""
    escaped = lambda text: text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")  # noqa: E731
    numbers, lines = {}, []
    for statement, code, out, err in calls:
        # Salts are random.
        key = re.sub(r"SCRAM-SHA-256\$[^']*", "SCRAM", statement.rstrip("\n").replace("\n", "\\n"))
        if key not in numbers:
            numbers[key] = len(numbers)
            lines.append(f"=\t{numbers[key]}\t{key}")
        out = re.sub(r'<resultset statement="[^"]*"', "<resultset", out)
        lines.append(f"{numbers[key]}\t{code}\t{escaped(out)}\t{escaped(err)}")
    return "\n".join(lines)


def main():
    logging.disable(logging.CRITICAL)
    os.makedirs(f"{plain.WORK}/conf/halite"), os.makedirs(f"{plain.WORK}/proxy"), os.makedirs(f"{plain.WORK}/srv")
    log = f"{plain.WORK}/log"
    for name in ("psql", "mariadb"):
        with open(f"{plain.WORK}/proxy/{name}", "w") as f:
            f.write(PROXY % (sys.executable, log))
        os.chmod(f"{plain.WORK}/proxy/{name}", 0o755)
    with open(f"{plain.WORK}/conf/halite/minion", "w") as f:
        f.write(f"id: m1\nfile_client: local\nroot_dir: {plain.WORK}/root-halite\nlog_level: quiet\nfile_roots: {{base: [{plain.WORK}/srv]}}\n")
    stock = plain.Stock()
    name = f"{plain.HERE}/states/{KIND}.yaml"
    with open(name) as f:
        cases = yaml.safe_load(f)
    common, recorded, differing = {}, {}, 0
    # The sandbox of a test has the fakes and nothing else.
    shutil.copytree(f"{plain.HERE}/states/fakes/sql", f"{plain.SANDBOX}/bin", symlinks=True)
    tree = plain.tree()
    for number, case in enumerate(cases):
        if "common" in case:
            common = case["common"]
            continue
        if ONLY and number not in ONLY:
            continue
        case["args"] = {"name": "x", **common, **case.get("args", {})}
        args = plain.filled(case["args"])
        reset(case)
        results = [plain.plain(stock.call(case["state"], args, step == "test")) for step in case.get("steps", plain.STEPS)]
        reset(case)
        own, calls = halite(case, args, log)
        if results != own:
            differing += 1
            print(f"{number} {case['state']} {case['args']} {'(as it says)' if 'differs' in case else 'DIFFERS'}")
            for one, other in zip(results, own):
                if one != other:
                    print(f"    stock  {json.dumps(one)}\n    halite {json.dumps(other)}")
        if results == own and "differs" in case:
            print(f"{number} {case['state']} {case['args']} does not differ")
        files = "".join(f"cat > {{W}}/srv/{name} <<'END'\n{text}\nEND\n" for name, text in case.pop("files", {}).items())
        case.pop("sql", None)
        setup = files + f"cat > {{W}}/srv/dialogue <<'END'\n{dialogue(calls)}\nEND"
        recorded[number] = {**case, "fakes": ["sql"], "setup": setup, "results": results, "tree": tree}
    print(f"{KIND}: {len(recorded)} cases, {differing} differ")
    name = name.removesuffix(".yaml") + ".json"
    before = []
    if ONLY:
        with open(name) as f:
            before = json.load(f)
    # The first entry has what is common.
    numbered = {**dict(enumerate(before, 1)), **recorded}
    with open(name, "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(numbered[number]) for number in sorted(numbered)) + "\n]\n")
    shutil.rmtree(plain.WORK, ignore_errors=True)


main()
