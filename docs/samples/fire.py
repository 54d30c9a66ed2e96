#!/usr/bin/env python3
"""Fires an event into a master's bus. Needs Python 3 and nothing else.

    fire.py SOCKET TAG JSON-MAP
"""
import datetime
import json
import socket
import struct
import sys


def pack(value):
    """msgpack of what JSON can say, in the longest form of each type."""
    if value is None:
        return b"\xc0"
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        return b"\xd3" + struct.pack(">q", value)
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, bytes):
        return b"\xc6" + struct.pack(">I", len(value)) + value
    if isinstance(value, str):
        octets = value.encode()
        return b"\xdb" + struct.pack(">I", len(octets)) + octets
    if isinstance(value, list):
        return b"\xdd" + struct.pack(">I", len(value)) + b"".join(map(pack, value))
    items = b"".join(pack(key) + pack(item) for key, item in value.items())
    return b"\xdf" + struct.pack(">I", len(value)) + items


def main():
    path, tag, data = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    data["_stamp"] = datetime.datetime.now(datetime.timezone.utc).isoformat()
    # The frame is a map of two entries, the short form of which halite and Salt expect.
    frame = b"\x82" + pack("head") + pack({}) + pack("body") + pack(tag.encode() + b"\n\n" + pack(data))
    bus = socket.socket(socket.AF_UNIX)
    bus.connect(path)
    bus.sendall(struct.pack(">I", len(frame)) + frame)
    bus.close()


if __name__ == "__main__":
    main()
