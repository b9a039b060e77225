"""`gpuprov pull`."""

from provision.cli.push import LIKE_RSYNC, copy_command
from provision.host.transfer import pull

command = copy_command(
    "pull",
    pull,
    "from",
    f"Copy files and folders from HOST with rsync. The last of several PATHs is on this machine; without it they come to this folder. "
    f"`gpuprov pull HOST:data .` says the same.\n\n{LIKE_RSYNC}",
)
