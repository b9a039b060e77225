"""The attempts of one launch. Each is journalled before it is made, has a row, and leaves nothing behind where it fails."""

import datetime as dt
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from provision.clouds import base, changes
from provision.clouds.baked import Recipe
from provision.clouds.base import TokenSpentError
from provision.errors import CapacityError, CloudError, CloudUnreachableError, NameTakenError, ShortageError
from provision.launch import place
from provision.launch.baked import image_for
from provision.launch.journal import Journal, Machine, Pending, Record
from provision.launch.ours import Ours
from provision.launch.place import Attempt, Option
from provision.launch.plan import Plan, order
from provision.structs import MutableStruct, Struct, field, replace

_MOST_TOKENS = 64  # of one place; each one before the last has machines that ended


class LaunchRequest(Struct):
    """What one run should launch.

    Attributes:
        plan: what is launched, and where.
        public_key: the OpenSSH public key that may log in first.
        count: the number of machines.
        minimum: the number that is enough. If it is `count`, one zone must give all of them.
        wait_s: how long rounds over all places are repeated while none has capacity.
        only: the one cloud whose places are tried; None for all.
        recipe: what an image of ours is made of today, for places that start from one; None where none may.
    """

    plan: Plan
    public_key: str
    count: int = 1
    minimum: int = 1
    wait_s: float = 0.0
    only: str | None = None
    recipe: Recipe | None = None

    @property
    def name(self) -> str:
        """What the launch is called."""
        return self.plan.name


