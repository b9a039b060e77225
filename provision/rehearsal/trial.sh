#!/bin/bash
# shellcheck shell=bash
# Tries what init.sh does, in namespaces of its own that take everything with them, and prints STEP<tab>REASON for each step that is
# refused. The last line is `end`: without it the trial itself did not come so far.
#   trial.sh FOLDER LOWER GROUP
# FOLDER holds upper/ work/ root/, LOWER is an empty folder where the root file system would be, GROUP a control group or nothing.
set -u
folder=$1 lower=$2 group=$3
root=$folder/root

try() {
  local step=$1 reason
  shift
  reason=$("$@" 2>&1) || { printf '%s\t%s\n' "$step" "${reason//$'\n'/ }"; return 1; }
}
enter_root() { cd "$root" && mkdir -p .old && pivot_root . .old; }
in_group() { [ -z "$group" ] || [ -n "$(cat "$group/cgroup.procs")" ] || { echo "no process can be moved into $group"; return 1; }; }
network() {
  ip link add gprov type bridge && ip link add gpv type veth peer name eth0 && ip link set gpv master gprov up &&
    ip address add 10.77.0.10/24 dev eth0 && ip link set eth0 up &&
    ip rule add pref 200 ipproto 6 sport 1-32767 blackhole
}
mounts() {
  mkdir "$root/proc" "$root/sys" "$root/dev" && mount -t proc -o nosuid,nodev,noexec proc "$root/proc" &&
    mount --bind "$root/proc/sys" "$root/proc/sys" && mount -o remount,bind,ro "$root/proc/sys" &&
    mount -t sysfs -o ro,nosuid,nodev,noexec sysfs "$root/sys" && mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup" &&
    mount -t tmpfs -o mode=755,nosuid tmpfs "$root/dev" && mkdir "$root/dev/pts" &&
    mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts "$root/dev/pts"
}

try cgroup in_group
try namespaces hostname gpuprov-trial
try network network
try overlay mount -t overlay gpuprov-trial -o "lowerdir=$lower,upperdir=$folder/upper,workdir=$folder/work" "$root" ||
  mount -t tmpfs tmpfs "$root" # what follows needs a mount there, of whichever kind
try mounts mounts && try devices mknod -m 660 "$root/dev/nvme1n1" b 7 0
try pivot_root enter_root
echo end
