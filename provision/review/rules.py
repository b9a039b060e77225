"""Check a profile against the organisation's rules. What cannot be decided is a violation that says so, never a pass.

Each rule is one function that yields the places where the profile breaks it. Nothing here reads a file or contacts a cloud.
"""

import datetime as dt
import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final
from urllib.parse import urlsplit

from provision import clouds
from provision.clouds import base
from provision.launch.plan import Plan, PlannedPlace, plan
from provision.profile import load
from provision.profile.locked import Lock
from provision.profile.model import Profile
from provision.profile.pins import PackagePin, WheelPin
from provision.profile.plain import KeyPath
from provision.review import launch_rules
from provision.review.policy import Policy, PolicyFile, Rule
from provision.structs import Struct

_TAGS: Final = frozenset(value for name, value in vars(base).items() if name.endswith("_TAG"))


class Violation(Struct):
    """A rule that the profile breaks, or that it cannot be shown to keep.

    Attributes:
        reason: what the profile has, and what the rule allows.
        key: the dotted key of the profile.
        line: of that key, or of the nearest key above it that is in the file; None where there is none.
        known: False if it cannot be decided whether the rule is kept.
        why: the reason that the organisation gives for the rule.
    """

    rule: Rule
    reason: str
    key: str
    line: int | None
    known: bool = True
    why: str = ""

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        doubt = "" if self.known else "not known: "
        return f"{where}{self.key}: {doubt}{self.reason} (rule {self.rule}{': ' + self.why if self.why else ''})"


class _Case(Struct):
    """What a rule can look at."""

    policy: Policy
    plan: Plan
    today: dt.date

    @property
    def profile(self) -> Profile:
        """The profile that is checked."""
        return self.plan.profile

    @property
    def lock(self) -> Lock:
        """Its lock."""
        return self.plan.lock

    def locations(self) -> Iterator[tuple[KeyPath, PlannedPlace]]:
        """Every location of the profile with its key."""
        numbers: dict[int, int] = {}
        for planned in self.plan.places:
            number = numbers[planned.index] = numbers.get(planned.index, -1) + 1
            yield ("places", planned.index, planned.place.locations_key, number), planned


class _Breach(Struct):
    key: KeyPath
    reason: str
    certain: bool = True


_Rule = Callable[[_Case], Iterator[_Breach]]


def check(policy: Policy, plan: Plan, *, today: dt.date, lines: Mapping[str, int] | None = None) -> list[Violation]:
    """Every violation, in the order of the rules. `today` is the day from which the length of waivers is counted.

    `lines` maps each dotted key to its line of the profile. Signatures are not counted here, but in `approval.py`.
    """
    case = _Case(policy, plan, today)
    violations = []
    for rule, breaches in RULES.items():
        limit = getattr(policy, rule)
        for breach in breaches(case) if limit is not None and limit is not False else ():
            key = ".".join(map(str, breach.key))
            line = load.line_of(key, lines or {})[0]
            violations.append(Violation(rule, breach.reason, key, line, breach.certain, policy.reasons.get(rule, "")))
    return violations


def judge(rules: PolicyFile, profile: Profile, lock: Lock, raw: bytes | None, today: dt.date) -> list[Violation]:
    """`check` with the plan's prices, and the lines of the profile's bytes where there are any."""
    return check(rules.policy, plan(profile, lock), today=today, lines=load.lines(raw) if raw is not None else None)


def _fits(value: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(value, glob) for glob in globs)


def _allowed(allowed: Sequence[str]) -> str:
    return f"allowed: {', '.join(allowed)}"


def _clouds(case: _Case) -> Iterator[_Breach]:
    for n, place in enumerate(case.profile.places):
        if place.cloud not in (allowed := case.policy.clouds or ()):
            yield _Breach(("places", n, "cloud"), f"{place.cloud}; {_allowed(allowed)}")


def _regions(case: _Case) -> Iterator[_Breach]:
    for key, planned in case.locations():
        if not _fits(planned.location, allowed := case.policy.regions or ()):
            yield _Breach(key, f"{planned.location}; {_allowed(allowed)}")


def _instance_types(case: _Case) -> Iterator[_Breach]:
    for n, place in enumerate(case.profile.places):
        if not _fits(place.instance_type, allowed := case.policy.instance_types or ()):
            yield _Breach(("places", n, "instance_type"), f"{place.instance_type}; {_allowed(allowed)}")


def _markets(case: _Case) -> Iterator[_Breach]:
    for n, place in enumerate(case.profile.places):
        if place.market not in (allowed := case.policy.markets or ()):
            yield _Breach(("places", n, "market"), f"{place.market}; {_allowed(allowed)}")


def _os(case: _Case) -> Iterator[_Breach]:
    system = f"{case.profile.os.name} {case.profile.os.version}"
    if not _fits(system, allowed := case.policy.os or ()):
        yield _Breach(("os",), f"{system}; {_allowed(allowed)}")


