"""SSH configuration of our instances: an include file of our own, so that `ssh gpuprov-NAME` works everywhere.

There are two files. `hosts.conf` has an entry for each instance; the user's `~/.ssh/config` includes it. `config` is for gpuprov's own
`ssh -F`: it includes our entries, then the user's configuration (jump hosts, agents, hardware keys). One file cannot do both, because
OpenSSH refuses a file that includes itself.
"""

import fcntl
import hashlib
import os
import re
import subprocess
from pathlib import Path

from provision.errors import UsageError
from provision.host import hostkeys
from provision.host.ssh import LOCALHOST, Target
from provision.nearest import suggested
from provision.paths import is_private_own, lock_of, private_dir, text_of, write_whole

_COMMENT = "# gpuprov: instances launched from here (removed again with the last of them)"


def alias_of(name: str) -> str:
    """What `ssh` calls the instance."""
    return f"gpuprov-{name}"


class SshHome:
    """The folder with our key, known hosts and configuration.

    Args:
        folder: created when missing, mode 0700.
        user_config: the user's ssh configuration; by default `$GPUPROV_SSH_CONFIG`, then `~/.ssh/config`.
    """

    def __init__(self, folder: Path, user_config: Path | None = None) -> None:
        self.folder = private_dir(folder)
        self.user_config = user_config or Path(os.environ.get("GPUPROV_SSH_CONFIG") or Path.home() / ".ssh" / "config")
        self.known_hosts = self.folder / "known_hosts"
        self._hosts = self.folder / "hosts.conf"
        self.config = self.folder / "config"
        self._identity = self.folder / "id_ed25519"

    def public_key(self) -> str:
        """The public key for new instances; the pair is generated on first use."""
        with lock_of(self.folder / "key.lock"):
            if not self._identity.exists():
                hostkeys.make_pair(self._identity)
        public = text_of(self._identity.with_suffix(".pub")).strip()
        if not public:
            msg = f"{self._identity}.pub has no key"
            raise UsageError(msg, hint=f"`ssh-keygen -y -f {self._identity} > {self._identity}.pub` writes it again")
        return public

    @property
    def identity(self) -> Path:
        """The private key, once `public_key` has made it."""
        return self._identity

    def target(self, name: str) -> Target:
        """How `provision.host.ssh` reaches the instance of that name."""
        return Target(name=name, destination=alias_of(name), config=self.config)

    def reach(self, host: str) -> Target:
        """How a HOST argument is reached: an instance of ours, this machine, or whatever the user's ssh makes of it."""
        if host in {"localhost", "127.0.0.1"}:
            return LOCALHOST
        if self.knows(host):
            return self.target(host)
        ours = re.findall(rf"(?m)^Host {alias_of('(.+)')}$", text_of(self._hosts))
        return Target(name=host, destination=host, meant=suggested(host, ours))

    def knows(self, name: str) -> bool:
        """Whether there is an entry for the instance."""
        return f"\nHost {alias_of(name)}\n" in "\n" + text_of(self._hosts)

    def entry(self, name: str) -> tuple[tuple[str, str], ...]:
        """What the instance's entry says, as ssh_config's keywords and values in its order; empty where there is none."""
        blocks = re.split(r"(?m)^(?=Host )", text_of(self._hosts))
        own = next((block for block in blocks if block.split("\n", 1)[0] == f"Host {alias_of(name)}"), "")
        pairs = (line.strip().partition(" ") for line in own.splitlines()[1:] if line.strip())
        return tuple((keyword, value.strip('"')) for keyword, _, value in pairs)

    def add(self, name: str, *, address: str, login: str, keys: tuple[str, ...] | None, way: str = "") -> None:
        """Write the entry and the host keys of an instance, and include our file in the user's configuration.

        Args:
            name: of the instance.
            address: where it is.
            login: its first user.
            keys: the only host keys that are accepted; None accepts the same as before, as for a machine with a new address.
            way: lines of `provision.host.way` for a machine that is not reached directly. The host keys are the machine's own in any
                case: HostKeyAlias names the machine, not a host on the way to it.

        Raises:
            HostUnreachableError: the cloud says no address or no user name of it.
        """
        from provision.host.way import check_entry  # noqa: PLC0415 - takes 0.1 s, and `verify` connects before it

        check_entry(name, address, login)
        alias = alias_of(name)
        if keys is not None:
            hostkeys.remember(self.known_hosts, alias, keys)
        entry = (
            f"Host {alias}\n"
            f"  HostName {address}\n"
            f"{way}"
            f"  User {login}\n"
            f"  HostKeyAlias {alias}\n"
            f'  IdentityFile "{self._identity}"\n'
            "  IdentitiesOnly yes\n"
            f'  UserKnownHostsFile "{self.known_hosts}"\n'
            "  GlobalKnownHostsFile /dev/null\n"
            "  StrictHostKeyChecking yes\n"
            "  UpdateHostKeys no\n"
            "  ControlMaster auto\n"
            # The alias is part of the path. %C alone has only the address: when a second machine, or an impostor, gets the address of
            # the first, its connection would be confused with the open one of the first, and its host key would not be checked.
            f'  ControlPath "{self._control_folder()}/{hashlib.sha256(alias.encode()).hexdigest()[:8]}-%C"\n'
            "  ControlPersist 60\n"
        )
        write_whole(self.config, f'Include "{self._hosts}"\nInclude "{self.user_config}"\n')
        self._write(alias, entry)

    def accept(self, name: str, keys: tuple[str, ...]) -> None:
        """Accept exactly these host keys of an instance from now on."""
        hostkeys.remember(self.known_hosts, alias_of(name), keys)

    def close(self, name: str) -> None:
        """Close the connection to an instance that is kept open, if there is one."""
        if self.config.exists():
            subprocess.run(
                ["ssh", "-F", str(self.config), "-O", "exit", alias_of(name)],
                check=False,
                capture_output=True,
                stdin=subprocess.DEVNULL,
            )

    def remove(self, name: str) -> None:
        """Forget an instance; with the last one, our line in the user's configuration is removed too."""
        alias = alias_of(name)
        self.close(name)
        hostkeys.forget(self.known_hosts, alias)
        self._write(alias, "")

    def _control_folder(self) -> Path:
        """A folder with a short path: a socket's path has at most 108 bytes, and ssh appends a suffix while it binds."""
        runtime = os.environ.get("XDG_RUNTIME_DIR")
        folder = Path(runtime, "gpuprov-ssh") if runtime else Path(f"/tmp/gpuprov-ssh-{os.getuid()}")  # noqa: S108 - owner and mode are checked
        return folder if is_private_own(folder) else self.folder

    def _write(self, alias: str, entry: str) -> None:
        """Replace the entry of an instance; the user's configuration includes ours as long as there is one."""
        with lock_of(self.folder / "hosts.lock"):
            blocks = [
                block
                for block in re.split(r"(?m)^(?=Host )", text_of(self._hosts))
                if block.strip() and block.split("\n", 1)[0] != f"Host {alias}"
            ]
            whole = "".join([*blocks, entry])
            write_whole(self._hosts, whole)
            self._include(present=bool(whole))

    def _include(self, *, present: bool) -> None:
        """Add or remove our lines at the top of the user's configuration; the rest of it is not touched."""
        ours = f'{_COMMENT}\nInclude "{self._hosts}"\n\n'
        text_of(self.user_config, errors="surrogateescape")  # what is no file of text is refused before it is opened
        if not self.user_config.exists():
            if not present:
                return
            if not self.user_config.parent.exists():
                private_dir(self.user_config.parent)
            self.user_config.touch(mode=0o600)
        # Written in place, not replaced: the file may be a link into a dotfiles repository. It is cut to its length after the write: it
        # never lacks the user's own lines, whenever this is killed and whoever reads meanwhile.
        with os.fdopen(os.open(self.user_config, os.O_WRONLY), "wb") as file:
            # The lock is the file's own: another GPUPROV_HOME has other lock files and changes the same configuration.
            fcntl.flock(file, fcntl.LOCK_EX)
            text = text_of(self.user_config, errors="surrogateescape")  # comments may be in another encoding
            rest = text.replace(ours, "")
            updated = ours + rest if present else rest
            if updated != text:
                before, after = (each.encode(errors="surrogateescape") for each in (text, updated))
                self._grow(file.fileno(), len(before), len(after) - len(before))
                file.write(after.ljust(len(before), b"\n"))  # what is cut off next is empty lines, not the end of the user's last line
                file.flush()
                file.truncate(len(after))

    def _grow(self, descriptor: int, size: int, growth: int) -> None:
        """Take the room first, as empty lines at the end: a full disk shows here, before anything of the user's is overwritten."""
        try:
            if growth <= 0 or os.pwrite(descriptor, b"\n" * growth, size) == growth:
                return
            why = "the disk has no room for it"
        except OSError as error:
            why = str(error.strerror)
        os.ftruncate(descriptor, size)
        msg = f"cannot write {self.user_config}: {why}"
        raise UsageError(msg, hint=f"make room: `df -h {self.user_config.parent}`; the file is as it was")
