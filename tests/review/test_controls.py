"""Every check has a key of the profile behind it, and what is not judged is what the judge leaves out."""

from typing import Any

import pytest

from provision import paths
from provision.converge.declared import declaration
from provision.converge.roles import ROLES, all_roles
from provision.profile.model import Profile
from provision.review.content import content
from provision.review.controls import KEYS
from provision.verify.checks import CHECKS
from provision.verify.judge import judge

from ..verify import good  # noqa: TID252 - the tests have no root package
from .examples import review, shipped


def test_every_check_has_a_key_that_exists_and_every_role_a_thread() -> None:
    named = {check for role in ROLES for check in declaration(role).checks} | set(KEYS)
    assert {check.id for check in CHECKS} == named
    found = review()
    assert [control.check for control in found.controls] == [check.id for check in CHECKS]
    for control in found.controls:
        for key in control.keys:
            at: Any = shipped("t4-train")[0]
            for part in key.split("."):
                assert hasattr(at, part), key
                at = getattr(at, part)


LIBRARIES = {"tensorrt", "transformer-engine", "flash-attention"}  # the profile asks for none of them


@pytest.mark.parametrize("counters", ["all-users", "group", "admin-only"])
@pytest.mark.parametrize("tier", ["quick", "standard", "perf"])
def test_what_is_not_judged_is_what_the_judge_leaves_out(tier: str, counters: str) -> None:
    profile: Profile = good.PROFILE
    gpu = profile.gpu.model_copy(update={"counters": counters})
    profile = profile.model_copy(update={"gpu": gpu, "verify": profile.verify.model_copy(update={"tier": tier})})
    found = content(profile, shipped("t4-train")[1], b"")
    judged = {finding.check: finding.outcome for finding in judge(good.facts(), profile).findings}
    for control in found.controls:
        if control.tier == "perf":  # these facts have no measurements
            assert control.applies == (tier == "perf" and control.check not in {"all-reduce", "data-parallel", "triton"} | LIBRARIES)
        elif not control.applies:
            assert judged.get(control.check, "not-applicable") == "not-applicable", control
        elif control.check not in {"nvlink", "fabric"}:  # a T4 has neither: the hardware says so
            assert judged.get(control.check) != "not-applicable", control


@pytest.mark.parametrize("name", sorted(path.stem for path in paths.profiles_dir().glob("*.yml") if not path.stem.endswith(".lock")))
@pytest.mark.parametrize("tier", ["quick", "standard", "perf"])
def test_what_the_review_leaves_out_of_a_shipped_profile_verify_leaves_out_for_the_same_reason(name: str, tier: str) -> None:
    profile, lock, source = shipped(name)
    profile = profile.model_copy(update={"verify": profile.verify.model_copy(update={"tier": tier})})
    said = {control.check: control.why for control in content(profile, lock, source).controls}
    judged = {finding.check: finding for finding in judge(good.facts(), profile).findings}
    for check in CHECKS:
        why, finding = check.unasked(profile), judged[check.id]
        if why:
            assert said[check.id] == why
        if why and not check.finds_unasked:
            assert finding.outcome == "not-applicable"
            assert finding.observed == why or finding.observed.startswith("not checked: tier")
        if check.role is not None and check.role not in all_roles(profile, without_gpu=False):
            assert why, check.id  # nothing asks for the role, so the check says why
