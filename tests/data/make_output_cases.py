#!/usr/bin/env python3
"""Lets stock Salt's own outputters print many values, as expectations for src/cli/output.

Run with the Python of an installed Salt, from this directory:

    python make_output_cases.py > output_cases.json                # Salt 3008
    python make_output_cases.py --old > output_cases_3006.json     # Salt 3006, outputters gone since

Values are JSON, except {"$bytes": hex}, {"$float": "nan"} and {"$map": [[key, value], ...]}
for maps whose keys are not all text.
"""

import copy
import json
import logging
import sys

import salt.output

logging.disable(logging.CRITICAL)

LONG = "the quick brown fox jumps over the lazy dog and runs on " * 4
UNICODE = "zażółć gęślą jaźń – naïve ☃ 日本語"
MULTI = "first line\n  second: line\n\nfourth line\n"
NAN = float("nan")
INF = float("inf")


def state(result=True, num=0, **more):
    ret = {
        "name": "n%d" % num,
        "changes": {},
        "result": result,
        "comment": "Comment %d" % num,
        "__sls__": "web",
        "__run_num__": num,
        "start_time": "09:19:%02d.143320" % num,
        "duration": 0.374 + num,
        "__id__": "id%d" % num,
    }
    ret.update(more)
    return {k: v for k, v in ret.items() if v is not DROP}


DROP = object()


def key(num=0, id_=None, name=None, mod="file", fun="managed"):
    id_ = "id%d" % num if id_ is None else id_
    name = "n%d" % num if name is None else name
    return "_|-".join([mod, id_, name, fun])


def run(*states):
    return {"m1": {key(i): s for i, s in enumerate(states)}}


def one(**more):
    return run(state(**more))


