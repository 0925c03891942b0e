#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns a raw recording of PyTorch's allocator into a gpupool trace (traces/FORMAT.md).

A raw recording is JSON, gzipped or not: {"meta": {...}, "events": [[action, address, size, stream,
time_us], ...], "pools": [[address, size, [id, id]], ...]} with the actions of a PyTorch memory
history: alloc, free_requested, free_completed, segment_alloc, segment_free, segment_map,
segment_unmap, oom. "pools", which may be missing: the segments at the end and their pools' ids.

    convert_recordings.py IN.json.gz OUT.jsonl.gz --name llm_train
    convert_recordings.py IN.json.gz --steps
    convert_recordings.py IN.json.gz OUT.json --name llm --cut 7 12 --no-addr

How events become events:
  * ids count allocations, from 1; t is in ns from the first event;
  * free_requested becomes `free`; free_completed becomes nothing when it follows directly, else
    `reclaim`: until then the block could not be reused. Blocks whose free never completed are
    reclaimed at the very end;
  * segment events and `oom` keep their sizes and addresses;
  * a private pool is known by the segments at the end: what lies in one of them from the last
    segment_alloc of its address on gets `pool`; what lay there before is of the default pool.

A cut keeps whole steps. A step ends when the number of live blocks, having risen, is back at the
lowest it has between two steps. Blocks live at the cut are allocated at its start, under the mark
"live before the cut"; blocks live at the end stay so. The output's ending says which form it gets:
.json (one event a line) or .jsonl, with .gz compressed.
"""

import argparse
import bisect
import gzip
import json
import sys

KEPT = ("segment_alloc", "segment_free", "segment_map", "segment_unmap", "oom")
RISEN = 1.1  # times the floor: a step has begun


def read_recording(path):
    with open(path, "rb") as f:
        data = f.read()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    return json.loads(data)


def reclaim_pending(pending, t):
    return [{"op": "reclaim", "id": i, "t": t} for i in pending]


class Pools:
    """The private pools: numbered from 1, and found by address."""

    def __init__(self, raw, segments):
        numbers = {}
        since = {e[1]: n for n, e in enumerate(raw) if e[0] == "segment_alloc"}
        self.segments = sorted((addr, size, since.get(addr, -1),
                                numbers.setdefault(tuple(pool), len(numbers) + 1))
                               for addr, size, pool in segments if any(pool))
        if len(numbers) > 255:
            sys.exit(f"{len(numbers)} private pools, expected at most 255")

    def at(self, addr, n):
        """As keys of an event: the pool of what raw event n does there."""
        i = bisect.bisect_right(self.segments, (addr, float("inf"))) - 1
        if i < 0:
            return {}
        start, size, since, pool = self.segments[i]
        return {"pool": pool} if addr - start < size and n >= since else {}


def convert(raw, segments=()):
    """The raw events as gpupool events, in order."""
    pools = Pools(raw, segments)
    events, live, pending = [], {}, {}
    last_id = 0
    start = raw[0][4] if raw else 0
    t = 0
    for n, (action, addr, size, stream, time_us) in enumerate(raw):
        t = (time_us - start) * 1000
        if action == "alloc":
            last_id += 1
            live[addr] = last_id
            events.append({"op": "alloc", "id": last_id, "size": size, "stream": stream,
                           "addr": addr, **pools.at(addr, n), "t": t})
        elif action == "free_requested":
            block = live.pop(addr)
            events.append({"op": "free", "id": block, "t": t})
            following = raw[n + 1] if n + 1 < len(raw) else (None, None)
            if following[0] != "free_completed" or following[1] != addr:
                pending[addr] = block
        elif action == "free_completed":
            if addr in pending:
                events += reclaim_pending([pending.pop(addr)], t)
        elif action in KEPT:
            event = {"op": action, "size": size, "stream": stream, "t": t}
            if action != "oom":
                event.update(addr=addr, **pools.at(addr, n))
            events.append(event)
        else:
            sys.exit(f"event {n}: unknown action {action!r}, expected a PyTorch allocator event")
    return events + reclaim_pending(pending.values(), t)


def find_steps(events):
    """[(index behind the step's last event, most live blocks in it)]"""
    live, count = 0, []
    for e in events:
        live += {"alloc": 1, "free": -1}.get(e["op"], 0)
        count.append(live)
    floor = min(count[len(count) // 4:3 * len(count) // 4], default=0)
    steps, begun, peak = [], False, 0
    for n, c in enumerate(count):
        begun |= c > floor * RISEN
        peak = max(peak, c)
        if begun and c <= floor:
            steps.append((n + 1, peak))
            begun, peak = False, 0
    return steps


def step_names(steps, short):
    """Training steps are numbered from 1; one with far fewer blocks than usual is something else."""
    usual = sorted(peak for _, peak in steps)[len(steps) // 2]
    names, n = [], 0
    for _, peak in steps:
        n += peak >= 0.75 * usual
        names.append(f"step {n}" if peak >= 0.75 * usual else short)
    return names


def mark(name, t):
    return {"op": "mark", "name": name, "t": t}


def state_at(events, end):
    """The allocs of blocks live, and of those freed but not reusable yet, at an index."""
    live, freed = {}, {}
    reclaimed_later = {e["id"] for e in events[end:] if e["op"] == "reclaim"}
    for e in events[:end]:
        if e["op"] == "alloc":
            live[e["id"]] = e
        elif e["op"] == "free":
            freed[e["id"]] = live.pop(e["id"])
    return list(live.values()), [a for i, a in freed.items() if i in reclaimed_later]


def cut(events, first, last, short):
    """Steps first .. last (counted from 1, as --steps prints them) as a trace of their own."""
    steps = find_steps(events)
    if not 1 < first <= last <= len(steps):
        sys.exit(f"--cut {first} {last}: expected 2 <= FIRST <= LAST <= {len(steps)}")
    names = step_names(steps, short)
    begin = steps[first - 2][0]
    live, pending = state_at(events, begin)
    out = [mark("live before the cut", 0)]
    out += [{**a, "t": 0} for a in live + pending]
    out += [{"op": "free", "id": a["id"], "t": 0} for a in pending]
    waiting = {a["id"] for a in pending}
    origin = events[begin]["t"]
    for k in range(first - 1, last):
        out.append(mark(names[k], events[steps[k - 1][0]]["t"] - origin))
        for e in events[steps[k - 1][0]:steps[k][0]]:
            out.append({**e, "t": e["t"] - origin})
            waiting.discard(e["id"] if e["op"] == "reclaim" else None)
    end = steps[last - 1][0]
    freed = {e["id"] for e in events[begin:end] if e["op"] == "free"}
    done = {e["id"] for e in events[begin:end] if e["op"] == "reclaim"}
    later = {e["id"] for e in events[end:] if e["op"] == "reclaim"}
    waiting |= (freed - done) & later
    return out + reclaim_pending(sorted(waiting), out[-1]["t"])


def renumber(events):
    """Ids from 1 in the order of the allocations."""
    ids = {}
    for e in events:
        if e["op"] == "alloc":
            ids[e["id"]] = len(ids) + 1
    return [{**e, "id": ids[e["id"]]} if "id" in e else e for e in events]


def tidy(event, keep_addr):
    """Leaves out what is 0 anyway, and orders the keys."""
    order = ("op", "id", "name", "size", "stream", "addr", "pool", "t")
    return {k: event[k] for k in order
            if k in event and (k != "stream" or event[k]) and (k != "addr" or keep_addr)}


def write(path, header, events):
    line = json.JSONEncoder(separators=(",", ":")).encode
    if path.removesuffix(".gz").endswith(".jsonl"):
        text = "".join(line(x) + "\n" for x in [header] + events)
    else:
        head = json.dumps(header, indent=2)[:-2]  # without its closing brace
        text = head + ',\n  "events": [\n' + ",\n".join(map(line, events)) + "\n]}\n"
    data = text.encode()
    with open(path, "wb") as f:
        if path.endswith(".gz"):  # no name and no time inside: the same input, the same bytes
            with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=f, mtime=0) as z:
                z.write(data)
        else:
            f.write(data)


def describe(meta, part):
    text = (f"PyTorch {meta['torch']} on one {meta['device']}, workload {meta['workload']}, "
            f"PYTORCH_CUDA_ALLOC_CONF={meta['conf'] or '(default)'}")
    return f"{text}, {part}"


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    p.add_argument("recording")
    p.add_argument("output", nargs="?")
    p.add_argument("--name", help="name of the trace (default: the workload's)")
    p.add_argument("--steps", action="store_true", help="only print the steps found")
    p.add_argument("--cut", nargs=2, type=int, metavar=("FIRST", "LAST"), help="keep these steps")
    p.add_argument("--short", default="evaluation",
                   help="name of an interval that is no training step (%(default)s)")
    p.add_argument("--no-addr", action="store_true", help="leave the recorded addresses out")
    args = p.parse_args()
    if not args.steps and not args.output:
        p.error("an output file is missing")
    recording = read_recording(args.recording)
    meta = recording["meta"]
    events = convert(recording["events"], recording.get("pools", ()))
    if args.steps:
        steps = find_steps(events)
        for n, ((end, peak), name) in enumerate(zip(steps, step_names(steps, args.short)), 1):
            print(f"{n:3} {name:12} ends before event {end}, at most {peak} live blocks")
        return
    part = "from the first CUDA allocation to the end"
    if args.cut:
        names = step_names(find_steps(events), args.short)
        events = renumber(cut(events, *args.cut, args.short))
        part = f"cut from {names[args.cut[0] - 1]} to {names[args.cut[1] - 1]}"
    events = [tidy(e, not args.no_addr) for e in events]
    header = {"format": "gpupool-trace", "version": 1, "name": args.name or meta["workload"],
              "source": describe(meta, part),
              "device": {"name": meta["device"], "total_bytes": meta["total_memory"]},
              "n_events": len(events)}
    write(args.output, header, events)


if __name__ == "__main__":
    main()
