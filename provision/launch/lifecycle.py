"""The life of an instance: made once or adopted, listed, removed.

Nothing here knows a particular cloud; what a cloud said decides by its class what happens next: capacity and quota go on to the next
region, everything else stops.
"""

from __future__ import annotations

import datetime as dt
import secrets
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from provision.catalog.places import aws_price
from provision.clouds import CLOUDS
from provision.clouds import base as clouds
from provision.errors import (
    CapacityError,
    CloudError,
    CloudUnreachableError,
    CloudUnsupportedError,
    CredentialsExpiredError,
    CredentialsMissingError,
    InstanceNotFoundError,
    NameTakenError,
    PriceOverLimitError,
    ProfileMismatchError,
    QuotaExceededError,
)
from provision.launch.journal import Journal, Record
from provision.profile.locked import Lock, LockedPlace
from provision.profile.model import AwsPlace, Profile

__all__ = ["Attempt", "Launcher", "destroy", "regions_of", "survey"]

Connect = Callable[[str, str], clouds.Cloud]
_MOVE_ON = (CapacityError, QuotaExceededError)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try to launch: where, and what came of it (`launched`, `adopted`, `skipped` or an error code)."""

    cloud: str
    region: str
    instance_type: str
    market: str
    outcome: str
    said: str
    seconds: float


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What one run of `ensure` asks for; `unfinished` is the record of an earlier run whose outcome is not known."""

    profile: Profile
    digest: str
    name: str
    public_key: str
    lock: Lock
    unfinished: Record | None

    def intend(self, region: str, *, rehearsal: bool) -> Record:
        """The record for a region: the unfinished one, so that its token is asked for again, or a fresh one."""
        if self.unfinished is not None and self.unfinished.region == region:
            return self.unfinished
        now = dt.datetime.now(dt.UTC).replace(microsecond=0)
        return Record(
            name=self.name,
            launch_id=secrets.token_hex(16),
            cloud="aws",
            region=region,
            rehearsal=rehearsal,
            profile=self.profile.dump(),
            profile_digest=self.digest,
            created_at=now.isoformat(),
            deadline=(now + dt.timedelta(hours=self.profile.limits.deadline_h)).isoformat(),
            lock=self.lock.as_dict(),
        )

    def place(self, place: AwsPlace, region: str) -> LockedPlace:
        """What the lock says of a place."""
        wanted = ("aws", region, place.instance_type, place.market)
        return next(p for p in self.lock.places if (p.cloud, p.region, p.instance_type, p.market) == wanted)