PLAIN = {
    "ping": {"m1": True},
    "false": {"m1": False},
    "none": {"m1": None},
    "int": {"m1": 42},
    "negative": {"m1": -7},
    "big": {"m1": 2**63 + 11},
    "floats": {"m1": [0.1, 1.0, -2.5, 1e16, 1e15, 123456789012345680.0, 1e-5, 0.0001, 1.5e300,
                      -0.0, 3.141592653589793, 1e22, 5e-324, 2.5e-7, 1e100]},
    "odd_floats": {"m1": [NAN, INF, -INF]},
    "text": {"m1": "hello world"},
    "empty_text": {"m1": ""},
    "blank_text": {"m1": "   "},
    "trailing": {"m1": "text  \n\n  "},
    "multi": {"m1": MULTI},
    "crlf": {"m1": "a\r\nb\rc\x0bd\x0ce\x1cf\x1dg\x1eh\x85i\u2028j\u2029k"},
    "unicode": {"m1": UNICODE},
    "unicode_key": {"mińon-☃": {"klucz ó": UNICODE, "emoji 😀": "😀 party"}},
    "unprintable": {"m1": "nb\u00a0sp zw\u200b bom\ufeff pua\ue000 un\u0378 high\U000e0001 \x7f \x00 \x1f"},
    "escape": {"m1": "\x1b[31mred\x1b[0m", "m2\x1b": ["\x1b]0;title"]},
    "quotes": {"m1": ["it's", 'say "hi"', "both ' and \"", "back\\slash", "tab\there", "`tick`"]},
    "list": {"m1": [1, "two", 3.5, True, None]},
    "empty_list": {"m1": []},
    "empty_map": {"m1": {}},
    "empties": {"m1": {"a": [], "b": {}, "c": "", "d": None, "e": [[]], "f": [{}], "g": [""]}},
    "nested_map": {"m1": {"b": {"y": 1, "x": {"deep": {"deeper": "bottom"}}}, "a": "first"}},
    "list_in_map": {"m1": {"l": [1, [2, [3, [4]]], {"k": [5, {"z": 6}]}], "s": "x"}},
    "list_of_maps": {"m1": [{"a": 1, "b": [1, 2]}, {"a": 2, "c": {"d": 3}}, "tail"]},
    "map_of_lists": {"m1": {"x": ["a", "b"], "y": [["c", "d"], ["e"]]}},
    "multi_in_list": {"m1": [MULTI, "x\ny", {"k": MULTI}]},
    "bytes_text": {"m1": b"plain octets"},
    "bytes": {"m1": b"\xff\xfe\x00 it's \\ \n \"", "m2": [b"\x80", b"text", b""]},
    "long_bytes": {"m1": bytes(range(256))},
    "bytes_key": {"m1": {b"\xffkey": 1}},
    "int_keys": {"m1": {3: "c", 1: "a", 2: "b"}},
    "mixed_keys": {"m1": {1: "a", "b": 2, "10": 3, None: 4, 2.5: 5}},
    "bool_keys": {"m1": {True: 1, False: 0}},
    "same_text_keys": {"m1": {1: "int", "1": "text", "0": "zero"}},
    "none_key": {"m1": {None: "x"}},
    "two_minions": {"m2": True, "m1": {"a": 1}, "db.example.com": "text\nmore"},
    "top_text": "just text\nsecond line",
    "top_none": None,
    "top_true": True,
    "top_int": 5,
    "top_float": 2.5,
    "top_list": ["a", 1, {"b": 2}],
    "top_empty": {},
    "top_empty_list": [],
    "top_empty_text": "",
    "top_bytes": b"octets \xff and more",
    "long": {"m1": LONG},
    "long_words": {"m1": "x" * 100 + " " + "y" * 90 + "  " + "z" * 5},
    "long_double": {"m1": ("tab\tword with  two blanks and \"quotes\" " * 5)},
    "long_single": {"m1": "'" + LONG + " it's", "m2": "# " + LONG, "m3": "a: " + LONG + ":"},
    "long_nested": {"m1": {"deep": {"deeper": [LONG, {"x": LONG + MULTI}]}}},
    "long_list": {"m1": list(range(40))},
    "long_key": {"m1": {"k" * 127: 1, "k" * 128: 2, "k" * 129: 3, "key\nbreak": 4, "": 5}},
    "very_long_multi": {"m1": (LONG + "\n") * 3},
    "yaml_words": {"m1": ["yes", "No", "on", "OFF", "true", "null", "~", "Null", "y", "n", "nUll",
                          "1", "0644", "0x1f", "0b11", "1_000", "-5", "+5", "1.5", "1e5", "1.0e+5",
                          ".5", ".inf", "-.INF", ".NaN", "1:30", "1:30.5", "2020-01-01",
                          "2020-01-01 10:00:00", "2020-1-1T1:02:03.5Z", "<<", "=", "!", "&", "*",
                          "9" * 30, "08", "0o17", "12e03", "_1", "1_", ""]},
    "yaml_signs": {"m1": ["- a", "-", "-a", "? x", "?", "?x", ": x", ":x", "a: b", "a:b", "a:", "a #b",
                          "a#b", "#b", "[x]", "{x}", "a, b", "a]b", "*x", "&x", "!x", "|x", ">x", "%x",
                          "@x", "`x", "'x", '"x', "x'y", 'x"y', " x", "x ", "---", "--- x", "...", "--",
                          "x\\y", "~x", "a?b", "a{b", "\tx", "x\ty", "-\tx", "<x", "a\n", "\na",
                          "a\nb", "a\n\nb", "a \nb", "a\n b", "\n", "a\u2028b", "a\x85b", "a\rb"]},
    "yaml_keys": {"yes": 1, "1": 2, "a: b": 3, "- x": 4, "": 5, "x'y": 6, "m,n": 7, "[": 8},
    "yaml_nest": {"m1": [[1, 2], [[3], []], {"a": [{"b": []}, {}], "c": {}}, [{"x": 1, "y": 2}]]},
    "yaml_floats": {"m1": {1.5: 1e16, 1e17: INF, 2.0: NAN}},
    "docs": {"test.ping": "\n    Used to make sure the minion is up\n\n    CLI Example:\n\n        salt '*' test.ping\n    "},
    "traceback": {"m1": "The minion function caused an exception: Traceback (most recent call last):\n"
                        "  File \"x.py\", line 1, in <module>\nKeyError: 'x'\n"},
    "no_return": {"ghost": "Minion did not return. [No response]\nThe minions may not have all finished"
                           " running\n\nsalt-run jobs.lookup_jid 20261121092208411689"},
    "not_connected": {"ghost": "Minion did not return. [Not connected]"},
    "no_return_deep": {"g": {"b": "x\ny", "a": 5}},
    "batch": {"m1": True, "jid": "20261121092101540221", "retcode": 0},
    "rows": {"m1": {"out": [{"name": "eth0", "mtu": 1500, "is_up": True},
                            {"name": "lo", "mtu": 65536, "is_up": False}], "comment": "", "result": True}},
    "rows_text": {"m1": ["one", "two words", "three"]},
    "rows_lists": {"m1": [["a", "bb"], ["ccc", "d"]]},
    "rows_wide": {"m1": [{"text": LONG, "n": 1}, {"text": "short", "n": None}]},
    "rows_wide_one": {"m1": [{"text": LONG}, {"text": "a b\nc d"}]},
    "rows_mixed": {"m1": [{"a": 1}, "b"], "m2": [True, 1]},
    "rows_ragged": {"m1": [{"a": 1, "b": 2}, {"a": 3}], "m2": [["x"], ["y", "z"]]},
    "rows_ints": {"m1": [1, 2]},
    "rows_list_ints": {"m1": [[1, 2]]},
    "rows_empty": {"m1": [{}, {}], "m2": []},
    "rows_unicode": {"m1": [{"ключ_один": "☃", "don't_x2y": "é"}]},
    "rows_deep": {"m1": {"x": {"y": {"z": [{"k": [1, 2], "j": {"a": 1}}]}, "s": "text"}}},
    "rows_blank": {"m1": [["", "a  b"], ["x", ""]]},
}

