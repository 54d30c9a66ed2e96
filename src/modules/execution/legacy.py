"""Runs one function by an installed Salt, for a halite minion that has `legacy_salt`.

Reads an order as JSON from standard input, prints the outcome as JSON on standard output.
"""

import json
import os
import sys


def main():
    order = json.load(sys.stdin)
    # What functions print must not end in the answer.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        outcome = perform(order)
    except Exception as exc:  # the function's own
        outcome = {"class": type(exc).__name__, "error": str(exc)}
    json.dump(outcome, answer, default=str)
    answer.close()


def perform(order):
    import salt.config
    import salt.loader
    import salt.version

    opts = salt.config.minion_config(None)
    opts.update(order["opts"])
    opts.update(grains=order["grains"], pillar=order["pillar"], id=order["id"])
    context = {}
    utils = salt.loader.utils(opts, context=context)
    modules = salt.loader.minion_mods(opts, context=context, utils=utils)
    version = salt.version.__version__
    if order["fun"] not in modules:
        return {"missing": True, "version": version}
    value = modules[order["fun"]](*order["args"], **order["kwargs"])
    return {"return": value, "retcode": context.get("retcode", 0), "version": version}


main()
