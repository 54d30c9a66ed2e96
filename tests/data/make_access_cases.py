#!/usr/bin/env python3
"""Makes access_cases.json: questions about permissions with the verdicts of stock Salt.

Run it with the Python of an environment that has Salt:

    python tests/data/make_access_cases.py > tests/data/access_cases.json

A case with `ours` names a verdict of halite that differs on purpose, and `why`.
"""

import json
import os
import sys
import tempfile

import salt.acl
import salt.config
import salt.utils.master
import salt.utils.minions

MINIONS = ["db1", "web1", "web2"]
KW = {"__kwarg__": True}


def kw(**named):
    return dict(KW, **named)


def checker(directory):
    opts = salt.config.master_config(None)
    for name in ("pki_dir", "cachedir", "sock_dir"):
        opts[name] = os.path.join(directory, name)
    opts["keys.cache_driver"] = "localfs_key"
    opts["nodegroups"] = {"webs": "web*"}
    accepted = os.path.join(opts["pki_dir"], "minions")
    os.makedirs(accepted)
    for minion in MINIONS:
        with open(os.path.join(accepted, minion), "w") as out:
            out.write("key")
    return salt.utils.minions.CkMinions(opts)


# name, permissions, function(s), arguments, minions, then what halite says if that differs
PUBLISH = [
    ("nothing", [], "test.ping", [], ["web1"]),
    ("function", ["test.ping"], "test.ping", [], ["web1"]),
    ("other function", ["test.ping"], "cmd.run", [], ["web1"]),
    ("start of a name", ["test.ping"], "test.ping_all", [], ["web1"]),
    ("not the middle", ["ping"], "test.ping", [], ["web1"]),
    ("pattern", ["test.*"], "test.echo", ["x"], ["web1"]),
    ("everything", [".*"], "cmd.run", ["x"], MINIONS),
    ("anchored", ["test.ping$"], "test.ping_all", [], ["web1"]),
    ("negative", ["(?!cmd)"], "cmd.run", [], ["web1"]),
    ("negative, other", ["(?!cmd)"], "test.ping", [], ["web1"]),
    ("broken pattern", ["test.("], "test.ping", [], ["web1"]),
    ("broken and good pattern", ["test.(", "test.ping"], "test.ping", [], ["web1"]),
    ("special word", ["@runner"], "test.ping", [], ["web1"]),
    ("special module", ["@test"], "test.ping", [], ["web1"]),
    ("null entry", [None], "test.ping", [], ["web1"]),
    ("number entry", [5], "test.ping", [], ["web1"]),
    ("list entry", [["test.ping"]], "test.ping", [], ["web1"]),
    ("scope", [{"web*": ["test.ping"]}], "test.ping", [], ["web1", "web2"]),
    ("scope, other function", [{"web*": ["test.ping"]}], "cmd.run", [], ["web1"]),
    ("scope, one too many", [{"web*": ["test.ping"]}], "test.ping", [], ["web1", "db1"]),
    ("scope, other minion", [{"web*": ["test.ping"]}], "test.ping", [], ["db1"]),
    ("scopes do not add up", [{"web*": ["test.ping"]}, {"db*": ["test.ping"]}], "test.ping", [], MINIONS),
    ("scope of all", [{"*": ["test.*"]}], "test.ping", [], MINIONS),
    ("scope is a special word", [{"@runner": [".*"]}], "test.ping", [], ["web1"]),
    ("scope is compound", [{"web* and not web2": ["test.ping"]}], "test.ping", [], ["web1"]),
    ("scope is compound, other", [{"web* and not web2": ["test.ping"]}], "test.ping", [], ["web2"]),
    ("scope is a list", [{"L@web1,db1": ["test.ping"]}], "test.ping", [], ["web1", "db1"]),
    ("scope is a nodegroup", [{"N@webs": ["test.ping"]}], "test.ping", [], ["web2"]),
    ("scope is a regex", [{"E@web[12]": ["test.ping"]}], "test.ping", [], ["web2"]),
    ("scope matches nobody", [{"mail*": ["test.ping"]}], "test.ping", [], ["web1"]),
    ("scope cannot be read", [{"web* and (": ["test.ping"]}], "test.ping", [], ["web1"]),
    ("unknown kind of scope", [{"ldap(ou=web)": ["test.ping"]}], "test.ping", [], ["web1"]),
    ("two scopes in one entry", [{"web*": ["test.ping"], "db*": ["test.ping"]}], "test.ping", [], ["web1"]),
    ("scope with text", [{"web*": "test.ping"}], "test.ping", [], ["web1"]),
    ("scope with null", [{"web*": None}], "test.ping", [], ["web1"]),
    ("scope with a map", [{"web*": {"test.ping": {}}}], "test.ping", [], ["web1"]),
    ("no minions", [{"web*": ["test.ping"]}], "test.ping", [], []),
    ("free function", [], "saltutil.find_job", ["1"], ["web1"]),
    ("argument", [{"*": [{"cmd.run": {"args": ["ls"]}}]}], "cmd.run", ["ls"], ["web1"]),
    ("argument, start", [{"*": [{"cmd.run": {"args": ["ls"]}}]}], "cmd.run", ["lsof"], ["web1"]),
    ("argument, anchored", [{"*": [{"cmd.run": {"args": ["ls$"]}}]}], "cmd.run", ["lsof"], ["web1"]),
    ("argument, other", [{"*": [{"cmd.run": {"args": ["ls"]}}]}], "cmd.run", ["rm"], ["web1"]),
    ("argument missing", [{"*": [{"cmd.run": {"args": ["ls"]}}]}], "cmd.run", [], ["web1"]),
    ("argument, any", [{"*": [{"x.y": {"args": [None, "b"]}}]}], "x.y", ["q", "b"], ["web1"]),
    ("argument, more than listed", [{"*": [{"x.y": {"args": ["a"]}}]}], "x.y", ["a", "b"], ["web1"]),
    ("number as argument", [{"*": [{"x.y": {"args": ["5$"]}}]}], "x.y", [5], ["web1"]),
    ("true as argument", [{"*": [{"x.y": {"args": ["True$"]}}]}], "x.y", [True], ["web1"]),
    ("null as argument", [{"*": [{"x.y": {"args": ["None$"]}}]}], "x.y", [None], ["web1"]),
    ("list as argument", [{"*": [{"x.y": {"args": [r"\['a', 1\]$"]}}]}], "x.y", [["a", 1]], ["web1"]),
    ("rule is a number", [{"*": [{"x.y": {"args": [5]}}]}], "x.y", [5], ["web1"]),
    ("keyword", [{"*": [{"x.y": {"kwargs": {"a": "1"}}}]}], "x.y", [kw(a="1")], ["web1"]),
    ("keyword, other value", [{"*": [{"x.y": {"kwargs": {"a": "1"}}}]}], "x.y", [kw(a="2")], ["web1"]),
    ("keyword missing", [{"*": [{"x.y": {"kwargs": {"a": "1"}}}]}], "x.y", [kw(b="1")], ["web1"]),
    ("keyword, any", [{"*": [{"x.y": {"kwargs": {"a": None}}}]}], "x.y", [kw(a=[1])], ["web1"]),
    ("keyword without marks", [{"*": [{"x.y": {"kwargs": {"a": None}}}]}], "x.y", [{"a": "1"}], ["web1"]),
    ("both", [{"*": [{"x.y": {"args": ["p"], "kwargs": {"a": "1"}}}]}], "x.y", ["p", kw(a=1)], ["web1"]),
    ("both, one wrong", [{"*": [{"x.y": {"args": ["p"], "kwargs": {"a": "1"}}}]}], "x.y", ["q", kw(a=1)], ["web1"]),
    ("several rules", [{"*": [{"x.y": [{"args": ["p"]}, {"args": ["q"]}]}]}], "x.y", ["q"], ["web1"]),
    ("rule is null", [{"*": [{"x.y": None}]}], "x.y", [], ["web1"]),
    ("rule is text", [{"*": [{"x.y": "args"}]}], "x.y", [], ["web1"]),
    ("empty rule", [{"*": [{"x.y": {}}]}], "x.y", ["q"], ["web1"]),
    ("no rules", [{"*": [{"x.y": []}]}], "x.y", ["q"], ["web1"]),
    ("two functions in one rule", [{"*": [{"x.y": {}, "x.z": {}}]}], "x.y", [], ["web1"]),
    ("rules by scope", [{"web*": [{"x.y": {"args": ["p"]}}]}], "x.y", ["p"], ["web1"]),
    ("rules by scope, other", [{"web*": [{"x.y": {"args": ["p"]}}]}], "x.y", ["p"], ["db1"]),
    ("several functions", ["test.*"], ["test.ping", "test.echo"], [[], ["x"]], ["web1"]),
    ("several functions, all missing", ["test.*"], ["cmd.run", "cmd.shell"], [[], []], ["web1"]),
    ("several functions, first missing", ["test.*"], ["cmd.run", "test.ping"], [["x"], []], ["web1"],
     False, "one permitted function would permit all others of the request"),
    ("several functions, last missing", ["test.*"], ["test.ping", "cmd.run"], [[], ["x"]], ["web1"],
     False, "one permitted function would permit all others of the request"),
    ("free function beside another", [], ["saltutil.find_job", "cmd.run"], [["1"], ["x"]], ["web1"],
     False, "the free function would permit all others of the request"),
    ("empty pattern", [""], "cmd.run", ["x"], ["web1"],
     False, "an empty text would permit everything"),
    ("unknown word in a rule", [{"*": [{"x.y": {"argz": ["p"]}}]}], "x.y", ["q"], ["web1"],
     False, "a slip of the pen would lift the condition"),
    ("args are text", [{"*": [{"x.y": {"args": "p"}}]}], "x.y", ["pq"], ["web1"],
     False, "the letters of the text would be taken as patterns of an argument each"),
    ("keyword as text", [{"*": [{"x.y": {"args": [None, "safe$"]}}]}], "x.y", ["a=1", "safe", "evil"], ["web1"],
     False, "the minion takes the text as a keyword argument, so that `evil` is the second"),
    ("keywords before the others", [{"*": [{"x.y": {"args": [None, "safe$"]}}]}], "x.y", [kw(a=1), "safe", "evil"], ["web1"],
     False, "the minion takes the map as keyword arguments, so that `evil` is the second"),
    ("keyword given twice", [{"*": [{"x.y": {"kwargs": {"a": "safe$"}}}]}], "x.y", ["a=evil", kw(a="safe")], ["web1"],
     False, "readers differ in which of the two counts"),
    ("keyword given twice, evil last", [{"*": [{"x.y": {"kwargs": {"a": "safe$"}}}]}], "x.y", [kw(a="safe"), "a=evil"], ["web1"]),
]

