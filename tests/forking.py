"""The process that forks embedded clouds for `tests/embedded.py`: it alone imports them.

python tests/forking.py PADDING    on standard input a line of JSON for each start; on standard output an empty line when it has forked
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import pkgutil
import signal
import sys
from pathlib import Path

from moto.core.base_backend import AccountSpecificBackend
from moto.core.utils import get_service_model

from provision.rehearsal import EMULATIONS, server
from provision.rehearsal.digitalocean import document
from provision.rehearsal.gcp import discovery

_MODULE = "provision.rehearsal.server"
# What tests ask the embedded AWS for. moto reads each service's model at its first call: a quarter of a second for EC2's.
_ASKED = ("ec2", "autoscaling", "ssm", "sts", "iam", "s3", "service-quotas", "cloudformation", "resourcegroupstaggingapi")


def rename(words: list[str]) -> None:
    """Make this process's command line say something else, as `ps` and psutil read it."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    begin, end = int(fields[45]), int(fields[46])  # arg_start and arg_end of proc_pid_stat(5)
    text = b"".join(word.encode() + b"\0" for word in words)
    assert len(text) < end - begin
    ctypes.memmove(begin, text.ljust(end - begin, b"\0"), end - begin)


def serve(folder: str, environment: dict[str, str], *, hosts: bool) -> None:
    """Be the process of an embedded cloud, until it is ended."""
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(environment)
    log = os.open(f"{folder}/server.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    sys.argv = [_MODULE, "--folder", folder, *([] if hosts else ["--no-hosts"])]
    rename([sys.executable, "-m", *sys.argv])
    try:
        server.main()
    except SystemExit as ended:
        os.write(2, f"{ended}\n".encode())
    os._exit(0)


def main() -> None:
    for path in EMULATIONS.values():
        pkgutil.resolve_name(path)
    discovery.load()
    document.load()
    session = AccountSpecificBackend.get_session()
    for service in _ASKED:
        get_service_model(service)
        for partition in session.get_available_partitions():
            session.get_available_regions(service, partition)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # forks that have ended are gone at once
    for line in sys.stdin:
        told = json.loads(line)
        if os.fork() == 0:
            serve(told["folder"], told["environment"], hosts=told["hosts"])
        os.write(1, b"\n")
    os._exit(0)


if __name__ == "__main__":
    main()
