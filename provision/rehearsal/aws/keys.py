"""Keys of the embedded KMS, and what EC2 makes of the one that a volume names: it tries the key after it has answered RunInstances.

The account has every key that a request names, unless the settings say otherwise, so that a rehearsal needs none of its own. What becomes
of the instance: https://repost.aws/knowledge-center/kms-iam-ec2-permission, and for a key that is not enabled
https://github.com/CiscoDevNet/cloud-cml/issues/8. Which permissions the caller needs: "Permissions for users" of
docs.aws.amazon.com/ebs/latest/userguide/ebs-encryption-requirements.html.
"""

from typing import Any, Final

from moto.core import DEFAULT_ACCOUNT_ID
from moto.kms.models import Key, KmsBackend, kms_backends

from provision.rehearsal.aws.permissions import AwsCall, Need, denied, lacking
from provision.rehearsal.aws.settings import AwsSettings

_CONTEXT: Final = {"kms:GrantIsForAWSResource": "true"}
_ACTIONS: Final = ("CreateGrant", "Decrypt", "DescribeKey", "GenerateDataKeyWithoutPlaintext", "ReEncryptFrom", "ReEncryptTo")
_ENABLED: Final = "Enabled"


def key_of(region: str, name: str, settings: AwsSettings) -> Key | None:
    """The key of an ARN or an alias; None where the account does not have it, or has it in another region."""
    backend: KmsBackend = kms_backends[DEFAULT_ACCOUNT_ID][region]
    elsewhere = name.startswith("arn:") and name.split(":")[3] != region
    if name in settings.missing or elsewhere:
        return None
    alias = backend.get_alias_name(name)
    if alias.startswith("alias/"):
        if not backend.alias_exists(alias):
            key = _made(backend)
            backend.create_alias(key.id, alias)
            if name.startswith("arn:"):  # of another account, perhaps
                key.arn = f"{name.partition(':alias/')[0]}:key/{key.id}"
    elif name.startswith("arn:") and backend.get_key_id(name) not in backend.keys:
        key = _made(backend)
        del backend.keys[key.id]
        key.id, key.arn = backend.get_key_id(name), name
        backend.keys[key.id] = key
    known = backend.any_id_to_key_id(name)
    return backend.keys.get(known)


def _made(backend: KmsBackend) -> Key:
    return backend.create_key(None, "ENCRYPT_DECRYPT", "SYMMETRIC_DEFAULT", "", None)


def needs(region: str, key: Key, action: str) -> Need:
    """What must be allowed for one use of a key."""
    where = {"aws:RequestedRegion": region, "kms:ResourceAliases": "\n".join(key.aliases)}
    return Need(f"kms:{action}", key.arn, where | (_CONTEXT if action == "CreateGrant" else {}))


def asked(call: AwsCall, settings: AwsSettings) -> tuple[Need, ...]:
    """What a request to KMS needs; a key that the account does not have needs nothing, and is answered with an error."""
    if call.service != "kms" or "KeyId" not in call.params:
        return ()
    key = key_of(call.region, call.params["KeyId"], settings)
    return (needs(call.region, key, call.action),) if key else ()


def failure(
    region: str, mappings: list[dict[str, Any]], snapshot_key: str, settings: AwsSettings, *, by_group: bool = False
) -> tuple[str, str]:
    """The state reason, code and words, with which an instance ends whose volumes' keys cannot be used; empty where all can.

    EC2 reads the image's own snapshot as well; its key is empty where the snapshot is not encrypted. A group launches as the service-linked
    role of Auto Scaling, which has no right to a key of the account's own until that key's policy says so:
    docs.aws.amazon.com/autoscaling/ec2/userguide/key-policy-requirements-EBS-encryption.html.
    """
    volumes = [str(mapping["Ebs"]["KmsKeyId"]) for mapping in mappings if mapping.get("Ebs", {}).get("KmsKeyId")]
    for name in dict.fromkeys(filter(None, (*volumes, snapshot_key))):
        key = key_of(region, name, settings)
        if key is not None and key.key_state != _ENABLED:
            return "Client.InvalidKMSKey.InvalidState", "Client.InvalidKMSKey.InvalidState: The KMS key provided is in an incorrect state"
        uses = [needs(region, key, action) for action in _ACTIONS] if key is not None else []
        refused = (
            not _let_in(name, key, settings)
            if by_group
            else any(
                (settings.allowed is not None and lacking(settings.allowed, use))
                or (settings.guardrail is not None and denied(settings.guardrail, use))
                for use in uses
            )
        )
        if key is None or refused:
            return "Client.InternalError", "Client.InternalError: Client error on launch"
    return "", ""


def _let_in(name: str, key: Key | None, settings: AwsSettings) -> bool:
    """Whether the role of Auto Scaling may use a key: one of AWS's own it may."""
    return name in settings.group_keys or (key is not None and any(alias.startswith("alias/aws/") for alias in key.aliases))
