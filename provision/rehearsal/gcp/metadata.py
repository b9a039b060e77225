"""The metadata server of the embedded Compute Engine: what an instance asks about itself, and what it gets to show who it is.

A host reaches it where it reaches its packages, at an address of its own network: who asks is known by the address. Paths and headers:
docs.cloud.google.com/compute/docs/metadata/querying-metadata; the claims of an identity token:
docs.cloud.google.com/compute/docs/instances/verifying-instance-identity.
"""

import base64
import datetime as dt
import functools
import hmac
import json
import secrets
import time
from collections.abc import Iterable
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID
from werkzeug import Request, Response

from provision.rehearsal.base import Environ, Start
from provision.rehearsal.gcp.guests import metadata_of
from provision.rehearsal.gcp.settings import PROJECT
from provision.rehearsal.gcp.world import World, last

PREFIX: Final = "/computeMetadata/"
CERTS: Final = "/oauth2/v1/certs"
_LASTS_S: Final = 3599
_KEY_ID: Final = "rehearsal"
_NUMBER: Final = "123456789012"


class MetadataServer:
    """The server as a WSGI application, and the tokens that it gave."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._root = secrets.token_bytes(32)

    @functools.cached_property
    def _key(self) -> rsa.RSAPrivateKey:
        """What identity tokens are signed with; made when the first is asked for, because that takes longer than a start."""
        return rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def __call__(self, environ: Environ, start: Start) -> Iterable[bytes]:
        """Answer one request."""
        request = Request(environ)
        with self._world.lock:
            response = self._answer(request, self._asking(str(environ["REMOTE_ADDR"])))
        return response(environ, start)

    def certificates(self) -> Response:
        """The certificates of the keys that identity tokens are signed with, by key id, as Google publishes its own."""
        with self._world.lock:
            return Response(json.dumps({_KEY_ID: _certificate(self._key)}), mimetype="application/json")

    def holder(self, token: str) -> tuple[str, str] | None:
        """Id and service account of the instance that was given this token, if it runs; None for any other."""
        instance_id = token.removeprefix("ya29.").partition(".")[0]
        if not hmac.compare_digest(token.encode(), self._token(instance_id).encode()):
            return None
        found = next((i for _, i in self._world.within(PROJECT, "instances") if i["id"] == instance_id), None)
        accounts = found.get("serviceAccounts", []) if found and found["status"] == "RUNNING" else []
        return (instance_id, str(accounts[0]["email"])) if accounts else None

    def _token(self, instance_id: str) -> str:
        return f"ya29.{instance_id}.{hmac.digest(self._root, instance_id.encode(), 'sha256').hex()}"

    def _asking(self, address: str) -> dict[str, Any] | None:
        for _, instance in self._world.within(PROJECT, "instances"):
            cards = instance["networkInterfaces"]
            own = {card.get("networkIP") for card in cards} | {a.get("natIP") for card in cards for a in card.get("accessConfigs", [])}
            if instance["status"] != "TERMINATED" and address in own:
                return instance
        return None

    def _answer(self, request: Request, instance: dict[str, Any] | None) -> Response:
        if request.headers.get("Metadata-Flavor") != "Google" or request.headers.get("X-Forwarded-For"):
            return Response("Missing Metadata-Flavor:Google header.\n", 403)
        if instance is None:
            return Response("no instance has this address\n", 404)
        text = self.text(request.path.removeprefix(f"{PREFIX}v1/"), instance, request.args.get("audience", ""))
        answer = Response(text or "", 404 if text is None else 200)
        answer.headers["Metadata-Flavor"] = "Google"
        return answer

    def text(self, path: str, instance: dict[str, Any], audience: str = "") -> str | None:
        """The value at a path; None where there is none."""
        accounts = instance.get("serviceAccounts", [])
        account = "instance/service-accounts/default/"
        match path:
            case "instance/id":
                return str(instance["id"])
            case "instance/name":
                return str(instance["name"])
            case "instance/zone":
                return f"projects/{_NUMBER}/zones/{last(instance['zone'])}"
            case "project/project-id":
                return PROJECT
        if path.startswith("instance/attributes/"):
            return metadata_of(instance).get(path.rpartition("/")[2])
        if not accounts or not path.startswith(account):
            return None
        email = str(accounts[0]["email"])
        match path.removeprefix(account):
            case "email":
                return email
            case "token":
                return json.dumps({"access_token": self._token(instance["id"]), "expires_in": _LASTS_S, "token_type": "Bearer"})
            case "identity":
                return self._identity(instance, email, audience) if audience else None
        return None

    def _identity(self, instance: dict[str, Any], email: str, audience: str) -> str:
        """Google's signature on who an instance is, for an audience; in the format `full`."""
        began = int(time.time())
        created = int(dt.datetime.fromisoformat(instance["creationTimestamp"]).timestamp())
        engine = {"instance_id": instance["id"], "instance_name": instance["name"], "zone": last(instance["zone"]), "project_id": PROJECT}
        claims = {
            "iss": "https://accounts.google.com",
            "aud": audience,
            "iat": began,
            "exp": began + 3600,
            "email": email,
            "email_verified": True,
            "sub": email,
            "azp": email,
            "google": {"compute_engine": {**engine, "project_number": int(_NUMBER), "instance_creation_timestamp": created}},
        }
        words = b".".join(_packed(json.dumps(part).encode()) for part in ({"alg": "RS256", "kid": _KEY_ID, "typ": "JWT"}, claims))
        return b".".join((words, _packed(self._key.sign(words, padding.PKCS1v15(), hashes.SHA256())))).decode()


def _packed(raw: bytes) -> bytes:
    return base64.urlsafe_b64encode(raw).rstrip(b"=")


def _certificate(key: rsa.RSAPrivateKey) -> str:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "federated-signon.rehearsal")])
    began = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)
    built = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
    signed = built.not_valid_before(began).not_valid_after(began + dt.timedelta(days=365)).sign(key, hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.PEM).decode()
