"""Pages of the book made of what the program says of itself: its help, the schema of its files, its examples."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

COMMAND = re.compile(r"^  ([a-z][a-z-]*)  ", re.MULTILINE)


def command_line(program: str) -> str:
    lines = [
        "# The command line",
        "",
        "Every command of `leeway`, as its own `--help` describes it. For people who look up an option.",
        "",
    ]
    for command, text in helps(program, []):
        lines += [f"{'##' if len(command) < 2 else '###'} leeway {' '.join(command)}".rstrip(), ""]
        lines += ["```text", text.rstrip(), "```", ""]
    return "\n".join(lines)


def helps(program: str, command: list[str]) -> list[tuple[list[str], str]]:
    """The help of a command and of all its commands, in the order in which it names them."""
    text = said(program, *command, "--help")
    listed = re.search(r"^Commands:\n((?:  .*\n|\n)+)", text, re.MULTILINE)
    names = [name for name in COMMAND.findall(listed[1]) if name != "help"] if listed else []
    found = [(command, text)]
    for name in names:
        found += helps(program, [*command, name])
    return found


def scenario_fields(program: str) -> str:
    schema = json.loads(said(program, "schema"))
    lines = [
        "# Fields of a scenario",
        "",
        "Every table of a scenario file with its fields, as `leeway schema` describes them to editors.",
        "[Scenario files](../scenarios.md) explains them with examples.",
        "",
        "## At the top",
        "",
        *fields(schema),
    ]
    for name, definition in sorted(schema["$defs"].items()):
        lines += [f"## {name}", "", *paragraph(definition), *fields(definition), *forms(definition)]
    return "\n".join(lines) + "\n"


def forms(definition: dict[str, Any]) -> list[str]:
    """What a value may be that has several forms: a word, a text, or one of several tables."""
    lines: list[str] = []
    for form in definition.get("oneOf", definition.get("anyOf", [])):
        word = form.get("const", form.get("properties", {}).get("kind", {}).get("const"))
        about = flat(form.get("description", ""))
        if word is not None:
            lines += [f"- `{word}`" + (f": {about}" if about else ""), ""]
        elif about or "properties" not in form:
            lines += [f"- {about or kind(form)}", ""]
        lines += [f"    {line}" if line else "" for line in fields(form)]
    return lines


def fields(table: dict[str, Any]) -> list[str]:
    properties = {name: field for name, field in table.get("properties", {}).items() if name != "kind"}
    if not properties:
        return []
    lines = ["| field | value | default | meaning |", "|---|---|---|---|"]
    for name, field in properties.items():
        needed = "required" if name in table.get("required", []) else ""
        default = f"`{json.dumps(field['default'])}`" if field.get("default") is not None else needed
        lines.append(f"| `{name}` | {kind(field)} | {cell(default)} | {cell(flat(field.get('description', '')))} |")
    return [*lines, ""]


def kind(field: dict[str, Any]) -> str:
    """The type of a value in words, with a link to its own section where it has one."""
    if "$ref" in field:
        name = field["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return ", ".join(f"`{word}`" for word in field["enum"])
    for several in ("anyOf", "oneOf", "allOf"):
        if several in field:
            return " or ".join(dict.fromkeys(kind(one) for one in field[several] if one.get("type") != "null"))
    if field.get("type") == "array":
        return f"list of {kind(field['items'])}" if isinstance(field.get("items"), dict) else "list"
    words = field.get("type", "anything")
    words = [words] if isinstance(words, str) else [word for word in words if word != "null"]
    names = {"string": "text", "object": "table", "boolean": "true or false"}
    return " or ".join(names.get(word, word) for word in words)


def gateway_configuration(file: Path) -> str:
    return (
        "# The gateway's configuration\n\n"
        "Every setting of `/etc/leeway/gateway.toml`, from the file that comes with the program\n"
        "(`packaging/gateway.toml`). [The gateway](../gateway.md) explains what the settings do.\n\n"
        f"```toml\n{file.read_text(encoding='utf-8').rstrip()}\n```\n"
    )


def paragraph(definition: dict[str, Any]) -> list[str]:
    return [flat(definition["description"]), ""] if "description" in definition else []


def flat(text: str) -> str:
    return " ".join(text.split())


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def said(program: str, *words: str) -> str:
    return subprocess.run([program, *words], check=True, capture_output=True, text=True).stdout
