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

fn refuse<T>(what: impl Into<String>) -> Result<T, Error> {
    Err(Error::Document(what.into()))
}

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

fn field<'a>(name: &'static str, value: Json<'a>) -> (Cow<'a, str>, Json<'a>) {
    (Cow::Borrowed(name), value)
}

fn borrowed(text: &str) -> Json<'_> {
    Json::Text(Cow::Borrowed(text))
}

fn integer_json(value: u64) -> Json<'static> {
    Json::Number(value.to_string().into())
}

fn number_json(value: f64) -> Json<'static> {
    let readable = if value.is_finite() {
        Json::Number(readable(value).into())
    } else {
        Json::Text(value.to_string().into())
    };
    Json::Object(vec![
        field("bits", Json::Text(format!("{:016x}", value.to_bits()).into())),
        field("value", readable),
    ])
}

/// The shortest decimal that reads back the same, as Python writes it.
fn readable(value: f64) -> String {
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        return format!("{value:?}");
    }
    format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

fn packed(scores: &[f64]) -> String {
    let mut text = String::with_capacity(16 * scores.len());
    for score in scores {
        use std::fmt::Write;
        // Writing to a string cannot fail.
        let _ = write!(text, "{:016x}", score.to_bits());
    }
    text
}

fn score_json(score: Score) -> Json<'static> {
    let mut fields = vec![field("name", borrowed(score_name(score)))];
    match score {
        Score::Raps { penalty, k_reg } => {
            fields.push(field("penalty", number_json(penalty)));
            fields.push(field("k_reg", integer_json(u64::from(k_reg))));
        }
        Score::Saps { weight } | Score::Mixed { weight } => fields.push(field("weight", number_json(weight))),
        Score::Thr | Score::Aps | Score::Rank => {}
    }
    Json::Object(fields)
}

fn score_name(score: Score) -> &'static str {
    match score {
        Score::Thr => "thr",
        Score::Aps => "aps",
        Score::Raps { .. } => "raps",
        Score::Saps { .. } => "saps",
        Score::Rank => "rank",
        Score::Mixed { .. } => "mixed",
    }
}

fn reweight_json(reweight: Option<Reweight>) -> Json<'static> {
    reweight.map_or(Json::Null, |reweight| {
        let (gamma, power) = reweight.parameters();
        Json::Object(vec![field("gamma", number_json(gamma)), field("power", number_json(power))])
    })
}

fn recipe_json(recipe: &Recipe) -> Json<'static> {
    let part_json = |part: &Part| {
        let temperature = match &part.temperatures {
            None => borrowed("auto"),
            Some(list) => Json::List(list.iter().map(|&t| number_json(t)).collect()),
        };
        Json::Object(vec![
            field("score", Json::List(part.scores.iter().map(|&s| score_json(s)).collect())),
            field("reweight", Json::List(part.reweights.iter().map(|&r| reweight_json(r)).collect())),
            field("temperature", temperature),
            field("handicap", number_json(part.handicap)),
        ])
    };
    let selection = recipe.selection.map_or(Json::Null, |selection| borrowed(selection.name()));
    let parts = recipe.parts.iter().map(part_json).collect();
    Json::Object(vec![field("selection", selection), field("parts", Json::List(parts))])
}

fn candidate_json(survivor: &Survivor, reweight: Option<Reweight>, is_bracketed: bool) -> Json<'static> {
    let mut fields = vec![
        field("score", score_json(survivor.scoring.score)),
        field("reweight", reweight_json(reweight)),
        field("temperature", number_json(survivor.scoring.temperature)),
        field("threshold", number_json(survivor.hi)),
    ];
    if is_bracketed {
        fields.push(field("lo", number_json(survivor.lo)));
        fields.push(field("pairs_at_lo", integer_json(survivor.at_lo)));
        fields.push(field("between", Json::Text(packed(&survivor.between).into())));
        fields.push(field("weight", integer_json(u64::from(survivor.weight))));
    }
    Json::Object(fields)
}

struct Candidate {
    survivor: Survivor,
    reweight: Option<Reweight>,
    is_bracketed: bool,
}

