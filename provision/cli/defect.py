"""An exception that no other place expected, as an error with a way out."""

import contextlib
import errno
import os
import sys
import tempfile
import traceback
from typing import Final

from provision import __version__
from provision.errors import FileRefusedError, GpuprovError, InternalError

_REFUSED: Final = {
    errno.ENOSPC: ("the disk is full", "make space there; GPUPROV_HOME and GPUPROV_CACHE name other folders"),
    errno.EDQUOT: ("your quota of disk space is used up", "make space there; GPUPROV_HOME and GPUPROV_CACHE name other folders"),
    errno.EROFS: ("the file system is read-only", "choose a folder that can be written; GPUPROV_HOME and GPUPROV_CACHE name others"),
    errno.EACCES: ("permission denied", "check the permissions of the file and of its folder"),
    errno.EPERM: ("the operation is not permitted", "check the permissions of the file and of its folder"),
}
_LONGEST: Final = 200


def describe(error: Exception) -> GpuprovError:
    """The error to print: what the file system refused, else a defect whose traceback was written to a file."""
    if isinstance(error, OSError) and error.errno in _REFUSED:
        what, hint = _REFUSED[error.errno]
        return FileRefusedError(f"{error.filename or 'a file'}: {what}", hint=hint)
    first = (str(error).splitlines() or ["no message"])[0][:_LONGEST]
    report = _write_traceback(error)
    with_report = f" with {report}, which has the traceback" if report else ""
    return InternalError(f"{type(error).__name__}: {first}", hint=f"this is a defect of gpuprov: report it{with_report}")


def _write_traceback(error: Exception) -> str:
    """Write the traceback to a file of this user; returns its path, or nothing where no file can be written."""
    with contextlib.suppress(OSError):
        descriptor, path = tempfile.mkstemp(prefix="gpuprov-traceback-", suffix=".txt")
        with os.fdopen(descriptor, "w") as file:
            file.write(f"gpuprov {__version__}, Python {sys.version}\n{''.join(traceback.format_exception(error))}")
        return path
    return ""
