"""What every run needs of this user and machine: the journal, the SSH home, and which cloud is meant."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provision import clouds, paths
from provision.errors import InstanceNotFoundError, RehearsalFailedError
from provision.host.ssh import Target
from provision.host.sshconfig import SshHome
from provision.launch.journal import Journal, Record
from provision.profile import load as profiles
from provision.profile import lockfile
from provision.profile.locked import Lock
from provision.profile.model import Profile
from provision.rehearsal import control

if TYPE_CHECKING:
    from provision.launch.regions import Connect

__all__ = ["Session"]

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Session:
    """This user's gpuprov on this machine."""

    state: Path
    journal: Journal
    ssh: SshHome

    @classmethod
    def open(cls) -> Session:
        """The session of the folder that `paths.state_dir` names."""
        state = paths.state_dir()
        return cls(state, Journal(state / "launches"), SshHome(state / "ssh"))

    @property
    def rehearsal_folder(self) -> Path:
        """Where the embedded cloud lives."""
        return self.state / "rehearsal"

    def connect(self, *, rehearsal: bool, start: bool = False, say: Say = lambda _: None) -> Connect:
        """How clouds are reached: the user's own accounts, or the embedded cloud.

        Args:
            rehearsal: whether the embedded cloud is meant.
            start: whether it may be started for this.
            say: told about the progress of a start.

        Raises:
            RehearsalFailedError: it does not run and may not be started.
            RehearsalUnavailableError: this machine cannot hold it.
        """
        access = self._rehearsal_access(start=start, say=say) if rehearsal else {}
        return lambda cloud, region: clouds.connect(cloud, region, access.get(cloud))

    def _rehearsal_access(self, *, start: bool, say: Say) -> dict[str, Any]:
        running = control.start(self.rehearsal_folder, progress=say) if start else control.running(self.rehearsal_folder)
        if running is None:
            msg = "the embedded cloud does not run"
            raise RehearsalFailedError(msg, hint="`gpuprov rehearse start` starts it; what ran in it ended with it")
        return {cloud: clouds.access_from(cloud, running.settings(cloud)) for cloud in clouds.CLOUDS}

    def record(self, name: str) -> Record:
        """What the journal knows of a launch, or of the launch of one of several machines.

        Raises:
            InstanceNotFoundError: nothing.
        """
        record = self.journal.of(name)
        if record is None:
            msg = f"no instance called {name!r} was launched from here"
            raise InstanceNotFoundError(msg, hint="`gpuprov ls` shows what there is; `gpuprov up --name …` makes one")
        return record

    def target(self, host: str) -> Target:
        """How a HOST argument is reached: an instance of ours, this machine, or whatever the user's ssh makes of it."""
        return self.ssh.reach(host)

    def lock(self, path: Path | None, profile: Profile, today: dt.date, *, rehearsal: bool, signed: Lock | None = None) -> Lock:
        """The exact stack of a profile: what was signed, the lock beside it, or what would be locked today.

        A rehearsal host is of this machine's system and stands in for the profile's; its packages and wheels are those of its own.

        Raises:
            LockStaleError, LockInvalidError: there is a lock, and it does not hold.
            StackConflictError: there is none, and none can be made.
        """
        from provision.catalog import read as catalog  # noqa: PLC0415 - the resolver and its data
        from provision.profile.lock import build  # noqa: PLC0415
        from provision.rehearsal import rootfs  # noqa: PLC0415

        locked = signed if signed is not None or path is None else lockfile.find(path, profile)
        own = rootfs.system() if rehearsal else None
        if own is not None and own in {system.key for system in catalog.systems().systems}:
            return build(profile, today, system=own)
        return locked or build(profile, today)

    def lock_for(self, host: str | None, given: str | None, profile: Profile, *, signed: Lock | None = None) -> Lock | None:
        """The lock that goes with `profile_for`: what was signed, beside the profile named, or what the instance was launched from.

        Raises:
            LockStaleError, LockInvalidError: the file beside the profile does not hold for it.
        """
        record = self.journal.of(host) if host and self.ssh.knows(host) else None
        if signed is not None:
            rehearsal = record is not None and record.rehearsal
            return self.lock(None, profile, dt.datetime.now(dt.UTC).date(), rehearsal=rehearsal, signed=signed)
        if given is not None:
            path = profiles.find(given)
            if record is not None and record.rehearsal:
                return self.lock(path, profile, dt.datetime.now(dt.UTC).date(), rehearsal=True)
            return lockfile.find(path, profile)
        return Lock.model_validate(record.lock) if record is not None and record.lock else None

    def profile_for(self, host: str | None, given: str | None) -> Profile:
        """The profile of a command: the one named, or the one that the instance was launched from.

        Raises:
            InstanceNotFoundError: neither is known.
        """
        if given is not None:
            return profiles.load(profiles.find(given))
        record = self.journal.of(host) if host and self.ssh.knows(host) else None
        if record is None:
            msg = "which profile should hold is not known"
            raise InstanceNotFoundError(msg, hint="say it with --profile; only instances that gpuprov launched from here carry their own")
        return Profile.model_validate(record.profile)
