"""A host that has one of the lock's repositories in a file of its own: the entry is switched off, and apt and dnf read on."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from provision.paths import playbooks_dir
from provision.rehearsal import rootfs

from .conftest import Modules

URL = "https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/x86_64"
OURS = {"kind": "apt", "name": "nvidia", "url": f"{URL}/", "suite": "/", "keyring": None, "key": "https://x/key.pub"}
SYSTEM = {
    "kind": "apt",
    "name": "trixie",
    "url": "http://deb.debian.org/debian",
    "suite": "trixie",
    "keyring": "/k/debian.gpg",
    "key": None,
}
EL = {"kind": "dnf", "name": "nvidia", "url": "https://x.example/repos/rhel9/x86_64/", "suite": None, "keyring": None, "key": "https://x/k"}
LIST, PARTS = "/etc/apt/sources.list", "/etc/apt/sources.list.d"
KEYRING = "/usr/share/keyrings/cuda-archive-keyring.gpg"


@pytest.fixture
def look(modules: Modules, tmp_path: Path) -> Any:
    """What is found in files of a host."""
    module = modules.load("module_utils.entries")

    def found(files: dict[str, str], *repositories: dict[str, Any]) -> Any:
        for name, text in files.items():
            path = tmp_path / "root" / name.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(0o640)
        return module.Elsewhere(repositories or (OURS, SYSTEM, EL), root=str(tmp_path / "root"))

    return found


STANZA = f"Types: deb\nURIs: {URL}/\nSuites: /\nSigned-By: {KEYRING}\n"


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        # What cuda-keyring writes, and other spellings of the same repository.
        (f"{PARTS}/cuda.list", f"deb [signed-by={KEYRING}] {URL}/ /\n", f"# gpuprov: deb [signed-by={KEYRING}] {URL}/ /\n"),
        (f"{PARTS}/cuda.list", f"deb {URL} /", f"# gpuprov: deb {URL} /"),
        (f"{PARTS}/z.list", f"deb [ arch=amd64 ] http{URL[5:]}// ./\n", f"# gpuprov: deb [ arch=amd64 ] http{URL[5:]}// ./\n"),
        (LIST, f"deb http://a b c\n  deb-src\t{URL}/ /\n#x\n", f"deb http://a b c\n# gpuprov:   deb-src\t{URL}/ /\n#x\n"),
        (f"{PARTS}/cuda.sources", STANZA, f"Types: deb\nEnabled: no\n{STANZA[11:]}"),
        (
            f"{PARTS}/cuda.sources",
            f"Types: deb\nURIs: http://a\nSuites: b\n \n{STANZA}Enabled: yes\n\nTypes: deb\nURIs: http://c\nSuites: d\n",
            f"Types: deb\nURIs: http://a\nSuites: b\n \nTypes: deb\nEnabled: no\n{STANZA[11:]}\nTypes: deb\nURIs: http://c\nSuites: d\n",
        ),
        (f"{PARTS}/cuda.sources", f"URIs: http://a\n {URL}\nSuites: /\n", "URIs: http://a\nSuites: /\n"),
        (
            "/etc/yum.repos.d/cuda-rhel9.repo",
            "[main]\nenabled=1\nbaseurl=http://a\n[cuda]\nname=cuda\nbaseurl = http://x.example/repos/rhel9/$basearch\nenabled=1\ngpgcheck=0\n",
            "[main]\nenabled=1\nbaseurl=http://a\n[cuda]\nname=cuda\nenabled=0\nbaseurl = http://x.example/repos/rhel9/$basearch\ngpgcheck=0\n",
        ),
    ],
)
def test_another_entry_of_the_same_repository_is_switched_off_and_the_rest_stays(look: Any, name: str, before: str, after: str) -> None:
    found = look({name: before})
    assert found.files == [{"path": name, "content": after, "mode": "0640"}]
    assert [said.partition(" has ")[0] for said in found.taken] == [name]
    again = look({name: after})
    assert (again.files, again.taken, again.problems, again.keyrings) == ([], [], [], {})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (f"{PARTS}/cuda.list", f"# deb {URL}/ /\ndeb {URL}/ noble main\ndeb {URL}/other/ /\n"),
        (f"{PARTS}/cuda.list.save", f"deb {URL}/ /\n"),
        (f"{PARTS}/cuda.sources", f"{STANZA}Enabled: no\n"),
        (f"{PARTS}/cuda.sources", f"# URIs: {URL}\nTypes: deb\nSuites: /\n"),
        (f"{PARTS}/gpuprov.sources", STANZA),
        ("/etc/yum.repos.d/gpuprov.repo", f"[gpuprov-nvidia]\nbaseurl={EL['url']}\n"),
        ("/etc/yum.repos.d/x.repo", f"[x]\nbaseurl={EL['url']}\nenabled = 0\n"),
    ],
)
def test_what_apt_and_dnf_do_not_read_and_what_is_another_repository_stays(look: Any, name: str, text: str) -> None:
    found = look({name: text})
    assert (found.files, found.taken, found.problems) == ([], [], [])


def test_an_entry_of_the_systems_own_archive_stays_and_ours_names_its_keyring(look: Any) -> None:
    text = "Types: deb\nURIs: http://deb.debian.org/debian/\nSuites: trixie trixie-updates\nSigned-By: /k/debian.pgp\n"
    found = look({f"{PARTS}/debian.sources": text, LIST: "deb http://deb.debian.org/debian trixie main\n"})
    assert (found.keyrings, found.files, found.problems) == ({"trixie": "/k/debian.pgp"}, [], [])


@pytest.mark.parametrize(
    ("name", "options"), [("z.list", ""), ("a.list", "[signed-by=3AA7D0F4] "), ("z.list", "[signed-by=/k/a.gpg,/k/b.gpg] ")]
)
def test_an_entry_of_the_systems_archive_that_apt_would_not_read_beside_ours_is_a_problem(look: Any, name: str, options: str) -> None:
    found = look({f"{PARTS}/{name}": f"deb {options}http://deb.debian.org/debian trixie main\n"})
    assert found.problems[0].endswith("apt would read no source: let it be signed by /k/debian.gpg there")
    assert (found.files, found.keyrings) == ([], {})


# --- real apt, with the roles as they run

PRIVATE = """
mount -t tmpfs none "$1"
for folder in etc usr/share var/lib; do
  mkdir -p "$1/$folder/upper" "$1/$folder/work"
  mount -t overlay overlay -o "lowerdir=/$folder,upperdir=$1/$folder/upper,workdir=$1/$folder/work" "/$folder"
