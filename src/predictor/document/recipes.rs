//! How are recipes and scorings written, and what is refused in them?

use super::values::{Fields, Value, field, in_document, list, refuse};
use crate::error::Error;
use crate::predictor::contents::{Part, Recipe, Selection, name_of};
use crate::predictor::json::Json;
use crate::score::{Reweight, Score, Scoring};

/// Candidates that a recipe may have: it holds three lists, and a small file could blow up their product.
const MOST_CANDIDATES: usize = 1 << 14;
/// With these, weights stay within 32 bits for every n and alpha.
const LARGEST_HANDICAP: f64 = 100.0;

impl From<Score> for Json<'_> {
    fn from(score: Score) -> Self {
        let (name, parameters) = match score {
            Score::Thr => ("thr", vec![]),
            Score::Aps => ("aps", vec![]),
            Score::Raps { penalty, k_reg } => {
                ("raps", vec![field("penalty", penalty), field("k_reg", k_reg)])
            }
            Score::Saps { weight } => ("saps", vec![field("weight", weight)]),
            Score::Rank => ("rank", vec![]),
            Score::Mixed { weight } => ("mixed", vec![field("weight", weight)]),
        };
        Self::Object([vec![field("name", name)], parameters].concat())
    }
}

impl From<Reweight> for Json<'_> {
    fn from(reweight: Reweight) -> Self {
        let (gamma, power) = reweight.parameters();
        Self::Object(vec![field("gamma", gamma), field("power", power)])
    }
}

impl From<&Part> for Json<'_> {
    fn from(part: &Part) -> Self {
        let temperatures = part.temperatures.as_ref();
        Self::Object(vec![
            field("score", list(part.scores.iter().copied())),
            field("reweight", list(part.reweights.iter().copied())),
            field("temperature", temperatures.map_or("auto".into(), |all| list(all.iter().copied()))),
            field("handicap", part.handicap),
        ])
    }
}

impl From<&Recipe> for Json<'_> {
    fn from(recipe: &Recipe) -> Self {
        let selection = recipe.selection.map(|selection| name_of(&Selection::NAMES, selection));
        Self::Object(vec![field("selection", selection), field("parts", list(&recipe.parts))])
    }
}

pub(super) fn recipe(value: Value<'_, '_>) -> Result<Recipe, Error> {
    let mut fields = value.fields("recipe")?;
    let selection = fields.get("selection")?;
    let selection = match selection.json {
        Json::Null => None,
        _ => Some(selection.one_of(&Selection::NAMES)?),
    };
    let (mut parts, mut n_candidates) = (Vec::new(), 0_usize);
    for value in fields.get("parts")?.list()? {
        let part = part(value.fields("a part of the recipe")?)?;
        let n_temperatures = part.temperatures.as_ref().map_or(1, Vec::len);
        let n = part.scores.len().saturating_mul(part.reweights.len()).saturating_mul(n_temperatures);
        n_candidates = n_candidates.saturating_add(n);
        if n_candidates > MOST_CANDIDATES {
            return refuse(format!("the recipe has more than {MOST_CANDIDATES} candidates"));
        }
        for &score in &part.scores {
            for &reweight in &part.reweights {
                for &temperature in part.temperatures.as_deref().unwrap_or(&[1.0]) {
                    scoring(score, reweight, temperature)?;
                }
            }
        }
        parts.push(part);
    }
    fields.end()?;
    let is_auto = parts.iter().any(|part| part.temperatures.is_none());
    if selection.is_none() && (n_candidates > 1 || is_auto) {
        return refuse("selection must say how to choose among several candidates, got None");
    }
    Ok(Recipe { selection, parts })
}

fn part(mut fields: Fields<'_, '_>) -> Result<Part, Error> {
    let handicap = fields.get("handicap")?.number()?;
    if !(0.0..=LARGEST_HANDICAP).contains(&handicap) {
        return refuse(format!("handicap must be between 0 and {LARGEST_HANDICAP}, got {handicap}"));
    }
    let temperature = fields.get("temperature")?;
    let part = Part {
        scores: fields.get("score")?.list()?.map(score).collect::<Result<_, _>>()?,
        reweights: fields.get("reweight")?.list()?.map(reweight).collect::<Result<_, _>>()?,
        temperatures: match temperature {
            auto if auto.is_text("auto") => None,
            listed => Some(listed.list()?.map(Value::number).collect::<Result<_, _>>()?),
        },
        handicap,
    };
    fields.end()?;
    Ok(part)
}

pub(super) fn scoring(score: Score, reweight: Option<Reweight>, temperature: f64) -> Result<Scoring, Error> {
    in_document(Scoring::new(score, reweight.unwrap_or(Reweight::NONE), temperature))
}

pub(super) fn score(value: Value<'_, '_>) -> Result<Score, Error> {
    // Errors call the name a score; what is no object has none.
    let name = Value { name: "score", json: value.json.get("name").unwrap_or(&Json::Null) };
    let text = name.text()?;
    let mut fields = value.fields("score")?;
    fields.get("name")?;
    let score = match text {
        "thr" => Score::Thr,
        "aps" => Score::Aps,
        "rank" => Score::Rank,
        "raps" => {
            Score::Raps { penalty: fields.get("penalty")?.number()?, k_reg: fields.get("k_reg")?.word(0)? }
        }
        "saps" => Score::Saps { weight: fields.get("weight")?.number()? },
        "mixed" => Score::Mixed { weight: fields.get("weight")?.number()? },
        _ => return name.refuse("one that is known"),
    };
    fields.end()?;
    scoring(score, None, 1.0)?;
    Ok(score)
}

pub(super) fn reweight(value: Value<'_, '_>) -> Result<Option<Reweight>, Error> {
    if *value.json == Json::Null {
        return Ok(None);
    }
    let mut fields = value.fields("reweight")?;
    let reweight = Reweight::new(fields.get("gamma")?.number()?, fields.get("power")?.number()?);
    fields.end()?;
    in_document(reweight).map(Some)
}