def _price_per_hour(case: _Case) -> Iterator[_Breach]:
    most = case.policy.max_price_per_hour_usd or 0
    if (limit := case.profile.limits.price_per_hour_usd) > most:
        yield _Breach(("limits", "price_per_hour_usd"), f"up to {limit:.2f} USD an hour; at most {most:.2f} is allowed")
    yield from _priced(case, most, 1, "an hour")


def _price_to_deadline(case: _Case) -> Iterator[_Breach]:
    yield from _priced(case, case.policy.max_price_to_deadline_usd or 0, case.profile.limits.deadline_h, "to the deadline")
    for key, planned in case.locations():
        if clouds.provider(planned.cloud).stopped_costs:
            yield _Breach(key, f"the deadline ends no cost in {planned.location}, but the removal", certain=False)


def _priced(case: _Case, most: float, hours: int, period: str) -> Iterator[_Breach]:
    """Places that cost too much. A place whose price is unknown, or known only in part, is not known to keep the rule."""
    for key, planned in case.locations():
        cost = round(planned.price.usd_per_hour * hours, 2 if hours > 1 else 6) if planned.price else None
        if cost is None or (cost <= most and planned.whole_price_usd is None):
            yield _Breach(key, f"the price of {planned.location} {period} is unknown; at most {most:.2f} USD is allowed", certain=False)
        elif cost > most:
            yield _Breach(key, f"{planned.location} costs {cost:.2f} USD {period}; at most {most:.2f} is allowed")


def _deadline(case: _Case) -> Iterator[_Breach]:
    hours, most = case.profile.limits.deadline_h, case.policy.max_deadline_h or 0
    if hours > most:
        yield _Breach(("limits", "deadline_h"), f"{hours} h; at most {most} h are allowed")


def _public_address(case: _Case) -> Iterator[_Breach]:
    launches = bool(case.profile.places)
    if launches and case.policy.public_address == "forbidden" and case.profile.network.address == "public":
        yield _Breach(("network",), "every machine gets a public address; `address: private` avoids that")


def _encrypted(case: _Case) -> Iterator[_Breach]:
    # Every volume that gpuprov makes is encrypted, and a profile has no key that says otherwise. A boot disk may be in doubt.
    doubts = {place.cloud: clouds.provider(place.cloud).boot_disk_doubt for place in case.profile.places}
    for doubt in doubts.values() if case.policy.encrypted_disks else ():
        if doubt:
            yield _Breach(("disks", "root"), doubt, certain=False)
    data = case.profile.disks.data
    if case.policy.encrypted_disks == "all" and data is not None and data.source == "instance-store":
        yield _Breach(("disks", "data", "source"), "only the cloud can say whether the machine's own disk is encrypted", certain=False)


def _ssh_from(case: _Case) -> Iterator[_Breach]:
    rule = case.policy.ssh_from
    # With another way in, the networks are not the profile's choice.
    direct = case.profile.network.via == "direct"
    for n, source in enumerate(case.profile.network.opens if rule and direct else ()):
        assert rule is not None  # noqa: S101 - the loop is empty without
        key: KeyPath = ("network", "ssh_from", n)
        if source == "caller":
            if not rule.caller:
                yield _Breach(key, "the address from which gpuprov runs; only fixed networks are allowed")
            elif rule.within:
                yield _Breach(key, f"whether the address that gpuprov runs from lies in {', '.join(rule.within)}", certain=False)
            continue
        network = ipaddress.ip_network(source)
        widest = rule.widest_ipv4 if isinstance(network, ipaddress.IPv4Network) else rule.widest_ipv6
        if network.prefixlen < widest:
            yield _Breach(key, f"{source} is wider than /{widest}")
        if rule.within and not any(_inside(network, ipaddress.ip_network(outer)) for outer in rule.within):
            yield _Breach(key, f"{source} does not lie in {', '.join(rule.within)}")


def _inside(inner: Any, outer: Any) -> bool:
    return type(inner) is type(outer) and bool(inner.subnet_of(outer))


def _counters(case: _Case) -> Iterator[_Breach]:
    counters = case.profile.gpu.counters
    if counters not in (allowed := case.policy.counters or ()):
        yield _Breach(("gpu", "counters"), f"{counters}; {_allowed(allowed)}")


def _mirrors(case: _Case) -> Iterator[_Breach]:
    rule, lock = case.policy.mirrors, case.lock
    if rule and rule.packages:
        for repository in lock.repositories:
            for url in filter(None, (repository.url, repository.key)):
                if not _below(url, rule.packages):
                    yield _Breach(("sources", repository.kind), f"{url} does not lie below {', '.join(rule.packages)}")
    environments = [*lock.frameworks.values(), *(e for e in (lock.opencv.environment, lock.opencv.tools) if e)]
    if rule and rule.wheels and (environments or lock.extras or lock.opencv.source):
        if lock.wheel_index is None:
            yield _Breach(("sources", "wheels"), f"wheels come from the public index; it must lie below {', '.join(rule.wheels)}")
        elif not _below(lock.wheel_index, rule.wheels):
            yield _Breach(("sources", "wheels", "url"), f"{lock.wheel_index} does not lie below {', '.join(rule.wheels)}")


