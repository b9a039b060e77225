"""The data of a review: its sentence, its counts, and the keys of its JSON."""

import json

from provision.structs import replace

from .examples import review


def test_the_sentence_names_the_ceiling_only_where_there_is_one() -> None:
    plain = review()
    money = replace(plain.money, ceiling_usd=12.0)
    unknown = replace(plain.money, ceiling_usd=None)
    assert replace(plain, money=unknown).sentence.endswith("at a price that is not known in every place")
    assert replace(plain, money=money).sentence.endswith("for at most 12 hours and 12.00 USD")


def test_the_sentence_says_that_no_place_can_be_used() -> None:
    plain = review()
    nowhere = replace(plain, places=tuple(replace(place, passed_over="x") for place in plain.places))
    assert nowhere.sentence.endswith("that this release can launch in none of its places")


def test_counts_are_those_of_the_risks() -> None:
    plain = review()
    counts = {severity: plain.count(severity) for severity in ("high", "medium", "low", "note")}
    assert sum(counts.values()) == len(plain.risks)
    assert counts["medium"] == sum(risk.severity == "medium" for risk in plain.risks)


def test_the_json_has_the_sentence_and_plain_data() -> None:
    data = review().as_dict()
    assert data["sentence"] == review().sentence
    assert set(data["environments"][0]["wheels"][0]) == {"name", "version", "hashes"}
    json.dumps(data)
