"""DigitalOcean's own OpenAPI document, by which every request and every answer is checked.

`openapi.json` is a part of it (Apache-2.0; its `x-notice` and `x-source` say from where, and which commit), written by
tests/rehearsal/digitalocean/make_openapi.py. What its schemas mean is decided by openapi-schema-validator.
"""

import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from jsonschema import ValidationError
from jsonschema.exceptions import best_match
from openapi_schema_validator import OAS30ReadValidator, OAS30WriteValidator, oas30_format_checker
from referencing import Registry
from referencing.jsonschema import DRAFT4

from provision.rehearsal.digitalocean.refusals import DropletApiError, not_found, unprocessable
from provision.structs import Struct

_FILE: Final = Path(__file__).with_name("openapi.json")
_ADDRESS: Final = "urn:openapi"
_JSON: Final = "application/json"
_HOSTNAME: Final = "Only valid hostname characters are allowed. (a-z, A-Z, 0-9, . and -)"
# What DigitalOcean says of a field that its schema refuses, where that is known: refusals.py says from where.
_WORDS: Final = dict.fromkeys([("droplets_create", "name"), ("droplets_create", "names")], _HOSTNAME)


class Operation(Struct):
    """One operation of the API, such as `droplets_create`; `needs` are the scopes that its token must have."""

    id: str
    pattern: re.Pattern[str]
    parameters: tuple[dict[str, Any], ...]
    needs: tuple[str, ...]
    body: dict[str, Any] | None
    answers: dict[str, Any]


class OpenApi:
    """The document, ready to route and to check."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document = _absolute(document)
        resource = DRAFT4.create_resource(document)
        self._registry: Registry[Any] = Registry().with_resource(_ADDRESS, resource)
        self._operations: dict[str, list[Operation]] = {}
        for path, verbs in document["paths"].items():
            for verb, given in verbs.items():
                self._operations.setdefault(verb.upper(), []).append(_operation(path, given))

    def find(self, verb: str, path: str) -> tuple[Operation, dict[str, Any]]:
        """The operation of a request, and the parameters of its path."""
        for operation in self._operations.get(verb, []):
            match = operation.pattern.fullmatch(path)
            if match:
                texts = {name: unquote(value) for name, value in match.groupdict().items()}
                try:
                    return operation, self._parameters(operation, "path", texts)
                except DropletApiError as error:
                    raise not_found() from error  # what cannot be an id is nobody's
        raise not_found()

    def query(self, operation: Operation, texts: dict[str, str]) -> dict[str, Any]:
        """The parameters of a query as values; an unknown one is refused, because DigitalOcean would ignore what it was meant to do."""
        return self._parameters(operation, "query", texts)

    def _parameters(self, operation: Operation, where: str, texts: dict[str, str]) -> dict[str, Any]:
        own = {parameter["name"]: parameter for parameter in operation.parameters if parameter["in"] == where}
        unknown = sorted(texts.keys() - own.keys())
        missing = sorted(name for name, parameter in own.items() if parameter.get("required") and name not in texts)
        if unknown or missing:
            raise unprocessable(f"{operation.id}: unknown parameters {unknown}, missing parameters {missing}")
        values = {name: _value(self._plain(own[name]["schema"]), text) for name, text in texts.items()}
        for name, value in values.items():
            problem = self._problem(OAS30ReadValidator, own[name]["schema"], value)
            if problem:
                raise unprocessable(f"{name}: {problem.message}")
        return values

    def body(self, operation: Operation, raw: bytes) -> dict[str, Any]:
        """The body of a request; one with a field that the document does not have is refused, because it may be another one misspelt."""
        if operation.body is None:
            if raw:
                raise unprocessable(f"{operation.id} takes no body")
            return {}
        try:
            body = json.loads(raw or b"{}")
        except ValueError as error:
            raise DropletApiError(400, f"the body is not JSON: {error}") from error
        problem = self._problem(OAS30WriteValidator, operation.body, body)
        if problem or not isinstance(body, dict):
            words = f"{problem.json_path.removeprefix('$')}: {problem.message}" if problem else ": an object is expected"
            field = str(problem.absolute_path[0]) if problem and problem.absolute_path else ""
            raise unprocessable(_WORDS.get((operation.id, field), f"body{words}"))
        unknown = sorted(body.keys() - set(self._fields(operation.body)))
        if unknown:
            raise unprocessable(f"{operation.id} has no fields {unknown}")
        return body

    def check_answer(self, operation: Operation, status: int, answer: Any) -> None:
        """Refuse an answer of ours that DigitalOcean could not have sent: a defect of the emulator, so HTTP 500."""
        described = operation.answers.get(str(status)) or operation.answers.get("default")
        if described is None or (str(status) not in operation.answers and status < 400):  # noqa: PLR2004 - where errors begin
            raise DropletApiError(500, f"answer of {operation.id}: the document has no {status}", code="emulator_error")
        schema = described["content"].get(_JSON, {}).get("schema")
        problem = self._problem(OAS30ReadValidator, schema, answer) if schema else answer and ValidationError("a body is not expected")
        if problem:
            words = f"answer of {operation.id}, {status}: {problem.json_path}: {problem.message}"
            raise DropletApiError(500, words, code="emulator_error")

    def _problem(self, validator: Any, schema: dict[str, Any], value: Any) -> ValidationError | None:
        checker = validator(schema, registry=self._registry, format_checker=oas30_format_checker)
        problem: ValidationError | None = best_match(checker.iter_errors(value))
        return problem

    def _plain(self, schema: dict[str, Any]) -> dict[str, Any]:
        """A schema that is not a reference."""
        while "$ref" in schema:
            schema = self._document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
        return schema

    def _fields(self, schema: dict[str, Any]) -> Iterator[str]:
        """The names of the fields that an object of a schema can have."""
        schema = self._plain(schema)
        yield from schema.get("properties", {})
        for part in (*schema.get("allOf", []), *schema.get("anyOf", []), *schema.get("oneOf", [])):
            yield from self._fields(part)


def _operation(path: str, given: dict[str, Any]) -> Operation:
    body = given.get("requestBody")
    return Operation(
        id=given["operationId"],
        pattern=re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path)),
        parameters=tuple(given["parameters"]),
        needs=tuple(scope for scheme in given["security"] for scope in scheme["bearer_auth"]),
        body=body["content"][_JSON]["schema"] if body else None,
        answers=given["responses"],
    )


def _absolute(node: Any) -> Any:
    """The document with references that lead into it from wherever a part of it is used."""
    if isinstance(node, list):
        return [_absolute(item) for item in node]
    if not isinstance(node, dict):
        return _ADDRESS + node if isinstance(node, str) and node.startswith("#/components/") else node
    return {key: _absolute(value) for key, value in node.items()}


def _value(schema: dict[str, Any], text: str) -> Any:
    """A parameter's text as the JSON value that its schema speaks of; one of several types is the first that it can be."""
    kinds = [part.get("type") for part in (*schema.get("anyOf", []), *schema.get("oneOf", []))] or [schema.get("type")]
    if "integer" in kinds and re.fullmatch(r"-?\d+", text):
        return int(text)
    return {"true": True, "false": False}.get(text, text) if "boolean" in kinds else text


@functools.cache
def load() -> OpenApi:
    """The document that ships with gpuprov."""
    return OpenApi(json.loads(_FILE.read_text()))
