"""What each key is for: the sentences of the schema's source, in the JSON Schema that editors read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from provision.profile import described, load
from provision.profile.model import Gpu, Profile
from provision.profile.network import Network


def properties(part: Any) -> Iterator[tuple[str, Any]]:
    """Every key of a JSON Schema, with what it says of it."""
    for name, inner in part.items() if isinstance(part, dict) else ():
        if name == "properties":
            yield from inner.items()
        yield from properties(inner)


def test_every_key_says_in_a_sentence_what_it_is_for() -> None:
    schema = described.schema()
    silent = [key for key, node in properties(schema) if not node.get("description", "").rstrip().endswith(".")]
    assert silent == []
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert set(schema["properties"]) == {field.alias or name for name, field in Profile.model_fields.items()}
    assert schema["additionalProperties"] is False


def test_a_sentence_is_the_docstring_under_the_field_and_goes_before_what_the_key_takes() -> None:
    assert "ncu" in described.sentences(Gpu)["counters"]
    assert "schema" in described.sentences(Profile)
    assert "schema_version" not in described.sentences(Profile)
    email = described.schema()["$defs"]["Owner"]["properties"]["email"]
    assert email["description"].endswith("It takes an address such as ada@example.org.")


def test_what_a_model_inherits_is_described_with_it() -> None:
    places = [each for each in described.models() if each.__name__.endswith("Place")]
    assert len(places) >= 3
    for each in places:
        assert set(described.sentences(each)) == set(each.model_fields), each
    assert Network in set(described.models())


def test_the_sentences_change_nothing_of_what_is_accepted() -> None:
    """A complaint still says what a pattern takes, and not what the key is for."""
    profile = load.load(load.find("t4-train"))
    described.schema()
    assert "deadline" not in str(Profile.model_json_schema()["$defs"]["Limits"]["properties"]["deadline_h"].get("description", ""))
    assert Profile.model_validate(profile.dump()) == profile
