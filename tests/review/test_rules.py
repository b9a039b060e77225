"""Each rule of the organisation with cases that keep it and cases that break it."""

import datetime as dt
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from provision import paths
from provision.clouds.terms import Price, PricePart
from provision.launch.plan import Plan, plan
from provision.profile import load, lockfile
from provision.profile.locked import Lock, LockedBuild, LockedExtra
from provision.profile.model import Profile
from provision.review import policy as policies
from provision.review import rules
from provision.review.policy import Policy
from provision.review.rules import Violation
from provision.structs import replace

TODAY = dt.date(2026, 9, 1)


PATH = paths.profiles_dir() / "t4-train.yml"


RAW = PATH.read_bytes()


LOCK = lockfile.read(lockfile.path_for(PATH))


def profile_with(**changes: Any) -> Profile:
    """The shipped T4 profile with values in place of others: `limits__deadline_h=3`."""
    document = yaml.safe_load(RAW)
    for key, value in changes.items():
        *outer, last = key.split("__")
        node = document
        for part in outer:
            node = node.setdefault(part, {})
        node[last] = value
    return load.parse(yaml.safe_dump(document).encode(), PATH)


def planned(profile: Profile, lock: Lock, price_usd: float | None) -> Plan:
    """The plan of a profile, with one price for all of its places."""
    price = Price((PricePart("machine", price_usd, "a test"),)) if price_usd is not None else None
    real = plan(profile, lock)
    return replace(real, places=tuple(replace(place, price=price) for place in real.places))


def broken(rule: dict[str, Any], lock: Lock = LOCK, price: float | None = 0.5, **changes: Any) -> list[Violation]:
    policy = Policy.model_validate({"schema": 1, "name": "isa", **rule})
    profile = profile_with(**changes)
    lines = load.lines(RAW)
    return rules.check(policy, planned(profile, lock, price), today=TODAY, lines=lines)


MIRROR = "https://mirror.example.com/nvidia"


WHEELS = "https://mirror.example.com/pypi"


MIRRORED = LOCK.model_copy(
    update={
        "repositories": tuple(
            r.model_copy(update={"url": f"{MIRROR}/ubuntu2404/x86_64/", "key": f"{MIRROR}/key.pub"}) for r in LOCK.repositories
        ),
        "wheel_index": f"{WHEELS}/simple",
    }
)


# A component that is built, with the tools of a build.
BUILT = LOCK.model_copy(
    update={
        "extras": {
            "flash-attn": LockedExtra(
                version="2.8",
                environment="pytorch",
                package="flash-attn",
                unit=None,
                wheels=(),
                build=LockedBuild(
                    source=f"flash-attn==2.8 --hash=sha256:{'0' * 64}",
                    tools=LOCK.frameworks["pytorch"].model_copy(update={"wheels": (f"ninja==1.13.2 --hash=sha256:{'0' * 64}",)}),
                    variables={},
                    job_gb=9,
                    key="k",
                ),
            )
        }
    }
)


RESOLVED = LOCK.model_copy(update={"unresolved": ()})


PRIVATE = {
    "places": [{**yaml.safe_load(RAW)["places"][0], "regions": ["ap-east-1"]}],
    "network": {"address": "private", "via": "ssm", "subnet": "subnet-0123456789abcdef0"},
}


AWS_ONLY = {"places": yaml.safe_load(RAW)["places"][:1]}


KEY = "arn:aws:kms:ap-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"


KEYED = {"places": [{**yaml.safe_load(RAW)["places"][0], "regions": ["ap-east-1"], "disk_key": KEY}]}


ACTING = {
    "places": [
        {**yaml.safe_load(RAW)["places"][0], "identity": {"instance_profile": "trainer", "role": "gpu-trainer"}},
        {**yaml.safe_load(RAW)["places"][1], "identity": {"service_account": "trainer@isa-gpu.iam.gserviceaccount.com"}},
    ]
}


def waiver(expires: dt.date, owner: str = "isa@example.com") -> dict[str, Any]:
    return {"verify__waivers": [{"check": "application-clocks", "reason": "r", "owner": owner, "expires": expires}]}


# The image of no place is known; the modules are signed.
IMAGELESS = LOCK.model_copy(update={"places": tuple(p.model_copy(update={"image": "", "image_id": None}) for p in LOCK.places)})
SIGNED = LOCK.model_copy(update={"driver": LOCK.driver.model_copy(update={"build": "signed"})})


