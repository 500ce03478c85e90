"""The report in a real browser: desktop and phone, light and dark. `make test-browser` insists on one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from conftest import rgb
from report_cases import hostile, real
from tightset.plot.theme import THEMES
from tightset.report import write_report

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    write_report(folder / "one.html", real())
    write_report(folder / "several.html", [real(), hostile()])
    return folder


@pytest.fixture(params=["light", "dark"])
def scheme(request):
    return request.param


@pytest.fixture(params=[1280, 390])
def width(request):
    return request.param


@pytest.fixture(params=["one", "several"])
def opened(request, browser, reports, width, scheme):
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.problems, page.requests = [], []
    page.on("console", lambda message: page.problems.append(message.text))
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.on("requestfailed", lambda asked: page.problems.append(asked.url))
    page.on("dialog", lambda dialog: page.problems.append(dialog.message))
    page.on("request", lambda asked: page.requests.append(asked.url))
    page.goto((reports / f"{request.param}.html").as_uri())
    yield page
    if os.environ.get("TIGHTSET_SCREENSHOTS"):
        target = Path(os.environ["TIGHTSET_SCREENSHOTS"])
        page.screenshot(path=target / f"{request.param}-{width}-{scheme}.png", full_page=True)
    context.close()


def test_page(opened, width, scheme):
    assert opened.problems == []
    assert opened.requests == [opened.url]
    # Nothing is wider than the page; wide tables scroll in their boxes.
    assert opened.evaluate("document.documentElement.scrollWidth") == width
    assert opened.evaluate("(window.scrollTo(500, 0), window.scrollX)") == 0
    boxes = opened.eval_on_selector_all(
        ".scroll", "boxes => boxes.map(b => [b.getBoundingClientRect().right, b.scrollWidth, b.clientWidth])"
    )
    assert max(right for right, _, _ in boxes) <= width
    if width == 390:
        assert any(inner > outer for _, inner, outer in boxes)
    body = "element => getComputedStyle(element).backgroundColor"
    assert opened.eval_on_selector("body", body) == rgb(THEMES[scheme].paper)


def test_figures(opened, width, scheme):
    sizes = opened.eval_on_selector_all(
        "svg",
        "all => all.map(s => { const r = s.getBoundingClientRect(); return [r.left, r.right, r.height] })",
    )
    assert len(sizes) >= 6
    for left, right, height in sizes:
        assert 0 <= left < right <= width
        assert right - left > 300
        assert height > 200
    # Captions, drawings and the end of the page follow each other.
    order = opened.eval_on_selector_all(
        "figcaption, figure svg, footer",
        "all => all.map(e => [e.tagName, e.getBoundingClientRect().toJSON()])",
    )
    footer = order.pop()[1]
    for (_, caption), (_, drawing) in zip(order[::2], order[1::2], strict=True):
        assert caption["bottom"] <= drawing["top"]
        assert drawing["bottom"] <= footer["top"]
    boxes = [drawing for tag, drawing in order if tag == "svg"]
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            apart = a["left"] >= b["right"] or b["left"] >= a["right"]
            assert apart or a["top"] >= b["bottom"] or b["top"] >= a["bottom"]
    # Text of a drawing stays inside it and is large enough to read.
    texts = opened.eval_on_selector_all(
        "svg text",
        """all => all.map(t => {
            const r = t.getBoundingClientRect(), s = t.ownerSVGElement.getBoundingClientRect();
            const scale = s.width / t.ownerSVGElement.viewBox.baseVal.width;
            return [t.textContent, r.left - s.left, s.right - r.right, r.top - s.top, s.bottom - r.bottom,
                    parseFloat(getComputedStyle(t).fontSize) * scale]
        })""",
    )
    assert len(texts) > 50
    for text, *distances, size in texts:
        assert min(distances) > -2, text
        assert size >= 9, text
    colours = opened.eval_on_selector_all("svg text", "all => all.map(t => getComputedStyle(t).fill)")
    assert set(colours) == {rgb(THEMES[scheme].ink), rgb(THEMES[scheme].muted)}
