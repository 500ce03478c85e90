"""The report: one whole file that needs nothing, holds what was found, and lets no name become markup."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from report_cases import HOSTILE, hostile, real
from tightset.metrics import Band
from tightset.plot.theme import DARK, LIGHT
from tightset.report import write_report
from tightset.report.svg import _inline, variables

VOID = {"meta", "link", "br", "img", "hr", "input"}


class Page(HTMLParser):
    """Elements with their attributes and text; refuses tags that do not close in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.texts = [], [], {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append((tag, len(self.elements) - 1))

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        opened, _ = self.open.pop()
        assert opened == tag, f"{tag} closes {opened}"

    def handle_data(self, data):
        for _, i in self.open:
            self.texts[i] = self.texts.get(i, "") + data

    def all(self, tag):
        return [(attrs, self.texts.get(i, "")) for i, (t, attrs) in enumerate(self.elements) if t == tag]


def written(tmp_path, *args, **kwargs):
    path = tmp_path / "report.html"
    write_report(path, *args, **kwargs)
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return written(tmp_path_factory.mktemp("report"), real())


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


def cells_of(text, caption):
    """Return the rows of a table as lists of texts."""
    table = next(t for t in re.findall(r"<table>.*?</table>", text, re.DOTALL) if caption in t)
    rows = re.findall(r"<tr.*?</tr>", table, re.DOTALL)
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]


def test_is_one_whole_document(text, page):
    assert text.startswith("<!DOCTYPE html>")
    assert page.all("html")[0][0]["lang"] == "en"
    assert [title for _, title in page.all("title")] == ["carer: prediction sets compared"]
    assert [heading for _, heading in page.all("h1")] == ["carer"]
    ids = [attrs["id"] for _, attrs in page.elements if "id" in attrs]
    assert len(ids) == len(set(ids))


def test_needs_nothing_from_elsewhere(text, page):
    assert not page.all("script")
    assert not page.all("link")
    assert not page.all("img")
    ids = {attrs["id"] for _, attrs in page.elements if "id" in attrs}
    for _, attrs in page.elements:
        assert "src" not in attrs
        for name in ("href", "xlink:href"):
            if name in attrs:
                assert attrs[name].removeprefix("#") in ids
    assert set(re.findall(r"url\(#?([^)]*)\)", text)) <= ids
    assert "@import" not in text
    assert not re.search(r"https?:|//[a-z]", text)


def test_says_what_was_found(text):
    found = real()
    rows = cells_of(text, "Labels in a set")
    assert rows[0] == ["method", "0.90", "0.95", "0.99"]
    assert [row[0] for row in rows[1:]] == list(found.recipes)
    for row in rows[1:]:
        for cell, level in zip(row[1:], found.levels, strict=True):
            sizes = found.cell(row[0], level).mean_size
            assert cell.startswith(f"{sizes.mean():.3f}")
            assert f"± {sizes.std(ddof=1):.3f}" in cell
    for row in cells_of(text, "Coverage: mean")[1:]:
        for cell, level in zip(row[1:], found.levels, strict=True):
            assert cell.startswith(f"{found.cell(row[0], level).coverage.mean():.4f}")
    for detail, row in zip(found.details, cells_of(text, "Methods at level")[1:], strict=True):
        cell = found.cell(row[0], 0.9)
        assert row[-1] == detail.candidate
        assert row[4].startswith(f"{cell.worst_stratum_coverage:.3f}")
        assert f"entropy {cell.worst_stratum}" in row[4]
        assert row[5].startswith(f"{cell.worst_class_coverage:.3f}")
        assert f"label {cell.worst_class}<" in row[5]
        assert row[6] == f"{1e3 * cell.seconds:.1f} ms" or row[6] == f"{cell.seconds:.1f} s"
    for detail, row in zip(found.details, cells_of(text, "Rows by rising entropy")[1:], strict=True):
        assert [cell[:5] for cell in row[1:]] == [f"{s.coverage:.3f}" for s in detail.by_entropy]


def test_smallest_exact_size_stands_out(text):
    found = real()
    table = text[text.index("<caption><span>Labels in a set") :]
    table = table[: table.index("</table>")]
    shown = re.findall(r'<td class="best">([\d.]+)', table)
    exact = [r for r in found.recipes if r != "paper"]
    least = [min(found.cell(r, level).mean_size.mean() for r in exact) for level in found.levels]
    assert set(shown) == {f"{size:.3f}" for size in least}
    assert len(shown) >= len(least)


def test_coverage_outside_its_band_stands_out(tmp_path, text):
    assert 'class="outside"' not in text
    found = real()
    cells = list(found.cells)
    cells[-1] = replace(cells[-1], mean_band=Band(0.0, 0.5))
    out = written(tmp_path, replace(found, cells=tuple(cells)))
    assert re.findall(r'<td class="outside">([\d.]+)<span class="unseen"> outside its band', out) == [
        f"{cells[-1].coverage.mean():.4f}"
    ]
    assert f"{len(cells) - 4} of {len(cells) - 3}" in out  # paper has no bands, one cell is out


