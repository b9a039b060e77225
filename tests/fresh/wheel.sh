#!/usr/bin/env bash
# The way by pip on a minimal Debian, in a clone: a wheel, an environment as the README makes it, and what `gpuprov rehearse check` says.
#   wheel.sh COMMAND…    runs the command there afterwards
set -euo pipefail
apt-get update -q
apt-get install -y -q --no-install-recommends python3-venv ca-certificates
python3 -m venv /build
/build/bin/pip install -q hatchling
/build/bin/pip wheel -q --no-deps --no-build-isolation -w /dist .
python3 -m venv ~/.venvs/gpuprov
~/.venvs/gpuprov/bin/pip install -q "$(echo /dist/*.whl)[rehearse]"
export PATH=~/.venvs/gpuprov/bin:$PATH
cd /
code=0
gpuprov rehearse check >/lacks || code=$?
cat /lacks
echo "--- exit code $code; what it says is done:"
sed -n 's/^  how: //p' /lacks | sort -u | while read -r how; do
  echo "$how"
  $how -y -q </dev/null
done
gpuprov rehearse check
"$@"
