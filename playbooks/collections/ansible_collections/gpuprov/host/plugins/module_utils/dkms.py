"""What DKMS leaves of a build that failed.

Runs on the host: standard library only, Python 3.8 and later.
"""

from __future__ import annotations

import re

DKMS = "/var/lib/dkms"
ERROR_CHARS = 140
_LOG_CHARS = 1 << 23


def first_error(path):
    """The first error of a log, else its last line, and where it lies."""
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = [line.strip() for line in file.read(_LOG_CHARS).splitlines() if line.strip()]
    wrong = [line for line in lines if re.search(r"\berror: |\*\*\* |not found|No such file|No space", line, re.IGNORECASE)]
    return "%s (%s)" % ((wrong or lines[-1:] or ["it is empty"])[0][-ERROR_CHARS:], path)
