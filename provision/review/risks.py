"""What a decision should know first: each risk with a severity, the reason, a narrower choice, and the line of the profile behind it.

Severity, from the side of whoever answers for the account: *high* lets others in or installs what nobody checked; *medium* weakens a
boundary, or leaves something open that a signature should close; *low* is worth knowing; a *note* surprises nobody who knows the stack.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from provision import clouds
from provision.catalog import read
from provision.catalog.records.base import version
from provision.catalog.resolve import advice
from provision.launch.plan import Plan
from provision.profile.locked import Lock
from provision.profile.model import Profile
from provision.review.controls import line_of
from provision.review.exposure import addresses_in
from provision.review.rules import Violation
from provision.review.tree import SEVERITIES, EnvironmentItem, Gain, PackageItem, Risk, Severity

_LONG_H: Final = 7 * 24
_SHOWN: Final = 5
_PRIVATE: Final = tuple(ipaddress.IPv4Network(network) for network in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"))
_LOCAL: Final = ipaddress.IPv6Network("fc00::/7")


@dataclass(frozen=True, slots=True)
class Judged:
    """The organisation's rules by name and digest, and what breaks them."""

    name: str
    sha256: str
    broken: tuple[Violation, ...]


class _Found:
    """What was found, with the lines of the profile."""

    def __init__(self, lines: Mapping[str, int]) -> None:
        self._lines = lines
        self.risks: list[Risk] = []

    def add(self, risk_id: str, severity: Severity, title: str, reason: str, *, narrower: str = "", key: str = "") -> None:
        """One more."""
        line, written = line_of(key, self._lines) if key else (None, False)
        self.risks.append(Risk(risk_id, severity, title, reason, narrower, key, line, written))


def risks(
    plan: Plan,
    lines: Mapping[str, int],
    *,
    packages: Sequence[PackageItem],
    environments: Sequence[EnvironmentItem],
    differs: Sequence[str],
    judged: Judged | None,
) -> tuple[Risk, ...]:
    """Every risk, the gravest first, and among equals in the order of the subjects.

    Args:
        plan: what would be made.
        lines: dotted key → line of the profile.
        packages: what is installed by name.
        environments: the wheels.
        differs: what the lock holds otherwise than it would be resolved now.
        judged: the organisation's rules, where there are any.
    """
    profile, lock = plan.profile, plan.lock
    found = _Found(lines)
    for broken in judged.broken if judged else ():
        known = "" if broken.known else "it could not be decided: "
        why = f"{known}{broken.reason}{f'; {broken.why}' if broken.why else ''}"
        title = f"Against the rule {broken.rule}"
        found.add("against-rules", "high", title, why, narrower="what the rule allows; `up` refuses this", key=broken.key)
    _lock(found, lock, environments, differs)
    _counters(found, profile, lock)
    _doors(found, profile)
    _money(found, plan)
    _host(found, profile)
    _places(found, plan)
    _software(found, plan, packages)
    _proof(found, profile)
    return tuple(sorted(found.risks, key=lambda risk: SEVERITIES.index(risk.severity)))


def _lock(found: _Found, lock: Lock, environments: Sequence[EnvironmentItem], differs: Sequence[str]) -> None:
    odd = [wheel.name for environment in environments for wheel in environment.wheels if not wheel.hashes]
    if odd:
        found.add(
            "not-pinned",
            "high",
            f"{len(odd)} lines of the lock's wheels name no version with a hash",
            f"pip may take something else for them, or obey an option: {_some(odd)}",
            narrower="write the lock again with `gpuprov lock`",
        )
    if differs:
        found.add(
            "lock-differs",
            "medium",
            "The lock is not what this profile resolves to with the catalog here",
            f"an older or another catalog, or another hand: {_some(differs)}",
            narrower="write the lock again with `gpuprov lock`, and review that",
        )
    values = {"gpu": lock.gpu.model, "os": lock.os, "driver": lock.driver.branch, "flavour": lock.driver.flavour, "cuda": lock.cuda.version}
    about = {each.text: each.part for each in advice(values, dt.date.fromisoformat(read.BASE_DATE))}
    for warning in lock.warnings:
        key = "stack.driver" if about.get(warning) == "driver" else "stack"
        why = "the catalog advises against it, and the profile asks for it"
        found.add("against-advice", "medium", warning, why, narrower="another choice, or somebody who answers for this one", key=key)


