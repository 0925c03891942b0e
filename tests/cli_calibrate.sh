#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# cli_calibrate: gpupool-calibrate as a user meets it, on the simulated device: the profile that comes
# out is the one that went in; what is refused and how, exit codes, what is left on the disk. TAP on
# standard output.
#
#   GPUPOOL_CALIBRATE   the program
#   GPUPOOL_REPLAY      takes its profiles
#   GPUPOOL_TRACE_DIR   the project's traces

set -u
suites=$(cd "$(dirname "$0")" && pwd) || exit 99
calibrate=${GPUPOOL_CALIBRATE:?"the program to test"}
replay=${GPUPOOL_REPLAY:?"the program that takes profiles"}
traces=${GPUPOOL_TRACE_DIR:?"the folder of traces"}
traces=$(cd "$traces" && pwd) || exit 99
LC_ALL=C
export LC_ALL
. "$suites/cli.sh"
tool=gpupool-calibrate program=$calibrate

run --help
[ "$code" -eq 0 ] && [ ! -s err ] && [ "$(lines out)" -le 34 ] && ! grep -q '.\{91\}' out &&
	has out '^Usage: gpupool-calibrate' '^Examples:' '^  --out=FILE' '^  --time-limit='
ok $? "--help fits a screen"

# ---- a profile that goes in comes out ----

run --device=sim --out=first.json
[ "$code" -eq 0 ] && has out '^simulated NVIDIA H200' '^ *size  cudaMalloc ' '^Unusual' &&
	has err 'profile written: first.json' && [ "$(ls)" = "err
first.json
out" ]
ok $? "the table, and one file"
python3 - first.json <<'END'
import json, sys
d = json.load(open(sys.argv[1]))
assert d["format"] == "gpupool-profile" and d["version"] == 1 and d["simulated"] is True
assert d["machine"]["card"] == "NVIDIA H200" and d["machine"]["date"][:2] == "20"
assert d["machine"]["cores"] >= 1 and d["machine"]["gpupool"]
for call, rows in d["calls"].items():
    sizes = [r["size"] for r in rows]
    assert rows and sizes == sorted(set(sizes)), call
    for r in rows:
        times = [r[t + "_ns"] for t in ("min", "p50", "p90", "p99", "max")]
        assert times == sorted(times) and r["min_ns"] <= r["mean_ns"] <= r["max_ns"], (call, r)
END
ok $? "the profile is complete and consistent"
# Another card: the same calls and sizes, with times that are a plain function of the size.
python3 - first.json card.json <<'END'
import json, sys
d = json.load(open(sys.argv[1]))
d.update(name="card", simulated=False)
for call, rows in d["calls"].items():
    for r in rows:
        ns = 1000 + 37 * len(call) + (0 if call == "sync.warm" else r["size"] >> 10)
        r.update(n=1000, min_ns=ns * 9 // 10, p50_ns=ns, p90_ns=ns * 12 // 10, p99_ns=ns * 15 // 10,
                 max_ns=ns * 2, mean_ns=ns * 102 // 100)
json.dump(d, open(sys.argv[2], "w"))
END
run --device=sim --profile=card.json --out=second.json
[ "$code" -eq 0 ]
ok $? "such a profile is one to measure"
python3 - card.json second.json <<'END'
import json, sys
a, b = (json.load(open(f))["calls"] for f in sys.argv[1:])
n = 0
for call in ("cudaMalloc.held", "cudaFree.held", "cudaMallocAsync.warm", "cuMemAddressReserve",
             "cuMemCreate.held", "cuMemMap.held", "cuMemSetAccess.held", "cuMemUnmap.held",
             "cuMemRelease.held", "cuMemAddressFree", "cudaEventRecord", "cudaStreamWaitEvent",
             "cudaMemsetAsync", "memset.device", "kernel.launch"):
    for x, y in zip(a[call], b[call]):
        assert x["size"] == y["size"]
        if call.endswith(".held") and 512 << 10 <= x["size"] < 2 << 20:
            continue  # many of these calls open a page, which is priced as one
        n += 1
        few = y["n"] < 200 or call.endswith(".held") and x["size"] < 2 << 20
        for key in ("p50_ns", "mean_ns", "min_ns", "p90_ns")[: 1 if few else 4]:
            assert abs(x[key] - y[key]) <= 0.05 * x[key], (call, key, x, y)
assert n > 100, n
END
ok $? "its percentiles come out as they went in"
command="gpupool-replay --profile=second.json tiny_lifo.json"
"$replay" --profile=second.json --alloc=raw --out=box --json "$traces/tiny_lifo.json" >out 2>err
code=$?
[ "$code" -eq 0 ] && has out 'simulated NVIDIA H200' '"driver": "h200"'
ok $? "gpupool-replay takes it"
rm -rf box

# ---- less of it ----

run --device=sim --quick --json
[ "$code" -eq 0 ] && [ ! -s err ] && python3 -c 'import json, sys
d = json.load(open("out"))
assert len(d["calls"]["cudaMalloc.held"]) < len(json.load(open("first.json"))["calls"]["cudaMalloc.held"])
assert not any(c.endswith(".rested") for c in d["calls"])' && [ ! -e simulated_nvidia_h200.json ]
ok $? "--quick --json: standard output only"
run --device=sim --quick --json --out=both.json
[ "$code" -eq 0 ] && cmp -s out both.json
ok $? "--json --out: both, and the same"
run --device=sim --quick --quiet
[ "$code" -eq 0 ] && [ -s simulated_nvidia_h200.json ] && [ ! -s err ]
ok $? "the file has the card's name"
run --device=sim --quick --out=packed.json.gz
[ "$code" -ne 0 ] || run --device=sim --quick --profile=packed.json.gz --json
[ "$code" -eq 0 ] || has err 'zlib'
ok $? "compressed"

# ---- refusals ----

refuses 2 'expected options only' trace.json
refuses 2 'from 1 to 3600' --time-limit=0
refuses 2 'expected cuda or sim' --device=gpu
refuses 2 '/nonexistent/x.json: No such file' --device=sim --out=/nonexistent/x.json
refuses 2 'expected a value' --out=
refuses 2 'profile: nowhere.json' --profile=nowhere.json
echo '{"format":"gpupool-profile","version":7}' >later.json
refuses 2 'later.json:1: expected "version": 1' --profile=later.json
if [ ! -e /dev/nvidiactl ]; then
	refuses 3 'device=sim tries this program without one' --out=none.json
	[ ! -e none.json ]
	ok $? "no GPU: nothing is written"
fi
if [ -c /dev/full ]; then
	command="--json >/dev/full"
	"$calibrate" --device=sim --quick --json >/dev/full 2>err
	code=$?
	: >out
	[ "$code" -eq 2 ] && has err 'No space left'
	ok $? "a full disk"
fi

echo "1..$n"
[ "$failed" -eq 0 ]
