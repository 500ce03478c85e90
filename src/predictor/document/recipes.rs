//! Recipes and scorings in documents.

use super::values::{
    Fields, borrowed, field, integer, integer_json, is_text, list, number, number_json, refuse, shown, text,
};
use crate::error::Error;
use crate::predictor::json::{Json, clipped};
use crate::predictor::recipe::{Part, Recipe, Selection};
use crate::score::{Reweight, Score, Scoring};

/// Candidates that a recipe may have; it is made from three lists, whose product a small file can blow up.
const MOST_CANDIDATES: usize = 1 << 14;
/// Weights stay within 32 bits for every n and alpha.
const LARGEST_HANDICAP: f64 = 100.0;

pub(super) fn score_json(score: Score) -> Json<'static> {
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

pub(super) fn reweight_json(reweight: Option<Reweight>) -> Json<'static> {
    reweight.map_or(Json::Null, |reweight| {
        let (gamma, power) = reweight.parameters();
        Json::Object(vec![field("gamma", number_json(gamma)), field("power", number_json(power))])
    })
}

pub(super) fn recipe_json(recipe: &Recipe) -> Json<'static> {
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

pub(super) fn recipe(document: &Json<'_>) -> Result<Recipe, Error> {
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

pub(super) fn scoring(score: Score, reweight: Option<Reweight>, temperature: f64) -> Result<Scoring, Error> {
    let scoring = Scoring::new(score, reweight.unwrap_or(Reweight::NONE), temperature);
    scoring.map_err(|error| Error::Document(error.to_string()))
}

pub(super) fn score(document: &Json<'_>) -> Result<Score, Error> {
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

pub(super) fn reweight(document: &Json<'_>) -> Result<Option<Reweight>, Error> {
    if *document == Json::Null {
        return Ok(None);
    }
    let fields = Fields::new(document, "reweight", &["gamma", "power"], &[])?;
    let (gamma, power) = (number(fields.get("gamma"), "gamma")?, number(fields.get("power"), "power")?);
    Reweight::new(gamma, power).map(Some).map_err(|error| Error::Document(error.to_string()))
}
