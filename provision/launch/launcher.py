"""Make the machines of a profile exist once under a name: adopt them if they exist, repeat an attempt that was cut off, or launch.

The journal is written before each attempt. The client after a killed one first repeats that attempt under the same token. A name belongs
to one launch: the first attempt claims it at the cloud, and the claim stays as long as the launch. Machines of that name and of another
launch are an error on every run. After a launch the tags are read once more, and of two launches with machines the older one stays.
"""

import datetime as dt
import secrets
from collections.abc import Sequence

from provision import clouds
from provision.clouds import base
from provision.clouds.base import TokenSpentError
from provision.clouds.polling import poll
from provision.errors import CloudError, NameTakenError, ProfileMismatchError, ShortageError
from provision.host.hostkeys import fresh_private_key
from provision.launch import place
from provision.launch.attempts import Attempts, LaunchRequest
from provision.launch.journal import Journal, Pending, Record
from provision.launch.ours import Ours, of_another_launch
from provision.launch.patience import PATIENT, Patience
from provision.launch.place import Attempt
from provision.launch.regions import Connect
from provision.structs import MutableStruct, field, replace


class Launcher(MutableStruct):
    """Makes the machines of a profile exist, once.

    Args:
        connect: (cloud, region) → cloud object.
        journal: where the intent is written before the first call.
        rehearsal: noted in the journal, so that later commands find the right cloud.
        on_step: told what is about to happen.
        patience: how often a call is repeated.
        attempts: filled during the launch, so that they can be printed even when it fails.
    """

    connect: Connect
    journal: Journal
    rehearsal: bool
    on_step: base.Step
    patience: Patience = PATIENT
    attempts: list[Attempt] = field(default_factory=list)

    def ensure(self, request: LaunchRequest) -> list[base.Instance]:
        """The machines of that name, at least `minimum` of them.

        Raises:
            NameTakenError: the name belongs to a machine of the other kind of cloud, or to a launch that was not made from here.
            ProfileMismatchError: it exists and was launched from another profile, or with another count.
            PriceOverLimitError, PriceUnknownError, CloudUnsupportedError: every place of the plan has a refusal.
            CloudError: no place had a machine, or a cloud failed in a way that other places cannot help.
        """
        record = self.journal.get(request.name)
        if record is not None and record.rehearsal != self.rehearsal:
            kind = "in the embedded cloud" if record.rehearsal else "at a cloud"
            msg = f"{request.name!r} is already the name of an instance {kind}"
            raise NameTakenError(msg, hint=f"choose another --name, or remove that one with `gpuprov down {request.name}`")
        options = place.options(request.plan, request.only)
        if record is None or not record.machines:
            place.check_any(request.plan, options)
        ours = Ours(self.connect, self.on_step, self.patience)
        where = {(o.cloud, o.region) for o in options if not o.refusal} | (record.regions if record else set())
        instances = self._look(request.name, where, record, ours)
        launch_id = self._launched_here(request.name, record, instances)
        mine = [instance for instance in instances if instance.launch_id == launch_id]
        others = [instance for instance in instances if instance.launch_id != launch_id]
        if others:
            error = of_another_launch(request.name, others, own=bool(mine))
            if record is not None and not mine and not record.complete:
                Attempts(ours, self.journal, request, options, record, self.attempts, self._new_record).give_up(error)
            raise error
        record = self._record(request, record, mine, ours)
        work = Attempts(ours, self.journal, request, options, record, self.attempts, self._new_record)
        if mine:
            work.adopt(mine)
        else:
            place.check_any(request.plan, options)
            self.journal.put(record)
        try:
            self._resume(work)
            if len(work.instances) < request.minimum:
                work.rounds()
        except NameTakenError as error:
            work.give_up(error)
            raise self._explained(error, work, where) from error
        self._confirm(work, where)
        return sorted(work.instances, key=lambda i: (len(i.name), i.name))

    def _look(self, name: str, where: set[tuple[str, str]], record: Record | None, ours: Ours) -> list[base.Instance]:
        """The living machines of that name. Where a list shows a part of those that are confirmed, the rest of them is waited for."""

        def ask() -> list[base.Instance]:
            return ours.look(name, where, record.regions if record else ())

        instances = ask()
        hidden = {machine.id for machine in record.machines} - {i.id for i in instances} if record else set()
        if record is None or not hidden or len(hidden) == len(record.machines):
            return instances
        alive = _alive(record, ours)
        awaited = {each for each in hidden if alive.get(each, record.young)}
        if awaited:
            self.on_step(f"not in sight yet, waiting up to {self.patience.shown_s:.0f} s: {', '.join(sorted(awaited))}")
            instances = poll(ask, lambda found: awaited <= {i.id for i in found}, timeout_s=self.patience.shown_s)
        return instances

    def _launched_here(self, name: str, record: Record | None, instances: Sequence[base.Instance]) -> str:
        """The id of the launch to continue: the record's, or where the record is lost the oldest one that was made from here."""
        if record is not None:
            return record.launch_id
        here = self.journal.launches(name)
        return next((instance.launch_id for instance in instances if instance.launch_id in here), "")

    def _explained(self, error: NameTakenError, work: Attempts, where: set[tuple[str, str]]) -> NameTakenError:
        """The error with the machines of the launch that has the name, where it has some already."""
        try:
            instances = work.ours.look(work.record.name, where)
        except CloudError:
            return error
        others = [instance for instance in instances if instance.launch_id != work.record.launch_id]
        return of_another_launch(work.record.name, others, own=bool(work.instances)) if others else error

    def _record(self, request: LaunchRequest, record: Record | None, mine: Sequence[base.Instance], ours: Ours) -> Record:
        """The record to continue with: of the launch whose machines exist, of the one that was cut off, or a fresh one."""
        if mine:
            oldest = mine[0]
            _compare(request, oldest)
            if record is not None:
                return record
            fresh = self._fresh(request)
            created, deadline = oldest.launched_at, oldest.deadline or fresh.deadline
            return replace(fresh, launch_id=oldest.launch_id, created_at=created, deadline=deadline)
        if record is None:
            return self._fresh(request)
        same_request = (record.profile_digest, record.count, record.minimum) == (
            request.plan.profile_sha256,
            request.count,
            request.minimum,
        )
        if same_request and (not record.machines or (record.young and all(_alive(record, ours).values()))):
            return record  # cut off before the machines were confirmed, or they are confirmed and not visible yet
        ours.clear(record, record.regions)  # ended since, or another request: a new launch under a new id
        return self._fresh(request)

    def _fresh(self, request: LaunchRequest) -> Record:
        now = dt.datetime.now(dt.UTC).replace(microsecond=0)
        given = any(clouds.provider(place.cloud).first_key.given for place in request.plan.candidates)
        return Record(
            name=request.name,
            launch_id=secrets.token_hex(16),
            rehearsal=self.rehearsal,
            profile=request.plan.profile.dump(),
            profile_digest=request.plan.profile_sha256,
            created_at=now.isoformat(),
            deadline=(now + dt.timedelta(hours=request.plan.profile.limits.deadline_h)).isoformat(),
            count=request.count,
            minimum=request.minimum,
            lock=request.plan.lock.as_dict(),
            host_key=fresh_private_key() if given else "",
        )

    def _new_record(self, request: LaunchRequest) -> Record:
        """The record of another round. It has an id of its own, because a cloud repeats its answer to a token that it remembers."""
        record = self._fresh(request)
        self.journal.put(record)
        return record

    def _resume(self, work: Attempts) -> None:
        """Repeat the attempt that was cut off, under its own token, unless all of its machines exist.

        Confirmed machines that are not visible are found in the same way: their attempts are repeated. If all of them have ended, the rest
        of their launch is removed.
        """
        if work.record.pending is not None:
            self._repeat(work, work.record.pending)
        elif work.record.machines and not work.instances:
            record = work.record
            for attempt in record.had:
                self._repeat(work, attempt)
            if not work.instances:
                work.ours.clear(record, record.regions)
                work.record = self._new_record(work.request)

    def _repeat(self, work: Attempts, pending: Pending) -> None:
        name, count = work.record.name, work.record.count
        hosts = {base.host_name(name, count, pending.first + i) for i in range(pending.count)}
        option = next((o for o in work.options if not o.refusal and (o.index, o.region) == (pending.place, pending.region)), None)
        if hosts <= {instance.name for instance in work.instances} or option is None:
            return
        self.on_step(f"an earlier run was cut off at {option}: repeating its request")
        try:
            work.attempt(option, pending)
        except (ShortageError, TokenSpentError) as error:
            what = "its machine has ended" if isinstance(error, TokenSpentError) else "it made no machine"
            self.on_step(f"{what}: trying the places in their order")

    def _confirm(self, work: Attempts, where: set[tuple[str, str]]) -> None:
        """Journal the machines, check that no other launch has machines of the name, and clear the regions without machines.

        Raises:
            NameTakenError: another launch has some. If it is older, and nobody uses ours yet, ours is removed.
        """
        work.journal_machines()
        if any(attempt.outcome == "launched" for attempt in self.attempts):
            name, launch_id = work.record.name, work.record.launch_id
            instances = work.ours.look(name, where | work.record.regions)
            others = [instance for instance in instances if instance.launch_id != launch_id]
            loses = bool(others) and instances[0].launch_id != launch_id and not work.in_use
            if loses:
                self.on_step(f"an older launch is called {name}: removing ours")
                work.ours.clear(work.record, work.record.regions)
                self.journal.drop(name)
            if others:
                raise of_another_launch(name, others, own=not loses)
        unneeded = work.unneeded()
        try:
            work.ours.clear(work.record, unneeded)
        except CloudError as error:
            # The journal keeps the region, so `down` removes it.
            self.on_step(f"something may remain in a region without a machine: {error.message}")
            unneeded = set()
        self.journal.put(
            replace(work.record, minimum=work.request.minimum, touched=tuple(pair for pair in work.record.touched if pair not in unneeded))
        )


