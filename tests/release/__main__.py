"""`make release-check`: build a commit twice, judge what came out, install it and upgrade to it. Nothing is published.

    python -m tests.release [--previous COMMIT] [--out FOLDER]

It runs in the environment with the tools of release.lock. Exit code 0: no objection; 1: the objections are printed; 2: git knows no
such commit; 130: interrupted.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.release import artefacts

ROOT: Final = Path(__file__).parents[2]
TOOLS: Final = Path(sys.executable).parent
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
EXTRAS: Final = ("rehearse", "plot")  # those for users; the others are for who changes gpuprov
# Licences that the metadata does not name, read in the distribution's own files.
REVIEWED: Final[Mapping[str, str]] = {}
_BACK: Final = 30  # without a tag, the previous version is a build of the commit so many before
_STATE: Final = """
import sys; from pathlib import Path; from provision.launch.journal import Journal, Record
Journal(Path(sys.argv[1])).put(Record("kept", "ab" * 8, False, {}, "0" * 64, "2026-01-01T00:00:00+00:00", "2026-01-01T12:00:00+00:00"))
"""
_READ: Final = (
    "import sys; from pathlib import Path; from provision.launch.journal import Journal; print(Journal(Path(sys.argv[1])).get('kept'))"
)


class Check:
    """One run: it prints each step with the time of day, and gathers the objections."""

    def __init__(self, work: Path, out: Path) -> None:
        self.work, self.out, self.objections = work, out, list[str]()

    def step(self, title: str, objections: list[str], note: str = "") -> None:
        """Say how a step ended."""
        print(f"{time.strftime('%H:%M:%S')}   {'no ' if objections else 'yes'} {title}{f': {note}' if note else ''}", flush=True)
        for objection in objections:
            print(f"           {objection}", flush=True)
        self.objections += objections

    def call(self, *command: str | Path, cwd: Path | None = None, more: Mapping[str, str] | None = None, umask: int = 0o022) -> str:
        """Run a command without this checkout on its path; what it said is the error when it fails."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "GPUPROV"))}
        ended = subprocess.run(
            list(command),
            cwd=cwd or self.work,
            env={**kept, **(more or {})},
            umask=umask,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if ended.returncode:
            msg = f"{' '.join(map(str, command))}: exit code {ended.returncode}\n{ended.stdout[-2000:]}"
            raise RuntimeError(msg)
        return ended.stdout

    def tree(self, commit: str, name: str, *, umask: int = 0o022) -> Path:
        """The files of a commit in a folder of their own; git's archive knows no file that is not committed."""
        folder = self.work / name
        folder.mkdir(parents=True)
        archive = self.work / "archive.tar"
        self.call("git", "-C", ROOT, "archive", "--format=tar", "-o", archive, commit)
        self.call("tar", "-x", "-m", "--no-same-permissions", "-f", archive, "-C", folder, umask=umask)
        return folder

    def build(self, tree: Path, moment: str, *, umask: int = 0o022) -> list[Path]:
        """The sdist and the wheel of a tree, in this order."""
        self.call(TOOLS / "python", "-m", "build", "--no-isolation", cwd=tree, more={"SOURCE_DATE_EPOCH": moment}, umask=umask)
        return sorted((tree / "dist").iterdir(), key=lambda path: path.suffix == ".whl")

    def environment(self, name: str, python: str, wheel: Path) -> Path:
        """An empty environment with a wheel and what it needs, in the locked versions; its folder of programs."""
        pins = self.work / "pins.txt"
        pins.write_text("\n".join(f"{name}=={version}" for name, version in artefacts.pinned(ROOT / "requirements.lock").items()))
        self.call(python, "-m", "venv", self.work / name)
        programs = self.work / name / "bin"
        self.install(programs, wheel)
        return programs

    def install(self, programs: Path, wanted: Path | str) -> None:
        """Install a wheel, or one with its extras, in the locked versions."""
        self.call(programs / "pip", "install", "-q", "--disable-pip-version-check", "-c", self.work / "pins.txt", wanted)


def interpreter(version: str) -> str:
    """The path of a Python of this version that runs; empty where there is none. A shim of pyenv may be on PATH and not run."""
    own = sorted(Path.home().glob(f".pyenv/versions/{version}*/bin/python{version}"))
    for path in filter(None, [shutil.which(f"python{version}"), *map(str, own)]):
        ended = subprocess.run([path, "-I", "-c", "import ensurepip"], capture_output=True, check=False)
        if ended.returncode == 0:
            return path
    return ""


def data_of(programs: Path) -> Path:
    """Where an installed gpuprov has its playbooks and profiles."""
    return next(programs.parent.glob("lib/python*/site-packages/provision/_data"))


def verbs(check: Check, programs: Path, title: str) -> None:
    """Use an installed gpuprov: every verb here asks no cloud."""
    gpuprov, data = programs / "gpuprov", data_of(programs)
    home = {"GPUPROV_HOME": str(check.work / f"home-{title}")}
    said = check.call(gpuprov, "--version").strip()
    check.call(gpuprov, "--help")
    profiles = [path for path in sorted((data / "profiles").glob("*.yml")) if not path.name.endswith(".lock.yml")]
    check.call(gpuprov, "profile", "check", *profiles, more=home)
    check.call(gpuprov, "plan", "t4-train", more=home)
    check.call(gpuprov, "explain", "t4-train", more=home)
    check.step(f"Python {title}: installed, --help, profile check, plan, explain", [], said)


def upgrade(check: Check, previous: str, wheel: Path) -> None:
    """Let the previous version write a profile, its lock and a record; then install this one and read them."""
    programs = check.environment("upgraded", sys.executable, check.build(check.tree(previous, "previous"), "1700000000")[-1])
    before = check.call(programs / "gpuprov", "--version").strip()
    home, own = check.work / "kept", check.work / "kept-profile" / "own.yml"
    own.parent.mkdir()
    journal = home / "instances"
    more = {"GPUPROV_HOME": str(home)}
    shipped = data_of(programs) / "profiles" / "t4-train.yml"
    own.write_text(shipped.read_text().replace("name: t4-train", "name: own", 1))
    check.call(programs / "gpuprov", "lock", own, more=more)
    check.call(programs / "python", "-c", _STATE, journal, more=more)
    lock = own.with_name("own.lock.yml").read_bytes()
    check.call(programs / "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--force-reinstall", wheel)
    objections = [] if own.with_name("own.lock.yml").read_bytes() == lock else ["the lock was changed"]
    check.call(programs / "gpuprov", "plan", own, more=more)
    if "name='kept'" not in check.call(programs / "python", "-c", _READ, journal, more=more):
        objections.append("the record of the previous version is not read")
    objections += artefacts.profile_objections(programs / "gpuprov", own.parent)
    check.step(f"upgraded from {previous[:12]} ({before}): its record and its lock hold", objections)


def run(check: Check, commit: str, previous: str) -> None:
    """All steps; a command that fails ends the run."""
    moment = check.call("git", "-C", ROOT, "show", "-s", "--format=%ct", commit).strip()
    first, second = check.tree(commit, "a"), check.tree(commit, "somewhere/else/b", umask=0o077)
    builds = check.build(first, moment), check.build(second, moment, umask=0o077)
    check.step("two builds, other paths, umasks and file times: the same bytes", artefacts.same_bytes(*builds))
    sdist, wheel = builds[0]
    for build in (sdist, wheel):
        shutil.copy(build, check.out)
        print(f"           sha256:{artefacts.digest(build)}  {build.name}", flush=True)
    shutil.rmtree(first / "dist")
    check.step("the wheel is the tree: files, bytes, version", artefacts.wheel_objections(check.out / wheel.name, first))
    check.step("requirements.lock, docs.lock and release.lock fit pyproject.toml", artefacts.lock_objections(first))
    wheel = check.out / wheel.name
    check.call(TOOLS / "python", "-m", "twine", "check", "--strict", wheel, check.out / sdist.name)
    check.step("twine check --strict", [])
    here = {version: path for version in PYTHONS if (path := interpreter(version))}
    for version, python in here.items():
        programs = check.environment(f"env-{version}", python, wheel)
        verbs(check, programs, version)
        if version == next(iter(here)):
            shipped = artefacts.profile_objections(programs / "gpuprov", data_of(programs) / "profiles")
            check.step("the lock of each shipped profile is today's", shipped)
    print(f"           not on this machine, so not tried: Python {', '.join(v for v in PYTHONS if v not in here) or 'none'}", flush=True)
    inside = check.work / f"env-{next(iter(here))}" / "bin" / "python"
    check.install(inside.parent, f"{wheel}[{','.join(EXTRAS)}]")  # a user may install them: their licences count, and the SBOM names them
    named = artefacts.licences(inside)
    (check.out / "licences.txt").write_text("".join(f"{name}: {licence or REVIEWED.get(name, '')}\n" for name, licence in named.items()))
    check.step(f"licences of {len(named)} distributions", artefacts.licence_objections(named, REVIEWED))
    bill = check.out / "sbom.cdx.json"
    tool = TOOLS / "cyclonedx-py"
    check.call(tool, "environment", "--output-reproducible", "--pyproject", first / "pyproject.toml", "-o", bill, inside)
    check.step("SBOM (CycloneDX)", [], bill.name)
    upgrade(check, previous, wheel)


def resolved(commit: str) -> str:
    """The hash of a commit: what is checked stays the same when somebody commits meanwhile. Empty where git knows none."""
    command = ["git", "-C", str(ROOT), "rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def previous_of(commit: str) -> str:
    """The last tag before a commit; without a tag, an earlier commit."""
    tag = subprocess.run(["git", "-C", ROOT, "describe", "--tags", "--abbrev=0", f"{commit}^"], capture_output=True, text=True, check=False)
    return tag.stdout.strip() or f"{commit}~{_BACK}"


def main() -> int:
    """Check the commit that is checked out."""
    parser = argparse.ArgumentParser(prog="make release-check", description=__doc__)
    parser.add_argument("--previous", default="", help="the version to upgrade from: a tag or commit")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "release")
    options = parser.parse_args()
    commit, named = resolved("HEAD"), options.previous or previous_of("HEAD")
    previous = resolved(named)
    if not commit or not previous:
        parser.error(f"git knows no commit {named if commit else 'HEAD'}; name one with PREVIOUS=COMMIT, and fetch the whole history first")
    print(f"           of commit {commit[:12]}; the previous version is {named} ({previous[:12]})", flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))  # or the folder with the environments stays
    with tempfile.TemporaryDirectory() as work:
        check = Check(Path(work), options.out.resolve())
        try:
            run(check, commit, previous)
        except KeyboardInterrupt:
            print("interrupted; nothing was published, and nothing runs any more", file=sys.stderr)
            return 130
        except RuntimeError as error:
            check.step("a command failed", [str(error)])
        print(f"{len(check.objections)} objections; nothing was published" if check.objections else f"releasable; see {options.out}")
        print("           removing the environments, which takes minutes on a disk that discards what is freed", flush=True)
    return 1 if check.objections else 0


if __name__ == "__main__":
    sys.exit(main())
