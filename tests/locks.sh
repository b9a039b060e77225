#!/usr/bin/env bash
# Whether every pin of some locks has a wheel for each Python that gpuprov promises, as the package index says.
#   locks.sh UV LOCK... STAMP
# The stamp is made where all have one. Where the index does not answer nothing was checked: it is said, and in CI it is a failure.
set -uo pipefail
uv=$1 stamp=${*: -1}
locks=("${@:2:$#-2}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
check() { "$uv" pip compile -q --no-deps --only-binary :all: --python-platform linux --python-version "$1" "$2" >"$work/$1" 2>&1; }
for lock in "${locks[@]}"; do
  pids=()
  versions=(3.11.0 3.12.0 3.13.0 3.14.0)
  for version in "${versions[@]}"; do check "$version" "$lock" & pids+=($!); done
  for n in "${!pids[@]}"; do
    code=0; wait "${pids[n]}" || code=$?
    case $code in
      0) ;;
      1) echo "$lock does not install on Python ${versions[n]}:"; cat "$work/${versions[n]}"; echo "make lock, or another lower bound in pyproject.toml"; exit 1 ;;
      *) echo "not checked: the pins of $lock on Python ${versions[n]} ($(tail -n 1 "$work/${versions[n]}"))"; [ -z "${CI:-}" ]; exit ;;
    esac
  done
done
touch "$stamp"