def _doors(found: _Found, profile: Profile) -> None:
    direct = profile.network.via == "direct"
    for number, network in enumerate(profile.network.opens if direct else ()):
        key = f"network.ssh_from.{number}"
        count = addresses_in(network)
        if network == "caller":
            why = "whoever shares that address, behind one NAT or VPN, can reach port 22 too; a login still takes a key"
            found.add("ssh-open", "low", "SSH is open to the address that `up` is run from", why, narrower="name a /32 there", key=key)
            continue
        small, large = (8, 16) if ipaddress.ip_network(network).version == 4 else (64, 80)  # noqa: PLR2004 - IPv4
        inside = _is_inside(network)
        # One step less for networks that only those connected to them can come from.
        steps: Sequence[Severity] = ("medium", "low", "low") if inside else ("high", "medium", "low")
        severity = steps[0] if count > 2**large else steps[1] if count > 2**small else steps[2]
        shown = f"{count:,}" if count < 2**40 else f"{count:.0e}"
        why = f"{shown} address{'es' if count > 1 else ''} can open a connection to port 22; a login still takes a key"
        why += "; they are private, so that they reach it only through a network that is connected to its own" if inside else ""
        found.add("ssh-open", severity, f"SSH is open to {network}", why, narrower="a smaller network, or `caller`", key=key)
    if profile.network.address == "public":
        why = "every machine gets a public address, which everybody may try; port 22 answers those that the profile names"
        ways = " or ".join(f"`{way}`" for way in clouds.ways())
        narrower = f"`address: private`, with a way in: `jump`, or `via:` {ways}"
        found.add("public-address", "medium", "The machine has a public address", why, narrower=narrower, key="network.address")
    why = "the security group lets every connection out, as the cloud's default does"
    found.add("egress", "low", "Nothing limits where the machine connects to", why, narrower="rules of the network it is placed in")


def _is_inside(network: str) -> bool:
    """Whether all of a network is private (RFC 1918 and 4193); what is reserved for examples is not."""
    asked = ipaddress.ip_network(network)
    if isinstance(asked, ipaddress.IPv4Network):
        return any(asked.subnet_of(private) for private in _PRIVATE)
    return asked.subnet_of(_LOCAL)


def _counters(found: _Found, profile: Profile, lock: Lock) -> None:
    if profile.gpu.counters == "all-users":
        rule = read.driver().counters_for_group
        able = lock.driver.flavour == rule.flavour and version(lock.driver.branch) >= version(rule.from_branch)
        group = (
            "`group` (members of one group, through a helper)" if able else f"`group` needs {rule.flavour} modules of {rule.from_branch}"
        )
        why = "re-opens the side channel of CVE-2018-6260: whoever has a login can watch from the counters what others' jobs do on the GPU"
        severity: Severity = "high" if profile.users else "medium"
        if not profile.users:
            why += "; the profile asks for no login beside the image's own"
        found.add(
            "counters-open",
            severity,
            "Every local user may read the GPU's performance counters",
            why,
            narrower=f"{group}, or `admin-only` (profile with sudo)",
            key="gpu.counters",
        )
    elif profile.gpu.counters == "group":
        why = "a rule of sudo lets them run one helper as root; it becomes the caller again with CAP_PERFMON and nothing else"
        title = "Members of gpuprov-counters may read the GPU's counters"
        found.add("counters-group", "low", title, why, narrower="`admin-only`", key="gpu.counters")


