"""What protects every test: a home of its own, no real cloud, no real configuration of the user or the organisation."""

from __future__ import annotations

import copy
import functools
import gc
import itertools
import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from botocore.client import ClientCreator
from xdist.scheduler import LoadFileScheduling

from provision.clouds.aws.access import AwsAccess
from provision.profile import plain
from provision.rehearsal import control, leftovers, network
from provision.rehearsal.control import Rehearsal
from provision.review import where
from tests import patches, sample
from tests.embedded import PLAIN, Embedded

os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
# Nothing of what is imported and collected can go. Looking for what can would take two fifths of that time, and a second at the end.
gc.set_threshold(20_000, 50, 50)
gc.disable()


# The files that take minutes begin first, so that no worker is left alone with one of them at the end.
LONGEST = (
    "cloud/test_story",
    "clouds/aws/test_member",
    "workflow/",
    "site/",
    "test_bake",
    "launch/test_faults_",
    "launch/test_crash_",
    "converge/",
    "playbooks/",
    "test_story",
    "test_keys",
    "test_contributing",
    "verify/test_dying",
    "verify/test_script",
    "verify/test_observe",
    "rehearsal/",
    "render/",
    "review/test_story",
    "catalog/test_product",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--files", type=int, default=1, metavar="N", help="with --sample: run one file of N")
    parser.addoption("--sample", default="", metavar="NUMBER", help="run a part of each matrix: that of a number, or of this `commit`")


def pytest_configure(config: pytest.Config) -> None:
    sample.choose(config.getoption("--sample"))
    patches.watch()


def pytest_collection_finish() -> None:
    """No `gc.freeze` here: the oldest hypothesis that we admit looks for who holds its random numbers, and a frozen owner is not found."""
    gc.enable()


def pytest_report_header() -> list[str]:
    number = sample.chosen()
    return [] if number is None else [f"a part of each matrix, number {number}: what fails is repeated by `pytest --sample {number} TEST`"]


def pytest_sessionstart() -> None:
    """Clear away the hosts of test runs that were killed: bridges and loop devices outlive their processes."""
    if os.geteuid() != 0 or "PYTEST_XDIST_WORKER" in os.environ or not shutil.which("ip"):
        return
    for folder in network.owners():
        if not folder.is_dir():
            continue  # of a machine that shares this one's network, or of nobody
        of_a_test = next((path for path in folder.parents if path.parent.name.startswith("pytest-of-")), None)
        if of_a_test and not is_running(of_a_test):
            leftovers.sweep(folder)


def is_running(folder: Path) -> bool:
    """Whether the test run with this folder for its files lives: pytest keeps the number of its process there."""
    try:
        return bool(psutil.pid_exists(int((folder / ".lock").read_text())))
    except (OSError, ValueError):
        return False


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Two workers for each core: the tests that take longest wait for clouds, hosts and Ansible most of their time."""
    return 2 * (os.cpu_count() or 1)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling:
    """A file's tests run in one worker, whatever the command line says: a story's tests build on each other."""
    return LoadFileScheduling(config, log)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes are not written into the name of a test: a packed file holds the second in which it was packed, and
    workers that collect in two seconds would collect two lists."""
    return argname if isinstance(val, bytes) else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The last lines say which groups of tests did not run, and why: a skip is not a pass."""
    reports = terminalreporter.stats.get("skipped", [])
    reasons = Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in reports if isinstance(report.longrepr, tuple))
    files = {report.nodeid.partition("::")[0] for report in reports}
    terminalreporter.write_sep("=", f"did not run: {len(reports)} tests in {len(files)} files" if reports else "every test ran")
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count:4}  {reason}")
    number = sample.chosen()
    if number is not None:
        terminalreporter.write_line(f"of each matrix part {number} ran; `make test-all` runs all of it")
        for report in [*terminalreporter.stats.get("failed", []), *terminalreporter.stats.get("error", [])]:
            terminalreporter.write_line(f"again: .venv/bin/pytest --sample {number} '{report.nodeid}'")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    def rank(item: pytest.Item) -> int:
        return next((number for number, name in enumerate(LONGEST) if f"tests/{name}" in item.path.as_posix()), len(LONGEST))

    items.sort(key=rank)
    out = set(sample.left_out(items, config.getoption("--files")))
    if out:
        config.hook.pytest_deselected(items=list(out))
        items[:] = [item for item in items if item not in out]


@pytest.fixture(scope="session")
def plain_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Empty folders for the thousands of tests that ask for none: `tmp_path` takes ten times as long to make one."""
    base = tmp_path_factory.mktemp("plain")

    def made() -> Iterator[Path]:
        for number in itertools.count():
            folder = base / str(number)
            folder.mkdir()
            yield folder

    return made()


@pytest.fixture(autouse=True)
def own_home(request: pytest.FixtureRequest, plain_folders: Iterator[Path]) -> Iterator[Path]:
    """No test reads or writes this user's journal, keys, ssh configuration or cloud credentials.

    Its patches are its own: the fixture `monkeypatch` would begin with it, before all other fixtures, and so end after theirs.
    """
    folder = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else next(plain_folders)
    home = folder / "gpuprov-home"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPUPROV_HOME", str(home))
        patch.setenv("GPUPROV_OVERLAY", str(folder / "overlay.json"))
        patch.setenv("GPUPROV_SSH_CONFIG", str(folder / "ssh_config"))
        for name in [n for n in os.environ if n.startswith("AWS_") and n != "AWS_CA_BUNDLE"]:
            patch.delenv(name)
        for name in ("GPUPROV_POLICY", "GPUPROV_SIGNERS", "GPUPROV_REVOKED"):
            patch.delenv(name, raising=False)
        patch.setattr(where, "FOLDER", folder / "etc-gpuprov")
        patch.setenv("AWS_CONFIG_FILE", "/dev/null")
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield home


@pytest.fixture(autouse=True, scope="session")
def read_once() -> Iterator[None]:
    """A file's bytes are parsed once by each worker: the answer depends on nothing else, and every test gets its own copy."""
    parse = functools.lru_cache(maxsize=512)(plain.read)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain, "read", lambda raw, bounds, what: copy.deepcopy(parse(raw, bounds, what)))
        yield


