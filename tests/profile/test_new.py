"""A first profile: for every GPU and every purpose it holds, keeps an organisation's rules, and asks for what the catalog knows."""

from __future__ import annotations

import datetime as dt
import itertools
import re
from pathlib import Path
from typing import Any

import pytest

from provision.catalog import overlay, read
from provision.clouds import machines
from provision.clouds.terms import RefusalKind
from provision.errors import StackConflictError, UsageError
from provision.launch.plan import plan
from provision.profile import load, new
from provision.profile.model import ApplicationClocks, Owner
from provision.review import rules
from provision.review.policy import parse as parse_policy

TODAY = dt.date(2026, 11, 22)
OWNER = Owner(name="A team", email="team@example.com")
RULES = parse_policy(
    b"schema: 1\nname: isa\nclouds: [aws, digitalocean, gcp]\nmarkets: [on-demand]\nos: [ubuntu *]\nmax_deadline_h: 24\n"
    b"ssh_from: {widest_ipv4: 24}\ncounters: [admin-only, group]\nowner_domains: [example.com]\n",
    Path("policy.yml"),
)
# A refresh of GCP, whose shipped data has no zones for most GPUs.
ZONES = {
    f"nvidia-{name}": ["us-central1-a"]
    for name in ("tesla-p4", "tesla-p100", "tesla-t4", "tesla-v100", "tesla-a100", "a100-80gb", "l4", "h100-80gb", "rtx-pro-6000")
}
GPUS = {record.model: record for record in read.gpus().gpus}
# On 26.04 the oldest toolkit came with a driver that is newer than the one that NVIDIA calls production.
NEWEST = ("ubuntu", "24.04")
# What neither has a GSP nor, therefore, counters for a group.
OLD = {"p4", "p100", "v100"}


def refreshed() -> None:
    overlay.write(overlay.Overlay(clouds={"gcp": {"zones": ZONES}}))


def wish(gpu: str, *regions: str, purpose: str = "train", **more: Any) -> new.Wish:
    return new.Wish(f"{gpu}-{purpose}", gpu, machines.choose(gpu, regions), purpose, more.pop("owner", OWNER), **more)


def sold(gpu: str) -> list[str]:
    """The first region of each cloud that has the GPU."""
    return [regions[0] for regions in machines.sellers(gpu).values()]


def test_after_a_refresh_every_gpu_of_today_is_sold_somewhere() -> None:
    refreshed()
    assert len([gpu for gpu in GPUS if sold(gpu)]) >= 16


@pytest.mark.parametrize("gpu", [model for model, record in GPUS.items() if record.machine == "x86_64"])
def test_every_gpu_has_a_profile_for_every_purpose_that_holds_and_keeps_the_rules(gpu: str) -> None:
    refreshed()
    regions = sold(gpu)
    if not regions:  # a card that no cloud has yet
        with pytest.raises(UsageError):
            machines.choose(gpu, ["us-east-1"])
        return
    for purpose in new.PURPOSES:
        made = new.write(wish(gpu, *regions, purpose=purpose), TODAY)
        profile, lock = made.profile, made.lock
        assert load.parse(made.text.encode(), Path("x.yml")) == profile
        broken = rules.judge(RULES, profile, lock, made.text.encode(), TODAY)
        assert [violation.rule for violation in broken] == (["counters"] if gpu in OLD and purpose == "profile" else [])
        assert [place.not_available for place in lock.places] == [""] * len(lock.places)
        # A group's counters need the open modules, where AWS's own image has the others.
        advised = [warning for warning in lock.warnings if "loads the proprietary kernel modules" not in warning or purpose != "profile"]
        assert (lock.profile.sha256, advised) == (load.digest(profile), [])
        assert profile.stack.driver == lock.driver.branch
        assert (profile.os.name, profile.os.version) == NEWEST
        refusals = {planned.refusal.kind for planned in plan(profile, lock).places if planned.refusal}
        assert refusals <= {RefusalKind.PRICE_UNKNOWN}
        assert profile.limits.unknown_price == "refuse"
        clocks, card = profile.gpu.application_clocks, GPUS[gpu].clocks
        assert clocks == (ApplicationClocks(memory_mhz=card.memory_mhz, graphics_mhz=card.graphics_mhz) if card else "max")
        assert ("pytorch" in lock.frameworks, profile.stack.ffmpeg) == (purpose != "video", purpose == "video")


