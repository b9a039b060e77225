"""An image of one's own in a profile: its keys, its driver, and what lock, plan, roles, review and forms make of them."""

from __future__ import annotations

import copy
import datetime as dt
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from provision import clouds
from provision.catalog import overlay
from provision.clouds.forms import Given
from provision.converge.roles import all_roles, with_groundwork
from provision.converge.variables import variables
from provision.errors import ProfileInvalidError
from provision.host.ssh import LOCALHOST
from provision.launch.plan import plan
from provision.profile import load
from provision.profile.lock import build
from provision.profile.locked import Lock, pin
from provision.profile.model import Profile
from provision.render import FORMS
from provision.render.base import choose, subject
from provision.report.plan import Shown, as_dict, as_text
from provision.review.content import content
from provision.verify.finding import Finding
from provision.workflow.setup import SetupRequest, needed_roles
from tests.verify import good

TODAY = dt.date(2026, 11, 22)
AMI = "ami-0123456789abcdef0"
AWS = {"cloud": "aws", "instance_type": "g4dn.xlarge", "regions": ["us-east-1"]}
GCP = {"cloud": "gcp", "instance_type": "n1-standard-8", "gpu": "t4", "zones": ["asia-east2-a"]}
HAS = {"driver": "580", "driver_flavour": "open"}
PLAIN = load.load(load.find("t4-train")).dump()


def data(*places: dict[str, Any], **changes: Any) -> dict[str, Any]:
    whole = {**copy.deepcopy(PLAIN), "places": list(places)}
    for key, value in changes.items():
        *parents, last = key.split("__")
        node = whole
        for part in parents:
            node = node[part]
        node[last] = value
    return whole


def loaded(folder: Path, whole: dict[str, Any]) -> Profile:
    path = folder / "x.yml"
    path.write_text(yaml.safe_dump(whole))
    return load.load(path)


def refused(folder: Path, whole: dict[str, Any]) -> str:
    with pytest.raises(ProfileInvalidError) as caught:
        loaded(folder, whole)
    return caught.value.message


BAD: list[tuple[dict[str, Any], str]] = [
    ({**AWS, "image": {"id": "ami-1; reboot"}}, "places.0.image.id"),
    ({**AWS, "image": {"owner": "679593333241x", "name": "Rocky-*"}}, "places.0.image.owner"),
    ({**AWS, "image": {"owner": "self", "name": "**"}}, "places.0.image"),
    ({**AWS, "image": {"owner": "self", "name": "x$(id)*"}}, "places.0.image.name"),
    ({**AWS, "image": {"owner": "self"}}, "named by id, or by owner and name, or by parameter"),
    ({**AWS, "image": {"id": AMI, "parameter": "/a/b"}}, "named by id, or by owner and name, or by parameter"),
    ({**AWS, "image": {"parameter": "no/slash"}}, "places.0.image.parameter"),
    ({**AWS, "image": {"id": AMI, "login": "root"}}, "root never logs in over SSH"),
    ({**AWS, "image": {"id": AMI, "has": {"driver": "latest"}}}, "places.0.image.has.driver"),
    ({**AWS, "regions": ["us-east-1", "eu-west-1"], "image": {"id": AMI}}, "belongs to one region"),
    ({**GCP, "image": {"project": "p", "family": "golden"}}, "places.0.image.project"),
    ({**GCP, "image": {"project": "golden-images", "family": "a", "name": "b"}}, "named by project and family, or by project and name"),
    ({**GCP, "image": {"project": "golden-images", "name": "Big"}}, "places.0.image.name"),
]


@pytest.mark.parametrize(("place", "said"), BAD, ids=[str(number) for number in range(len(BAD))])
def test_a_bad_image_is_refused_at_its_line_and_key(tmp_path: Path, place: dict[str, Any], said: str) -> None:
    message = refused(tmp_path, data(place))
    assert said in message
    line = next(n for n, text in enumerate((tmp_path / "x.yml").read_text().splitlines(), 1) if "image:" in text)
    told = int(message.partition("x.yml:")[2].partition(":")[0])
    assert abs(told - line) <= 8  # of the place


CONTRADICTIONS: list[tuple[dict[str, Any], str, str]] = [
    ({"stack__driver": "570"}, "stack.driver", "has driver 580 already, and 570"),
    ({"stack__driver_build": "dkms"}, "stack.driver_build", "dkms modules are asked for"),
    ({"stack__driver_build": "signed"}, "stack.driver_build", "signed modules are asked for"),
    ({"stack__driver_flavour": "proprietary"}, "stack.driver_flavour", "has the open modules already"),
    ({"os__secure_boot": "required"}, "os.secure_boot", "it is unknown who signed"),
    ({"sources": {"packages": "distribution"}}, "sources.packages", "brings a second one"),
]


