"""What this machine needs to hold the embedded clouds and their hosts."""

import os
import shutil
from importlib.util import find_spec
from typing import Final

from provision.rehearsal import cgroups

_PACKAGES: Final = ("moto", "proxpi", "googleapiclient", "psutil")
_TOOLS: Final = {
    "mmdebstrap": "mmdebstrap",
    "apt-cacher-ng": "apt-cacher-ng",
    "ip": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "losetup": "mount",
    "mkfs.ext4": "e2fsprogs",
    "apt-get": "apt",
}
_PATH: Final = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def gaps(*, hosts: bool) -> list[str]:
    """What this machine lacks, as `what is missing: how to get it`; without hosts no tool and no right is needed."""
    lacks = [f"the Python package {name} is missing: pip install 'gpuprov[rehearse]'" for name in _PACKAGES if find_spec(name) is None]
    if not hosts:
        return lacks
    if os.geteuid() != 0:
        lacks.append("rehearsal hosts need root for namespaces, loop devices and a bridge: run with sudo")
    elif not cgroups.available():
        lacks.append("no cgroup2 hierarchy can be written: mount cgroup2, or leave the container that hides it")
    return lacks + [
        f"{tool} is missing: apt-get install {package}" for tool, package in _TOOLS.items() if not shutil.which(tool, path=_PATH)
    ]
