"""The Ray cluster of a profile: the unit, the raylet and the connection to the head, and a host that stayed in one."""

from typing import Any, Final

import pytest

from provision.profile import load
from provision.profile.stack import RayCluster
from tests.verify import good

from .table import Case, Text, table, texts

PYTHON: Final = {"requirements": "requirements.txt"}
WORKER: Final[dict[str, Any]] = {"stack__python": PYTHON, "stack__ray": {"head": "10.0.0.5"}}
NAMED: Final[dict[str, Any]] = {"stack__python": PYTHON, "stack__ray": {"head": "head-1.example.org"}}
HEAD: Final[dict[str, Any]] = {"stack__python": PYTHON, "stack__ray": {"head": "self"}}
PROGRAM: Final = "/opt/gpuprov/venvs/pytorch/bin/ray "


def unit(command: str, **changed: bool) -> dict[str, Any]:
    return {"exists": True, "enabled": True, "active": True, "command": command, **changed}


def joined(by: str = "10.0.0.5", **changed: Any) -> dict[str, Any]:
    """The facts of a worker that knows its head by this address or name, with some values changed."""
    command = f"{PROGRAM}start --block --address={by}:6379 --disable-usage-stats"
    seen = {"unit": unit(command), "port": 6379, "head": ["10.0.0.5"], "raylet": True, "listens": False, "connected": ["10.0.0.5"]}
    return {"ray": {**seen, **changed}}


def led(**changed: Any) -> dict[str, Any]:
    """The facts of a head."""
    command = f"{PROGRAM}start --block --head --port=6379 --dashboard-host=127.0.0.1 --disable-usage-stats"
    seen = {"unit": unit(command), "port": 6379, "head": [], "raylet": True, "listens": True, "connected": ["10.0.0.11"]}
    return {"ray": {**seen, **changed}}


ADDRESS: Final = f"{PROGRAM}start --block --address=10.0.0.5:6379 --disable-usage-stats"
NONE: Final = unit("", exists=False, enabled=False, active=False)
SILENT: Final = {"ray": {"unknown": "no systemd answers on this host"}}
CASES: list[Case] = [
    ("ray", joined(), WORKER, "pass", "=a raylet runs, connected to 10.0.0.5 at port 6379"),
    ("ray", joined("head-1.example.org"), NAMED, "pass", "connected to 10.0.0.5"),
    ("ray", joined("head-1.example.org", head=["10.0.0.9", "10.0.0.5"]), NAMED, "pass", "connected to 10.0.0.5"),
    ("ray", led(), HEAD, "pass", "=a raylet runs, and the head listens on port 6379"),
    ("ray", {}, {}, "not-applicable", "asks for no Ray cluster"),
    ("ray", SILENT, {}, "not-applicable", "asks for no Ray cluster"),
    ("ray", {"ray": None}, {}, "not-applicable", "asks for no Ray cluster"),
    ("ray", joined(), {}, "fail", "gpuprov-ray.service starts: /opt/gpuprov/venvs/pytorch/bin/ray start"),
    ("ray", joined(unit=unit(ADDRESS, enabled=False)), {}, "fail", "gpuprov-ray.service starts"),
    ("ray", joined(unit=unit(ADDRESS, active=False)), {}, "fail", "gpuprov-ray.service starts"),
    ("ray", joined(unit=unit(ADDRESS, active=False, enabled=False)), {}, "not-applicable", "asks for no Ray cluster"),
    ("ray", SILENT, WORKER, "unknown", "no systemd"),
    ("ray", {"ray": None}, WORKER, "unknown", "no fact 'ray'"),
    ("ray", joined(unit=NONE), WORKER, "fail", "=there is no gpuprov-ray.service"),
    ("ray", joined(unit=unit(ADDRESS, enabled=False)), WORKER, "fail", "=not enabled"),
    ("ray", joined(unit=unit(ADDRESS, active=False)), WORKER, "fail", "=not active"),
    ("ray", joined(unit=unit(ADDRESS, active=False, enabled=False)), WORKER, "fail", "=not enabled and not active"),
    ("ray", joined(raylet=False), WORKER, "fail", "no raylet runs"),
    ("ray", joined(connected=[]), WORKER, "fail", "=a raylet runs without a connection to any port 6379"),
    ("ray", joined(connected=[], head=None), WORKER, "fail", "without a connection"),
    ("ray", joined(connected=["10.0.0.6"]), WORKER, "fail", "connected to 10.0.0.6, and 10.0.0.5 is 10.0.0.5"),
    ("ray", joined("head-1.example.org", head=["10.0.0.7"]), NAMED, "fail", "connected to 10.0.0.5, and head-1.example.org is 10.0.0.7"),
    ("ray", joined("head-1.example.org", head=None), NAMED, "unknown", "does not resolve head-1.example.org"),
    # Another cluster, another port, another role, another program, or an option that nobody reviewed.
    ("ray", joined("10.0.0.6"), WORKER, "fail", "it starts: "),
    ("ray", joined(), {**WORKER, "stack__ray": {"head": "10.0.0.5", "port": 6380}}, "fail", "it starts: "),
    ("ray", joined(), HEAD, "fail", "it starts: "),
    ("ray", led(), WORKER, "fail", "it starts: "),
    ("ray", joined(unit=unit(ADDRESS.replace("/opt/gpuprov/venvs/pytorch", "/home/ada"))), WORKER, "fail", "it starts: /home/ada"),
    ("ray", joined(unit=unit(ADDRESS.replace("bin/ray", "bin/python"))), WORKER, "fail", "it starts: "),
    ("ray", joined(unit=unit(ADDRESS + " --resources={}")), WORKER, "fail", "it starts: "),
    ("ray", joined(unit=unit("")), WORKER, "fail", "=it starts: nothing"),
    ("ray", led(listens=False), HEAD, "fail", "none of its programs listens on port 6379"),
    ("ray", led(raylet=False), HEAD, "fail", "no raylet runs"),
]
TEXTS: list[Text] = [
    ("ray", joined(), WORKER, "gpuprov-ray.service enabled and active, its raylet alive, connected to 10.0.0.5:6379", ""),
    ("ray", led(), HEAD, "gpuprov-ray.service enabled and active, its raylet alive, the head on port 6379", ""),
    ("ray", joined(), {}, "in no Ray cluster", "--role ray"),
    (
        "ray",
        joined(connected=[]),
        WORKER,
        "gpuprov-ray.service enabled and active, its raylet alive, connected to 10.0.0.5:6379",
        "port 6379",
    ),
]
test_table = table(CASES)
test_texts = texts(TEXTS)


def test_a_profile_without_a_cluster_has_the_digest_that_it_had_before() -> None:
    assert "ray" not in good.PROFILE.dump()["stack"]
    assert load.digest(good.profile(**WORKER)) != load.digest(good.profile(stack__python=PYTHON))


@pytest.mark.parametrize(
    ("head", "arguments"),
    [
        ("self", "start --block --head --port=6379 --dashboard-host=127.0.0.1 --disable-usage-stats"),
        ("10.0.0.5", "start --block --address=10.0.0.5:6379 --disable-usage-stats"),
    ],
)
def test_ray_is_started_with_these_words(head: str, arguments: str) -> None:
    assert " ".join(RayCluster(head=head).arguments) == arguments
