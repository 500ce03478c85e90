//! Cells in documents: candidates with thresholds, their scores, and which labels or groups have them.

use super::recipes::{reweight, reweight_json, score, score_json, scoring};
use super::values::{
    Fields, borrowed, field, integer, integer_json, is_text, list, number, number_json, packed, refuse,
    shown, text, unpacked,
};
use crate::conformal::{Cell, Partition, Survivor, Survivors, conformal_rank};
use crate::error::Error;
use crate::predictor::condition::{Condition, GroupKey, GroupName, Kind, Parted};
use crate::predictor::contents::{Contents, Detail};
use crate::predictor::json::Json;
use crate::predictor::recipe::{Recipe, Selection};
use crate::score::Reweight;

/// What the cells of a document are checked against.
pub(super) struct Facts<'a> {
    pub(super) alpha: f64,
    pub(super) recipe: &'a Recipe,
    pub(super) n_labels: usize,
    pub(super) n_calibration: usize,
    pub(super) is_pac: bool,
}

impl Facts<'_> {
    pub(super) fn check_rank(&self, rank: usize, n: usize) -> Result<(), Error> {
        let asked = conformal_rank(n, self.alpha).map_err(|error| Error::Document(error.to_string()))?;
        // Which rank delta asks for is not computed again: readers would have to agree on a beta law.
        let is_right = if self.is_pac { rank <= n + 1 } else { rank == asked };
        if is_right {
            return Ok(());
        }
        refuse(format!("rank {rank} does not belong to alpha={} and {n} rows", self.alpha))
    }
}

/// The fields that hold a cell.
pub(super) fn cell_fields<'a>(cell: &'a Cell, detail: &Detail) -> Vec<(std::borrow::Cow<'a, str>, Json<'a>)> {
    let is_bracketed = cell.candidates.len() > 1;
    let candidates = cell.candidates.iter().zip(&detail.reweights);
    let candidates = candidates.map(|(c, reweight)| candidate_json(c, *reweight, is_bracketed)).collect();
    let mut fields = vec![field("candidates", Json::List(candidates))];
    if !cell.scores.is_empty() {
        let rows = cell.scores.iter().map(|row| Json::Text(packed(row).into())).collect();
        fields.push(field("calibration_scores", Json::List(rows)));
    }
    fields
}

/// The cell that fields hold.
pub(super) fn cell(
    fields: &Fields<'_, '_>,
    facts: &Facts<'_>,
    n: usize,
    rank: usize,
) -> Result<(Cell, Detail), Error> {
    facts.check_rank(rank, n)?;
    let candidates = list(fields.get("candidates"), "candidates")?;
    let candidates: Vec<Candidate> = candidates.iter().map(candidate).collect::<Result<_, _>>()?;
    check_candidates(&candidates, facts, n, rank)?;
    let scores = match fields.optional("calibration_scores") {
        Some(table) => score_table(table, &candidates, n, rank)?,
        None => Vec::new(),
    };
    let reweights = candidates.iter().map(|c| c.reweight).collect();
    let candidates = Survivors::new(candidates.into_iter().map(|c| c.survivor).collect())
        .map_err(|error| Error::Document(error.to_string()))?;
    let cell = Cell { candidates, counts_all: false, scores };
    Ok((cell, Detail { n_calibration: n, rank, reweights }))
}

/// What coverage is conditional on.
pub(super) fn condition_json<'a>(predictor: &'a Contents, condition: &'a Condition) -> Json<'a> {
    let integers = |list: &[u32]| Json::List(list.iter().map(|&i| integer_json(u64::from(i))).collect());
    let scarce = if condition.pooled.is_some() { "pooled" } else { "all" };
    let mut fields = vec![field("kind", borrowed(condition.kind.name())), field("scarce", borrowed(scarce))];
    let pooled = condition.pooled.map_or(Json::Null, |cell| integer_json(u64::from(cell)));
    match &condition.parted {
        Parted::Labels(partition) => {
            fields.push(field("cell_of", integers(&partition.cell_of)));
            fields.push(field("pooled", pooled));
            if let Some(most) = &partition.most_ranks {
                fields.push(field("most_ranks", integers(most)));
            }
        }
        Parted::Groups { names, cell_of } => {
            let names = names.iter().map(|name| match name.key() {
                GroupKey::Number(number) => Json::Number(number.to_string().into()),
                GroupKey::Name(name) => borrowed(name),
            });
            fields.push(field("groups", Json::List(names.collect())));
            fields.push(field("cell_of", integers(cell_of)));
            fields.push(field("pooled", pooled));
        }
    }
    let cells = predictor.cells.iter().zip(&predictor.details).map(|(cell, detail)| {
        let mut fields = vec![
            field("n_calibration", integer_json(detail.n_calibration as u64)),
            field("rank", integer_json(detail.rank as u64)),
        ];
        fields.extend(cell_fields(cell, detail));
        Json::Object(fields)
    });
    fields.push(field("cells", Json::List(cells.collect())));
    Json::Object(fields)
}