def test_recommendation_and_snippet(page):
    found = real()
    assert found.sentence in [text for attrs, text in page.all("p") if attrs.get("class") == "lead"]
    caution = "It was chosen on these rows: calibrate on others, or coverage is approximate."
    assert caution in [text for _, text in page.all("p")]
    ((_, snippet),) = page.all("code")
    assert snippet == found.snippet
    compile(snippet, "snippet", "exec")
    strong = [text for attrs, text in page.all("tr") if attrs.get("class") == "strong"]
    assert len(strong) == 5
    assert all(row.startswith(found.recommended) for row in strong)


def test_tables_are_accessible(page):
    tables, captions = page.all("table"), page.all("caption")
    assert len(tables) == len(captions) == 5
    assert all(text for _, text in captions)
    assert {attrs["scope"] for attrs, _ in page.all("th")} == {"col", "row"}
    boxes = [attrs for _, attrs in page.elements if attrs.get("class") == "scroll"]
    assert len(boxes) == 5
    assert all(box["tabindex"] == "0" and box["aria-label"] for box in boxes)


def test_figures_say_in_words_what_they_show(page):
    drawings, found = page.all("svg"), real()
    assert len(drawings) == len(page.all("figcaption")) == 6
    alts = [attrs["aria-label"] for attrs, _ in drawings]
    assert len(set(alts)) == 6
    assert all(attrs["role"] == "img" for attrs, _ in drawings)
    assert f"thr {found.cell('thr', 0.99).mean_size.mean():.2f}" in alts[0]
    for recipe in found.recipes:  # as text, in the drawing too
        assert recipe in drawings[0][1]


def test_colours_are_variables_with_two_sets_of_values(text):
    drawn = "".join(re.findall(r"<svg.*?</svg>", text, re.DOTALL))
    assert not re.search(r"#[0-9a-f]{6}\b", drawn)
    assert not re.search(r"(fill|stroke): (?!none|var|#)", drawn)
    names = set(variables(LIGHT))
    assert {"ink", "muted", "band", "series-0"} <= set(re.findall(r"var\(--([a-z0-9-]+)\)", drawn)) <= names
    roots = r":root \{(.*?)\}.*?prefers-color-scheme: dark\) \{ :root \{(.*?)\}"
    light, dark = re.search(roots, text, re.DOTALL).groups()
    for theme, declared in ((LIGHT, light), (DARK, dark)):
        assert dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6});", declared)) == variables(theme)
    assert len(set(variables(LIGHT).values())) == len(names)


def test_no_name_becomes_markup(tmp_path):
    for kwargs in ({}, {"title": HOSTILE}):
        text = written(tmp_path, hostile(), **kwargs)
        page = Page(text)
        assert "<script" not in text
        assert len(page.all("title")) == 1
        assert HOSTILE in page.all("title")[0][1]
        assert [heading for _, heading in page.all("h1")] == [HOSTILE]


def test_several_data_sets(tmp_path):
    found = real()
    text = written(tmp_path, [found, found], title="Both")
    page = Page(text)
    assert [attrs["href"] for attrs, _ in page.all("a")] == ["#part-0", "#part-1"]
    assert len(page.all("svg")) == 12
    ids = [attrs["id"] for _, attrs in page.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert [title for _, title in page.all("h2")] == ["carer", "carer"]


def test_same_file_again(tmp_path, text):
    assert written(tmp_path, real()) == text


def test_without_selection_or_rows_of_a_kind(tmp_path):
    found = real()
    nothing = {"coverage": None, "mean_size": None, "empty_rate": None}
    details = [
        replace(
            detail,
            curve=(),
            by_scenario=(replace(detail.by_scenario[0], rows=0, **nothing), *detail.by_scenario[1:]),
        )
        for detail in found.details
    ]
    cells = tuple(replace(cell, split_band=None, mean_band=None) for cell in found.cells)
    text = written(tmp_path, replace(found, details=tuple(details), cells=cells))
    assert len(Page(text).all("svg")) == 5
    assert "no rows" in text
    assert "in their band" not in text
    assert not re.search(r"\bnan\b|\bNone\b", text)


def test_many_labels(tmp_path):
    found = real()
    counts = np.arange(1001)
    details = tuple(replace(detail, size_histogram=counts) for detail in found.details)
    text = written(tmp_path, replace(found, n_labels=1000, details=details))
    assert "and so on" in text


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("tightset.report.page.draw", fail)
    path = tmp_path / "report.html"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt):
        write_report(path, real())
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_refusals(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"the folder of .*nowhere.* does not exist"):
        write_report(tmp_path / "nowhere" / "report.html", real())
    with pytest.raises(ValueError, match="evaluation must not be empty"):
        write_report(tmp_path / "report.html", [])
    assert list(tmp_path.iterdir()) == []


def test_fonts_are_those_of_the_page_however_matplotlib_names_them():
    """Some versions write the short form of the property."""
    style = "font: {} 'DejaVu Sans', sans-serif; text-anchor: middle"
    text = f'<svg viewBox="0 0 9 9"><text style="{style}">a</text></svg>'
    for short, long in (
        ("10px", "font-size: 10px"),
        ("bold 9.5px", "font-weight: bold; font-size: 9.5px"),
        ("700 12px", "font-weight: 700; font-size: 12px"),
    ):
        drawn = _inline(text.format(short), "name", "alt")
        assert f'<text style="{long}; text-anchor: middle">' in drawn
