"""A team's own packages: what a file may say, what contradicts the framework's wheels, and what the lock makes of it."""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from provision.catalog import overlay
from provision.catalog.wheels import resolve_beside
from provision.cli import main
from provision.converge.roles import all_roles
from provision.errors import IndexUnreachableError, LockStaleError, ProfileInvalidError, StackConflictError
from provision.profile import load, lockfile
from provision.profile.lock import build
from provision.profile.locked import environment_of, pin
from provision.profile.model import Profile
from provision.profile.own import as_in, from_file
from provision.profile.pins import EnvironmentWheels, WheelPin
from provision.profile.requirements import parse_requirements, take_pylock
from provision.profile.stack import RayCluster
from tests.wheel_index import Index

TODAY = dt.date(2026, 11, 21)
H = "a" * 64
WITHIN = EnvironmentWheels("PyTorch", "3.12", (f"torch==2.10.0 --hash=sha256:{H}", f"numpy==2.3.1 --hash=sha256:{H}"))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("-r other.txt", "an option"),
        ("--index-url https://evil.example/simple", "an option"),
        ("-e .", "an option"),
        ("--extra-index-url=https://evil.example", "an option"),
        (f"einops==0.8.1 --hash=sha256:{H}", "an option"),
        ("https://evil.example/x.whl", "an address"),
        ("einops @ https://evil.example/x.whl", "an address"),
        ("einops @ file:///x", "an address"),
        ("einops@git+ssh:x", "an address"),
        ("./x", "a path"),
        ("/srv/x", "a path"),
        ("x-1.0.whl", "a path"),
        ("einops \\", "a path, or a line that goes on"),
        ("einops=0.8", "not a requirement"),
        ("\x1b[2Jeinops", "characters"),
    ],
)
def test_what_names_another_place_is_refused_with_file_line_and_text(line: str, problem: str) -> None:
    with pytest.raises(ProfileInvalidError) as caught:
        list(parse_requirements(f"# ours\n\nrich>=13\n{line}\n".encode(), Path("/x/requirements.txt")))
    assert caught.value.message.startswith("requirements.txt:4: ")
    assert line.replace("\x1b", "?")[:80] in caught.value.message
    assert problem in caught.value.message


def test_what_a_team_writes_is_read() -> None:
    text = b"einops>=0.8 # tensors\nwandb[media]~=0.20; python_version >= '3.11'\n\n# end\n"
    assert [(number, str(one)) for number, one in parse_requirements(text, Path("r.txt"))] == [
        (1, "einops>=0.8"),
        (2, 'wandb[media]~=0.20; python_version >= "3.11"'),
    ]


def pylock(tmp_path: Path, *packages: str, version: str = "1.0") -> Path:
    path = tmp_path / "pylock.toml"
    path.write_text(f'lock-version = "{version}"\ncreated-by = "x"\npackages = [{", ".join(packages)}]\n')
    return path


def test_a_pylock_adds_its_wheels_and_leaves_out_what_is_there_or_does_not_apply(tmp_path: Path) -> None:
    wheel = f'wheels = [{{url = "https://x/y.whl", hashes = {{sha256 = "{H}"}}}}]'
    path = pylock(
        tmp_path,
        f'{{name = "Ein.ops", version = "0.8.1", {wheel}}}',
        f'{{name = "numpy", version = "2.3.1", {wheel}}}',
        f'{{name = "pywin32", version = "1", marker = "sys_platform == \'win32\'", {wheel}}}',
    )
    taken = take_pylock(path, WITHIN)
    assert taken.wheels == (f"ein-ops==0.8.1 --hash=sha256:{H}",)
    assert taken.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("package", "problem"),
    [
        ('{name = "x", version = "1", vcs = {type = "git"}}', "x comes from a vcs"),
        ('{name = "x", version = "1", directory = {path = "."}}', "x comes from a directory"),
        ('{name = "x", version = "1", sdist = {url = "https://x"}}', "x comes from a sdist"),
        ('{name = "x", version = "1"}', "no wheel with its sha256"),
        ('{name = "x", version = "1", wheels = [{url = "https://x"}]}', "no wheel with its sha256"),
        ('{name = "x", version = "1 -r y", wheels = [{hashes = {sha256 = "' + H + '"}}]}', "no version"),
        ('{name = "x", version = "1", marker = "lambda"}', "the marker of x"),
        ('{version = "1"}', "has no name"),
    ],
)
def test_a_pylock_that_installs_from_elsewhere_is_refused(tmp_path: Path, package: str, problem: str) -> None:
    with pytest.raises(ProfileInvalidError, match=r"pylock\.toml") as caught:
        take_pylock(pylock(tmp_path, package), WITHIN)
    assert problem in caught.value.message


