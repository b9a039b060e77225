"""Every error that pydantic can find has a sentence of ours, and no word of pydantic's, Python's or a pattern's is shown."""

import copy
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core._pydantic_core import list_all_errors

from provision import paths
from provision.profile.model import Profile
from provision.profile.plain import PlainFile
from provision.profile.sentences import SENTENCES, Case, sentence
from provision.profile.suggest import complaints_of
from provision.review.policy import Policy

NO_FIELD = "no field of a profile or a policy has this type"
NO_CONSTRAINT = "no field of a profile or a policy has this constraint"
NOT_JSON = "models are validated from Python objects, not from JSON text"
NO_CALL = "no function is validated"
IMPOSSIBLE = {
    "string_sub_type": "no type of a profile is strict about subclasses of str, and YAML gives plain ones; pydantic 2.12.0 lists it",
    **dict.fromkeys(["json_invalid", "json_type", "needs_python_object"], NOT_JSON),
    **dict.fromkeys(["recursion_loop", "recursion_depth_exceeded"], "YAML is read within a depth, and aliases are refused"),
    **dict.fromkeys(["frozen_field", "frozen_instance"], "nothing is assigned while a file is validated"),
    **dict.fromkeys(["no_such_attribute", "get_attribute_error"], "objects with attributes are not accepted, only mappings"),
    "invalid_key": "keys are plain words, which the reader of YAML enforces",
    **dict.fromkeys(["iterable_type", "iteration_error"], NO_FIELD),
    "default_factory_not_called": "no default is made from another field",
    "assertion_error": "validators raise ValueError, never assert",
    **dict.fromkeys(["missing_sentinel_error", "ellipsis_error", "none_required"], "no field takes only nothing"),
    **dict.fromkeys(["multiple_of", "string_not_ascii"], NO_CONSTRAINT),
    **dict.fromkeys(["date_past", "date_future", "datetime_past", "datetime_future"], NO_CONSTRAINT),
    **dict.fromkeys(["timezone_naive", "timezone_aware", "timezone_offset"], NO_CONSTRAINT),
    **dict.fromkeys(["dataclass_type", "dataclass_exact_type", "named_tuple_type", "enum", "mapping_type", "list_type"], NO_FIELD),
    **dict.fromkeys(["frozen_dict_type", "ordered_dict_type", "counter_type", "deque_type"], NO_FIELD),
    **dict.fromkeys(["set_type", "set_item_not_hashable", "frozen_set_type"], NO_FIELD),
    **dict.fromkeys(["bytes_type", "bytes_too_short", "bytes_too_long", "bytes_invalid_encoding"], NO_FIELD),
    **dict.fromkeys(["time_type", "time_parsing", "time_delta_type", "time_delta_parsing"], NO_FIELD),
    **dict.fromkeys(["datetime_type", "datetime_parsing", "datetime_object_invalid", "datetime_from_date_parsing"], NO_FIELD),
    **dict.fromkeys(["is_instance_of", "is_subclass_of", "callable_type"], NO_FIELD),
    **dict.fromkeys(["arguments_type", "missing_argument", "unexpected_keyword_argument", "missing_keyword_only_argument"], NO_CALL),
    **dict.fromkeys(["unexpected_positional_argument", "missing_positional_only_argument", "multiple_argument_values"], NO_CALL),
    **dict.fromkeys(["url_type", "url_parsing", "url_syntax_violation", "url_too_long", "url_scheme"], NO_FIELD),
    **dict.fromkeys(["uuid_type", "uuid_parsing", "uuid_version"], NO_FIELD),
    **dict.fromkeys(["decimal_type", "decimal_parsing", "decimal_max_digits", "decimal_max_places", "decimal_whole_digits"], NO_FIELD),
    **dict.fromkeys(["fraction_type", "fraction_parsing", "complex_type", "complex_str_parsing"], NO_FIELD),
}

