"""Types that grains should not have."""
import collections
import datetime


def run():
    return {
        "corpus_tuple": (1, 2),
        "corpus_ordered": collections.OrderedDict(z=1, a=2),
        "corpus_none": None,
        "corpus_int_key": {1: "one"},
        "corpus_unicode": "grüße",
        "corpus_bytes": b"bytes",
        "corpus_big": 2**70,
    }
