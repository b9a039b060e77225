"""`gpuprov export` through the command line."""

import json
import os
import shutil
from pathlib import Path

import pytest

from provision.launch.chain import Chain
from provision.structs import replace
from tests.cli.conftest import Call
from tests.engines.proven import Proven, proven
from tests.verify.sshd import Endpoint


@pytest.fixture
def desk(own_home: Path) -> Proven:
    return proven(own_home)


def test_a_file_is_printed_or_written_and_a_caution_is_said_beside_it(call: Call, desk: Proven, tmp_path: Path) -> None:
    code, out, err = call("export", "--to", "mpi", "gp")
    assert (code, out, err) == (0, desk.file("mpi"), "")
    code, out, err = call("export", "--to", "dstack", "gp-1", "--name", "night", "-o", str(tmp_path / "f.yml"))
    assert (code, out) == (0, "")
    assert "takes any host key" in err
    assert "name: night\n" in (tmp_path / "f.yml").read_text()


@pytest.mark.usefixtures("desk")
def test_a_folder_needs_a_name_and_json_has_all(call: Call, tmp_path: Path) -> None:
    code, _, err = call("export", "--to", "slurm")
    assert (code, "name it with -o PATH" in err) == (2, True)
    assert call("export", "--to", "slurm", "-o", str(tmp_path / "new"))[0] == 0
    assert {path.name for path in (tmp_path / "new").iterdir()} == {"nodes.conf", "gres.conf"}
    data = json.loads(call("export", "--to", "slurm", "--json")[1])
    assert ([host["name"] for host in data["hosts"]], set(data["files"])) == (["gp-1", "gp-2"], {"nodes.conf", "gres.conf"})


def test_an_unproven_host_ends_with_3_and_writes_nothing(call: Call, desk: Proven, tmp_path: Path) -> None:
    (desk.session.verdicts / "gp-2.json").unlink()
    code, out, err = call("export", "--to", "ssh", "gp", "-o", str(tmp_path / "f"))
    assert (code, out) == (3, "")
    assert "error[host-unproven]: gp-2: it was never verified\nhint: `gpuprov verify gp-2` proves it again" in err
    assert not (tmp_path / "f").exists()


def test_a_profile_of_another_release_is_an_error_with_a_way_out(call: Call, desk: Proven) -> None:
    record = desk.session.journal.get("gp")
    assert record is not None
    desk.session.journal.put(replace(record, profile={**record.profile, "of_tomorrow": 1}))
    for words in (("export", "--to", "ssh", "gp"), ("verify", "gp-1"), ("apply", "gp-1")):
        code, _, err = call(*words)
        assert code == 2
        assert "error[profile-invalid]: gp was launched with a profile that this release refuses: of_tomorrow: " in err
        assert "`gpuprov down gp`" in err
    desk.session.journal.put(replace(record, lock={**record.lock, "of_tomorrow": 1}))
    assert "gp was launched with a lock that this release refuses: " in call("export", "--to", "ssh", "gp")[2]


def test_a_line_of_the_log_without_a_time_makes_every_proof_older_than_it(call: Call, desk: Proven) -> None:
    desk.session.audit.path.unlink(missing_ok=True)
    Chain(desk.session.audit.path).add({"event": "intent", "run": "x", "command": "up", "name": "gp-1"})
    code, _, err = call("export", "--to", "ssh", "gp")
    assert (code, "error[host-unproven]: gp-1: " in err) == (3, True), err


@pytest.mark.usefixtures("desk")
def test_wrong_words_are_wrong_usage(call: Call, tmp_path: Path) -> None:
    assert call("export", "--to", "nomad")[0] == 2
    assert call("export", "--to", "ssh", "--max-age", "soon")[0] == 2
    assert call("export", "--to", "ssh", "--name", "No Name")[0] == 2
    (tmp_path / "file").touch()
    assert call("export", "--to", "slurm", "-o", str(tmp_path / "file"))[0] == 2
    assert "`gpuprov export`" in call("hostfile")[2]


def test_verify_keeps_its_verdict_for_export(call: Call, desk: Proven, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection goes to an sshd on loopback: this machine, on which the profile does not hold."""
    (desk.session.verdicts / "gp-1.json").unlink()
    (tmp_path / "sshd").mkdir()
    host = Endpoint(tmp_path / "sshd")
    try:
        stand_in = tmp_path / "bin" / "ssh"
        stand_in.parent.mkdir()
        config = host.target.config
        stand_in.write_text(f'#!/bin/sh\nfor last; do :; done\nexec {shutil.which("ssh")} -F {config} {host.target.destination} "$last"\n')
        stand_in.chmod(0o755)
        monkeypatch.setenv("PATH", f"{stand_in.parent}:{os.environ['PATH']}")
        assert call("verify", "gp-1")[0] == 1
    finally:
        host.close()
    assert "gp-1: a check failed\n" in call("export", "--to", "ssh", "gp-1")[2]