# name, permissions, function, arguments, form
SPECIAL = [
    ("nothing", [], "jobs.list_jobs", {}, "runner"),
    ("all runners", ["@runner"], "jobs.list_jobs", {}, "runner"),
    ("all runners, plural", ["@runners"], "jobs.list_jobs", {}, "runner"),
    ("wheel is no runner", ["@wheel"], "jobs.list_jobs", {}, "runner"),
    ("runner is no wheel", ["@runner"], "key.accept", {}, "wheel"),
    ("all wheels", ["@wheels"], "key.accept", {}, "wheel"),
    ("module", ["@jobs"], "jobs.list_jobs", {}, "runner"),
    ("other module", ["@jobs"], "manage.up", {}, "runner"),
    ("functions are no runners", [".*"], "jobs.list_jobs", {}, "runner"),
    ("scopes are no runners", [{"*": [".*"]}], "jobs.list_jobs", {}, "runner"),
    ("list of runners", [{"@runner": ["jobs.*"]}], "jobs.list_jobs", {}, "runner"),
    ("list of runners, other", [{"@runner": ["jobs.*"]}], "manage.up", {}, "runner"),
    ("list of runners, plural", [{"@runners": ["jobs.list_jobs"]}], "jobs.list_jobs", {}, "runner"),
    ("list of a module", [{"@jobs": ["list_jobs"]}], "jobs.list_jobs", {}, "runner"),
    ("list of a module, other", [{"@jobs": ["list_jobs"]}], "jobs.active", {}, "runner"),
    ("list of a module by full name", [{"@jobs": ["jobs.list_jobs"]}], "jobs.list_jobs", {}, "runner"),
    ("list of wheels", [{"@wheel": ["key.list_all"]}], "key.list_all", {}, "wheel"),
    ("list of wheels, other", [{"@wheel": ["key.list_all"]}], "key.delete", {}, "wheel"),
    ("argument", [{"@jobs": [{"lookup_jid": {"args": ["2024"]}}]}], "jobs.lookup_jid", {"arg": ["20240101"], "kwarg": {}}, "runner"),
    ("argument, other", [{"@jobs": [{"lookup_jid": {"args": ["2024"]}}]}], "jobs.lookup_jid", {"arg": ["1999"], "kwarg": {}}, "runner"),
    ("argument missing", [{"@jobs": [{"lookup_jid": {"args": ["2024"]}}]}], "jobs.lookup_jid", {}, "runner"),
    ("keyword", [{"@runner": [{"jobs.lookup_jid": {"kwargs": {"jid": "2024"}}}]}], "jobs.lookup_jid", {"arg": [], "kwarg": {"jid": "2024"}}, "runner"),
    ("keyword, other", [{"@runner": [{"jobs.lookup_jid": {"kwargs": {"jid": "2024"}}}]}], "jobs.lookup_jid", {"arg": [], "kwarg": {"jid": "1"}}, "runner"),
    ("no module", ["@runner"], "list_jobs", {}, "runner"),
    ("too many parts", ["@runner"], "jobs.list_jobs.x", {}, "runner"),
    ("two in one entry", [{"@runner": [".*"], "@wheel": [".*"]}], "jobs.list_jobs", {}, "runner"),
    ("sign alone", ["@"], "jobs.list_jobs", {}, "runner"),
    ("null", [{"@runner": None}], "jobs.list_jobs", {}, "runner"),
]

