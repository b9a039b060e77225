"""Google's own descriptions of compute.v1 and of a few other APIs, by which every request and every answer is checked.

google-api-python-client carries them. That of compute.v1 has 1025 methods and 1075 schemas in the release of November 2026.
"""

import functools
import json
import re
from collections import defaultdict
from collections.abc import Collection
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from provision.rehearsal.gcp.refusals import ComputeError, invalid, required
from provision.structs import MutableStruct, Struct, field, replace

ROOT: Final = "/compute/v1/"
_FOLDER: Final = "discovery_cache/documents"
# What the paths of the other APIs begin with, which the real ones have on hosts of their own.
_OTHERS: Final = ("/v1/services/", "/v1/projects/", "/v1/users/", "/v3/projects/", "/oauth2/v2/", "/storage/v1/", "/upload/storage/v1/")
# Document → the methods that are used of it.
_METHODS: Final = {
    "cloudbilling.v1": ("cloudbilling.services.skus.list", "cloudbilling.projects.getBillingInfo"),
    "serviceusage.v1": ("serviceusage.services.get",),
    "oslogin.v1": (
        "oslogin.users.getLoginProfile",
        "oslogin.users.importSshPublicKey",
        *(f"oslogin.users.sshPublicKeys.{verb}" for verb in ("get", "patch", "delete")),
    ),
    "cloudresourcemanager.v3": ("cloudresourcemanager.projects.getIamPolicy", "cloudresourcemanager.projects.testIamPermissions"),
    "oauth2.v2": ("oauth2.userinfo.get",),
    "storage.v1": tuple(f"storage.objects.{verb}" for verb in ("delete", "get", "insert", "list")),
}
_INTEGERS: Final = {"int64", "uint64"}
_PLAIN: Final[dict[str, tuple[type, ...]]] = {"integer": (int,), "boolean": (bool,), "number": (int, float)}


class Method(Struct):
    """One method of the API, such as `compute.instances.insert`; `request` and `response` are names of schemas, empty for none."""

    id: str
    path: str
    parameters: dict[str, dict[str, Any]]
    request: str
    response: str


class Discovery(MutableStruct):
    """The document, ready to route and to check."""

    schemas: dict[str, dict[str, Any]]
    everywhere: set[str]
    methods: dict[tuple[str, int], list[Method]] = field(default_factory=lambda: defaultdict(list))

    def find(self, verb: str, path: str) -> tuple[Method, dict[str, str]]:
        """The method of a request, and the parameters of its path."""
        rest = path.removeprefix("/" if path.startswith(_OTHERS) else ROOT)
        if rest != path:
            for method in self.methods[verb, rest.count("/")]:
                match = _pattern(method.path).fullmatch(rest)
                if match:
                    values = {name: unquote(value) for name, value in match.groupdict().items()}
                    for name, value in values.items():
                        self.check({**method.parameters.get(name, {}), "type": "string"}, value, name)
                    return method, values
        raise ComputeError("notFound", f"Not found: {verb} {path}")

    def check_query(self, method: Method, query: dict[str, str]) -> None:
        """Refuse unknown and missing query parameters and those of another form."""
        parameters = {name: schema for name, schema in method.parameters.items() if schema.get("location") == "query"}
        for name, value in query.items():
            if name in parameters:
                self.check(parameters[name], _json_value(parameters[name], value), name)
            elif name.removeprefix("$") not in self.everywhere and name != "uploadType":  # Google takes `$alt` for `alt`
                words = f'Invalid JSON payload received. Unknown name "{name}": Cannot bind query parameter.'
                raise ComputeError("badRequest", words)
        for name, schema in parameters.items():
            if schema.get("required") and name not in query:
                raise required(name)

    def check_body(self, method: Method, body: Any) -> None:
        """Refuse a body that is not what the method takes."""
        if method.request:
            self.check({"$ref": method.request}, body, "resource")
        elif body:
            raise ComputeError("badRequest", f"{method.id} takes no body")

    def check_answer(self, method: Method, answer: Any) -> None:
        """Refuse an answer of ours that Google could not have sent: a defect of the emulator, so HTTP 500."""
        try:
            self.check({"$ref": method.response}, answer, method.id)
        except ComputeError as error:
            raise ComputeError("emulatorError", f"answer of {method.id}: {error.message}") from error

    def check(self, schema: dict[str, Any], value: Any, at: str) -> None:
        """Refuse a value that does not have the form of a schema, naming the place."""
        while "$ref" in schema:
            schema = self.schemas[schema["$ref"]]
        kind = schema.get("type", "any")
        if kind == "object":
            self._check_object(schema, value, at)
        elif kind == "array":
            if not isinstance(value, list):
                raise _bad(at, value, "a list is expected")
            for number, item in enumerate(value):
                self.check(schema["items"], item, f"{at}[{number}]")
        elif kind == "string":
            _check_string(schema, value, at)
        elif kind in _PLAIN and (not isinstance(value, _PLAIN[kind]) or isinstance(value, bool) != (kind == "boolean")):
            raise _bad(at, value, f"{'an' if kind == 'integer' else 'a'} {kind} is expected")

    def _check_object(self, schema: dict[str, Any], value: Any, at: str) -> None:
        if not isinstance(value, dict):
            raise _bad(at, value, "an object is expected")
        properties, others = schema.get("properties", {}), schema.get("additionalProperties")
        for name, item in value.items():
            inner = properties.get(name) or others
            if inner is None:
                words = f"Invalid JSON payload received. Unknown name \"{name}\" at '{at}': Cannot find field."
                raise ComputeError("badRequest", words)
            self.check(inner, item, f"{at}.{name}")


