"""The shell environment: CUDA's binaries on PATH in every kind of session, CUPTI known to the loader. Needs no GPU."""

from collections.abc import Iterable

from provision.profile.model import Profile
from provision.verify.checks.base import Check, Verdict, apply, dotted, fails, passes, unknown, warns
from provision.verify.facts import Facts
from provision.verify.facts.sessions import SessionsFacts

_BIN = "/usr/local/cuda/bin"
# One is a link to the other, depending on the package; libraries belong to the loader, not on PATH: docs/sources/stack.md §7.
_CUPTI = {"/usr/local/cuda/extras/CUPTI/lib64", "/usr/local/cuda/targets/x86_64-linux/lib"}

# Why a kind of session could not be seen.
_UNSEEN = {
    "login shells": "bash printed no environment",
    "SSH commands": "the probe did not come over SSH",
    "services": "neither systemd nor its files have it",
    "sudo": "the probe did not look",
}


def _environment(facts: Facts, _profile: Profile) -> Verdict:
    expected = f"{_BIN} on PATH in login shells, SSH commands, services and sudo; CUPTI's folder known to the loader"
    sessions = facts.read(SessionsFacts)
    paths = {"login shells": sessions.login, "SSH commands": sessions.ssh, "services": sessions.service}
    # Nobody is asked for a password here. What sudo finds is then not proven, and said so by a warning.
    asks = sessions.sudo is not None and sessions.sudo.exists and sessions.sudo.path is None
    if sessions.sudo is None or (sessions.sudo.exists and not asks):
        paths["sudo"] = sessions.sudo.path if sessions.sudo else None
    without = [session for session, path in paths.items() if path is not None and _BIN not in path.split(":")]
    if not _CUPTI & {folder.rstrip("/") for folder in sessions.loader}:
        without.append("the loader (CUPTI)")
    unseen = [f"{session} ({_UNSEEN[session]})" for session, path in paths.items() if path is None]
    gap = f"could not be seen: {', '.join(unseen)}"
    if without:
        observed = f"missing in {', '.join(without)}" + (f"; {gap}" if unseen else "")
        return fails(expected, observed, apply("cupti", "sets it up"))
    if before := _before(sessions, paths):
        return fails(expected, "; ".join(before), f"put {_BIN} first on that PATH, or remove the package of the other")
    if unseen:
        seen = [session for session, path in paths.items() if path is not None]
        return unknown(expected, f"{gap}; in {', '.join([*seen, 'the loader'])} it is there", "run the check over SSH, on a host with bash")
    if asks:
        observed = "in all others; sudo asks this user for a password, so what it finds was not seen"
        return warns(expected, observed, "run the check as a user whom sudo asks for no password")
    return passes(expected, f"found in {', '.join(paths)}, and by the loader")


def _before(sessions: SessionsFacts, paths: Iterable[str]) -> list[str]:
    """The compilers and profilers that a PATH finds before the right one: the linked toolkit's compiler, the newest profiler."""
    found = []
    for words, key in zip(paths, ("login", "ssh", "service"), strict=False):
        for name, tools in sessions.tools.get(key, {}).items():
            versions = [dotted(tool.version) if tool.version else () for tool in tools]
            linked = next((number for number, tool in enumerate(tools) if tool.own), 0)
            right = linked if name == "nvcc" else versions.index(max(versions))
            if versions[0] != versions[right]:
                first, other = (f"{tools[number].path} ({tools[number].version or 'no version'})" for number in (0, right))
                found.append(f"{words} start {first} as {name}, before {other}")
    return found


CHECKS = (Check("cuda-environment", "every kind of session finds CUDA and CUPTI", _environment, role="cupti"),)