@dataclass(slots=True)
class Launcher:
    """Makes the instance of a profile exist, once.

    Args:
        connect: (cloud, region) → cloud object.
        journal: where the intent is written before the first call.
        rehearsal: noted in the journal, so that later commands find the right cloud.
        on_step: told what is about to happen.
    """

    connect: Connect
    journal: Journal
    rehearsal: bool
    on_step: Callable[[str], None]

    def ensure(self, profile: Profile, digest: str, name: str, public_key: str, lock: Lock) -> tuple[clouds.Instance, list[Attempt]]:
        """The instance of that name: adopted if it exists, launched in the first place that has one if not.

        Raises:
            NameTakenError: the name belongs to a machine of another cloud.
            ProfileMismatchError: it exists and was made from another profile.
            CloudError: no place had one; the last answer, with every attempt named in its detail.
        """
        record = self.journal.get(name)
        if record is not None and record.rehearsal != self.rehearsal:
            where = "in the embedded cloud" if record.rehearsal else f"at {record.cloud}"
            msg = f"{name!r} is already the name of an instance {where}"
            raise NameTakenError(msg, hint=f"choose another --name, or remove that one with `gpuprov down {name}`")
        if record is not None:
            found = self._adopt(record.cloud, record.region, name, digest)
            if found:
                return found
            if record.profile_digest != digest or record.instance_id:
                record = None  # ended since, or asked differently: a new launch under a new id
        return self._first_place(_Wanted(profile, digest, name, public_key, lock, record))

    def _adopt(self, cloud: str, region: str, name: str, digest: str) -> tuple[clouds.Instance, list[Attempt]] | None:
        started = time.monotonic()
        found = [i for i in self.connect(cloud, region).find(name) if i.state != "shutting-down"]
        if not found:
            return None
        instance = found[0]
        if instance.profile_digest != digest:
            msg = f"{name!r} exists ({instance.id} in {region}) and was launched from another {instance.profile!r}"
            raise ProfileMismatchError(
                msg,
                hint=f"`gpuprov down {name}` removes it, another --name leaves it, `gpuprov apply {name} --profile …` sets it up anew",
            )
        return instance, [Attempt(cloud, region, instance.type, instance.market, "adopted", instance.id, time.monotonic() - started)]

    def _first_place(self, wanted: _Wanted) -> tuple[clouds.Instance, list[Attempt]]:
        """Try the places in the profile's order until one has a machine."""
        attempts: list[Attempt] = []
        last: CloudError | None = None
        for place in wanted.profile.places:
            if not isinstance(place, AwsPlace):
                said = f"launching on {place.cloud} is not part of this release"
                attempts += [Attempt(place.cloud, zone, place.instance_type, place.market, "skipped", said, 0) for zone in place.zones]
                continue
            for region in place.regions:
                against = wanted.place(place, region).not_available
                if against:
                    attempts.append(Attempt("aws", region, place.instance_type, place.market, "skipped", against, 0))
                    self.on_step(f"{region}: passed over: {against}")
                    continue
                check_price(wanted.profile, place.instance_type, region)
                started = time.monotonic()
                try:
                    instance, outcome = self._launch(wanted, place, region)
                except _MOVE_ON as error:
                    seconds = time.monotonic() - started
                    attempts.append(Attempt("aws", region, place.instance_type, place.market, error.code, error.message, seconds))
                    self.on_step(f"{region}: {error.code}, trying the next place")
                    last = error
                    continue
                seconds = time.monotonic() - started
                attempts.append(Attempt("aws", region, instance.type, instance.market, outcome, instance.id, seconds))
                return instance, attempts
        if last is None:
            reasons = "; ".join(dict.fromkeys(f"{a.region} {a.instance_type}: {a.said}" for a in attempts))
            msg = f"no place of profile {wanted.profile.name} can be launched in: {reasons}"
            raise CloudUnsupportedError(msg, hint=f"add a place on {', '.join(CLOUDS)} to the profile")
        tried = "; ".join(f"{a.region} {a.instance_type}: {a.outcome}" for a in attempts)
        msg = f"no place of the profile has a machine ({tried})"
        raise type(last)(msg, hint=last.hint, detail=last.detail)

    def _launch(self, wanted: _Wanted, place: AwsPlace, region: str) -> tuple[clouds.Instance, str]:
        """One attempt in one region. What an unsuccessful one made is removed again; after no answer it is left for the next run."""
        cloud = self.connect("aws", region)
        self.on_step(f"asking for {place.instance_type} in {region} ({place.market})")
        adopted = self._adopt("aws", region, wanted.name, wanted.digest)
        if adopted:
            self.journal.put(wanted.intend(region, rehearsal=self.rehearsal).with_instance(adopted[0].id))
            return adopted[0], "adopted"
        record = wanted.intend(region, rehearsal=self.rehearsal)
        self.journal.put(record)
        try:
            instance = cloud.launch(_order(wanted, record, place))[0]
        except CloudUnreachableError:
            raise  # nobody knows whether the machine exists: the journal keeps the token for `up`, and `down` finds it by tag
        except CloudError as error:
            self._undo(cloud, wanted.name, error)
            raise
        self.journal.put(record.with_instance(instance.id))
        return instance, "launched"

    def _undo(self, cloud: clouds.Cloud, name: str, error: CloudError) -> None:
        """Remove what a refused attempt had already made; say so in its error when that fails as well."""
        try:
            cloud.remove(cloud.things(name), on_step=self.on_step)
        except CloudError as second:
            error.hint += f" (a key or security group may be left: `gpuprov down {name}`)"
            error.detail += f"; while cleaning up: {second.message}"
        else:
            self.journal.drop(name)


