"""The types of what is read of the answers of Google's APIs that are asked without its client, which checks its own.

Other keys are not looked at. Sources: the discovery documents of oslogin v1, cloudresourcemanager v3, oauth2 v2, storage v1,
serviceusage v1 and cloudbilling v1.
"""

from typing import TypedDict


class _Key(TypedDict, total=False):
    key: str
    expirationTimeUsec: int


class _PosixAccount(TypedDict, total=False):
    primary: bool
    username: str
    operatingSystemType: str


class _Profile(TypedDict, total=False):
    posixAccounts: list[_PosixAccount]
    sshPublicKeys: dict[str, _Key]


class _Binding(TypedDict, total=False):
    role: str
    members: list[str]


class _Object(TypedDict, total=False):
    name: str
    size: int
    timeCreated: str


class GoogleAnswer(_Key, _Profile, total=False):
    """Any of the answers."""

    loginProfile: _Profile
    permissions: list[str]
    bindings: list[_Binding]
    email: str
    items: list[_Object]
    nextPageToken: str
    state: str
    billingEnabled: bool
