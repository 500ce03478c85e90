//! How are cells written (candidates with thresholds, and their scores), and what are they checked against?

use super::recipes::{reweight, score, scoring};
use super::values::{Fields, Value, field, in_document, list, packed, refuse};
use crate::conformal::{Cell, Partition, Survivor, Survivors, conformal_rank};
use crate::error::Error;
use crate::predictor::contents::{
    Condition, Contents, Detail, GroupKey, GroupName, Kind, Parted, Recipe, Selection, name_of,
};
use crate::predictor::json::{Field, Json};
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
        let asked = in_document(conformal_rank(n, self.alpha))?;
        // Which rank delta asks for is not computed again: readers would have to agree on a beta law.
        let is_right = if self.is_pac { rank <= n + 1 } else { rank == asked };
        if is_right {
            return Ok(());
        }
        refuse(format!("rank {rank} does not belong to alpha={} and {n} rows", self.alpha))
    }
}

/// The fields that hold a cell.
pub(super) fn cell_fields<'a>(cell: &'a Cell, detail: &Detail) -> Vec<Field<'a>> {
    let is_bracketed = cell.candidates.len() > 1;
    let candidates = cell.candidates.iter().zip(&detail.reweights);
    let candidates = candidates.map(|(survivor, &reweight)| candidate_json(survivor, reweight, is_bracketed));
    let mut fields = vec![field("candidates", list(candidates))];
    if !cell.scores.is_empty() {
        fields.push(field("calibration_scores", list(cell.scores.iter().map(|row| packed(row)))));
    }
    fields
}

fn candidate_json(survivor: &Survivor, reweight: Option<Reweight>, is_bracketed: bool) -> Json<'static> {
    let mut fields = vec![
        field("score", survivor.scoring.score),
        field("reweight", reweight),
        field("temperature", survivor.scoring.temperature),
        field("threshold", survivor.hi),
    ];
    if is_bracketed {
        fields.push(field("lo", survivor.lo));
        fields.push(field("pairs_at_lo", survivor.at_lo));
        fields.push(field("between", packed(&survivor.between)));
        fields.push(field("weight", survivor.weight));
    }
    Json::Object(fields)
}

/// What coverage is conditional on, with the cells.
pub(super) fn condition_json<'a>(contents: &'a Contents, condition: &'a Condition) -> Json<'a> {
    let scarce = if condition.pooled.is_some() { "pooled" } else { "all" };
    let mut fields = vec![field("kind", name_of(&Kind::NAMES, condition.kind)), field("scarce", scarce)];
    let (cell_of, most_ranks) = match &condition.parted {
        Parted::Labels(partition) => (&partition.cell_of, partition.most_ranks.as_ref()),
        Parted::Groups { names, cell_of } => {
            let names = names.iter().map(|name| match name.key() {
                GroupKey::Number(number) => Json::from(number),
                GroupKey::Name(name) => Json::from(name),
            });
            fields.push(field("groups", list(names)));
            (cell_of, None)
        }
    };
    fields.push(field("cell_of", list(cell_of.iter().copied())));
    fields.push(field("pooled", condition.pooled));
    if let Some(most_ranks) = most_ranks {
        fields.push(field("most_ranks", list(most_ranks.iter().copied())));
    }
    let cells = contents.cells.iter().zip(&contents.details).map(|(cell, detail)| {
        let mut fields = vec![field("n_calibration", detail.n_calibration), field("rank", detail.rank)];
        fields.extend(cell_fields(cell, detail));
        Json::Object(fields)
    });
    fields.push(field("cells", list(cells)));
    Json::Object(fields)
}

