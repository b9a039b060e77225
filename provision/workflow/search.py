"""Where the things of a launch are looked for: in the regions of its record, or wherever anything of ours can be."""

from collections.abc import Iterable

from provision.clouds.base import Instance, NotSetUpError
from provision.errors import CredentialsExpiredError, CredentialsMissingError, HostUnreachableError, counted
from provision.launch.cost import profile_of
from provision.launch.journal import Record
from provision.launch.lifecycle import first_regions, machines
from provision.launch.ours import Ours
from provision.launch.regions import everywhere, regions_of
from provision.profile import load
from provision.profile.locked import recorded
from provision.profile.model import Profile
from provision.profile.network import Network
from provision.structs import Struct
from provision.workflow.session import Say, Session


class Search(Struct):
    """The clouds, the (cloud, region) pairs to look in, and the record of the launch if there is one here."""

    ours: Ours
    places: set[tuple[str, str]]
    record: Record | None


class LaunchMachines(Struct):
    """The machines of one launch, at least one of them, with the clouds that have them.

    Attributes:
        rehearsal: whether they are in the embedded cloud.
        record: what the journal holds about the launch; None where it was not launched from here.
    """

    ours: Ours
    instances: list[Instance]
    rehearsal: bool
    record: Record | None

    @property
    def group(self) -> str:
        """The launch's name."""
        return self.instances[0].group

    def profile(self, instance: Instance) -> Profile:
        """The profile that a machine was launched from, or the one of that name here.

        Raises:
            HostUnreachableError: there is neither, so the limits that were signed are not known.
        """
        if self.record is not None:
            return recorded(Profile, self.record.profile, self.record.name)
        for profile in local_profiles():
            if profile.name == instance.profile:
                return profile
        msg = (
            f"{instance.name} was launched from the profile {instance.profile!r}, which is not on this machine, so its limits are not known"
        )
        raise HostUnreachableError(msg, hint="run this command where the profile is")

    def network(self, instance: Instance) -> Network:
        """How the profile of a machine says that it is reached; directly, where the profile is not known here."""
        try:
            return self.profile(instance).network
        except HostUnreachableError:
            return Network()


def local_profiles() -> list[Profile]:
    """The profiles that a name finds on this machine."""
    return [entry.profile for entry in load.list_profiles() if entry.profile is not None]


def regions(
    session: Session, *, rehearsal: bool, record: Record | None = None, profiles: Iterable[Profile] | None = None
) -> set[tuple[str, str]]:
    """The regions of the profiles on this machine (`profiles`, if they have been read) and of the journal's records of the same kind."""
    records = [one for one in session.journal.all() if one.rehearsal == rehearsal]
    own = profile_of(record) if record else None
    return regions_of([*([own] if own else []), *(local_profiles() if profiles is None else profiles)], records)


def search(session: Session, name: str, *, rehearsal: bool, say: Say) -> Search:
    """Where to look for a launch, or one of its machines, by name; `rehearsal` counts only where the journal does not know it."""
    record = session.journal.of(name)
    rehearsal = record.rehearsal if record else rehearsal
    places = regions(session, rehearsal=rehearsal, record=record)
    ours = Ours(session.connect(rehearsal=rehearsal), say)
    if record is not None:
        return Search(ours, places, record)
    places |= everywhere()
    asked = ", ".join(sorted({cloud for cloud, _ in places}))
    unknown = f"{name} was not launched from here{session.journal.known(name)}"
    say(f"{unknown}: asking {counted(len(places), 'region')} ({asked})")
    return Search(ours, places - _silent(ours, places, say, unknown), None)


def _silent(ours: Ours, places: set[tuple[str, str]], say: Say, unknown: str) -> set[tuple[str, str]]:
    """The regions of the clouds without credentials. One region of each cloud is asked, because to ask all of them takes minutes.

    Of a cloud that is set up here and whose login fails, that one region stays: what asks it next ends with its error.

    Raises:
        CredentialsMissingError, CredentialsExpiredError: there are credentials for no cloud.
    """
    first = first_regions(places)
    answers = ours.everywhere(first, lambda handle: handle.find())
    without = {pair[0]: answer for pair, answer in answers.items() if isinstance(answer, CredentialsMissingError | CredentialsExpiredError)}
    if len(without) == len({cloud for cloud, _ in places}):
        error = next(iter(without.values()))
        msg = f"{error.message}; {unknown}"
        raise type(error)(msg, hint=error.hint, detail=error.detail)
    not_set_up = {cloud for cloud, error in without.items() if isinstance(error, NotSetUpError)}
    for cloud in not_set_up:
        say(f"{cloud} is not asked: {without[cloud].message}")
    return {pair for pair in places if pair[0] in not_set_up or (pair[0] in without and pair not in first)}


def launch_machines(session: Session, name: str, *, rehearsal: bool, say: Say) -> LaunchMachines:
    """The machines of a launch, or one of them by its own name; `rehearsal` as in `search`."""
    where = search(session, name, rehearsal=rehearsal, say=say)
    say(f"looking for {name}")
    record = where.record
    pairs = record.regions if record is not None and record.machines else where.places
    found = machines(where.ours, name, pairs, "" if record else f"; it was not launched from here{session.journal.known(name)}")
    return LaunchMachines(where.ours, found, record.rehearsal if record else rehearsal, record)