# name, users and groups, user, his groups, permissive
FILL = [
    ("user", {"fred": ["a"]}, "fred", [], False),
    ("other user", {"fred": ["a"]}, "mary", [], False),
    ("everybody", {"*": ["a"]}, "mary", [], False),
    ("everybody else", {"*": ["a"], "mary": ["b"]}, "mary", [], False),
    ("permissive", {"*": ["a"], "mary": ["b"]}, "mary", [], True),
    ("permissive, nobody else", {"*": ["a"]}, "mary", [], True),
    ("group", {"admins%": ["a"]}, "fred", ["admins"], False),
    ("other group", {"admins%": ["a"]}, "fred", ["users"], False),
    ("group and everybody", {"admins%": ["a"], "*": ["b"]}, "fred", ["admins"], False),
    ("user and groups", {"fred": ["a"], "admins%": ["b"], "users%": ["c"]}, "fred", ["users", "admins"], False),
    ("name of a group", {"admins%": ["a"]}, "admins", [], False),
    ("name like a group", {"admins%": ["a"]}, "admins%", [], False),
    ("pattern in the configuration", {"fre*": ["a"]}, "fred", [], False),
    ("case", {"Fred": ["a"]}, "fred", [], False),
    ("empty list", {"fred": []}, "fred", [], False),
    ("pattern as a name", {"fred": ["a"]}, "fr.d", [], False,
     [], "the name of a user is no pattern"),
    ("glob as a name", {"fred": ["a"], "mary": ["b"]}, "*", [], False,
     [], "the name of a user is no pattern"),
    ("text", {"fred": "ab"}, "fred", [], False,
     ["ab"], "the letters of the text would be permissions of their own"),
    ("map", {"fred": {"web*": ["a"]}}, "fred", [], False,
     [], "the target would be taken as a function"),
]