fn candidate(document: &Json<'_>) -> Result<Candidate, Error> {
    let bracket = ["lo", "pairs_at_lo", "between", "weight"];
    let is_bracketed =
        matches!(document, Json::Object(fields) if fields.iter().any(|(name, _)| name == "lo"));
    let mut required = vec!["score", "reweight", "temperature", "threshold"];
    required.extend(bracket.iter().take(if is_bracketed { 4 } else { 0 }));
    let fields = Fields::new(document, "a candidate", &required, &[])?;
    let reweight = reweight(fields.get("reweight"))?;
    let temperature = number(fields.get("temperature"), "temperature")?;
    let scoring = scoring(score(fields.get("score"))?, reweight, temperature)?;
    let hi = number(fields.get("threshold"), "threshold")?;
    let mut survivor = Survivor { scoring, lo: hi, hi, at_lo: 0, between: Vec::new(), weight: 1 };
    if is_bracketed {
        survivor.lo = number(fields.get("lo"), "lo")?;
        survivor.at_lo = integer(fields.get("pairs_at_lo"), "pairs_at_lo")?;
        survivor.between = unpacked(fields.get("between"), "between")?;
        let weight = integer(fields.get("weight"), "weight")?;
        survivor.weight = match u32::try_from(weight) {
            Ok(weight) if weight > 0 => weight,
            _ => return refuse(format!("weight must be between 1 and 4294967295, got {weight}")),
        };
        if survivor.check().is_err() {
            return refuse(format!("the scores between {} and {hi} are not sorted", survivor.lo));
        }
    }
    Ok(Candidate { survivor, reweight, is_bracketed })
}

fn check_candidates(
    candidates: &[Candidate],
    recipe: &Recipe,
    n: usize,
    n_labels: usize,
    rank: usize,
) -> Result<(), Error> {
    let is_one = candidates.len() == 1;
    let is_selected = recipe.selection == Some(Selection::Modsel);
    if !(is_one || is_selected) || candidates.iter().any(|c| c.is_bracketed == is_one) {
        let selection = recipe.selection.map_or("None", Selection::name);
        return refuse(format!("{} candidates do not belong to selection={selection}", candidates.len()));
    }
    for Candidate { survivor, reweight, .. } in candidates {
        if !recipe.parts.iter().any(|part| part.holds(&survivor.scoring, *reweight)) {
            return refuse(format!("candidate {:?} is not one of the recipe", survivor.scoring));
        }
        if rank > n && survivor.hi != f64::INFINITY {
            return refuse(format!("threshold {} does not belong to rank {rank} of {n} rows", survivor.hi));
        }
        let pairs = u128::from(survivor.at_lo) + survivor.between.len() as u128;
        let is_first = is_one || rank > 1 || survivor.lo == f64::NEG_INFINITY;
        if pairs > n as u128 * n_labels as u128 || !is_first {
            let place = format!("rank {rank} of {n} rows of {n_labels} labels");
            return refuse(format!("lo and pairs_at_lo do not belong to {place}"));
        }
    }
    Ok(())
}

fn score_table(
    document: &Json<'_>,
    candidates: &[Candidate],
    n: usize,
    rank: usize,
) -> Result<Vec<Vec<f64>>, Error> {
    let rows = list(document, "calibration_scores")?;
    let rows = rows.iter().map(|row| unpacked(row, "calibration_scores"));
    let rows = rows.collect::<Result<Vec<Vec<f64>>, _>>()?;
    if rows.len() != candidates.len() || rows.iter().any(|row| row.len() != n) {
        let m = candidates.len();
        return refuse(format!("calibration_scores must hold {n} numbers for each of {m} candidates"));
    }
    if !rows.iter().all(|row| row.is_sorted()) {
        return refuse("calibration_scores are not sorted");
    }
    for (row, Candidate { survivor, is_bracketed, .. }) in rows.iter().zip(candidates) {
        let place = format!("does not belong to rank {rank} of {n} rows");
        if rank <= n && row[rank - 1] != survivor.hi {
            return refuse(format!("threshold {} {place}", survivor.hi));
        }
        if *is_bracketed && rank > 1 && rank <= n && row[rank - 2] != survivor.lo {
            return refuse(format!("lo {} {place}", survivor.lo));
        }
    }
    Ok(rows)
}

