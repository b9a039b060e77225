"""What starts machines from an image, in answers that the embedded AWS does not give; tests/workflow/test_image_users.py has the rest."""

from __future__ import annotations

from typing import Any

import pytest

from provision.clouds.aws.image_users import users_of
from provision.errors import PermissionRefusedError
from tests.clouds.aws.scripted import ScriptedApi, refusal

MINE = "ami-0000000000000mine"


def version(image: str, number: int = 1, template: str = "lt-1", *, default: bool = True) -> dict[str, Any]:
    named = {"LaunchTemplateId": template, "LaunchTemplateName": f"name-of-{template}", "VersionNumber": number}
    return {**named, "DefaultVersion": default, "LaunchTemplateData": {"ImageId": image}}


def pages(*versions: dict[str, Any]) -> list[Any]:
    """Each version on a page of its own."""
    return [{"LaunchTemplateVersions": [each]} for each in versions]


def api(groups: list[dict[str, Any]], *versions: list[Any], refreshes: list[dict[str, Any]] | None = None) -> ScriptedApi:
    """Groups in pages, the versions of their templates in the order in which they are named, and last those of all templates."""
    return ScriptedApi(
        describe_auto_scaling_groups=[[{"AutoScalingGroups": [group]} for group in groups]],
        describe_launch_template_versions=list(versions),
        describe_instance_refreshes=[{"InstanceRefreshes": refreshes or []}],
    )


def group(name: str, **more: Any) -> dict[str, Any]:
    return {"AutoScalingGroupName": name, **more}


def specified(template: str, number: str) -> dict[str, Any]:
    return {"LaunchTemplateId": template, "Version": number}


def mixed(number: str, *overrides: dict[str, Any]) -> dict[str, Any]:
    return {"MixedInstancesPolicy": {"LaunchTemplate": {"LaunchTemplateSpecification": specified("lt-1", number), "Overrides": overrides}}}


@pytest.mark.parametrize(
    ("more", "used"),
    [
        (mixed("1"), False),
        (mixed("2"), True),
        (mixed("1", {"InstanceType": "g4dn.xlarge", "ImageId": MINE}), True),
        (mixed("1", {"InstanceType": "g4dn.xlarge", "LaunchTemplateSpecification": specified("lt-1", "2")}), True),
        ({"LaunchTemplate": {"LaunchTemplateId": "lt-1"}}, False),  # without a version it is the default one
        ({"LaunchConfigurationName": "old"}, False),
    ],
)
def test_a_group_of_several_types_names_templates_and_images_in_several_places(more: dict[str, Any], *, used: bool) -> None:
    own = pages(version("ami-other"), version(MINE, 2, default=False))
    others: list[Any] = [{"LaunchTemplateVersions": []}]
    asked = api([group("other"), group("mine", **more)], *([own, others] if "LaunchConfigurationName" not in more else [others]))
    assert users_of(asked, [MINE]) == ({MINE: ("Auto Scaling group mine",)} if used else {})


def test_a_refresh_to_another_template_counts_while_it_is_under_way() -> None:
    """Cancelled ones count no more."""
    one = group("mine", LaunchTemplate=specified("lt-1", "1"))
    own, other, none = pages(version("ami-other"), version(MINE, 2, default=False)), pages(version(MINE, 1, "lt-2")), pages()
    wanted = {"DesiredConfiguration": {"LaunchTemplate": specified("lt-2", "1")}}
    for status, used in (("InProgress", True), ("RollbackInProgress", True), ("Cancelled", False), ("Successful", False)):
        asked = api([one], own, *([other, none] if used else [none]), refreshes=[{"Status": status, **wanted}])
        assert bool(users_of(asked, [MINE])) is used, status


def test_a_group_whose_template_is_gone_starts_nothing() -> None:
    one = group("mine", LaunchTemplate=specified("lt-1", "1"))
    asked = ScriptedApi(
        describe_auto_scaling_groups=[{"AutoScalingGroups": [one]}],
        describe_launch_template_versions=[
            refusal("InvalidLaunchTemplateId.NotFound"),
            {"LaunchTemplateVersions": [version(MINE, 1, "lt-3")]},
        ],
    )
    assert users_of(asked, [MINE]) == {MINE: ("launch template name-of-lt-3",)}


def test_a_refusal_is_not_an_answer() -> None:
    one = group("mine", LaunchTemplate=specified("lt-1", "1"))
    asked = ScriptedApi(
        describe_auto_scaling_groups=[{"AutoScalingGroups": [one]}], describe_launch_template_versions=[refusal("UnauthorizedOperation")]
    )
    with pytest.raises(PermissionRefusedError):
        users_of(asked, [MINE])