KEYS = {
    "keys": {"minions": ["m2", "m1"], "minions_pre": ["web1", "db1"], "minions_rejected": ["bad"],
             "minions_denied": ["den1"]},
    "keys_empty": {"minions": [], "minions_pre": [], "minions_rejected": [], "minions_denied": []},
    "fingers": {"local": {"master.pem": "aa:bb", "master.pub": "cc:dd"}, "minions": {"m1": "ee:ff"}},
    "key_text": {"minions": {"m1": "-----BEGIN PUBLIC KEY-----\nMII\n-----END PUBLIC KEY-----\n"}},
    "keys_odd": {"minions": ["esc\x1bape", UNICODE]},
    "keys_unknown": {"other": ["a"]},
    "keys_text": {"minions": "m1"},
    "keys_int": {"minions": 5},
}

CHANGES = {"new": "new text", "old": {"a": 1, "b": [1, 2]}, "diff": "--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n"}
DUO = {"m1": run(state(True), state(False, 1))["m1"], "m2": run(state(None))["m1"]}
ORCH_HOST = {key(0): state(True, changes=CHANGES), key(1): state(False, 1)}

STATES = {
    "s_clean": one(),
    "s_changed": one(changes=CHANGES),
    "s_failed": one(result=False, comment="It broke\nbadly\n  indented\n"),
    "s_test": one(result=None, comment="would change", changes={"diff": "x"}),
    "s_all": run(state(True), state(True, 1, changes=CHANGES), state(False, 2), state(None, 3),
                 state(True, 4, warnings=["Careful now"]), state(None, 5, changes={"a": "b"})),
    "s_fail_then_test": run(state(False), state(None, 1)),
    "s_test_then_fail": run(state(None), state(False, 1)),
    "s_order": {"m1": {key(2): state(True, 2), key(0): state(False, 0), key(1): state(True, 1)}},
    "s_ten": run(*[state(i % 3 != 0, i) for i in range(12)]),
    "s_id_is_name": {"m1": {key(0, "same", "same"): state()}},
    "s_requisite": run(state(False), state(False, 1, comment="One or more requisite failed: web.id0",
                                           start_time=DROP, duration=DROP)),
    "s_requisite_times": one(result=False, comment="One or more requisite failed: bad.fails",
                             start_time="09:19:14.411323", duration=0.017),
    "s_no_duration": one(duration=DROP),
    "s_no_start": one(start_time=DROP),
    "s_text_duration": run(state(duration="5.25 ms"), state(True, 1, duration="7"),
                           state(True, 2, duration="what")),
    "s_int_duration": one(duration=12),
    "s_none_duration": one(duration=None),
    "s_empty_duration": one(duration=""),
    "s_seconds": run(state(duration=999.0), state(True, 1, duration=0.5)),
    "s_999": one(duration=999),
    "s_long_run": one(duration=3723004.5678),
    "s_parallel": run(state(duration=100.5, __parallel__=True), state(True, 1, duration=300, __parallel__=True),
                      state(True, 2, duration=10.25)),
    "s_zero": one(duration=0.0),
    "s_warnings": run(state(True, warnings=["'foo' is an invalid keyword argument for 'file.managed'. "
                                            "If you were trying to pass additional data to be used in a "
                                            "template context, please populate 'context' with 'key: value' "
                                            "pairs. Your approach will work until Salt 3003."]),
                      state(False, 1, warnings=["one", "two\tand tab", "three--and--dashes well-known-words"])),
    "s_warning_words": one(warnings=["x" * 70 + " " + "y" * 150 + " " + "ab-cd-" * 30 + " -----" * 20]),
    "s_warning_breaks": one(warnings=["e-mail co-operative a-b --long-option foo--bar -- x-1 1-x éà-ôù "
                                      "semi-automatic/half-life 'quoted-words' (in-brackets) end-of-line."] * 4),
    "s_warning_text": one(warnings="abc"),
    "s_warning_empty": one(warnings=[]),
    "s_warning_bad": one(warnings=[1]),
    "s_comment_list": one(comment=["a", "b"]),
    "s_comment_none": one(comment=None),
    "s_comment_int": one(comment=5),
    "s_comment_empty": one(comment=""),
    "s_comment_unicode": one(comment=UNICODE + "\n" + UNICODE),
    "s_comment_escape": one(comment="\x1b[31mred"),
    "s_comment_missing": one(comment=DROP),
    "s_changes_missing": one(changes=DROP),
    "s_second_broken": run(state(), state(True, 1, changes=DROP)),
    "s_changes_text": one(changes="some text"),
    "s_changes_list": one(changes=["a", "b"]),
    "s_changes_none": one(changes=None),
    "s_changes_int_keys": one(changes={1: 2, "a": {3: [4]}}),
    "s_changes_blank": one(changes={"a": "", "b": "x\n\n"}),
    "s_changes_multi": one(changes={"stdout": MULTI, "retcode": 0, "pid": 1, "list": [MULTI, {"k": [1]}]}),
    "s_changes_ret": one(changes={"ret": {"m9": True}}),
    "s_changes_out": one(changes={"out": "highstate", "ret": {"m8": ORCH_HOST, "m9": {}}}),
    "s_changes_out_clean": one(changes={"out": "highstate", "ret": {"m8": {key(0): state()}}}),
    "s_changes_out_errors": one(result=False, changes={"out": "highstate", "ret": {"m8": ["Rendering failed\nline"]}}),
    "s_changes_out_text": one(changes={"out": "highstate", "ret": {"m8": "text\nmore", "m7": 5, "m6": None}}),
    "s_changes_out_list": one(changes={"out": "highstate", "ret": [1]}),
    "s_data_list": one(data=["extra", 5]),
    "s_data_map": one(data={"a": 1, "b": "two"}),
    "s_data_text": one(data="extra"),
    "s_result_text": one(result="maybe"),
    "s_result_one": run(state(1), state(0, 1), state(True, 2)),
    "s_result_list": one(result=[True]),
    "s_orch_name": {"m1_master": {key(0, "orch", "state.orchestrate", "salt", "runner"): state(
        name="state.orchestrate", changes={"return": {"outputter": "highstate", "data": {
            "m1_master": {key(0): state(True), key(1): state(False, 1, changes=CHANGES)}}, "retcode": 0}})}},
    "s_orch": {"outputter": "highstate", "retcode": 1, "data": {"box_master": {
        key(0, "apply", "apply", "salt", "state"): state(
            name="apply", __jid__="20261121", changes={"out": "highstate", "ret": {"m1": ORCH_HOST}}),
        key(1, "fn", "fn", "salt", "function"): state(True, 1, name="fn", changes={"ret": {"m1": True}})}}},
    "s_master_retcode": {"box_master": {key(0): state()}, "retcode": 0},
    "s_lookup": {"20261121": {"jid": "20261121", "fun": "state.apply", "return": {"data": one()}}},
    "s_lookup_bare": {"m1": {"jid": "1", "fun": "x"}},
    "s_return": {"return": one(), "retcode": 0, "id": "m1"},
    "s_data": {"data": one(), "outputter": "highstate"},
    "s_compile": {"m1": ["Rendering SLS 'base:bad' failed: Jinja error\nline 2", "State 'x.y' in SLS 'z' is not formed as a list"]},
    "s_compile_odd": {"m1": [5, {"a": b"bytes"}, None, "\x1b[1m", UNICODE]},
    "s_compile_empty": {"m1": []},
    "s_text": {"m1": "The minion function caused an exception\nTraceback"},
    "s_text_empty": {"m1": ""},
    "s_int": {"m1": 5},
    "s_bool": {"m1": True, "m2": False},
    "s_none": {"m1": None},
    "s_float": {"m1": 1.5},
    "s_empty": {"m1": {}},
    "s_no_states": {"no_|-states_|-states_|-None": {}},
    "s_none_found": {"m1": {"no_|-states_|-states_|-None": {
        "result": False, "comment": "No Top file or master_tops data matches found.", "name": "No States",
        "changes": {}, "__run_num__": 0}}},
    "s_not_found": {"m1": {key(0, "x", "x", "x", "y"): {
        "__id__": "x", "__run_num__": 0, "__sls__": "z", "changes": {}, "name": "x", "result": False,
        "comment": "State 'x.y' was not found in SLS 'z'\nReason: 'x.y' is not available.\n"}}},
    "s_no_run_num": {"m1": {key(0): state(__run_num__=DROP), key(1): state(True, 1)}},
    "s_no_run_num_long": {"m1": {key(0): state(__run_num__=DROP, comment=LONG, changes=CHANGES)}},
    "s_not_states": {"m1": {"a": {"b": 1}, "c": 2}},
    "s_int_host": {5: {key(0): state()}},
    "s_escape_host": {"m\x1b1": {key(0): state()}},
    "s_unicode": {"mińon": {key(0, "ид", "имя ☃"): state(changes={"ключ": UNICODE})}},
    "s_two": DUO,
    "s_run_num_text": {"m1": {key(0): state(__run_num__="a"), key(1): state()}},
    "s_module_short": {"m1": {key(0, "i", "n", "pkg", "installed"): state(),
                              key(1, "i", "n", "a_very_long_module", "and_function"): state(True, 1, duration=12345.678)}},
    "s_names": {"m1": {
        key(0, "multi", "a", "cmd", "run"): state(True, 0, name="a", __id__="multi", changes={"x": 1}),
        key(0, "multi", "b", "cmd", "run"): state(True, 1, name="b", __id__="multi", changes={"y": 2}),
        key(0, "multi", "c", "cmd", "run"): state(False, 2, name="c", __id__="multi"),
        key(0, "multi", "d", "cmd", "run"): state(True, 3, name="d", __id__="multi"),
        key(0, "solo", "e", "cmd", "run"): state(True, 4, name="e", __id__="solo")}},
    "s_names_late": {"m1": {
        key(0, "multi", "a", "cmd", "run"): state(True, 3, name="a", __id__="multi", duration=5),
        key(0, "multi", "b", "cmd", "run"): state(True, 1, name="b", __id__="multi", duration=7, changes={"y": 2})}},
}

