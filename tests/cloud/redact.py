"""Remove from a transcript what must not leave the user's machine: credentials, keys, user data, and who the account is.

An account's number, project or address is replaced by a word that is the same each time, so that two lines about one account still show it.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

# The variables whose values are secrets, wherever they turn up.
VARIABLES: Final = (
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_WEB_IDENTITY_TOKEN"),
    *("DIGITALOCEAN_ACCESS_TOKEN", "DIGITALOCEAN_TOKEN", "CLOUDSDK_AUTH_ACCESS_TOKEN"),
)
_NAMES: Final = re.compile(
    r"(?i)(secret|password|passwd|credential|authorization|signature|security.?token|access.?token|refresh.?token|id.?token|session.?token"
    r"|private.?key|user.?data|client.?token|startup-script|^ssh-keys$|^ssh_?keys?$|public.?key|^key_?material$|^assertion$)"
)
_PATTERNS: Final = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)",
        r"\b(AKIA|ASIA)[0-9A-Z]{16}\b",
        r"\bdop_v1_[0-9a-z]+",
        r"\bya29\.[\w.-]+",
        r"\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*",
    )
)
_ACCOUNT: Final = re.compile(r"\b[0-9]{12}\b")
_EMAIL: Final = re.compile(r"[\w.+-]+@[\w-]+(\.[\w-]+)+")
_LONGEST: Final = 4_000
_SHORT: Final = 6  # a secret shorter than this would be found everywhere


class Redactor:
    """Replaces what is secret.

    Args:
        secrets: values that are secrets.
        known: account numbers that are public, such as those of the publishers of images.
        names: of this account, such as its project.
    """

    def __init__(self, secrets: Iterable[str], known: Iterable[str] = (), names: Iterable[str] = ()) -> None:
        self._secrets = sorted({each for each in secrets if len(each) >= _SHORT}, key=len, reverse=True)
        self._known, self._names = frozenset(known), sorted({each for each in names if len(each) >= _SHORT}, key=len, reverse=True)

    def value(self, value: Any, key: str = "") -> Any:
        """A value without its secrets; `key` is the name under which it stands."""
        if isinstance(value, Mapping):
            if "key" in value and "value" in value and _NAMES.search(str(value["key"])):  # an item of metadata
                return {**value, "value": _removed(value["value"])}
            return {str(name): self.value(each, str(name)) for name, each in value.items()}
        if _NAMES.search(key) and value not in (None, "", [], {}):
            return _removed(value)
        if isinstance(value, list | tuple):
            return [self.value(each, key) for each in value]
        if isinstance(value, bool | int | float) or value is None:
            return value
        return self.text(str(value))

    def text(self, text: str) -> str:
        """A text without its secrets, cut where it is long."""
        for secret in self._secrets:
            text = text.replace(secret, "(removed)")
        for pattern in _PATTERNS:
            text = pattern.sub("(removed)", text)
        for name in self._names:
            text = text.replace(name, _same("project", name))
        text = _ACCOUNT.sub(lambda m: m[0] if m[0] in self._known else _same("account", m[0]), text)
        text = _EMAIL.sub(lambda m: _same("address", m[0]), text)
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text)} characters)"


def secrets_here() -> list[str]:
    """The secrets in this process's environment."""
    return [os.environ[name] for name in VARIABLES if os.environ.get(name)]


def _removed(value: Any) -> str:
    return f"(removed: {len(str(value))} characters)"


def _same(kind: str, value: str) -> str:
    return f"{kind}-{hashlib.sha256(value.encode()).hexdigest()[:8]}"
