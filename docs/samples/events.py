#!/usr/bin/env python3
"""Prints the events of a master's bus. Needs Python 3.8 and nothing else.

    events.py SOCKET [TAG-PREFIX [COUNT]]
"""
import io
import socket
import struct
import sys

SIMPLE = {0xC0: None, 0xC2: False, 0xC3: True}
NUMBERS = {0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q",
           0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}
SIZES = {0xC4: ">B", 0xC5: ">H", 0xC6: ">I", 0xC7: ">B", 0xC8: ">H", 0xC9: ">I",
         0xD9: ">B", 0xDA: ">H", 0xDB: ">I", 0xDC: ">H", 0xDD: ">I", 0xDE: ">H", 0xDF: ">I"}


def unpack(read):
    """One msgpack value; read(n) gives the next n octets."""

    def number(form):
        return struct.unpack(form, read(struct.calcsize(form)))[0]

    kind = read(1)[0]
    if kind < 0x80:
        return kind
    if kind >= 0xE0:
        return kind - 0x100
    if kind in SIMPLE:
        return SIMPLE[kind]
    if kind in NUMBERS:
        return number(NUMBERS[kind])
    if 0xD4 <= kind <= 0xD8:  # an extension of 1, 2, 4, 8, 16 octets
        return read(1 + (1 << (kind - 0xD4)))[1:]
    size = number(SIZES[kind]) if kind >= 0xC0 else kind & (0x1F if kind >= 0xA0 else 0x0F)
    if kind < 0x90 or kind in (0xDE, 0xDF):
        return {unpack(read): unpack(read) for _ in range(size)}
    if kind < 0xA0 or kind in (0xDC, 0xDD):
        return [unpack(read) for _ in range(size)]
    if kind in (0xC7, 0xC8, 0xC9):
        return read(1 + size)[1:]
    octets = read(size)
    return octets if kind in (0xC4, 0xC5, 0xC6) else octets.decode("utf-8", "replace")


def reader(source):
    """read(n) for unpack, from a file or a buffer."""

    def read(size):
        octets = source.read(size)
        if len(octets) < size:
            raise EOFError("the bus has ended")
        return octets

    return read


def events(path):
    """Tag and data of each event from now on; EOFError when the master ends."""
    bus = socket.socket(socket.AF_UNIX)
    bus.connect(path)
    stream = bus.makefile("rb")
    read = reader(stream)
    while True:
        # A frame is a map of two entries; some series put four octets of length before it.
        if stream.peek(1)[:1] != b"\x82":
            read(4)
        tag, _, data = unpack(read)["body"].partition(b"\n\n")
        yield tag.decode(), unpack(reader(io.BytesIO(data)))


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
