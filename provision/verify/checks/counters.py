"""Who may read the performance counters, in layers: what the next boot does, what the driver does now, what an ordinary user gets.

The table of verdicts is that of docs/sources/verification.md §2.1.
"""

from typing import Final

from provision.profile.model import Profile
from provision.verify.checks.base import Check, Verdict, apply, fails, not_applicable, passes, unknown, unless, warns
from provision.verify.facts import Facts
from provision.verify.facts.counters import CountersFacts, UserAccess
from provision.verify.facts.gpu import require_gpu

_PERFMON: Final = 1 << 38  # CAP_PERFMON in linux/capability.h
_APPLY: Final = apply("counters", "writes it")
_APPLY_GROUP: Final = apply("counters --role base", "makes the group, the command and its members")
_COMMAND_LINE: Final = (
    "take nvidia.NVreg_RestrictProfilingToAdminUsers off the kernel's command line, which comes after all files: /etc/default/grub and "
    "`update-grub`, or `grubby --update-kernel ALL --remove-args nvidia.NVreg_RestrictProfilingToAdminUsers`; then reboot"
)
_CLOSE: Final = "the driver admits everybody: set NVreg_RestrictProfilingToAdminUsers=1 in /etc/modprobe.d, and reload it or reboot"
_LIVE_HINT: Final = "/proc/driver/nvidia/params does not show it: look there on the host"


def _counters(facts: Facts, profile: Profile) -> Verdict:
    access = profile.gpu.counters
    require_gpu(facts)
    counters = facts.read(CountersFacts)
    if access == "admin-only":
        return _for_root(counters)
    if profile.verify.tier == "quick":
        return _live(counters, "1" if access == "group" else "0")
    return _for_group(counters) if access == "group" else _for_all(counters)


def _live(counters: CountersFacts, setting: str) -> Verdict:
    """Without a profiler only a wrong setting can be shown: what the driver allows, something else can still refuse."""
    live, expected = counters.live, f"RmProfilingAdminOnly: {setting}"
    if live is None:
        return unknown(expected, "unreadable", _LIVE_HINT)
    if live != setting:
        return fails(expected, f"live {live}", f"{_APPLY}; then reboot or reload the driver")
    return not_applicable(f"live {live}; not tried as an ordinary user: tier quick runs no profiler, tier standard does")


def _for_root(counters: CountersFacts) -> Verdict:
    expected = "performance counters closed to ordinary users, in the driver and when one of them tries"
    user = counters.as_user
    observed = f"live {counters.live or 'unreadable'}, ncu as {user.user or 'nobody'}: {user.outcome}"
    if counters.live == "0" or (user.outcome == "open" and not _proves_nothing(user)):
        return fails(expected, observed, _CLOSE)
    if counters.live is None:
        return unknown(expected, observed, _LIVE_HINT)
    return passes(expected, observed)


def _for_all(counters: CountersFacts) -> Verdict:
    expected = "performance counters open to ordinary users: on disk, in the driver, and when one of them tries"
    user = counters.as_user
    observed = f"on disk {counters.on_disk or 'not set'}, live {counters.live or 'unreadable'}"
    observed += f", ncu as {user.user or 'nobody'}: {user.outcome}"
    if user.message and user.outcome != "open":
        observed += f" ({user.message})"
    if counters.live is None:
        return unknown(expected, observed, _LIVE_HINT)
    if counters.live == "1":
        if counters.on_disk == "0":
            return fails(expected, observed, "reboot or reload the module; if it persists rebuild the initramfs (`update-initramfs -u`)")
        return fails(expected, observed, "set NVreg_RestrictProfilingToAdminUsers=0 in /etc/modprobe.d and reload the driver")
    if user.outcome == "refused":
        return fails(expected, observed, "open in the driver and refused to the user: a container or the hypervisor blocks it")
    if user.outcome != "open":
        return unknown(expected, observed, "install ncu on the host, so that an ordinary user's access can be tried")
    if _proves_nothing(user):
        return unknown(expected, observed, "probe as an ordinary user, or as root where setpriv (util-linux) lets it step down")
    if counters.on_disk != "0":
        return warns(expected, observed, "will be lost at the next boot: write the option into /etc/modprobe.d")
    return passes(expected, observed)


