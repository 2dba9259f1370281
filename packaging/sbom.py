#!/usr/bin/env python3
"""Writes a CycloneDX 1.5 bill of materials of the binary: packaging/sbom.py TARGET VERSION > sbom.cdx.json

The components are the crates that `cargo metadata` resolves for the target, reached from the package `peeklock` by normal and build
dependencies (what runs at build time is in the build's trust as well, and marked as excluded from the binary). Checksums are those of
Cargo.lock. Needs Python 3.11 and cargo.
"""

import json
import subprocess
import sys
import tomllib


def metadata(target: str) -> dict:
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def checksums() -> dict:
    with open("Cargo.lock", "rb") as lock:
        packages = tomllib.load(lock)["package"]
    return {(one["name"], one["version"]): one.get("checksum") for one in packages}


def reached(nodes: dict, root: str, kinds: set) -> set:
    """The packages that `root` depends on, itself included."""
    seen, waiting = set(), [root]
    while waiting:
        package = waiting.pop()
        if package in seen:
            continue
        seen.add(package)
        for dependency in nodes[package]["deps"]:
            if any(kind["kind"] in kinds for kind in dependency["dep_kinds"]):
                waiting.append(dependency["pkg"])
    return seen


def url(package: dict) -> str:
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package: dict, checksum: str | None, is_linked: bool) -> dict:
    described = {
        "type": "library",
        "bom-ref": url(package),
        "name": package["name"],
        "version": package["version"],
        "purl": url(package),
        "scope": "required" if is_linked else "excluded",
    }
    if package["license"]:
        described["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if checksum:
        described["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return described


def main() -> None:
    target, version = sys.argv[1:3]
    data = metadata(target)
    packages = {package["id"]: package for package in data["packages"]}
    nodes = {node["id"]: node for node in data["resolve"]["nodes"]}
    root = next(key for key, package in packages.items() if package["name"] == "peeklock")
    linked, all_of_them = reached(nodes, root, {None}), reached(nodes, root, {None, "build"})
    known = checksums()
    ordered = sorted(all_of_them - {root}, key=lambda key: url(packages[key]))
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": "peeklock",
                "name": "peeklock",
                "version": version,
                "licenses": [{"expression": packages[root]["license"]}],
                "properties": [{"name": "cargo:target", "value": target}],
            }
        },
        "components": [
            component(packages[key], known.get((packages[key]["name"], packages[key]["version"])), key in linked)
            for key in ordered
        ],
        "dependencies": [
            {
                "ref": "peeklock" if key == root else url(packages[key]),
                "dependsOn": sorted({url(packages[one["pkg"]]) for one in nodes[key]["deps"] if one["pkg"] in all_of_them}),
            }
            for key in [root, *ordered]
        ],
    }
    json.dump(document, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
