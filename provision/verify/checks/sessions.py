"""The shell environment: CUDA's binaries on PATH in every kind of session, CUPTI known to the loader. Needs no GPU."""

from __future__ import annotations

from provision.profile.model import Profile
from provision.verify.checks.base import Check, Verdict, failed, passed, unknown
from provision.verify.facts import Facts
from provision.verify.facts.sessions import SessionsFacts

__all__ = ["CHECKS"]

_BIN = "/usr/local/cuda/bin"
# docs/sources/stack.md, "CUPTI": one is a link to the other, depending on the package; libraries belong to the loader, not on PATH.
_CUPTI = {"/usr/local/cuda/extras/CUPTI/lib64", "/usr/local/cuda/targets/x86_64-linux/lib"}


def _environment(facts: Facts, _profile: Profile) -> Verdict:
    expected = f"{_BIN} on PATH in login shells, SSH commands and services; CUPTI's folder known to the loader"
    found = facts.read(SessionsFacts)
    paths = {"login shells": found.login, "SSH commands": found.ssh, "services": found.service}
    without = [session for session, path in paths.items() if path is not None and _BIN not in path.split(":")]
    if not _CUPTI & {folder.rstrip("/") for folder in found.loader}:
        without.append("the loader (CUPTI)")
    if without:
        return failed(expected, f"missing in {', '.join(without)}", "`gpuprov apply HOST --role cupti` sets it up")
    unseen = [session for session, path in paths.items() if path is None]
    if unseen:
        return unknown(expected, f"could not be seen: {', '.join(unseen)}", "run the check over SSH, on a host with systemd and bash")
    return passed(expected, "in all of them")


CHECKS = (Check("cuda-environment", "every kind of session finds CUDA and CUPTI", _environment, role="cupti"),)
