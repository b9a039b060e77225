"""Starts gpuprov as on a client that is no Linux: what only Linux has is not there, and its files are forbidden.

    python -m tests.cli.elsewhere plan t4-train

The names are those that the library reference of Python marks with "Availability: Linux" or "not macOS".
"""

import fcntl
import os
import select
import signal
import socket
import sys
import time
from typing import Any

ONLY_LINUX: dict[Any, str] = {
    os: """copy_file_range eventfd eventfd_read eventfd_write fdatasync getrandom getresgid getresuid getxattr listxattr memfd_create
        pidfd_open pipe2 posix_fadvise posix_fallocate removexattr sched_getaffinity sched_getparam sched_getscheduler sched_setaffinity
        sched_setparam sched_setscheduler setns setresgid setresuid setxattr splice timerfd_create unshare waitid
        O_DIRECT O_NOATIME O_PATH O_TMPFILE""",
    select: "epoll",
    signal: "pidfd_send_signal sigtimedwait sigwaitinfo",
    socket: "AF_NETLINK AF_PACKET AF_VSOCK SO_BINDTODEVICE SO_PEERCRED SOCK_CLOEXEC SOCK_NONBLOCK",
    fcntl: "F_OFD_GETLK F_OFD_SETLK F_OFD_SETLKW F_SETPIPE_SZ",
    time: "CLOCK_BOOTTIME",
}


def _forbid(event: str, arguments: tuple[Any, ...]) -> None:
    if event in {"open", "os.listdir", "os.scandir"} and str(arguments[0]).startswith(("/proc/", "/sys/", "/dev/shm")):
        os.write(2, f"only Linux has {arguments[0]}\n".encode())
        os._exit(99)  # whoever catches every error must not hide it


for module, names in ONLY_LINUX.items():
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
sys.addaudithook(_forbid)

if __name__ == "__main__":
    from provision.cli import main

    main()
