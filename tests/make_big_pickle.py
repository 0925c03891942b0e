#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a PyTorch memory snapshot of any size, with the opcodes that Python's pickle (protocol 4)
would use, without ever holding it: for timing the reader and for seeing that its memory is bounded.

    make_big_pickle.py --events 2000000 --frames 0 > bare.pickle
    make_big_pickle.py --bytes 2147483648 --frames 40 > frames.pickle
"""
import argparse
import random
import struct
import sys

BATCH = 1000  # as pickle does it
SLOTS = 4096  # blocks live at once, at most
UNIQUE_FRAMES = 2000
BASE_ADDR = 0x7F0000000000
BASE_TIME = 1795969805133867


class Writer:
    """Opcodes on their way out, and what stands in the memo."""

    def __init__(self, out):
        self.out, self.parts, self.n_memo, self.n_bytes = out, [], 0, 0
        self.memo = {}

    def put(self, data):
        self.parts.append(data)
        if len(self.parts) >= 8192:
            self.flush()

    def flush(self):
        data = b"".join(self.parts)
        self.n_bytes += len(data)
        self.out.write(data)
        self.parts.clear()

    def memoize(self):
        self.n_memo += 1
        self.put(b"\x94")

    @staticmethod
    def get(index):
        return b"h" + bytes([index]) if index < 256 else b"j" + struct.pack("<I", index)

    def text(self, text):
        """A string, by its memo entry from the second time on."""
        if text in self.memo:
            self.put(self.get(self.memo[text]))
            return
        data = text.encode()
        self.put(b"\x8c" + bytes([len(data)]) + data)
        self.memo[text] = self.n_memo
        self.memoize()

    @staticmethod
    def number(n):
        if 0 <= n < 256:
            return b"K" + bytes([n])
        if 0 <= n < 65536:
            return b"M" + struct.pack("<H", n)
        if -(1 << 31) <= n < 1 << 31:
            return b"J" + struct.pack("<i", n)
        size = (n.bit_length() + 8) // 8
        return b"\x8a" + bytes([size]) + n.to_bytes(size, "little", signed=True)

    def begin_dict(self):
        self.put(b"}")
        self.memoize()
        self.put(b"(")

    def begin_list(self):
        self.put(b"]")
        self.memoize()


def frame(w, i, known):
    """A stack frame: the dict itself once, then a reference."""
    if i in known:
        w.put(w.get(known[i]))
        return
    known[i] = w.n_memo
    w.begin_dict()
    w.text("name")
    w.text("forward_%d" % (i % 300))
    w.text("filename")
    w.text("/opt/model/layers/block_%d.py" % (i % 97))
    w.text("line")
    w.put(w.number(i))
    w.put(b"u")


def event(w, known, stack, action, addr, size, time_us):
    w.begin_dict()
    w.text("action")
    w.text(action)
    w.text("addr")
    w.put(w.number(addr))
    w.text("size")
    w.put(w.number(size))
    w.text("stream")
    w.put(b"K\0")
    w.text("time_us")
    w.put(w.number(time_us))
    w.text("compile_context")
    w.text("N/A")
    w.text("user_metadata")
    w.text("")
    if stack:
        w.text("frames")
        w.begin_list()
        w.put(b"(")
        for i in stack:
            frame(w, i, known)
        w.put(b"e")
    w.put(b"u")


def events(rng):
    """action, address, size, forever; what is allocated is freed before its address comes again."""
    live = [0] * SLOTS
    while True:
        slot = rng.randrange(SLOTS)
        addr = BASE_ADDR + slot * (64 << 20)
        if live[slot]:
            yield "free_requested", addr, live[slot]
            yield "free_completed", addr, live[slot]
            live[slot] = 0
        else:
            live[slot] = rng.randrange(1, 64 << 20)
            yield "alloc", addr, live[slot]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--events", type=int, default=1 << 62, help="how many at most")
    parser.add_argument("--bytes", type=int, default=1 << 62, help="how large about, at most")
    parser.add_argument("--frames", type=int, default=0, help="depth of the stacks; 0: none")
    args = parser.parse_args()
    if min(args.events, args.bytes) == 1 << 62:
        parser.error("expected --events or --bytes")
    rng = random.Random(1)
    w = Writer(sys.stdout.buffer)
    known, source = {}, events(rng)
    w.put(b"\x80\x04")
    w.begin_dict()
    w.text("segments")
    w.begin_list()
    w.text("device_traces")
    w.begin_list()
    w.begin_list()
    n = 0
    while n < args.events and w.n_bytes < args.bytes:
        batch = min(BATCH, args.events - n)
        w.put(b"(")
        for _ in range(batch):
            start = rng.randrange(UNIQUE_FRAMES)
            stack = [(start + i) % UNIQUE_FRAMES for i in range(args.frames)]
            event(w, known, stack, *next(source), BASE_TIME + n)
            n += 1
        w.put(b"e")
    w.put(b"au.")
    w.flush()
    print("%d events, %d bytes" % (n, w.n_bytes), file=sys.stderr)


if __name__ == "__main__":
    main()