@pytest.mark.parametrize(("changes", "key", "said"), CONTRADICTIONS, ids=[f"{key}-{said[:6]}" for _, key, said in CONTRADICTIONS])
def test_a_demand_that_contradicts_the_driver_on_the_image_is_refused(tmp_path: Path, changes: dict[str, Any], key: str, said: str) -> None:
    message = refused(tmp_path, data({**AWS, "image": {"id": AMI, "has": HAS}}, **changes))
    assert f": {key}: " in message
    assert said in message


def test_images_with_and_without_a_driver_are_two_profiles(tmp_path: Path) -> None:
    message = refused(tmp_path, data({**AWS, "image": {"id": AMI, "has": HAS}}, GCP))
    assert "places.1" in message
    assert "has none, and that of another place has driver 580 (open)" in message


def with_driver(**has: str) -> tuple[Profile, Lock]:
    profile = Profile.model_validate(data({**AWS, "image": {"id": AMI, "login": "ec2-user", "has": has or HAS}}))
    return profile, build(profile, TODAY)


def test_nothing_of_a_driver_on_the_image_is_installed() -> None:
    profile, lock = with_driver()
    assert (lock.driver.branch, lock.driver.flavour, lock.driver.build, lock.driver.packages) == ("580", "open", "image", ())
    assert not {"nvidia_driver", "fabric_manager"} & set(lock.packages)
    assert "nvidia_driver" not in all_roles(profile, without_gpu=False)
    roles = with_groundwork(all_roles(profile, without_gpu=False), lock)
    assert "cuda_toolkit" in roles
    assert "nvidia_driver" not in roles
    told = variables(profile, lock, roles)
    assert told["packages_driver"] == ""
    assert not [name for names in told["packages_by_role"].values() for name in names if "dkms" in name or "nvidia-driver" in name]


def test_no_finding_and_no_wish_makes_a_role_install_a_driver_beside_the_images() -> None:
    profile, lock = with_driver()
    assert not {"nvidia_driver", "fabric_manager"} & set(with_groundwork(["nvidia_driver", "fabric_manager", "cuda_toolkit"], lock))
    request = SetupRequest(LOCALHOST, profile, lock)
    failed = finding("driver", pin(profile, lock), driver__loaded=None)
    assert failed.role == "nvidia_driver"
    report: Any = SimpleNamespace(findings=(failed,))  # all that counts of it
    assert needed_roles(request, report) == []


def test_a_lock_with_the_images_driver_is_read_as_it_was_written() -> None:
    _, lock = with_driver()
    assert Lock.model_validate(json.loads(json.dumps(lock.as_dict()))).digest == lock.digest


def finding(check: str, profile: Profile, **facts: Any) -> Finding:
    return good.finding(check, good.facts(**facts), profile)


@pytest.mark.parametrize("check", ["driver", "driver-on-disk"])
def test_verify_proves_the_driver_of_the_image(check: str) -> None:
    assert finding(check, pin(*with_driver(driver="580"))).outcome == "pass"


def test_another_branch_than_the_image_is_said_to_have_fails_and_names_the_image() -> None:
    asked = pin(*with_driver(driver="570"))
    seen = finding("driver", asked)
    assert (seen.outcome, "as the image has it" in seen.expected, "name an image" in seen.hint) == ("fail", True, True)


def test_another_flavour_fails_where_the_image_claims_one_and_only_there() -> None:
    claimed, open_ended = pin(*with_driver(driver="580", driver_flavour="open")), pin(*with_driver(driver="580"))
    facts = {"gsp__modules": "proprietary"}
    assert finding("gsp", claimed, **facts).outcome == "fail"
    assert "name an image" in finding("gsp", claimed, **facts).hint
    assert finding("gsp", open_ended, **facts).outcome != "fail"


def test_a_kernel_without_headers_is_no_failure_of_an_images_driver() -> None:
    profile = pin(*with_driver(driver="580"))
    assert finding("driver-on-disk", profile, modules__kernels=[]).outcome == "pass"
    newest = [{"kernel": "6.8.0-1030-aws", "built": True}, {"kernel": "6.8.0-1040-aws", "built": False}]
    assert finding("driver-on-disk", profile, modules__installed=newest).outcome == "fail"


