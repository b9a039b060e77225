"""Make the machines of a profile exist once under a name: adopt them if they exist, repeat an attempt that was cut off, or launch.

The journal is written before each attempt. The client after a killed one first repeats that attempt under the same token. After a launch
the tags are read once more: if two clients launched under one name, the older launch stays.
"""

import datetime as dt
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from provision.clouds import base
from provision.errors import CapacityError, CloudError, NameTakenError, ProfileMismatchError, QuotaExceededError
from provision.launch import place
from provision.launch.attempts import Attempts, LaunchRequest
from provision.launch.journal import Journal, Pending, Record
from provision.launch.ours import Ours
from provision.launch.patience import PATIENT, Patience
from provision.launch.place import Attempt
from provision.launch.regions import Connect

# Clouds give no bound for how late their lists show a new machine. They remember the token of a launch for longer than this.
_VISIBLE_WITHIN: Final = dt.timedelta(minutes=10)


@dataclass(slots=True)
class Launcher:
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
            NameTakenError: the name belongs to a machine of the other kind of cloud, or to an older launch of somebody else.
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
        instances = ours.look(request.name, where)
        mine = [instance for instance in instances if record is not None and instance.launch_id == record.launch_id]
        if record is not None and record.complete and mine:
            instances = mine  # They are in use, so a later launch of the same name does not matter.
        record = self._record(request, record, instances, ours)
        work = Attempts(ours, self.journal, request, options, record, self.attempts, self._new_record)
        if instances:
            work.adopt(instances)
        else:
            place.check_any(request.plan, options)
            self.journal.put(record)
        self._resume(work)
        if len(work.instances) < request.minimum:
            work.rounds()
        self._confirm(work, where)
        return sorted(work.instances, key=lambda i: (len(i.name), i.name))

    def _record(self, request: LaunchRequest, record: Record | None, instances: Sequence[base.Instance], ours: Ours) -> Record:
        """The record to continue with: of the oldest launch that exists, of the one that was cut off, or a fresh one."""
        if instances:
            oldest = instances[0]
            same = record is not None and record.launch_id == oldest.launch_id
            if record is not None and not same:
                ours.clear(record, record.regions)  # what an attempt of ours may have left beside the older launch
            _compare(request, oldest)
            if record is not None and same:
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
        if same_request and (not record.machines or (_young(record) and not _ended(record, ours))):
            return record  # cut off before the machines were confirmed, or they are confirmed and not visible yet
        ours.clear(record, record.regions)  # ended since, or another request: a new launch under a new id
        return self._fresh(request)

    def _fresh(self, request: LaunchRequest) -> Record:
        now = dt.datetime.now(dt.UTC).replace(microsecond=0)
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
        except (CapacityError, QuotaExceededError):
            self.on_step("it made no machine: trying the places in their order")

    def _confirm(self, work: Attempts, where: set[tuple[str, str]]) -> None:
        """Journal the machines, check that no older launch has the name, and clear the regions without machines.

        Raises:
            NameTakenError: an older launch has the name; ours is removed.
        """
        work.journal_machines()
        if any(attempt.outcome == "launched" for attempt in self.attempts):
            oldest = next(iter(work.ours.look(work.record.name, where | work.record.regions)), None)
            if oldest is not None and oldest.launch_id != work.record.launch_id:
                self.on_step(f"an older launch is called {work.record.name}: removing ours")
                work.ours.clear(work.record, work.record.regions)
                self.journal.drop(work.record.name)
                msg = f"{oldest.group!r} was launched by {oldest.owner} at {oldest.launched_at} ({oldest.id} in {oldest.region})"
                raise NameTakenError(msg, hint="the same command adopts it; another --name launches beside it")
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


def _young(record: Record) -> bool:
    """Whether its machines may exist and not be visible yet."""
    return dt.datetime.now(dt.UTC) - dt.datetime.fromisoformat(record.created_at) < _VISIBLE_WITHIN


def _ended(record: Record, ours: Ours) -> bool:
    """Whether a cloud lists machines of the record as ended."""
    ids = {machine.id for machine in record.machines}
    answers = ours.everywhere(record.regions, lambda handle: handle.things(record.name))
    listing = [thing for answer in answers.values() if not isinstance(answer, CloudError) for thing in answer]
    return any(thing.id in ids and not thing.alive for thing in listing)


def _compare(request: LaunchRequest, oldest: base.Instance) -> None:
    """Check that the oldest machine was launched from the same profile with the same count.

    Raises:
        ProfileMismatchError: it was not.
    """
    name = request.name
    if oldest.profile_digest != request.plan.profile_sha256:
        msg = f"{name!r} exists ({oldest.id} in {oldest.region}) and was launched from another {oldest.profile!r}"
        hint = f"`gpuprov down {name}` removes it, another --name leaves it, `gpuprov apply {name} --profile …` sets it up anew"
        raise ProfileMismatchError(msg, hint=hint)
    if oldest.count != request.count:
        msg = f"{name!r} exists and was launched with --count {oldest.count}, not {request.count}"
        raise ProfileMismatchError(msg, hint=f"use --count {oldest.count}, or `gpuprov down {name}` first")