# name, blacklist, user, functions
BLACK = [
    ("empty", {}, "fred", "cmd.run"),
    ("user", {"users": ["fred"]}, "fred", "test.ping"),
    ("other user", {"users": ["fred"]}, "mary", "test.ping"),
    ("not the start", {"users": ["fred"]}, "freddy", "test.ping"),
    ("user by glob", {"users": ["f*"]}, "fred", "test.ping"),
    ("all but sudo", {"users": ["^(?!sudo_).*$"]}, "fred", "test.ping"),
    ("all but sudo, sudo", {"users": ["^(?!sudo_).*$"]}, "sudo_fred", "test.ping"),
    ("function", {"modules": ["cmd.run"]}, "fred", "cmd.run"),
    ("functions by glob", {"modules": ["cmd.*"]}, "fred", "cmd.shell"),
    ("functions by regex", {"modules": ["(cmd|test).run"]}, "fred", "cmd.run"),
    ("function among several", {"modules": ["cmd.*"]}, "fred", ["test.ping", "cmd.run"]),
    ("text", {"modules": "cmd.*"}, "fred", "cmd.run"),
    ("broken regex", {"modules": ["cmd.("]}, "fred", "cmd.run"),
]

# name, publisher_acl, user
LOCAL = [
    ("user", {"fred": ["a"]}, "fred"),
    ("other", {"fred": ["a"]}, "mary"),
    ("glob", {"fr*": ["a"]}, "fred"),
    ("regex", {"fr(e|o)d": ["a"]}, "frod"),
    ("several", {"fr*": ["a"], "fred": ["b"]}, "fred"),
    ("start", {"fred": ["a"]}, "freddy"),
    ("empty", {"fred": []}, "fred"),
    ("alternatives", {"fred|mary": ["a"]}, "mary"),
    ("alternatives, start", {"fred|mary": ["a"]}, "freddy",
     [], "only the whole name counts"),
]


