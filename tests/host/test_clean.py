"""What the script that cleans a machine does in the homes of people whose programs may still run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from provision.host import clean

UID = 4711
# What runs while root copies: whatever the home's owner may do at that moment.
CP = """#!/bin/sh
stat -c '%u %a' {home} >{seen}
exec /bin/cp "$@"
"""


def homes(folder: Path, home: Path) -> subprocess.CompletedProcess[str]:
    """The script's part about homes, for one person."""
    script: str = clean._SCRIPT
    part = script[script.index("# Homes become") : script.index("rm -rf /etc/ssh/ssh_host_*")]
    inside = next(line for line in script.splitlines() if line.startswith("inside()"))
    for name, text in {
        "getent": f"#!/bin/sh\necho ada:x:{UID}:{UID}::{home}:/bin/sh\n",
        "cp": CP.format(home=home, seen=folder / "seen"),
    }.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    words = ["sh", "-c", f"set -eu\n{inside}\n{part.replace('$name:', str(UID))}"]
    return subprocess.run(words, env={"PATH": f"{folder}:{os.environ['PATH']}"}, check=False, capture_output=True, text=True)


def test_nobody_else_may_write_to_a_home_while_root_fills_it(tmp_path: Path) -> None:
    home = tmp_path / "ada"
    (home / ".ssh").mkdir(parents=True)
    (home / "notes").write_text("mine")
    home.chmod(0o777)
    os.chown(home, UID, UID)
    done = homes(tmp_path, home)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "seen").read_text() == "0 755\n"
    assert (home.stat().st_uid, (home / "notes").exists(), (home / ".ssh").exists()) == (UID, False, False)
    assert {path.stat().st_uid for path in home.iterdir()} <= {UID}


def test_a_home_that_is_a_link_ends_it(tmp_path: Path) -> None:
    """Its content would go into the image, since nothing follows the link."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").write_text("x")
    (tmp_path / "ada").symlink_to(elsewhere)
    done = homes(tmp_path, tmp_path / "ada")
    assert (done.returncode, "is a link" in done.stderr) == (1, True)
    assert [path.name for path in elsewhere.iterdir()] == ["kept"]
