"""`tags:` of a profile: what they may be, and what they are on."""

from __future__ import annotations

from typing import Any

import pytest

from provision.errors import ProfileInvalidError
from provision.launch.plan import draft_order, plan
from provision.profile.load import find, load
from provision.profile.lock import build
from provision.profile.model import Profile
from tests.profile.test_signed import TODAY

WRITTEN = find("t4-train").read_text()


def tagged(tags: dict[str, Any]) -> Profile:
    return Profile.model_validate(load(find("t4-train")).dump() | {"tags": tags})


@pytest.mark.parametrize(
    ("tags", "words"),
    [
        ("{Name: x}", "gpuprov itself sets Name; choose another key"),
        ("{gpuprov-owner: x}", "gpuprov itself sets gpuprov-owner"),
        ("{goog-team: x}", "keys that begin with goog belong to the cloud"),
        ("{AWS-team: x}", "keys that begin with aws belong to the cloud"),
        ("{CostCenter: a, costcenter: b}", "CostCenter and costcenter are one label"),
        ("{cost.center: a, cost-center: b}", "cost.center and cost-center are one label"),
        ("{1st: x}", "'1st' is not a tag's key"),
        ("{k: ''}", "letters, digits, spaces"),
        ("{k: 'a\\nb'}", "letters, digits, spaces"),
        ("{k: ' a'}", "letters, digits, spaces"),
        ("{k: a$b}", "letters, digits, spaces"),
    ],
)
def test_a_tag_that_a_cloud_would_refuse_or_read_otherwise_is_refused_by_name(tmp_path: Any, tags: str, words: str) -> None:
    path = tmp_path / "t4-train.yml"
    path.write_text(f"{WRITTEN}tags: {tags}\n")
    with pytest.raises(ProfileInvalidError) as caught:
        load(path)
    assert words in str(caught.value)


def test_a_profile_without_tags_has_the_digest_it_had() -> None:
    assert "tags" not in tagged({}).dump()
    assert tagged({"Team": "x"}).dump()["tags"] == {"Team": "x"}


def test_the_tags_are_in_the_order_and_the_plan_beside_ours_and_never_in_their_place() -> None:
    profile = tagged({"CostCenter": "4711"})
    made = plan(profile, build(profile, TODAY))
    assert ("CostCenter", "4711") in made.tags
    assert draft_order(profile, "", "x", made.places[0]).tags.items() >= {"CostCenter": "4711", "gpuprov:profile": "t4-train"}.items()