def _alive(record: Record, ours: Ours) -> dict[str, bool]:
    """Of each machine of the record that a cloud lists, by its id, whether it is there or has ended."""
    answers = ours.everywhere(record.regions, lambda handle: handle.things(record.name, ours.known(record, handle)))
    listing = [thing for answer in answers.values() if not isinstance(answer, CloudError) for thing in answer]
    ids = {machine.id for machine in record.machines}
    return {thing.id: thing.alive for thing in listing if thing.id in ids}


def _compare(request: LaunchRequest, oldest: base.Instance) -> None:
    """Check that the oldest machine was launched from the same profile with the same count.

    Raises:
        ProfileMismatchError: it was not.
    """
    name = request.name
    if oldest.profile_digest != request.plan.profile_sha256:
        msg = f"{name!r} exists ({oldest.id} in {oldest.region}) and was launched from another {oldest.profile!r}"
        hint = f"`gpuprov down {name}` removes it, another --name leaves it, `gpuprov apply {name} --profile …` sets it up again"
        raise ProfileMismatchError(msg, hint=hint)
    if oldest.count != request.count:
        msg = f"{name!r} exists and was launched with --count {oldest.count}, not {request.count}"
        raise ProfileMismatchError(msg, hint=f"use --count {oldest.count}, or `gpuprov down {name}` first")
