"""The risks of a profile: each with a severity, the reason, a narrower choice, and the line of the profile that causes it.

A *high* risk lets others in, or installs software that nobody checked. A *medium* risk weakens a boundary, or leaves something open that
the reviewers should have decided. A *low* risk is worth knowing. A *note* surprises nobody who knows the stack.
"""

import datetime as dt
import ipaddress
from collections.abc import Mapping, Sequence
from typing import Final

from provision import clouds
from provision.catalog import read
from provision.catalog.records.base import version
from provision.catalog.resolve import advice
from provision.launch.plan import Plan
from provision.profile import load
from provision.profile.locked import Lock
from provision.profile.model import Profile
from provision.review.cluster import cluster_risks
from provision.review.egress import way_out
from provision.review.exposure import addresses_in
from provision.review.fleets import fleet_risks
from provision.review.identities import ReadIdentities
from provision.review.mig import split
from provision.review.modules import modules, secured
from provision.review.rules import Violation
from provision.review.tree import SEVERITIES, EnvironmentItem, Gain, PackageItem, Risk, Severity
from provision.structs import Struct

_LONG_H: Final = 7 * 24
_FEW: Final = 5
_DISKS: Final = "root and data volumes, whatever the account's default is"
_VOLUMES: Final = "whatever the account's default is"
_DOUBTED: Final = "a place on a cloud that encrypts them, and data on a volume"
_CHANNEL: Final = "they are read over the cloud's own channel"
_NO_ROLE: Final = "the machine has no role, so a break-in gains no access to the cloud account"
_PRIVATE: Final = tuple(ipaddress.IPv4Network(network) for network in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"))
_LOCAL: Final = ipaddress.IPv6Network("fc00::/7")


class RulesVerdict(Struct):
    """The name and digest of the organisation's rules, and where the profile breaks them."""

    name: str
    sha256: str
    violations: tuple[Violation, ...]


class _Register:
    """Collects the risks, and looks up the line of the profile behind each."""

    def __init__(self, lines: Mapping[str, int]) -> None:
        self._lines = lines
        self.risks: list[Risk] = []

    def add(self, risk_id: str, severity: Severity, title: str, reason: str, *, narrower: str = "", key: str = "") -> None:
        """Add a risk; `key` is the dotted key of the profile that causes it."""
        line, written = load.line_of(key, self._lines) if key else (None, False)
        self.risks.append(Risk(risk_id, severity, title, reason, narrower, key, line, written))


def risks(
    plan: Plan,
    lines: Mapping[str, int],
    *,
    packages: Sequence[PackageItem],
    environments: Sequence[EnvironmentItem],
    differs: Sequence[str],
    verdict: RulesVerdict | None,
    read: ReadIdentities | None = None,
) -> tuple[Risk, ...]:
    """Every risk, the most severe first.

    Args:
        plan: what `up` would do.
        lines: dotted key → line of the profile.
        packages: the packages that are installed by name.
        environments: the virtual environments with their wheels.
        differs: where the lock differs from what the profile resolves to now.
        verdict: the organisation's rules, if there are any.
        read: what the clouds said of the machines' identities, if somebody asked.
    """
    profile, lock = plan.profile, plan.lock
    register = _Register(lines)
    for violation in verdict.violations if verdict else ():
        doubt = "" if violation.known else "this cannot be decided: "
        why = f"{doubt}{violation.reason}{f'; {violation.why}' if violation.why else ''}"
        title = f"It breaks the rule {violation.rule}"
        register.add("against-rules", "high", title, why, narrower="a value that the rule allows; `up` refuses this one", key=violation.key)
    _lock(register, lock, environments, differs)
    _counters(register, profile, lock)
    modules(register.add, plan)
    split(register.add, lock)
    way_out(register.add, profile)
    fleet_risks(register.add, plan)
    if plan.places:
        _doors(register, profile)
    _money(register, plan)
    _host(register, profile)
    cluster_risks(register.add, profile)
    _places(register, plan)
    _cloud_options(register, plan, read)
    _identity(register, plan)
    _software(register, plan, packages)
    _proof(register, profile)
    return tuple(sorted(register.risks, key=lambda risk: SEVERITIES.index(risk.severity)))


def _lock(register: _Register, lock: Lock, environments: Sequence[EnvironmentItem], differs: Sequence[str]) -> None:
    odd = [wheel.name for environment in environments for wheel in environment.wheels if not wheel.hashes]
    if odd:
        register.add(
            "not-pinned",
            "high",
            f"Lines in the lock's wheel lists without an exact version and hash: {len(odd)}",
            f"pip may install another file than the reviewed one, or obey such a line as an option: {_some(odd)}",
            narrower="write the lock again with `gpuprov lock`",
        )
    if differs:
        register.add(
            "lock-differs",
            "medium",
            "The lock differs from what the profile resolves to here",
            f"it was made with another catalog, or edited by hand: {_some(differs)}",
            narrower="write the lock again with `gpuprov lock`, and review the new one",
        )
    values = {"gpu": lock.gpu.model, "os": lock.os, "driver": lock.driver.branch, "flavour": lock.driver.flavour, "cuda": lock.cuda.version}
    about = {each.text: each.part for each in advice(values, dt.date.fromisoformat(read.BASE_DATE))}
    for warning in lock.warnings:
        key = "stack.driver" if about.get(warning) == "driver" else "stack"
        why = "the profile asks for this combination, and the catalog advises against it"
        register.add("against-advice", "medium", warning, why, narrower="another version, or a named person who accepts this one", key=key)


def _doors(register: _Register, profile: Profile) -> None:
    direct = profile.network.via == "direct"
    for number, network in enumerate(profile.network.opens if direct else ()):
        key = f"network.ssh_from.{number}"
        count = addresses_in(network)
        if network == "caller":
            why = "everybody behind the same NAT or VPN has that address and can reach port 22 too; a login still needs a key"
            register.add(
                "ssh-open",
                "low",
                "SSH is open to the address from which `up` runs",
                why,
                narrower="a fixed address, written as a /32",
                key=key,
            )
            continue
        small, large = (8, 16) if ipaddress.ip_network(network).version == 4 else (64, 80)  # noqa: PLR2004 - IPv4
        inside = _is_inside(network)
        # One step lower for private networks: only machines that are connected to them can have such an address.
        steps: Sequence[Severity] = ("medium", "low", "low") if inside else ("high", "medium", "low")
        severity = steps[0] if count > 2**large else steps[1] if count > 2**small else steps[2]
        size = f"{count:,}" if count < 2**40 else f"{count:.0e}"
        why = f"{size} address{'es' if count > 1 else ''} can connect to port 22; a login still needs a key"
        why += "; they are private, so they reach the machine only from networks that are connected to its own" if inside else ""
        register.add("ssh-open", severity, f"SSH is open to {network}", why, narrower="a smaller network, or `caller`", key=key)
    if profile.network.address == "public":
        why = "anybody can send packets to it; only port 22 is open, and only to the networks in the profile"
        ways = " or ".join(f"`{way}`" for way in clouds.ways())
        narrower = f"`address: private`, reached through `jump`, or with `via:` {ways}"
        register.add("public-address", "medium", "The machine has a public address", why, narrower=narrower, key="network.address")
    why = "the security group allows all outgoing connections, as the cloud's default does"
    register.add("egress", "low", "Outgoing connections are not limited", why, narrower="a subnet whose own rules limit them")


def _is_inside(network: str) -> bool:
    """Whether all of a network is private (RFC 1918 and 4193). The networks reserved for examples are not."""
    parsed = ipaddress.ip_network(network)
    if isinstance(parsed, ipaddress.IPv4Network):
        return any(parsed.subnet_of(private) for private in _PRIVATE)
    return parsed.subnet_of(_LOCAL)


def _counters(register: _Register, profile: Profile, lock: Lock) -> None:
    if profile.gpu.counters == "all-users":
        rule = read.driver().counters_for_group
        able = lock.driver.flavour == rule.flavour and version(lock.driver.branch) >= version(rule.from_branch)
        need = f"`group` (needs {rule.flavour} kernel modules of branch {rule.from_branch} or newer)"
        group = "`group` (only the members of one group, through a helper)" if able else need
        why = "this reopens the side channel of CVE-2018-6260: everybody with a login can observe other users' jobs on the GPU"
        severity: Severity = "high" if profile.users else "medium"
        if not profile.users:
            why += "; this profile has no logins besides the image's own"
        register.add(
            "counters-open",
            severity,
            "Every local user may read the GPU's performance counters",
            why,
            narrower=f"{group}, or `admin-only` (profilers then need sudo)",
            key="gpu.counters",
        )
    elif profile.gpu.counters == "group":
        why = (
            "a sudo rule lets them start one helper as root; it then runs as the caller again, with the capability CAP_PERFMON and no other"
        )
        title = "Members of gpuprov-counters may read the GPU's counters"
        register.add("counters-group", "low", title, why, narrower="`admin-only`", key="gpu.counters")


def _host(register: _Register, profile: Profile) -> None:
    why = "it needs no password to become root, so everybody who has the launch key is root"
    narrower = "logins in `users`, which have no sudo, and a launch key that nobody shares"
    if profile.places:
        register.add("login-sudo", "medium", "The image's login user has sudo without a password", why, narrower=narrower, key="os")
    why = "unattended upgrades skip the driver and CUDA, so their security fixes arrive only with a new lock"
    title, narrower = "The driver is not upgraded automatically", "a new lock at regular intervals"
    register.add("held-back", "low", title, why, narrower=narrower, key="stack.driver")
    if profile.stack.profilers:
        why = "kernel.perf_event_paranoid is 2: users can sample their own processes, but not the kernel"
        register.add(
            "perf-events", "low", "Ordinary users can profile their own processes", why, narrower="no profilers", key="stack.profilers"
        )
    if profile.stack.containers == "docker":
        why = (
            "docker's service is root and starts what its group asks for, with any folder of the host: a member is root without a password"
        )
        who = ", ".join(user.name for user in profile.users)
        title = f"{who} {'is' if len(profile.users) == 1 else 'are'} root through the group docker" if who else "The group docker is root"
        severity: Severity = "high" if who else "medium"
        narrower = "`containers: podman`, whose containers have no more rights than the login that starts them"
        register.add("docker-group", severity, title, why, narrower=narrower, key="stack.containers")
    for number, user in enumerate(profile.users):
        why = f"its SSH keys: {len(user.ssh_keys)}; it has no sudo; `undo` does not remove it"
        register.add("login", "note", f"{user.name} gets a login", why, key=f"users.{number}")


def _money(register: _Register, plan: Plan) -> None:
    limits = plan.profile.limits
    unknown = [f"{p.cloud} {p.location}" for p in plan.candidates if p.whole_price_usd is None]
    if unknown:
        why = f"the profile accepts unknown prices, so the hourly limit is not enforced in {_some(unknown)}"
        narrower = "`unknown_price: refuse`, or only places with a known price"
        register.add(
            "price-unknown", "medium", "The price limit is not enforced everywhere", why, narrower=narrower, key="limits.unknown_price"
        )
    if plan.places and limits.machines is None:
        fleet = ", or a fleet of any size," if plan.profile.fleet else ""
        why = f"whoever may launch this profile may launch it a hundred times at once (`--count`){fleet} each within the price limit"
        how: Severity = "medium" if fleet else "note"
        title, narrower = "The number of machines is not limited", "`machines: 1`, or as many as are needed"
        register.add("machines", how, title, why, narrower=narrower, key="limits.machines")
    if limits.deadline_h > _LONG_H:
        why = f"the machine can run for {limits.deadline_h / 24:.0f} days before it ends itself"
        narrower = "an earlier one, which `gpuprov extend` can move"
        register.add("deadline-long", "low", "The deadline is more than a week away", why, narrower=narrower, key="limits.deadline_h")
    for cloud in dict.fromkeys(place.cloud for place in plan.places):
        keeper = clouds.provider(cloud).deadline
        if keeper.by == "host":
            grade: Severity = "medium" if clouds.provider(cloud).stopped_costs else "low"
            register.add("deadline-inside", grade, keeper.title, keeper.reason, narrower=keeper.narrower, key="limits.deadline_h")
        key, doubt = clouds.provider(cloud).first_key, clouds.provider(cloud).boot_disk_doubt
        if key.given:
            register.add("host-key-given", "medium", key.title, key.reason, narrower=key.narrower, key="places")
        if doubt:
            register.add("disk-doubt", "medium", "It is unknown whether the boot disk is encrypted", doubt, narrower=_DOUBTED, key="places")


def _places(register: _Register, plan: Plan) -> None:
    profile = plan.profile
    open_images = [f"{p.cloud} {p.location}" for p in plan.candidates if p.image_id is None]
    if open_images:
        why = f"each launch uses the newest image that the publisher has at that moment, in {_some(open_images)}"
        narrower = "`gpuprov catalog refresh` and then `gpuprov lock`, which write the ids into the lock"
        register.add("image-open", "medium", "The image is not pinned by its id", why, narrower=narrower, key="os")
    for number, place in enumerate(profile.places):
        if place.market == "spot":
            why = "the cloud can end the machine at any moment; unsaved work is then lost"
            register.add("spot", "low", "The machine is a spot instance", why, narrower="`on-demand`", key=f"places.{number}.market")
    skipped: dict[str, list[str]] = {}
    for planned in plan.places:
        if planned.refusal:
            skipped.setdefault(str(planned.refusal), []).append(f"{planned.cloud} {planned.location}")
    for why, where in skipped.items():
        register.add("passed-over", "note", f"Not used: {_some(where)}", why, key="places")
    if not plan.places:
        why = "`apply` sets up a host that exists; what a review says of prices, the deadline and first boot does not apply to it"
        register.add("nothing-launched", "note", "No machine is launched", why, key="places")
    elif not plan.candidates:
        why = "this release can launch in none of the profile's places, so `up` would fail"
        register.add("nowhere", "medium", "No place can be used", why, narrower="a place that this release can launch in", key="places")
    data = profile.disks.data
    if data is not None and data.source == "instance-store":
        why = f"the files in {data.mount} are lost when the machine stops or ends"
        register.add(
            "data-lost", "note", "The data disk is empty after each stop", why, narrower="`source: volume`", key="disks.data.source"
        )


def _cloud_options(register: _Register, plan: Plan, read: ReadIdentities | None) -> None:
    """What the places ask of their clouds beyond the machine."""
    for index, option in dict.fromkeys((place.index, option) for place in plan.places for option in place.cloud_options):
        if option.severity is None:
            continue
        severity, reason = option.severity, option.reason
        known = read.of_place(index) if read and option.key == "identity" else None
        if read and known:
            severity, reason = known.severity or severity, read.reason(known)
        key = f"places.{index}.{option.key}"
        register.add(option.key.replace("_", "-"), severity, option.title, reason, narrower=option.narrower, key=key)


def _with_identity(plan: Plan) -> list[int]:
    """The numbers of the places whose machines act in their cloud."""
    return list(dict.fromkeys(place.index for place in plan.places for option in place.cloud_options if option.key == "identity"))


def _identity(register: _Register, plan: Plan) -> None:
    """Who on the machine gets the credentials of its identity."""
    users = plan.profile.users
    for index in _with_identity(plan):
        who = f"{', '.join(user.name for user in users)}, the image's login" if users else "the image's login"
        why = f"the metadata service asks nobody who he is: {who} and every job that runs there can act in the cloud as the machine"
        title = "Every local user gets the credentials of the machine's identity"
        narrower = "`identity: none`, or no `users`"
        severity: Severity = "medium" if users else "low"
        register.add("identity-shared", severity, title, why, narrower=narrower, key=f"places.{index}.identity")


def _software(register: _Register, plan: Plan, packages: Sequence[PackageItem]) -> None:
    profile, lock = plan.profile, plan.lock
    open_versions = [p.name for p in packages if p.version is None]
    if open_versions:
        why = (
            "the newest versions in the repositories on that day are installed, with their dependencies, all signed by the repositories' "
            f"keys; the driver stays in branch {lock.driver.branch}"
        )
        title = f"{len(open_versions)} of {len(packages)} packages have no exact version"
        register.add("versions-open", "low", title, why, narrower="a mirror that does not change (`sources`)", key="stack")
    for gap in lock.unresolved:
        if gap not in plan.image_gaps:  # these are reported as `image-open`
            register.add("unresolved", "low", f"Not known: {gap}", "it is not in the catalog, so the lock cannot fix it", key="stack")
    for kind in ("apt", "dnf"):
        if getattr(profile.sources, kind):
            why = "its operator decides what is installed as root; its key must have the fingerprint in the profile"
            register.add("mirror", "low", f"{kind} packages come from a mirror", why, key=f"sources.{kind}")
    if profile.sources.wheels:
        why = "it cannot change what is installed, because every wheel must have a hash from the lock"
        register.add("wheel-index", "note", "Wheels come from another index", why, key="sources.wheels")
    why = "each host builds the wheel as root from the locked source; the wheel has no hash in the lock, and no other host takes it"
    if lock.opencv.source:
        register.add("built-here", "low", "OpenCV is built from source", why, narrower="`opencv: wheel`", key="stack.opencv")
    for name in (name for name, extra in lock.extras.items() if extra.build):
        title = f"{read.extras()[name].title} is built from source"
        register.add("built-here", "low", title, why, narrower=f"without {name}", key="stack.extras")


def _proof(register: _Register, profile: Profile) -> None:
    for number, waiver in enumerate(profile.verify.waivers):
        why = f"{waiver.reason} ({waiver.owner}, until {waiver.expires.isoformat()})"
        title = f"A failure of the check {waiver.check} is waived"
        register.add("waiver", "medium", title, why, narrower="no waiver", key=f"verify.waivers.{number}")
    if profile.verify.tier == "quick":
        why = "`verify` imports no framework and computes nothing on the GPU"
        register.add("tier-quick", "note", "Only the quick checks are made", why, narrower="`tier: standard`", key="verify.tier")


def gains(plan: Plan, verdict: RulesVerdict | None = None) -> tuple[Gain, ...]:
    """What is safer than on a machine that was set up by hand, in the order of a launch."""
    guards = dict.fromkeys((guard.title, guard.reason) for _, guard in plan.safeguards if guard.title)
    safer = dict.fromkeys((each.title, each.reason) for place in plan.places for each in place.cloud_options if each.safer)
    wheels = any(environment.wheels for environment in plan.lock.frameworks.values())
    providers = [clouds.provider(cloud) for cloud in dict.fromkeys(place.cloud for place in plan.places)]
    doubtful = any(provider.boot_disk_doubt for provider in providers)
    after = f"after {plan.profile.limits.deadline_h} hours, even if the client is gone"
    channel = "they are read over the cloud's own channel, or given to the machine and rotated"
    launched = [
        Gain("Data volumes are encrypted" if doubtful else "Disks are encrypted", _VOLUMES if doubtful else _DISKS),
        *(Gain(title, reason) for title, reason in guards),
        *([] if _with_identity(plan) else [Gain("No cloud permissions", _NO_ROLE)]),
        Gain("Login only with a key", "SSH refuses passwords and root from the first boot on"),
        Gain(
            "Host keys are verified before the first connection",
            f"{channel if any(p.first_key.given for p in providers) else _CHANNEL}; an unknown or changed key stops the run",
        ),
        *(Gain(title, reason) for title, reason in safer),
        Gain("The machine powers itself off" if any(p.stopped_costs for p in providers) else "The machine ends itself", after),
    ]
    hash_only = "pip installs no wheel without a hash from the lock, and builds none from source"
    return (
        *([Gain("The rules are kept", f"nothing violates the rules {verdict.name}")] if verdict and not verdict.violations else []),
        *(launched if plan.places else ()),
        *secured(plan),
        Gain("Repositories are trusted by fingerprint", "a key with another fingerprint is refused, and no repository is `trusted=yes`"),
        *([Gain("Wheels are trusted by hash", hash_only)] if wheels else []),
        Gain(
            "Everything is tagged and recorded",
            "all resources are found by their tags; the host records each change, so that `undo` can revert it",
        ),
    )


def _some(words: Sequence[str]) -> str:
    """The first few words, and how many more there are."""
    more = len(words) - _FEW
    return ", ".join(words[:_FEW]) + (f" and {more} more" if more > 0 else "")
