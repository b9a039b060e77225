"""Reads a trace of any kind, told by how the file begins."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from provision.errors import FactsInvalidError, UsageError
from provision.watch.trace import read_kineto, read_nsys
from provision.watch.trace.model import Cut, Trace

_SQLITE: Final = b"SQLite format 3\0"
REPORTS: Final = (".nsys-rep", ".qdrep")


def is_report(path: Path) -> bool:
    """Whether it is nsys's own format, which only nsys reads."""
    return path.suffix in REPORTS


def read(path: Path, cut: Cut) -> Trace:
    """The trace in a file.

    Raises:
        UsageError: it cannot be opened, or only nsys can read it.
        FactsInvalidError: it is not a trace.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
            head = os.read(descriptor, len(_SQLITE)) if regular else b""
        finally:
            os.close(descriptor)
    except OSError as error:
        msg = f"cannot read {path}: {error.strerror}"
        raise UsageError(msg, hint="--read takes a .sqlite or .nsys-rep of nsys, or the JSON of PyTorch's profiler") from error
    if not regular:
        msg = f"cannot read {path}: it is not a regular file"
        raise UsageError(msg, hint="save the trace in a file first")
    if head == _SQLITE:
        return read_nsys.read(path, cut)
    if head[:2] == b"\x1f\x8b" or head.lstrip()[:1] in {b"{", b"["}:
        return read_kineto.read(path, cut)
    if is_report(path):
        msg = f"{path} is a report of nsys, which only nsys reads"
        raise UsageError(
            msg, hint=f"`gpuprov trace HOST --read {path}` lets a host's nsys export it, or run `nsys export --type sqlite {path}`"
        )
    msg = f"{path} is neither an SQLite export of nsys nor a JSON trace of PyTorch's profiler"
    raise FactsInvalidError(msg, hint="`nsys export --type sqlite FILE.nsys-rep` writes the first, `export_chrome_trace` the second")
