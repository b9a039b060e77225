"""What is ours at the clouds: found by tag in many regions at the same time, and removed there."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from provision.clouds import base
from provision.clouds.base import NotSetUpError
from provision.concurrent import at_once
from provision.errors import CloudError, CredentialsMissingError, NameTakenError
from provision.launch.journal import Record
from provision.launch.patience import PATIENT, Patience
from provision.launch.regions import Connect, everywhere
from provision.structs import MutableStruct, field

T = TypeVar("T")
_LISTED: Final = 20
_NAMED: Final = 3  # regions that a phrase names
Pair = tuple[str, str]


class Ours(MutableStruct):
    """The clouds as one run sees them: one cloud object for each region, because it remembers what it has made.

    Args:
        connect: (cloud, region) → cloud object.
        on_step: told about pauses and removals.
        patience: how often a call is repeated.
    """

    connect: Connect
    on_step: base.Step
    patience: Patience = PATIENT
    _handles: dict[Pair, base.Cloud] = field(default_factory=dict)

    def handle(self, pair: Pair) -> base.Cloud:
        """The cloud object of a region."""
        if pair not in self._handles:
            self._handles[pair] = self.connect(*pair)
        return self._handles[pair]

    def known(self, record: Record, handle: base.Cloud) -> base.Known:
        """What the journal knows of a launch where this handle looks."""
        cloud, region = next(pair for pair, each in self._handles.items() if each is handle)
        return record.known(cloud, region, whole=handle.spans == "project")

    def once(self, where: Iterable[Pair]) -> dict[Pair, base.Cloud]:
        """The handles of these regions, but only one for a cloud whose every region sees the whole project."""
        handles: dict[Pair, base.Cloud] = {}
        for pair in sorted(set(where)):
            handle = self.handle(pair)
            if handle.spans != "project" or all(pair[0] != cloud for cloud, _ in handles):
                handles[pair] = handle
        return handles

    def everywhere(self, where: Iterable[Pair], ask: Callable[[base.Cloud], T]) -> dict[Pair, T | CloudError]:
        """Ask all regions at the same time. The answer of a region that fails is its error."""
        handles = self.once(where)

        def one(handle: base.Cloud) -> T | CloudError:
            try:
                return ask(handle)
            except CloudError as error:
                return error

        return dict(zip(handles, at_once(one, handles.values()), strict=True))

    def look(self, name: str, where: Iterable[Pair], needed: Collection[Pair] = ()) -> list[base.Instance]:
        """The living machines of a launch, the oldest launch first.

        A cloud that is not set up here is passed over when another one answers, unless it is `needed`.

        Raises:
            CloudError: a region did not answer, so machines may exist that are not in sight.
        """

        def find(handle: base.Cloud) -> list[base.Instance]:
            what = f"looking for {name} in {handle.region}"
            return self.patience.ask(lambda: handle.find(name), on_step=self.on_step, what=what, repeat_unanswered=False)

        answers = self.everywhere(where, find)
        for error in self.hiding(answers, needed).values():
            raise error
        instances = [instance for answer in answers.values() if not isinstance(answer, CloudError) for instance in answer]
        return oldest_first(instance for instance in instances if instance.state not in {"shutting-down", "terminated"})

    def hiding(self, answers: Mapping[Pair, object], needed: Collection[Pair] = ()) -> dict[Pair, CloudError]:
        """The errors behind which something of ours may be.

        Those of a cloud that is not set up here, and of a region that the account has not enabled, hide nothing, unless they are needed, or
        nothing else answers.
        """
        errors = {pair: answer for pair, answer in answers.items() if isinstance(answer, CloudError)}
        sure = everywhere()
        passed = {
            pair
            for pair, error in errors.items()
            if isinstance(error, NotSetUpError) or (isinstance(error, CredentialsMissingError) and pair not in sure)
            if not self.sees(pair, needed)
        }
        return errors if len(errors) == len(answers) else {pair: error for pair, error in errors.items() if pair not in passed}

    def sees(self, pair: Pair, regions: Collection[Pair]) -> bool:
        """Whether one of these regions is seen from this one, which for some clouds is the whole project."""
        return pair in regions or (self.handle(pair).spans == "project" and any(pair[0] == cloud for cloud, _ in regions))

    def clear(self, record: Record, where: Iterable[Pair]) -> None:
        """Remove everything of one launch in these regions, at the same time. Things of other launches stay.

        Raises:
            CloudError: of the first region that failed.
        """

        def one(handle: base.Cloud) -> None:
            def clear() -> None:
                found = handle.things(record.name, self.known(record, handle))
                things = [thing for thing in found if thing.launch_id == record.launch_id]
                if things:
                    handle.remove(things, on_step=lambda _: None)

            self.patience.ask(clear, on_step=self.on_step, what=f"removing what is not needed in {handle.region}")

        for answer in self.everywhere(where, one).values():
            if isinstance(answer, CloudError):
                raise answer


def unanswered(answers: Mapping[Pair, object]) -> dict[str, list[Pair]]:
    """A phrase for each kind of error with which regions of one cloud did not answer → these regions."""
    kinds: dict[tuple[str, type[CloudError]], dict[Pair, CloudError]] = {}
    for pair, answer in answers.items():
        if isinstance(answer, CloudError):
            kinds.setdefault((pair[0], type(answer)), {})[pair] = answer
    phrases = {}
    for (cloud, _), errors in kinds.items():
        named = [region for _, region in errors]
        where = ", ".join(named[:_NAMED]) + (f" and {len(named) - _NAMED} more regions of {cloud}" if len(named) > _NAMED else "")
        whole = len(named) == sum(each == cloud for each, _ in answers)
        phrases[f"{cloud if whole else where}: {next(iter(errors.values())).message}"] = list(errors)
    return phrases


def oldest_first(instances: Iterable[base.Instance]) -> list[base.Instance]:
    """Sort by launch, the oldest first (in the same second by launch id), and within a launch by name."""
    members = list(instances)
    launched: dict[str, str] = {}
    for i in members:
        launched[i.launch_id] = min(i.launched_at, launched.get(i.launch_id, i.launched_at))
    return sorted(members, key=lambda i: (launched[i.launch_id], i.launch_id, len(i.name), i.name))


def of_another_launch(name: str, others: Sequence[base.Instance], *, own: bool) -> NameTakenError:
    """The error for machines that have the name of a launch and are not of it.

    Args:
        name: of the launch.
        others: these machines.
        own: whether the launch itself has machines.
    """
    listed = [f"{i.id} in {i.region}, {i.state} since {i.launched_at}, of {i.owner or 'an unknown owner'}" for i in others]
    if len(listed) > _LISTED:
        listed = [*listed[:_LISTED], f"and {len(listed) - _LISTED} more"]
    many = "a machine" if len(others) == 1 else f"{len(others)} machines"
    msg = f"{name!r} is also the name of {many} of another launch: {'; '.join(listed)}"
    if own:
        return NameTakenError(msg, hint=f"ask for their removal, or `gpuprov down {name}` removes everything of that name, yours too")
    return NameTakenError(msg, hint=f"choose another --name; if nobody needs them, `gpuprov down {name}` removes them and frees the name")
