"""The bundle on a host: what is signed, what is refused, and that no killed process leaves half of one."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provision.converge.bundle import HostBundle, bundle, config
from provision.converge.engine import Layer
from provision.converge.onhost import bundle as onhost
from provision.review.sign import signature_of

there: Any = onhost
NOW = 1_800_000_000
SMALL = Layer.of({"a/file": b"one\n", "b": b"two\n"})


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("key") / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path


def signers(key: Path, namespace: str = there.NAMESPACE) -> str:
    return f'me namespaces="{namespace}" {key.with_suffix(".pub").read_text()}'


def made(serial: int = 7, *, config: Layer = SMALL, **more: int) -> HostBundle:
    times = {"not_before": NOW, "expires": NOW + 100} | more
    return HostBundle(layers := {"engine": SMALL, "config": config}, statement(layers, serial=serial, **times), "")


def statement(layers: dict[str, Layer], **more: Any) -> bytes:
    stated = {name: {"sha256": layer.sha256, "bytes": len(layer.content)} for name, layer in layers.items()}
    return json.dumps({"schema": there.SCHEMA, "python": "3.11", "layers": stated, **more}).encode()


def signed(raw: bytes, key: Path, namespace: str = there.NAMESPACE) -> bytes:
    return signature_of(raw, key=key, namespace=namespace, quiet=True)


def refusal(act: Callable[[], object]) -> str:
    with pytest.raises(there.RefusedBundle) as caught:
        act()
    return str(caught.value.code)


def test_the_statement_of_a_real_bundle_holds(key: Path) -> None:
    whole = bundle(config(("base",), {"base_users": []}, tags=("base",)), serial=3, not_before=NOW, expires=NOW + 10)
    stated = there.check(whole.statement, signed(whole.statement, key), signers(key), "me", 3, NOW, 3)
    assert stated["layers"]["engine"]["sha256"] == whole.layers["engine"].sha256
    for name, layer in whole.layers.items():
        there.check_layer(layer.content, stated["layers"][name])


def test_a_host_whose_disk_is_full_can_still_say_so(key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python finds no folder for temporary files then, which is another error than that of a full disk."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "full"))
    raw = made().statement
    assert there.check(raw, signed(raw, key), signers(key), "me", 0, NOW, 0, str(tmp_path))["serial"] == 7
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("case", "code"),
    [
        ({"serial": 4, "minimum": 5}, "serial"),
        ({"serial": 4, "seen": 5}, "serial"),
        ({"now": 0}, "clock"),  # a clock that was never set is not an expired bundle
        ({"now": NOW + 100}, "expired"),
        ({"principal": "you"}, "signature"),
        ({"namespace": "gpuprov-review@v1"}, "signature"),
        ({"allowed": "gpuprov-review@v1"}, "signature"),
        ({"tampered": True}, "signature"),
        ({"serial": True}, "statement"),
        ({"serial": -1}, "statement"),
        ({"not_before": "x"}, "statement"),
        ({"schema": "gpuprov-approval/1"}, "statement"),
        ({"python": "3.11; x"}, "statement"),
        ({"layers": {}}, "statement"),
    ],
    ids=str,
)
def test_a_statement_that_does_not_hold_is_refused_for_its_reason(key: Path, case: dict[str, Any], code: str) -> None:
    stated = json.loads(made().statement) | {
        name: case[name] for name in ("serial", "not_before", "schema", "python", "layers") if name in case
    }
    raw = json.dumps(stated).encode()
    signature = signed(raw, key, case.get("namespace", there.NAMESPACE))
    if case.get("tampered"):
        raw = raw.replace(b"3.11", b"3.12")
    allowed = signers(key, case.get("allowed", there.NAMESPACE))
    principal, minimum = case.get("principal", "me"), case.get("minimum", 0)
    assert refusal(lambda: there.check(raw, signature, allowed, principal, minimum, case.get("now", NOW), case.get("seen", 0))) == code


def test_a_layer_with_another_size_or_digest_is_refused() -> None:
    stated = {"bytes": len(SMALL.content), "sha256": SMALL.sha256}
    assert refusal(lambda: there.check_layer(SMALL.content[:-1], stated)) == "size"
    assert refusal(lambda: there.check_layer(SMALL.content[:-1] + b"x", stated)) == "digest"


def archive(*members: tarfile.TarInfo) -> io.BytesIO:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as made:
        for member in members:
            made.addfile(member, io.BytesIO(b"x" * member.size))
    out.seek(0)
    return out


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", size: int = 0) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size, info.mode = kind, link, size, 0o4777
    return info


@pytest.mark.parametrize(
    ("hostile", "code"),
    [
        ([member("../out")], "path"),
        ([member("/etc/out")], "path"),
        ([member("a/../../out")], "path"),
        ([member("./a")], "path"),
        ([member("a//b")], "path"),
        ([member("a/" * 3000 + "b")], "path"),
        ([member("a", tarfile.SYMTYPE, "/etc")], "link"),
        ([member("a", tarfile.SYMTYPE, "..")], "link"),
        ([member("a", tarfile.LNKTYPE, "../../etc/passwd")], "link"),
        ([member("a", tarfile.SYMTYPE, "/"), member("a/out")], "link"),
        ([member("a", tarfile.CHRTYPE)], "device"),
        ([member("a", tarfile.BLKTYPE)], "device"),
        ([member("a", tarfile.FIFOTYPE)], "device"),
        ([member("a"), member("a")], "archive"),
        ([member("a"), member("a/b")], "archive"),
        ([member("a" * 300)], "archive"),
    ],
    ids=lambda value: value if isinstance(value, str) else "+".join(f"{each.name[:20]}-{each.type.decode()}" for each in value),
)
def test_what_does_not_belong_into_a_layer_is_refused(tmp_path: Path, hostile: list[tarfile.TarInfo], code: str) -> None:
    inside = tmp_path / "deep" / "inside"
    inside.mkdir(parents=True)
    assert refusal(lambda: there.unpack(archive(*hostile), str(inside))) == code
    assert [path for path in tmp_path.rglob("*") if inside not in (path, *path.parents) and path != inside.parent] == []


def test_a_bomb_is_refused_before_it_fills_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(there, "MOST_UNPACKED", 1000)
    monkeypatch.setattr(there, "MOST_FILES", 3)
    assert refusal(lambda: there.unpack(archive(member("a", size=600), member("b", size=600)), str(tmp_path))) == "bomb"
    assert not (tmp_path / "b").exists()
    assert refusal(lambda: there.unpack(archive(*(member(f"many/{n}") for n in range(4))), str(tmp_path))) == "bomb"


def test_files_are_unpacked_without_the_rights_that_they_claim(tmp_path: Path) -> None:
    there.unpack(archive(member("a", size=3)), str(tmp_path))
    assert (tmp_path / "a").read_bytes() == b"xxx"
    assert (tmp_path / "a").stat().st_mode & 0o7022 == 0


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_archive_writes_outside_its_folder_or_raises_another_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    names = st.text(alphabet="ab./\\\n é", min_size=1, max_size=12)
    kinds = st.sampled_from([tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
    members = data.draw(st.lists(st.builds(member, names, kinds, names, st.integers(0, 20)), max_size=6))
    for each in members:
        each.size = each.size if each.isreg() else 0
    packed = archive(*members).getvalue()
    cut = data.draw(st.integers(0, len(packed)))
    at = data.draw(st.integers(0, len(packed) - 1))
    spoiled = [packed, packed[:cut], packed[:at] + bytes([packed[at] ^ 1]) + packed[at + 1 :]]
    folder = tmp_path_factory.mktemp("unpack")
    inside = folder / "inside"
    inside.mkdir()
    with contextlib.suppress(there.RefusedBundle):
        there.unpack(io.BytesIO(data.draw(st.sampled_from(spoiled))), str(inside))
    assert list(folder.iterdir()) == [inside]
    assert [path for path in inside.rglob("*") if path.is_symlink() or not (path.is_file() or path.is_dir())] == []


# A host that unpacks and switches, and is killed at the N-th of the calls that change its disk.
KILLED = """
import io, os, sys
from provision.converge.onhost import bundle as there

