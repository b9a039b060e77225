"""What others recorded of the clouds: through gpuprov's own parsers, and beside what the embedded clouds answer.

    python -m tests.cloud.recordings FOLDER [--write]

FOLDER has clones of the repositories of tests/cloud/bodies.py, which says how they come there. Each body stands in the place of an embedded
cloud's answer while gpuprov asks everything that it ever asks: whatever a body lacks, what comes of it is a value or an error of ours. Then
the fields of what both have are compared, by name and type. What an embedded cloud has not, and why, is in tests/cloud/differences.yml;
anything else ends the command with 1. It does not ask the other way round: recordings are old or cut, and what the embedded clouds answer
is held to the makers' own schemas.

With --write the fields, which are facts and no bodies, replace tests/cloud/recorded/*.yml, by which a test sees without any body when an
embedded cloud loses a field.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unittest import mock

import tenacity
import yaml
from botocore.awsrequest import AWSResponse

from provision.clouds.aws.client import client
from provision.clouds.received import Received
from provision.errors import GpuprovError
from provision.rehearsal import control
from provision.structs import replace
from tests.cloud.bodies import SOURCES, Body, objects, read
from tests.cloud.facts import fields
from tests.cloud.present import RIGS, listen_apart
from tests.clouds.portal import Portal, Reply
from tests.clouds.test_received import questions
from tests.embedded import PLAIN
from tests.fuzz.answers import Clock

HERE: Final = Path(__file__).parent
RECORDED: Final = HERE / "recorded"
DIFFERENCES: Final = HERE / "differences.yml"
_PAGES: Final = {"NextToken", "nextPageToken", "links"}
Facts = dict[str, dict[str, dict[str, Any]]]  # cloud → what → `paths`, `fields`
Present = Mapping[str, Mapping[str, Iterable[str]]]


@dataclass(frozen=True, order=True)
class Difference:
    """A field that was recorded and that an embedded cloud has not, or has of another type."""

    cloud: str
    what: str
    field: str
    types: str = ""

    def __str__(self) -> str:
        return f"{self.cloud} {self.what}: {self.field} ({self.types})"


class Collection:
    """The bodies of a folder of what the embedded clouds answer too: their fields, and one body of each set of fields."""

    def __init__(self, folder: Path, present: Present) -> None:
        self.count = 0
        self.bodies: dict[tuple[str, str, frozenset[str]], Body] = {}
        self._found: dict[tuple[str, str], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        for source in SOURCES:
            for body in read(folder, source):
                self.count += 1
                every, has = objects(body.cloud, body.operation, body.answer), present[body.cloud]
                shared = [(what, fields(each)) for what, each in every if what in has]
                for what, found in shared:
                    self._found[body.cloud, what][f"{source.name}/{body.path}"] |= found
                if shared:
                    key = (body.cloud, body.operation, frozenset(f"{what} {field}" for what, found in shared for field in found))
                    self.bodies.setdefault(key, body)

    def facts(self) -> Facts:
        """The fields of all objects, with a few paths that have them all."""
        facts: Facts = defaultdict(dict)
        for (cloud, what), by_path in sorted(self._found.items()):
            whole = set[str]().union(*by_path.values())
            lacking, paths = set(whole), []
            while lacking:
                best = max(sorted(by_path), key=lambda path: len(by_path[path] & lacking))
                paths.append(best)
                lacking -= by_path[best]
            facts[cloud][what] = {"paths": sorted(paths), "fields": sorted(whole)}
        return facts


def known() -> Facts:
    """The facts in this repository."""
    return {path.stem: yaml.safe_load(path.read_text())["answers"] for path in sorted(RECORDED.glob("*.yml"))}


def differences(facts: Facts, present: Present) -> list[Difference]:
    """What the embedded clouds have not of what was recorded."""
    found = []
    for cloud, answers in facts.items():
        for what, fact in answers.items():
            if what not in present[cloud]:
                found.append(Difference(cloud, what, "", "no such answer"))
                continue
            have, want = _types(present[cloud][what]), _types(fact["fields"])
            for path, types in want.items():
                if not types <= have.get(path, set()):
                    said = [" or ".join(sorted(each)) or "none" for each in (types, have.get(path, set()))]
                    found.append(Difference(cloud, what, path, f"recorded {said[0]}, embedded {said[1]}"))
    return sorted(found)


def _types(found: Iterable[str]) -> dict[str, set[str]]:
    by_path: dict[str, set[str]] = defaultdict(set)
    for field in found:
        path, _, kind = field.rpartition(" ")
        by_path[path].add(kind)
    return by_path


def explained() -> Iterator[tuple[Difference, str]]:
    """The lines of the file of differences, each with its reason; a field that ends with `*` stands for all that begin so."""
    for entry in yaml.safe_load(DIFFERENCES.read_text()):
        for what, names in entry["fields"].items():
            yield from ((Difference(entry["cloud"], what, name), entry["why"]) for name in names.split())


def judge(found: Iterable[Difference]) -> tuple[list[Difference], list[Difference]]:
    """The differences without a reason, and the reasons without a difference."""
    found, reasons = list(found), [line for line, _ in explained()]
    return [each for each in found if not any(map(each_is(each), reasons))], [r for r in reasons if not any(each_is(f)(r) for f in found)]


def each_is(difference: Difference) -> Callable[[Difference], bool]:
    """Whether a line of the file stands for a difference."""

    def stands(line: Difference) -> bool:
        if (line.cloud, line.what) != (difference.cloud, difference.what):
            return False
        return difference.field.startswith(line.field[:-1]) if line.field.endswith("*") else difference.field == line.field

    return stands


def through_parsers(bodies: Iterable[Body]) -> list[str]:
    """Let each body be a cloud's answer to all that gpuprov asks; what came of it that is neither a value nor an error of ours."""
    wrong: list[str] = []
    clock = Clock()
    with (
        tempfile.TemporaryDirectory() as name,
        mock.patch.object(tenacity.nap, "time", clock),
        mock.patch.object(tenacity, "time", clock),
    ):
        rehearsal = control.start(Path(name), hosts=False)
        control.ask(rehearsal, "settings", method="PUT", body=PLAIN)
        stages = {cloud: Stage(cloud, rehearsal) for cloud in RIGS}
        try:
            for body in bodies:
                wrong += stages[body.cloud].try_out(body)
        finally:
            for stage in stages.values():
                stage.portal.__exit__()
            control.stop(Path(name))
    return wrong


