"""Compiles pillars as a stock master does.

Reads a JSON list of {"conf": directory, "requests": [...]} and writes a list with a list of
pillars for each; a pillar that stock Salt gives up on is {"_raised": text}.
"""

import copy
import json
import logging
import sys

import salt.client.mixins
import salt.config
import salt.loader
import salt.pillar
import salt.utils.event

logging.disable(logging.CRITICAL)
# Runners would tell a bus that is not there, and wait for it each time.
salt.utils.event.SaltEvent.fire_event = lambda *args, **kwargs: True
salt.client.mixins.SyncClientMixin.store_job = False


def text(value):
    if isinstance(value, bytes):
        return value.decode()
    raise TypeError(type(value).__name__)


def compile(opts, request, functions):
    grains = dict(request.get("grains", {}), id=request["id"])
    try:
        pillar = salt.pillar.Pillar(
            copy.deepcopy(opts),
            grains,
            request["id"],
            request.get("saltenv"),
            ext=request.get("ext"),
            pillar_override=request.get("pillar_override"),
            pillarenv=request.get("pillarenv"),
            extra_minion_data=request.get("extra_minion_data"),
            functions=functions,
        )
        return json.dumps(pillar.compile_pillar(), ensure_ascii=False, default=text)
    except Exception as exc:  # what the master answers with its error text
        return json.dumps({"_raised": f"{type(exc).__name__}: {exc}"})


out = []
functions = None
for case in json.load(sys.stdin):
    opts = salt.config.master_config(case["conf"] + "/master")
    # Loading the modules takes far longer than all else. They know the grains and options
    # they were loaded with, which matters to templates only.
    if "jinja" not in opts["renderer"] and functions is None:
        functions = salt.loader.minion_mods(copy.deepcopy(opts))
    known = None if "jinja" in opts["renderer"] else functions
    out.append([compile(opts, request, known) for request in case["requests"]])
json.dump(out, sys.stdout)
