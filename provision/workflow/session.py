"""What every run needs of this user and machine: the journal, the SSH home, which cloud is meant, which profile and lock."""

from __future__ import annotations

import datetime as dt
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from provision import clouds, paths
from provision.catalog import read
from provision.errors import InstanceNotFoundError, RehearsalFailedError, UsageError
from provision.launch.journal import Journal, Record, check_name
from provision.profile import load, lockfile
from provision.profile.locked import Lock, recorded
from provision.profile.model import Profile
from provision.structs import Struct

if TYPE_CHECKING:
    from provision.host.ssh import Target
    from provision.host.sshconfig import SshHome
    from provision.launch.audit import AuditLog
    from provision.launch.regions import Connect

_VENVS: Final = "/opt/gpuprov/venvs"
_FRAMEWORKS: Final = ("pytorch", "tensorflow", "jax", "opencv")

Say = Callable[[str], None]
"""Told about the progress of a run, a phrase at a time."""


def silent(_step: str) -> None:
    """Progress that nobody reads."""


def rehearsal_folder(state: Path) -> Path:
    """Where the embedded cloud of a user's state lives."""
    return state / "rehearsal"


class ProfileSource(Struct):
    """A profile's file with the lock that goes with it.

    Attributes:
        source: the bytes of the file, for line numbers and for bundles.
        lock: the one beside the file, or what would be locked today.
    """

    path: Path
    source: bytes
    profile: Profile
    lock: Lock

    @classmethod
    def read(cls, name: str) -> ProfileSource:
        """Read a profile by name or file."""
        path = load.find(name)
        profile = load.load(path)
        return cls(path, paths.read_bounded(path, load.MAX_BYTES), profile, lockfile.find_or_build(path, profile, today()))


