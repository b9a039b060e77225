"""Machines of a profile under a name, once: adopted if they exist, asked for again if an earlier run was cut off, else launched.

The journal is written before each attempt, so that whoever comes after a kill asks for the same attempt under the same token before
anything else. After a launch the tags are read once more: of two clients that launched under one name, the older launch stays.
"""

from __future__ import annotations

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
_SHOWN_WITHIN: Final = dt.timedelta(minutes=10)


@dataclass(slots=True)
class Launcher:
    """Makes the machines of a profile exist, once.

    Args:
        connect: (cloud, region) → cloud object.
        journal: where the intent is written before the first call.
        rehearsal: noted in the journal, so that later commands find the right cloud.
        on_step: told what is about to happen.
        patience: how often is asked again.
        attempts: filled while it works, so that it can be shown whatever comes of it.
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
            NameTakenError: the name belongs to a machine of the other kind of cloud, or an older launch of somebody else has it.
            ProfileMismatchError: it exists and was made from another profile, or with another count.
            PriceOverLimitError, PriceUnknownError, CloudUnsupportedError: the plan has no place that can be launched in.
            CloudError: no place had one, or a cloud said something that no other place can mend.
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
        found = ours.look(request.name, where)
        mine = [instance for instance in found if record is not None and instance.launch_id == record.launch_id]
        if record is not None and record.complete and mine:
            found = mine  # in use: whoever else has the name since is not taken for it
        known = self._known(request, record, found, ours)
        work = Attempts(ours, self.journal, request, options, known, self.attempts, self._again)
        if found:
            work.adopt(found)
        else:
            place.check_any(request.plan, options)
            self.journal.put(known)
        self._resume(work)
        if len(work.made) < request.minimum:
            work.rounds()
        self._confirm(work, where)
        return sorted(work.made, key=lambda i: (len(i.name), i.name))

    def _known(self, request: LaunchRequest, record: Record | None, found: Sequence[base.Instance], ours: Ours) -> Record:
        """The record to go on from: of the oldest launch that exists, of the one that was cut off, or a fresh one."""
        if found:
            oldest = found[0]
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
        asked = (record.profile_digest, record.count, record.minimum)
        if (not record.machines or (_young(record) and not _ended(record, ours))) and asked == (
            request.plan.profile_sha256,
            request.count,
            request.minimum,
        ):
            return record  # cut off before anything was confirmed, or confirmed and not shown yet
        ours.clear(record, record.regions)  # ended since, or asked differently: a new launch under a new id
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

    def _again(self, request: LaunchRequest) -> Record:
        """The record of another round: a launch of its own, because a cloud that remembers tokens would repeat its refusal."""
        record = self._fresh(request)
        self.journal.put(record)
        return record

    def _resume(self, work: Attempts) -> None:
        """Ask for the attempt that was cut off, under its own token, unless all that it asked for is there.

        Machines that were confirmed and that no description shows are asked for again in the same way: those that have ended come back
        as ended, and what is left of their launch is removed.
        """
        if work.record.pending is not None:
            self._repeat(work, work.record.pending)
        elif work.record.machines and not work.made:
            gone = work.record
            for attempt in gone.had:
                self._repeat(work, attempt)
            if not work.made:
                work.ours.clear(gone, gone.regions)
                work.record = self._again(work.request)

    def _repeat(self, work: Attempts, pending: Pending) -> None:
        name, count = work.record.name, work.record.count
        asked = {base.host_name(name, count, pending.first + i) for i in range(pending.count)}
        option = next((o for o in work.options if not o.refusal and (o.index, o.region) == (pending.place, pending.region)), None)
        if asked <= {instance.name for instance in work.made} or option is None:
            return
        self.on_step(f"an earlier run asked for {option}: asking for the same again")
        try:
            work.attempt(option, pending)
        except (CapacityError, QuotaExceededError):
            self.on_step("it left nothing: going through the places")

    def _confirm(self, work: Attempts, where: set[tuple[str, str]]) -> None:
        """Journal the machines, see whether an older launch has the name, and remove what refused regions were given.

        Raises:
            NameTakenError: one has; ours is removed.
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
            self.on_step(f"something may be left where no machine was had: {error.message}")  # the journal knows where; `down` removes it
            unneeded = set()
        self.journal.put(
            replace(work.record, minimum=work.request.minimum, touched=tuple(pair for pair in work.record.touched if pair not in unneeded))
        )


def _young(record: Record) -> bool:
    """Whether its machines may exist and not be shown yet."""
    return dt.datetime.now(dt.UTC) - dt.datetime.fromisoformat(record.created_at) < _SHOWN_WITHIN


def _ended(record: Record, ours: Ours) -> bool:
    """Whether a cloud still shows machines of the record, as ended."""
    ids = {machine.id for machine in record.machines}
    answers = ours.everywhere(record.regions, lambda handle: handle.things(record.name))
    shown = [thing for answer in answers.values() if not isinstance(answer, CloudError) for thing in answer]
    return any(thing.id in ids and not thing.alive for thing in shown)


def _compare(request: LaunchRequest, oldest: base.Instance) -> None:
    """See that what exists is what is asked for.

    Raises:
        ProfileMismatchError: it is not.
    """
    name = request.name
    if oldest.profile_digest != request.plan.profile_sha256:
        msg = f"{name!r} exists ({oldest.id} in {oldest.region}) and was launched from another {oldest.profile!r}"
        hint = f"`gpuprov down {name}` removes it, another --name leaves it, `gpuprov apply {name} --profile …` sets it up anew"
        raise ProfileMismatchError(msg, hint=hint)
    if oldest.count != request.count:
        msg = f"{name!r} exists and was launched with --count {oldest.count}, not {request.count}"
        raise ProfileMismatchError(msg, hint=f"say --count {oldest.count}, or `gpuprov down {name}` first")
