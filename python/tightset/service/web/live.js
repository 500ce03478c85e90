"use strict";

const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
let chosen = null; // name of the model that is shown
let latest = null;
let token = sessionStorage.getItem("tightset-token");

// Text goes in as text: messages quote what clients send.
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}
function drawn(tag, attributes = {}, text = "") {
  const made = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

const percent = (share, digits = 1) => (share === null ? "–" : `${(100 * share).toFixed(digits)} %`);
function count(n) {
  if (n >= 1e6) return `${(n / 1e6).toPrecision(3)} M`;
  if (n >= 1e4) return `${(n / 1e3).toPrecision(3)} k`;
  return Number.isInteger(n) ? `${n}` : n.toFixed(1);
}
function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 1e-3) return `${Math.round(1e6 * seconds)} µs`;
  return seconds < 1 ? `${Number((1e3 * seconds).toPrecision(2))} ms` : `${Number(seconds.toPrecision(2))} s`;
}
function span(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} days`;
}

function headers(more = {}) {
  return token ? { Authorization: `Bearer ${token}`, ...more } : more;
}

// Axes. Drawings are as wide as their box, so that text has one size on every screen.
function frame(box, low, high, marks, format, height = 210) {
  const width = Math.max(260, box.clientWidth);
  const left = 52, right = 12, top = 12, bottom = 26;
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
  const y = (value) => top + (height - top - bottom) * (1 - (value - low) / (high - low));
  for (const mark of marks) {
    svg.append(drawn("line", { class: "rule", x1: left, x2: width - right, y1: y(mark), y2: y(mark) }));
    svg.append(drawn("text", { x: left - 7, y: y(mark) + 4, "text-anchor": "end" }, format(mark)));
  }
  const x = (share) => left + (width - left - right) * share;
  return { svg, x, y, width, height, left, right, bottom };
}
const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
function show(box, ...content) { box.replaceChildren(...content); }
const nothing = (text) => element("div", { class: "empty" }, text);

function drawCoverage(model) {
  const box = $("coverage"), watch = model.watch, target = 1 - model.alpha;
  const about = $("coverage-about");
  if (!watch) {
    about.textContent = "Share of rows whose set had the true label.";
    return show(box, nothing("Feedback is off: it needs one worker."));
  }
  const band = watch.why_no_band ? "" : ", and where it lies if rows are as in calibration" + (watch.off ? " (nine draws of ten)" : "");
  about.textContent = `Share of rows whose set, as it was sent, had the true label${band}. `
    + `Dashed: ${percent(target, 0)}, what was asked for. Over labels so far.`
    + (watch.why_no_band ? ` No band: ${watch.why_no_band}.` : "");
  const points = watch.history.filter((p) => p[1] !== null);
  if (!points.length) return show(box, nothing("No labels yet. Send them to /v1/feedback with the request's id."));
  const late = points.slice(Math.floor(points.length / 8));
  const seen = late.flatMap((p) => [p[1], p[2], p[3]]).filter((v) => v !== null);
  const low = Math.max(0, Math.floor(20 * (Math.min(...seen, target) - 0.01)) / 20);
  const steps = Math.max(1, Math.ceil((1 - low) / 0.05));
  const stride = Math.ceil(steps / 5);
  const marks = [];
  for (let i = 0; i <= steps; i += stride) marks.push(1 - 0.05 * i);
  const axes = frame(box, low, 1, marks.filter((m) => m >= low - 1e-9), (m) => percent(m, 0), 230);
  const { svg, x, y, width, height, bottom } = axes;
  const most = Math.log10(Math.max(points[points.length - 1][0], 10));
  const least = Math.min(Math.log10(points[0][0]), most - 1);
  const at = (n) => x((Math.log10(n) - least) / (most - least));
  const inside = (v) => y(Math.min(1, Math.max(low, v)));
  // A state that an older version wrote may have no bands where this one does, or the other way round.
  const banded = points.filter((p) => p[2] !== null);
  if (!watch.why_no_band && banded.length) {
    const up = banded.map((p) => [at(p[0]), inside(p[3])]);
    const down = banded.map((p) => [at(p[0]), inside(p[2])]).reverse();
    svg.append(drawn("path", { class: "band", d: `${path(up.concat(down))}Z` }));
  }
  svg.append(drawn("line", { class: "target", x1: x(0), x2: x(1), y1: y(target), y2: y(target) }));
  const line = points.map((p) => [at(p[0]), inside(p[1])]);
  svg.append(drawn("path", { class: "line", d: path(line) }));
  const [endX, endY] = line[line.length - 1];
  svg.append(drawn("circle", { class: "tip", cx: endX, cy: endY, r: 5 }));
  for (let n = 1; Math.log10(n) <= most + 1e-9; n *= 10) {
    for (const m of most - least < 2 ? [n, 2 * n, 5 * n] : [n]) {
      if (Math.log10(m) < least - 1e-9 || Math.log10(m) > most + 1e-9) continue;
      const anchor = at(m) < x(0) + 20 ? "start" : at(m) > width - 40 ? "end" : "middle";
      svg.append(drawn("text", { x: at(m), y: height - bottom + 18, "text-anchor": anchor }, count(m)));
    }
  }
  svg.setAttribute("aria-label", `Coverage ${percent(watch.coverage)} after ${watch.labelled} labels`);
  show(box, svg);
}

function drawSizes(model) {
  const box = $("sizes");
  $("sizes-about").textContent = model.rows
    ? `Labels in a set, over ${count(model.rows)} rows. ${model.mean_size.toFixed(2)} on average.` : "Labels in a set.";
  $("kinds").replaceChildren();
  $("kinds-legend").replaceChildren();
  if (!model.rows) return show(box, nothing("No rows yet."));
  const { ends, counts } = model.set_sizes;
  const names = ends.map((end, i) => (i && end - ends[i - 1] > 1 ? `${ends[i - 1] + 1}–${end}` : `${end}`));
  names.push(`> ${ends[ends.length - 1]}`);
  let last = counts.length - 1;
  while (last > Math.min(4, model.n_labels) && !counts[last]) last -= 1;
  const shown = counts.slice(0, last + 1).map((c) => c / model.rows);
  const step = [0.01, 0.02, 0.05, 0.1, 0.2, 0.25].find((s) => Math.max(...shown) / s <= 5) ?? 0.25;
  const top = step * Math.max(1, Math.ceil(Math.max(...shown) / step - 1e-9));
  const marks = [];
  for (let m = 0; m <= top + 1e-9; m += step) marks.push(m);
  const { svg, x, y, height, bottom, width } = frame(box, 0, top, marks, (m) => percent(m, 0));
  const every = Math.ceil(shown.length / (width / 48));
  shown.forEach((share, i) => {
    const from = x((i + 0.12) / shown.length), to = x((i + 0.88) / shown.length);
    const bar = drawn("rect", { class: "bar", x: from, width: to - from, y: y(share), height: y(0) - y(share), rx: 2 });
    bar.append(drawn("title", {}, `${names[i]}: ${percent(share, 2)}`));
    svg.append(bar);
    if (i % every === 0) {
      svg.append(drawn("text", { x: (from + to) / 2, y: height - bottom + 18, "text-anchor": "middle" }, names[i]));
    }
  });
  svg.setAttribute("aria-label", "Share of sets by their size");
  show(box, svg);
  ["empty", "singleton", "several", "full"].forEach((kind, i) => {
    const share = model.kinds[kind] / model.rows;
    if (share > 0) {
      const part = element("span", { class: `k${i}` });
      part.style.flexGrow = share;
      $("kinds").append(part);
    }
    const words = { empty: "empty", singleton: "one label", several: "several", full: "all labels" };
    $("kinds-legend").append(element("li", {}, element("i", { class: `k${i}` }), `${words[kind]} ${percent(share)}`));
  });
}

function drawLatency(state) {
  const box = $("latency"), { p50, p90, p99 } = state.latency;
  $("latency-about").textContent = state.requests
    ? `Of predictions, since the start: half within ${duration(p50)}, 90 % within ${duration(p90)}, 99 % within ${duration(p99)}.`
    : "Of predictions: half, and 99 of 100, within these times.";
  const points = state.series.filter((p) => p.p50 !== null);
  if (points.length < 2) return show(box, nothing("Nothing in the last minutes."));
  const values = points.flatMap((p) => [p.p50, p.p99]);
  const low = Math.floor(Math.log10(Math.min(...values)) - 1e-9), high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...values))));
  const marks = [];
  for (let e = low; e <= high; e += 1) marks.push(e);
  const { svg, x, y, height, bottom } = frame(box, low, high, marks, (e) => duration(10 ** e));
  const now = state.now, minutes = 5;
  const at = (t) => x(Math.max(0, 1 - (now - t) / (60 * minutes)));
  for (const [key, name] of [["p50", "line"], ["p99", "line second"]]) {
    // A gap where nothing was asked.
    let part = [], d = "", before = null;
    for (const p of points) {
      if (before !== null && p.at - before > 4 * state.every) { d += path(part); part = []; }
      part.push([at(p.at), y(Math.log10(p[key]))]);
      before = p.at;
    }
    svg.append(drawn("path", { class: name, d: d + path(part) }));
  }
  const end = points[points.length - 1];
  for (let m = box.clientWidth < 420 ? 4 : minutes; m >= 0; m -= box.clientWidth < 420 ? 2 : 1) {
    const anchor = m === minutes ? "start" : m === 0 ? "end" : "middle";
    svg.append(drawn("text", { x: x(1 - m / minutes), y: height - bottom + 18, "text-anchor": anchor }, m ? `−${m} min` : "now"));
  }
  svg.setAttribute("aria-label", `Latency, half within ${duration(end.p50)}, 99 % within ${duration(end.p99)}`);
  show(box, svg);
}

function drawRefusals(state) {
  if (!state.refusals.length) return show($("refusals"), nothing("None."));
  const items = state.refusals.slice(0, 6).map((r) => element("li", {},
    element("b", {}, `${r.status} ${r.code}`), element("span", {}, `${span(Math.max(0, state.now - r.at))} ago`),
    element("p", {}, r.message)));
  show($("refusals"), element("ul", { class: "refusals" }, ...items));
}

function fact(name, value, note = "") {
  return element("div", {}, element("dt", {}, name), element("dd", {}, value, note ? element("small", {}, note) : ""));
}

function drawFacts(state, model) {
  const recent = state.series.slice(-15);
  const rate = (key) => (recent.length ? recent.reduce((sum, p) => sum + p[key], 0) / recent.length : 0);
  const watch = model.watch;
  const facts = [
    fact("coverage", watch ? percent(watch.coverage) : "–", watch ? `${count(watch.labelled)} labels` : "feedback is off"),
    fact("of late", watch ? percent(watch.recent.coverage) : "–", watch ? `last ${count(watch.recent.labels)} labels` : ""),
    fact("asked for", percent(1 - model.alpha), `alpha ${model.alpha}`),
    fact("labels in a set", model.mean_size === null ? "–" : model.mean_size.toFixed(2), `of ${count(model.n_labels)}`),
    fact("rows", count(model.rows), `${count(rate("rows_per_second"))} a second`),
    fact("requests", count(state.requests), `${count(rate("requests_per_second"))} a second`),
    fact("latency", duration(state.latency.p50), `99 %: ${duration(state.latency.p99)}`),
  ];
  if (watch && watch.evidence !== null) {
    facts.splice(2, 0, fact("evidence of loss", watch.evidence >= 1e4 ? watch.evidence.toExponential(1) : watch.evidence.toPrecision(2), watch.alarm ? "alarm raised" : `alarm at ${count(watch.alarm_at)}`));
  }
  if (watch && watch.adapts) facts.push(fact("alpha now", String(Number(watch.alpha.toPrecision(3))), "follows labels"));
  show($("facts"), ...facts);
}

function notice(title, text) {
  return element("div", { class: "notice", role: "alert" }, element("strong", {}, title), element("p", {}, text));
}

function drawNotices(state, model) {
  const found = [];
  const watch = model.watch;
  if (watch && watch.alarm) {
    found.push(notice("Coverage has been lost", `The alarm was raised at label ${watch.alarmed_at} of ${watch.labelled}: `
      + "new labels no longer behave as those of the calibration. Recalibrate on recent rows."));
  }
  if (watch && watch.off) found.push(notice("No alarm", `Coverage is counted without an alarm: ${watch.off}.`));
  if (model.reload_error) found.push(notice("The new file was not taken", `${model.reload_error} The old model is in use.`));
  if (model.trivial) found.push(notice("Every set holds all labels", `${model.n_calibration} calibration rows are too few for alpha ${model.alpha}.`));
  if (state.draining) found.push(notice("Shutting down", "Requests that are open are being finished."));
  show($("notices"), ...found);
}

function draw() {
  const state = latest;
  const model = state.models.find((m) => m.name === chosen) ?? state.models[0];
  chosen = model.name;
  const tabs = state.models.map((m) => {
    const tab = element("button", { type: "button", role: "tab", "aria-selected": String(m.name === chosen) }, m.name);
    tab.addEventListener("click", () => { chosen = m.name; draw(); });
    return tab;
  });
  if ($("tabs").childElementCount !== tabs.length || $("tabs").querySelector("[aria-selected=true]")?.textContent !== chosen) show($("tabs"), ...tabs);
  $("tabs").hidden = state.models.length < 2;
  $("main").hidden = false;
  drawNotices(state, model);
  drawFacts(state, model);
  drawCoverage(model);
  drawSizes(model);
  drawLatency(state);
  drawRefusals(state);
  $("try-about").textContent = `${model.n_labels} ${model.probabilities ? "probabilities" : "logits"} for ${model.name}; `
    + "counted as any other row.";
  $("footer").textContent = `tightset ${state.version}, model ${model.name} version ${model.version}, `
    + `${model.n_calibration} calibration rows, ${state.workers} worker${state.workers === 1 ? "" : "s"}, up ${span(state.now - state.started_at)}.`;
}

async function refresh() {
  try {
    const answer = await fetch("v1/state", { headers: headers(), cache: "no-store" });
    $("token-form").hidden = answer.status !== 401;
    if (answer.status === 401) {
      $("dot").className = "dot";
      $("status").textContent = "needs a token";
      return;
    }
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    latest = await answer.json();
    const alarm = latest.models.some((m) => m.watch && m.watch.alarm);
    $("dot").className = alarm || latest.draining ? "dot bad" : "dot good";
    $("status").textContent = latest.draining ? "shutting down" : alarm ? "coverage alarm" : "serving";
    draw();
  } catch (error) {
    $("dot").className = "dot bad";
    $("status").textContent = "no answer from the service";
  }
}

$("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  token = $("token").value.trim();
  sessionStorage.setItem("tightset-token", token);
  refresh();
});

$("example").addEventListener("click", () => {
  const model = latest.models.find((m) => m.name === chosen);
  let row = Array.from({ length: model.n_labels }, () => 2 * (Math.random() + Math.random() + Math.random() - 1.5));
  row[Math.floor(Math.random() * row.length)] += 3;
  if (model.probabilities) {
    const sum = row.reduce((s, v) => s + Math.exp(v), 0);
    row = row.map((v) => Math.exp(v) / sum);
  }
  $("row").value = row.map((v) => (model.probabilities ? v : v.toFixed(2))).join(", ");
});

$("try").addEventListener("submit", async (event) => {
  event.preventDefault();
  const words = $("row").value.replace(/[[\]]/g, " ").split(/[\s,;]+/).filter(Boolean);
  const row = words.map(Number), model = latest.models.find((m) => m.name === chosen);
  const wrong = words.find((word, i) => !Number.isFinite(row[i]));
  const say = (text) => show($("result"), element("p", { class: "error" }, text));
  if (!row.length) return say("Type some numbers first.");
  if (wrong !== undefined) return say(`${wrong} is not a finite number.`);
  const asked = { rows: [row], model: chosen };
  if (model.uses_row_ids) asked.row_ids = [0];
  try {
    const answer = await fetch("v1/predict", {
      method: "POST", headers: headers({ "Content-Type": "application/json" }), body: JSON.stringify(asked),
    });
    const found = await answer.json();
    if (!answer.ok) return say(found.error.message);
    const [set] = found.sets, names = model.label_names;
    const chips = set.slice(0, 60).map((label) => element("li", {}, names[label] ?? String(label)));
    if (set.length > 60) chips.push(element("li", {}, `and ${set.length - 60} more`));
    const words = set.length === 0 ? "The empty set: this row is unlike the calibration rows."
      : `${set.length} of ${model.n_labels} labels, the most probable first.`;
    show($("result"), element("p", {}, words), element("ul", { class: "chips" }, ...chips));
    refresh();
  } catch (error) {
    say("No answer from the service.");
  }
});

let resized = 0;
window.addEventListener("resize", () => {
  cancelAnimationFrame(resized);
  resized = requestAnimationFrame(() => latest && draw());
});
refresh();
setInterval(() => { if (!document.hidden) refresh(); }, 2000);
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
