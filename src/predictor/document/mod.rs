//! How is a predictor written as a document, and what is checked when it is read? `schema/predictor-v1.json` defines it;
//! `python/tightset/document` is the Python reader and writer.
//!
//! A float is written as its 64 bits in hexadecimal beside a readable value, since JSON has no infinity and
//! readers differ in how they read decimals; lists of scores are the bits of one after another. Reading
//! checks every field against every other.

mod cells;
mod recipes;
mod values;

use cells::{Facts, cell, cell_fields, condition, condition_json};
use recipes::{recipe, recipe_json};
use values::{
    Fields, borrowed, count, field, flag, integer, integer_json, is_text, list, number, number_json, refuse,
    shown, text,
};

use super::contents::{Contents, Pac};
use super::json::Json;
use crate::error::Error;
use crate::math::GENERATOR;
use crate::rows::MOST_LABELS;

const FORMAT: &str = "tightset-predictor";
const VERSION: &str = "1";
const FIELDS: [&str; 13] = [
    "format",
    "format_version",
    "tightset",
    "generator",
    "alpha",
    "n_labels",
    "n_calibration",
    "rank",
    "seed",
    "probabilities",
    "uses_row_ids",
    "recipe",
    "sha256",
];

/// Reads and checks a document.
pub(crate) fn read(document: &Json<'_>) -> Result<Contents, Error> {
    let field = |name: &str| match document {
        Json::Object(fields) => fields.iter().find(|(known, _)| known == name).map(|(_, value)| value),
        _ => None,
    };
    if field("format").is_none_or(|format| !is_text(format, FORMAT)) {
        return refuse(format!("its format is not {FORMAT:?}"));
    }
    let version = field("format_version").unwrap_or(&Json::Null);
    if !matches!(version, Json::Number(number) if number == VERSION) {
        return refuse(format!("its format_version is {}; this version reads {VERSION}", shown(version)));
    }
    // The document of a condition has cells, any other one is a cell itself.
    let is_conditional = field("condition").is_some();
    let mut required = FIELDS.to_vec();
    required.push(if is_conditional { "condition" } else { "candidates" });
    let optional = ["label_names", "pac", "calibration_scores"];
    let optional = &optional[..if is_conditional { 2 } else { 3 }];
    let fields = Fields::new(document, "the document", &required, optional)?;
    if !is_text(fields.get("sha256"), &document.digest()) {
        return refuse("its sha256 is not that of its contents: it was changed after it was written");
    }
    if !is_text(fields.get("generator"), GENERATOR) {
        let found = shown(fields.get("generator"));
        return refuse(format!("its generator is {found}; this version has {GENERATOR:?}"));
    }
    text(fields.get("tightset"), "tightset")?;
    let alpha = number(fields.get("alpha"), "alpha")?;
    let n = count(fields.get("n_calibration"), "n_calibration", i64::MAX as usize)?;
    let n_labels = count(fields.get("n_labels"), "n_labels", MOST_LABELS)?;
    let rank = count(fields.get("rank"), "rank", i64::MAX as usize)?;
    let pac = fields.optional("pac").map(pac).transpose()?;
    let recipe = recipe(fields.get("recipe"))?;
    let facts = Facts { alpha, recipe: &recipe, n_labels, n_calibration: n, is_pac: pac.is_some() };
    facts.check_rank(rank, n)?;
    let (condition, cells, details) = if is_conditional {
        let (condition, cells, details) = condition(fields.get("condition"), &facts)?;
        (Some(condition), cells, details)
    } else {
        let (cell, detail) = cell(&fields, &facts, n, rank)?;
        (None, vec![cell], vec![detail])
    };
    let names = fields.optional("label_names").map(|names| label_names(names, n_labels));
    Ok(Contents {
        alpha,
        n_labels,
        n_calibration: n,
        rank,
        seed: integer(fields.get("seed"), "seed")?,
        probabilities: flag(fields.get("probabilities"), "probabilities")?,
        uses_row_ids: flag(fields.get("uses_row_ids"), "uses_row_ids")?,
        pac,
        label_names: names.transpose()?,
        recipe,
        cells,
        details,
        condition,
    })
}

fn pac(document: &Json<'_>) -> Result<Pac, Error> {
    let fields = Fields::new(document, "pac", &["delta", "shares"], &[])?;
    let delta = number(fields.get("delta"), "delta")?;
    if !(delta > 0.0 && delta < 1.0) {
        return refuse(format!("delta must be strictly between 0 and 1, got {delta}"));
    }
    Ok(Pac { delta, shares: count(fields.get("shares"), "shares", i64::MAX as usize)? as u64 })
}

/// Writes a document.
pub(crate) fn write(predictor: &Contents) -> Json<'_> {
    let mut fields = vec![
        field("format", borrowed(FORMAT)),
        field("format_version", Json::Number(VERSION.into())),
        field("tightset", borrowed(env!("CARGO_PKG_VERSION"))),
        field("generator", borrowed(GENERATOR)),
        field("alpha", number_json(predictor.alpha)),
        field("n_labels", integer_json(predictor.n_labels as u64)),
        field("n_calibration", integer_json(predictor.n_calibration as u64)),
        field("rank", integer_json(predictor.rank as u64)),
        field("seed", integer_json(predictor.seed)),
        field("probabilities", Json::Flag(predictor.probabilities)),
        field("uses_row_ids", Json::Flag(predictor.uses_row_ids)),
    ];
    if let Some(Pac { delta, shares }) = predictor.pac {
        let fields_of_pac = vec![field("delta", number_json(delta)), field("shares", integer_json(shares))];
        fields.push(field("pac", Json::Object(fields_of_pac)));
    }
    if let Some(names) = &predictor.label_names {
        fields.push(field("label_names", Json::List(names.iter().map(|name| borrowed(name)).collect())));
    }
    fields.push(field("recipe", recipe_json(&predictor.recipe)));
    match &predictor.condition {
        None => fields.extend(cell_fields(&predictor.cells[0], &predictor.details[0])),
        Some(condition) => fields.push(field("condition", condition_json(predictor, condition))),
    }
    let digest = Json::Object(fields.clone()).digest();
    fields.push(field("sha256", Json::Text(digest.into())));
    Json::Object(fields)
}

fn label_names(document: &Json<'_>, n_labels: usize) -> Result<Vec<String>, Error> {
    let names = list(document, "label_names")?;
    if names.len() != n_labels {
        return refuse(format!("label_names must hold {n_labels} names, got {}", names.len()));
    }
    names.iter().map(|name| text(name, "label_names").map(str::to_owned)).collect()
}