@pytest.mark.parametrize("gpu", [model for model, record in GPUS.items() if record.machine == "x86_64"])
def test_the_comments_agree_with_the_lock_for_every_gpu_on_every_machine_of_every_cloud(gpu: str) -> None:
    refreshed()
    for cloud, regions in machines.sellers(gpu).items():
        each = {m.offer.instance_type: m for region in regions for m in machines.choose(gpu, [region], cloud=cloud)}
        for machine, purpose in itertools.product(each.values(), new.PURPOSES):
            made = new.write(new.Wish("mine", gpu, [machine], purpose, OWNER), TODAY)
            driver = r"^  driver: '(.+)' # with the (open|proprietary) kernel modules(?:; not a newer branch: driver ([0-9]+))?"
            says = re.search(driver, made.text, re.MULTILINE)
            assert says, made.text
            branch, flavour, newer = says.groups()
            assert (branch, flavour) == (made.lock.driver.branch, made.lock.driver.flavour), (machine.offer, purpose)
            assert newer is None or int(newer) > int(branch)
            assert set(made.profile.stack.profilers) == set(made.lock.profilers)
            other = re.search(r"^  profilers: .* # (.*) do not all work on", made.text, re.MULTILINE)
            assert (other is None) == (made.profile.stack.profilers == new.PURPOSES[purpose].profilers[0])
            cuda = re.search(r"kernels for compute capability ([0-9.]+)$", made.text, re.MULTILINE)
            assert cuda is None or cuda[1] == made.lock.gpu.compute_capability


def test_a_gpu_that_nothing_works_on_is_refused_with_the_reason() -> None:
    with pytest.raises(StackConflictError, match="arm64"):
        new.write(wish("t4g", "us-east-1"), TODAY)


@pytest.mark.parametrize(
    ("gpu", "region", "profilers", "counters"),
    [
        ("a10g", "us-east-1", ("nsys", "ncu"), "group"),
        ("v100", "us-central1", ("nsys", "ncu"), "all-users"),
        ("p100", "us-central1", ("nsys", "nvprof"), "all-users"),
    ],
)
def test_a_profile_for_profiling_asks_for_the_best_that_the_gpu_has(
    gpu: str, region: str, profilers: tuple[str, ...], counters: str
) -> None:
    refreshed()
    made = new.write(wish(gpu, region, purpose="profile"), TODAY)
    assert (made.profile.stack.profilers, made.profile.gpu.counters) == (profilers, counters)
    assert ("CVE-2018-6260" in made.text) == (counters == "all-users")


# --- money -----------------------------------------------------------------------------------------------------------


def test_the_limit_is_just_above_the_dearest_region_and_says_what_each_costs() -> None:
    made = new.write(wish("a10g", "us-east-1", "ap-northeast-1"), TODAY)
    assert made.profile.limits.price_per_hour_usd == 1.5
    assert "with disks and address: us-east-1 1.033, ap-northeast-1 1.490" in made.text
    assert made.warnings == ()
    assert not any(planned.refusal for planned in plan(made.profile, made.lock).places)


def test_a_price_from_memory_is_shown_as_such() -> None:
    assert "us-east-1 ~0.832" in new.write(wish("l4", "us-east-1"), TODAY).text


def test_where_no_price_is_known_nothing_is_launched_and_the_warning_says_how_to_learn_it() -> None:
    made = new.write(wish("b200", "us-east-1"), TODAY)
    (planned,) = plan(made.profile, made.lock).places
    assert planned.refusal is not None
    assert planned.refusal.kind is RefusalKind.PRICE_UNKNOWN
    unknown, limit = made.warnings
    assert "nothing is launched in us-east-1" in unknown
    assert "`gpuprov catalog refresh --only prices`" in unknown
    assert limit == "limits.price_per_hour_usd is 1.00 for want of a price; --max-price sets it"
    assert "the price is not known for us-east-1" in made.text