# rule, what breaks it (changes, price, lock) → keys that are named, whether it is known; and what keeps it.
BROKEN: list[tuple[dict[str, Any], dict[str, Any], list[str], bool]] = [
    ({"clouds": ["aws"]}, {}, ["places.1.cloud"], True),
    ({"regions": ["ap-east-*", "asia-east2-?"]}, {}, ["places.0.regions.1"], True),
    ({"regions": ["ap-*"]}, {}, ["places.1.zones.0", "places.1.zones.1"], True),
    ({"instance_types": ["g4dn.*"]}, {}, ["places.1.instance_type"], True),
    ({"markets": ["spot"]}, {}, ["places.0.market", "places.1.market"], True),
    ({"os": ["ubuntu 22.04", "rocky *"]}, {}, ["os"], True),
    ({"max_price_per_hour_usd": 0.9}, {}, ["limits.price_per_hour_usd"], True),
    ({"max_price_per_hour_usd": 1.0}, {"price": 1.01, **AWS_ONLY}, ["places.0.regions.0", "places.0.regions.1"], True),
    ({"max_price_per_hour_usd": 1.0}, {"price": None, **AWS_ONLY}, ["places.0.regions.0", "places.0.regions.1"], False),
    ({"max_price_to_deadline_usd": 5.99}, AWS_ONLY, ["places.0.regions.0", "places.0.regions.1"], True),
    ({"max_price_to_deadline_usd": 5.99}, {"price": None, **AWS_ONLY}, ["places.0.regions.0", "places.0.regions.1"], False),
    ({"max_deadline_h": 11}, {}, ["limits.deadline_h"], True),
    ({"public_address": "forbidden"}, {}, ["network"], True),
    ({"encrypted_disks": "all"}, {}, ["disks.data.source"], False),
    ({"ssh_from": {"caller": False}}, {}, ["network.ssh_from.0"], True),
    ({"ssh_from": {"within": ["10.0.0.0/8"]}}, {}, ["network.ssh_from.0"], False),
    ({"ssh_from": {"widest_ipv4": 24}}, {"network__ssh_from": ["10.1.0.0/23"]}, ["network.ssh_from.0"], True),
    ({"ssh_from": {"widest_ipv6": 64}}, {"network__ssh_from": ["10.0.0.0/8", "2001:db8::/63"]}, ["network.ssh_from.1"], True),
    ({"ssh_from": {"within": ["10.0.0.0/8"]}}, {"network__ssh_from": ["11.0.0.0/24"]}, ["network.ssh_from.0"], True),
    ({"ssh_from": {"within": ["10.0.0.0/8"]}}, {"network__ssh_from": ["10.1.0.0/24", "2001:db8::/64"]}, ["network.ssh_from.1"], True),
    ({"counters": ["group", "admin-only"]}, {}, ["gpu.counters"], True),
    ({"mirrors": {"packages": [MIRROR]}}, {}, ["sources.apt", "sources.apt"], True),
    ({"mirrors": {"wheels": [WHEELS]}}, {}, ["sources.wheels"], True),
    ({"mirrors": {"wheels": [WHEELS[:-1]]}}, {"lock": MIRRORED}, ["sources.wheels.url"], True),
    ({"mirrors": {"packages": [f"{MIRROR}/ubuntu2404/"]}}, {"lock": MIRRORED}, ["sources.apt"], True),
    ({"forbidden": {"frameworks": ["pytorch"]}}, {}, ["stack.frameworks.pytorch"], True),
    ({"forbidden": {"extras": ["apex"]}}, {"stack__extras": ["nccl", "apex"]}, ["stack.extras.1"], True),
    ({"forbidden": {"packages": ["torc?", "tmux"]}}, {}, ["stack", "stack"], True),
    ({"forbidden": {"packages": ["flash-*", "ninja"]}}, {"lock": BUILT}, ["stack", "stack"], True),
    ({"nothing_unresolved": True}, {}, ["stack", "stack", "stack"], False),
    ({"owner_domains": ["example.org"]}, {}, ["owner.email"], True),
    ({"owner_domains": ["example.com"]}, waiver(TODAY, "x@evil-example.com"), ["verify.waivers.0.owner"], True),
    ({"max_waiver_days": 30}, waiver(TODAY + dt.timedelta(days=31)), ["verify.waivers.0.expires"], True),
    ({"max_waiver_days": 0}, waiver(TODAY + dt.timedelta(days=1)), ["verify.waivers.0.expires"], True),
    ({"required_tags": ["gpuprov:owner", "cost-center"]}, {}, ["tags"], True),
    ({"required_tags": ["CostCenter"]}, {"tags": {"costcenter": "1"}}, ["tags"], True),
    ({"required_tags": [{"key": "Project", "values": ["vision-*", "nlp"]}]}, {"tags": {"Project": "vision"}}, ["tags.Project"], True),
    ({"required_tags": [{"key": "Project", "values": ["*"]}]}, {"tags": {"Other": "vision"}}, ["tags"], True),
    ({"allow_identity": ["gpu-*"]}, {}, ["places.0.identity", "places.1.identity"], True),
    ({"allow_identity": ["*"]}, AWS_ONLY, ["places.0.identity"], True),
    ({"allow_identity": ["none", "gpu-*"]}, ACTING, ["places.0.identity", "places.1.identity"], True),
    ({"require_disk_key": True}, {}, ["places.0.disk_key", "places.1.disk_key"], True),
    ({"require_disk_key": ["arn:aws:kms:*:210987654321:key/*"]}, KEYED, ["places.0.disk_key"], True),
    ({"require_disk_key": ["arn:*"]}, AWS_ONLY, ["places.0.disk_key"], True),
    ({"allowed_images": ["/aws/service/canonical/*"]}, {}, ["places.1.zones.0", "places.1.zones.1"], True),
    ({"allowed_images": ["*"]}, {"lock": IMAGELESS, **AWS_ONLY}, ["places.0.regions.0", "places.0.regions.1"], False),
    ({"signed_modules": True}, {}, ["stack.driver_build"], True),
]


