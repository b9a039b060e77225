"""The helper that a member of the counters group may run as root: whatever she gives it is a program, run as herself."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import jinja2
import pytest

from provision.paths import playbooks_dir

HELPER = "/usr/local/libexec/gpuprov-with-counters"
# From util-linux 2.41 on, setpriv puts a filter of system calls in place while it is still root: one that pretends to become the caller.
HOSTILE = ("--seccomp-filter=f.bpf", "--reuid=0", "--keep-groups", "--securebits=+noroot", "--version", "-d", "-h", "--", "-")
RECORD = '#!/bin/sh\nfor word; do printf "%s\\n" "$word"; done >"${0%/*}/argv"\nexec env >"${0%/*}/environment"\n'


def helper(folder: Path, *words: str, **more: str) -> list[str]:
    """What setpriv gets where sudo runs the helper for the user 1001: a stand-in that writes down its words and its environment."""
    template = (playbooks_dir() / "roles/counters/templates/helper.sh.j2").read_text()
    text = jinja2.Template(template, undefined=jinja2.StrictUndefined).render().replace("/usr/bin/setpriv", str(folder / "setpriv"))
    (folder / "helper").write_text(text)
    (folder / "setpriv").write_text(RECORD)
    (folder / "setpriv").chmod(0o755)
    environment = {"PATH": "/nowhere", "SUDO_UID": "1001", "SUDO_GID": "1002", **more}
    subprocess.run(["/bin/sh", str(folder / "helper"), *words], check=True, env=environment)
    return (folder / "argv").read_text().splitlines()


@pytest.mark.parametrize("option", HOSTILE)
def test_no_word_of_the_caller_is_an_option_of_setpriv(tmp_path: Path, option: str) -> None:
    words = helper(tmp_path, option, "/bin/sh", "-c", "id")
    own = words.index("--")
    assert words[own + 1 :] == [option, "/bin/sh", "-c", "id"]
    assert {"--reuid=1001", "--regid=1002", "--init-groups", "--no-new-privs"} <= set(words[:own])


def test_no_variable_of_the_caller_reaches_what_runs_as_root(tmp_path: Path) -> None:
    """Some are code to a program of the C library's: GCONV_PATH names modules that it loads."""
    helper(tmp_path, "true", GCONV_PATH="evil", LD_PRELOAD="", PYTHONPATH="evil", LANGUAGE="x")
    names = {line.partition("=")[0] for line in (tmp_path / "environment").read_text().splitlines()}
    assert names <= {"PATH", "PWD", "SHLVL", "OLDPWD", "_"}


def test_the_machines_own_setpriv_takes_no_option_of_the_caller(tmp_path: Path) -> None:
    text = (playbooks_dir() / "roles/counters/templates/helper.sh.j2").read_text()
    # It takes nobody's id from a test that is not root, and --version would come before that.
    (tmp_path / "helper").write_text(re.sub(r"--(bounding-set|inh-caps|ambient-caps)=\S+|--re[ug]id=\S+|--init-groups", "", text))
    done = subprocess.run(
        ["/bin/sh", str(tmp_path / "helper"), "--version"], check=False, env={"SUDO_UID": "1"}, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (127, "")


def test_this_helper_is_all_that_a_role_lets_people_run_as_root() -> None:
    """Whoever adds another tries it with hostile arguments here, and in the check of a subject of its own."""
    files = [path for path in (playbooks_dir() / "roles").rglob("*") if path.is_file()]
    texts = {path: path.read_text() for path in files}
    assert {program for text in texts.values() for program in re.findall(r"(?:NO)?PASSWD:\s*([^\s\"']+)", text)} == {HELPER}
    ways = r"polkit|pkexec|doas|setcap|u\+s|mode: \"?[2467]7?[0-7]{3}\b|\bsu -"
    assert [str(path) for path, text in texts.items() if path.suffix in {".yml", ".j2"} and re.search(ways, text)] == []