def test_a_price_that_is_known_in_part_is_not_known() -> None:
    overlay.write(overlay.Overlay(clouds={"gcp": {"zones": {"nvidia-tesla-t4": ["northamerica-south1-a"]}}}))
    made = new.write(wish("t4", "northamerica-south1"), TODAY)
    assert "the price is not known for northamerica-south1" in made.text
    assert "nothing is launched in northamerica-south1" in made.warnings[0]


def test_a_limit_that_is_given_is_kept_and_what_is_dearer_is_said() -> None:
    made = new.write(wish("a10g", "us-east-1", "ap-northeast-1", limit_usd=1.2), TODAY)
    assert made.profile.limits.price_per_hour_usd == 1.2
    assert made.warnings == ("ap-northeast-1 costs more than the limit, and is passed over",)
    assert len(new.write(wish("b200", "us-east-1", limit_usd=60.0), TODAY).warnings) == 1
    with pytest.raises(UsageError, match=r"more than 1\.00 USD an hour; the cheapest is 1\.033 in us-east-1"):
        new.write(wish("a10g", "us-east-1", "ap-northeast-1", limit_usd=1.0), TODAY)


# --- the rest of the file --------------------------------------------------------------------------------------------


def test_the_data_disk_is_inside_the_machine_only_where_every_machine_has_one() -> None:
    refreshed()
    sources = [new.write(wish("rtx-pro-6000", *r), TODAY).profile.disks.data for r in (["us-east-1"], ["us-east-1", "us-central1"])]
    assert [data.source if data else "" for data in sources] == ["instance-store", "volume"]


def test_the_count_is_what_every_machine_has() -> None:
    made = new.write(wish("v100", "us-east-1", "us-central1"), TODAY)
    assert made.profile.gpu.count == 1
    assert "p3dn.24xlarge has 8" in made.text
    assert new.write(wish("v100", "us-east-1"), TODAY).profile.gpu.count == 8


@pytest.mark.parametrize(("gpu", "said"), [("t4", ""), ("h100", "has no NVENC"), ("rtx-pro-6000", "may have no NVENC")])
def test_a_card_that_may_not_encode_is_said_where_the_purpose_is_video(gpu: str, said: str) -> None:
    about = [warning for warning in new.write(wish(gpu, "us-east-1", purpose="video"), TODAY).warnings if "NVENC" in warning]
    assert [said in warning and "L40S" in warning for warning in about] == ([True] if said else [])
    assert not any("NVENC" in warning for warning in new.write(wish(gpu, "us-east-1"), TODAY).warnings)


def test_a_region_that_must_be_enabled_is_said() -> None:
    made = new.write(wish("t4", "ap-east-1", "us-east-1"), TODAY)
    assert made.warnings == ("ap-east-1 must be enabled in the account once",)


@pytest.mark.parametrize("name", ["yes: [no] # {x}", "'a\" \\", "- b", "*c"])
def test_what_an_author_types_stays_a_value(name: str) -> None:
    made = new.write(wish("t4", "us-east-1", owner=Owner(name=name, email="a@example.com")), TODAY)
    assert made.profile.owner.name == name


@pytest.mark.parametrize(
    ("text", "owner"),
    [("A team <a@example.com>", ("A team", "a@example.com")), ("a.b@example.com", ("a.b", "a.b@example.com"))],
)
def test_an_owner_is_a_name_and_an_address_or_an_address_alone(text: str, owner: tuple[str, str]) -> None:
    made = new.owner_of(text)
    assert (made.name, made.email) == owner


@pytest.mark.parametrize("text", ["", "a team", "a@b", "a <b>"])
def test_what_is_no_owner_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        new.owner_of(text)