def _host(found: _Found, profile: Profile) -> None:
    why = "the image's first login may do everything without a password; whoever has the launch key is root"
    narrower = "give people logins of `users`, which have no sudo, and keep the launch key"
    found.add("login-sudo", "medium", "The image's login user has sudo without a password", why, narrower=narrower, key="os")
    why = "the driver's modules are built on the host and are not signed; with Secure Boot on, setting up is refused"
    found.add("secure-boot", "medium", "Secure Boot must be off", why, key="stack.driver")
    why = "unattended upgrades leave the driver and CUDA alone, so that security fixes of them come with a new lock and not before"
    found.add("held-back", "low", "The driver is not upgraded by itself", why, narrower="review a new lock regularly", key="stack.driver")
    if profile.stack.profilers:
        why = "kernel.perf_event_paranoid is 2: ordinary users may sample their own processes, and not the kernel"
        found.add("perf-events", "low", "Ordinary users may sample CPUs", why, narrower="no profilers", key="stack.profilers")
    for number, user in enumerate(profile.users):
        why = f"{len(user.ssh_keys)} keys of the profile let {user.name} in, without sudo; the login stays after an undo"
        found.add("login", "note", f"{user.name} gets a login", why, key=f"users.{number}")


def _money(found: _Found, plan: Plan) -> None:
    limits = plan.profile.limits
    unknown = [f"{p.cloud} {p.location}" for p in plan.candidates if p.whole_price_usd is None]
    if unknown:
        why = f"the profile accepts an unknown price, so the limit an hour is not kept in {_some(unknown)}"
        narrower = "`unknown_price: refuse`, or places with a known price"
        found.add(
            "price-unknown", "medium", "The price limit is not enforced everywhere", why, narrower=narrower, key="limits.unknown_price"
        )
    if limits.deadline_h > _LONG_H:
        why = f"the machine may run {limits.deadline_h / 24:.0f} days before it ends itself"
        found.add("deadline-long", "low", "The deadline is far", why, narrower="a shorter one; it can be moved", key="limits.deadline_h")
    for cloud in dict.fromkeys(place.cloud for place in plan.places):
        keeper = clouds.provider(cloud).deadline
        if keeper.by == "host":
            found.add("deadline-inside", "low", keeper.title, keeper.reason, narrower=keeper.narrower, key="limits.deadline_h")


def _places(found: _Found, plan: Plan) -> None:
    profile = plan.profile
    open_images = [f"{p.cloud} {p.location}" for p in plan.candidates if p.image_id is None]
    if open_images:
        why = f"the newest image of its publisher at the moment of the launch is taken in {_some(open_images)}"
        narrower = "`gpuprov catalog refresh`, then `gpuprov lock`, writes the ids into the lock"
        found.add("image-open", "medium", "The image is not pinned by its id", why, narrower=narrower, key="os")
    for number, place in enumerate(profile.places):
        if place.market == "spot":
            why = "the cloud may end the machine at any moment; what was not saved is lost"
            found.add("spot", "low", "A spot machine", why, narrower="`on-demand`", key=f"places.{number}.market")
    passed: dict[str, list[str]] = {}
    for planned in plan.places:
        if planned.refusal:
            passed.setdefault(str(planned.refusal), []).append(f"{planned.cloud} {planned.location}")
    for why, where in passed.items():
        found.add("passed-over", "note", f"Passed over: {_some(where)}", why, key="places")
    if not plan.candidates:
        why = "every place of the profile would be passed over: what is signed could not be launched by this release"
        found.add("nowhere", "medium", "No place would be tried", why, narrower="a place that can be launched in", key="places")
    data = profile.disks.data
    if data is not None and data.source == "instance-store":
        why = f"what lies in {data.mount} is lost when the machine stops or ends"
        found.add("data-lost", "note", "The data disk is empty after each stop", why, narrower="`source: volume`", key="disks.data.source")


