"""OS Login: the key that may log in is imported into the caller's own Google account, for the time of the launch, and IAM decides.

The machine's user is the POSIX account of that Google account. The name of the key's entry stands in the machine's metadata, by which
`down` finds it. The API: https://cloud.google.com/compute/docs/oslogin/rest. That its methods need no permission for one's own account is
from memory, but that an account of outside the project's organization needs a role there is not: "You must be granted the
roles/compute.osLoginExternalUser IAM role on the external organization" (GoogleCloudPlatform/cluster-toolkit#2950).
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from provision.clouds import base
from provision.clouds.gcp import identity
from provision.clouds.gcp.answers import tags_of
from provision.clouds.gcp.errors import GoneError
from provision.clouds.gcp.requests import KEY_TAG, LABELS, LOGIN_TAG
from provision.errors import CloudError, CloudInvalidError, CloudUnreachableError, PermissionRefusedError, ThrottledError
from provision.structs import replace

if TYPE_CHECKING:
    import datetime as dt

    from provision.clouds.gcp.api import GcpProjectApi

KIND: Final = "os-login-key"
_SERVICE: Final = "oslogin"
_IMPORT: Final = "oslogin.users.importSshPublicKey"
_REFUSED_HINT: Final = (
    "enable the API (`gcloud services enable oslogin.googleapis.com`), and see that this account may use OS Login: one of outside the "
    "project's organization needs roles/compute.osLoginExternalUser on the organization"
)
_MICROSECONDS: Final = 10**6
# The metadata of a machine is anybody's who may set it in the project, and this becomes the path of a call.
_ENTRY: Final = re.compile(r"users/[A-Za-z0-9][A-Za-z0-9_.@+-]*/sshPublicKeys/[A-Za-z0-9]+")


@contextlib.contextmanager
def for_launch(api: GcpProjectApi, order: base.Order) -> Iterator[base.Order]:
    """The order with the user and the key that the machines are made with; without OS Login it stays as it is.

    A launch that certainly failed leaves no key, unless another machine of ours is for it.

    Raises:
        PermissionRefusedError: the caller may not log in as root, or not import a key; nothing was made.
    """
    if not identity.by_os_login(order):
        yield order
        return
    _check(api, order)
    user = f"users/{api.caller()}"
    login, key = _import(api, user, order)
    try:
        yield replace(order, tags={**order.tags, LOGIN_TAG: login, KEY_TAG: key})
    except (CloudUnreachableError, ThrottledError):
        raise  # nobody knows whether there are machines
    except CloudError:
        with contextlib.suppress(CloudError):  # the launch's own error is the one to tell; the key ends by itself
            if not _launches_by_key(api).get(key):
                remove(api, key)
        raise


def examine(api: GcpProjectApi, order: base.Order) -> base.Answer:
    """Whether the caller may log in as a user who can become root, and has a profile of OS Login to import a key into."""
    try:
        _check(api, order)
        _profile(api, f"users/{api.caller()}")
    except PermissionRefusedError as error:
        return base.Answer("os-login", holds=False, said=error.message)
    return base.Answer("os-login", holds=True, said="OS Login lets these credentials in, as a user who can become root")


def _check(api: GcpProjectApi, order: base.Order) -> None:
    """Ask which of the permissions the caller has: without them the machine would refuse the key once it runs, and give no reason."""
    wanted = [*identity.OS_LOGIN, *(identity.ACTIONS[1:] if identity.of(order) else ())]
    missing = api.lacking(wanted)
    if missing:
        msg = f"GCP refuses {' and '.join(missing)} to these credentials, without which OS Login lets nobody in who can become root"
        hint = "ask whoever owns the project for roles/compute.osAdminLogin" + (
            ", and roles/iam.serviceAccountUser on the service account" if identity.ACTIONS[1] in missing else ""
        )
        raise PermissionRefusedError(msg, hint=hint)


def _import(api: GcpProjectApi, user: str, order: base.Order) -> tuple[str, str]:
    """Import the order's key until its deadline, or until a later one that it has already; returns the POSIX user and the key's name."""
    text, ends = order.public_key.strip(), _ending(order.deadline)
    profile = _profile(api, user)
    had = _entries(profile, text)
    later = max([ends, *(int(key.get("expirationTimeUsec", 0)) for key in had.values())])
    body = {"key": text, "expirationTimeUsec": str(later)}
    try:
        answer = api.ask(_SERVICE, "POST", f"/v1/{user}:importSshPublicKey", _IMPORT, body=body, query={"projectId": api.project})
    except PermissionRefusedError as error:
        error.hint = _REFUSED_HINT
        raise
    profile = answer["loginProfile"]
    accounts = [each for each in profile.get("posixAccounts", []) if each.get("operatingSystemType", "LINUX") != "WINDOWS"]
    names = [str(each["username"]) for each in sorted(accounts, key=lambda each: not each.get("primary")) if each.get("username")]
    fingerprints = list(_entries(profile, text))
    if not names or not fingerprints:
        for name in set(fingerprints) - set(had):  # nothing of a login that cannot be used stays
            remove(api, f"{user}/sshPublicKeys/{name}")
        msg = f"{_IMPORT}: the profile of {user} has no POSIX account, or not the key"
        raise CloudInvalidError(msg, hint="run the same command again; `gcloud compute os-login describe-profile` shows the profile")
    return names[0], f"{user}/sshPublicKeys/{fingerprints[0]}"


def _profile(api: GcpProjectApi, user: str) -> dict[str, Any]:
    try:
        return api.ask(_SERVICE, "GET", f"/v1/{user}/loginProfile", "oslogin.users.getLoginProfile", query={"projectId": api.project})
    except PermissionRefusedError as error:
        error.hint = _REFUSED_HINT
        raise


def _ending(moment: dt.datetime) -> int:
    return int(moment.timestamp()) * _MICROSECONDS


def _entries(profile: dict[str, Any], text: str) -> dict[str, dict[str, Any]]:
    """Fingerprint → entry, of a key in a login profile; a comment makes no other key of it."""
    wanted = text.split()[:2]
    return {name: entry for name, entry in profile.get("sshPublicKeys", {}).items() if str(entry.get("key", "")).split()[:2] == wanted}


def key_of(tags: Mapping[str, str]) -> str:
    """The key that opens a machine with these tags; empty where they say none."""
    key = tags.get(KEY_TAG, "")
    return key if _ENTRY.fullmatch(key) else ""


def _launches_by_key(api: GcpProjectApi) -> dict[str, set[str]]:
    """The launches of the project with machines that a key opens, by the key."""
    launches: dict[str, set[str]] = {}
    for tags in map(tags_of, _instances(api)):
        launches.setdefault(key_of(tags), set()).add(tags.get(base.LAUNCH_TAG, ""))
    return launches


def _instances(api: GcpProjectApi) -> list[Any]:
    ours = f"labels.{LABELS[base.NAME_TAG]}:*"
    scopes = api.pages("Instances", "aggregated_list", "compute.instances.list", filter=ours)
    return [raw for _, scoped in scopes for raw in scoped.instances]


def things(api: GcpProjectApi, machines: Sequence[Any]) -> list[base.Thing]:
    """The keys that open machines and no machines of other launches.

    Args:
        api: whose project.
        machines: as Compute Engine lists them.
    """
    by_key = {key: tags for tags in map(tags_of, machines) if (key := key_of(tags))}
    launches = _launches_by_key(api) if by_key else {}
    return [base.Thing.tagged(KIND, key, "global", tags) for key, tags in by_key.items() if len(launches.get(key, ())) == 1]


def take_back(api: GcpProjectApi, keys: Sequence[base.Thing], on_step: base.Step) -> list[str]:
    """Remove keys, and return a phrase for each that was there; one of somebody else's account stays until it ends by itself."""
    phrases = []
    for key in keys:
        on_step(f"removing {key}")
        try:
            phrases += [str(key)] if remove(api, key.id) else []
        except PermissionRefusedError:
            on_step(f"{key} stays until it expires: it is in the account of whoever launched the machine")
    return phrases


def remove(api: GcpProjectApi, key: str) -> bool:
    """Take a key out of its account's profile; returns whether it was still there."""
    try:
        api.ask(_SERVICE, "DELETE", f"/v1/{key}", "oslogin.users.sshPublicKeys.delete")
    except GoneError:
        return False
    return True


def extend(api: GcpProjectApi, key: str, deadline: dt.datetime) -> None:
    """Let a key be valid until the deadline, unless it is valid for longer."""
    entry = api.ask(_SERVICE, "GET", f"/v1/{key}", "oslogin.users.sshPublicKeys.get")
    if int(entry.get("expirationTimeUsec", 0)) < _ending(deadline):
        body = {"key": entry["key"], "expirationTimeUsec": str(_ending(deadline))}
        query = {"updateMask": "expirationTimeUsec"}
        api.ask(_SERVICE, "PATCH", f"/v1/{key}", "oslogin.users.sshPublicKeys.patch", body=body, query=query)
