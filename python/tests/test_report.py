"""The report: one page without a network, the same as Markdown, the claims as JSON."""

import dataclasses
import errno
import json
import platform
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import demonstration
import numpy as np
import pytest
from demonstration import HOSTILE
from markdown_it import MarkdownIt

import leeway
from leeway.lab.driver import Finished
from leeway.lab.experiment import Claim, Experiment, Figure, Outcome, Setting, Table
from leeway.lab.report import Context, files, html, markdown, model, words, write
from leeway.lab.statistics import Interval

pytestmark = pytest.mark.filterwarnings("ignore:.*cannot be drawn:RuntimeWarning")

VOID = {"meta", "img", "br", "hr", "link", "input"}


class Page(HTMLParser):
    """Elements of a page with their attributes, and its text; complains about elements that are not closed."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attrs):
        assert len({name for name, _ in attrs}) == len(attrs), f"an attribute of <{tag}> is given twice"
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> at {self.getpos()}"

    def handle_data(self, data):
        if not set(self.open) & {"script", "style"}:
            self.words.append(data)

    def all(self, name: str) -> list[str]:
        return [attributes[name] or "" for _, attributes in self.elements if name in attributes]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("report")
    assert write(demonstration.finished(), out, demonstration.CONTEXT) == out / "report.html"
    return out


@pytest.fixture(scope="module")
def report() -> model.Report:
    return model.build(demonstration.finished(), demonstration.CONTEXT)


@pytest.fixture(scope="module")
def page(folder) -> Page:
    return Page((folder / "report.html").read_text())


@pytest.fixture(scope="module")
def text(folder) -> str:
    return (folder / "report.md").read_text()


@pytest.fixture(scope="module")
def record(folder) -> dict:
    return json.loads((folder / "claims.json").read_text())


def test_folder_holds_what_was_promised_and_nothing_else(folder):
    assert {path.name for path in folder.iterdir()} == {"report.html", "report.md", "claims.json", "figures"}
    names = {path.stem for path in (folder / "figures").iterdir()}
    assert len(names) == 7
    assert {path.name for path in (folder / "figures").iterdir()} == {
        name + end for name in names for end in (".svg", ".png")
    }


def test_page_needs_nothing_beside_it(page):
    for tag, attributes in page.elements:
        assert tag not in {"link", "iframe", "object", "embed", "base"}
        for name in ("src", "srcset", "poster", "data", "background"):
            assert (attributes.get(name) or "data:").startswith("data:")
        if tag not in {"a"}:
            assert not re.match("https?:|//", attributes.get("href") or "")
        assert "url(http" not in (attributes.get("style") or "")


def test_style_and_script_load_nothing(folder):
    head = re.findall("<(?:style|script)>(.*?)</(?:style|script)>", (folder / "report.html").read_text(), re.DOTALL)
    assert len(head) == 2
    assert not any(re.search(r"@import|url\(|https?:|fetch\(|import\(", part) for part in head)


def test_no_id_occurs_twice_and_every_link_leads_somewhere(page):
    ids = page.all("id")
    assert len(ids) == len(set(ids))
    inside = [href[1:] for href in page.all("href") if href.startswith("#")]
    assert len(inside) > 30
    assert set(inside) <= set(ids)
    for name in ("aria-labelledby", "aria-describedby"):
        assert set(page.all(name)) <= set(ids)


def test_references_within_figures_lead_somewhere(folder):
    page = (folder / "report.html").read_text()
    used = set(re.findall(r"url\(#([^)]*)\)", page))
    assert used and used <= set(re.findall(r'\bid="([^"]*)"', page))


def test_headings_descend_one_by_one(page):
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(below <= above + 1 for above, below in pairwise(levels))


def test_pictures_have_names(page):
    for tag, attributes in page.elements:
        if tag == "img":
            assert attributes["alt"]
        if tag == "svg":
            assert attributes["role"] == "img" and attributes["aria-label"]


def squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text.replace("`", ""))


def test_page_says_everything(page):
    shown = squeezed(page.text)
    for finished in demonstration.finished():
        assert finished.experiment.id in shown
        assert squeezed(finished.experiment.title) in shown
        for claim in finished.outcome.claims if finished.outcome else ():
            for part in (claim.text, claim.published, claim.found, claim.accept):
                assert squeezed(part) in shown
        for figure in finished.outcome.figures if finished.outcome else ():
            assert squeezed(figure.caption) in shown
        for table in finished.outcome.tables if finished.outcome else ():
            for cell in (table.name, table.caption, *table.columns, *(row[0] for row in table.rows)):
                assert squeezed(words.cell(cell)) in shown
    for part in (*demonstration.CONTEXT.packages, demonstration.CONTEXT.machine, demonstration.CONTEXT.command):
        assert squeezed(part) in shown
    assert "1h12min" in shown


def test_page_shows_each_figure_once(page):
    drawn = sum(tag == "svg" for tag, _ in page.elements) + sum(tag == "img" for tag, _ in page.elements)
    assert drawn == 7
    assert "This figure cannot be drawn: ZeroDivisionError: nothing was delivered" in page.text


@pytest.mark.parametrize(("limit", "as_image"), [(400_000, False), (50_000, True)])
def test_large_figure_becomes_an_image(limit, as_image, monkeypatch):
    monkeypatch.setattr(model, "LARGEST_SVG", limit)
    x, y = np.random.default_rng(1).random((2, 2_000))
    figure = Figure("many", "Many points.", lambda canvas: canvas.subplots().scatter(x, y))
    page = Page(html.render(model.build([one_experiment(Outcome(figures=[figure]))], Context())))
    assert ("img" in dict(page.elements), "svg" in dict(page.elements)) == (as_image, not as_image)


def test_failed_experiment_is_shown_as_such(page, text, record):
    assert "1 experiment did not come to an end: trang2014:fig5.4" in page.text
    assert "This experiment did not come to an end. ValueError" in page.text
    assert "**This experiment did not come to an end.**\n\n```\nValueError" in text
    assert [each["id"] for each in record["experiments"] if each["error"]] == ["trang2014:fig5.4"]


def test_verdicts_are_words_and_are_counted(report, page, record):
    assert {standing.name: number for standing, number in report.counts.items()} == {
        "HOLDS": 3,
        "EXPLAINED": 1,
        "DIFFERS": 2,
        "OPEN": 1,
    }
    assert record["counts"] == {"holds": 3, "explained": 1, "differs": 2, "open": 1}
    for standing in model.Standing:
        assert f"{standing.sign} {standing.words}" in page.text


def test_cause_is_linked_both_ways(page, text):
    assert "Cause. The initial window : alone, TCP fills 94 % of the link already" in page.text
    assert "Explains: rossi2010:fig2a : utilisation above that of TCP alone" in page.text
    hrefs = page.all("href")
    assert hrefs.count("#difference-initial-window") >= 3
    assert "[The initial window](#difference-initial-window): alone" in text
    assert "- [rossi2010:fig2a](#rossi2010-fig2a): utilisation above" in text


def test_cause_that_no_experiment_shows_is_only_a_remark(page):
    assert "Remark. it may be the cwnd" in page.text
    assert "Remark. difference:absent-from-it: not known by this name" in page.text


def test_cause_in_an_experiment_that_was_not_run_is_named(monkeypatch):
    monkeypatch.setattr(model, "registered", lambda: frozenset({"difference:absent-from-it"}))
    claims = [Claim.fact("elsewhere", "a", "b", False, why="difference:absent-from-it: not known by this name")]
    report = model.build([one_experiment(Outcome(claims))], Context())
    assert report.counts[model.Standing.EXPLAINED] == 1
    assert "(not part of this report)" in html.render(report)


def test_scoreboard_comes_first_and_differences_last(report):
    assert [chapter.anchor for chapter in report.chapters] == ["scoreboard", "rossi2010", "trang2014", "differences"]


def test_hostile_text_stays_text(folder, page):
    assert sum(tag == "script" for tag, _ in page.elements) == 1
    assert not any(tag in {"b", "i"} and attributes for tag, attributes in page.elements)
    assert not any(href.startswith("javascript") for href in page.all("href"))
    assert page.text.count('<script>alert("x")</script>') > 8


def test_hostile_text_stays_text_in_markdown():
    """All but descriptions and notes, which are Markdown."""
    table = Table(HOSTILE, HOSTILE, [HOSTILE], [[HOSTILE]])
    figure = Figure(HOSTILE, HOSTILE, lambda canvas: None)
    claims = [Claim.fact(HOSTILE, HOSTILE, HOSTILE, False, HOSTILE, HOSTILE)]
    experiment = one_experiment(Outcome(claims, [figure], [table]))
    failed = dataclasses.replace(experiment, outcome=None, error=HOSTILE)
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(
        markdown.render(model.build([experiment, failed], Context(title=HOSTILE)))
    )
    inside = [child for token in tokens for child in token.children or ()]
    raw = {token.content.strip() for token in tokens + inside if token.type in ("html_block", "html_inline")}
    assert raw and all(re.match('</?a( id="[a-z0-9-]*")?>', piece) for piece in raw), raw
    links = {child.attrGet("href") for child in inside if child.type == "link_open"}
    assert links and all(re.match("#|figures/", link) for link in links), links
    assert sum(child.type == "code_inline" and child.content == "<i>" for child in inside) > 8


def test_markdown_tables_are_whole(text):
    table: list[int] = []
    for line in [*text.splitlines(), ""]:
        bars = len(re.findall(r"(?<!\\)\|", line))
        if line.startswith("|"):
            table.append(bars)
        elif table:
            assert len(set(table)) == 1 and len(table) > 2, line
            table = []


def test_markdown_links_resolve(folder, text):
    anchors = set(re.findall(r'<a id="([^"]+)"></a>', text))
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert sum(link.startswith("figures/") for link in links) == 14
    for link in links:
        if link.startswith("#"):
            assert link[1:] in anchors
        elif link.startswith("figures/"):
            assert (folder / link).is_file()


def test_markdown_says_everything(text):
    shown = squeezed(re.sub(r"\\(.)", r"\1", text))
    for finished in demonstration.finished():
        assert finished.experiment.id in shown
        for claim in finished.outcome.claims if finished.outcome else ():
            assert squeezed(claim.text) in shown and squeezed(claim.found) in shown


def test_claims_as_json(record):
    assert record["context"]["engine"] == demonstration.CONTEXT.engine
    by_id = {each["id"]: each for each in record["experiments"]}
    assert len(by_id) == 5
    claim = by_id["rossi2010:fig2a"]["claims"][1]
    assert claim == {
        "text": "utilisation above that of TCP alone",
        "published": "16 %",
        "found": "3.1 ± 0.2 % (n = 10)",
        "accept": "11 to 21 %",
        "verdict": "differs",
        "cause": "difference:initial-window",
        "why": "alone, TCP fills 94 % of the link already",
    }
    rows = by_id["rossi2010:fig2a"]["tables"][0]["rows"]
    assert rows[0][2] == {"mean": 0.123, "half": 0.01, "count": 10}
    assert rows[1][3] is None and rows[1][4] == 10 and rows[2][1] is None


def test_same_input_same_bytes(folder, tmp_path):
    write(demonstration.finished(), tmp_path, demonstration.CONTEXT)
    one, two = ({p.relative_to(d): p.read_bytes() for p in d.rglob("*.*")} for d in (folder, tmp_path))
    assert one.keys() == two.keys()
    assert [name for name in one if one[name] != two[name]] == []


def test_long_tables_are_folded(page, text):
    assert "30 rows" in page.text
    assert "<details><summary>30 rows</summary>" in text


def test_nothing_to_report(tmp_path):
    page = Page(write([], tmp_path, Context(title="Nothing")).read_text())
    assert "Summary" in page.text


def test_figures_of_the_report_before_go_and_other_files_stay(tmp_path):
    figures = tmp_path / "figures"
    for name in ("one", "two"):
        write([one_experiment(Outcome(figures=[Figure(name, "", lambda canvas: None)]))], tmp_path, Context())
        (figures / "mine.png").write_text("mine")
        assert {path.name for path in figures.iterdir()} == {f"a-b-{name}.svg", f"a-b-{name}.png", "mine.png"}
    for damaged in ("{", "[]", '{"experiments": [{"figures": ["../report"]}]}', '{"experiments": 1}'):
        (tmp_path / "claims.json").write_text(damaged)
        write([], tmp_path, Context())
    assert (tmp_path / "report.md").exists() and (figures / "a-b-two.svg").exists()


def test_folder_is_a_file(tmp_path):
    (tmp_path / "report").write_text("mine")
    with pytest.raises(OSError, match=r"cannot write the report: .*report"):
        write([], tmp_path / "report", Context())
    assert (tmp_path / "report").read_text() == "mine"


def test_disk_full(tmp_path, monkeypatch):
    write([], tmp_path, Context(title="before"))

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="cannot write the report: the disk is full") as error:
        write([], tmp_path, Context(title="after"))
    assert error.value.errno == errno.ENOSPC
    assert "before" in (tmp_path / "report.html").read_text()
    assert not list(tmp_path.glob(".*"))


def one_experiment(outcome: Outcome, name: str = "a:b") -> Finished:
    def steps(setting):
        """Text."""

    return Finished(Experiment(name, "Title", steps), Setting(), outcome, "", 1, 0, 1.0, 1.0, 1)


def test_context_of_this_machine():
    context = Context.here("leeway-lab report", 12.5, title="Here")
    assert context.engine == leeway.ENGINE
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", context.date)
    assert context.packages["numpy"] == np.__version__
    assert context.python == platform.python_version()
    assert re.search(r"\d cores?\b", context.machine) and context.system
    assert (context.command, context.wall_s, context.title) == ("leeway-lab report", 12.5, "Here")


def test_anchors_of_similar_names_differ():
    empty = Outcome()
    report = model.build([one_experiment(empty, name) for name in ("a:b", "a-b", "summary:", "A b")], Context())
    anchors = [section.anchor for section in report.sections]
    assert len(set(anchors)) == 4 and "summary" not in anchors


def test_number_of_runs_is_said_once_where_it_is_the_same():
    same = Table("t", "c", ["x"], [[Interval(1.5, 0.1, 7)], [Interval(2.5, 0.1, 7)]])
    mixed = dataclasses.replace(same, rows=[[Interval(1.5, 0.1, 7)], [Interval(2.5, 0.1, 8)]])
    report = model.build([one_experiment(Outcome(tables=[same, mixed]))], Context())
    one, other = report.sections[0].grids
    assert one.rows == [["1.5 ± 0.1"], ["2.5 ± 0.1"]] and "n = 7" in one.remark
    assert other.rows == [["1.5 ± 0.1 (n = 7)"], ["2.5 ± 0.1 (n = 8)"]] and other.remark == ""


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "-"),
        (float("nan"), "-"),
        (float("-inf"), "-∞"),
        (0.123456, "0.1235"),
        (12345.678, "12346"),
        (3.0, "3"),
        (7, "7"),
        (True, "yes"),
        ("text", "text"),
        (Interval(1.0, float("inf"), 1), "1 (one run)"),
        (Interval(float("nan"), float("inf"), 0), "-"),
    ],
)
def test_cells(value, expected):
    assert words.cell(value) == expected


@pytest.mark.parametrize(
    "text", ["1", "-0.5", "1e-07", "0.5 ± 0.1", "3 ± 1.2e-05 (n = 4)", "17%", "17 %", "-", "", "∞"]
)
def test_numbers_are_known_as_such(text):
    assert words.is_number(text)


@pytest.mark.parametrize("text", ["a", "1 a", "5 ms", "ledbat", "0.27 (komnios)", "±", "%"])
def test_and_other_text_is_not(text):
    assert not words.is_number(text)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0, "0.0 s"), (9.94, "9.9 s"), (9.96, "10 s"), (59.6, "1 min 0 s"), (3599.7, "1 h 0 min"), (7260, "2 h 1 min")],
)
def test_durations(seconds, expected):
    assert words.duration(seconds) == expected


def test_command_repeats_the_setting():
    assert words.command("a:b", Setting()) == "leeway-lab run a:b"
    assert words.command("a:b", Setting(True, 5, 300)) == "leeway-lab run a:b --full --seeds 5 --sample 300"
    judged = Setting(laws=("cubic", "ledbat:target=1 ms"), half="report")
    assert words.command("a:b", judged) == "leeway-lab run a:b --law cubic --law 'ledbat:target=1 ms' --half report"


def test_notes_are_markdown_without_html_and_images():
    note = "*one* `two` <b>three</b> ![four](https://example.org/x.png)\n\n# five"
    report = model.build([one_experiment(Outcome(notes=[note]))], Context())
    page = html.render(report)
    assert "<em>one</em> <code>two</code> &lt;b&gt;three&lt;/b&gt;" in page
    assert "<img" not in page and "<h1>five" not in page


def test_only_an_open_claim_is_open():
    claims = [Claim.fact("ours", "", "yes", True), Claim.open("theirs", "no")]
    section = model.build([one_experiment(Outcome(claims=claims))], Context()).sections[0]
    assert [row.published for row in section.rows] == ["-", "open"]


def test_claim_without_reason_has_no_remark():
    claims = [Claim.fact("it is", "yes", "no", False)]
    report = model.build([one_experiment(Outcome(claims=claims))], Context())
    assert "Remark" not in html.render(report)
    assert "✗ differs, cause unknown" in markdown.render(report)
