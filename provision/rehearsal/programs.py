"""This machine's own programs, found where an administrator's are: a user's PATH may lack those folders."""

import os
import subprocess


def search_path() -> str:
    """Where programs are looked for."""
    return f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


def run(*words: str, check: bool = True, timeout_s: float | None = None, told: str = "") -> subprocess.CompletedProcess[str]:
    """Run a program, which reads `told` on standard input, and return what it said, in English.

    Raises:
        subprocess.CalledProcessError: it failed, and `check` says that it must not.
        subprocess.TimeoutExpired: it ran longer than `timeout_s`.
    """
    environment = {**os.environ, "PATH": search_path(), "LC_ALL": "C.UTF-8"}
    return subprocess.run(
        words, capture_output=True, text=True, errors="replace", check=check, input=told, timeout=timeout_s, env=environment
    )