class Attempts(MutableStruct):
    """One launch at work: the record as it is on disk, and the machines so far.

    Args:
        ours: the clouds.
        journal: holds the record.
        request: what to launch.
        options: where to try.
        record: as the journal has it.
        rows: every attempt, in order.
        new_record: makes the record of a further round.
        in_use: whether somebody may be at work on the machines; then no failure removes them.
    """

    ours: Ours
    journal: Journal
    request: LaunchRequest
    options: list[Option]
    record: Record
    rows: list[Attempt]
    new_record: Callable[[LaunchRequest], Record]
    instances: list[base.Instance] = field(default_factory=list)
    in_use: bool = False
    _needs_new_record: bool = False
    _baked: dict[tuple[str, str, int], str] = field(default_factory=dict)
    _look_until: dt.datetime | None = None

    def __post_init__(self) -> None:
        """Keep until when machines of an earlier client's unfinished attempt may still appear."""
        at = base.parsed_deadline(self.record.pending.at) if self.record.pending else None
        self._look_until = at and at + dt.timedelta(seconds=self.ours.patience.shown_s)

    def adopt(self, instances: Sequence[base.Instance]) -> None:
        """Take the machines of the record's launch. If that launch was complete they are in use, and no failure removes them."""
        self.instances = [i for i in instances if i.launch_id == self.record.launch_id]
        self.in_use = self.record.complete or not self.record.touched
        for i in self.instances:
            self._row(Attempt(i.cloud, i.region, i.zone, i.type, i.market, "adopted", i.id, 0.0))

    def rounds(self) -> None:
        """Go through all places, and with a time to wait go through them again."""

        def one() -> None:
            if self._needs_new_record:
                self.record, self._needs_new_record = self.new_record(self.request), False
            self._round()

        self.ours.patience.rounds(one, for_s=self.request.wait_s, on_step=self.ours.on_step)

    def _round(self) -> None:
        shortages: list[ShortageError] = []
        try:
            with ThreadPoolExecutor(max_workers=8, thread_name_prefix="clear") as pool:
                for number, option in enumerate(self.options):
                    if option.refusal:
                        self._row(option.attempt("skipped", str(option.refusal), zone=",".join(option.zones)))
                        self.ours.on_step(f"{option.region}: skipped: {option.refusal}")
                        continue
                    shortage = self._try(option)
                    if shortage is None:
                        return
                    shortages.append(shortage)
                    self._leave(option, number, pool)
        except CloudUnreachableError:
            raise  # The machines may exist. The journal keeps the attempt for the next `up`, and `down` finds them by tag.
        except CloudError as error:
            self.give_up(error)
            raise
        if len(self.instances) < self.request.minimum:
            nowhere = self._nowhere(shortages)
            self.give_up(nowhere)
            raise nowhere

    def _try(self, option: Option) -> ShortageError | None:
        handle = self.ours.handle((option.cloud, option.region))
        opt_in = ", an opt-in region" if option.first.opt_in else ""
        everything = self.request.minimum == self.request.count

        def ask(zone: str) -> int:
            rest = self.request.count - len(self.instances)
            many = f"{rest} x " if rest > 1 else ""
            self.ours.on_step(
                f"asking for {many}{option.first.place.instance_type} in {zone or option.region} ({option.first.place.market}{opt_in})"
            )
            least = rest if everything else 1
            pending = Pending(option.index, option.region, zone, self._next(), rest, least, self._image(option, handle))
            known, before = set(self.record.had), len(self.instances)
            for number in range(1, _MOST_TOKENS + 1):
                try:
                    self.attempt(option, pending)
                    if len(self.instances) > before or pending not in known:
                        break
                except TokenSpentError:
                    if number == _MOST_TOKENS:
                        raise
                # The machines of that number have ended, and a cloud makes no other ones for their token: another number has another token.
                pending = replace(pending, first=pending.first + 1)
            return self.request.count - len(self.instances)

        def zones() -> list[str]:
            draft = self._order(option, Pending(option.index, option.region, "", self._next(), 1, 1))
            what = f"the zones of {option.region}"
            return self.ours.patience.ask(lambda: handle.zones(draft), on_step=self.ours.on_step, what=what, repeat_unanswered=False)

        return place.try_zones(option, ask=ask, all_zones=zones)

    def _image(self, option: Option, handle: base.Cloud) -> str:
        """The image of ours that this option starts from, chosen once: the journal keeps it, so that a repeated request is the same."""
        key = (option.cloud, option.region, option.index)
        if key not in self._baked:
            draft = self._order(option, Pending(option.index, option.region, "", self._next(), 1, 1))
            what = f"looking for a baked image in {option.region}"
            self._baked[key] = self.ours.patience.ask(
                lambda: image_for(handle, draft, self.request.recipe, on_step=self.ours.on_step), on_step=self.ours.on_step, what=what
            )
        return self._baked[key]

    def _next(self) -> int:
        """The first index that no machine of the launch has."""
        return 1 + max((_index(instance) for instance in self.instances), default=0)

    def _order(self, option: Option, pending: Pending) -> base.Order:
        """The order of an attempt: the same for the same attempt of the same record."""
        return order(
            self.request.plan.profile,
            self.record.profile_digest,
            option.first,
            name=self.record.name,
            launch_id=self.record.launch_id,
            public_key=self.request.public_key,
            deadline=self.record.deadline,
            zone=pending.zone,
            first=pending.first,
            count=pending.count,
            minimum=pending.minimum,
            whole_count=self.record.count,
            own_subnet=not self.record.rehearsal,
            host_key=self.record.host_key,
            baked=pending.baked,
            begins_early=not self.record.rehearsal,
        )

    def attempt(self, option: Option, pending: Pending) -> None:
        """Make one attempt. It is journalled before it is made, and its machines are journalled afterwards.

        Raises:
            CloudError: the cloud's error, after throttled and unanswered calls were repeated under the same token.
        """
        handle, full_order = self.ours.handle((option.cloud, option.region)), self._order(option, pending)
        had = tuple(machine.id for machine in self.record.machines if machine.cloud == option.cloud)
        full_order = replace(full_order, had=had, look_until=self._look_until)
        pending = replace(pending, token=full_order.token(option.region))
        own_thread = threading.get_ident()

        def note() -> None:
            """Journal when something was asked for last: from then on a cloud has its time to show it."""
            if threading.get_ident() == own_thread:  # another one clears a region that has no machine
                now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
                self.record = self.record.trying(option.cloud, replace(pending, at=now))
                self.journal.put(self.record)

        note()

        def ask() -> list[base.Instance]:
            started = time.monotonic()
            try:
                instances = [i for i in handle.launch(full_order) if i.state not in {"shutting-down", "terminated"}]
            except (CloudError, NameTakenError) as error:
                seconds = time.monotonic() - started
                self._row(option.attempt(error.code, error.message, seconds, zone=pending.zone, count=pending.count))
                raise
            zone, ids = (instances[0].zone if instances else pending.zone), ", ".join(i.id for i in instances)
            self._row(option.attempt("launched", ids, time.monotonic() - started, zone=zone, count=pending.count))
            return instances

        what = f"{option.first.place.instance_type} in {pending.zone or option.region}"
        try:
            with changes.before_each(note):
                instances = self.ours.patience.ask(ask, on_step=self.ours.on_step, what=what)
        except CloudUnreachableError as error:
            error.hint += f"; a machine may run there: `gpuprov down {self.record.name}` removes it"
            raise
        ids = {instance.id for instance in self.instances}
        self.instances += [instance for instance in instances if instance.id not in ids]
        if pending not in self.record.had:
            self.record = replace(self.record, had=(*self.record.had, pending))
        self.journal_machines()

    def journal_machines(self) -> None:
        """Write the confirmed machines to the journal, with no attempt under way."""
        self.record = self.record.with_machines([Machine(i.name, i.id, i.cloud, i.region, zone=i.zone) for i in self.instances])
        self.journal.put(self.record)

    def unneeded(self) -> set[tuple[str, str]]:
        """The regions with an attempt and without a machine, but for the first one, whose claim keeps the name for this launch.

        A cloud whose things span regions has none of them while it has a machine or that claim.
        """
        used = {(i.cloud, i.region) for i in self.instances}
        first, later = self.record.touched[:1], self.record.touched[1:]
        clouds = {cloud for cloud, _ in (*used, *first)}
        return {p for p in later if p not in used and not (self.ours.handle(p).spans == "project" and p[0] in clouds)}

    def _leave(self, option: Option, number: int, pool: ThreadPoolExecutor) -> None:
        """Clear a region without a machine while the next one is tried, unless a later place needs it.

        What cannot be removed now is removed at the end, since the journal keeps the region.
        """
        pair = (option.cloud, option.region)
        again = any((later.cloud, later.region) == pair and not later.refusal for later in self.options[number + 1 :])
        if not again and self.ours.handle(pair).spans == "region" and all((i.cloud, i.region) != pair for i in self.instances):
            self.ours.on_step(f"{option.region}: no machine, trying the next place")
            pool.submit(self.ours.clear, self.record, {pair} & self.unneeded())

    def _nowhere(self, shortages: Sequence[ShortageError]) -> CloudError:
        """The error when no place has a machine: no capacity if one place answered that, because waiting can help then."""
        last = next((r for r in reversed(shortages) if isinstance(r, CapacityError)), shortages[-1])
        outcomes = dict.fromkeys(f"{a.zone or a.region} {a.instance_type}: {a.outcome}" for a in self.rows if a.outcome != "adopted")
        few = f"only {len(self.instances)} of at least {self.request.minimum} machines are available"
        msg = f"{few if self.instances else 'no place of the profile has a machine'} ({'; '.join(outcomes)})"
        return type(last)(msg, hint=last.hint, detail=last.detail)

    def give_up(self, error: CloudError | NameTakenError) -> None:
        """Remove everything of this launch but machines in use, and forget it. If that fails, keep the journal and extend the error."""
        try:
            self.ours.clear(self.record, self.unneeded() if self.in_use else self.record.regions)
        except CloudError as second:
            error.hint += f" (something may remain there: `gpuprov down {self.request.name}` removes it)"
            error.detail += f"; while cleaning up: {second.message}"
            return
        if not self.in_use:
            self.instances.clear()
            self._needs_new_record = True
            self.journal.drop(self.request.name)

    def _row(self, attempt: Attempt) -> None:
        self.rows.append(attempt)
        self.journal.log(self.request.name, {"launch_id": self.record.launch_id, **attempt.as_dict()})


def _index(instance: base.Instance) -> int:
    """The number of the machine in its launch, from 1."""
    suffix = instance.name.removeprefix(f"{instance.group}-")
    return int(suffix) if suffix.isascii() and suffix.isdigit() else 1
