"""The report as Markdown for GitHub, with the pictures of its folder ``figures``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from leeway.lab.report.model import Chapter, Grid, Picture, Report, Row, Section, Standing
from leeway.lab.report.words import command, duration


def render(report: Report) -> str:
    """The text of the file."""
    return "\n".join(_lines(report)) + "\n"


def plain(text: str) -> str:
    """Plain text, in which `code` may be marked with backticks, as Markdown on one line."""
    parts = re.split(r"(`+.+?`+)", " ".join(text.split()))
    return "".join(part if i % 2 else re.sub(r"([\\`*_{}\[\]<>#|~$&])", r"\\\1", part) for i, part in enumerate(parts))


def _cell(text: str) -> str:
    """The same in a table, where a bar ends a cell even within code."""
    return re.sub(r"(?<!\\)\|", r"\\|", plain(text))


def _lines(report: Report) -> Iterator[str]:
    context = report.context
    yield f"# {plain(context.title)}\n"
    yield "## Summary\n"
    for section in report.failed:
        yield f"**{_link(section)} did not come to an end.**\n"
    yield from _table(
        ["chapter", "experiments", *(standing.words for standing in Standing), "runs", "processor time"],
        [_chapter_row(chapter) for chapter in report.chapters],
        "l" + "r" * (len(Standing) + 3),
    )
    if context.command:
        yield f"```\n{context.command}\n```\n"
    yield from _table(["", ""], [[name, _cell(value)] for name, value in report.facts], "ll")
    yield "## Contents\n"
    for chapter in report.chapters:
        yield f"- [{plain(chapter.title)}](#{chapter.anchor})"
        for section in chapter.sections:
            yield f"  - {plain(section.name)}: {_link(section)} {_tally(section)}".rstrip()
    for chapter in report.chapters:
        yield from _chapter(chapter, report)
    yield ""


def _chapter_row(chapter: Chapter) -> list[str]:
    counts = [str(chapter.counts[standing] or "") for standing in Standing]
    title = f"[{plain(chapter.title)}](#{chapter.anchor})"
    return [title, str(len(chapter.sections)), *counts, f"{chapter.runs:,}", duration(chapter.cpu_s)]


def _chapter(chapter: Chapter, report: Report) -> Iterator[str]:
    yield f'\n<a id="{chapter.anchor}"></a>\n'
    yield f"## {plain(chapter.title)}\n"
    if chapter.citation:
        yield f"{plain(chapter.citation)}\n"
    if chapter.text:
        yield f"{chapter.text}\n"
    if chapter.kind == "difference" and report.differing:
        yield from _table(
            ["experiment", "claim", "published", "here", "cause"],
            [
                [
                    f"[{row.section.id}](#{row.section.anchor})",
                    *(_cell(text) for text in (row.claim.text, row.claim.published, row.claim.found)),
                    _cause(row) if row.cause_id else _verdict(row),
                ]
                for row in report.differing
            ],
        )
    for section in chapter.sections:
        yield from _section(section)


def _section(section: Section) -> Iterator[str]:
    done = section.finished
    yield f'<a id="{section.anchor}"></a>\n'
    yield f"### {plain(section.title)}\n"
    yield f"`{section.id}`\n"
    if done.outcome is None:
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", done.error)), default=0))
        yield f"**This experiment did not come to an end.**\n\n{fence}\n{done.error}\n{fence}\n"
    if section.description:
        yield f"{section.description}\n"
    if section.explains:
        yield "Explains:\n"
        for row in section.explains:
            yield f"- [{row.section.id}](#{row.section.anchor}): {plain(row.claim.text)}"
        yield ""
    for grid in section.leading:
        yield from _grid(grid)
    if section.rows:
        yield from _table(["claim", "published", "here", "accepted", "verdict"], [_claim(row) for row in section.rows])
    for picture in section.pictures:
        yield from _picture(picture)
    for grid in section.following:
        yield from _grid(grid)
    if section.notes:
        yield "#### Notes\n"
        for note in section.notes:
            yield f"{note}\n"
    yield f"{section.cost} `{command(section.id, done.setting)}`\n"


def _claim(row: Row) -> list[str]:
    claim = row.claim
    texts = [_cell(text) for text in (claim.text, row.published, claim.found, claim.accept)]
    return [*texts, f"{_verdict(row)}: {_cause(row)}" if row.why else _verdict(row)]


def _verdict(row: Row) -> str:
    return f"{row.standing.sign} {row.standing.words}"


def _cause(row: Row) -> str:
    if row.cause:
        return f"[{_cell(row.cause.title)}](#{row.cause.anchor}): {_cell(row.why)}"
    return f"`{row.cause_id}`: {_cell(row.why)}" if row.cause_id else _cell(row.why)


def _picture(picture: Picture) -> Iterator[str]:
    caption = f"**{plain(picture.figure.name)}.** {plain(picture.figure.caption)}"
    if picture.error:
        yield f"{caption} *This figure cannot be drawn: {plain(picture.error)}*\n"
        return
    alt = plain(picture.figure.caption.replace("`", ""))
    yield f"[![{alt}](figures/{picture.name}.png)](figures/{picture.name}.svg)\n"
    yield f"{caption}\n"


def _grid(grid: Grid) -> Iterator[str]:
    yield f"**{plain(grid.table.name)}.** {plain(grid.table.caption)}{grid.remark}\n"
    if grid.long:
        yield f"<details><summary>{len(grid.rows)} rows</summary>\n"
    alignment = "".join("r" if kind == "number" else "l" for kind in grid.kinds)
    yield from _table(
        [_cell(column) for column in grid.table.columns],
        [[_cell(text) for text in row] for row in grid.rows],
        alignment,
    )
    if grid.long:
        yield "</details>\n"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], alignment: str = "") -> Iterator[str]:
    rule = {"l": "---", "r": "---:"}
    yield f"| {' | '.join(columns)} |"
    yield f"|{'|'.join(rule[each] for each in (alignment or 'l' * len(columns)))}|"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def _link(section: Section) -> str:
    return f"[{plain(section.title)}](#{section.anchor})"


def _tally(section: Section) -> str:
    if section.finished.outcome is None:
        return "failed"
    return " ".join(f"{standing.sign}{number}" for standing, number in section.counts.shown)
