"""The first boot of a machine on GCP: as a document of cloud-init, or as a script where the image has no cloud-init.

Of Google's images only Ubuntu's read `user-data`; on all of them Google's guest agent runs the metadata item `startup-script` as root, at
each boot (data/cloud.yaml has the source of each). The script does once what the document says. What an image's build does already is not
in it: the images without cloud-init refuse passwords and root over SSH (kickstart/*.cfg of GoogleCloudPlatform/compute-image-tools).
"""

import base64
import gzip
import json
import shlex
from typing import Any, Final

from provision.clouds import base
from provision.clouds.gcp.image_choice import first_boot_of
from provision.clouds.userdata import DONE

DOCUMENT, SCRIPT = "user-data", "startup-script"
"""The items of the metadata."""
_PER_INSTANCE: Final = 3  # words before a command of `bootcmd` that runs once: cloud-init-per, instance, and a name


def item(order: base.Order, document: str) -> tuple[str, str]:
    """The item of an order's metadata that does its first boot.

    Raises:
        ImageNotFoundError: it is not known what images of the system run.
    """
    return (SCRIPT, script(document)) if first_boot_of(order.os) == SCRIPT else (DOCUMENT, document)


def of(items: list[dict[str, Any]]) -> tuple[str, str]:
    """The same of a machine's metadata."""
    return next((str(each["key"]), str(each["value"])) for each in items if each["key"] in {DOCUMENT, SCRIPT})


def script(document: str) -> str:
    """What a document of cloud-init says, as a script for the shell that does it at the first boot and nothing at a later one.

    Its mark, its own digest, is written before the downloads begin: they are not needed, and begin once. A baked image has no mark
    (`host/clean.py`), and that of another script does not count.
    """
    told: dict[str, Any] = json.loads(document.partition("\n")[2])
    early = [words[_PER_INSTANCE:] if words[0] == "cloud-init-per" else words for words in told.get("bootcmd", ())]
    lines = [
        "#!/bin/sh",
        "# Google's guest agent runs this at each boot; the first one does what is here.",
        "set -eu",
        'mark=$(sha256sum < "$0")',
        f'if test "$(cat {DONE} 2>/dev/null)" = "$mark"; then exit 0; fi',
        *(_written(file["path"], file["permissions"], shlex.quote(_content(file))) for file in told["write_files"]),
        *map(shlex.join, told["runcmd"]),
        _written(DONE, "0644", '"$mark"'),
        *map(shlex.join, early),
    ]
    return "\n".join(lines) + "\n"


def _content(file: dict[str, str]) -> str:
    packed = file.get("encoding") == "gz+b64"
    return gzip.decompress(base64.b64decode(file["content"])).decode() if packed else file["content"]


def _written(path: str, permissions: str, word: str) -> str:
    return f"printf %s {word} | install -D -m {permissions} /dev/stdin {path}"
