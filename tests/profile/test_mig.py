"""GPUs that are split: which slices fit on which card, what is refused beside them, and what lock, roles and review make of them."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
import yaml

from provision.catalog import read
from provision.converge.roles import all_roles
from provision.converge.variables import variables
from provision.errors import ProfileInvalidError, StackConflictError
from provision.launch.plan import plan
from provision.profile import load
from provision.profile.lock import build
from provision.profile.mig import slices
from provision.profile.model import Profile
from provision.review.content import content

TODAY = dt.date(2026, 11, 21)


def plain(model: str, split: dict[str, int], **gpu: Any) -> dict[str, Any]:
    data = load.load(load.find("t4-train")).dump() | {"places": []}
    data["gpu"] |= {"model": model, "application_clocks": "default", **gpu}
    data["gpu"]["mig"] = [{"slice": name, "count": count} for name, count in split.items()]
    data["stack"] |= {"ffmpeg": False, "opencv": "none", "frameworks": {}, "extras": []}
    return data


def loaded(folder: Path, data: dict[str, Any]) -> Profile:
    path = folder / "x.yml"
    path.write_text(yaml.safe_dump(data))
    return load.load(path)


def refused(folder: Path, data: dict[str, Any]) -> str:
    with pytest.raises(ProfileInvalidError) as caught:
        loaded(folder, data)
    return str(caught.value)


CARDS = [card for card in read.gpus().gpus if card.mig]


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.model)
def test_each_slice_fits_alone_as_often_as_its_maker_says_and_once_more_does_not(card: Any, tmp_path: Path) -> None:
    for name, most in card.mig.items():
        assert len(slices(loaded(tmp_path, plain(card.model, {name: most})))) == most
        assert f"than {card.name} has" in refused(tmp_path, plain(card.model, {name: most + 1}))


@pytest.mark.parametrize(
    ("model", "split"),
    [
        ("a100-40gb", {"3g.20gb": 1, "2g.10gb": 1, "1g.5gb": 2}),  # mig-parted's own all-balanced
        ("h100", {"1g.10gb": 2, "2g.20gb": 1, "3g.40gb": 1}),
        ("h200", {"4g.71gb": 1, "3g.71gb": 1}),
        ("b200", {"2g.45gb": 3, "1g.23gb": 1}),
        ("rtx-pro-6000", {"1g.24gb": 2, "2g.48gb": 1}),
    ],
)
def test_mixed_slices_that_fit_are_created_largest_first(model: str, split: dict[str, int], tmp_path: Path) -> None:
    made = slices(loaded(tmp_path, plain(model, split)))
    assert sorted(made, key=lambda name: int(name[0]), reverse=True) == list(made)
    assert {name: made.count(name) for name in made} == split


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (
            plain("t4", {"1g.10gb": 1}),
            "gpu.mig: T4 cannot be split: the catalog knows no MIG of it; remove mig, or choose one of a100-40gb",
        ),
        (plain("v100", {"1g.5gb": 1}), "V100 cannot be split"),
        (plain("a10g", {"1g.5gb": 1}), "A10G cannot be split"),
        (plain("l4", {"1g.5gb": 1}), "L4 cannot be split"),
        (plain("l40s", {"1g.5gb": 1}), "L40S cannot be split"),
        (plain("h100", {"1g.5gb": 7}), "gpu.mig.0.slice: H100 SXM has no slice 1g.5gb; write one of: 1g.10gb, 1g.20gb"),
        (plain("h100", {"3g.40gb": 2, "1g.10gb": 1}), "2 x 3g.40gb + 1 x 1g.10gb needs 9 of the 8 parts of the memory"),
        (plain("h100", {"4g.40gb": 1, "2g.20gb": 2}), "needs 8 compute slices, and H100 SXM has 7"),
        (plain("h100", {"7g.80gb": 1, "1g.10gb": 1}), "needs 8 compute slices"),
        (plain("h100", {"1g.10gb": 7}, application_clocks="max"), "gpu.application_clocks: clocks cannot be set on a GPU that is split"),
        (plain("h100", {"a": 1}), "a slice as NVIDIA names it, such as 1g.10gb"),
        (plain("h100", {"1g.10gb": 0}), "that is at least 1"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(data: dict[str, Any], said: str, tmp_path: Path) -> None:
    assert said in refused(tmp_path, data)


def test_what_joins_gpus_does_not_go_with_slices(tmp_path: Path) -> None:
    data = plain("h100", {"1g.10gb": 7})
    data["stack"] |= {"extras": ["nccl"], "frameworks": {"pytorch": "auto"}}
    assert "stack.extras: nccl joins GPUs, and a MIG device has no NVLink" in refused(tmp_path, data)


def test_a_driver_that_is_older_than_the_split_is_refused() -> None:
    data = plain("h200", {"1g.18gb": 7})
    data["stack"] |= {"driver": "535", "cuda": "12.6", "profilers": []}
    with pytest.raises(StackConflictError, match=r"MIG on H200 SXM needs driver 550\.90\.07 or later, not 535"):
        build(Profile.model_validate(data), TODAY)
    data["gpu"].pop("mig")
    assert build(Profile.model_validate(data), TODAY).driver.branch == "535"


def test_a_profile_without_slices_has_the_bytes_that_it_had() -> None:
    whole = Profile.model_validate({**plain("h100", {}), "gpu": {"model": "h100"}})
    assert "mig" not in whole.dump()["gpu"]
    lock = build(whole, TODAY)
    assert "mig" not in lock.as_dict()["gpu"]
    assert "mig" not in all_roles(whole, without_gpu=False)
    assert not {"gpus-split", "split-at-boot"} & {risk.id for risk in content(whole, lock, b"").risks}


def test_lock_role_and_review_have_the_slices() -> None:
    profile = Profile.model_validate(plain("h100", {"1g.10gb": 2, "3g.40gb": 1}))
    lock = build(profile, TODAY)
    assert lock.as_dict()["gpu"]["mig"] == ["3g.40gb", "1g.10gb", "1g.10gb"]
    assert variables(profile, lock, ("mig",))["mig_slices"] == ["3g.40gb", "1g.10gb", "1g.10gb"]
    assert "mig" in all_roles(profile, without_gpu=False)
    assert "mig" not in all_roles(profile, without_gpu=True)
    found = content(profile, plan(profile, lock).lock, b"")
    [risk] = [risk for risk in found.risks if risk.id == "gpus-split"]
    assert risk.title == "Each GPU is split into 1 x 3g.40gb, 2 x 1g.10gb"
    assert "NVLink" in risk.reason
    judged = {control.check: control for control in found.controls}
    assert judged["mig"].applies
    assert (judged["gemm"].applies, judged["nvlink"].applies) == (False, False)
    assert "split with MIG" in judged["nvlink"].why
    assert {change.target for change in found.changes if change.role == "mig"} >= {"/etc/systemd/system/gpuprov-mig.service"}