fn recipe(document: &Json<'_>) -> Result<Recipe, Error> {
    let fields = Fields::new(document, "recipe", &["selection", "parts"], &[])?;
    let selection = match fields.get("selection") {
        Json::Null => None,
        found => match Selection::ALL.into_iter().find(|selection| is_text(found, selection.name())) {
            None => return refuse(format!("selection must be one that is known, got {}", shown(found))),
            known => known,
        },
    };
    let mut n_candidates = 0_usize;
    let mut parts = Vec::new();
    for document in list(fields.get("parts"), "parts")? {
        let required = ["score", "reweight", "temperature", "handicap"];
        let fields = Fields::new(document, "a part of the recipe", &required, &[])?;
        let handicap = number(fields.get("handicap"), "handicap")?;
        if !(0.0..=LARGEST_HANDICAP).contains(&handicap) {
            return refuse(format!("handicap must be between 0 and {LARGEST_HANDICAP}, got {handicap}"));
        }
        let scores = list(fields.get("score"), "score")?;
        let reweights = list(fields.get("reweight"), "reweight")?;
        let temperatures = match fields.get("temperature") {
            found if is_text(found, "auto") => None,
            found => Some(list(found, "temperature")?),
        };
        let most = scores.len().saturating_mul(reweights.len());
        let most = most.saturating_mul(temperatures.map_or(1, <[_]>::len));
        n_candidates = n_candidates.saturating_add(most);
        if n_candidates > MOST_CANDIDATES {
            return refuse(format!("the recipe has more than {MOST_CANDIDATES} candidates"));
        }
        let part = Part {
            scores: scores.iter().map(score).collect::<Result<_, _>>()?,
            reweights: reweights.iter().map(reweight).collect::<Result<_, _>>()?,
            temperatures: match temperatures {
                None => None,
                Some(list) => Some(list.iter().map(|t| number(t, "temperature")).collect::<Result<_, _>>()?),
            },
            handicap,
        };
        for &score in &part.scores {
            for &reweight in &part.reweights {
                for &temperature in part.temperatures.as_deref().unwrap_or(&[1.0]) {
                    scoring(score, reweight, temperature)?;
                }
            }
        }
        parts.push(part);
    }
    let is_auto = parts.iter().any(|part| part.temperatures.is_none());
    if selection.is_none() && (n_candidates > 1 || is_auto) {
        return refuse("selection must say how to choose among several candidates, got None");
    }
    Ok(Recipe { selection, parts })
}

fn scoring(score: Score, reweight: Option<Reweight>, temperature: f64) -> Result<Scoring, Error> {
    let scoring = Scoring::new(score, reweight.unwrap_or(Reweight::NONE), temperature);
    scoring.map_err(|error| Error::Document(error.to_string()))
}

fn score(document: &Json<'_>) -> Result<Score, Error> {
    let name = match document {
        Json::Object(fields) => fields.iter().find(|(name, _)| name == "name").map(|(_, value)| value),
        _ => None,
    };
    let name = text(name.unwrap_or(&Json::Null), "score")?;
    let parameters: &[&str] = match name {
        "thr" | "aps" | "rank" => &["name"],
        "raps" => &["name", "penalty", "k_reg"],
        "saps" | "mixed" => &["name", "weight"],
        _ => return refuse(format!("score must be one that is known, got {:?}", clipped(name))),
    };
    let fields = Fields::new(document, "score", parameters, &[])?;
    let score = match name {
        "thr" => Score::Thr,
        "aps" => Score::Aps,
        "rank" => Score::Rank,
        "raps" => {
            let k_reg = integer(fields.get("k_reg"), "k_reg")?;
            let Ok(k_reg) = u32::try_from(k_reg) else {
                return refuse(format!("k_reg must be between 0 and 4294967295, got {k_reg}"));
            };
            Score::Raps { penalty: number(fields.get("penalty"), "penalty")?, k_reg }
        }
        "saps" => Score::Saps { weight: number(fields.get("weight"), "weight")? },
        _ => Score::Mixed { weight: number(fields.get("weight"), "weight")? },
    };
    scoring(score, None, 1.0)?;
    Ok(score)
}

fn reweight(document: &Json<'_>) -> Result<Option<Reweight>, Error> {
    if *document == Json::Null {
        return Ok(None);
    }
    let fields = Fields::new(document, "reweight", &["gamma", "power"], &[])?;
    let (gamma, power) = (number(fields.get("gamma"), "gamma")?, number(fields.get("power"), "power")?);
    Reweight::new(gamma, power).map(Some).map_err(|error| Error::Document(error.to_string()))
}

fn label_names(document: &Json<'_>, n_labels: usize) -> Result<Vec<String>, Error> {
    let names = list(document, "label_names")?;
    if names.len() != n_labels {
        return refuse(format!("label_names must hold {n_labels} names, got {}", names.len()));
    }
    names.iter().map(|name| text(name, "label_names").map(str::to_owned)).collect()
}

/// The fields of an object, all of them known.
struct Fields<'a, 'j>(&'a [(Cow<'j, str>, Json<'j>)]);

impl<'a, 'j> Fields<'a, 'j> {
    fn new(document: &'a Json<'j>, name: &str, required: &[&str], optional: &[&str]) -> Result<Self, Error> {
        let Json::Object(fields) = document else {
            return refuse(format!("{name} must be an object, got {}", shown(document)));
        };
        if let Some(missing) = required.iter().find(|name| fields.iter().all(|(known, _)| known != *name)) {
            return refuse(format!("{name} has no field '{missing}'"));
        }
        let is_known = |field: &&str| required.contains(field) || optional.contains(field);
        if let Some((unknown, _)) = fields.iter().find(|(field, _)| !is_known(&&**field)) {
            return refuse(format!("{name} has an unknown field '{}'", clipped(unknown)));
        }
        Ok(Self(fields))
    }

    fn optional(&self, name: &str) -> Option<&'a Json<'j>> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// A required field.
    fn get(&self, name: &str) -> &'a Json<'j> {
        self.optional(name).unwrap_or(&Json::Null)
    }
}

fn is_text(document: &Json<'_>, expected: &str) -> bool {
    matches!(document, Json::Text(text) if text == expected)
}

fn list<'a, 'j>(document: &'a Json<'j>, name: &str) -> Result<&'a [Json<'j>], Error> {
    match document {
        Json::List(items) if !items.is_empty() => Ok(items),
        _ => refuse(format!("{name} must be a list that is not empty, got {}", shown(document))),
    }
}