def _proves_nothing(user: UserAccess) -> bool:
    """Whether it is not known that somebody without privileges asked: root may always read the counters."""
    return user.user in {None, "", "root"}


def _for_group(counters: CountersFacts) -> Verdict:
    expected = "performance counters closed to ordinary users, and open to the group gpuprov-counters through with-counters"
    group, user = counters.as_group, counters.as_user
    observed = f"live {counters.live or 'unreadable'}, ncu as {user.user or 'nobody'}: {user.outcome}"
    observed += f", as a member: {group.outcome if group else 'no with-counters'}"
    if counters.live == "0" or (user.outcome == "open" and not _proves_nothing(user)):
        return fails(expected, observed, _CLOSE)
    if group is None or not group.members:
        return fails(expected, observed, _APPLY_GROUP)
    if group.outcome == "refused":
        return fails(expected, observed, "the driver does not honour CAP_PERFMON: it needs the open kernel modules of 570 or later")
    if counters.live is None or user.outcome != "refused" or group.outcome != "open":
        return unknown(expected, observed, "run the probe as root, with ncu on the host")
    if not _only_perfmon(group.capabilities):
        return unknown(expected, f"{observed}, with capabilities {group.capabilities or 'not seen'}", _APPLY_GROUP)
    return passes(expected, observed)


def _on_disk(facts: Facts, profile: Profile) -> Verdict:
    counters = facts.read(CountersFacts)
    if profile.gpu.counters == "group":
        return _group_on_disk(counters)
    setting = "0" if profile.gpu.counters == "all-users" else "1"
    expected = f"NVreg_RestrictProfilingToAdminUsers={setting} at the next load of the driver"
    where = " by the kernel's command line" if counters.by_command_line else ""
    observed = "not set, so it is 1 (the default)" if counters.on_disk is None else f"set to {counters.on_disk}{where}"
    if (counters.on_disk or "1") == setting:
        return passes(expected, observed)
    return fails(expected, observed, _COMMAND_LINE if counters.by_command_line else _APPLY)


def _group_on_disk(counters: CountersFacts) -> Verdict:
    expected = "NVreg_RestrictProfilingToAdminUsers=1, and with-counters gives members of gpuprov-counters CAP_PERFMON and nothing else"
    group = counters.as_group
    if group is None:
        return fails(expected, "no with-counters", _APPLY_GROUP)
    observed = f"option {counters.on_disk or 'not set'}, members: {len(group.members)}, capabilities {group.capabilities or 'not seen'}"
    if (counters.on_disk or "1") != "1" or not group.members:
        return fails(expected, observed, _COMMAND_LINE if counters.by_command_line and counters.on_disk != "1" else _APPLY_GROUP)
    if group.capabilities is None:
        return unknown(expected, f"{observed} {group.message}".strip(), "run the probe as root, so that it can be tried as a member")
    if not _only_perfmon(group.capabilities):
        return fails(expected, observed, _APPLY_GROUP)
    if group.taken is None:
        return unknown(expected, f"{observed}, hostile arguments not tried", "verify the host with this version of gpuprov")
    if group.taken:
        return fails(expected, f"{observed}, and takes {', '.join(group.taken)} of a member while it is root", _APPLY_GROUP)
    return passes(expected, observed)


def _only_perfmon(capabilities: str | None) -> bool:
    """Whether a member has CAP_PERFMON and nothing else: with more, such as root has, something else may have opened the counters."""
    return capabilities is not None and int(capabilities, 16) == _PERFMON


CHECKS = (
    Check("counters-on-disk", "the next load of the driver has the profile's choice", _on_disk, role="counters", needs_gpu=True),
    Check(
        "counters",
        "those whom the profile names may read performance counters",
        _counters,
        role="counters",
        needs_gpu=True,
        unasked=unless(
            lambda p: p.gpu.counters != "all-users" or p.verify.tier != "quick",
            "needs `--tier standard`, because only a profiler shows what an ordinary user gets",
        ),
        finds_unasked=True,  # a setting that is wrong is found without a profiler
    ),
)
