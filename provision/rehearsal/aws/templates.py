"""Launch templates of the embedded EC2: what moto's versions lack, and what a group launches from one.

moto refuses a second version with user data, forgets SourceVersion, and gives the tags of the template itself to its instances.
"""

import base64
import copy
from typing import Any

from moto.core import DEFAULT_ACCOUNT_ID
from moto.core.responses import ActionResult
from moto.ec2.models import ec2_backends
from moto.ec2.responses.launch_templates import LaunchTemplates
from moto.ec2.utils import parse_user_data

from provision.rehearsal.aws.world import method_of


def patch() -> None:
    """Put moto's versions right."""
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
        return ActionResult(
            {
                "LaunchTemplateVersion": {
                    "CreateTime": version.create_time,
                    "DefaultVersion": template.is_default(version),
                    "LaunchTemplateData": version.data,
                    "LaunchTemplateId": template.id,
                    "LaunchTemplateName": template.name,
                    "VersionDescription": version.description,
                    "VersionNumber": version.number,
                }
            }
        )


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