BROAD = ["s_all", "s_test", "s_warnings", "s_requisite", "s_names", "s_two"]
MODES = ["full", "terse", "mixed", "changes", "filter"]


def cases():
    """Yields value name, outputter, options."""
    for name in list(PLAIN):
        for out in ["nested", "json", "yaml", "raw", "txt", "pprint"]:
            yield name, out, {}
        if name.startswith("rows") or name in ["top_list", "two_minions", "mixed_keys", "bytes", "empties", "text"]:
            yield name, "table", {}
            yield name, "table", {"color": True}
    for name in ["ping", "empties", "list_in_map", "multi_in_list", "escape", "yaml_words", "mixed_keys", "bytes"]:
        yield name, "nested", {"color": True}
        yield name, "nested", {"color": True, "retcode": 2}
        yield name, "nested", {"retcode": 2}
    yield "escape", "nested", {"strip_colors": False}
    yield "nested_map", "nested", {"nested_indent": 3}
    for name in ["two_minions", "list_in_map", "empties", "mixed_keys", "yaml_nest", "yaml_signs", "yaml_words",
                 "yaml_keys", "long_nested", "long_list", "bytes", "long_double", "odd_floats", "long_key"]:
        for indent in [-1, 0, 1, 2, 3, 8, 12]:
            for out in ["json", "yaml", "pprint"]:
                yield name, out, {"output_indent": indent}
        for out in ["json", "yaml", "pprint"]:
            yield name, out, {"output_indent": "pretty"}
    for name in ["no_return", "not_connected", "no_return_deep", "top_text", "mixed_keys", "top_none"]:
        for color in [False, True]:
            yield name, "no_return", {"color": color}
    for name in list(KEYS) + ["ping", "top_text", "mixed_keys"]:
        for color in [False, True]:
            yield name, "key", {"color": color}
    for name in ["two_minions", "top_text"]:
        yield name, "text", {}
        yield name, "nonsense", {}
        yield name, "grains", {}
        yield name, "", {}
    for name in STATES:
        for color in [False, True]:
            yield name, "highstate", {"color": color}
        yield name, "highstate", {"state_output": "terse"}
        yield name, "highstate", {"state_compress_ids": True, "state_output": "terse_id"}
        for out in ["nested", "json", "yaml", "pprint"]:
            yield name, out, {}
    for name in ["ping", "text", "list", "nested_map", "top_none", "top_true", "top_int", "top_float", "top_list",
                 "top_text", "top_empty", "mixed_keys", "bytes", "empties", "two_minions"]:
        yield name, "highstate", {}
    for name in BROAD:
        for mode in MODES:
            for suffix in ["", "_id"]:
                for color in [False, True]:
                    yield name, "highstate", {"state_output": mode + suffix, "color": color}
        for mode in ["full", "terse", "changes", "FULL", "unknown"]:
            yield name, "highstate", {"state_output": mode, "state_verbose": False}
            yield name, "highstate", {"state_output": mode, "state_output_diff": True}
            yield name, "highstate", {"state_output": mode, "state_output_profile": False}
            yield name, "highstate", {"state_output": mode, "state_tabular": True, "color": True}
            yield name, "highstate", {"state_output": mode, "state_output_pct": True}
            yield name, "highstate", {"state_output": mode, "state_compress_ids": True, "color": True}
        yield name, "highstate", {"state_output": "terse", "state_tabular": True, "state_output_profile": False}
        for exclude, terse in [("True,", []), (["None"], ["True"]), ([], "True,False"), ("None,False", "True,"),
                               ([True], []), (True, []), (None, []), ([], True)]:
            yield name, "highstate", {"state_output": "filter", "state_output_exclude": exclude,
                                      "state_output_terse": terse}
    for name in ["s_names_late", "s_clean", "s_ten", "s_none_duration"]:
        yield name, "highstate", {"state_compress_ids": True}
        yield name, "highstate", {"state_output_pct": True}
        yield name, "highstate", {"strip_colors": False}


