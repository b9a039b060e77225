"""Two parties, three people and one bundle, through the command line, up to the call that would launch."""

import json
from pathlib import Path

import pytest

from provision import paths
from provision.profile import lockfile
from provision.review import bundle
from tests.cli.conftest import Call
from tests.review.samples import People

RULES = """\
schema: 1
name: isa-rules
contact: isa@example.com
clouds: [aws]
counters: [group, admin-only]
max_deadline_h: 12
owner_domains: [example.com]
reasons:
  counters: Users of one machine may not watch each other.
signatures: {required: 2, principals: [alice@example.com, bob@example.com], max_age_days: 30}
"""


@pytest.fixture
def people(tmp_path: Path) -> People:
    return People.make(tmp_path / "isa")


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    """What the engineer wrote first: too wide in two ways."""
    folder = tmp_path / "engineer"
    folder.mkdir()
    path = folder / "t4-train.yml"
    path.write_bytes((paths.profiles_dir() / "t4-train.yml").read_bytes())
    return path


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yml"
    path.write_text(RULES)
    return path


def narrowed(profile: Path) -> None:
    text = profile.read_text()
    start, end = text.index("  - cloud: gcp"), text.index("os:\n")
    profile.write_text((text[:start] + text[end:]).replace("counters: all-users", "counters: group"))


def bundled(call: Call, profile: Path, policy: Path) -> Path:
    path = profile.with_name("t4-train.bundle.zip")
    assert call("review", str(profile), "-o", str(path), "--policy", str(policy))[0] == 0
    return path


