"""What a profile may not take: folders of the system and of homes, accounts of the system, addresses that lead nowhere else."""

import base64
import binascii
import ipaddress
import re
import unicodedata
from typing import Final
from urllib.parse import urlsplit

from provision import clouds

# Filesystem Hierarchy Standard 3.0, chapters 3 to 5, with Ubuntu's /snap; a disk over one of them hides what the system or a login needs.
_SYSTEM: Final = frozenset(
    [
        "bin",
        "boot",
        "dev",
        "etc",
        "home",
        "lib",
        "lib32",
        "lib64",
        "libx32",
        "proc",
        "root",
        "run",
        "sbin",
        "snap",
        "sys",
        "tmp",
        "usr",
        "var",
    ]
)
_PROGRAMS: Final = frozenset({"/opt", "/opt/gpuprov", "/opt/nvidia"})
# Container engines keep their images there.
_ALLOWED: Final = frozenset({"/var/lib/docker", "/var/lib/containerd", "/var/lib/containers"})
# The accounts and groups of Debian's base-passwd and EL's setup package, and those that their common services make.
_NAMES: Final = """
    root daemon bin sys sync games man lp mail news uucp proxy www-data backup list irc gnats nobody nogroup adm
    tty disk kmem dialout fax voice cdrom floppy tape sudo audio dip operator src shadow utmp video sasl plugdev
    staff users input sgx kvm render wheel halt shutdown ftp dbus polkitd tss sshd chrony messagebus syslog uuidd
    tcpdump landscape pollinate fwupd-refresh lxd docker netdev crontab nvidia-persistenced gpuprov
"""
_ACCOUNTS: Final = frozenset(_NAMES.split())
_TAG_KEY: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,59}")
_PRIVATE: Final = tuple(ipaddress.IPv4Network(network) for network in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"))
# A name whose last part is a number is an address to the system's resolver, in forms that nobody reads (inet_aton(3)).
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_KEY_TYPES: Final = 4  # bytes of the length before the type in an SSH key's blob
# Letters that fill space and show nothing: Hangul fillers, the blank Braille pattern.
_BLANK: Final = frozenset("\u115f\u1160\u3164\uffa0\u2800")


def folder_problem(path: str) -> str:
    """Why a disk cannot be mounted at a plain absolute path; empty when it can."""
    plain = path.rstrip("/")
    top = plain.split("/")[1]
    if plain in _ALLOWED:
        return ""
    if top in _SYSTEM:
        return f"must not lie in /{top}, which holds the system or a home; /data or /mnt/data are free"
    return f"must not be {plain}, where programs are; /data or /mnt/data are free" if plain in _PROGRAMS else ""


def account_problem(name: str) -> str:
    """Why a person cannot have a login name; empty when one can."""
    if name in _ACCOUNTS or name.startswith(("_", "systemd-")):
        return f"{name} is an account of the system; choose a person's name"
    return ""


def key_problem(line: str) -> str:
    """Why an OpenSSH public key is none; empty when its data is of the type that it says."""
    kind, _, rest = line.partition(" ")
    try:
        blob = base64.b64decode(rest.split(" ")[0], validate=True)
    except (binascii.Error, ValueError):
        return "is not an OpenSSH public key: its data is not base64; paste the line of the .pub file"
    length = int.from_bytes(blob[:_KEY_TYPES], "big")
    if blob[_KEY_TYPES : _KEY_TYPES + length] != kind.encode():
        return f"says {kind} and holds another type of key; paste the line of the .pub file"
    return ""


def tag_problem(key: str) -> str:
    """Why a tag's key cannot be a profile's; empty when it can."""
    if not _TAG_KEY.fullmatch(key):
        return f"{key!r} is not a tag's key: it has 1 to 60 letters, digits and _.-, and begins with a letter"
    if key.lower() == "name" or key.lower().startswith("gpuprov"):
        return f"gpuprov itself sets {key}; choose another key"
    taken = next((prefix for each in clouds.providers() for prefix in each.reserved_tags if key.lower().startswith(prefix)), "")
    return f"keys that begin with {taken} belong to the cloud; choose another key" if taken else ""


def url_problem(url: str) -> str:
    """Why packages cannot be fetched from an address; empty when they can."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "has a port that does not exist; ports end at 65535"
    if port == 0:
        return "has a port that does not exist; ports begin at 1"
    if ".." in parts.path.split("/"):
        return "must not have '..' in its path"
    try:
        address = ipaddress.ip_address(parts.hostname or "")
    except ValueError:
        return ""
    if address.is_link_local or address.is_unspecified or address.is_multicast:
        return f"is at {address}, which is not a mirror's address: the cloud's metadata is among those"
    return ""


def head_problem(name: str) -> str:
    """Why a machine cannot be the head of a cluster by this address or name; empty when it can."""
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        try:
            address = ipaddress.IPv4Address(name)
        except ValueError:
            return f"{name} is neither an IPv4 address nor a host name"
        if not any(address in network for network in _PRIVATE):
            return f"{name} is not a private address: Ray asks for no password, so its port must not be reached from elsewhere"
        return ""
    if not all(_LABEL.fullmatch(label) for label in labels):
        return f"{name} is not a host name: its parts have 1 to 63 letters, digits and hyphens, and no hyphen at an end"
    return "localhost is this machine; write self" if labels[-1] == "localhost" else ""


def is_visible(text: str) -> bool:
    """Whether a reader sees at least one character."""
    return any(unicodedata.category(character)[0] in "LNPS" and character not in _BLANK for character in text)
