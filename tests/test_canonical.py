"""Equal data has equal bytes, whatever the order of its keys and the letters in it."""

import pytest

from provision.canonical import canonical, digest


def test_the_order_of_keys_and_spaces_do_not_count() -> None:
    assert canonical({"b": [1, "é"], "a": None}) == b'{"a":null,"b":[1,"\\u00e9"]}'
    assert digest({"b": 1, "a": 2}) == digest({"a": 2, "b": 1}) != digest({"a": 1, "b": 2})


def test_data_that_is_not_json_is_refused() -> None:
    with pytest.raises(TypeError):
        canonical({"when": object()})
