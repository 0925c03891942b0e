#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What-if against the truth: from one recording of each workload under PyTorch's default settings,
gpupool-tune computes what other settings would have done; the same workloads were then really run
under those settings (results/whatif/truth.json). Writes the comparison as Markdown.

    tools/whatif.py build/tools/gpupool-tune                     the traces in traces/
    tools/whatif.py build/tools/gpupool-tune --recordings DIR    raw recordings, DIR/WORKLOAD.default.json.gz

--output=FILE writes the table there (results/whatif/README.md is made so) instead of to standard
output. A real program that died of its n-th request that failed is replayed up to its n-th, too.
Where a library tries one request again and again ("repeated_ooms"), a recording in which the first
of these succeeded holds one; so many fewer are expected.

Exit: 0; 1 when fewer rows are exact than --expect=N asks for; 2 bad usage or input.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The workloads of the recordings, as traces/ names them.
TRACES = {
    "gpt_train": "llm_train.jsonl.gz",
    "llama_generate": "llm_serve.jsonl.gz",
    "resnet_train": "vision_train.jsonl.gz",
    "stream_overlap": "multi_stream.jsonl.gz",
    "unet_diffusion": "diffusion.jsonl.gz",
}
COUNTS = ("device_allocs", "device_frees", "retries", "ooms")


def convert(recording, folder):
    """A raw recording as a trace."""
    out = pathlib.Path(folder) / (recording.name.removesuffix(".json.gz") + ".jsonl.gz")
    subprocess.run([sys.executable, ROOT / "tools/convert_recordings.py", recording, out], check=True)
    return out


def find_traces(workloads, recordings, folder):
    """{workload: path} of those that are there."""
    found = {}
    for name in workloads:
        raw = recordings and recordings / f"{name}.default.json.gz"
        if raw and raw.exists():
            found[name] = convert(raw, folder)
        elif not raw and name in TRACES:
            found[name] = ROOT / "traces" / TRACES[name]
    return found


def expected(real):
    """What can be computed: repeated requests count once."""
    repeated = real.get("repeated_ooms", 0)
    return {**real, "retries": real["retries"] - repeated, "ooms": real["ooms"] - repeated}


def what_if(tune, trace, real):
    """The row of gpupool-tune for a configuration that was really run."""
    command = [tune, "--json", "--quiet", "--grid=none", "--no-search", "--threads=1",
               f"--allow-ooms={max(real['ooms'] - 1, 0)}"]
    if real["limit_bytes"]:
        command.append(f"--limit={real['limit_bytes']}")
    if real["conf"]:
        command.append(f"--conf={real['conf']}")
    result = json.loads(subprocess.run([*command, trace], check=True, capture_output=True).stdout)
    return next(row for row in result["rows"] if row.get("conf") == real["conf"])


def cell(computed, real):
    return f"{computed}" if computed == real else f"**{computed}** ({real})"


def table(rows):
    lines = ["| workload | configuration | reserved peak, MiB | error | device allocs | frees | retries | "
             "OOMs |", "|---|---|---|---|---|---|---|---|"]
    for name, config, got, real in rows:
        peak, truth = got["peak_reserved_bytes"], real["reserved_peak"]
        error = "exact" if peak == truth else f"{100 * (peak / truth - 1):+.2f} %"
        cells = [name, config, cell(f"{peak / 2**20:g}", f"{truth / 2**20:g}"), error]
        cells += [cell(got[k], real[k]) for k in COUNTS]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def is_exact(got, real, counts=COUNTS):
    return got["peak_reserved_bytes"] == real["reserved_peak"] and all(got[k] == real[k] for k in counts)


def summary(rows):
    """A line for each workload."""
    lines = ["| workload | configurations | all five figures exact | reserved peak exact | worst error of the "
             "peak |", "|---|---|---|---|---|"]
    for name in dict.fromkeys(r[0] for r in rows):
        mine = [r for r in rows if r[0] == name]
        whole = sum(is_exact(got, real) for _, _, got, real in mine)
        peak = sum(is_exact(got, real, ()) for _, _, got, real in mine)
        worst = max((got["peak_reserved_bytes"] / real["reserved_peak"] - 1 for _, _, got, real in mine), key=abs)
        lines.append(f"| {name} | {len(mine)} | {whole} | {peak} | {100 * worst:+.2f} % |")
    return "\n".join(lines)


def document(rows, command):
    text = (ROOT / "results/whatif/text.md").read_text(encoding="utf-8")
    parts = {"@COMMAND@": command, "@SUMMARY@": summary(rows), "@TABLE@": table(rows)}
    for key, part in parts.items():
        text = text.replace(key, part)
    return text


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    p.add_argument("tune", help="the program gpupool-tune")
    p.add_argument("--recordings", type=pathlib.Path, help="folder of raw recordings")
    p.add_argument("--truth", type=pathlib.Path, default=ROOT / "results/whatif/truth.json")
    p.add_argument("--output", type=pathlib.Path, help="file for the document (standard output)")
    p.add_argument("--expect", type=int, default=0, help="exit with 1 when fewer rows are exact")
    args = p.parse_args()
    truth = json.loads(args.truth.read_text(encoding="utf-8"))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, trace in find_traces(truth, args.recordings, folder).items():
            rows += [(name, config, what_if(args.tune, trace, real), real)
                     for config, real in ((c, expected(r)) for c, r in truth[name].items())]
    if not rows:
        p.error(f"{args.recordings}: no WORKLOAD.default.json.gz of {', '.join(truth)}")
    command = "tools/whatif.py build/tools/gpupool-tune"
    command += " --recordings RECORDINGS" if args.recordings else ""
    command += " --output results/whatif/README.md"
    text = document(rows, command)
    if args.output:
        args.output.write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    exact = sum(is_exact(got, real) for _, _, got, real in rows)
    print(f"{exact} of {len(rows)} configurations exact in all five figures", file=sys.stderr)
    sys.exit(exact < args.expect)


if __name__ == "__main__":
    main()
