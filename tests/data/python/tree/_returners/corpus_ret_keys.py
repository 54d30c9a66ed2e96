"""Writes the keys of a return."""
import os


def returner(ret):
    with open(os.path.join(__opts__["corpus_dir"], "keys"), "w") as stream:
        stream.write(" ".join(sorted(ret)) + "\n" + str(__salt__["test.ping"]()) + "\n")
