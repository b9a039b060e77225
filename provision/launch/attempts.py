"""The attempts of one launch: journalled before they are made, a row each, and nothing left where one was refused."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from provision.clouds import base
from provision.errors import CapacityError, CloudError, CloudUnreachableError, QuotaExceededError
from provision.launch import place
from provision.launch.journal import Journal, Machine, Pending, Record
from provision.launch.ours import Ours
from provision.launch.place import Attempt, Option
from provision.launch.plan import Plan

Refusal = CapacityError | QuotaExceededError


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """What one run asks for.

    Attributes:
        plan: what is launched, and where.
        public_key: the OpenSSH public key that may log in first.
        count: how many machines.
        minimum: how many are enough; as many as `count` means that one zone gives all of them or none.
        wait_s: for how long rounds over all places are repeated while none has capacity.
        only: the one cloud whose places are tried; None for all.
    """

    plan: Plan
    public_key: str
    count: int = 1
    minimum: int = 1
    wait_s: float = 0.0
    only: str | None = None

    @property
    def name(self) -> str:
        """What the launch is called."""
        return self.plan.name


@dataclass(slots=True)
class Attempts:
    """One launch at work: the record as it is on disk, and the machines so far.

    Args:
        ours: the clouds.
        journal: holds the record.
        request: what is asked for.
        options: where it is tried.
        record: what the journal knows.
        rows: every attempt, in order.
        again: makes the record of a further round.
    """

    ours: Ours
    journal: Journal
    request: LaunchRequest
    options: list[Option]
    record: Record
    rows: list[Attempt]
    again: Callable[[LaunchRequest], Record]
    made: list[base.Instance] = field(default_factory=list)
    _in_use: bool = False
    _refused: bool = False

    def adopt(self, found: Sequence[base.Instance]) -> None:
        """Take the machines of the record's launch. Those of a launch that was complete are in use, and no failure removes them."""
        self.made = [i for i in found if i.launch_id == self.record.launch_id]
        self._in_use = self.record.complete or not self.record.touched
        for i in self.made:
            self._row(Attempt(i.cloud, i.region, i.zone, i.type, i.market, "adopted", i.id, 0.0))

    def rounds(self) -> None:
        """Go through all places, and with a time to wait go through them again."""

        def one() -> None:
            if self._refused:
                self.record, self._refused = self.again(self.request), False
            self._round()

        self.ours.patience.rounds(one, for_s=self.request.wait_s, on_step=self.ours.on_step)

    def _round(self) -> None:
        refusals: list[Refusal] = []
        try:
            with ThreadPoolExecutor(max_workers=8, thread_name_prefix="clear") as pool:
                for number, option in enumerate(self.options):
                    if option.refusal:
                        self._row(option.attempt("skipped", str(option.refusal), zone=",".join(option.zones)))
                        self.ours.on_step(f"{option.region}: passed over: {option.refusal}")
                        continue
                    refused = self._try(option)
                    if refused is None:
                        return
                    refusals.append(refused)
                    self._leave(option, number, pool)
        except CloudUnreachableError:
            raise  # nobody knows whether the machines exist: the journal keeps the attempt for `up`, and `down` finds them by tag
        except CloudError as error:
            self._give_up(error)
            raise
        if len(self.made) < self.request.minimum:
            nowhere = self._nowhere(refusals)
            self._give_up(nowhere)
            raise nowhere

    def _try(self, option: Option) -> Refusal | None:
        handle = self.ours.handle((option.cloud, option.region))
        opt_in = ", an opt-in region" if option.first.opt_in else ""
        everything = self.request.minimum == self.request.count

        def ask(zone: str) -> int:
            missing = self.request.count - len(self.made)
            many = f"{missing} x " if missing > 1 else ""
            self.ours.on_step(
                f"asking for {many}{option.first.place.instance_type} in {zone or option.region} ({option.first.place.market}{opt_in})"
            )
            least = missing if everything else 1
            self.attempt(option, Pending(option.index, option.region, zone, self._next(), missing, least))
            return self.request.count - len(self.made)

        def zones() -> list[str]:
            order = self._order(option, Pending(option.index, option.region, "", self._next(), 1, 1))
            what = f"the zones of {option.region}"
            return self.ours.patience.ask(lambda: handle.zones(order), on_step=self.ours.on_step, what=what, repeat_unanswered=False)

        return place.tried_zones(option, ask=ask, all_zones=zones)

    def _next(self) -> int:
        """The first index that no machine of the launch has."""
        return 1 + max((_index(instance) for instance in self.made), default=0)

    def _order(self, option: Option, pending: Pending) -> base.Order:
        return place.order_of(self.record, self.request.plan.profile, option.first, self.request.public_key, pending)

    def attempt(self, option: Option, pending: Pending) -> None:
        """One attempt, journalled before it is made; what it made is journalled after.

        Raises:
            CloudError: as the cloud classified it, after throttled and unanswered calls were repeated under the same token.
        """
        self.record = self.record.trying(option.cloud, pending)
        self.journal.put(self.record)
        handle, order = self.ours.handle((option.cloud, option.region)), self._order(option, pending)

        def ask() -> list[base.Instance]:
            started = time.monotonic()
            try:
                made = [i for i in handle.launch(order) if i.state not in {"shutting-down", "terminated"}]
            except CloudError as error:
                seconds = time.monotonic() - started
                self._row(option.attempt(error.code, error.message, seconds, zone=pending.zone, asked=pending.count))
                raise
            zone, ids = (made[0].zone if made else pending.zone), ", ".join(i.id for i in made)
            self._row(option.attempt("launched", ids, time.monotonic() - started, zone=zone, asked=pending.count))
            return made

        what = f"{option.first.place.instance_type} in {pending.zone or option.region}"
        made = self.ours.patience.ask(ask, on_step=self.ours.on_step, what=what)
        known = {instance.id for instance in self.made}
        self.made += [instance for instance in made if instance.id not in known]
        if pending not in self.record.had:
            self.record = replace(self.record, had=(*self.record.had, pending))
        self.journal_machines()

    def journal_machines(self) -> None:
        """Write down what is confirmed; no attempt is under way any more."""
        self.record = self.record.with_machines([Machine(i.name, i.id, i.cloud, i.region) for i in self.made])
        self.journal.put(self.record)

    def unneeded(self) -> set[tuple[str, str]]:
        """The regions that were touched and have no machine; of a cloud whose things span regions none, while it has one."""
        held = {(i.cloud, i.region) for i in self.made}
        clouds_held = {cloud for cloud, _ in held}
        return {p for p in self.record.touched if p not in held and not (self.ours.handle(p).spans == "project" and p[0] in clouds_held)}

    def _leave(self, option: Option, number: int, pool: ThreadPoolExecutor) -> None:
        """Remove what a region was given for nothing while the next one is asked, unless a later place needs it.

        What cannot be removed now stays in the journal's regions, which are gone through once more at the end.
        """
        pair = (option.cloud, option.region)
        again = any((later.cloud, later.region) == pair and not later.refusal for later in self.options[number + 1 :])
        if not again and self.ours.handle(pair).spans == "region" and pair in self.unneeded():
            self.ours.on_step(f"{option.region}: no machine, trying the next place")
            pool.submit(self.ours.clear, self.record, {pair})

    def _nowhere(self, refusals: Sequence[Refusal]) -> CloudError:
        """What no place at all is called: no capacity if that was said anywhere, because waiting can help with it."""
        last = next((r for r in reversed(refusals) if isinstance(r, CapacityError)), refusals[-1])
        tried = "; ".join(
            dict.fromkeys(f"{a.zone or a.region} {a.instance_type}: {a.outcome}" for a in self.rows if a.outcome != "adopted")
        )
        few = f"only {len(self.made)} of at least {self.request.minimum} machines could be had"
        msg = f"{few if self.made else 'no place of the profile has a machine'} ({tried})"
        return type(last)(msg, hint=last.hint, detail=last.detail)

    def _give_up(self, error: CloudError) -> None:
        """Remove what this launch made and forget it, but for machines in use; where that fails, keep the journal and say so."""
        try:
            self.ours.clear(self.record, self.unneeded() if self._in_use else self.record.regions)
        except CloudError as second:
            error.hint += f" (something may be left: `gpuprov down {self.request.name}`)"
            error.detail += f"; while cleaning up: {second.message}"
            return
        if not self._in_use:
            self.made.clear()
            self._refused = True
            self.journal.drop(self.request.name)

    def _row(self, attempt: Attempt) -> None:
        self.rows.append(attempt)
        self.journal.log(self.request.name, {"launch_id": self.record.launch_id, **attempt.as_dict()})


def _index(instance: base.Instance) -> int:
    """Which machine of its launch it is, from 1."""
    suffix = instance.name.removeprefix(f"{instance.group}-")
    return int(suffix) if suffix.isascii() and suffix.isdigit() else 1