def old_cases():
    for name in list(PLAIN):
        for out in ["quiet", "newline_values_only"]:
            yield name, out, {}


DEFAULTS = {
    "extension_modules": "",
    "optimization_order": [0, 1, 2],
    "transport": "zeromq",
    "color": False,
    "state_output": "full",
    "state_verbose": True,
    "state_output_diff": False,
    "state_output_profile": True,
}


def show(data, out, options):
    """What the command prints, without the last line feed."""
    opts = dict(DEFAULTS, **options)
    retcode = opts.pop("retcode", 0)
    return salt.output.out_format(copy.deepcopy(data), out, opts, _retcode=retcode)


def portable(value):
    """The value as JSON can carry it."""
    if isinstance(value, bytes):
        return {"$bytes": value.hex()}
    if isinstance(value, float) and (value != value or value in (INF, -INF)):
        return {"$float": str(value)}
    if isinstance(value, list):
        return [portable(item) for item in value]
    if isinstance(value, dict):
        if all(isinstance(k, str) for k in value):
            return {k: portable(v) for k, v in value.items()}
        return {"$map": [[portable(k), portable(v)] for k, v in value.items()]}
    return value


def main():
    values = {**PLAIN, **KEYS, **STATES}
    rows, refused = [], []
    chosen = old_cases() if "--old" in sys.argv else cases()
    for name, out, options in chosen:
        try:
            text = show(values[name], out, options)
        except Exception as exc:  # stock ends with a traceback
            refused.append([name, out, options, type(exc).__name__])
            continue
        rows.append([name, out, options, text])
    used = {row[0] for row in rows + refused}
    doc = {
        "values": {name: portable(value) for name, value in values.items() if name in used},
        "cases": rows,
        "refused": refused,
    }
    lines = ["{"]
    for part, entries in doc.items():
        lines.append(json.dumps(part) + ": " + ("{" if part == "values" else "["))
        if part == "values":
            body = [json.dumps(k) + ": " + json.dumps(v) for k, v in entries.items()]
            lines.append(",\n".join(body) + "\n},")
        else:
            lines.append(",\n".join(json.dumps(row) for row in entries))
            lines.append("]" if part == "refused" else "],")
    lines.append("}")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