@pytest.fixture(autouse=True, scope="session")
def clients_of_one_kind() -> Iterator[None]:
    """botocore writes the methods of a service's clients once for each worker, and not for each region of each embedded cloud."""
    make, made = ClientCreator._create_methods, dict[str, dict[str, Any]]()

    def once(self: ClientCreator, service_model: Any) -> dict[str, Any]:
        name = service_model.service_name
        if name not in made:
            made[name] = make(self, service_model)
        return dict(made[name])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ClientCreator, "_create_methods", once)
        yield


@pytest.fixture(scope="session")
def embedded() -> Iterator[Embedded]:
    """Starts embedded clouds without hosts."""
    made = Embedded()
    yield made
    made.close()


@pytest.fixture(scope="module")
def ec2_api(tmp_path_factory: pytest.TempPathFactory, embedded: Embedded) -> Iterator[Rehearsal]:
    """The embedded cloud without hosts: the EC2 API alone, which needs no root."""
    folder = tmp_path_factory.mktemp("ec2")
    yield embedded.start(folder)
    assert control.stop(folder)


@pytest.fixture
def ec2(ec2_api: Rehearsal) -> Rehearsal:
    """The same, with no faults, no calls and default settings."""
    control.ask(ec2_api, "faults", method="PUT", body=[])
    control.ask(ec2_api, "settings", method="PUT", body=PLAIN)
    control.ask(ec2_api, "calls", method="DELETE")
    return ec2_api


@pytest.fixture
def access(ec2: Rehearsal) -> AwsAccess:
    """How `AwsCloud` reaches it."""
    return access_to(ec2)


def access_to(rehearsal: Rehearsal) -> AwsAccess:
    return AwsAccess(**rehearsal.settings("aws"))