class Stage:
    """One embedded cloud with a machine, and a place before it where a body stands in for an answer."""

    def __init__(self, cloud: str, rehearsal: Any) -> None:
        self.cloud, self.rig = cloud, RIGS[cloud](rehearsal)
        self.order = self.rig.order()
        (self.machine,) = self.rig.cloud().launch(self.order)
        self.portal = Portal(rehearsal.endpoints[cloud]).__enter__()
        if cloud != "aws":
            self.rig.access = replace(self.rig.access, endpoint_url=self.portal.url)

    def try_out(self, body: Body) -> list[str]:
        """Let a body, as if it were the last page, stand in for the answer while everything is asked; what came of it that must not."""
        whole = Received({key: value for key, value in body.answer.items() if key not in _PAGES})
        if self.cloud == "aws":
            service, action = body.operation.split(".")
            clients = [client(service, self.rig.region, self.rig.access, retried=retried) for retried in (True, False)]
            name = f"before-call.{service}.{action}"

            def given(**_: Any) -> tuple[AWSResponse, Received]:
                return AWSResponse("", 200, {}, None), whole

            for each in clients:
                each.meta.events.register_first(name, given)
            try:
                return list(self._ask(body))
            finally:
                for each in clients:
                    each.meta.events.unregister(name, given)
        raw = json.dumps(whole).encode()
        self.portal.instead = lambda reply: raw if _same(body, reply) else None
        try:
            return list(self._ask(body))
        finally:
            self.portal.instead = lambda _: None

    def _ask(self, body: Body) -> Iterator[str]:
        cloud = self.rig.cloud()
        asked: dict[str, Callable[[], object]] = questions(cloud, self.order, self.machine, [])
        asked["examine"] = functools.partial(cloud.examine, self.order)
        for name, ask in asked.items():
            try:
                ask()
            except GpuprovError:
                continue
            except Exception as error:  # noqa: BLE001 - this is what it looks for
                yield f"{body.cloud} {body.path}: {name}: {error!r}"[:300]


def _same(body: Body, reply: Reply) -> bool:
    """Whether an answer is one of the same objects, alone or in a list, as the body is."""
    try:
        answer = json.loads(reply[2])
    except ValueError:
        return False
    if reply[0] != 200 or not isinstance(answer, dict):
        return False
    mine, other = ((each.get("kind") or next(iter(each), "")) for each in (body.answer, answer))
    return bool(mine == other)


def write(facts: Facts) -> None:
    """Replace the facts of this repository."""
    RECORDED.mkdir(exist_ok=True)
    for cloud, answers in facts.items():
        used = {path for fact in answers.values() for path in fact["paths"]}
        sources = {
            source.name: {"commit": source.commit, "licence": source.licence}
            for source in SOURCES
            if any(path.startswith(source.name) for path in used)
        }
        text = "# Names and types of the fields of answers that others recorded, and where. Written by python -m tests.cloud.recordings.\n"
        (RECORDED / f"{cloud}.yml").write_text(text + yaml.safe_dump({"sources": sources, "answers": answers}, sort_keys=False, width=140))


def main() -> int:
    """Read, try out, compare; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.cloud.recordings", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true", help="replace the facts of this repository")
    given = parser.parse_args()
    present = listen_apart()
    collection = Collection(given.folder, present)
    facts = collection.facts()
    if given.write:
        write(facts)
    wrong = through_parsers(collection.bodies.values())
    unexplained, stale = judge(differences(facts, present))
    count = sum(len(fact["fields"]) for answers in facts.values() for fact in answers.values())
    tried = f"{collection.count} bodies, {len(collection.bodies)} of them, one of each set of fields, through the parsers"
    print(f"{tried}: {len(wrong)} ended otherwise than with a value or an error of ours")
    print(f"{count} fields, {len(unexplained)} not in the embedded clouds and unexplained, {len(stale)} reasons without a difference")
    print(*wrong, *unexplained, *(f"no difference any more: {each.cloud} {each.what}: {each.field}" for each in stale), sep="\n")
    return bool(not collection.count or wrong or unexplained or stale)


if __name__ == "__main__":
    sys.exit(main())
