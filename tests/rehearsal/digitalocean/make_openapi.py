"""Writes the part of DigitalOcean's OpenAPI document that the embedded DigitalOcean checks with.

    git clone https://github.com/digitalocean/openapi && cd openapi    # or any git directory of it
    python tests/rehearsal/digitalocean/make_openapi.py path/to/openapi/.git COMMIT

The document is a tree of YAML files (Apache-2.0). What is written is one JSON file with the operations below and the schemas that they
need. Descriptions, examples and code samples are left out; nothing else is changed.
"""

from __future__ import annotations

import functools
import json
import posixpath
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

TARGET = Path(__file__).parents[3] / "provision/rehearsal/digitalocean/openapi.json"
ENTRY = "specification/DigitalOcean-public.v2.yaml"
SCHEMAS = "#/components/schemas/"
# What is not part of what a request or an answer may be.
WORDS = {"description", "example", "examples", "summary", "title", "externalDocs", "deprecated"}
OPERATIONS = (
    *("account_get", "sshKeys_list", "sshKeys_create", "sshKeys_get", "sshKeys_delete"),
    *("droplets_create", "droplets_list", "droplets_get", "droplets_destroy", "droplets_destroy_byTag"),
    *("dropletActions_post", "dropletActions_get", "actions_get"),
    *("sizes_list", "regions_list", "images_list", "images_get"),
    *("tags_create", "tags_list", "tags_get", "tags_delete", "tags_assign_resources", "tags_unassign_resources"),
    *("firewalls_create", "firewalls_list", "firewalls_get", "firewalls_update", "firewalls_delete"),
    *("vpcs_list", "vpcs_get", "vpcs_create", "vpcs_delete"),
    *("volumes_create", "volumes_list", "volumes_get", "volumes_delete", "volumeActions_post_byId"),
)
NOTICE = (
    "Part of DigitalOcean's OpenAPI document, https://github.com/digitalocean/openapi, licensed under the Apache License, Version 2.0 "
    "(https://www.apache.org/licenses/LICENSE-2.0). Changed by gpuprov: operations that it does not use, descriptions, examples and code "
    "samples are left out, and the files are one. Made by tests/rehearsal/digitalocean/make_openapi.py."
)


class Yaml12(yaml.SafeLoader):
    """A loader to which `off`, a status of droplets, is a word, as in the YAML of OpenAPI."""


Yaml12.yaml_implicit_resolvers = {
    letter: [(tag, form) for tag, form in resolvers if tag != "tag:yaml.org,2002:bool"]
    for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
Yaml12.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("true|false"), list("tf"))


class Bundle:
    """The files of one commit, and the schemas that were met while the operations were written."""

    def __init__(self, folder: Path, commit: str) -> None:
        self.folder, self.commit = folder, commit
        self.schemas: dict[str, Any] = {}
        self.file = functools.cache(self._file)

    def git(self, *words: str) -> str:
        return subprocess.run(["git", f"--git-dir={self.folder}", *words], check=True, capture_output=True, text=True).stdout

    def _file(self, path: str) -> Any:
        return yaml.load(self.git("show", f"{self.commit}:{path}"), Yaml12)  # noqa: S506 - it is a safe loader

    def target(self, reference: str, path: str) -> tuple[Any, str, str]:
        """What a reference in a file means: the value, its file, and a name for it."""
        where, _, pointer = reference.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(path), where)) if where else path
        value = self.file(path)
        for key in filter(None, pointer.split("/")):
            value = value[key]
        name = path.removeprefix("specification/").removeprefix("resources/").removesuffix(".yml") + pointer
        return value, path, name.replace("/", ".")

    def inline(self, node: Any, path: str) -> tuple[Any, str]:
        """The node itself where it is a reference, for parameters, answers and headers."""
        while isinstance(node, dict) and "$ref" in node:
            node, path, _ = self.target(node["$ref"], path)
        return node, path

    def schema(self, node: Any, path: str, key: str = "") -> Any:
        """A schema whose references lead into the one file; in `properties` and `mapping` the keys are names and not words."""
        if isinstance(node, list):
            return [self.schema(item, path) for item in node]
        if not isinstance(node, dict):
            return self.reference(node, path) if key == "mapping" else node
        if "$ref" in node:
            return {"$ref": self.reference(node["$ref"], path)}
        if key == "mapping":
            return {name: self.reference(link, path) for name, link in node.items()}
        named = key == "properties"
        kept = {name: value for name, value in node.items() if named or not (name in WORDS or name.startswith("x-"))}
        return {name: self.schema(value, path, "" if named else name) for name, value in kept.items()}

    def reference(self, link: str, path: str) -> str:
        value, where, name = self.target(link, path)
        if name not in self.schemas:
            self.schemas[name] = {}  # it may refer to itself
            self.schemas[name] = self.schema(value, where)
        return SCHEMAS + name

    def operation(self, node: Any, path: str) -> dict[str, Any]:
        node, path = self.inline(node, path)
        out: dict[str, Any] = {"operationId": node["operationId"], "security": node["security"], "parameters": [], "responses": {}}
        for given in node.get("parameters", []):
            parameter, where = self.inline(given, path)
            kept = {key: parameter[key] for key in ("name", "in", "required") if key in parameter}
            out["parameters"].append({**kept, "schema": self.schema(parameter["schema"], where)})
        if "requestBody" in node:
            body, where = self.inline(node["requestBody"], path)
            out["requestBody"] = {"required": body.get("required", False), "content": self.content(body, where)}
        for status, given in node["responses"].items():
            answer, where = self.inline(given, path)
            headers = {name: self.header(header, where) for name, header in answer.get("headers", {}).items()}
            out["responses"][status] = {"description": answer["description"], "headers": headers, "content": self.content(answer, where)}
        return out

    def content(self, node: Any, path: str) -> dict[str, Any]:
        return {
            kind: {"schema": self.schema(value["schema"], path)} for kind, value in node.get("content", {}).items() if "schema" in value
        }

    def header(self, node: Any, path: str) -> dict[str, Any]:
        header, where = self.inline(node, path)
        return {"schema": self.schema(header["schema"], where)}

    def document(self) -> dict[str, Any]:
        entry = self.file(ENTRY)
        paths: dict[str, Any] = {}
        for path, item in entry["paths"].items():
            for verb, node in item.items():
                if verb in {"get", "post", "put", "delete", "patch"}:
                    whole, _ = self.inline(node, ENTRY)
                    if whole["operationId"] in OPERATIONS:
                        paths.setdefault(path, {})[verb] = self.operation(node, ENTRY)
        written = {operation["operationId"] for item in paths.values() for operation in item.values()}
        assert written == set(OPERATIONS), set(OPERATIONS) - written
        scheme, _ = self.inline(entry["components"]["securitySchemes"]["bearer_auth"], ENTRY)
        commit, date = self.git("log", "-1", "--format=%H %cs", self.commit).split()
        return {
            "openapi": entry["openapi"],
            "info": {"title": entry["info"]["title"], "version": entry["info"]["version"], "license": entry["info"]["license"]},
            "x-notice": NOTICE,
            "x-source": {"commit": commit, "date": date},
            "paths": paths,
            "components": {
                "schemas": dict(sorted(self.schemas.items())),
                "securitySchemes": {"bearer_auth": {key: scheme[key] for key in ("type", "scheme")}},
            },
        }


def main() -> None:
    folder, commit = sys.argv[1:]
    TARGET.write_text(json.dumps(Bundle(Path(folder), commit).document(), indent=1) + "\n")


if __name__ == "__main__":
    main()
