"""The system: release, machine, Python, tools, people."""

from provision.profile.model import Profile
from provision.verify.checks.base import NO_FFMPEG, Check, Judge, Unasked, Verdict, apply, dotted, fails, passes, unless, warns
from provision.verify.facts import Facts
from provision.verify.facts.system import KernelFacts, Python3Facts, ReleaseFacts, UsersFacts, tool

_IDS = {"centos-stream": "centos", "alma": "almalinux", "amazon-linux": "amzn"}  # os-release's ID where it is not our word
_PYTHON = (3, 8)  # ansible-core 2.19 needs it on the host: docs/sources/clouds.md §11


def _os(facts: Facts, profile: Profile) -> Verdict:
    release = facts.read(ReleaseFacts)
    expected = f"{profile.os.name} {profile.os.version}"
    # An EL minor release (9.4) belongs to the major one of the profile (9).
    same_version = release.version_id == profile.os.version or release.version_id.startswith(f"{profile.os.version}.")
    if release.stand_in:  # whatever it calls itself: an EL-like host has the name of the system that it stands for
        hint = "what is proven here is proven for the stand-in"
        return warns(expected, f"{release.pretty} stands in for it on this rehearsal host", hint)
    if release.id == _IDS.get(profile.os.name, profile.os.name) and same_version:
        return passes(expected, release.pretty)
    return fails(expected, release.pretty, "launch from the profile's image, or change the profile's os")


def _machine(facts: Facts, _profile: Profile) -> Verdict:
    kernel = facts.read(KernelFacts)
    observed = f"{kernel.machine}, kernel {kernel.release}"
    if kernel.machine == "x86_64":
        return passes("x86_64", observed)
    return fails("x86_64", observed, "choose an instance type with an x86 processor: the stack is built for it")


def _python3(facts: Facts, _profile: Profile) -> Verdict:
    if facts.raw.get("python3") == {"value": None}:
        return fails("python3, 3.8 or later", "no python3 on this host", "install it: `apt-get install python3` or `dnf install python3`")
    version = facts.read(Python3Facts).version
    # Development versions end in a plus.
    if dotted(".".join(version.rstrip("+").split(".")[:2])) >= _PYTHON:
        return passes("3.8 or later", version)
    return fails("3.8 or later", version, "use a release with a newer python3, such as EL 9")


def _no_tool(name: str) -> Unasked:
    return unless(lambda p: name in p.stack.tools, f"the profile does not ask for {name}")


def _tool(name: str, role: str = "base") -> Judge:
    def judge(facts: Facts, _profile: Profile) -> Verdict:
        program = tool(facts, name)
        if program is None:
            return fails(f"{name} on PATH", "not installed", apply(role, "installs it"))
        return passes(f"{name} on PATH", f"{program.version} at {program.path}")

    return judge


def _built_with(profile: Profile) -> list[str]:
    return [name for name in ("make", "cmake", "git") if name in profile.stack.tools]


def _build_tools(facts: Facts, profile: Profile) -> Verdict:
    names = _built_with(profile)
    programs = {name: tool(facts, name) for name in names}
    missing = [name for name, program in programs.items() if program is None]
    expected = f"{', '.join(names)} on PATH"
    if missing:
        return fails(expected, f"not installed: {', '.join(missing)}", apply("base", "installs them"))
    return passes(expected, ", ".join(f"{name} {program.version}" for name, program in programs.items() if program))


def _users(facts: Facts, profile: Profile) -> Verdict:
    people = [user.name for user in profile.users]
    accounts = facts.read(UsersFacts).names
    missing = [name for name in people if name not in accounts]
    if missing:
        return fails(", ".join(people), f"no account: {', '.join(missing)}", apply("base", "creates the accounts"))
    return passes(", ".join(people), "all have accounts")


CHECKS = (
    Check("os", "the system is the one of the profile", _os),
    Check("machine", "the processor is one that the stack is built for", _machine),
    Check("python3", "python3 is there and new enough for Ansible", _python3),
    Check("gcc", "gcc is installed", _tool("gcc"), role="base", unasked=_no_tool("gcc")),
    Check(
        "build-tools",
        "make, cmake and git are installed",
        _build_tools,
        role="base",
        unasked=unless(_built_with, "the profile asks for none of make, cmake and git"),
    ),
    Check("tmux", "tmux is installed", _tool("tmux"), role="base", unasked=_no_tool("tmux")),
    Check("ffmpeg", "ffmpeg is installed", _tool("ffmpeg", "ffmpeg"), role="ffmpeg", unasked=NO_FFMPEG),
    Check(
        "users",
        "the people of the profile have accounts",
        _users,
        role="base",
        unasked=unless(lambda p: p.users, "the profile names no users beside the image's own"),
    ),
)
