#!/usr/bin/env bash
# What the client costs, row by row, on this machine: under ten minutes. Needs root for the rehearsal host.
#
# KEEP=1   appends the rows to tests/bench/history.csv, and puts the picture beside it; else the picture is build/bench.svg
# PEERS=1  measures the peers, too: half an hour more. PEERS=FOLDER says where they are (1: build/peers): ray/bin/ray, sky/bin/sky,
#          testinfra/bin/python, pyinfra/bin/pyinfra, each of a virtual environment of its own; what is not there is left out
# RUNS=3   makes so many runs of each row instead of five
set -euo pipefail
cd "$(dirname "$0")/../.."
home=$(mktemp -d)
export GPUPROV_HOME=$home/state GPUPROV_SSH_CONFIG=$home/ssh_config
trap 'gpuprov rehearse stop >/dev/null 2>&1 || true; rm -rf "$home"' EXIT

# Run a part, and say how long it took.
part() {
    local began=$SECONDS
    echo "== $*" >&2
    "$@"
    echo "   ($((SECONDS - began)) s)" >&2
}

# The host of the rows; what it says is shown where it fails.
a_host() {
    gpuprov up --profile t4-train --rehearse --name bench --without-gpu >"$home/up.log" 2>&1 || { cat "$home/up.log" >&2; return 1; }
}

if [ "${PEERS:-}" = 1 ]; then PEERS=$PWD/build/peers; fi
if [ -n "${PEERS:-}" ]; then
    export PEERS
    if [ -x "$PEERS/testinfra/bin/python" ]; then export TESTINFRA=$PEERS/testinfra/bin/python; fi
    if [ -x "$PEERS/pyinfra/bin/pyinfra" ]; then export PYINFRA=$PEERS/pyinfra/bin/pyinfra; fi
fi
part python tests/bench/startup.py 11
part python tests/bench/resolve.py 5
part a_host
part python -m tests.bench.rows ${KEEP:+--keep} ${PEERS:+--peers} bench
if [ -n "${PEERS:-}" ]; then
    part python -m tests.bench.launch
    part env -u PEERS python -m tests.bench.monitor
    part python tests/bench/verify.py bench
    part python tests/bench/converge.py bench 3
fi
gpuprov down bench --yes >/dev/null
