#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns a device profile into the C initializer of the built-in one: to_c.py PROFILE.json OUT.inc.

The keys are those of replay/profile.h; the unit tests hold the result against that reader.
"""
import json
import sys

TEXTS = ("card", "driver", "cuda", "cpu", "os", "date", "gpupool")
TIMES = ("min", "p50", "p90", "p99", "max")


def text(value):
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def row(call, r):
    numbers = [r["size"], r["n"], *(r[t + "_ns"] for t in TIMES), r.get("mean_ns", 0)]
    return "\t{ " + ", ".join([text(call)] + [f"UINT64_C({n})" for n in numbers]) + " },\n"


def initializer(profile):
    machine, memory = profile["machine"], profile["memory"]
    yield "{\n"
    for key in ("name", "source"):
        yield f"\t.{key} = {text(profile[key])},\n"
    for key in TEXTS:
        yield f"\t.{key} = {text(machine[key])},\n"
    yield f"\t.cores = {machine['cores']},\n"
    for key in ("total_bytes", "free_bytes", "page_bytes"):
        yield f"\t.{key} = UINT64_C({memory[key]}),\n"
    rows = [row(call, r) for call, of_call in profile["calls"].items() for r in of_call]
    yield f"\t.n_rows = {len(rows)},\n\t.rows = (const struct gp_profile_row[]){{\n"
    yield from ("\t" + r for r in rows)
    yield "\t},\n}\n"


def main():
    source, target = sys.argv[1:]
    with open(source, encoding="utf-8") as f:
        profile = json.load(f)
    with open(target, "w", encoding="utf-8") as f:
        f.writelines(initializer(profile))


main()
