"""What an account demands of every launch in the embedded EC2, beside policies: which images, and which metadata service.

Allowed AMIs: what botocore's model of EC2 says of Image.ImageAllowed and EnableAllowedImagesSettings. HttpTokensEnforced: the same of
InstanceMetadataDefaultsResponse. With which codes EC2 refuses a launch against them is from memory.
"""

from typing import Any

from moto.ec2.models.amis import AmiBackend
from moto.ec2.models.instances import InstanceBackend

from provision.rehearsal.aws.settings import AwsSettings
from provision.rehearsal.aws.world import method_of, refuse


def patch(settings: AwsSettings) -> None:
    """Make moto's images and launches obey the settings; after the launches themselves were patched."""
    describe, run = AmiBackend.describe_images, InstanceBackend.run_instances

    def is_allowed(image: Any) -> bool:
        return settings.allowed_amis is None or image.owner_id in settings.allowed_amis["owners"]

    def is_enforced() -> bool:
        return settings.allowed_amis is not None and settings.allowed_amis["state"] == "enabled"

    @method_of(AmiBackend)
    def describe_images(self: Any, ami_ids: list[str] | None = None, *args: Any, **params: Any) -> list[Any]:
        images = describe(self, ami_ids, *args, **params)
        for image in images:
            image.image_allowed = is_allowed(image)
        visible = [image for image in images if image.image_allowed or not is_enforced()]
        if ami_ids and not visible:
            refuse("InvalidAMIID.NotFound", f"The image ids '{ami_ids}' do not exist")
        return visible

    @method_of(InstanceBackend)
    def run_instances(self: Any, image_id: str, *args: Any, **params: Any) -> Any:
        if is_enforced() and image_id in self.amis and not is_allowed(self.amis[image_id]):
            refuse("InvalidAMIID.NotFound", f"The image id '[{image_id}]' does not exist")
        if settings.imds_tokens_enforced and (params.get("metadata_options") or {}).get("HttpTokens") != "required":
            refuse("UnsupportedOperation", "The account enforces IMDSv2: HttpTokens must be 'required'.")
        return run(self, image_id, *args, **params)