/// A condition with its cells.
pub(super) fn condition(
    value: Value<'_, '_>,
    facts: &Facts<'_>,
) -> Result<(Condition, Vec<Cell>, Vec<Detail>), Error> {
    let mut fields = value.fields("condition")?;
    let kind = fields.get("kind")?.one_of(&Kind::NAMES)?;
    let is_pooled = fields.get("scarce")?.one_of(&[("all", false), ("pooled", true)])?;
    let (mut cells, mut details) = (Vec::new(), Vec::new());
    for value in fields.get("cells")?.list()? {
        let mut fields = value.fields("a cell")?;
        let n = fields.get("n_calibration")?.within(0..=i64::MAX as usize)?;
        let rank = fields.get("rank")?.within(1..=i64::MAX as usize)?;
        let (cell, detail) = cell(&mut fields, facts, n, rank)?;
        fields.end()?;
        cells.push(cell);
        details.push(detail);
    }
    if cells.iter().any(|cell| cell.scores.is_empty() != cells[0].scores.is_empty()) {
        return refuse("calibration_scores must be in all cells or in none");
    }
    let known = 0..=cells.len() - 1;
    let pooled = fields.get("pooled")?;
    let pooled_cell = match pooled.json {
        Json::Null => None,
        _ => Some(pooled.within(known.clone())? as u32),
    };
    if pooled_cell.is_some() != is_pooled {
        return pooled.refuse("a cell exactly when scarce is 'pooled'");
    }
    if let Some(pooled) = pooled_cell {
        cells[pooled as usize].counts_all = true;
    }
    let integers = |value: Value<'_, '_>, n: usize, range: std::ops::RangeInclusive<usize>| {
        let items = value.list_of(n, "integers")?;
        items.map(|item| Ok(item.within(range.clone())? as u32)).collect::<Result<Vec<u32>, Error>>()
    };
    let k = facts.n_labels;
    let parted = if kind == Kind::Groups {
        let names = groups(fields.get("groups")?)?;
        let cell_of = integers(fields.get("cell_of")?, names.len(), known)?;
        Parted::Groups { names, cell_of }
    } else {
        let cell_of = integers(fields.get("cell_of")?, k, known)?;
        let most_ranks = match kind {
            Kind::Rc3p => Some(integers(fields.get("most_ranks")?, k, 1..=k)?),
            _ => None,
        };
        Parted::Labels(in_document(Partition::new(&cells, cell_of, most_ranks))?)
    };
    fields.end()?;
    Ok((Condition { kind, pooled: pooled_cell, parted }, cells, details))
}

fn groups(value: Value<'_, '_>) -> Result<Vec<GroupName>, Error> {
    let mut names = Vec::new();
    for item in value.list()? {
        names.push(match item.json {
            Json::Text(name) => GroupName::Name(name.clone().into_owned()),
            Json::Number(number) if !number.contains(['.', 'e', 'E']) => {
                GroupName::Number(number.parse().or_else(|_| item.refuse("integers of 64 bits"))?)
            }
            _ => return refuse("groups must be all integers or all strings"),
        });
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

/// The cell that fields hold; its calibration had `n` rows.
pub(super) fn cell(
    fields: &mut Fields<'_, '_>,
    facts: &Facts<'_>,
    n: usize,
    rank: usize,
) -> Result<(Cell, Detail), Error> {
    facts.check_rank(rank, n)?;
    let candidates = fields.get("candidates")?.list()?.map(candidate).collect::<Result<Vec<_>, _>>()?;
    check_candidates(&candidates, facts, n, rank)?;
    let scores = match fields.optional("calibration_scores") {
        Some(table) => score_table(table, &candidates, n, rank)?,
        None => Vec::new(),
    };
    let (survivors, reweights) = candidates.into_iter().map(|c| (c.survivor, c.reweight)).unzip();
    let cell = Cell { candidates: in_document(Survivors::new(survivors))?, counts_all: false, scores };
    Ok((cell, Detail { n_calibration: n, rank, reweights }))
}

struct Candidate {
    survivor: Survivor,
    reweight: Option<Reweight>,
    is_bracketed: bool,
}

fn candidate(value: Value<'_, '_>) -> Result<Candidate, Error> {
    let mut fields = value.fields("a candidate")?;
    let reweight = reweight(fields.get("reweight")?)?;
    let temperature = fields.get("temperature")?.number()?;
    let scoring = scoring(score(fields.get("score")?)?, reweight, temperature)?;
    let hi = fields.get("threshold")?.number()?;
    let lo = fields.optional("lo");
    let mut survivor = Survivor { scoring, lo: hi, hi, at_lo: 0, between: Vec::new(), weight: 1 };
    if let Some(lo) = lo {
        survivor.lo = lo.number()?;
        survivor.at_lo = fields.get("pairs_at_lo")?.integer()?;
        survivor.between = fields.get("between")?.numbers()?;
        survivor.weight = fields.get("weight")?.word(1)?;
        if survivor.check().is_err() {
            return refuse(format!("the scores between {} and {hi} are not sorted", survivor.lo));
        }
    }
    fields.end()?;
    Ok(Candidate { survivor, reweight, is_bracketed: lo.is_some() })
}

fn check_candidates(candidates: &[Candidate], facts: &Facts<'_>, n: usize, rank: usize) -> Result<(), Error> {
    let &Facts { recipe, n_labels, n_calibration, .. } = facts;
    let is_one = candidates.len() == 1;
    let is_selected = recipe.selection == Some(Selection::Modsel);
    if !(is_one || is_selected) || candidates.iter().any(|c| c.is_bracketed == is_one) {
        let selection = recipe.selection.map_or("None", |selection| name_of(&Selection::NAMES, selection));
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
    value: Value<'_, '_>,
    candidates: &[Candidate],
    n: usize,
    rank: usize,
) -> Result<Vec<Vec<f64>>, Error> {
    let rows = value.list()?.map(Value::numbers).collect::<Result<Vec<_>, _>>()?;
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
