"""`make test-cloud`: the whole story on an account of yours, its transcript, what differs from the embedded cloud, and a certificate.

    python -m tests.cloud CLOUD --profile NAME|FILE --budget-usd N --yes [--hours H] [--folder DIR] [--rehearse] [--clean]

Exit codes: 0 the certificate is written; 1 a step failed; 2 nothing was asked of the cloud: no consent, or over the budget; 4 something may
be left, and the last line says how to remove it; 130 interrupted.
"""

import argparse
import datetime as dt
import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from provision import clouds
from tests.cloud import certificate, deviations
from tests.cloud.story import ROOT, State, Story, StoryError, ended_by_signals, prepare, price, unfinished

_KEPT: Final = ("certificate.json", "certificate.txt", "deviations.json", "deviations.txt", "transcript.jsonl")


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}   {text}", file=sys.stderr, flush=True)


def _arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make test-cloud", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cloud", choices=clouds.CLOUDS)
    parser.add_argument("--profile", default="t4-train")
    parser.add_argument("--budget-usd", type=float, required=True, help="the most that the run may cost, by list price")
    parser.add_argument("--hours", type=int, default=2, help="after which the machine ends itself  [default: 2]")
    parser.add_argument("--yes", action="store_true", help="launch a machine that costs money")
    parser.add_argument("--rehearse", action="store_true", help="an embedded cloud stands for the account")
    parser.add_argument("--store", default="", metavar="URL", help="of a fleet, for the questions that need one")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "test-cloud", help="where runs are kept")
    parser.add_argument("--reference-only", action="store_true", help="only play the story on the embedded cloud, which needs root")
    parser.add_argument("--clean", action="store_true", help="only remove what an earlier run left")
    return parser.parse_args(words)


def main(words: Sequence[str]) -> int:
    """Play the story; returns the exit code."""
    given = _arguments(words)
    folder = given.folder / given.cloud
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with ended_by_signals():
            return _run(given, folder)
    except StoryError as error:
        print(f"error: {error}\nhint: {error.hint}", file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        left = unfinished(folder)
        print(f"interrupted{f'; {_way_out(given, left)}' if left else '; nothing is left'}", file=sys.stderr)
        return 130


def _way_out(given: argparse.Namespace, left: State) -> str:
    again = f"make test-cloud CLOUD={given.cloud} BUDGET_USD={given.budget_usd:g} CLEAN=1{' REHEARSE=1' if left.rehearse else ''}"
    return f"{left.name} may still run and cost money: `{again}` removes it"


def _run(given: argparse.Namespace, folder: Path) -> int:
    if given.reference_only:
        _embedded(given, folder)
        return 0
    before = unfinished(folder)
    if before is not None:
        story = Story(folder, before, _say)
        if given.clean:
            story.clean()
            return 0 if before.finished else _left(given, before)
        _say(f"the run of {before.name} was not finished: it goes on")
    elif given.clean:
        _say("nothing was left by an earlier run")
        return 0
    else:
        story = _begin(given, folder)
    reference = _embedded(given, folder)
    good = story.play()
    if not story.state.finished:
        return _left(given, story.state)
    calls = deviations.read(story.transcript)
    found = deviations.deviations(given.cloud, deviations.read(reference), calls)
    (folder / "deviations.txt").write_text("".join(f"{each}\n" for each in found) or "none\n")
    (folder / "deviations.json").write_text(json.dumps([each.as_dict() for each in found], indent=1) + "\n")
    print((folder / "deviations.txt").read_text(), end="")
    if "questions" in story.state.steps:
        print("\n".join(story.state.steps["questions"].found.get("learnt", [])))
    if not good:
        failed = [step for step, done in story.state.steps.items() if done.code != 0]
        print(f"no certificate: {', '.join(failed)} failed; see {folder}. Nothing is left on the account.", file=sys.stderr)
        return 1
    made = certificate.certificate(story.state, calls, story.transcript, found)
    (folder / "certificate.json").write_text(json.dumps(made, indent=1) + "\n")
    (folder / "certificate.txt").write_text(certificate.as_text(made))
    print(certificate.as_text(made), end="")
    return 0


def _left(given: argparse.Namespace, state: State) -> int:
    print(f"something may be left. {_way_out(given, state)}", file=sys.stderr)
    return 4


def _begin(given: argparse.Namespace, folder: Path) -> Story:
    """Prepare a run: nothing is asked of a cloud before the price is known, is within the budget, and somebody said yes.

    Raises:
        StoryError: one of these is not so.
    """
    for name in (*_KEPT, "state.json"):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / "review.bundle", ignore_errors=True)
    name, digest = prepare(given.profile, given.cloud, given.hours, folder)
    usd = price(folder)
    print(f"{given.profile} on {given.cloud} for {given.hours} h costs at most {usd:.2f} USD by list price; traffic is not in it")
    if usd > given.budget_usd:
        msg = f"that is over the budget of {given.budget_usd:.2f} USD; nothing was asked of {given.cloud}"
        raise StoryError(msg, "raise BUDGET_USD, lower HOURS, or name a cheaper profile", 2)
    if not given.yes:
        answer = input("launch it? [y/N] ") if sys.stdin.isatty() else ""
        if answer.strip().lower() not in {"y", "yes"}:
            msg = f"nobody said yes; nothing was asked of {given.cloud}"
            raise StoryError(msg, "say YES=1, if you may spend this on that account", 2)
    story = Story(folder, State(given.cloud, name, digest, given.rehearse, usd, _now(), store=given.store), _say)
    story.save()
    if given.rehearse:
        story.gpuprov("rehearse", "rehearse", "start")
    return story


def _embedded(given: argparse.Namespace, folder: Path) -> Path:
    """The transcript of the same story on an embedded cloud, of this commit: played first where there is none yet.

    It needs root, as every embedded cloud with hosts does; who became root with sudo for it gets its files.

    Raises:
        StoryError: the story does not pass there, so there is nothing to compare with.
    """
    where = folder / "reference"
    where.mkdir(parents=True, exist_ok=True)
    own = folder / "profile.yml"  # of a run that has begun; else what it will be made from
    name, digest = prepare(str(own) if own.is_file() and not given.reference_only else given.profile, given.cloud, given.hours, where)
    stamp = json.dumps([certificate.commit(), digest])
    if (where / "stamp").is_file() and (where / "stamp").read_text() == stamp:
        return where / "transcript.jsonl"
    (where / "stamp").unlink(missing_ok=True)
    (where / "transcript.jsonl").unlink(missing_ok=True)
    _say("first the same story on the embedded cloud")
    state = State(given.cloud, name, digest, rehearse=True, usd=0.0, began=_now(), store=given.store)
    there = Story(where, state, lambda text: _say(f"embedded: {text}"))
    there.gpuprov("rehearse", "rehearse", "start")
    if not there.play():
        failed = ", ".join(step for step, done in state.steps.items() if done.code != 0)
        msg = f"the story does not pass on the embedded cloud ({failed}); nothing was asked of {given.cloud}"
        raise StoryError(msg, f"see {where}", 1)
    (where / "stamp").write_text(stamp)
    if os.environ.get("SUDO_UID"):
        for path in (folder.parent, folder, where, *where.iterdir()):
            os.chown(path, int(os.environ["SUDO_UID"]), int(os.environ["SUDO_GID"]))
    return where / "transcript.jsonl"


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
