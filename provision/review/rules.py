"""A profile against the organisation's rules: pure, and what cannot be decided is a violation that says so, never a pass.

A rule is one function under the rule's name; it yields where the profile breaks it, and how.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final
from urllib.parse import urlsplit

from provision.clouds import base
from provision.launch.plan import Plan, PlannedPlace, plan
from provision.profile import load
from provision.profile.load import KeyPath
from provision.profile.locked import Lock
from provision.profile.model import Profile
from provision.review.controls import line_of
from provision.review.policy import Policy, PolicyFile, Rule

_TAGS: Final = frozenset(value for name, value in vars(base).items() if name.endswith("_TAG"))


@dataclass(frozen=True, slots=True)
class Violation:
    """One rule that is broken, or not known to be kept.

    Attributes:
        reason: what the profile asks and what the rule allows.
        key: dotted, as in the profile.
        line: of the key or of what stands around it; None where nothing of it stands in a file.
        known: False when it could not be decided.
        why: the organisation's own words for the rule.
    """

    rule: Rule
    reason: str
    key: str
    line: int | None
    known: bool = True
    why: str = ""

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        known = "" if self.known else "not known: "
        return f"{where}{self.key}: {known}{self.reason} (rule {self.rule}{': ' + self.why if self.why else ''})"


@dataclass(frozen=True, slots=True)
class _Case:
    """What rules look at."""

    policy: Policy
    plan: Plan
    today: dt.date

    @property
    def profile(self) -> Profile:
        """What is asked for."""
        return self.plan.profile

    @property
    def lock(self) -> Lock:
        """What it is resolved to."""
        return self.plan.lock

    def spots(self) -> Iterator[tuple[KeyPath, PlannedPlace]]:
        """Every location of the profile with its key."""
        numbers: dict[int, int] = {}
        for planned in self.plan.places:
            number = numbers[planned.index] = numbers.get(planned.index, -1) + 1
            yield ("places", planned.index, planned.place.locations_key, number), planned


@dataclass(frozen=True, slots=True)
class _Broken:
    key: KeyPath
    reason: str
    known: bool = True


_Rule = Callable[[_Case], Iterator[_Broken]]


def check(policy: Policy, plan: Plan, *, today: dt.date, lines: Mapping[str, int] | None = None) -> list[Violation]:
    """Every violation, in the order of the rules.

    Args:
        policy: the rules; how many must sign is not asked here.
        plan: what would be made.
        today: the day from which waivers are counted.
        lines: dotted key → line of the profile.
    """
    case = _Case(policy, plan, today)
    return [
        Violation(
            rule,
            broken.reason,
            _dotted(broken.key),
            line_of(_dotted(broken.key), lines or {})[0],
            broken.known,
            policy.reasons.get(rule, ""),
        )
        for rule, judge_one in RULES.items()
        if (asked := getattr(policy, rule)) is not None and asked is not False
        for broken in judge_one(case)
    ]


def judge(loaded: PolicyFile, profile: Profile, lock: Lock, raw: bytes | None, today: dt.date) -> list[Violation]:
    """`check` with the plan's prices, and the lines of the profile's bytes where there are any."""
    return check(loaded.policy, plan(profile, lock), today=today, lines=load.lines(raw) if raw is not None else None)


def _dotted(key: KeyPath) -> str:
    return ".".join(map(str, key))


def _fits(value: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(value, glob) for glob in globs)


def _listed(allowed: Sequence[str]) -> str:
    return f"allowed: {', '.join(allowed)}"


def _clouds(case: _Case) -> Iterator[_Broken]:
    for n, place in enumerate(case.profile.places):
        if place.cloud not in (allowed := case.policy.clouds or ()):
            yield _Broken(("places", n, "cloud"), f"{place.cloud}; {_listed(allowed)}")


def _regions(case: _Case) -> Iterator[_Broken]:
    for key, planned in case.spots():
        if not _fits(planned.location, allowed := case.policy.regions or ()):
            yield _Broken(key, f"{planned.location}; {_listed(allowed)}")


def _instance_types(case: _Case) -> Iterator[_Broken]:
    for n, place in enumerate(case.profile.places):
        if not _fits(place.instance_type, allowed := case.policy.instance_types or ()):
            yield _Broken(("places", n, "instance_type"), f"{place.instance_type}; {_listed(allowed)}")


def _markets(case: _Case) -> Iterator[_Broken]:
    for n, place in enumerate(case.profile.places):
        if place.market not in (allowed := case.policy.markets or ()):
            yield _Broken(("places", n, "market"), f"{place.market}; {_listed(allowed)}")


def _os(case: _Case) -> Iterator[_Broken]:
    system = f"{case.profile.os.name} {case.profile.os.version}"
    if not _fits(system, allowed := case.policy.os or ()):
        yield _Broken(("os",), f"{system}; {_listed(allowed)}")


def _price_per_hour(case: _Case) -> Iterator[_Broken]:
    most = case.policy.max_price_per_hour_usd or 0
    if (limit := case.profile.limits.price_per_hour_usd) > most:
        yield _Broken(("limits", "price_per_hour_usd"), f"up to {limit:.2f} USD an hour; at most {most:.2f} is allowed")
    yield from _priced(case, most, 1, "an hour")


def _price_to_deadline(case: _Case) -> Iterator[_Broken]:
    yield from _priced(case, case.policy.max_price_to_deadline_usd or 0, case.profile.limits.deadline_h, "to the deadline")


def _priced(case: _Case, most: float, hours: int, period: str) -> Iterator[_Broken]:
    """Places over a price; one whose known part is within it and whose rest is unknown is not known to keep the rule."""
    for key, planned in case.spots():
        known = round(planned.price.usd_per_hour * hours, 2 if hours > 1 else 6) if planned.price else None
        if known is None or (known <= most and planned.whole_price_usd is None):
            yield _Broken(key, f"the price of {planned.location} {period} is unknown; at most {most:.2f} USD is allowed", known=False)
        elif known > most:
            yield _Broken(key, f"{planned.location} costs {known:.2f} USD {period}; at most {most:.2f} is allowed")


def _deadline(case: _Case) -> Iterator[_Broken]:
    asked, most = case.profile.limits.deadline_h, case.policy.max_deadline_h or 0
    if asked > most:
        yield _Broken(("limits", "deadline_h"), f"{asked} h; at most {most} h are allowed")


def _public_address(case: _Case) -> Iterator[_Broken]:
    if case.policy.public_address == "forbidden" and case.profile.network.address == "public":
        yield _Broken(("network",), "every machine gets a public address; `address: private` has none")


def _encrypted(case: _Case) -> Iterator[_Broken]:
    # Every volume that gpuprov makes is encrypted, and a profile has no key that says otherwise.
    data = case.profile.disks.data
    if case.policy.encrypted_disks == "all" and data is not None and data.source == "instance-store":
        yield _Broken(("disks", "data", "source"), "whether the machine's own disk is encrypted is the cloud's to say", known=False)


def _ssh_from(case: _Case) -> Iterator[_Broken]:
    rule = case.policy.ssh_from
    # What another way in opens, or does not, is not the profile's to choose.
    direct = case.profile.network.via == "direct"
    for n, source in enumerate(case.profile.network.opens if rule and direct else ()):
        assert rule is not None  # noqa: S101 - the loop is empty without
        key: KeyPath = ("network", "ssh_from", n)
        if source == "caller":
            if not rule.caller:
                yield _Broken(key, "the address that gpuprov runs from; networks must be named")
            elif rule.within:
                yield _Broken(key, f"whether the address that gpuprov runs from lies in {', '.join(rule.within)}", known=False)
            continue
        network = ipaddress.ip_network(source)
        widest = rule.widest_ipv4 if isinstance(network, ipaddress.IPv4Network) else rule.widest_ipv6
        if network.prefixlen < widest:
            yield _Broken(key, f"{source} is wider than /{widest}")
        if rule.within and not any(_inside(network, ipaddress.ip_network(outer)) for outer in rule.within):
            yield _Broken(key, f"{source} does not lie in {', '.join(rule.within)}")


def _inside(inner: Any, outer: Any) -> bool:
    return type(inner) is type(outer) and bool(inner.subnet_of(outer))


def _counters(case: _Case) -> Iterator[_Broken]:
    asked = case.profile.gpu.counters
    if asked not in (allowed := case.policy.counters or ()):
        yield _Broken(("gpu", "counters"), f"{asked}; {_listed(allowed)}")


def _mirrors(case: _Case) -> Iterator[_Broken]:
    rule, lock = case.policy.mirrors, case.lock
    if rule and rule.packages:
        for repository in lock.repositories:
            for url in filter(None, (repository.url, repository.key)):
                if not _below(url, rule.packages):
                    yield _Broken(("sources", repository.kind), f"{url} does not lie below {', '.join(rule.packages)}")
    environments = [*lock.frameworks.values(), *(e for e in (lock.opencv.environment, lock.opencv.tools) if e)]
    if rule and rule.wheels and (environments or lock.extras or lock.opencv.source):
        if lock.wheel_index is None:
            yield _Broken(("sources", "wheels"), f"wheels come from the public index; it must lie below {', '.join(rule.wheels)}")
        elif not _below(lock.wheel_index, rule.wheels):
            yield _Broken(("sources", "wheels", "url"), f"{lock.wheel_index} does not lie below {', '.join(rule.wheels)}")


def _below(url: str, roots: Sequence[str]) -> bool:
    """Whether a URL is one of the roots or below it; one that climbs or hides something is below none."""
    parts = urlsplit(url)
    if ".." in parts.path.split("/") or "%" in url or "\\" in url or "@" in parts.netloc:
        return False
    return any(url == root or url.startswith(root.rstrip("/") + "/") for root in roots)


def _forbidden(case: _Case) -> Iterator[_Broken]:
    rule, profile, lock = case.policy.forbidden, case.profile, case.lock
    if rule is None:
        return
    for framework in rule.frameworks:
        if getattr(profile.stack.frameworks, framework) is not None:
            yield _Broken(("stack", "frameworks", framework), f"{framework} is forbidden")
    for n, extra in enumerate(profile.stack.extras):
        if extra in rule.extras:
            yield _Broken(("stack", "extras", n), f"{extra} is forbidden")
    environments = [*lock.frameworks.values(), *(e for e in (lock.opencv.environment, lock.opencv.tools) if e)]
    wheels = [w for e in environments for w in e.wheels] + [w for e in lock.extras.values() for w in e.wheels]
    packages = [p for several in lock.packages.values() for p in several]
    names = {re.split(r"[=<>~ \[]", text, maxsplit=1)[0] for text in [*wheels, *packages, *filter(None, [lock.opencv.source])]}
    for name in sorted(n for n in names if _fits(n, rule.packages)):
        yield _Broken(("stack",), f"the package {name} is forbidden")


def _unresolved(case: _Case) -> Iterator[_Broken]:
    for line in case.lock.unresolved:
        yield _Broken(("stack",), line, known=False)


def _owner(case: _Case) -> Iterator[_Broken]:
    allowed = case.policy.owner_domains or ()
    waivers = [(("verify", "waivers", n, "owner"), w.owner) for n, w in enumerate(case.profile.verify.waivers)]
    for key, email in [(("owner", "email"), case.profile.owner.email), *waivers]:
        if email.rpartition("@")[2].lower() not in allowed:
            yield _Broken(key, f"{email}; {_listed(allowed)}")


def _waivers(case: _Case) -> Iterator[_Broken]:
    days = case.policy.max_waiver_days or 0
    last = case.today + dt.timedelta(days=days)
    for n, waiver in enumerate(case.profile.verify.waivers):
        if waiver.expires > last:
            yield _Broken(("verify", "waivers", n, "expires"), f"{waiver.expires} is more than {days} days ahead")


def _tags(case: _Case) -> Iterator[_Broken]:
    for tag in case.policy.required_tags or ():
        if tag not in _TAGS:
            yield _Broken(("name",), f"a profile cannot ask for the tag {tag}; gpuprov sets {', '.join(sorted(_TAGS))}")


def _signatures(_: _Case) -> Iterator[_Broken]:
    """What is signed is the bundle: `approval.py` counts."""
    yield from ()


RULES: Final[Mapping[Rule, _Rule]] = {
    "clouds": _clouds,
    "regions": _regions,
    "instance_types": _instance_types,
    "markets": _markets,
    "os": _os,
    "max_price_per_hour_usd": _price_per_hour,
    "max_price_to_deadline_usd": _price_to_deadline,
    "max_deadline_h": _deadline,
    "public_address": _public_address,
    "encrypted_disks": _encrypted,
    "ssh_from": _ssh_from,
    "counters": _counters,
    "mirrors": _mirrors,
    "forbidden": _forbidden,
    "nothing_unresolved": _unresolved,
    "owner_domains": _owner,
    "max_waiver_days": _waivers,
    "required_tags": _tags,
    "signatures": _signatures,
}
