#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the benchmark and writes its page: bench.json, live.tsv, live.png and README.md of a folder.

Instructions per call are counted by valgrind's callgrind, in one replay of a warm allocator each,
where the processor's own counter cannot be had; they come out (nearly) the same each time.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECORDINGS = ["llm_train", "llm_serve", "vision_train", "diffusion", "multi_stream"]
CALLGRIND = "instructions per call (callgrind)"
WITH_SPREAD = re.compile("ns per call|million")


def environment():
    tunables = "glibc.rtld.optional_static_tls=16384"  # room for jemalloc: tests/bench/ref_host.c
    return {**os.environ, "GPUPOOL_TRACE_DIR": str(ROOT / "traces"), "GLIBC_TUNABLES": tunables}


def measure(bench, extra):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "bench.json"
        command = [bench, f"--json={path}", *extra]
        subprocess.run(command, check=True, env=environment(), stdout=sys.stderr)
        return json.loads(path.read_text(encoding="utf-8"))


def instructions(bench, specs, operands):
    """Callgrind dumps after each call of bench_counted; the program says whose each was."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out",
                   "--toggle-collect=bench_counted", "--dump-after=bench_counted", bench, "--count"]
        command += [f"--alloc={s}" for s in specs] + operands
        said = subprocess.run(command, check=True, env=environment(), capture_output=True, text=True)
        for i, line in enumerate(said.stdout.splitlines(), start=1):
            table, spec, column, calls = line.split("\t")
            dump = pathlib.Path(f"{folder}/out.{i}").read_text(encoding="utf-8")
            mean = int(re.search(r"^(?:totals|summary): (\d+)", dump, re.M).group(1)) / int(calls)
            yield {"table": table, "group": CALLGRIND, "row": spec, "column": column,
                   "median": mean, "least": mean, "most": mean, "runs": 1}


def count(bench, doc):
    specs = rows_of(doc["figures"], "Recordings")
    traces = [str(ROOT / f"traces/{name}.jsonl.gz") for name in RECORDINGS]
    doc["figures"] += instructions(bench, specs, ["--table=live", *traces])


def rows_of(figures, table):
    return list(dict.fromkeys(f["row"] for f in figures if f["table"] == table))


def text_of(figure, spread):
    if figure is None:
        return ""
    v = figure["median"]
    text = f"{v:.0f}" if v == int(v) or v >= 100 else f"{v:.{3 if v < 10 else 1}f}"
    if spread and figure["runs"] > 1 and v:
        text += f" ±{50 * (figure['most'] - figure['least']) / v:.0f} %"
    return text


def group_table(figures, table, group):
    mine = [f for f in figures if f["table"] == table and f["group"] == group]
    columns = list(dict.fromkeys(f["column"] for f in mine))
    cells = {(f["row"], f["column"]): f for f in mine}
    # What comes in whole numbers everywhere and never differs says it in one line.
    if all(f["most"] == 0 for f in mine):
        return f"**{group}**: 0 everywhere."
    spread = bool(WITH_SPREAD.search(table + group))
    lines = [f"| {group} | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
    for row in dict.fromkeys(f["row"] for f in mine):
        lines.append(f"| {row} | " + " | ".join(text_of(cells.get((row, c)), spread) for c in columns) + " |")
    return "\n".join(lines)


def tables(doc, prefix):
    """Every group of the tables whose names begin so."""
    parts = []
    for table in dict.fromkeys(f["table"] for f in doc["figures"]):
        if not table.startswith(prefix):
            continue
        parts.append(f"### {table}")
        groups = dict.fromkeys(f["group"] for f in doc["figures"] if f["table"] == table)
        parts += [group_table(doc["figures"], table, g) for g in groups]
        parts += [r["text"] for r in doc["remarks"] if r["table"] == table]
    return "\n\n".join(parts)


def machine(doc):
    env = doc["environment"]
    return (f"{env['cpu']}, {env['cores']} cores, {env['kernel']}, {env['compiler']}, {env['build']}; "
            f"{doc['runs']} whole runs in {doc['seconds']:.0f} s, {env['date'][:10]}. The clock advances by "
            f"{env['timer_step_ns']:.1f} ns at a time, a pair of readings costs {env['timer_overhead_ns']:.1f} ns")


def write_live(doc, folder):
    """The figures of the picture, and the picture where there is gnuplot."""
    mine = [f for f in doc["figures"] if f["table"] == "Live blocks" and f["group"] == "ns per call"]
    rows = list(dict.fromkeys(f["row"] for f in mine))
    cells = {(f["row"], f["column"]): f for f in mine}
    lines = ["\t".join(["live"] + rows)]
    for column in dict.fromkeys(f["column"] for f in mine):
        live = 10 ** int(column.removeprefix("10^"))
        lines.append("\t".join([str(live)] + [f"{cells[(r, column)]['median']:.2f}" for r in rows]))
    (folder / "live.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    if shutil.which("gnuplot"):
        subprocess.run(["gnuplot", "-c", ROOT / "tools/bench_live.gp", folder / "live.tsv",
                        folder / "live.png"], check=True)


def document(doc, command):
    text = (ROOT / "results/bench/text.md").read_text(encoding="utf-8")
    text = text.replace("@COMMAND@", command).replace("@MACHINE@", machine(doc))
    return re.sub(r"@TABLES (.*?)@", lambda m: tables(doc, m.group(1)), text)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("bench", help="the program bench_hotpath")
    p.add_argument("--output", type=pathlib.Path, default=ROOT / "results/bench", help="folder (results/bench)")
    p.add_argument("--from", dest="source", type=pathlib.Path, help="a bench.json; measure nothing")
    p.add_argument("--no-callgrind", action="store_true")
    p.add_argument("options", nargs="*", help="for bench_hotpath, after --")
    args = p.parse_args()
    doc = json.loads(args.source.read_text(encoding="utf-8")) if args.source else measure(args.bench, args.options)
    if not args.source and not args.no_callgrind and shutil.which("valgrind"):
        count(args.bench, doc)
    args.output.mkdir(parents=True, exist_ok=True)
    (args.output / "bench.json").write_text(json.dumps(doc, indent=1) + "\n", encoding="utf-8")
    write_live(doc, args.output)
    text = document(doc, "tools/bench_page.py build/tests/bench/bench_hotpath")
    (args.output / "README.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
