//! How is a predictor written as a document, and what is checked when it is read? `schema/predictor-v1.json`
//! defines the format; `python/tightset/document` is the Python reader and writer.
//!
//! JSON has no infinity, and readers differ in how they read decimals. So a float is written as its 64 bits
//! in hexadecimal beside a readable value, and a list of scores as their bits, one after another. Every field
//! is checked, and fields are checked against each other.

mod cells;
mod recipes;
mod values;

use cells::{Facts, cell, cell_fields, condition, condition_json};
use recipes::recipe;
use values::{Value, field, list, refuse};

use super::contents::{Contents, Pac};
use super::json::Json;
use crate::error::Error;
use crate::math::GENERATOR;
use crate::rows::MOST_LABELS;

const FORMAT: &str = "tightset-predictor";
const VERSION: u32 = 1;
/// Rows that a calibration may have.
const MOST_ROWS: usize = i64::MAX as usize;

/// Reads and checks a document.
pub(crate) fn read(document: &Json<'_>) -> Result<Contents, Error> {
    if document.get("format") != Some(&Json::from(FORMAT)) {
        return refuse(format!("its format is not {FORMAT:?}"));
    }
    let version =
        Value { name: "format_version", json: document.get("format_version").unwrap_or(&Json::Null) };
    if *version.json != Json::from(VERSION) {
        return refuse(format!("its format_version is {}; this version reads {VERSION}", version.shown()));
    }
    let mut fields = Value { name: "document", json: document }.fields("the document")?;
    fields.get("format")?;
    fields.get("format_version")?;
    if !fields.get("sha256")?.is_text(&document.digest()) {
        return refuse("its sha256 is not that of its contents: it was changed after it was written");
    }
    let generator = fields.get("generator")?;
    if !generator.is_text(GENERATOR) {
        let found = generator.shown();
        return refuse(format!("its generator is {found}; this version has {GENERATOR:?}"));
    }
    fields.get("tightset")?.text()?;
    let alpha = fields.get("alpha")?.number()?;
    let n_calibration = fields.get("n_calibration")?.within(1..=MOST_ROWS)?;
    let n_labels = fields.get("n_labels")?.within(1..=MOST_LABELS)?;
    let rank = fields.get("rank")?.within(1..=MOST_ROWS)?;
    let pac = fields.optional("pac").map(pac).transpose()?;
    let recipe = recipe(fields.get("recipe")?)?;
    let facts = Facts { alpha, recipe: &recipe, n_labels, n_calibration, is_pac: pac.is_some() };
    facts.check_rank(rank, n_calibration)?;
    // The document of a condition has cells; any other one is a cell itself.
    let (condition, cells, details) = if let Some(value) = fields.optional("condition") {
        let (condition, cells, details) = condition(value, &facts)?;
        (Some(condition), cells, details)
    } else {
        let (cell, detail) = cell(&mut fields, &facts, n_calibration, rank)?;
        (None, vec![cell], vec![detail])
    };
    let names = |value: Value<'_, '_>| {
        let names = value.list_of(n_labels, "names")?;
        names.map(|name| name.text().map(str::to_owned)).collect::<Result<_, Error>>()
    };
    let label_names = fields.optional("label_names").map(names).transpose()?;
    let seed = fields.get("seed")?.integer()?;
    let probabilities = fields.get("probabilities")?.flag()?;
    let uses_row_ids = fields.get("uses_row_ids")?.flag()?;
    fields.end()?;
    Ok(Contents {
        alpha,
        n_labels,
        n_calibration,
        rank,
        seed,
        probabilities,
        uses_row_ids,
        pac,
        label_names,
        recipe,
        cells,
        details,
        condition,
    })
}

fn pac(value: Value<'_, '_>) -> Result<Pac, Error> {
    let mut fields = value.fields("pac")?;
    let delta = fields.get("delta")?.number()?;
    if !(delta > 0.0 && delta < 1.0) {
        return refuse(format!("delta must be strictly between 0 and 1, got {delta}"));
    }
    let shares = fields.get("shares")?.within(1..=MOST_ROWS)? as u64;
    fields.end()?;
    Ok(Pac { delta, shares })
}

/// Writes a document.
pub(crate) fn write(contents: &Contents) -> Json<'_> {
    let mut fields = vec![
        field("format", FORMAT),
        field("format_version", VERSION),
        field("tightset", env!("CARGO_PKG_VERSION")),
        field("generator", GENERATOR),
        field("alpha", contents.alpha),
        field("n_labels", contents.n_labels),
        field("n_calibration", contents.n_calibration),
        field("rank", contents.rank),
        field("seed", contents.seed),
        field("probabilities", contents.probabilities),
        field("uses_row_ids", contents.uses_row_ids),
    ];
    if let Some(Pac { delta, shares }) = contents.pac {
        fields.push(field("pac", Json::Object(vec![field("delta", delta), field("shares", shares)])));
    }
    if let Some(names) = &contents.label_names {
        fields.push(field("label_names", list(names.iter().map(String::as_str))));
    }
    fields.push(field("recipe", &contents.recipe));
    match &contents.condition {
        None => fields.extend(cell_fields(&contents.cells[0], &contents.details[0])),
        Some(condition) => fields.push(field("condition", condition_json(contents, condition))),
    }
    Json::Object(fields).sealed()
}
