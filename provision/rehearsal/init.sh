#!/bin/bash
# shellcheck shell=bash
# Becomes the init of a rehearsal host. Runs inside fresh mount, pid, net, uts, ipc and cgroup namespaces; everything that it mounts is
# in the mount namespace and goes with it.
#   init.sh FOLDER LOWER NAME CONSOLE [DEVICE LOOP LINK]...
# FOLDER holds upper/ work/ root/; CONSOLE is a pty; DEVICE is a node to make in /dev for the block device LOOP, LINK its name in by-id.
set -euo pipefail
folder=$1 lower=$2 name=$3 console=$4
shift 4
root=$folder/root

hostname "$name"
mount -t overlay "gpuprov-$name" -o "lowerdir=$lower,upperdir=$folder/upper,workdir=$folder/work" "$root"
mount -t proc -o nosuid,nodev,noexec proc "$root/proc"
# /proc/sys speaks of the whole machine, apart from the network: a host may read it.
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys"
mount --bind "$root/proc/sys/net" "$root/proc/sys/net" && mount -o remount,bind,rw "$root/proc/sys/net"
mount -t sysfs -o ro,nosuid,nodev,noexec sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755,nosuid tmpfs "$root/dev"
for node in null zero full random urandom tty; do
  touch "$root/dev/$node"
  mount --bind "/dev/$node" "$root/dev/$node"
done
mkdir "$root/dev/pts" "$root/dev/shm" "$root/dev/disk" "$root/dev/disk/by-id"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
ln -s /proc/self/fd/0 "$root/dev/stdin"
ln -s /proc/self/fd/1 "$root/dev/stdout"
ln -s /proc/self/fd/2 "$root/dev/stderr"
touch "$root/dev/console"
mount --bind "$console" "$root/dev/console"
while [ $# -ge 3 ]; do
  numbers=$(stat -c '%Hr %Lr' "$2")
  # shellcheck disable=SC2086 - major and minor are two words
  mknod -m 660 "$root/dev/$1" b $numbers
  # EC2 has two links for each instance-store disk: the serial, and the serial with its namespace.
  ln -s "../../$1" "$root/dev/disk/by-id/$3"
  ln -s "../../$1" "$root/dev/disk/by-id/$3-ns-1"
  shift 3
done
# A boot id of its own: the kernel's is the machine's and would not change when the host reboots.
cat /proc/sys/kernel/random/uuid > "$root/dev/.boot_id"
mount --bind "$root/dev/.boot_id" "$root/proc/sys/kernel/random/boot_id"
mount -t tmpfs -o mode=755,nosuid,nodev tmpfs "$root/run"
mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs "$root/tmp"

# The network card is moved in from outside.
for _ in $(seq 200); do ip link show eth0 >/dev/null 2>&1 && break; sleep 0.05; done

cd "$root"
mkdir -p .old
pivot_root . .old
umount -l /.old
rmdir /.old
# As on any booted system; systemd leaves it to whoever made the container.
mount --make-rshared /
export container=gpuprov
# The clock, kernel modules and raw devices belong to the machine.
exec setpriv --bounding-set=-sys_time,-sys_module,-sys_rawio /lib/systemd/systemd --system --show-status=no </dev/null >/dev/console 2>&1
