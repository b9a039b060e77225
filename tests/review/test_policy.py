"""The file of the organisation's rules: what is refused, with line and what to write."""

from pathlib import Path

import pytest

from provision.errors import PolicyInvalidError
from provision.review import policy as policies
from provision.review.policy import Policy


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("max_deadlin_h: 3", ":3: max_deadlin_h: is not a key of a policy; did you mean 'max_deadline_h'?"),
        ("ssh_from: {widest: 3}", ":3: ssh_from.widest: is not a key of a policy; did you mean 'widest_ipv"),
        ("clouds: [azure]", ":3: clouds.0: cannot be 'azure'; write one of: aws, digitalocean, gcp"),
        ("counters: [al-users]", "did you mean 'all-users'?"),
        ("clouds: []", "at least 1 item"),
        ("max_deadline_h: 12h", "a whole number of hours"),
        ("ssh_from: {within: [10.0.0.1/8]}", "it lies in 10.0.0.0/8: write that network"),
        ("mirrors: {packages: ['file:///etc']}", "an address such as https"),
        ("signatures: {required: 0}", "write a number that is at least 1"),
        ("signatures: {}", "signatures.required: is missing"),
        ("signatures: {required: 2, principals: [a, a]}", "2 signatures cannot come from 1 principal"),
        ("signatures: {required: 1, principals: ['*']}", "a name of the file of signers"),
        ("reasons: {no_rule: x}", "no_rule"),
        ("name: x", "occurs twice"),
        ("a: &a 1", "anchor"),
    ],
)
def test_a_file_that_holds_no_rules_is_refused_with_line_and_what_to_write(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "policy.yml"
    path.write_text(f"schema: 1\nname: isa\n{text}\n")
    with pytest.raises(PolicyInvalidError) as refused:
        policies.load(path)
    assert said in refused.value.message
    assert f"{path}:" in refused.value.message
    assert "gpuprov policy schema" in refused.value.hint


@pytest.mark.parametrize("raw", [b"", b"\xff", b"# " + b"x" * 70_000, b"- a\n", b"schema: 2\nname: isa\n"], ids=len)
def test_bytes_that_are_no_rules_are_refused(raw: bytes) -> None:
    with pytest.raises(PolicyInvalidError):
        policies.parse(raw, Path("p.yml"))


def test_rules_that_cannot_be_read_stop_everything(tmp_path: Path) -> None:
    with pytest.raises(PolicyInvalidError, match="cannot read"):
        policies.load(tmp_path)


def test_the_schema_describes_every_key() -> None:
    assert set(policies.schema()["properties"]) == {"schema", *(set(Policy.model_fields) - {"schema_version"})}