def _software(found: _Found, plan: Plan, packages: Sequence[PackageItem]) -> None:
    profile, lock = plan.profile, plan.lock
    open_versions = [p.name for p in packages if p.version is None]
    if open_versions:
        why = (
            f"the newest that the repositories have on that day, and what they depend on, signed by the repositories' keys; "
            f"the driver stays in branch {lock.driver.branch}"
        )
        title = f"{len(open_versions)} of {len(packages)} packages have no exact version"
        found.add("versions-open", "low", title, why, narrower="a mirror that is a snapshot (`sources`)", key="stack")
    for gap in lock.unresolved:
        if gap not in plan.image_gaps:  # which are a risk of their own
            found.add("unresolved", "low", f"Not known: {gap}", "the catalog does not know it, so the lock cannot hold it", key="stack")
    for kind in ("apt", "dnf"):
        if getattr(profile.sources, kind):
            why = "whoever runs it decides what is installed as root; its key is trusted by the fingerprint in the profile"
            found.add("mirror", "low", f"Packages come from a mirror of {kind}", why, key=f"sources.{kind}")
    if profile.sources.wheels:
        why = "it cannot change what is installed: every wheel must have a hash of the lock"
        found.add("wheel-index", "note", "Wheels come from another index", why, key="sources.wheels")
    if lock.opencv.source:
        why = "the wheel is built on the first host and copied to others: it is as trustworthy as that host"
        found.add("built-here", "low", "OpenCV is built from source", why, narrower="`opencv: wheel`", key="stack.opencv")


def _proof(found: _Found, profile: Profile) -> None:
    for number, waiver in enumerate(profile.verify.waivers):
        why = f"{waiver.reason} ({waiver.owner}, until {waiver.expires.isoformat()})"
        title = f"A failure of {waiver.check} is excused"
        found.add("waiver", "medium", title, why, narrower="no waiver", key=f"verify.waivers.{number}")
    if profile.verify.tier == "quick":
        why = "no framework is imported and nothing is computed on the GPU"
        found.add("tier-quick", "note", "The proof is a quick one", why, narrower="`tier: standard`", key="verify.tier")


def gains(plan: Plan, judged: Judged | None = None) -> tuple[Gain, ...]:
    """What security gains, in the order of a launch."""
    profile, lock = plan.profile, plan.lock
    guards = dict.fromkeys((guard.title, guard.reason) for _, guard in plan.safeguards if guard.title)
    kept = judged is not None and not judged.broken
    found = [
        *([Gain("The rules are kept", f"nothing breaks the rules {judged.name}")] if judged and kept else []),
        Gain("Disks are encrypted", "root and data volumes, whatever the account's default is"),
        *(Gain(title, reason) for title, reason in guards),
        Gain("No role", "the machine has no permission at the cloud, so that a break-in gets none"),
        Gain("Login by key alone", "passwords and root are refused over SSH from the first boot on"),
        Gain(
            "Host keys are known before the first connection", "read over the cloud's own channel; an unknown or changed key stops the run"
        ),
        Gain("It ends itself", f"after {profile.limits.deadline_h} hours, whatever the client does"),
        Gain("Repositories are trusted by fingerprint", "a key that was exchanged on the way is refused; `trusted=yes` is nowhere"),
    ]
    if any(environment.wheels for environment in lock.frameworks.values()):
        found.append(
            Gain("Wheels are trusted by hash", "nothing without one, nothing that the lock does not name, nothing built on the way")
        )
    found.append(
        Gain("Everything is tagged and noted", "what exists is found by tag, what was changed on the host is put back from a ledger")
    )
    return tuple(found)


def _some(words: Sequence[str]) -> str:
    shown = ", ".join(words[:_SHOWN])
    return shown if len(words) <= _SHOWN else f"{shown} and {len(words) - _SHOWN} more"
