"""`gpuprov mirror`, and `apply --from` up to where it would connect."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from provision.profile import lockfile
from provision.profile.load import load
from tests.cli.conftest import Call
from tests.mirror.world import world


def test_a_folder_is_filled_and_a_changed_file_is_refused_before_any_host_is_asked(call: Call, tmp_path: Path) -> None:
    with world(tmp_path, "127.0.0.1", load(Path(__file__).parents[2] / "profiles" / "t4-train.yml")) as made:
        file, folder = tmp_path / "t4.yml", tmp_path / "carried"
        file.write_text(yaml.safe_dump(made.profile.dump()))
        lockfile.path_for(file).write_text(lockfile.dump(made.lock))
        code, out, err = call("mirror", str(file), "-o", str(folder), "--json")
        assert code == 0, err
        told = json.loads(out)
        assert (told["folder"], told["lock"]) == (str(folder), made.lock.digest)
        assert told["bytes"] == sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and path.name != "manifest.json")
        assert told["downloaded"] > 0
        code, out, _ = call("mirror", str(file), "-o", str(folder))
        assert "complete already" in out
        code, _, err = call("apply", "nowhere.invalid", "--profile", str(file), "--from", str(folder))
        assert "error[mirror-refused]" not in err, "the whole folder is taken, and the host is asked"
        assert code != 0
        wheel = next((folder / "wheels").iterdir())
        wheel.write_bytes(b"another")
        code, _, err = call("apply", "nowhere.invalid", "--profile", str(file), "--from", str(folder))
        assert (code, err.splitlines()[0].partition(":")[0]) == (2, "error[mirror-refused]")
        assert wheel.name in err


@pytest.mark.parametrize("there", ["nothing", "thesis.txt"])
def test_a_folder_that_mirror_did_not_fill_is_no_source(call: Call, tmp_path: Path, there: str) -> None:
    (tmp_path / there).write_text("mine")
    code, _, err = call("apply", "nowhere.invalid", "--profile", "t4-train", "--from", str(tmp_path))
    assert (code, "error[mirror-refused]" in err, "gpuprov mirror" in err) == (2, True, True)
