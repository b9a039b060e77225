"""The types of a profile's strings: each limits its characters, so that a value stays data in a cloud call, a playbook or a report.

Free text (purpose, reasons) may have any printable character, and is never put where a program would evaluate it.
"""

import functools
from collections.abc import Callable
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, StringConstraints

from provision.profile import reserved


def _printable(text: str) -> str:
    """Refuse control characters: they can move a terminal's cursor, split log lines and end YAML scalars."""
    bad = sorted({f"U+{ord(c):04X}" for c in text if not (c.isprintable() or c == "\n")})
    if bad:
        msg = f"holds characters that do not print ({', '.join(bad[:5])})"
        raise ValueError(msg)
    if not reserved.is_visible(text):
        msg = "shows nothing; write what a reader should know"
        raise ValueError(msg)
    return text


def _absolute(path: str) -> str:
    """Refuse paths with `..`, `.` or empty parts, and paths in folders of the system."""
    parts = path.split("/")
    if ".." in parts or "." in parts or "" in parts[1:]:
        msg = "must be a plain absolute path, without '..', '.' or empty parts"
        raise ValueError(msg)
    return free_of(reserved.folder_problem, path)


def free_of(problem: Callable[[str], str], value: str) -> str:
    """Refuse a value that has the problem."""
    msg = problem(value)
    if msg:
        raise ValueError(msg)
    return value


# The description of a pattern says in words what it takes; it is what a complaint shows (`provision.profile.suggest`).
Name = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,38}[a-z0-9]$"),
    Field(description="2 to 40 lower-case letters, digits and hyphens, beginning with a letter"),
]
Text = Annotated[str, StringConstraints(min_length=1, max_length=500, strip_whitespace=True), AfterValidator(_printable)]
Email = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63})+$", max_length=254),
    Field(description="an address such as ada@example.org"),
]
_VERSION: Final = r"[0-9]{1,4}(\.[0-9]{1,5}){0,3}"
Version = Annotated[str, StringConstraints(pattern=rf"^{_VERSION}$"), Field(description='a version such as "12.9"')]
VersionOrAuto = Literal["auto"] | Version
# A wheel from another index of PyTorch's says so in its local version: 2.14.1+cu126.
WheelVersionOrAuto = (
    Literal["auto"]
    | Annotated[
        str,
        StringConstraints(pattern=rf"^{_VERSION}(\+cu[0-9]{{2,4}})?$"),
        Field(description='auto, or a version such as "2.10.0" or "2.14.1+cu126"'),
    ]
)
AbsolutePath = Annotated[
    str,
    StringConstraints(pattern=r"^/[A-Za-z0-9._-]+(/[A-Za-z0-9._-]*)*$", max_length=200),
    Field(description="an absolute path of letters, digits, dots, hyphens and underscores, such as /data"),
    AfterValidator(_absolute),
]
Url = Annotated[
    str,
    StringConstraints(pattern=r"^https?://[A-Za-z0-9.-]{1,253}(:[0-9]{1,5})?(/[A-Za-z0-9._~+-]+)*/?$", max_length=300),
    Field(description="an address such as https://mirror.example.org/cuda"),
    AfterValidator(functools.partial(free_of, reserved.url_problem)),
]
# The narrowest form that clouds take for the names of buckets; the prefix is ours to narrow. Its groups: scheme, bucket, prefix.
STORE: Final = r"([a-z][a-z0-9]*)://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])((?:/[A-Za-z0-9_-]{1,64}){0,8})/?"
StoreUrl = Annotated[
    str,
    StringConstraints(pattern=rf"^{STORE}$"),
    Field(description="SCHEME://BUCKET or SCHEME://BUCKET/PREFIX, such as s3://my-bucket/fleets"),
]
Fingerprint = Annotated[str, StringConstraints(pattern=r"^[0-9A-F]{40}$"), Field(description="40 digits from 0 to 9 and A to F")]
Login = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z_][a-z0-9_-]{0,31}$"),
    Field(description="up to 32 lower-case letters, digits, hyphens and underscores, beginning with a letter"),
]
PublicKey = Annotated[
    str,
    StringConstraints(
        pattern=r"^(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)|sk-ssh-ed25519@openssh\.com|sk-ecdsa-sha2-nistp256@openssh\.com)"
        r" [A-Za-z0-9+/]{40,1400}={0,2}( [A-Za-z0-9@._-]{1,100})?$"
    ),
    Field(description="an OpenSSH public key: the line of a .pub file"),
    AfterValidator(functools.partial(free_of, reserved.key_problem)),
]
CheckId = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{1,40}$"), Field(description="the id of a check, such as root-room")]
RayHead = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$"),
    Field(description="`self`, or the private IPv4 address or the host name of the machine that is the head, in lower case"),
    AfterValidator(functools.partial(free_of, reserved.head_problem)),
]
FileName = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,98}$"),
    Field(description="the name of a file beside the profile, without a folder"),
]
TagValue = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9_.:/=+@-]([A-Za-z0-9 _.:/=+@-]{0,253}[A-Za-z0-9_.:/=+@-])?$"),
    Field(description="1 to 255 letters, digits, spaces and _.:/=+@-"),
]