fn text<'a>(document: &'a Json<'_>, name: &str) -> Result<&'a str, Error> {
    match document {
        Json::Text(text) => Ok(text),
        _ => refuse(format!("{name} must be a string, got {}", shown(document))),
    }
}

fn flag(document: &Json<'_>, name: &str) -> Result<bool, Error> {
    match document {
        Json::Flag(flag) => Ok(*flag),
        _ => refuse(format!("{name} must be True or False, got {}", shown(document))),
    }
}

fn integer(document: &Json<'_>, name: &str) -> Result<u64, Error> {
    match document {
        Json::Number(number) if !number.contains(['.', 'e', 'E']) => number.parse().map_err(|_| {
            Error::Document(format!("{name} must be at least 0 and below 2^64, got {}", clipped(number)))
        }),
        _ => refuse(format!("{name} must be an integer, got {}", shown(document))),
    }
}

fn count(document: &Json<'_>, name: &str, most: usize) -> Result<usize, Error> {
    let value = integer(document, name)?;
    match usize::try_from(value) {
        Ok(count) if (1..=most).contains(&count) => Ok(count),
        _ => refuse(format!("{name} must be at least 1 and at most {most}, got {value}")),
    }
}

fn number(document: &Json<'_>, name: &str) -> Result<f64, Error> {
    let fields = Fields::new(document, name, &["bits", "value"], &[])?;
    let values = unpacked(fields.get("bits"), name)?;
    let [value] = values[..] else {
        return refuse(format!("{name} must be one number, got {}", values.len()));
    };
    let readable = fields.get("value");
    let agrees = match readable {
        // With a fraction or an exponent: an integer is not how a float is written.
        Json::Number(number) if number.contains(['.', 'e', 'E']) => {
            value.is_finite() && number.parse::<f64>().is_ok_and(|v| v.to_bits() == value.to_bits())
        }
        Json::Text(text) => value.is_infinite() && *text == value.to_string(),
        _ => false,
    };
    if agrees {
        return Ok(value);
    }
    refuse(format!("{name} has bits for {value:?} beside the value {}", shown(readable)))
}

fn unpacked(document: &Json<'_>, name: &str) -> Result<Vec<f64>, Error> {
    let digits = text(document, name)?.as_bytes();
    let (words, rest) = digits.as_chunks::<16>();
    let word = |digits: &[u8; 16]| {
        digits.iter().try_fold(0_u64, |word, &digit| match digit {
            b'0'..=b'9' => Some(word << 4 | u64::from(digit - b'0')),
            b'a'..=b'f' => Some(word << 4 | u64::from(digit - b'a' + 10)),
            _ => None,
        })
    };
    let values: Option<Vec<f64>> = words.iter().map(|digits| word(digits).map(f64::from_bits)).collect();
    match values {
        Some(values) if rest.is_empty() => {
            if values.iter().any(|value| value.is_nan()) {
                return refuse(format!("{name} must not contain NaN"));
            }
            Ok(values)
        }
        _ => {
            let found = shown(document);
            refuse(format!("{name} must be numbers as 16 hexadecimal digits each, got {found}"))
        }
    }
}

/// A value as an error shows it: a document may hold much.
fn shown(document: &Json<'_>) -> String {
    match document {
        Json::Null => "null".to_owned(),
        Json::Flag(flag) => flag.to_string(),
        Json::Number(number) => clipped(number).to_owned(),
        Json::Text(text) => format!("{:?}", clipped(text)),
        Json::List(_) => "a list".to_owned(),
        Json::Object(_) => "an object".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_those_of_python() {
        for (value, text) in [
            (0.1, "0.1"),
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (1e16, "1e+16"),
            (123_456_789_012_345_680.0, "1.2345678901234568e+17"),
            (9_999_999_999_999_998.0, "9999999999999998.0"),
            (0.0001, "0.0001"),
            (0.000_012_5, "1.25e-05"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
        ] {
            assert_eq!(readable(value), text);
            assert_eq!(number(&number_json(value), "x").unwrap().to_bits(), value.to_bits());
        }
        for value in [f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(number(&number_json(value), "x").unwrap(), value);
        }
        assert!(number(&number_json(f64::NAN), "x").is_err());
    }
}