done
rm -f /etc/apt/sources.list.d/*
head -c 300 /dev/zero > /usr/share/keyrings/cuda-archive-keyring.gpg
cp "$2" "/etc/apt/sources.list.d/$(basename "$2")"
shift 2
"$@" --tags preflight,sources site.yml
apt-cache policy tmux | sed 's/^/apt: /'
cat /etc/apt/sources.list.d/*
echo "--- again"
"$@" --tags preflight,sources site.yml
echo "--- undo"
"$@" -e '{"undo_roles": ["sources"]}' undo.yml
echo "--- left"
ls /etc/apt/sources.list.d
cat /etc/apt/sources.list.d/*
apt-cache policy tmux | sed 's/^/apt: /'
"""


def set_up(folder: Path, name: str, form: str, repository: dict[str, Any]) -> tuple[list[str], str]:
    """What is printed by the set-up, by another one, and after an undo, on a host whose only source is this file; and every warning."""
    own = rootfs.system()
    (folder / name).write_text(form)
    (folder / "space").mkdir()
    told = {
        "ansible_become": False,
        "ansible_python_interpreter": "/usr/bin/python3",
        "preflight_systems": [own],
        "preflight_system": own,
        "preflight_free_gb": 0,
        "preflight_repositories": [repository],
        "sources_apt": [repository],
    }
    environment = {**os.environ, "ANSIBLE_HOME": str(folder), "ANSIBLE_NOCOLOR": "1", "LC_ALL": "C.UTF-8"}
    environment["ANSIBLE_COLLECTIONS_PATH"] = str(playbooks_dir() / "collections")
    program = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "localhost,", "-c", "local", "-e", json.dumps(told)]
    apart = ["unshare", "--mount", "sh", "-eu", "-c", PRIVATE, "sh", str(folder / "space"), str(folder / name), *program]
    done = subprocess.run(apart, cwd=playbooks_dir(), env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "E: " not in done.stderr
    first, again, _, left = re.split("--- (?:again|undo|left)\n", done.stdout)
    assert "apt: tmux:" in first
    assert "changed=0" in again
    return [first, left], " ".join(done.stderr.split())


@pytest.mark.rehearsal
@pytest.mark.parametrize("form", [f"deb [signed-by={KEYRING}] {URL}/ /\n", STANZA], ids=["list", "sources"])
def test_apt_reads_its_sources_after_the_set_up_and_after_an_undo(tmp_path: Path, form: str) -> None:
    key = tmp_path / "key.asc"
    key.write_text("a key\n")
    name = "cuda-ubuntu2404-x86_64." + ("list" if form.startswith("deb") else "sources")
    locked: dict[str, Any] = {**OURS, "key": f"file://{key}", "components": [], "fingerprint": "EB693B3035CD5710E231E123A4B469963BF863CC"}
    (first, left), warned = set_up(tmp_path, name, form, locked)
    assert f"/etc/apt/sources.list.d/{name} has {URL}/ too: that entry is switched off" in warned
    assert f"URIs: {URL}/\nSuites: /\nSigned-By: /usr/share/keyrings/gpuprov-nvidia.asc" in first
    assert left.startswith(f"{name}\n{form}apt: tmux:")


@pytest.mark.rehearsal
def test_apt_reads_ours_beside_the_systems_own_archive_with_the_other_name_of_its_keyring(tmp_path: Path) -> None:
    """Debian 13 has one keyring by two names, .gpg and .pgp, which apt takes for two keys."""
    form = "Types: deb\nURIs: http://deb.debian.org/debian\nSuites: trixie trixie-updates\nComponents: main\nSigned-By: /k/debian.pgp\n"
    locked: dict[str, Any] = {**SYSTEM, "components": ["contrib"], "fingerprint": None}
    (first, left), _ = set_up(tmp_path, "debian.sources", form, locked)
    assert "Components: contrib\nSigned-By: /k/debian.pgp\n" in first
    assert left.startswith(f"debian.sources\n{form}apt: tmux:")
