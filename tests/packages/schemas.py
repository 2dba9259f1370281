"""Schemas of Kubernetes' own OpenAPI description, for kubeconform: schemas.py SWAGGER DIRECTORY

One file for each kind, named as kubeconform's `{{ .ResourceKind }}{{ .KindSuffix }}.json`. Strict: fields that a kind does not have are
refused.
"""

import json
import pathlib
import sys

#: Written as a number or as a string.
EITHER = {
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"type": ["string", "integer"]},
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": ["string", "number"]},
}


def strict(name: str, definition: dict) -> dict:
    if name in EITHER:
        return EITHER[name]
    if "properties" in definition:
        return definition | {"additionalProperties": False}
    return definition


def main():
    swagger, directory = map(pathlib.Path, sys.argv[1:])
    definitions = {name: strict(name, one) for name, one in json.loads(swagger.read_text())["definitions"].items()}
    for name, definition in definitions.items():
        for kind in definition.get("x-kubernetes-group-version-kind", []):
            group = kind["group"].split(".")[0]
            file = "-".join(part.lower() for part in (kind["kind"], group, kind["version"]) if part) + ".json"
            # Other required definitions are found by reference.
            (directory / file).write_text(json.dumps({"$ref": f"#/definitions/{name}", "definitions": needed(name, definitions)}))


def needed(name: str, definitions: dict) -> dict:
    found, waiting = {}, [name]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found[one] = definitions[one]
            waiting += references(definitions[one])
    return found


def references(schema) -> list[str]:
    if isinstance(schema, dict):
        own = [schema["$ref"].removeprefix("#/definitions/")] if isinstance(schema.get("$ref"), str) else []
        return own + [name for value in schema.values() for name in references(value)]
    if isinstance(schema, list):
        return [name for value in schema for name in references(value)]
    return []


if __name__ == "__main__":
    main()
