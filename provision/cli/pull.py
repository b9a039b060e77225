"""`gpuprov pull`."""

from provision.cli.push import LIKE_RSYNC, copy_command
from provision.host.transfer import pull

command = copy_command(
    "pull", pull, "from", f"Copy files and folders from HOST with rsync. The last PATH is on this machine.\n\n{LIKE_RSYNC}"
)
