"""`catalog refresh`: ask the clouds, the package repositories and the package index, and lay their answers over the shipped data.

The parts are independent. One that fails keeps its old data and is reported; the others are refreshed.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from provision import clouds
from provision.catalog import overlay, package_versions, read, wheels
from provision.catalog.overlay import Overlay
from provision.catalog.package_versions import Repository
from provision.clouds.terms import Refreshed
from provision.concurrent import at_once
from provision.errors import (
    CloudError,
    CredentialsExpiredError,
    CredentialsMissingError,
    GpuprovError,
    IndexUnreachableError,
    PermissionRefusedError,
)
from provision.profile import load, names
from provision.profile.model import Profile
from provision.profile.packages import Names, system_of
from provision.structs import MutableStruct, field

Say = Callable[[str], None]


class RefreshResult(MutableStruct):
    """What a refresh did.

    Attributes:
        changed: what differs from before, one line each.
        failed: what could not be refreshed, and why; the data before stays in use for it.
    """

    refreshed: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def refresh(
    only: Sequence[str],
    regions: Sequence[str],
    sets: Sequence[str],
    *,
    access: Mapping[str, Any],
    say: Say,
    repositories: Sequence[Sequence[Repository]] = (),
) -> RefreshResult:
    """Refresh parts of the catalog and write the overlay.

    Args:
        only: names of `clouds.refreshes()`; all when empty.
        regions: to ask; all that the catalog knows when empty.
        sets: names of wheel sets to resolve again; all when empty.
        access: cloud → whose account; the user's own where it is missing.
        say: told about progress.
        repositories: to read, in the groups that a host installs from; all that the catalog knows when empty.

    Raises:
        GpuprovError: nothing at all could be refreshed; the first reason.
    """
    outcome, fresh = RefreshResult(), overlay.read()
    errors: list[GpuprovError] = []
    cloud_of = clouds.refreshes()

    def account(cloud: str) -> Any:
        return access.get(cloud) or clouds.access_from(cloud, {})

    # `prices` stands for the prices of every cloud.
    order = [name for name in cloud_of if not only or name in only or name.rpartition("-")[2] in only]
    silent = _silent({cloud_of[name]: account(cloud_of[name]) for name in order if cloud_of[name]}, regions, say)
    for name in order:
        cloud = cloud_of[name]
        try:
            if isinstance(silent.get(cloud), CredentialsMissingError | CredentialsExpiredError):
                raise silent[cloud]
            if cloud:
                part = _cloud(name, cloud)(fresh, regions, account(cloud), say)
            else:
                part = _packages(fresh, repositories, say) if name == "packages" else _wheels(fresh, sets, say)
        except GpuprovError as error:
            errors.append(error)
            outcome.failed.append(f"{name}: {error.message}")
        else:
            fresh = part.overlay
            outcome.refreshed.append(name)
            outcome.changed += part.changed
            outcome.failed += part.failed
    if errors and not outcome.refreshed:
        raise errors[0]
    overlay.write(fresh)
    return outcome


def _silent(accounts: Mapping[str, Any], regions: Sequence[str], say: Say) -> dict[str, CloudError]:
    """The clouds that do not answer one small question, with their errors, which are said before anything long begins."""

    def ask(cloud: str) -> CloudError | None:
        here = clouds.provider(cloud).regions()
        region = next((code for code in (*regions, *here) if code in here and not here[code].opt_in), next(iter(here)))
        try:
            clouds.connect(cloud, region, accounts[cloud]).find()
        except PermissionRefusedError:  # to list machines, which no refresh needs
            return None
        except CloudError as error:
            say(f"{cloud} did not answer: {error.message}")
            return error
        return None

    answers = dict(zip(accounts, at_once(ask, accounts), strict=True))
    return {cloud: error for cloud, error in answers.items() if error}


def _cloud(part: str, cloud: str) -> Callable[..., Refreshed]:
    """What refreshes a part that a cloud knows."""
    function: Callable[..., Refreshed] = getattr(clouds.refresh_module(cloud), clouds.provider(cloud).refreshes[part])
    return function


def repositories_of(profile: Profile) -> list[Repository]:
    """The repositories that a profile's hosts install from, a mirror among them.

    Raises:
        StackConflictError: nothing says which key they are trusted by.
    """
    system = system_of(f"{profile.os.name} {profile.os.version}")
    own = read.distribution(system.key) if profile.sources.packages == "distribution" else None
    return [Repository(**each.model_dump()) for each in Names(profile, system, own).repositories()]


def repositories_named(profile: str) -> list[Repository]:
    """The same of a profile by its name or file."""
    return repositories_of(load.load(load.find(profile)))


def _packages(before: Overlay, groups: Sequence[Sequence[Repository]], say: Say) -> Refreshed:
    """The versions of packages in each group of repositories. One that is not read keeps what was known of it."""
    from provision.catalog import indices  # noqa: PLC0415 - what compares versions takes a third of a second to load

    selection, pattern = groups or package_versions.all_groups(), names.pattern()

    def ask(group: Sequence[Repository]) -> dict[str, list[str]] | IndexUnreachableError:
        say(f"reading the signed index of {group[0].url}")
        try:
            return indices.read(group, pattern)
        except IndexUnreachableError as error:
            return error

    answers = dict(
        zip((package_versions.group_key((r.url, r.suite) for r in group) for group in selection), at_once(ask, selection), strict=True)
    )
    errors = [answer for answer in answers.values() if isinstance(answer, IndexUnreachableError)]
    if len(errors) == len(answers):
        raise errors[0]
    fresh = {group: answer for group, answer in answers.items() if not isinstance(answer, IndexUnreachableError)}
    changed = [
        f"{name}: {', '.join(old[:1]) or 'none'} → {new[0]}"
        for group, versions in fresh.items()
        for name, new in versions.items()
        if (old := before.packages.get(group, {}).get(name, [])) != new
    ]
    origin = f"the signed indices of package repositories ({len(fresh)} of {len(answers)})"
    return Refreshed(
        before.with_part("packages", origin, packages={**before.packages, **fresh}),
        changed,
        [f"packages: {error.message}" for error in errors],
    )


def _wheels(before: Overlay, names: Sequence[str], say: Say) -> Refreshed:
    every = {wheel_set.name: wheel_set for wheel_set in wheels.all_sets()}
    selection = [every[name] for name in names] if names else list(every.values())

    def resolve(wheel_set: wheels.WheelSet) -> str | GpuprovError:
        say(f"resolving wheels of {len(selection)} sets: {wheel_set.name}")
        try:
            return wheels.resolve_with_uv(wheel_set)
        except GpuprovError as error:
            return error

    answers = dict(zip(selection, at_once(resolve, selection, most=4), strict=True))
    errors = {wheel_set.name: answer for wheel_set, answer in answers.items() if isinstance(answer, GpuprovError)}
    if errors and len(errors) == len(selection):
        raise next(iter(errors.values()))
    fresh = {each.name: text for each, text in answers.items() if isinstance(text, str) and text != each.text()}
    origin = f"the package index, through uv ({len(selection) - len(errors)} of {len(every)} sets)"
    return Refreshed(
        before.with_part("wheels", origin, wheels={**before.wheels, **fresh}),
        [f"{name}: other wheels" for name in fresh],
        [f"wheels {name}: {error.message}" for name, error in errors.items()],
    )
