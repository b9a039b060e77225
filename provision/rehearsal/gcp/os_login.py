"""OS Login of the embedded GCP: the login profiles of its accounts, and the accounts that a machine with OS Login lets in.

Its user names: docs.cloud.google.com/compute/docs/connect/add-ssh-keys. A real machine asks at each login; a host here is told at its first
boot alone, so that it goes on to accept a key that was taken away. What an account of another organization is told:
GoogleCloudPlatform/cluster-toolkit#2950; with which status is from memory.
"""

import hashlib
import time
import zlib
from typing import Any, Final

from provision.clouds.gcp.identity import OS_LOGIN
from provision.rehearsal.gcp.refusals import ComputeError, forbidden, not_found, required
from provision.rehearsal.gcp.settings import PROJECT
from provision.rehearsal.gcp.world import GcpCall, Handler, World

_SERVICE_ACCOUNT: Final = ".gserviceaccount.com"
_MICROSECONDS: Final = 10**6
_ACTS_AS: Final = "iam.serviceAccounts.actAs"


def accounts(world: World, instance: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """User and key of everybody whom IAM lets in as root; only the caller's permissions are known, so nobody else."""
    allowed = world.settings.gce_allowed
    needs = {*OS_LOGIN, *([_ACTS_AS] if instance.get("serviceAccounts") else [])}
    if allowed is not None and not needs <= set(allowed):
        return ()
    user = world.settings.gce_caller
    return tuple((_username(user), entry["key"]) for entry in _keys(world, user).values())


def _username(email: str) -> str:
    if email.endswith(_SERVICE_ACCOUNT):
        return f"sa_{zlib.crc32(email.encode()) + 10**20}"
    return "".join(letter if letter.isalnum() else "_" for letter in email.lower())


def _keys(world: World, user: str) -> dict[str, dict[str, str]]:
    """Fingerprint → key, of those that have not expired."""
    keys = world.login_keys.setdefault(user, {})
    now = time.time() * _MICROSECONDS
    for name in [name for name, key in keys.items() if int(key.get("expirationTimeUsec", now + 1)) <= now]:
        del keys[name]
    return keys


def _user(call: GcpCall) -> str:
    """Whose profile it is: one's own alone can be read and changed."""
    user = call.path["usersId"]
    if user != call.world.settings.gce_caller:
        raise forbidden(call.method.id, f"users/{user}")
    if call.world.settings.gce_login_external:
        words = "Insufficient IAM permissions. The instance belongs to an external organization. You must be granted the "
        words += "roles/compute.osLoginExternalUser IAM role on the external organization to configure POSIX account information."
        raise ComputeError("forbidden", words)
    return user


def _profile(call: GcpCall) -> dict[str, Any]:
    user, keys = _user(call), _keys(call.world, _user(call))
    number = str(zlib.crc32(user.encode()) % 10**9 + 10**9)
    account = {
        "primary": True,
        "username": _username(user),
        "uid": number,
        "gid": number,
        "homeDirectory": f"/home/{_username(user)}",
        "operatingSystemType": "LINUX",
        "accountId": PROJECT,
        "name": f"users/{user}/projects/{PROJECT}",
    }
    accounts = {"posixAccounts": [account]} if call.world.settings.gce_login_accounts else {}
    return {"name": user, **accounts, **({"sshPublicKeys": dict(keys)} if keys else {})}


def _import(call: GcpCall) -> dict[str, Any]:
    user, text = _user(call), str(call.body.get("key", "")).strip()
    if not text:
        raise required("ssh_public_key.key")
    ends = int(call.body.get("expirationTimeUsec", 0))
    if ends and ends <= time.time() * _MICROSECONDS:
        raise ComputeError("badRequest", "The expiration time of the key is in the past.")
    name = hashlib.sha256(text.encode()).hexdigest()
    kept = {"key": text, **({"expirationTimeUsec": str(ends)} if ends else {})}
    _keys(call.world, user)[name] = {**kept, "fingerprint": name, "name": f"users/{user}/sshPublicKeys/{name}"}
    return {"loginProfile": _profile(call)}


def _key(call: GcpCall) -> dict[str, str]:
    user, name = _user(call), call.path["sshPublicKeysId"]
    if name not in _keys(call.world, user):
        raise not_found(f"users/{user}/sshPublicKeys/{name}")
    return _keys(call.world, user)[name]


def _patch(call: GcpCall) -> dict[str, Any]:
    key = _key(call)
    fields = call.query.get("updateMask", ",".join(call.body)).split(",")
    key.update({field: str(call.body[field]) for field in fields if field in call.body})
    return dict(key)


def _delete(call: GcpCall) -> dict[str, Any]:
    del _keys(call.world, _user(call))[_key(call)["fingerprint"]]
    return {}


def _userinfo(call: GcpCall) -> dict[str, Any]:
    return {"email": call.world.settings.gce_caller, "id": "1" + "0" * 20, "verified_email": True}


HANDLERS: Final[dict[str, Handler]] = {
    "oslogin.users.getLoginProfile": _profile,
    "oslogin.users.importSshPublicKey": _import,
    "oslogin.users.sshPublicKeys.get": lambda call: dict(_key(call)),
    "oslogin.users.sshPublicKeys.patch": _patch,
    "oslogin.users.sshPublicKeys.delete": _delete,
    "oauth2.userinfo.get": _userinfo,
}