def _bad(at: str, value: Any, why: str) -> ComputeError:
    return ComputeError("invalid", f"Invalid value at '{at}': {why}, not {json.dumps(value)}")


def _json_value(schema: dict[str, Any], text: str) -> Any:
    """A query parameter's text as the JSON value that its schema speaks of."""
    kind = schema.get("type")
    if kind == "boolean":
        return {"true": True, "false": False}.get(text.lower(), text)
    if kind == "integer" and re.fullmatch(r"-?\d+", text):
        return int(text)
    return [text] if kind == "array" else text


def _check_string(schema: dict[str, Any], value: Any, at: str) -> None:
    if schema.get("format") in _INTEGERS:
        if isinstance(value, bool) or not re.fullmatch(r"-?\d+", str(value)):
            raise _bad(at, value, f"{schema['format']} is expected")
    elif not isinstance(value, str):
        raise _bad(at, value, "a string is expected")
    elif "enum" in schema and value not in schema["enum"]:
        raise _bad(at, value, "one of the listed values is expected")
    elif "pattern" in schema and not re.fullmatch(schema["pattern"], value):
        raise invalid(at, value, f"Must be a match of regex '{schema['pattern']}'")


@functools.cache
def _pattern(path: str) -> re.Pattern[str]:
    """Compiled when a request is compared with it: all of them take longer than reading the document."""
    return re.compile(re.sub(r"\{\+?(\w+)\}", r"(?P<\1>[^/]+)", path))


@functools.cache
def load() -> Discovery:
    """The document of the installed google-api-python-client."""
    package = find_spec("googleapiclient")
    if package is None or package.origin is None:
        raise ModuleNotFoundError(name="googleapiclient")
    folder = Path(package.origin).parent / _FOLDER
    document = json.loads((folder / "compute.v1.json").read_text())
    discovery = Discovery(document["schemas"], set(document["parameters"]))
    _collect(discovery, document["resources"])
    for name, methods in _METHODS.items():
        other = _apart(json.loads((folder / f"{name}.json").read_text()), name)
        discovery.schemas |= {f"{name} {schema}": form for schema, form in other["schemas"].items()}
        _collect(discovery, other["resources"], methods, other["servicePath"])
    return discovery


def _apart(part: Any, api: str) -> Any:
    """A part of a document whose references name the API as well: several have a schema `Policy`."""
    if isinstance(part, dict):
        return {key: f"{api} {value}" if key == "$ref" and isinstance(value, str) else _apart(value, api) for key, value in part.items()}
    return [_apart(value, api) for value in part] if isinstance(part, list) else part


def _collect(discovery: Discovery, resources: dict[str, Any], only: Collection[str] = (), before: str = "") -> None:
    for resource in resources.values():
        for description in resource.get("methods", {}).values():
            if only and description["id"] not in only:
                continue
            path = before + (description.get("flatPath") or description["path"])
            method = Method(
                id=description["id"],
                path=path,
                parameters=description.get("parameters", {}),
                request=description.get("request", {}).get("$ref", ""),
                response=description.get("response", {}).get("$ref", ""),
            )
            discovery.methods[description["httpMethod"], path.count("/")].append(method)
            upload = description.get("mediaUpload", {}).get("protocols", {}).get("simple", {}).get("path", "").removeprefix("/")
            if upload:  # whose body is the object itself
                discovery.methods[description["httpMethod"], upload.count("/")].append(replace(method, path=upload, request=""))
        _collect(discovery, resource.get("resources", {}), only, before)