KEPT: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"clouds": ["aws", "gcp"]}, {}),
    ({"regions": ["ap-*", "asia-east2-*"]}, {}),
    ({"instance_types": ["g4dn.xlarge", "n1-*"]}, {}),
    ({"markets": ["on-demand"]}, {}),
    ({"os": ["ubuntu 2?.04"]}, {}),
    ({"max_price_per_hour_usd": 1.0}, {}),
    ({"max_price_to_deadline_usd": 6.0}, {}),
    ({"max_deadline_h": 12}, {}),
    ({"public_address": "allowed"}, {}),
    ({"public_address": "forbidden"}, PRIVATE),
    ({"ssh_from": {"caller": False}}, PRIVATE),
    ({"encrypted_disks": "volumes"}, {}),
    ({"encrypted_disks": "all"}, {"disks__data": None}),
    ({"encrypted_disks": "all"}, {"disks__data": {"source": "volume", "size_gb": 10, "mount": "/data"}}),
    ({"ssh_from": {}}, {}),
    ({"ssh_from": {"widest_ipv4": 24, "within": ["10.0.0.0/8"], "caller": False}}, {"network__ssh_from": ["10.1.0.0/24"]}),
    ({"counters": ["all-users"]}, {}),
    ({"mirrors": {"packages": [MIRROR], "wheels": [f"{WHEELS}/"]}}, {"lock": MIRRORED}),
    ({"forbidden": {"frameworks": ["jax"], "extras": ["apex"], "packages": ["tensorrt*", "tor"]}}, {}),
    ({"nothing_unresolved": True}, {"lock": RESOLVED}),
    ({"nothing_unresolved": False}, {}),
    ({"owner_domains": ["example.com"]}, waiver(TODAY)),
    ({"max_waiver_days": 30}, waiver(TODAY + dt.timedelta(days=30))),
    ({"max_waiver_days": 0}, waiver(TODAY)),
    ({"required_tags": ["gpuprov:owner"]}, {}),
    ({"required_tags": ["CostCenter"]}, {"tags": {"CostCenter": "4711"}}),
    ({"required_tags": [{"key": "Project", "values": ["vision-*", "nlp"]}]}, {"tags": {"Project": "vision-2"}}),
    ({"required_tags": ["CostCenter"]}, {"places": []}),
    ({"allow_identity": ["none"]}, {}),
    ({"allow_identity": ["trainer", "*@isa-gpu.iam.gserviceaccount.com"]}, ACTING),
    ({"require_disk_key": False}, {}),
    ({"require_disk_key": True}, KEYED),
    ({"require_disk_key": ["alias/isa-*", "arn:aws:kms:*:123456789012:key/*"]}, KEYED),
    ({"require_disk_key": True}, {"places": []}),
    ({"allowed_images": ["/aws/service/canonical/*", "ubuntu-os-cloud/ubuntu-2404-*"]}, {}),
    ({"signed_modules": False}, {}),
    ({"signed_modules": True}, {"lock": SIGNED}),
    ({"signatures": {"required": 2}}, {}),
]


