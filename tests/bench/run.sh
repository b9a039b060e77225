#!/usr/bin/env bash
# Side-by-side measurements, on this machine. Needs root for the rehearsal host.
set -euo pipefail
cd "$(dirname "$0")/../.."
home=$(mktemp -d)
export GPUPROV_HOME=$home/state GPUPROV_SSH_CONFIG=$home/ssh_config
trap 'gpuprov rehearse stop >/dev/null 2>&1 || true; rm -rf "$home"' EXIT
python tests/bench/startup.py
python tests/bench/resolve.py
python -m tests.bench.launch
python -m tests.bench.monitor
gpuprov up --profile t4-train --rehearse --name bench --without-gpu >/dev/null
python -m tests.bench.rows bench
python tests/bench/verify.py bench
python tests/bench/converge.py bench 3
gpuprov down bench --yes >/dev/null
