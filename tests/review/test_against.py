"""What changed between two reviews, computed from their values."""

import json
from pathlib import Path

from click.testing import CliRunner

from provision.cli import cli
from provision.profile import differences, load
from provision.review import against
from provision.review.content import content
from provision.review.tree import Review
from provision.structs import replace

from .examples import changed, review, shipped


def test_against_itself_nothing_changed() -> None:
    assert against.shifts(review(), review()) == ()


def test_against_says_what_a_change_means(tmp_path: Path) -> None:
    new = content(
        *changed(
            tmp_path,
            ("counters: all-users", "counters: admin-only"),
            ("persistence: true", "persistence: false"),
            ("ssh_from: [caller]", "ssh_from: [10.0.0.0/8]"),
            ("deadline_h: 12", "deadline_h: 24"),
            ("# Train and profile on one", "# One line more\n# Train and profile on one"),
        )
    )
    found = {(shift.subject, shift.direction, shift.text): shift.means for shift in against.shifts(review(), new)}
    assert ("risks", "narrower", "gone, medium: Every local user may read the GPU's performance counters") in found
    assert found["exposure", "wider", "opened: 22/tcp (SSH) from 10.0.0.0/8"] == "16,777,216 addresses"
    assert ("price", "wider", "deadline: 12 h → 24 h") in found
    assert ("price", "wider", "limit to the deadline: 12.00 → 24.00 USD (+100 %)") in found
    assert {text for subject, _, text in found if subject == "proof"} == {
        "persistence is no longer judged",
        "persistence-at-boot is no longer judged",
    }
    assert {subject for subject, *_ in found} <= {"risks", "exposure", "price", "host", "proof"}, "a comment is not a change"


def test_against_says_whether_more_machines_are_allowed(tmp_path: Path) -> None:
    def limited(most: int) -> Review:
        return content(*changed(tmp_path, ("  deadline_h: 12", f"  deadline_h: 12\n  machines: {most}")))

    def told(old: Review, new: Review) -> list[tuple[str, str]]:
        return [(shift.direction, shift.text) for shift in against.shifts(old, new) if "machines of one launch" in shift.text]

    assert told(review(), limited(2)) == [("narrower", "machines of one launch: any number → 2")]
    assert told(limited(2), limited(8)) == [("wider", "machines of one launch: 2 → 8")]
    assert "machines" in {risk.id for risk in review().risks} - {risk.id for risk in limited(1).risks}


def test_what_changed_is_one_line_with_both_values(tmp_path: Path) -> None:
    def lines(*edits: tuple[str, str]) -> dict[str, tuple[str, str, str]]:
        found = against.shifts(review(), content(*changed(tmp_path, *edits)))
        return {shift.text: (shift.direction, shift.old, shift.new) for shift in found}

    nsys = lines(("profilers: [nsys, ncu]", "profilers: [nsys]"))
    assert nsys["packages to install: 27 → 26 (- cuda-nsight-compute-13-2)"] == ("other", "27", "26")
    assert "low: 25 of 27 → 24 of 26 packages have no exact version" in nsys, "one risk with another number is no new risk"
    assert len(nsys) == 3, "the packages are said once, and what the host's first boot loads ahead"
    elsewhere = lines(("ap-southeast-1 #", "ap-northeast-1 #"))
    assert elsewhere["place: aws ap-southeast-1 → ap-northeast-1 g4dn.xlarge on-demand"] == (
        "wider",
        "aws ap-southeast-1 g4dn.xlarge on-demand",
        "aws ap-northeast-1 g4dn.xlarge on-demand",
    )
    assert "aws ap-northeast-1 g4dn.xlarge on-demand: 0.767 → 0.741 USD an hour (-3 %)" in elsewhere
    older = lines(("driver: auto", 'driver: "580"'))
    assert "driver: branch 595 → 580, proprietary kernel modules, without the firmware of the GPU's system processor" in older
    assert "package: cuda-toolkit-13-2 → cuda-toolkit-13-0" in older
    assert "/usr/local/cuda: points to /usr/local/cuda-13.2 → cuda-13.0" in older


def test_changes_are_the_same_on_a_page_and_in_markdown(tmp_path: Path) -> None:
    path = tmp_path / "t4-train.yml"
    path.write_text(load.find("t4-train").read_text().replace("deadline_h: 12", "deadline_h: 24").replace("Hong Kong.", "<b>`x`"))

    def printed(form: str) -> str:
        done = CliRunner().invoke(cli, ["review", str(path), "--against", "t4-train", "--format", form])
        assert done.exit_code == 0
        return done.stdout

    page, markdown = printed("html"), printed("markdown")
    assert "<li>+ <bdi>deadline: 12 h → 24 h</bdi>" in page
    assert "- `+` deadline\\: 12 h → 24 h" in markdown
    assert "<b>" not in page
    assert "<b>" not in markdown


def test_values_that_are_not_alike_are_shown_whole() -> None:
    assert differences.parted("what it was once upon a time here", "something else of the same length") is None
    assert differences.parted("a short value", "another value") is None
    assert differences.parted("one two three four five", "one two, by the way, three four five") == "one two (+ by the way) three four five"


