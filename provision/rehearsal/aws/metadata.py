"""The metadata service of the embedded EC2, and the credentials that it gives an instance: those of its role, for this instance alone.

A host reaches it where it reaches its packages, at an address of its own network: who asks is known by the address. The form of the
answers: docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-categories.html. Only IMDSv2 answers.
"""

import datetime as dt
import hmac
import json
import secrets
from collections.abc import Callable, Iterable
from typing import Any, Final

from moto.core import DEFAULT_ACCOUNT_ID
from moto.ec2.models import ec2_backends
from moto.ec2.models.instances import Instance
from moto.iam.models import Role
from werkzeug import Request, Response

from provision.rehearsal.aws import world
from provision.rehearsal.base import Environ, Start

PREFIX: Final = "/latest/"
_LASTS_S: Final = 6 * 3600


class Metadata:
    """The service as a WSGI application, and the credentials that it gave.

    Args:
        target_state: region and id of an instance → what its group wants of it; empty outside groups.
    """

    def __init__(self, target_state: Callable[[str, str], str]) -> None:
        self._target_state = target_state
        self._root = secrets.token_bytes(32)
        self._given: dict[str, Instance] = {}  # access key id → whose

    def secret_of(self, key_id: str, token: str) -> str | None:
        """The secret of credentials that were given, with their session token; None for any other."""
        if key_id not in self._given or not hmac.compare_digest(token, self._derived("token", key_id)):
            return None
        return self._derived("secret", key_id)

    def holder(self, key_id: str) -> tuple[str, str, str] | None:
        """Id and role, by name and id, of the instance that has these credentials; None for any other, and when it has ended."""
        instance = self._given.get(key_id)
        if instance is None or instance.state in {"terminated", "shutting-down"}:
            return None
        role = _role_of(instance)
        return (str(instance.id), str(role.name), str(role.id)) if role else None

    def _derived(self, what: str, key_id: str) -> str:
        return hmac.digest(self._root, f"{what} {key_id}".encode(), "sha256").hex()

    def __call__(self, environ: Environ, start: Start) -> Iterable[bytes]:
        """Answer one request."""
        request = Request(environ)
        instance = next((i for i in world.instances() if i.state != "terminated" and environ["REMOTE_ADDR"] in _addresses(i)), None)
        return self._answer(request, instance)(environ, start)

    def _answer(self, request: Request, instance: Instance | None) -> Response:
        if instance is None:
            return Response("no instance has this address\n", 404)
        token = self._derived("session", str(instance.id))
        if request.path == f"{PREFIX}api/token":
            fine = request.method == "PUT" and request.headers.get("X-aws-ec2-metadata-token-ttl-seconds", "").isdigit()
            return Response(token if fine else "", 200 if fine else 400)
        if not hmac.compare_digest(request.headers.get("X-aws-ec2-metadata-token", ""), token):
            return Response("", 401)
        text = self._text(request.path.removeprefix(f"{PREFIX}meta-data/"), instance)
        return Response(text or "", 404 if text is None else 200)

    def _text(self, path: str, instance: Instance) -> str | None:
        found, region = _role_of(instance), str(instance.ec2_backend.region_name)
        role = str(found.name) if found else ""
        match path:
            case "instance-id":
                return str(instance.id)
            case "placement/region":
                return region
            case "autoscaling/target-lifecycle-state":
                return self._target_state(region, str(instance.id)) or None
            case "iam/security-credentials/" | "iam/security-credentials":
                return role or None
            case _:
                return json.dumps(self._credentials(instance)) if role and path == f"iam/security-credentials/{role}" else None

    def _credentials(self, instance: Instance) -> dict[str, Any]:
        key_id = f"ASIA{str(instance.id).removeprefix('i-').upper()[:16]}"
        self._given[key_id] = instance
        expires = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=_LASTS_S)
        return {
            "Code": "Success",
            "Type": "AWS-HMAC",
            "AccessKeyId": key_id,
            "SecretAccessKey": self._derived("secret", key_id),
            "Token": self._derived("token", key_id),
            "Expiration": expires.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }


def _addresses(instance: Instance) -> set[str]:
    return {str(instance.public_ip), str(instance.private_ip)}


def _role_of(instance: Instance) -> Role | None:
    """The role of an instance's profile; None where it has none."""
    backend = ec2_backends[DEFAULT_ACCOUNT_ID][instance.ec2_backend.region_name]
    association = backend.iam_instance_profile_associations.get(instance.id)
    return next(iter(association.iam_instance_profile.roles), None) if association else None


def identity(instance_id: str, role: str, role_id: str) -> Response:
    """What STS answers to GetCallerIdentity for the credentials of a machine."""
    arn = f"arn:aws:sts::{DEFAULT_ACCOUNT_ID}:assumed-role/{role}/{instance_id}"
    fields = f"<Arn>{arn}</Arn><UserId>{role_id}:{instance_id}</UserId><Account>{DEFAULT_ACCOUNT_ID}</Account>"
    answer = f"<GetCallerIdentityResult>{fields}</GetCallerIdentityResult><ResponseMetadata><RequestId>0</RequestId></ResponseMetadata>"
    return Response(f"<GetCallerIdentityResponse>{answer}</GetCallerIdentityResponse>", content_type="text/xml")