def case(names, row, stock):
    out = dict(zip(names, row))
    out["stock"] = stock
    if len(row) > len(names):
        out["ours"], out["why"] = row[len(names) :]
        assert out["ours"] != stock, row
    return out


def publish(ck, row):
    _, permissions, fun, arg, minions = row[:5]
    verdict = ck.auth_check(
        permissions, fun, arg, "*", "glob", minions=minions, whitelist=["saltutil.find_job"]
    )
    return case(["name", "list", "fun", "arg", "minions"], row, bool(verdict))


def special(ck, row):
    _, permissions, fun, args, form = row[:5]
    verdict = ck.spec_check(permissions, fun, args, form)
    if isinstance(verdict, dict):
        verdict = verdict["error"]["name"]
    return case(["name", "list", "fun", "args", "form"], row, verdict)


def fill(ck, row):
    _, users, name, groups, permissive = row[:5]
    got = ck.fill_auth_list(users, name, groups, permissive=permissive)
    return case(["name", "users", "user", "groups", "permissive"], row, got)


def black(row):
    _, blacklist, user, fun = row[:4]
    acl = salt.acl.PublisherACL(blacklist)
    verdict = acl.user_is_blacklisted(user) or acl.cmd_is_blacklisted(fun)
    return case(["name", "blacklist", "user", "fun"], row, verdict)


def local(row):
    _, acl, user = row[:3]
    got = salt.utils.master.get_values_of_matching_keys(acl, user)
    return case(["name", "acl", "user"], row, got)


def main():
    with tempfile.TemporaryDirectory() as directory:
        ck = checker(directory)
        cases = {
            "minions": MINIONS,
            "publish": [publish(ck, row) for row in PUBLISH],
            "special": [special(ck, row) for row in SPECIAL],
            "fill": [fill(ck, row) for row in FILL],
            "black": [black(row) for row in BLACK],
            "local": [local(row) for row in LOCAL],
        }
    json.dump(cases, sys.stdout, indent=1, ensure_ascii=False)
    print()


main()
