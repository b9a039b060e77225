"""Our sentence for each kind of error that pydantic finds in a file: what is wrong, and what to write instead.

No word of pydantic's, of Python's or of a regular expression is shown. `SENTENCES` has the kinds that data from YAML can raise; the test of
this module says of each other kind why it cannot be raised.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from provision.catalog import read
from provision.catalog.refused import refused_name
from provision.errors import counted
from provision.nearest import instead_of
from provision.structs import Struct, field

_MAX_QUOTED: Final = 60
_MOST_BITS: Final = 200
_CREDENTIALS: Final = re.compile(r"//[^/\s]*@")
_UNITS: Final = {
    "_gb": "a whole number of GB",
    "_h": "a whole number of hours",
    "_usd": "a number of US dollars",
    "_mhz": "a whole number of MHz",
    "_days": "a whole number of days",
    "count": "a whole number",
}
_KINDS: Final = {bool: "is true or false, not text", int: "is a number", float: "is a number", list: "is a list", dict: "is a mapping"}


class Case(Struct):
    """One error about one key.

    Attributes:
        key: the last part of the key.
        value: what was read there, and `text`: how it stands in the file, for an unquoted value.
        context: the figures of the error, such as a bound.
        form: what the key takes, in words.
        words: the words that it takes.
        keys: the keys that a mapping takes there, or for a wrong key the ones beside it.
        what: the word for the file, which is also the command that prints its schema.
        said: what our own validator said.
    """

    key: str
    value: Any
    text: str | None = None
    context: Mapping[str, Any] = field(default_factory=dict)
    form: str = ""
    words: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    what: str = "profile"
    said: str = ""

    @property
    def problem(self) -> str:
        """The value that cannot be."""
        return "is empty" if self.value is None else f"cannot be {self.source(self.value)}"

    def source(self, value: Any) -> str:
        """A value as it stands in the file, which for `24.10` and `true` is not what Python prints."""
        return quote(value) if self.text is None or isinstance(value, str) else quote(self.text)[1:-1]

    @property
    def schema(self) -> str:
        """Where to look it up."""
        return f"see `gpuprov {self.what} schema`"


def quote(value: Any) -> str:
    """A value for a message: short, without characters that a terminal would obey, and without the name and password of an address."""
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:  # Python refuses to write one of thousands of digits
        value = "a number of too many digits"
    text = ascii(value) if not isinstance(value, dict | list) else f"a {'mapping' if isinstance(value, dict) else 'list'}"
    text = _CREDENTIALS.sub("//…@", text)
    return text if len(text) <= _MAX_QUOTED else text[: _MAX_QUOTED - 1] + "…"


def unit(key: str) -> str:
    """What a number of this key counts; empty where its name does not say so."""
    return next((text for suffix, text in _UNITS.items() if key.endswith(suffix)), "")


def _unknown_key(case: Case) -> tuple[str, str]:
    refusal = refused_name(case.key)
    if refusal:
        return refusal.why, refusal.instead
    if case.what == "profile" and case.key in read.extras() and "extras" in case.keys:
        return f"is not a key of a {case.what}", f"name it in the list of components: extras: [{case.key}]"
    return f"is not a key of a {case.what}", instead_of(case.key, sorted(case.keys))


def _word(case: Case) -> tuple[str, str]:
    word = case.context.get("tag", case.value)
    refusal = refused_name(word) if isinstance(word, str) else None
    if refusal:
        return f"{quote(word)} {refusal.why}", refusal.instead
    problem = "is empty" if word is None else f"cannot be {case.source(word)}"
    return problem, instead_of(str(word), case.words) if case.words else case.schema


def _text(case: Case) -> tuple[str, str]:
    if case.text:
        return f"{_KINDS.get(type(case.value), 'is empty')}: {case.source(case.value)}", f'quote it: "{case.text}"'
    return _KINDS.get(type(case.value), "is empty"), f"write {case.form or 'a text'}"


def _bound(words: str, name: str) -> Callable[[Case], tuple[str, str]]:
    def sentence(case: Case) -> tuple[str, str]:
        return case.problem, f"write {unit(case.key) or 'a number'} {words} {case.context.get(name, '')}".rstrip()

    return sentence


def _length(words: str, name: str) -> Callable[[Case], tuple[str, str]]:
    def sentence(case: Case) -> tuple[str, str]:
        things = "character" if isinstance(case.value, str) else "item"
        return case.problem, f"write {words} {counted(int(case.context.get(name, 1)), things)}"

    return sentence


def _number(case: Case) -> tuple[str, str]:
    return case.problem, f"write {unit(case.key) or 'a number'}, without unit or quotes"


def _mapping(case: Case) -> tuple[str, str]:
    return case.problem, f"it has the keys {', '.join(sorted(case.keys))}" if case.keys else case.schema


def _date(case: Case) -> tuple[str, str]:
    return case.problem, "write a day that exists, as in 2027-01-31"


def _own(case: Case) -> tuple[str, str]:
    return "has keys that conflict" if isinstance(case.value, dict) else case.problem, case.said


SENTENCES: Final[Mapping[str, Callable[[Case], tuple[str, str]]]] = {
    "missing": lambda case: ("is missing", f"add it: {unit(case.key) or case.schema}"),
    "extra_forbidden": _unknown_key,
    "literal_error": _word,
    "union_tag_invalid": _word,
    "union_tag_not_found": lambda case: (
        f"has no {str(case.context.get('discriminator', '')).strip(chr(39)) or 'kind'}",
        f"add it: {' or '.join(case.words) or case.schema}",
    ),
    "model_type": _mapping,
    "model_attributes_type": _mapping,
    "dict_type": _mapping,
    "tuple_type": lambda case: (case.problem, "write a list, as in [one, another]"),
    "greater_than": _bound("greater than", "gt"),
    "greater_than_equal": _bound("that is at least", "ge"),
    "less_than": _bound("less than", "lt"),
    "less_than_equal": _bound("that is at most", "le"),
    "finite_number": _number,
    "int_type": _number,
    "int_parsing": _number,
    "int_parsing_size": _number,
    "int_from_float": _number,
    "float_type": _number,
    "float_parsing": _number,
    "bool_type": lambda case: (case.problem, "write true or false, without quotes"),
    "bool_parsing": lambda case: (case.problem, "write true or false, without quotes"),
    "too_short": _length("at least", "min_length"),
    "too_long": _length("at most", "max_length"),
    "string_too_short": _length("at least", "min_length"),
    "string_too_long": _length("at most", "max_length"),
    "string_type": _text,
    "string_unicode": lambda case: (case.problem, "remove what is not text in any encoding"),
    "string_pattern_mismatch": lambda case: (case.problem, f"write {case.form}" if case.form else case.schema),
    "date_type": _date,
    "date_parsing": _date,
    "date_from_datetime_parsing": _date,
    "date_from_datetime_inexact": _date,
    "value_error": _own,
}


def sentence(kind: str, case: Case) -> tuple[str, str]:
    """What is wrong and what to write; a kind that nobody foresaw has a sentence as well."""
    return SENTENCES[kind](case) if kind in SENTENCES else (case.problem, case.schema)
