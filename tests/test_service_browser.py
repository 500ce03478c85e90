"""The live page and the page of the interface in a real browser. `make test-browser` insists on one."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import numpy as np
import pytest

from conftest import rgb
from load_client import Service, serving
from service_cases import ask, data, save
from tightset.plot.theme import THEMES

pytestmark = pytest.mark.browser

HOSTILE = "<img src=x onerror=alert(1)>"
WEB = Path(__file__).parent.parent / "python" / "tightset" / "service" / "web"


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    save(folder / "pets.json", 3, names=["cat", "dog", HOSTILE])
    save(folder / "many.json", 200)
    with serving(folder / "pets.json", folder / "many.json") as found:
        rng = np.random.default_rng(0)
        for seed in range(30):
            logits, labels = data(3, 20, seed=seed)
            asked = ask(found, "/v1/predict", {"rows": logits.tolist()}).json["request_id"]
            ask(found, "/v1/feedback", {"request_id": asked, "labels": labels.tolist()})
            ask(found, "/v1/predict", {"rows": (4 * rng.normal(size=(5, 200))).tolist(), "model": "many"})
            time.sleep(0.15)
        ask(found, "/v1/predict", {"rows": [[1, 2, 3]], "model": HOSTILE})
        ask(found, "/v1/predict", {"rows": [[1, 2]]})
        yield found


@pytest.fixture(params=["light", "dark"])
def scheme(request):
    return request.param


@pytest.fixture(params=[1280, 390])
def width(request):
    return request.param


@pytest.fixture
def page(request, browser, width, scheme):
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.problems, page.hosts = [], set()
    page.on("console", lambda message: page.problems.append(message.text))
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.on("dialog", lambda dialog: page.problems.append(dialog.message))
    page.on("request", lambda asked: page.hosts.add(re.match(r"\w+:(//[^/]*)?", asked.url).group()))
    yield page
    if os.environ.get("TIGHTSET_SCREENSHOTS"):
        target = Path(os.environ["TIGHTSET_SCREENSHOTS"])
        page.screenshot(path=target / f"{request.node.name}.png", full_page=True)
    context.close()


def check_layout(page, width, scheme):
    assert page.evaluate("document.documentElement.scrollWidth") == width
    colour = page.eval_on_selector("body", "element => getComputedStyle(element).backgroundColor")
    assert colour == rgb(THEMES[scheme].paper)
    boxes = page.eval_on_selector_all(
        "section", "all => all.map(e => { const r = e.getBoundingClientRect(); return [r.left, r.right] })"
    )
    assert boxes
    assert all(0 <= left < right <= width for left, right in boxes)


def test_live_page(page, service, width, scheme):
    page.goto(f"http://127.0.0.1:{service.port}/")
    page.wait_for_selector("#coverage svg")
    assert page.inner_text("#status") == "serving"
    check_layout(page, width, scheme)
    facts = page.inner_text("#facts")
    coverage = ask(service, "/v1/state").json["models"][0]["watch"]["coverage"]
    assert f"{100 * coverage:.1f} %" in facts
    assert "600 labels" in facts
    assert "alarm at 100" in facts
    # Coverage has a line, a band and the level that was asked for.
    for part in (".line", ".band", ".target", ".tip"):
        assert page.locator(f"#coverage {part}").count() == 1
    assert page.locator("#sizes .bar").count() == 4
    assert "one label" in page.inner_text("#kinds-legend")
    page.wait_for_selector("#latency .line", state="attached")
    assert page.locator("#latency .line").count() == 2
    # Refusals show what clients sent as text, nothing more.
    assert "wrong_labels" in page.inner_text("#refusals")
    assert HOSTILE in page.inner_text("#refusals")
    texts = page.eval_on_selector_all(
        ".chart svg text",
        """all => all.map(t => {
            const r = t.getBoundingClientRect(), s = t.ownerSVGElement.getBoundingClientRect();
            const scale = s.width / t.ownerSVGElement.viewBox.baseVal.width;
            return [t.textContent, r.left - s.left, s.right - r.right, r.top - s.top, s.bottom - r.bottom,
                    parseFloat(getComputedStyle(t).fontSize) * scale]
        })""",
    )
    overlapping = page.eval_on_selector_all(
        ".chart svg",
        """all => all.flatMap(svg => {
            const boxed = t => [t.textContent, t.getBoundingClientRect()];
            const texts = [...svg.querySelectorAll("text")].map(boxed);
            return texts.flatMap(([a, p], i) => texts.slice(i + 1).filter(([, q]) =>
                p.left < q.right && q.left < p.right && p.top + 3 < q.bottom && q.top + 3 < p.bottom
            ).map(([b]) => `${a} and ${b}`));
        })""",
    )
    assert overlapping == []
    assert len(texts) > 15
    for text, *distances, size in texts:
        assert min(distances) > -3, text
        assert size >= 9, text
    assert page.problems == []
    assert page.hosts <= {f"http://127.0.0.1:{service.port}", "data:"}


def test_thresholds_of_labels_have_coverage_without_a_band(browser, tmp_path):
    save(tmp_path / "pets.json", 3, recipe="thr", condition="label")
    with serving(tmp_path / "pets.json") as service:
        logits, labels = data(3, 100, seed=1)
        asked = ask(service, "/v1/predict", {"rows": logits.tolist()}).json["request_id"]
        ask(service, "/v1/feedback", {"request_id": asked, "labels": labels.tolist()})
        page, problems = browser.new_page(), []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(f"http://127.0.0.1:{service.port}/")
        page.wait_for_selector("#coverage svg")
        assert page.locator("#coverage .line").count() == 1
        assert page.locator("#coverage .band").count() == 0
        assert "as in calibration" not in page.inner_text("#coverage-about")
        assert "No band: condition='label' has a threshold" in page.inner_text("#coverage-about")
        page.close()
        assert problems == []


def test_a_row_is_tried(page, service):
    page.goto(f"http://127.0.0.1:{service.port}/")
    page.wait_for_selector("#coverage svg")
    row = [0, 0.1, 0.2]
    page.fill("#row", ", ".join(map(str, row)))
    page.click("#try button >> text=Predict")
    page.wait_for_selector(".chips li")
    (expected,) = ask(service, "/v1/predict", {"rows": [row], "names": True}).json["names"]
    assert HOSTILE in expected
    assert page.locator(".chips li").all_inner_texts() == expected
    page.fill("#row", "1, x, 2")
    page.click("#try button >> text=Predict")
    assert page.inner_text("#result") == "x is not a finite number."
    page.fill("#row", "1, 2")
    page.click("#try button >> text=Predict")
    page.locator("#result", has_text="must have 3 labels").wait_for()
    page.click("#tabs button >> text=many")
    page.click("#example")
    page.click("#try button >> text=Predict")
    page.locator("#result", has_text="of 200 labels").wait_for()
    assert "many" in page.inner_text("#footer")
    assert [problem for problem in page.problems if "404" not in problem and "422" not in problem] == []


def test_interface_page(page, service, width, scheme):
    page.goto(f"http://127.0.0.1:{service.port}/docs")
    page.wait_for_selector(".operation")
    check_layout(page, width, scheme)
    document = ask(service, "/openapi.json").json
    operations = [(verb, path) for path, verbs in document["paths"].items() for verb in verbs]
    assert page.locator(".operation").count() == len(operations)
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true })")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert "wrong_labels" in page.inner_text("#main")
    assert page.problems == []
    assert page.hosts <= {f"http://127.0.0.1:{service.port}", "data:"}


def test_token_is_asked_for_and_the_end_is_seen(browser, tmp_path):
    path = tmp_path / "m.json"
    save(path, 3)
    service = Service(path, env={"TIGHTSET_TOKEN": "secret"})
    context = browser.new_context()
    try:
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{service.port}/")
        page.wait_for_selector("#token-form:not([hidden])")
        assert page.inner_text("#status") == "needs a token"
        page.fill("#token", "secret")
        page.click("#token-form button")
        page.wait_for_selector("#main:not([hidden])")
        assert page.is_hidden("#token-form")
        assert "No labels yet" in page.inner_text("#coverage")
        service.stop()
        page.locator("#status", has_text="no answer").wait_for()
    finally:
        context.close()
        service.stop()


def test_colours_are_those_of_plots():
    style = (WEB / "style.css").read_text()
    light, dark = style.split("prefers-color-scheme: dark", 1)
    for theme, text in ((THEMES["light"], light), (THEMES["dark"], dark)):
        for name in ("paper", "ink", "muted", "line", "band"):
            assert f"--{name}: {getattr(theme, name)};" in text
        for i in range(4):
            assert f"--series-{i}: {theme.series[i]};" in text


def test_pages_name_no_other_host():
    for file in WEB.iterdir():
        for found in re.findall(r"https?://[^\s\"'`]+", file.read_text()):
            assert found == "http://www.w3.org/2000/svg", f"{file.name}: {found}"
