"""Bodies that others recorded, as they lie in clones of their repositories below a folder. None of them is in this repository.

mkdir bodies && cd bodies
    git clone --depth 1 https://github.com/apache/libcloud apache/libcloud    # and so the others of `SOURCES`
"""

from __future__ import annotations

import datetime as dt
import functools
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import botocore.session

from provision.clouds.aws.client import _Parsers, _received
from provision.clouds.aws.errors import NotOfAwsError

_BODY: Final = re.compile(r"`\s*(\{.*?\})\s*`", re.DOTALL)
_ROOT: Final = re.compile(rb"<(\w+)Response[ >]")
_DATES: Final = ("year", "month", "day", "hour", "minute", "second")
_BESIDE: Final = {"links", "meta"}
_MOST: Final = 4 << 20


@dataclass(frozen=True)
class Source:
    """A public repository with bodies.

    Attributes:
        name: on GitHub.
        commit: the one that was read here; others have nearly the same.
        licence: of the bodies.
        files: pattern below the clone → how a file is read.
    """

    name: str
    commit: str
    licence: str
    files: dict[str, Callable[[bytes, str], Iterator[tuple[str, Any]]]]


@dataclass(frozen=True)
class Body:
    """One answer: of which cloud and operation (AWS's; the others' answers tell it), from which file, and its data."""

    cloud: str
    operation: str
    path: str
    answer: Any


def objects(cloud: str, operation: str, answer: Any) -> Iterator[tuple[str, Any]]:
    """The objects of an answer with what each is: of an operation of AWS, of a kind of Google's, or of a name of DigitalOcean's.

    A list of them is so many objects.
    """
    if not isinstance(answer, dict):
        return
    if cloud == "aws":
        yield operation, answer
    elif cloud == "gcp":
        kind = str(answer.get("kind", ""))
        if not kind.endswith("List"):
            yield kind, answer
        else:
            items = answer.get("items") or []
            scopes = items.values() if isinstance(items, dict) else [{"items": items}]
            listed = (each for scope in scopes for key, each in scope.items() if key != "warning")
            yield from ((str(each["kind"]), each) for found in listed for each in found if isinstance(each, dict) and "kind" in each)
    elif "message" not in answer:
        for key, value in answer.items():
            if isinstance(value, list):
                yield from ((key.removesuffix("s"), each) for each in value if isinstance(each, dict))
            elif isinstance(value, dict) and key not in _BESIDE:
                yield key, value


def read(folder: Path, source: Source) -> Iterator[Body]:
    """The bodies of a source in its clone below the folder."""
    root = folder / source.name
    for pattern, reader in source.files.items():
        for path in sorted(root.glob(pattern)):
            relative = str(path.relative_to(root))
            raw = path.read_bytes()[:_MOST]
            for cloud, found in reader(raw, path.name):
                operation, answer = found if cloud == "aws" else ("", found)
                yield Body(cloud, operation, relative, answer)


@functools.cache
def _shape(service: str, action: str) -> Any:
    try:
        model = botocore.session.get_session().get_service_model(service)
        return model.operation_model(action).output_shape
    except Exception:  # noqa: BLE001 - botocore's classes of it differ by version
        return None


def _ec2_xml(raw: bytes, _name: str) -> Iterator[tuple[str, Any]]:
    """An answer of EC2 as it came, parsed by gpuprov's own parser."""
    root = _ROOT.search(raw)
    action = root[1].decode() if root else ""
    shape = _shape("ec2", action)
    if shape is not None:
        try:
            parsed = _Parsers().create_parser("ec2").parse({"body": raw, "headers": {}, "status_code": 200}, shape)
        except NotOfAwsError:
            return
        yield "aws", (f"ec2.{action}", {k: v for k, v in parsed.items() if k != "ResponseMetadata"})


def _placebo(raw: bytes, name: str) -> Iterator[tuple[str, Any]]:
    """An answer that botocore parsed, as placebo keeps it."""
    service, action = name.split("_", maxsplit=1)[0].split(".")[:2]
    kept = json.loads(raw, object_hook=_dated)
    shape = _shape(service, action)
    if kept.get("status_code") != 200 or shape is None:
        return
    data = {k: v for k, v in kept["data"].items() if k != "ResponseMetadata"}
    try:
        yield "aws", (f"{service}.{action}", _received(data, shape))
    except TypeError:
        return  # it was shortened by hand to what AWS never sends


def _dated(found: dict[str, Any]) -> Any:
    if found.get("__class__") == "datetime":
        year, month, day, hour, minute, second = (int(found.get(part, 0)) for part in _DATES)
        return dt.datetime(year, month, day, hour, minute, second, tzinfo=dt.UTC)
    return found


def _google(raw: bytes, _name: str) -> Iterator[tuple[str, Any]]:
    data = json.loads(raw, object_hook=lambda found: {k: v for k, v in found.items() if not k.startswith("c7n")})  # its own annotations
    yield "gcp", data.get("body", data) if isinstance(data, dict) else None


def _ocean(raw: bytes, _name: str) -> Iterator[tuple[str, Any]]:
    yield "digitalocean", json.loads(raw)


def _go(raw: bytes, _name: str) -> Iterator[tuple[str, Any]]:
    """The raw strings of a test in Go that are JSON."""
    for match in _BODY.finditer(raw.decode(errors="replace")):
        try:
            yield "digitalocean", json.loads(match[1])
        except ValueError:
            continue


_LIBCLOUD: Final = "libcloud/test/compute/fixtures"
SOURCES: Final = (
    Source(
        "apache/libcloud",
        "6e39117d6f686e2f49b12fc8a24168d13b6e0ada",
        "Apache-2.0",
        {f"{_LIBCLOUD}/ec2/*.xml": _ec2_xml, f"{_LIBCLOUD}/gce/*.json": _google, f"{_LIBCLOUD}/digitalocean_v2/*.json": _ocean},
    ),
    Source(
        "cloud-custodian/cloud-custodian",
        "df800e9e94d0860e0d8fbfebd9bc5b9b2d50367d",
        "Apache-2.0",
        {
            "tests/data/placebo/*/ec2.*.json": _placebo,
            "tests/data/placebo/*/autoscaling.*.json": _placebo,
            "tests/data/placebo/*/service-quotas.*.json": _placebo,
            "tools/c7n_gcp/tests/data/flights/*/*-compute-v1-*.json": _google,
        },
    ),
    Source(
        "digitalocean/godo",
        "3fce660c40164d739042422abd984198ea680c63",
        "MIT",
        dict.fromkeys((f"{name}_test.go" for name in ("account", "droplets", "firewalls", "images", "sizes", "storage", "tags")), _go),
    ),
)