def test_the_two_party_story(  # noqa: PLR0917 - pytest passes by name
    call: Call, people: People, profile: Path, policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def become(who: str) -> None:
        monkeypatch.setenv("GPUPROV_HOME", str(tmp_path / f"home-{who}"))

    monkeypatch.setenv("GPUPROV_POLICY", str(policy))
    become("engineer")
    code, out, _ = call("policy", "check", str(profile))
    assert code == 2
    assert "places.1.cloud: gcp; allowed: aws (rule clouds)" in out
    assert "(rule counters: Users of one machine may not watch each other.)" in out
    code, out, _ = call("plan", "-p", str(profile))
    assert (code, "against the rules isa-rules: `up` will refuse:" in out, "signatures needed: 2" in out) == (2, True, True)
    code, _, err = call("up", "-p", str(profile))
    assert (code, "error[policy-violated]: t4-train violates the rules isa-rules (2 violations)" in err) == (2, True), err
    assert "hint: change the profile, or ask isa@example.com" in err

    narrowed(profile)
    assert call("lock", str(profile))[0] == 0
    code, out, _ = call("policy", "check", str(profile), "--json")
    assert (code, json.loads(out)["violations"]) == (0, [])
    code, _, err = call("up", "-p", str(profile))
    assert (code, "error[signature-missing]" in err, "t4-train comes without a bundle" in err) == (2, True, True)
    path = bundled(call, profile, policy)
    code, _, err = call("up", "--bundle", str(path))
    assert (code, "who may sign is not known" in err) == (2, True), "the engineer has no allowed_signers"

    become("isa")
    monkeypatch.setenv("GPUPROV_SIGNERS", str(people.signers))
    code, out, err = call("verify-signature", str(path))
    assert (code, "0 of 2 signatures" in out, "error[signature-missing]" in err) == (2, True, True)
    code, out, err = call("sign", str(path), "--key", str(people.alice), "--as", "alice@example.com", "--days", "14")
    assert (code, f"{path}: signed by alice@example.com until 20" in out) == (0, True), err
    assert f"bundle  sha256:{bundle.read(path).digest}" in out
    assert out.endswith(f"next: `gpuprov verify-signature {path}` says whether that is enough\n")
    code, _, err = call("up", "--bundle", str(path))
    assert (code, "has 1 of 2 signatures" in err) == (2, True), err
    assert call("sign", str(path), "--key", str(people.bob), "--as", "bob@example.com")[0] == 0
    code, out, _ = call("verify-signature", str(path))
    assert (code, out.count("\n  valid   "), "2 of 2 signatures" in out) == (0, 2, True)
    assert out.endswith(f"next: `gpuprov up --bundle {path}` launches what was signed, and nothing else\n")
    code, out, _ = call("verify-signature", str(path), "--json")
    said = json.loads(out)
    assert (said["counted"], said["required"], said["statement"]) == (2, 2, bundle.read(path).digest)

    # Past the gate: the next thing that `up` needs is an account, and `apply` a host.
    code, _, err = call("up", "--bundle", str(path))
    assert (code, "error[credentials-missing]" in err) == (4, True), err
    code, _, err = call("apply", "no.invalid", "--bundle", str(path))
    assert (code, "error[host-unreachable]" in err) == (3, True), err

    become("engineer")
    profile.write_text(profile.read_text().replace("deadline_h: 12", "deadline_h: 11"))
    for words in (["up"], ["apply", "no.invalid"]):
        code, _, err = call(*words, "-p", str(profile), "--bundle", str(path))
        assert (code, "error[bundle-stale]" in err) == (2, True), err
        assert "\n  limits.deadline_h: 12 → 11\n" in err
    code, _, err = call("apply", "no.invalid", "-p", str(profile))
    assert code == 2


def test_a_revoked_signer_stops_the_run(  # noqa: PLR0917 - as above
    call: Call, people: People, profile: Path, policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrowed(profile)
    assert call("lock", str(profile))[0] == 0
    path = bundled(call, profile, policy)
    for name in ("alice", "bob"):
        assert call("sign", str(path), "--key", str(people.folder / name), "--as", f"{name}@example.com", "--json")[0] == 0
    (tmp_path / "revoked").write_bytes(people.bob.with_name("bob.pub").read_bytes())
    monkeypatch.setenv("GPUPROV_REVOKED", str(tmp_path / "revoked"))
    code, out, err = call("verify-signature", str(path), "--signers", str(people.signers), "--policy", str(policy))
    assert (code, "lapsed  bob@example.com" in out, "which is revoked" in out, "1 of 2" in err) == (2, True, True, True)
    code, _, err = call("up", "--bundle", str(path), "--signers", str(people.signers), "--policy", str(policy))
    assert (code, "error[signature-missing]" in err) == (2, True)


def test_a_lock_that_this_machine_would_not_write_is_said_to_who_signs(call: Call, people: People, profile: Path, policy: Path) -> None:
    assert call("lock", str(profile))[0] == 0
    beside = lockfile.path_for(profile)
    lock = lockfile.read(beside)
    forged = lock.repositories[0].model_copy(update={"url": "https://evil.example/"})
    beside.write_text(lockfile.dump(lock.model_copy(update={"repositories": (forged,)})))
    path = bundled(call, profile, policy)
    code, _, err = call("sign", str(path), "--key", str(people.alice), "--as", "alice@example.com")
    assert code == 0
    assert "this machine would lock something else today: repositories.0.url: https://evil.example/ → https://developer." in err


@pytest.mark.parametrize("name", ["review.html", "review.md", "review.json"])
def test_a_page_that_says_something_else_than_the_profile_is_not_signed(
    call: Call, people: People, profile: Path, policy: Path, name: str
) -> None:
    assert call("lock", str(profile))[0] == 0
    path = bundled(call, profile, policy)
    made = dict(bundle.read(path).files)
    assert b"for at most 12 hours" in made[name] or b'"deadline_h":12' in made[name]
    made[name] = made[name].replace(b"for at most 12 hours", b"for at most 1 hours").replace(b'"deadline_h":12', b'"deadline_h":1')
    read = bundle.read(path)
    bundle.write(path, {**made, bundle.STATEMENT: bundle.statement(read.profile, read.lock, made["policy.yml"], made)})
    words = ("sign", str(path), "--key", str(people.alice), "--as", "alice@example.com")
    code, _, err = call(*words)
    assert (code, f"error[signature-refused]: {path}: {name} is not what this machine makes of" in err) == (2, True), err
    assert bundle.read(path).approvals == {}
    assert call(*words, "--pages-differ")[0] == 0
    assert [*bundle.read(path).approvals] == ["alice@example.com"]