GOOD: dict[str, Any] = yaml.safe_load((paths.profiles_dir() / "t4-train.yml").read_text())
USER = {"name": "ada", "ssh_keys": ["x"]}
WAIVER = {"check": "root-room", "reason": "r", "owner": "a@example.org", "expires": "2099-01-01"}
MIRROR = {"url": "https://m.example.org", "key": "https://m.example.org/k", "fingerprint": "A" * 40}
PROFILE = {
    **GOOD,
    "network": {"address": "private", "subnet": "s", "via": "direct", "jump": "bastion", "ssh_from": ["10.0.0.0/8"]},
    "users": [USER],
    "verify": {"tier": "quick", "min_free_gb": 5, "waivers": [WAIVER]},
    "sources": {"packages": "nvidia", "apt": MIRROR, "wheels": {"url": "https://m.example.org"}},
}
POLICY = {
    "schema": 1,
    "name": "rules",
    "contact": "a@example.org",
    "reasons": {"regions": "because"},
    "regions": ["eu-*"],
    "os": ["ubuntu 24.*"],
    "max_price_per_hour_usd": 1.5,
    "ssh_from": {"widest_ipv4": 24, "within": ["10.0.0.0/8"]},
    "mirrors": {"packages": ["https://m.example.org"]},
    "signatures": {"required": 2, "principals": ["a", "b"]},
    "nothing_unresolved": True,
}
VALUES: list[Any] = [
    None,
    True,
    0,
    -1,
    10**18,
    1.5,
    float("inf"),
    float("nan"),
    "",
    "x",
    "x" * 3000,
    "\x00",
    "\ud800",
    "2026-02-31",
    "2026-01-01T10:00:00",
    "10.0.0.1/8",
    [],
    ["x"] * 300,
    [[]],
    {},
    {"a": 1},
]
# What only pydantic, Python or a regular expression says.
FOREIGN = re.compile(
    r"[Ii]nput should|[Vv]alue error|unable to|does not appear|[Hh]ost bits|Extra inputs"
    r"|\^\[|\{1,|\[0-9\]|pattern|None\b|\bTrue\b|literal"
)


def places(node: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every key of a document, at any depth."""
    items = node.items() if isinstance(node, dict) else enumerate(node[:1]) if isinstance(node, list) else ()
    for key, value in items:
        yield (*at, key)
        yield from places(value, (*at, key))


def with_value(node: Any, at: tuple[Any, ...], value: Any) -> Any:
    """The document with one key set; what lies on the way to it is copied, and nothing else."""
    if not at:
        return value
    changed = copy.copy(node)
    changed[at[0]] = with_value(node[at[0]], at[1:], value)
    return changed


@pytest.mark.parametrize(("model", "document"), [(Profile, PROFILE), (Policy, POLICY)], ids=["profile", "policy"])
def test_any_value_at_any_key_is_refused_in_our_own_words(model: type[BaseModel], document: dict[str, Any]) -> None:
    kinds = set()
    for at in places(document):
        for value in VALUES:
            data = with_value(document, at, value)
            try:
                model.model_validate(data)
            except ValidationError as error:
                kinds |= {details["type"] for details in error.errors()}
                for complaint in complaints_of(error, PlainFile(data), model, "profile"):
                    said = f"{complaint.problem}; {complaint.instead}".replace(ascii(value), "…")
                    assert not FOREIGN.search(said), (at, value, said)
                    assert complaint.instead.strip(), (at, value)
                    assert not said.rstrip().endswith((":", "cannot be")), said
                    assert said.isascii() or "…" in said, said
    assert kinds <= set(SENTENCES), kinds - set(SENTENCES)
    assert len(kinds) > 15


def test_each_kind_that_pydantic_lists_has_a_sentence_or_a_reason_why_it_cannot_occur() -> None:
    kinds = {error["type"] for error in list_all_errors()}
    assert kinds - set(SENTENCES) - set(IMPOSSIBLE) == set()
    assert set(SENTENCES) & set(IMPOSSIBLE) == set()
    assert all(reason for reason in IMPOSSIBLE.values())


@pytest.mark.parametrize("kind", SENTENCES)
def test_a_sentence_needs_no_more_than_the_key_and_the_value(kind: str) -> None:
    """pydantic may leave out any of its figures; a complaint is not a place for a traceback."""
    problem, instead = sentence(kind, Case("deadline_h", "x", said="said"))
    assert problem
    assert instead


def test_a_kind_that_nobody_foresaw_has_a_sentence_as_well() -> None:
    assert sentence("of_the_future", Case("size_gb", 5)) == ("cannot be 5", "see `gpuprov profile schema`")


@pytest.mark.parametrize("model", [Profile, Policy])
def test_every_pattern_says_in_words_what_it_takes(model: type[BaseModel]) -> None:
    def silent(node: Any) -> Iterator[str]:
        if isinstance(node, dict) and isinstance(node.get("pattern"), str) and not node.get("description"):
            yield node["pattern"]
        for inner in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            yield from silent(inner)

    assert list(silent(model.model_json_schema())) == []