def test_against_tells_versions_from_hashes() -> None:
    old = review()
    [first, *rest] = old.environments
    torch = next(w for w in first.wheels if w.name == "torch")

    def swapped(**changes: object) -> Review:
        other = replace(torch, **changes)  # type: ignore[arg-type] # version or hashes
        wheels = tuple(other if w is torch else w for w in first.wheels)
        return replace(old, environments=(replace(first, wheels=wheels), *rest))

    [shift] = against.shifts(old, swapped(version="9.9"))
    assert (shift.direction, shift.text) == ("other", f"pytorch, torch: {torch.version} → 9.9")
    [shift] = against.shifts(old, swapped(hashes=("0" * 64,)))
    assert (shift.direction, shift.means) == ("wider", "the same version with other contents: ask why")


def test_against_a_bundle_compares_with_the_prices_of_then() -> None:
    now = review("v100-train")
    data = now.as_dict()
    row = next(place for place in data["places"] if place["region"] == "us-east-1")
    row["usd_per_hour"] = row["usd_per_hour"] / 2
    then = against.as_reviewed(now, json.dumps(data).encode())
    [shift] = [s for s in against.shifts(then, now) if s.subject == "price"]
    assert shift.direction == "wider"
    assert shift.text.endswith(" USD an hour (+100 %)")
    for nonsense in (b"", b"[]", b'{"places": 1}', b'{"places": [{}]}', b"\xff"):
        assert against.as_reviewed(now, nonsense) == now


def test_against_a_bundle_a_lock_and_a_profile(tmp_path: Path) -> None:
    run = CliRunner().invoke
    old = str(tmp_path / "old.bundle")
    assert run(cli, ["review", "t4-train", "-o", old]).exit_code == 0
    path = tmp_path / "t4-train.yml"
    path.write_text(load.find("t4-train").read_text().replace("deadline_h: 12", "deadline_h: 24"))
    done = run(cli, ["review", str(path), "--against", old])
    assert done.exit_code == 0
    assert "+ deadline: 12 h → 24 h" in done.stdout
    assert "limit to the deadline: 12.00 → 24.00 USD (+100 %)" in done.stdout
    assert "powers the machine off 12 → 24 hours after the launch, which ends it; …" in done.stdout
    assert "(+ wider, - narrower, ~ neutral)" in done.stdout
    assert not list(tmp_path.glob("t4-train.bundle*"))
    assert "nothing changed" in run(cli, ["review", "t4-train", "--against", old]).stdout
    assert "deadline: 24 h → 12 h" in run(cli, ["review", "t4-train", "--against", str(path)]).stdout
    lock = load.find("v100-train").with_name("v100-train.lock.yml")
    shifts = json.loads(run(cli, ["review", "t4-train", "--against", str(lock), "--json"]).stdout)["changes"]
    text = {"text": "driver.branch: 580 → 595", "means": "", "old": "", "new": ""}
    assert {"subject": "software", "direction": "other", **text} in shifts


def test_a_changed_bundle_is_refused_as_the_old_one(tmp_path: Path) -> None:
    old = tmp_path / "old.bundle"
    assert CliRunner().invoke(cli, ["review", "t4-train", "-o", str(old)]).exit_code == 0
    (old / "review.json").write_bytes((old / "review.json").read_bytes().replace(b"medium", b"low", 1))
    done = CliRunner().invoke(cli, ["review", "t4-train", "--against", str(old)])
    assert "review.json" in str(done.exception)


def test_locks_are_compared_by_their_values_and_not_by_their_words() -> None:
    _, old, _ = shipped("t4-train")
    environment = old.frameworks["pytorch"]
    first, *others = environment.wheels
    name = first.partition(" --hash")[0]
    new = old.model_copy(
        update={
            "catalogue": "2027-01-01",
            "profile": old.profile.model_copy(update={"sha256": "0" * 64}),
            "counters": "group",
            "warnings": ("placescounters (other hashes)",),
            "frameworks": {"pytorch": environment.model_copy(update={"wheels": (f"{name} --hash=sha256:{'0' * 64}", *others)})},
        }
    )
    shifts = {shift.text: (shift.subject, shift.means) for shift in against.of_locks(old, new)}
    assert shifts["counters: all-users → group"] == ("risks", "")
    assert shifts["warnings: + placescounters (other hashes)"] == ("risks", "")
    [wheel] = [words for text, words in shifts.items() if text.startswith("frameworks.pytorch.wheels: ")]
    assert wheel == ("software", "the same version with other hashes")
    assert len(shifts) == 3, "the dates of catalogue and profile are not a change of their own"


def test_a_check_that_is_no_longer_judged_is_wider_whatever_the_reason_is_called() -> None:
    old = review()
    controls = tuple(replace(c, applies=False, why="") if c.check == "gcc" else c for c in old.controls)
    [shift] = against.shifts(old, replace(old, controls=controls))
    assert (shift.subject, shift.direction, shift.text) == ("proof", "wider", "gcc is no longer judged")