class Session(Struct):
    """This user's gpuprov on this machine."""

    state: Path
    journal: Journal
    ssh: SshHome

    @classmethod
    def open(cls) -> Session:
        """The session of the folder that `paths.state_dir` names."""
        from provision.host.sshconfig import SshHome  # noqa: PLC0415 - loads asyncio, and whoever plans or locks opens no session

        state = paths.state_dir()
        return cls(state, Journal(state / "launches"), SshHome(state / "ssh"))

    @property
    def audit(self) -> AuditLog:
        """Who ran what on whose approval."""
        from provision.launch.audit import AuditLog  # noqa: PLC0415 - 10 ms, and whoever plans or locks writes none

        return AuditLog(self.state / "audit.jsonl")

    @property
    def verdicts(self) -> Path:
        """Where the last verdict on each machine is kept; see `verify.kept`."""
        return self.state / "verdicts"

    @property
    def measurements(self) -> Path:
        """Where the runs of `bench` are kept."""
        return self.state / "bench"

    @property
    def rehearsal_folder(self) -> Path:
        """Where the embedded cloud lives."""
        return rehearsal_folder(self.state)

    def connect(self, *, rehearsal: bool, start: bool = False, say: Say = silent) -> Connect:
        """How clouds are reached: the user's own accounts, or the embedded cloud, which is started first if `start` says so."""
        access = self.accesses(start=start, say=say) if rehearsal else {}
        return lambda cloud, region: clouds.connect(cloud, region, access.get(cloud))

    def accesses(self, *, start: bool, say: Say) -> dict[str, Any]:
        """How each cloud of the embedded ones is reached; with `start` they are started first.

        Raises:
            RehearsalFailedError: they do not run.
        """
        from provision.rehearsal import control  # noqa: PLC0415 - 10 ms, and of use for the embedded cloud alone

        running = control.start(self.rehearsal_folder, progress=say) if start else control.running(self.rehearsal_folder)
        if running is None:
            msg = "the embedded cloud is not running"
            raise RehearsalFailedError(msg, hint="start it with `gpuprov rehearse start`; the instances it had ended with it")
        return {cloud: clouds.access_from(cloud, running.settings(cloud)) for cloud in clouds.CLOUDS}

    def offer_images(self, profile: Profile, say: Say = silent) -> None:
        """Tell the embedded cloud of the images that a profile names, and build what its hosts are made of where they are EL-like."""
        from provision.rehearsal import control, rootfs  # noqa: PLC0415 - as above

        running, os = control.running(self.rehearsal_folder), (profile.os.name, profile.os.version)
        system, offered = " ".join(os), []
        if running is not None and rootfs.is_el(system) and control.ask(running, "status")["hosts"]:
            rootfs.build(paths.cache_dir(), say, like="el")
        for place in profile.places:
            image = clouds.provider(place.cloud).image(os, place)
            if place.own_image is not None and image is not None:
                named = place.own_image.model_dump(mode="json", exclude={"login", "has"}, exclude_none=True)
                regions = dict.fromkeys(place.region_of(location) for location in place.locations)
                fixed = {"cloud": place.cloud, "image": named, "login": image.login, "system": system}
                offered += [{**fixed, "region": region} for region in regions]
        if running is not None and offered:
            control.ask(running, "images", method="PUT", body=offered)

    def record(self, name: str) -> Record:
        """What the journal holds about a launch, or about the launch of one of several machines.

        Raises:
            InstanceNotFoundError: it holds nothing.
        """
        record = self.journal.of(name)
        if record is None:
            raise self._not_ours(name, "list the instances with `gpuprov ls`, or launch one with `gpuprov up --name …`")
        return record

    def only_instance(self) -> str:
        """The name of the one machine that was launched from here.

        Raises:
            UsageError: there is none, or more than one.
        """
        names = [host for record in self.journal.all() for host in record.hosts]
        if len(names) != 1:
            found = f"there are {', '.join(names)}" if names else "nothing was launched from here"
            msg = f"no HOST is given, and {found}"
            raise UsageError(msg, hint="name one: `gpuprov ls` lists them" if names else "`gpuprov up PROFILE` launches one")
        return names[0]

    def target(self, host: str) -> Target:
        """How a HOST argument is reached: an instance of ours, this machine, or whatever the user's ssh makes of it."""
        return self.ssh.reach(host)

    def instance_target(self, name: str) -> Target:
        """How an instance that was launched from here is reached.

        Raises:
            InstanceNotFoundError: none of that name was launched from here.
        """
        if not self.ssh.knows(name):
            raise self._not_ours(name, "list the instances with `gpuprov ls`")
        return self.ssh.target(name)

    def environments(self, host: str) -> list[str]:
        """The folders of programs that a host may have: of its profile's own environment, then of those that the roles make."""
        record = self.journal.of(host)
        own = record and (record.profile.get("stack", {}).get("python") or {}).get("prefix")
        return [f"{venv.rstrip('/')}/bin" for venv in ([own] if own else []) + [f"{_VENVS}/{name}" for name in _FRAMEWORKS]]

    def in_environment(self, host: str) -> str:
        """A line for the shell of a host: `python` is what `with-pytorch python` is, or that of the first environment there is."""
        return f'for bin in {shlex.join(self.environments(host))}; do if [ -x "$bin/python" ]; then PATH=$bin:$PATH; break; fi; done'

    def forget_hosts(self, hosts: Iterable[str]) -> None:
        """Remove hosts from the SSH configuration, with their keys."""
        for host in dict.fromkeys(hosts):
            if self.ssh.knows(host):
                self.ssh.remove(host)
            if self.verdicts.exists():
                (self.verdicts / f"{check_name(host)}.json").unlink(missing_ok=True)

    def lock(self, path: Path | None, profile: Profile, *, rehearsal: bool, signed: Lock | None = None) -> Lock:
        """The exact stack of a profile: the signed lock, the lock beside the profile's file, or what would be locked today.

        A rehearsal host stands for an EL system that the profile asks for; else it runs this machine's system, and gets the packages and
        wheels of that.
        """
        from provision.profile.lock import build  # noqa: PLC0415 - the resolver takes 0.1 s, and a run with a lock does not need it
        from provision.profile.own import as_in  # noqa: PLC0415 - as above
        from provision.rehearsal import rootfs  # noqa: PLC0415 - of use for the embedded cloud alone

        lock = signed if signed is not None or path is None else lockfile.find(path, profile)
        asked = f"{profile.os.name} {profile.os.version}"
        system = rootfs.system() if rehearsal and not rootfs.is_el(asked) else None
        if system is not None and system in {record.key for record in read.systems().systems}:
            return build(profile, today(), system=system, own=as_in(lock) if lock is not None and lock.os == system else None)
        return lock or build(profile, today())

    def lock_for(self, host: str | None, name: str | None, profile: Profile, *, signed: Lock | None = None) -> Lock | None:
        """The lock that goes with `profile_for`, whose `profile` it returned, or the signed profile.

        It is the signed lock, else the one beside the file of the profile `name`, else the one that `host` was launched with; None if there
        is none of them.
        """
        record = self._record_of(host)
        rehearsal = record is not None and record.rehearsal
        if signed is not None:
            return self.lock(None, profile, rehearsal=rehearsal, signed=signed)
        if name is not None:
            path = load.find(name)
            return self.lock(path, profile, rehearsal=True) if rehearsal else lockfile.find(path, profile)
        return recorded(Lock, record.lock, record.name) if record is not None and record.lock else None

    def profile_for(self, host: str | None, name: str | None) -> Profile:
        """The profile of a command: the one that the user named, or the one that the instance was launched from.

        Raises:
            InstanceNotFoundError: there is neither.
        """
        if name is not None:
            return load.load(load.find(name))
        record = self._record_of(host)
        if record is None:
            if host is None:
                msg = "it is not known which profile should match"
                raise InstanceNotFoundError(msg, hint="name one with --profile")
            raise self._not_ours(host, "`gpuprov ls` lists the instances; any other host needs --profile")
        return recorded(Profile, record.profile, record.name)

    def _not_ours(self, name: str, hint: str) -> InstanceNotFoundError:
        msg = f"no instance called {name!a} was launched from here{self.journal.known(name)}"
        return InstanceNotFoundError(msg, hint=hint)

    def _record_of(self, host: str | None) -> Record | None:
        return self.journal.of(host) if host and self.ssh.knows(host) else None


def today() -> dt.date:
    """The day that decides which releases are supported: today, in UTC."""
    return dt.datetime.now(dt.UTC).date()
