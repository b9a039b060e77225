"""What starts machines from images, in a project of GCP: managed instance groups of zones and regions, by the templates of their versions.

A template cannot be changed, so each roll of a fleet leaves one behind; those that no group has a version of start nothing by themselves.
Source: instanceGroupManagers.aggregatedList and instanceTemplates.aggregatedList
(docs.cloud.google.com/compute/docs/reference/rest/v1/instanceGroupManagers and its neighbours).
"""

from collections.abc import Collection
from typing import Any, Final

from provision.clouds.gcp.answers import last
from provision.clouds.gcp.api import GcpProjectApi

_MARK: Final = "/projects/"


def users_of(api: GcpProjectApi, images: Collection[str]) -> dict[str, tuple[str, ...]]:
    """What starts its next machine from each of these images, in words; an image that nothing starts from is left out.

    Raises:
        CloudError: a call was refused or not answered, so nobody knows.
    """
    scopes = api.pages("InstanceGroupManagers", "aggregated_list", "compute.instanceGroupManagers.list")
    groups = [(last(scope), group) for scope, scoped in scopes for group in scoped.instance_group_managers]
    if not groups:
        return {}
    found = api.pages("InstanceTemplates", "aggregated_list", "compute.instanceTemplates.list")
    templates = {_path(each.self_link): _started(each) for _, scoped in found for each in scoped.instance_templates}

    def started(group: Any) -> set[str]:
        links = {group.instance_template, *(version.instance_template for version in group.versions)}
        return {name for link in links for name in templates.get(_path(link), ())}

    pairs = [(f"instance group {group.name} in {where}", started(group)) for where, group in groups]
    using = {image: tuple(what for what, names in pairs if image in names) for image in images}
    return {image: what for image, what in using.items() if what}


def _path(link: str) -> str:
    """The path of a template in its project, where a group's template always is; a link has the host or not."""
    return f"/{link}".rpartition(_MARK)[2].partition("/")[2]


def _started(template: Any) -> set[str]:
    """The names of the images that disks of a template's machines are made from.

    The project before a name can be written as its number; the name of an image of ours has the digest of its content, so it is enough.
    """
    return {last(disk.initialize_params.source_image) for disk in template.properties.disks} - {""}
