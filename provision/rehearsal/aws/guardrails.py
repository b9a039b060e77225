"""What an account demands of every launch in the embedded EC2, beside policies: which images, and which metadata service.

Allowed AMIs: what botocore's model of EC2 says of Image.ImageAllowed and EnableAllowedImagesSettings. HttpTokensEnforced: the same of
InstanceMetadataDefaultsResponse. With which codes EC2 refuses a launch against them is from memory.
"""

from typing import Any

from moto.ec2.models.instances import InstanceBackend

from provision.rehearsal.aws.settings import AwsSettings
from provision.rehearsal.aws.world import method_of, refuse


def is_admitted(settings: AwsSettings, owner: str) -> bool:
    """Whether the account's Allowed AMIs admit the images of an owner; an account without them admits all."""
    return settings.allowed_amis is None or owner in settings.allowed_amis["owners"]


def is_hidden(settings: AwsSettings, owner: str) -> bool:
    """Whether its images are hidden, because Allowed AMIs are enforced and not only watched."""
    enforced = settings.allowed_amis is not None and settings.allowed_amis["state"] == "enabled"
    return enforced and not is_admitted(settings, owner)


def patch(settings: AwsSettings) -> None:
    """Make moto's launches obey the settings; after the launches themselves were patched."""
    run = InstanceBackend.run_instances

    @method_of(InstanceBackend)
    def run_instances(self: Any, image_id: str, *args: Any, **params: Any) -> Any:
        if image_id in self.amis and is_hidden(settings, self.amis[image_id].owner_id):
            refuse("InvalidAMIID.NotFound", f"The image id '[{image_id}]' does not exist")
        if settings.imds_tokens_enforced and (params.get("metadata_options") or {}).get("HttpTokens") != "required":
            refuse("UnsupportedOperation", "The account enforces IMDSv2: HttpTokens must be 'required'.")
        return run(self, image_id, *args, **params)