@pytest.mark.parametrize("text", ["x = ", 'lock-version = "2.0"\npackages = []', 'lock-version = "1.0"'])
def test_what_is_no_pylock_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "pylock.toml").write_text(text)
    with pytest.raises(ProfileInvalidError):
        take_pylock(tmp_path / "pylock.toml", WITHIN)


def test_a_pylock_with_another_version_of_the_frameworks_wheel_is_refused_with_both_names(tmp_path: Path) -> None:
    wheel = f'wheels = [{{hashes = {{sha256 = "{H}"}}}}]'
    with pytest.raises(StackConflictError) as caught:
        take_pylock(pylock(tmp_path, f'{{name = "numpy", version = "1.26.4", {wheel}}}'), WITHIN)
    assert "pylock.toml has numpy 1.26.4, and the locked wheels of PyTorch have numpy 2.3.1" in caught.value.message


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    """uv is configured for it, and PyTorch's wheel set is one tiny wheel of it and its numpy."""
    made = Index(
        tmp_path / "index",
        {
            "torch": {"2.10.0": ("numpy>=1",)},
            "numpy": {"2.3.1": (), "1.26.4": ()},
            "einops": {"0.8.1": (), "0.7.0": ()},
            "oldstats": {"1.0": ("numpy<2",)},
            "ray": {"2.60.0": ()},
        },
    )
    for name in ("UV_EXTRA_INDEX_URL", "UV_INDEX", "UV_FIND_LINKS", "UV_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("UV_DEFAULT_INDEX", made.url)
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    text = f"{made.pins['torch 2.10.0']}\n{made.pins['numpy 2.3.1']}\n"
    overlay.write(
        overlay.Overlay(
            parts=[overlay.Part("wheels", dt.datetime(2026, 11, 21, tzinfo=dt.UTC), "a test")], wheels={"torch-2.10.0-cp312": text}
        )
    )
    yield made
    made.close()


def written(tmp_path: Path, requirements: str, key: str = "requirements") -> Path:
    """The T4 profile with a file beside it."""
    file = "requirements.txt" if key == "requirements" else "pylock.toml"
    (tmp_path / file).write_text(requirements)
    text = load.find("t4-train").read_text()
    before = "    pytorch: auto\n"
    assert before in text, text
    text = text.replace(before, f'    pytorch: "2.10.0"\n  python: {{{key}: {file}}}\n')
    path = tmp_path / "t4-train.yml"
    path.write_text(text)
    return path


def lock_ends(*words: str) -> int:
    """The exit code of a command."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    return int(ended.value.code or 0)


def test_a_file_is_resolved_against_the_frameworks_wheels_and_hashed_into_the_lock(tmp_path: Path, index: Index) -> None:
    path = written(tmp_path, "einops>=0.7\nnumpy\n")
    assert lock_ends("lock", str(path)) == 0
    lock = lockfile.read(lockfile.path_for(path))
    assert lock.python is not None
    assert lock.python.wheels == (index.pins["einops 0.8.1"],)
    assert (lock.python.file, lock.python.environment) == ("requirements.txt", "pytorch")
    assert lock.python.sha256 == hashlib.sha256(b"einops>=0.7\nnumpy\n").hexdigest()
    names = {WheelPin.parse(line).name for line in environment_of(lock)}  # type: ignore[union-attr]  # each is a wheel
    assert names == {"torch", "numpy", "einops"} | names
    assert pin(load.load(path), lock).locked_wheels == environment_of(lock)
    assert lock_ends("lock", str(path), "--check") == 0
    (tmp_path / "requirements.txt").write_text("einops\n")
    assert lock_ends("lock", str(path), "--check") == 2
    with pytest.raises(LockStaleError, match=r"before requirements.txt was changed"):
        lockfile.find(path, load.load(path))


@pytest.mark.parametrize(
    ("requirements", "both"),
    [
        ("einops\nnumpy<2\n", ("requirements.txt:2 asks for numpy<2", "PyTorch have numpy 2.3.1")),
        ("oldstats\n", ("oldstats", "numpy")),
    ],
)
def test_what_contradicts_the_frameworks_wheels_is_refused_with_both_names(
    tmp_path: Path, index: Index, requirements: str, both: tuple[str, str]
) -> None:
    assert index.url
    path = written(tmp_path, requirements)
    profile = load.load(path)
    with pytest.raises(StackConflictError) as caught:
        build(profile, TODAY, own=from_file(profile, path))
    assert all(words in caught.value.message for words in both), caught.value.message


def test_nobody_but_lock_asks_the_index(tmp_path: Path, index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, "einops\n")
    profile = load.load(path)
    own = build(profile, TODAY, own=from_file(profile, path))
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    assert index.url
    unresolved = build(profile, TODAY)
    assert unresolved.python is not None
    assert unresolved.python.wheels == ()
    assert any("requirements.txt" in gap for gap in unresolved.unresolved)
    assert build(profile, TODAY, own=as_in(own)) == own


def test_no_python_is_downloaded_to_resolve_for_one_that_is_not_here(tmp_path: Path, index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_PYTHON_PREFERENCE", "only-managed")
    monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", str(tmp_path / "pythons"))
    monkeypatch.setenv("UV_PYTHON_INSTALL_MIRROR", f"{index.url}/pythons")
    with contextlib.suppress(IndexUnreachableError):  # uv 0.6 resolves without that Python, uv 0.13 says that it is not here
        resolve_beside(["einops"], [], "3.12", "a test")
    assert [path for path in index.asked if "/pythons/" in path] == []


def test_without_a_framework_there_is_nothing_to_add_to(tmp_path: Path) -> None:
    path = written(tmp_path, "einops\n")
    plain = load.load(path).dump()
    plain["stack"] |= {"frameworks": {}, "extras": []}
    with pytest.raises(StackConflictError, match="asks for none"):
        build(Profile.model_validate(plain), TODAY)


def test_an_images_own_pytorch_is_neither_locked_nor_installed() -> None:
    plain = load.load(load.find("t4-train")).dump()
    plain["stack"] |= {"python": {"prefix": "/opt/pytorch"}, "extras": ["dcgm", "opencl"]}
    lock = build(Profile.model_validate(plain), TODAY)
    assert "pytorch" not in lock.frameworks
    assert "pytorch" not in lock.packages
    assert "python" not in lock.as_dict()
    profile = Profile.model_validate(plain)
    assert pin(profile, lock).stack.frameworks.pytorch == "auto"
    assert not {"pytorch", "python"} & set(all_roles(profile, without_gpu=False))
    for added in ("nvtx", "tensorrt"):
        plain["stack"]["extras"] = [added]
        with pytest.raises(StackConflictError, match="/opt/pytorch, which is the image's own"):
            build(Profile.model_validate(plain), TODAY)


@pytest.mark.parametrize(
    "python",
    [
        {"prefix": "/opt/../etc"},
        {"prefix": "/usr"},
        {"prefix": "opt/x"},
        {"prefix": "/opt/x; rm"},
        {"prefix": "/opt/x", "requirements": "r.txt"},
        {"requirements": "r.txt", "pylock": "pylock.toml"},
        {"requirements": "../r.txt"},
        {"requirements": "/etc/passwd"},
        {"requirements": "-r"},
        {},
    ],
)
def test_what_names_no_environment_and_no_file_beside_the_profile_is_refused(python: dict[str, str]) -> None:
    plain = load.load(load.find("t4-train")).dump()
    plain["stack"]["python"] = python
    with pytest.raises(ValidationError):
        Profile.model_validate(plain)


def in_a_cluster(path: Path, python: dict[str, str] | None = None) -> Profile:
    """The profile at a path, with a Ray cluster."""
    plain = load.load(path).dump()
    plain["stack"] |= {"ray": {"head": "10.0.0.5"}, **({"python": python} if python is not None else {})}
    return Profile.model_validate(plain)


def test_the_ray_of_a_cluster_is_in_the_lock_with_its_hash(tmp_path: Path, index: Index) -> None:
    path = written(tmp_path, "einops\nray\n")
    profile = in_a_cluster(path)
    lock = build(profile, TODAY, own=from_file(profile, path))
    assert (lock.python is not None, lock.ray is not None) == (True, True)
    assert index.pins["ray 2.60.0"] in lock.python.wheels  # type: ignore[union-attr]
    assert lock.as_dict()["ray"] == {"version": "2.60.0"}
    assert build(profile, TODAY).as_dict()["ray"] == {"version": ""}
    assert build(profile, TODAY, own=as_in(lock)) == lock
    alone = load.load(path)
    assert "ray" not in build(alone, TODAY, own=from_file(alone, path)).as_dict()


def test_a_cluster_without_ray_among_the_packages_is_refused_with_what_to_write(tmp_path: Path, index: Index) -> None:
    assert index.url
    path = written(tmp_path, "einops\n")
    profile = in_a_cluster(path)
    with pytest.raises(StackConflictError, match=r"requirements\.txt brings no ray") as caught:
        build(profile, TODAY, own=from_file(profile, path))
    assert caught.value.hint == "add ray to requirements.txt, or remove stack.ray"


@pytest.mark.parametrize("python", [{"prefix": "/opt/pytorch"}, None])
def test_a_cluster_needs_packages_that_are_locked(python: dict[str, str] | None) -> None:
    plain = load.load(load.find("t4-train")).dump()
    plain["stack"] |= {"ray": {"head": "self"}, "python": python}
    with pytest.raises(ValidationError, match="needs Ray among the packages"):
        Profile.model_validate(plain)


@pytest.mark.parametrize("head", ["self", "10.0.0.5", "172.31.255.254", "192.168.1.2", "100.64.0.1", "head", "head-1.example.org", "a1.b2"])
def test_a_head_is_this_machine_a_private_address_or_a_name(head: str) -> None:
    assert RayCluster(head=head).head == head


@pytest.mark.parametrize(
    ("head", "problem"),
    [
        ("8.8.8.8", "not a private address"),
        ("127.0.0.1", "not a private address"),
        ("169.254.169.254", "not a private address"),
        ("0.0.0.0", "not a private address"),  # noqa: S104 - that is what is refused
        ("172.32.0.1", "not a private address"),
        ("10.0.0.5.6", "neither an IPv4 address"),
        ("10.1", "neither an IPv4 address"),
        ("2130706433", "neither an IPv4 address"),
        ("0x7f000001", "neither an IPv4 address"),
        ("10.0.0.05", "neither an IPv4 address"),
        ("localhost", "write self"),
        ("x.localhost", "write self"),
        ("a..b", "not a host name"),
        ("a-.b", "not a host name"),
        ("a" * 64, "not a host name"),
        *(
            (text, "String should match pattern")
            for text in (
                *("", "Head", "SELF", "-h", "h-", "h.", ".h", "h_1", "h 1", "h\n", "h%n", "h;x", "h$x", "h'x", 'h"x', "h:1", "h/1"),
                *("fe80::1", "h,x", "h@x", "h=x", "h{x}", "h\\x", "h#x", "hé", "a" * 254),
            )
        ),
    ],
)
def test_what_is_no_head_is_refused(head: str, problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        RayCluster(head=head)


PORTS = {1024, 6380, 8266, 10_000, 20_000, 52_366, 65_535}


@pytest.mark.parametrize("port", sorted(PORTS | {1023, 8265, 10_001, 19_999, 52_365, 65_536}))
def test_a_port_is_one_that_ray_does_not_take_for_something_else(port: int) -> None:
    with contextlib.nullcontext() if port in PORTS else pytest.raises(ValidationError):
        RayCluster(head="self", port=port)
