//! Predictors as documents; `schema/predictor-v1.json` defines them, and `document.py` is the same in Python.
//!
//! A float is written as its 64 bits in hexadecimal beside a readable value, since JSON has no infinity and
//! readers differ in how they read decimals; lists of scores are the bits of one after another. Reading
//! checks every field against every other.

use std::borrow::Cow;

use crate::error::Error;
use crate::json::{Json, clipped};
use crate::predictor::{Part, Predictor, Recipe, Selection};
use crate::quantile::conformal_rank;
use crate::rows::MOST_LABELS;
use crate::scoring::{Reweight, Score, Scoring};
use crate::selected::Survivor;
use crate::uniform::GENERATOR;

const FORMAT: &str = "tightset-predictor";
const VERSION: &str = "1";
/// Candidates that a recipe may have; it is made from three lists, whose product a small file can blow up.
const MOST_CANDIDATES: usize = 1 << 14;
/// Weights stay within 32 bits for every n and alpha.
const LARGEST_HANDICAP: f64 = 100.0;

const FIELDS: [&str; 14] = [
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
    "candidates",
    "sha256",
];

/// Reads and checks a document.
pub(crate) fn read(document: &Json<'_>) -> Result<Predictor, Error> {
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
    let fields = Fields::new(document, "the document", &FIELDS, &["label_names", "calibration_scores"])?;
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
    if rank != conformal_rank(n, alpha).map_err(|error| Error::Document(error.to_string()))? {
        return refuse(format!("rank {rank} does not belong to alpha={alpha} and {n} rows"));
    }
    let recipe = recipe(fields.get("recipe"))?;
    let candidates = list(fields.get("candidates"), "candidates")?;
    let candidates: Vec<Candidate> = candidates.iter().map(candidate).collect::<Result<_, _>>()?;
    check_candidates(&candidates, &recipe, n, n_labels, rank)?;
    let scores = fields.optional("calibration_scores").map(|table| score_table(table, &candidates, n, rank));
    let names = fields.optional("label_names").map(|names| label_names(names, n_labels));
    Ok(Predictor::from_parts(
        alpha,
        n_labels,
        n,
        rank,
        integer(fields.get("seed"), "seed")?,
        flag(fields.get("probabilities"), "probabilities")?,
        flag(fields.get("uses_row_ids"), "uses_row_ids")?,
        names.transpose()?,
        recipe,
        candidates.iter().map(|c| c.reweight).collect(),
        candidates.into_iter().map(|c| c.survivor).collect(),
        scores.transpose()?,
    ))
}

/// Writes a document.
pub(crate) fn write(predictor: &Predictor) -> Json<'_> {
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
    if let Some(names) = &predictor.label_names {
        fields.push(field("label_names", Json::List(names.iter().map(|name| borrowed(name)).collect())));
    }
    fields.push(field("recipe", recipe_json(&predictor.recipe)));
    let candidates = predictor.candidates.iter().zip(&predictor.reweights);
    let is_bracketed = predictor.candidates.len() > 1;
    let candidates = candidates.map(|(c, reweight)| candidate_json(c, *reweight, is_bracketed)).collect();
    fields.push(field("candidates", Json::List(candidates)));
    if let Some(scores) = &predictor.calibration_scores {
        let rows = scores.iter().map(|row| Json::Text(packed(row).into())).collect();
        fields.push(field("calibration_scores", Json::List(rows)));
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