root, folder, left = sys.argv[1], sys.argv[2], int(sys.argv[3])

def counted(act):
    def call(*given, **more):
        global left
        left -= 1
        if left < 0:
            os._exit(9)
        return act(*given, **more)
    return call

for name in ("rename", "replace", "symlink", "mkdir", "chmod", "sync", "unlink", "rmdir"):
    setattr(os, name, counted(getattr(os, name)))
there._write = counted(there._write)
there._text = counted(there._text)
read = lambda name: open(os.path.join(folder, name), "rb").read()
statement, signature = read("statement"), read("signature")
store = there.Store(root)
with store.lock():
    stated = there.check(statement, signature, read("signers").decode(), "me", 0, int(sys.argv[4]), store.seen("me"))
    for name in there.LAYERS:
        if not store.has(stated["layers"][name]["sha256"]):
            data = read(name)
            there.check_layer(data, stated["layers"][name])
            store.add(io.BytesIO(data), stated["layers"][name])
    store.switch(statement, signature, stated, "me")
"""


def test_killed_at_any_step_the_current_bundle_is_the_old_or_the_new_one_whole(tmp_path: Path, key: Path) -> None:
    root = tmp_path / "root"

    def run(which: HostBundle, steps: int) -> int:
        told = {"statement": which.statement, "signature": signed(which.statement, key), "signers": signers(key).encode()}
        for name, content in (told | {name: layer.content for name, layer in which.layers.items()}).items():
            (tmp_path / name).write_bytes(content)
        argv = [sys.executable, "-c", KILLED, str(root), str(tmp_path), str(steps), str(NOW)]
        done = subprocess.run(argv, check=False, capture_output=True, text=True, cwd=Path(__file__).parents[3])
        assert done.returncode in {0, 9}, done.stderr
        return done.returncode

    old, new = made(1), made(2, config=Layer.of({"c": b"three\n", "d/e": b"four\n"}))
    assert run(old, 10_000) == 0
    wholes = {hashlib.sha256(each.statement).hexdigest(): each for each in (old, new)}
    steps, codes = 0, [9]
    while codes[-1] == 9:
        codes.append(run(new, steps))
        steps += 1
        current = wholes[(root / "current").readlink().name]
        assert (root / "current" / "statement.json").read_bytes() == current.statement
        for name, layer in current.layers.items():
            files = {
                str(path.relative_to(root / "current" / name)): path for path in (root / "current" / name).rglob("*") if path.is_file()
            }
            with tarfile.open(fileobj=io.BytesIO(layer.content)) as packed:
                assert {each.name: packed.extractfile(each).read() for each in packed} == {n: p.read_bytes() for n, p in files.items()}  # type: ignore[union-attr]
    assert steps > 15
    assert hashlib.sha256(new.statement).hexdigest() == (root / "current").readlink().name
    assert list(root.rglob(".new-*")) == []
    seen = there.Store(str(root)).seen("me")
    assert refusal(lambda: there.check(old.statement, signed(old.statement, key), signers(key), "me", 0, NOW, seen)) == "serial"


def test_a_folder_that_others_write_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root").chmod(0o777)
    assert refusal(lambda: there.Store(str(tmp_path / "root"))) == "folder"
    (tmp_path / "link").symlink_to(tmp_path)
    assert refusal(lambda: there.Store(str(tmp_path / "link"))) == "folder"


def test_one_process_at_a_time_changes_the_folder(tmp_path: Path) -> None:
    store = there.Store(str(tmp_path / "root"))
    with store.lock() as held:
        assert held
        assert store.lock() is None
    with store.lock() as again:
        assert again
