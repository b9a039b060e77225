"""The system: release, machine, Python, tools, people."""

from __future__ import annotations

from collections.abc import Callable

from provision.profile.model import Profile
from provision.verify.checks.base import Check, Verdict, failed, not_asked, passed, warned
from provision.verify.facts import Facts, NotObservedError
from provision.verify.facts.system import KernelFacts, Python3Facts, ReleaseFacts, UsersFacts, tool

__all__ = ["CHECKS"]

_IDS = {"centos-stream": "centos", "alma": "almalinux"}  # os-release's ID where it is not our word


def _os(facts: Facts, profile: Profile) -> Verdict:
    found = facts.read(ReleaseFacts)
    expected = f"{profile.os.name} {profile.os.version}"
    # An EL minor release (9.4) is the major one that was asked for (9).
    same_version = found.version_id == profile.os.version or found.version_id.startswith(f"{profile.os.version}.")
    if found.id == _IDS.get(profile.os.name, profile.os.name) and same_version:
        return passed(expected, found.pretty)
    if found.stand_in:
        return warned(expected, f"{found.pretty} stands in for it on this rehearsal host", "what is proven here is proven for the stand-in")
    return failed(expected, found.pretty, "launch from the profile's image, or change the profile's os")


def _machine(facts: Facts, _profile: Profile) -> Verdict:
    found = facts.read(KernelFacts)
    observed = f"{found.machine}, kernel {found.release}"
    if found.machine == "x86_64":
        return passed("x86_64", observed)
    return failed("x86_64", observed, "choose an instance type with an x86 processor: the stack is built for it")


def _python3(facts: Facts, _profile: Profile) -> Verdict:
    if facts.raw.get("python3") == {"value": None}:
        return failed("python3, 3.8 or later", "no python3 on this host", "install it: `apt-get install python3` or `dnf install python3`")
    version = facts.read(Python3Facts).version
    # ansible-core 2.19 needs 3.8 on the host: docs/sources/clouds.md, "On the host".
    if int(version.split(".")[1]) >= 8:  # noqa: PLR2004 - the figure above
        return passed("3.8 or later", version)
    return failed("3.8 or later", version, "use a release with a newer python3, such as EL 9")


def _tool(name: str, *, asked: Callable[[Profile], bool]) -> Callable[[Facts, Profile], Verdict]:
    def judge(facts: Facts, profile: Profile) -> Verdict:
        if not asked(profile):
            return not_asked(f"the profile does not ask for {name}")
        found = tool(facts, name)
        if found is None:
            return failed(f"{name} on PATH", "not installed", "`gpuprov apply HOST --role base` installs it")
        return passed(f"{name} on PATH", f"{found.version} at {found.path}")

    return judge


def _in_tools(name: str) -> Callable[[Profile], bool]:
    return lambda profile: name in profile.stack.tools


def _build_tools(facts: Facts, profile: Profile) -> Verdict:
    asked = [name for name in ("make", "cmake", "git") if name in profile.stack.tools]
    if not asked:
        return not_asked("the profile asks for none of make, cmake and git")
    found = {name: tool(facts, name) for name in asked}
    missing = [name for name, program in found.items() if program is None]
    expected = f"{', '.join(asked)} on PATH"
    if missing:
        return failed(expected, f"not installed: {', '.join(missing)}", "`gpuprov apply HOST --role base` installs them")
    return passed(expected, ", ".join(f"{name} {program.version}" for name, program in found.items() if program))


def _users(facts: Facts, profile: Profile) -> Verdict:
    asked = [user.name for user in profile.users]
    if not asked:
        return not_asked("the profile names no users beside the image's own")
    names = facts.read(UsersFacts).names
    missing = [name for name in asked if name not in names]
    if missing:
        return failed(", ".join(asked), f"no account: {', '.join(missing)}", "`gpuprov apply HOST --role base` makes them")
    return passed(", ".join(asked), "all have accounts")


def _python3_or_missing(facts: Facts, profile: Profile) -> Verdict:
    try:
        return _python3(facts, profile)
    except (ValueError, IndexError) as error:
        msg = f"the version is malformed: {error}"
        raise NotObservedError(msg) from error


CHECKS = (
    Check("os", "the system is the one of the profile", _os),
    Check("machine", "the processor is one that the stack is built for", _machine),
    Check("python3", "python3 is there and new enough for Ansible", _python3_or_missing),
    Check("gcc", "gcc is installed", _tool("gcc", asked=_in_tools("gcc")), role="base"),
    Check("build-tools", "make, cmake and git are installed", _build_tools, role="base"),
    Check("tmux", "tmux is installed", _tool("tmux", asked=_in_tools("tmux")), role="base"),
    Check("ffmpeg", "ffmpeg is installed", _tool("ffmpeg", asked=lambda p: p.stack.ffmpeg), role="ffmpeg"),
    Check("users", "the people of the profile have accounts", _users, role="base"),
)
