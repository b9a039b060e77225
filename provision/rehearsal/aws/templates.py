"""Launch templates of the embedded EC2: what moto's versions lack, and what a group launches from one.

moto refuses a second version with user data, forgets SourceVersion, gives the tags of the template itself to its instances, and shows
fifteen versions without a word of the others. EC2 shows them in pages of 200 at most: API_DescribeLaunchTemplateVersions, MaxResults.
"""

import base64
import copy
import sys
from typing import Any, Final

from moto.core import DEFAULT_ACCOUNT_ID
from moto.core.responses import ActionResult
from moto.ec2.models import ec2_backends
from moto.ec2.responses.launch_templates import LaunchTemplates
from moto.ec2.utils import parse_user_data

from provision.rehearsal.aws.world import method_of, refuse

_PAGE: Final = 200


def patch() -> None:
    """Put moto's versions right."""
    _patch_making()
    _patch_reading()


def _patch_making() -> None:
    create = LaunchTemplates.create_launch_template

    @method_of(LaunchTemplates)
    def create_launch_template(self: Any) -> ActionResult:
        sent = copy.deepcopy(self._get_param("LaunchTemplateData", {}))
        answer: ActionResult = create(self)
        found = self.ec2_backend.get_launch_template_by_name(self._get_param("LaunchTemplateName"))
        found.versions[0].data = _kept(sent)
        return answer

    @method_of(LaunchTemplates)
    def create_launch_template_version(self: Any) -> ActionResult:
        name, template_id = self._get_param("LaunchTemplateName"), self._get_param("LaunchTemplateId")
        backend = self.ec2_backend
        template = backend.get_launch_template(template_id) if template_id else backend.get_launch_template_by_name(name)
        source = self._get_param("SourceVersion")
        base: dict[str, Any] = copy.deepcopy(template.get_version(source).data) if source else {}
        version = template.create_version(base | _kept(self._get_param("LaunchTemplateData", {})), self._get_param("VersionDescription"))
        return ActionResult({"LaunchTemplateVersion": _shown(template, version)})


def _patch_reading() -> None:
    @method_of(LaunchTemplates)
    def describe_launch_template_versions(self: Any) -> ActionResult:
        self.error_on_dryrun()
        token, size = self._get_param("NextToken") or "0", self._get_int_param("MaxResults", _PAGE)
        if not token.isdigit() or not 0 < size <= _PAGE:
            refuse("InvalidParameterValue", f"NextToken or MaxResults is invalid: {token}, {size}")
        found = self.ec2_backend.describe_launch_template_versions(
            template_name=self._get_param("LaunchTemplateName"),
            template_id=self._get_param("LaunchTemplateId"),
            versions=self._get_param("Versions", []),
            min_version=self._get_int_param("MinVersion"),
            max_version=self._get_int_param("MaxVersion"),
            max_results=sys.maxsize,
        )
        start, end = int(token), int(token) + size
        more = {"NextToken": str(end)} if end < len(found) else {}
        return ActionResult({"LaunchTemplateVersions": [_shown(*pair) for pair in found[start:end]], **more})


def _shown(template: Any, version: Any) -> dict[str, Any]:
    return {
        "CreateTime": version.create_time,
        "DefaultVersion": template.is_default(version),
        "LaunchTemplateData": version.data,
        "LaunchTemplateId": template.id,
        "LaunchTemplateName": template.name,
        "VersionDescription": version.description,
        "VersionNumber": version.number,
    }


def _kept(data: dict[str, Any]) -> dict[str, Any]:
    """A version's data in the form in which moto reads it again."""
    return {**data, "UserData": parse_user_data(data["UserData"])} if data.get("UserData") else dict(data)


def version_of(region: str, named: dict[str, Any]) -> tuple[Any, Any]:
    """The template and the version that a LaunchTemplateSpecification names.

    Raises:
        EC2ClientError: there is none.
    """
    backend = ec2_backends[DEFAULT_ACCOUNT_ID][region]
    wanted, name = named.get("LaunchTemplateId"), named.get("LaunchTemplateName")
    template = backend.get_launch_template(wanted) if wanted else backend.get_launch_template_by_name(name)
    return template, template.get_version(named.get("Version") or "$Default")


def launch_parameters(region: str, named: dict[str, Any]) -> dict[str, Any]:
    """What RunInstances gets from a version of a template: its data, whose fields have the same names there."""
    _, version = version_of(region, named)
    data: dict[str, Any] = copy.deepcopy(version.data)
    if data.get("UserData"):  # a client encodes it once more
        data["UserData"] = base64.b64decode(str(data["UserData"])).decode()
    for profile in [data.get("IamInstanceProfile") or {}]:
        if profile.get("Arn") and not profile.get("Name"):
            data["IamInstanceProfile"] = {"Name": profile["Arn"].rpartition("/")[2]}
    return data
