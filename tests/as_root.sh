#!/usr/bin/env bash
# Runs a command as root in a tree of somebody's: what it leaves there belongs to the tree's owner afterwards.
set -uo pipefail
owner=$(stat -c %u:%g .)
code=0
"$@" || code=$?
[ "$owner" = 0:0 ] || find . -xdev -uid 0 -exec chown -h "$owner" {} +
exit "$code"