def test_the_digest_of_a_profile_without_an_image_is_that_of_before() -> None:
    assert "image" not in Profile.model_validate(data(AWS)).dump()["places"][0]
    dumped = Profile.model_validate(data({**AWS, "image": {"id": AMI}})).dump()
    assert dumped["places"][0]["image"]["id"] == AMI
    assert Profile.model_validate(dumped).dump() == dumped


def test_lock_plan_and_review_say_which_image_it_is() -> None:
    profile = Profile.model_validate(data({**AWS, "image": {"owner": "self", "name": "golden-*"}}))
    planned = plan(profile, build(profile, TODAY))
    assert planned.places[0].image == "self golden-*"
    assert "aws us-east-1: self golden-*" in as_text(planned, Shown("p", ""))
    assert "ec2:DescribeImages" in {call.action for call in planned.calls}
    review = content(profile, planned.lock, b"")
    assert {"image", "image-open"} <= {risk.id for risk in review.risks}
    assert "starts from self golden-*" in str(as_dict(planned, Path("p.yml")))


def test_what_a_refresh_learnt_of_an_image_stands_in_lock_and_review_and_older_locks_keep_their_digest() -> None:
    profile = Profile.model_validate(data(AWS, os={"name": "rocky", "version": "9"}))
    before = build(profile, TODAY)
    assert not [key for key in before.as_dict()["places"][0] if key.startswith("image_") and key != "image_id"]
    about = {"name": "Rocky-9-EC2-Base-9.6", "owner": "792107900819", "created": "2026-11-01"}
    layer = {"images": {"us-east-1": {"rocky 9": AMI}}, "described": {AMI: about}}
    overlay.write(overlay.Overlay(clouds={"aws": layer}))
    lock = build(profile, TODAY)
    assert (lock.places[0].image_id, lock.places[0].image_owner) == (AMI, "792107900819")
    (item,) = content(profile, lock, b"").places
    assert item.image_about == "Rocky-9-EC2-Base-9.6, owner 792107900819, 2026-11-01"


@pytest.mark.parametrize("named", [{"id": AMI}, {"owner": "self", "name": "golden-*"}, {"parameter": "/golden/ubuntu"}], ids=str)
@pytest.mark.parametrize("form", ["terraform-aws", "cloudformation", "runbook"])
def test_a_form_says_how_the_own_image_is_found(form: str, named: dict[str, str]) -> None:
    profile = Profile.model_validate(data({**AWS, "image": {**named, "login": "svc-ops"}}))
    planned = plan(profile, build(profile, TODAY))
    given = Given(public_key=f"ssh-ed25519 {'A' * 68}", deadline=dt.datetime(2027, 1, 1, tzinfo=dt.UTC), caller="203.0.113.7/32")
    text = b"".join(FORMS[form].render(subject(planned, choose(planned, cloud="aws"), given)).values()).decode()
    assert all(value in text for value in named.values())
    assert "svc-ops" in text
    if form != "terraform-aws":  # whose resource names no device of the root
        assert "RootDevice" in text


@pytest.mark.parametrize("named", [{"family": "golden-9"}, {"name": "golden-9-v3"}], ids=str)
@pytest.mark.parametrize("form", ["terraform-gcp", "runbook"])
def test_a_form_of_the_other_cloud_too(form: str, named: dict[str, str]) -> None:
    profile = Profile.model_validate(data({**GCP, "image": {"project": "golden-images", **named, "login": "svc-ops"}}))
    planned = plan(profile, build(profile, TODAY))
    given = Given(public_key=f"ssh-ed25519 {'A' * 68}", deadline=dt.datetime(2027, 1, 1, tzinfo=dt.UTC), caller="203.0.113.7/32")
    text = b"".join(FORMS[form].render(subject(planned, choose(planned, cloud="gcp"), given)).values()).decode()
    assert all(word in text for word in ("golden-images", "svc-ops", *named.values()))


def test_the_policy_of_a_profile_opens_the_parameter_that_its_image_is_in() -> None:
    profile = Profile.model_validate(data({**AWS, "image": {"parameter": "/golden/ubuntu"}}))
    (permissions,) = plan(profile, build(profile, TODAY)).permissions
    assert "arn:aws:ssm:us-east-1:*:parameter/golden/ubuntu" in json.dumps(permissions.document)
    assert "/aws/service/" not in json.dumps(permissions.document)


def test_a_login_of_the_system_is_kept_where_the_image_names_none() -> None:
    place = Profile.model_validate(data({**AWS, "image": {"id": AMI}})).places[0]
    image = clouds.provider("aws").image(("debian", "12"), place)
    assert image is not None
    assert image.login == "admin"