@pytest.mark.parametrize(("rule", "changes", "keys", "known"), BROKEN, ids=lambda value: str(value)[:60])
def test_a_broken_rule_is_named_with_its_key(rule: dict[str, Any], changes: dict[str, Any], keys: list[str], *, known: bool) -> None:
    found = broken(rule, **changes)
    assert [v.key for v in found] == keys
    assert {v.rule for v in found} == set(rule)
    assert {v.known for v in found} == {known}
    assert all(v.reason and v.reason.isprintable() for v in found)


@pytest.mark.parametrize(("rule", "changes"), KEPT, ids=lambda value: str(value)[:60])
def test_a_kept_rule_is_not_mentioned(rule: dict[str, Any], changes: dict[str, Any]) -> None:
    assert broken(rule, **changes) == []


def test_every_rule_has_a_case_of_each_kind_and_a_function() -> None:
    keys = set(Policy.model_fields) - {"schema_version", "name", "contact", "reasons"}
    assert keys == set(get_args(policies.Rule)) == set(rules.RULES)
    assert {key for rule, *_ in BROKEN for key in rule} == keys - {"signatures"}
    assert {key for rule, _ in KEPT for key in rule} == keys


@pytest.mark.parametrize(
    "url",
    [
        "https://mirror.example.com/nvidia-evil/x",
        "https://mirror.example.com.evil.example/nvidia/x",
        "http://mirror.example.com/nvidia/x",
        "https://mirror.example.com/nvidia/../x",
        "https://mirror.example.com/nvidia/%2e%2e/x",
        "https://mirror.example.com@evil.example/nvidia",
    ],
)
def test_a_url_that_only_looks_like_the_mirrors_is_not(url: str) -> None:
    lock = MIRRORED.model_copy(update={"repositories": (MIRRORED.repositories[0].model_copy(update={"url": url}),)})
    assert [v.rule for v in broken({"mirrors": {"packages": [MIRROR, "https://mirror.example.com/nvidia/"]}}, lock)] == ["mirrors"]


def test_a_violation_says_line_key_reason_rule_and_the_organisations_words() -> None:
    line = next(n for n, text in enumerate(RAW.decode().splitlines(), 1) if "deadline_h: 12" in text)
    (found,) = broken({"max_deadline_h": 8, "reasons": {"max_deadline_h": "Nobody watches it at night."}})
    assert str(found) == (
        f"line {line}: limits.deadline_h: 12 h; at most 8 h are allowed (rule max_deadline_h: Nobody watches it at night.)"
    )
    (found,) = broken({"mirrors": {"wheels": [WHEELS]}})
    assert str(found).startswith("sources.wheels: wheels come from the public index")
    (found,) = broken({"encrypted_disks": "all"})
    assert "disks.data.source: not known: " in str(found)


def test_the_plans_own_prices_are_judged() -> None:
    def judged(most: float) -> set[tuple[str, bool]]:
        rules_file = policies.parse(f"schema: 1\nname: isa\nmax_price_per_hour_usd: {most}\n".encode(), Path("p.yml"))
        return {(v.key, v.known) for v in rules.judge(rules_file, profile, LOCK, RAW, TODAY)}

    profile = load.load(PATH)
    whole = [place.whole_price_usd for place in plan(profile, LOCK).places]
    assert whole == [pytest.approx(usd) for usd in (0.843932, 0.767301, 0.96203, 0.96203)]
    assert not any(key.startswith("places") for key, _ in judged(100))
    assert {("places.1.zones.0", True), ("places.1.zones.1", True), ("places.0.regions.0", True)} <= judged(0.8)
    assert ("places.0.regions.1", True) not in judged(0.8)


def test_a_part_of_a_price_says_nothing_about_the_machine_unless_it_is_over_the_limit_by_itself() -> None:
    part = Price((PricePart("1 x t4", 0.35, "a test"),), missing=("vCPUs", "memory"))
    real = plan(profile_with(), LOCK)
    partial = replace(real, places=(replace(real.places[2], price=part),))
    for most, known in ((1.0, False), (0.2, True)):
        policy = Policy.model_validate({"schema": 1, "name": "isa", "max_price_per_hour_usd": most})
        assert [v.known for v in rules.check(policy, partial, today=TODAY) if v.key.startswith("places")] == [known]
