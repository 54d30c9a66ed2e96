#!/usr/bin/env python3
"""Prints the events of a master's bus. Needs the package msgpack.

    events_msgpack.py SOCKET [TAG-PREFIX [COUNT]]
"""
import socket
import struct
import sys

import msgpack

OPTIONS = {"raw": False, "strict_map_key": False}


def events(path):
    """Tag and data of each event from now on, until the master ends."""
    bus = socket.socket(socket.AF_UNIX)
    bus.connect(path)
    if bus.recv(1, socket.MSG_PEEK) == b"\x82":
        # Frames only.
        frames = msgpack.Unpacker(bus.makefile("rb", buffering=0), **OPTIONS)
    else:
        # Each has four bytes of length in front, most significant first.
        stream = bus.makefile("rb")
        frames = (msgpack.unpackb(stream.read(*struct.unpack(">I", head)), **OPTIONS)
                  for head in iter(lambda: stream.read(4), b""))
    for frame in frames:
        tag, _, data = frame["body"].partition(b"\n\n")
        yield tag.decode(), msgpack.unpackb(data, **OPTIONS)


def main():
    path, prefix, left = sys.argv[1], "".join(sys.argv[2:3]), int("".join(sys.argv[3:4]) or 0)
    for tag, data in events(path):
        if tag.startswith(prefix):
            print(tag, data, flush=True)
            left -= 1
            if left == 0:
                break


if __name__ == "__main__":
    main()
