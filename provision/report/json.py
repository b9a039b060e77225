"""The report for programs."""

import json
from typing import Any, get_type_hints

from pydantic import TypeAdapter, create_model

from provision.verify.finding import OUTCOMES, Finding, Report, exit_code, summary

_SCHEMA = "gpuprov-reports/2"  # of 1, one host had its report alone
_OPTIONAL = frozenset({"excuse"})  # written only for a finding that is waived


def render(*reports: Report, strict: bool = False) -> str:
    """One JSON document, keys sorted: `hosts` has the report of each, of one as of several."""
    hosts = [report.as_dict(strict=strict) for report in reports]
    document = {"schema": _SCHEMA, "hosts": hosts, "summary": summary(reports), "exit_code": exit_code(reports, strict=strict)}
    return json.dumps(document, indent=2, sort_keys=True)


def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of the document, derived from the types themselves, and of the error that any command prints with --json.

    What a command knows beside its error, such as the attempts of `up`, are further keys of the error's document.
    """
    one = TypeAdapter(Report).json_schema()
    shared = {
        "summary": {
            "type": "object",
            "properties": {outcome: {"type": "integer", "minimum": 0} for outcome in OUTCOMES},
            "required": list(OUTCOMES),
            "additionalProperties": False,
        },
        "exit_code": {"type": "integer", "enum": [0, 1, 3]},
    }
    # A finding is a tuple with names, and printed as an object.
    fields: dict[str, Any] = {name: (kind, Finding._field_defaults.get(name, ...)) for name, kind in get_type_hints(Finding).items()}
    finding = {
        **create_model("Finding", __doc__=Finding.__doc__, **fields).model_json_schema(),
        "required": sorted(set(fields) - _OPTIONAL),
        "additionalProperties": False,
    }
    findings = {"findings": {"title": "Findings", "type": "array", "items": {"$ref": "#/$defs/Finding"}}}
    one.pop("$defs")
    report = {
        **one,
        "properties": {**one["properties"], **findings, **shared, "schema": {"const": "gpuprov-report/1"}},
        "required": sorted({*one["properties"], *shared}),
        "additionalProperties": False,
    }
    document = {
        "type": "object",
        "properties": {
            "schema": {"const": _SCHEMA},
            "hosts": {"type": "array", "items": {"$ref": "#/$defs/Host"}},
            **shared,
            # With --against: what changed since the evidence.
            "drift": {"type": "array", "items": {"type": "object", "additionalProperties": {"type": "string"}}},
        },
        "required": ["schema", "hosts", *shared],
        "additionalProperties": False,
    }
    error = {
        "type": "object",
        "properties": {
            "error": {
                "type": "object",
                "properties": {key: {"type": "string"} for key in ("code", "message", "hint", "see", "detail")},
                "required": ["code", "message", "hint"],
                "additionalProperties": False,
            },
        },
        "required": ["error"],
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Report of gpuprov verify",
        "oneOf": [document, {"$ref": "#/$defs/Error"}],
        "$defs": {"Finding": finding, "Host": report, "Error": error},
    }
