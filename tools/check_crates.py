#!/usr/bin/env python3
"""Checks that every crate which is not `publish = false` can be packaged.

`cargo package` makes each crate's archive without building it. Cargo must have nothing to warn
of. An archive must have its licences, a README, and the C headers that its build script reads.
The manifest must have what crates.io shows.
"""

import json
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Crates whose build script compiles the C laws.
WITH_HEADERS = {"leeway-control", "leeway-kernel"}
FIELDS = ["description", "license", "readme", "repository", "rust_version"]


def main() -> int:
    metadata = json.loads(cargo("metadata", "--format-version=1", "--no-deps", "--locked").stdout)
    crates = [crate for crate in metadata["packages"] if crate["publish"] is None]
    private = [crate["name"] for crate in metadata["packages"] if crate["publish"] is not None]
    wrong = [problem for crate in crates for problem in manifest(crate)]
    without = [f"--exclude={name}" for name in private]
    made = cargo("package", "--workspace", "--no-verify", "--allow-dirty", "--exclude-lockfile", *without)
    if made.returncode != 0 or "warning:" in made.stderr:
        wrong.append(f"cargo package:\n{made.stderr}")
    else:
        folder = Path(metadata["target_directory"]) / "package"
        wrong += [problem for crate in crates for problem in archive(crate, folder)]
    for problem in wrong:
        print(problem, file=sys.stderr)
    return 1 if wrong else 0


def cargo(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["cargo", *words], cwd=ROOT, text=True, capture_output=True)


def manifest(crate: dict) -> list[str]:
    """What is missing in a manifest."""
    wrong = [f"{crate['name']}: no {field}" for field in FIELDS if not crate[field]]
    for field in ("keywords", "categories"):
        if not 1 <= len(crate[field]) <= 5:
            wrong.append(f"{crate['name']}: one to five {field}, not {len(crate[field])}")
    for other in crate["dependencies"]:
        wanted = f"^{crate['version']}"
        if other["name"].startswith("leeway-") and other["req"] != wanted:
            wrong.append(f"{crate['name']}: {other['name']} is wanted as {other['req']}, not {wanted}")
    return wrong


def archive(crate: dict, folder: Path) -> list[str]:
    """What is missing in an archive."""
    stem = f"{crate['name']}-{crate['version']}"
    with tarfile.open(folder / f"{stem}.crate") as packed:
        names = {name.removeprefix(f"{stem}/") for name in packed.getnames()}
    # Cargo puts a README from outside the crate at the archive's top.
    readme = Path(crate["readme"])
    needed = {"LICENSE-MIT", "LICENSE-APACHE", readme.name if ".." in readme.parts else str(readme)}
    if crate["name"] in WITH_HEADERS:
        needed |= {"LICENSE-GPL-2.0"}
        needed |= {f"include/{header.name}" for header in (ROOT / "control").glob("*.h")}
    return [f"{stem}.crate: {name} is missing" for name in sorted(needed - names)]


if __name__ == "__main__":
    sys.exit(main())