def check_price(profile: Profile, instance_type: str, region: str) -> None:
    """Refuse a place whose known price is over the profile's limit; an unknown price is shown by `gpuprov plan`.

    Raises:
        PriceOverLimitError: it is.
    """
    price = aws_price(instance_type, region)
    if price and price.usd_per_hour > profile.limits.price_per_hour_usd:
        msg = f"{instance_type} in {region} costs {price.usd_per_hour} USD an hour, over the limit of {profile.limits.price_per_hour_usd}"
        raise PriceOverLimitError(msg, hint="raise limits.price_per_hour_usd or remove the place")


def _order(wanted: _Wanted, record: Record, place: AwsPlace) -> clouds.Order:
    profile = wanted.profile
    data = profile.disks.data
    return clouds.Order(
        name=record.name,
        launch_id=record.launch_id,
        instance_type=place.instance_type,
        gpu=profile.gpu.model,
        gpu_count=profile.gpu.count,
        market=place.market,
        os=(profile.os.name, profile.os.version),
        root_gb=profile.disks.root.size_gb,
        volume_gb=data.size_gb if data else None,
        instance_store=data is not None and data.source == "instance-store",
        ssh_from=profile.network.ssh_from,
        public_key=wanted.public_key,
        deadline=dt.datetime.fromisoformat(record.deadline),
        tags={
            clouds.NAME_TAG: record.name,
            clouds.LAUNCH_TAG: record.launch_id,
            clouds.PROFILE_TAG: profile.name,
            clouds.PROFILE_DIGEST_TAG: record.profile_digest,
            clouds.OWNER_TAG: profile.owner.email,
            clouds.DEADLINE_TAG: record.deadline,
            clouds.COUNT_TAG: "1",
            clouds.FIRST_TAG: "1",
        },
        image_id=wanted.place(place, record.region).image_id,
    )


def regions_of(profiles: Iterable[Profile], records: Iterable[Record]) -> set[tuple[str, str]]:
    """The (cloud, region) pairs where our instances can be: those of the profiles and those of the journal."""
    from_profiles = {
        ("aws", region) for profile in profiles for place in profile.places if isinstance(place, AwsPlace) for region in place.regions
    }
    return from_profiles | {(record.cloud, record.region) for record in records}


def survey(connect: Connect, where: Iterable[tuple[str, str]]) -> tuple[list[clouds.Instance], list[str]]:
    """All our instances in the regions, asked at the same time, and what could not be asked.

    Raises:
        CredentialsMissingError, CredentialsExpiredError: nothing at all can be asked.
    """
    pairs = sorted(where)
    handles = [connect(cloud, region) for cloud, region in pairs]
    problems: list[str] = []
    instances: list[clouds.Instance] = []

    def ask(handle: clouds.Cloud) -> list[clouds.Instance]:
        try:
            return handle.find()
        except (CredentialsMissingError, CredentialsExpiredError):
            raise
        except CloudError as error:
            problems.append(f"{handle.region}: {error.message}")
            return []

    with ThreadPoolExecutor(max_workers=10) as pool:
        for found in pool.map(ask, handles):
            instances += found
    return sorted(instances, key=lambda i: (i.name, i.launched_at)), problems


def destroy(connect: Connect, journal: Journal, name: str, where: Iterable[tuple[str, str]], *, on_step: clouds.Step) -> list[str]:
    """Remove everything tagged with a name in the regions.

    Raises:
        InstanceNotFoundError: there was nothing, neither at the clouds nor in the journal.
    """
    removed: list[str] = []
    for cloud, region in sorted(where):
        on_step(f"looking for {name} in {region}")
        handle = connect(cloud, region)
        removed += handle.remove(handle.things(name), on_step=on_step)
    known = journal.get(name)
    journal.drop(name)
    if not removed and known is None:
        msg = f"nothing called {name!r} was found"
        raise InstanceNotFoundError(msg, hint="`gpuprov ls` shows what there is")
    return removed
