#!/usr/bin/env bash
# `make demo`: what a user sees. One profile, one machine on the embedded cloud, proven, removed; and nothing left.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin # a user's has neither
home=$(realpath "$(mktemp -d)")
export GPUPROV_HOME=$home/state GPUPROV_SSH_CONFIG=$home/ssh_config
cache=${GPUPROV_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/gpuprov}
show() { printf '\n\033[1m$ %s\033[0m\n' "$*"; "$@"; }
cleanup() {
  local code=$?
  gpuprov rehearse stop >/dev/null 2>&1 || true
  if [ "$code" = 0 ]; then rm -rf "$home"; else echo "the logs of this demo stay in $home: rm -rf $home"; fi
}
trap cleanup EXIT

show gpuprov plan --profile t4-train
show gpuprov up --profile t4-train --rehearse --name demo --without-gpu
show gpuprov ls
show gpuprov ssh demo -- nproc
echo; echo "Again: the same command observes a correct host and runs no role."
show gpuprov up --profile t4-train --rehearse --name demo --without-gpu
show gpuprov verify demo --without-gpu
show gpuprov down demo --yes
show gpuprov rehearse stop

# Of this rehearsal alone: others may run on this machine. A bridge has the folder of its rehearsal as its alias.
echo; echo "What is left on this machine:"
left=$(gpuprov rehearse status --json | python3 -c 'import json, sys; print(*json.load(sys.stdin)["on_this_machine"], sep="\n")')
listed=$(cat /proc/self/mountinfo && ip -o link && losetup --noheadings --list)
named=$(grep -F -e "$home" <<<"$listed" || true)
processes=
for file in /proc/[0-9]*/cmdline; do
  line=$(tr '\0' ' ' 2>/dev/null <"$file" || true)
  case $line in *"$home"*) processes+="$line"$'\n' ;; esac
done
printf '%s\n' "${left:-nothing of this rehearsal}" "${named:-no mount, link or loop device}" "${processes:-no process}"
[ -z "$left$named$processes" ]
if [ -d "$cache" ]; then echo "The hosts' packages stay in $cache ($(du -sh "$cache" | cut -f 1)) for the next time: rm -rf $cache"; fi