def _below(url: str, roots: Sequence[str]) -> bool:
    """Whether a URL is one of the roots or below it. A URL with `..`, an escape or a login is below none."""
    parts = urlsplit(url)
    if ".." in parts.path.split("/") or "%" in url or "\\" in url or "@" in parts.netloc:
        return False
    return any(url == root or url.startswith(root.rstrip("/") + "/") for root in roots)


def _forbidden(case: _Case) -> Iterator[_Breach]:
    rule, profile, lock = case.policy.forbidden, case.profile, case.lock
    if rule is None:
        return
    for framework in rule.frameworks:
        if getattr(profile.stack.frameworks, framework) is not None:
            yield _Breach(("stack", "frameworks", framework), f"{framework} is forbidden")
    for n, extra in enumerate(profile.stack.extras):
        if extra in rule.extras:
            yield _Breach(("stack", "extras", n), f"{extra} is forbidden")
    builds = [extra.build for extra in lock.extras.values() if extra.build]
    environments = (*lock.frameworks.values(), lock.opencv.environment, lock.opencv.tools, *(build.tools for build in builds))
    lines = [line for environment in environments if environment for line in environment.wheels]
    lines += [line for extra in lock.extras.values() for line in extra.wheels] + [*filter(None, [lock.opencv.source])]
    lines += [build.source for build in builds]
    names = {PackagePin.parse(package).name for packages in lock.packages.values() for package in packages}
    # A line that is not an exact wheel is a risk of its own, and its name counts here too.
    names |= {wheel.name if (wheel := WheelPin.parse(line)) else re.split(r"[=<>~ \[]", line, maxsplit=1)[0] for line in lines}
    for name in sorted(n for n in names if _fits(n, rule.packages)):
        yield _Breach(("stack",), f"the package {name} is forbidden")


def _unresolved(case: _Case) -> Iterator[_Breach]:
    for line in case.lock.unresolved:
        yield _Breach(("stack",), line, certain=False)


def _owner(case: _Case) -> Iterator[_Breach]:
    allowed = case.policy.owner_domains or ()
    waivers = [(("verify", "waivers", n, "owner"), w.owner) for n, w in enumerate(case.profile.verify.waivers)]
    for key, email in [(("owner", "email"), case.profile.owner.email), *waivers]:
        if email.rpartition("@")[2].lower() not in allowed:
            yield _Breach(key, f"{email}; {_allowed(allowed)}")


def _waivers(case: _Case) -> Iterator[_Breach]:
    last = case.today + dt.timedelta(days=case.policy.max_waiver_days or 0)
    for n, waiver in enumerate(case.profile.verify.waivers):
        if waiver.expires > last:
            yield _Breach(("verify", "waivers", n, "expires"), f"{waiver.expires} is after {last}, the last day allowed")


def _tags(case: _Case) -> Iterator[_Breach]:
    """Both are required of what is launched: a profile that launches nothing makes nothing that could carry a tag."""
    for rule in case.policy.required_tags or () if case.profile.places else ():
        key, values = (rule, ()) if isinstance(rule, str) else (rule.key, rule.values)
        value = case.profile.tags.get(key)
        if key in _TAGS:
            continue
        if value is None:
            yield _Breach(("tags",), f"the tag {key} is missing")
        elif values and not _fits(value, values):
            yield _Breach(("tags", key), f"{value}; {_allowed(values)}")


def _disk_key(case: _Case) -> Iterator[_Breach]:
    allowed = case.policy.require_disk_key
    for n, place in enumerate(case.profile.places):
        key = getattr(place, "disk_key", None)
        if key is None:
            which = f"; {_allowed(allowed)}" if isinstance(allowed, tuple) else ""
            yield _Breach(("places", n, "disk_key"), f"the disks have no key of the organisation's own{which}")
        elif isinstance(allowed, tuple) and not _fits(key, allowed):
            yield _Breach(("places", n, "disk_key"), f"{key}; {_allowed(allowed)}")


def _images(case: _Case) -> Iterator[_Breach]:
    yield from (_Breach(*found) for found in launch_rules.images(case.lock, case.locations(), case.policy.allowed_images or ()))


def _signed_modules(case: _Case) -> Iterator[_Breach]:
    yield from (_Breach(*found) for found in launch_rules.modules(case.lock))


def _identities(case: _Case) -> Iterator[_Breach]:
    for n, place in enumerate(case.profile.places):
        given = getattr(place, "identity", "none")
        name = given if isinstance(given, str) else str(next(iter(given.model_dump().values())))
        # `*` is a pattern for names, and `none` is none.
        if not _fits(name, allowed := case.policy.allow_identity or ()) or (name == "none" and "none" not in allowed):
            yield _Breach(("places", n, "identity"), f"{name}; {_allowed(allowed)}")


def _signatures(_: _Case) -> Iterator[_Breach]:
    """People sign the bundle, so `approval.py` counts the signatures."""
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
    "require_disk_key": _disk_key,
    "allowed_images": _images,
    "signed_modules": _signed_modules,
    "allow_identity": _identities,
    "signatures": _signatures,
}