/// A condition with its cells.
pub(super) fn condition(
    document: &Json<'_>,
    facts: &Facts<'_>,
) -> Result<(Condition, Vec<Cell>, Vec<Detail>), Error> {
    let found = match document {
        Json::Object(fields) => fields.iter().find(|(name, _)| name == "kind").map(|(_, value)| value),
        _ => None,
    };
    let kind = Kind::ALL.into_iter().find(|kind| found.is_some_and(|found| is_text(found, kind.name())));
    let mut required = vec!["kind", "scarce", "cell_of", "pooled", "cells"];
    required.extend(match kind {
        Some(Kind::Groups) => Some("groups"),
        Some(Kind::Rc3p) => Some("most_ranks"),
        _ => None,
    });
    let fields = Fields::new(document, "condition", &required, &[])?;
    let Some(kind) = kind else {
        let found = shown(fields.get("kind"));
        text(fields.get("kind"), "kind")?;
        return refuse(format!("kind must be one that is known, got {found}"));
    };
    let scarce = text(fields.get("scarce"), "scarce")?;
    if !["all", "pooled"].contains(&scarce) {
        return refuse(format!("scarce must be one that is known, got {}", shown(fields.get("scarce"))));
    }
    let (mut cells, mut details) = (Vec::new(), Vec::new());
    for document in list(fields.get("cells"), "cells")? {
        let required = ["n_calibration", "rank", "candidates"];
        let fields = Fields::new(document, "a cell", &required, &["calibration_scores"])?;
        let most = i64::MAX as usize;
        let n = bounded(fields.get("n_calibration"), "n_calibration", 0, most)?;
        let (cell, detail) = cell(&fields, facts, n, bounded(fields.get("rank"), "rank", 1, most)?)?;
        cells.push(cell);
        details.push(detail);
    }
    if cells.iter().any(|cell| cell.scores.is_empty() != cells[0].scores.is_empty()) {
        return refuse("calibration_scores must be in all cells or in none");
    }
    let last = cells.len() - 1;
    let pooled = match fields.get("pooled") {
        Json::Null => None,
        found => Some(bounded(found, "pooled", 0, last)? as u32),
    };
    if pooled.is_some() != (scarce == "pooled") {
        let found = shown(fields.get("pooled"));
        return refuse(format!("pooled must be a cell exactly when scarce is 'pooled', got {found}"));
    }
    if let Some(pooled) = pooled {
        cells[pooled as usize].counts_all = true;
    }
    let parted = if kind == Kind::Groups {
        let names = groups(fields.get("groups"))?;
        let cell_of = integers(fields.get("cell_of"), "cell_of", names.len(), 0, last)?;
        Parted::Groups { names, cell_of }
    } else {
        let k = facts.n_labels;
        let cell_of = integers(fields.get("cell_of"), "cell_of", k, 0, last)?;
        let most_ranks = match kind {
            Kind::Rc3p => Some(integers(fields.get("most_ranks"), "most_ranks", k, 1, k)?),
            _ => None,
        };
        let partition = Partition::new(&cells, cell_of, most_ranks);
        Parted::Labels(partition.map_err(|error| Error::Document(error.to_string()))?)
    };
    Ok((Condition { kind, pooled, parted }, cells, details))
}

fn bounded(document: &Json<'_>, name: &str, least: usize, most: usize) -> Result<usize, Error> {
    let value = integer(document, name)?;
    match usize::try_from(value) {
        Ok(value) if (least..=most).contains(&value) => Ok(value),
        _ => refuse(format!("{name} must be at least {least} and at most {most}, got {value}")),
    }
}

fn integers(
    document: &Json<'_>,
    name: &str,
    length: usize,
    least: usize,
    most: usize,
) -> Result<Vec<u32>, Error> {
    let found = list(document, name)?;
    if found.len() != length {
        return refuse(format!("{name} must hold {length} integers, got {}", found.len()));
    }
    found.iter().map(|value| bounded(value, name, least, most).map(|value| value as u32)).collect()
}

fn groups(document: &Json<'_>) -> Result<Vec<GroupName>, Error> {
    let mut names = Vec::new();
    for found in list(document, "groups")? {
        let name = match found {
            Json::Text(name) => GroupName::Name(name.clone().into_owned()),
            Json::Number(number) if !number.contains(['.', 'e', 'E']) => match number.parse() {
                Ok(number) => GroupName::Number(number),
                Err(_) => return refuse(format!("groups must be integers of 64 bits, got {}", shown(found))),
            },
            _ => return refuse("groups must be all integers or all strings"),
        };
        names.push(name);
    }
    let is_number = |name: &GroupName| matches!(name, GroupName::Number(_));
    if names.iter().any(|name| is_number(name) != is_number(&names[0])) {
        return refuse("groups must be all integers or all strings");
    }
    let mut keys: Vec<GroupKey<'_>> = names.iter().map(GroupName::key).collect();
    keys.sort_unstable();
    if keys.windows(2).any(|pair| pair[0] == pair[1]) {
        return refuse("groups must differ from each other");
    }
    Ok(names)
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

fn check_candidates(candidates: &[Candidate], facts: &Facts<'_>, n: usize, rank: usize) -> Result<(), Error> {
    let &Facts { recipe, n_labels, n_calibration, .. } = facts;
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
        if pairs > n_calibration as u128 * n_labels as u128 || !is_first {
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
