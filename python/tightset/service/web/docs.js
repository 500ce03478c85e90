"use strict";

// The OpenAPI document as a page, without the network.
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// An example that the schema allows, small enough to read.
function example(schema) {
  if (schema.enum) return schema.enum[0];
  if ("default" in schema) return schema.default;
  if (schema.anyOf) return example(schema.anyOf[0]);
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  if (type === "object") {
    const chosen = Object.entries(schema.properties ?? {}).filter(([name]) => (schema.required ?? []).includes(name));
    return Object.fromEntries(chosen.map(([name, inner]) => [name, example(inner)]));
  }
  if (type === "array") {
    const length = Math.min(Math.max(schema.minItems ?? 1, 1), 4);
    return Array.from({ length }, () => example(schema.items ?? {}));
  }
  return { number: 0.5, integer: 0, boolean: true, string: schema.format === "binary" ? "bytes" : "text" }[type] ?? {};
}

function fields(schema) {
  const rows = Object.entries(schema.properties ?? {}).map(([name, inner]) => element("tr", {},
    element("td", { class: "mono" }, name),
    element("td", { class: "code" }, `${[inner.type].flat().join(" or ")}${(schema.required ?? []).includes(name) ? "" : ", optional"}`),
    element("td", { class: "message" }, inner.description ?? (inner.enum ? inner.enum.join(", ") : ""))));
  return rows.length ? element("div", { class: "scroll", tabindex: "0" }, element("table", {}, element("tbody", {}, ...rows))) : "";
}

function part(title, ...content) {
  return element("details", {}, element("summary", {}, title), ...content);
}

function operation(verb, path, about) {
  const found = element("section", { class: "operation" },
    element("h3", {}, element("span", { class: `verb ${verb}` }, verb.toUpperCase()), element("code", {}, path), about.summary ?? ""),
    element("p", {}, (about.description ?? "").replaceAll("`", "")));
  const given = (about.parameters ?? []).map((p) => element("tr", {},
    element("td", { class: "mono" }, p.name), element("td", { class: "code" }, p.in),
    element("td", { class: "message" }, p.description ?? (p.schema?.enum ?? []).join(", "))));
  if (given.length) found.append(part("parameters", element("div", { class: "scroll", tabindex: "0" }, element("table", {}, element("tbody", {}, ...given)))));
  for (const [type, { schema }] of Object.entries(about.requestBody?.content ?? {})) {
    const shown = type === "application/json" ? [fields(schema), element("pre", {}, JSON.stringify(example(schema), null, 1))] : [element("p", {}, schema.description ?? "")];
    found.append(part(`takes ${type}`, ...shown));
  }
  const answers = Object.entries(about.responses ?? {}).map(([status, answer]) => element("tr", {},
    element("td", { class: "mono" }, status), element("td", { class: "message" }, answer.description)));
  const ok = about.responses?.["200"]?.content?.["application/json"]?.schema;
  found.append(part("answers", ok ? fields(ok) : "", element("div", { class: "scroll", tabindex: "0" }, element("table", {}, element("tbody", {}, ...answers)))));
  return found;
}

fetch("openapi.json").then((answer) => answer.json()).then((document_) => {
  const groups = new Map();
  for (const [path, verbs] of Object.entries(document_.paths)) {
    for (const [verb, about] of Object.entries(verbs)) {
      const name = (about.tags ?? ["other"])[0];
      if (!groups.has(name)) groups.set(name, []);
      groups.get(name).push(operation(verb, path, about));
    }
  }
  const shown = [element("p", { class: "lead" }, document_.info.description.trim().replaceAll("`", ""))];
  for (const [name, operations] of groups) shown.push(element("h2", { class: "group" }, name), ...operations);
  document.getElementById("main").replaceChildren(...shown);
}).catch(() => { document.getElementById("main").textContent = "openapi.json could not be read."; });
