//! How many pairs of a row and a label have scores up to a threshold, and what is selected by that, against the
//! definitions.
#![allow(clippy::unwrap_used, reason = "tests")]

use crate::definition;
use definition::{Case, Element, Hash, between, brackets, counted, lists, scorings, up_to, winner, winners};
use tightset::{
    Bracket, Cell, CellCounts, PairCounts, Parting, Partition, Scoring, Survivor, Survivors, cell_p_values,
    count_cell_pairs, count_pairs, p_value, predict_cell_sets, predict_selected_sets, selected_p_values,
};

/// Calls `$check` with float32 and float64 rows of up to `$most` labels, few rows and many; the sum of what it gives.
macro_rules! for_cases {
    ($most:expr, $check:expr) => {{
        let mut sum = 0;
        for (i, k) in [1, 3, 10, 40, 100, 150, 600].into_iter().enumerate().filter(|(_, k)| *k <= $most) {
            for (j, n) in [1, 2 + i, 16 + 2 * i, 33 + 7 * i, 80].into_iter().enumerate() {
                let (hash, n) = (&mut Hash((10 * i + j) as u64), n.min(20_000 / k));
                let (narrow, wide) = (Case::<f32>::new(hash, n, k), Case::<f64>::new(hash, n, k));
                sum += $check(hash, &narrow) + $check(hash, &wide);
            }
        }
        sum
    }};
}

/// Compares counts without printing thousands of scores.
fn assert_counts(found: &[PairCounts], expected: &[PairCounts], brackets: &[Bracket], place: &str) {
    assert_eq!(found.len(), expected.len(), "{place}");
    for ((found, expected), bracket) in found.iter().zip(expected).zip(brackets) {
        let numbers = |c: &PairCounts| [c.at_lo, c.at_hi, c.singletons, c.empty, c.between.len() as u64];
        assert_eq!(numbers(found), numbers(expected), "{place} at {bracket:?}");
        assert!(found == expected, "{place} at {bracket:?}: other scores between");
    }
}

fn check_counts<F: Element>(hash: &mut Hash, case: &Case<F>) -> usize {
    let (candidates, keep) = (scorings(hash), hash.below(2) == 0);
    let (mut listed, mut expected) = (Vec::new(), Vec::new());
    for scoring in &candidates {
        let scores = case.scores(scoring);
        for bracket in brackets(hash, &scores) {
            expected.push(counted(&scores, case.k, bracket, keep));
            listed.push(bracket);
        }
    }
    let (random, plan) = (case.randomness(), case.plan());
    let place = format!("{} rows of {} labels", case.n, case.k);
    let check = |candidates: &[Scoring], slots: &[usize]| {
        let at: Vec<Bracket> = slots.iter().map(|&slot| listed[slot]).collect();
        let found = count_pairs(&case.rows(), candidates, &at, keep, &random, &plan).unwrap();
        let expected: Vec<PairCounts> = slots.iter().map(|&slot| expected[slot].clone()).collect();
        assert_counts(&found, &expected, &at, &format!("{place}, {candidates:?}"));
    };
    let levels = listed.len() / candidates.len();
    // All at all brackets; aps, the first two, at several brackets in long float32 rows is in tests/hostile.rs.
    let first = if size_of::<F>() == 4 && case.k > 64 { 2 } else { 0 };
    check(&candidates[first..], &(first * levels..listed.len()).collect::<Vec<_>>());
    // All at one bracket each, and each alone.
    let one: Vec<usize> = (0..candidates.len()).map(|m| m * levels + hash.below(levels)).collect();
    check(&candidates, &one);
    (0..candidates.len()).for_each(|m| check(&candidates[m..=m], &one[m..=m]));
    0
}

#[test]
fn counts_are_of_pairs_with_scores_up_to_the_ends() {
    for_cases!(600, check_counts);
}

/// A largest rank for each label, or none for all.
fn most_ranks(hash: &mut Hash, k: usize) -> Option<Vec<u32>> {
    let is_limited = hash.below(2) == 0;
    is_limited.then(|| (0..k).map(|_| 1 + hash.below(k) as u32).collect())
}

/// Scores, infinite for labels beyond their largest rank.
fn limited<F: Element>(case: &Case<F>, scoring: &Scoring, most_ranks: Option<&[u32]>) -> Vec<f64> {
    let mut scores = case.scores(scoring);
    let Some(most_ranks) = most_ranks else { return scores };
    for (row, scores) in scores.chunks_exact_mut(case.k).enumerate() {
        for (label, rank) in case.by_rank(row).into_iter().zip(1..) {
            scores[label] = if rank > most_ranks[label] { f64::INFINITY } else { scores[label] };
        }
    }
    scores
}

fn check_cell_counts<F: Element>(hash: &mut Hash, case: &Case<F>) -> usize {
    let (candidates, keep, n_cells) = (scorings(hash), hash.below(2) == 0, 1 + hash.below(3));
    // Labels of cells from `n_cells` on are not counted.
    let mut cell_of: Vec<u32> = (0..case.k).map(|_| hash.below(n_cells + 2) as u32).collect();
    cell_of[hash.below(case.k)] = [0, u32::MAX][hash.below(2)];
    let most = most_ranks(hash, case.k);
    let (mut listed, mut expected) = (Vec::new(), Vec::new());
    for scoring in &candidates {
        let scores = limited(case, scoring, most.as_deref());
        for cell in 0..n_cells {
            let is_own = |pair: &usize| cell_of[pair % case.k] == cell as u32;
            let own: Vec<f64> = (0..scores.len()).filter(is_own).map(|pair| scores[pair]).collect();
            for bracket in brackets(hash, &scores) {
                let (at_lo, at_hi) = (up_to(&own, bracket.lo), up_to(&own, bracket.hi));
                expected.push(CellCounts { at_lo, at_hi, between: between(&own, bracket, keep) });
                listed.push(bracket);
            }
        }
    }
    let parting = Parting { cell_of: &cell_of, n_cells, most_ranks: most.as_deref() };
    let (random, plan) = (case.randomness(), case.plan());
    let found = count_cell_pairs(&case.rows(), &candidates, &parting, &listed, keep, &random, &plan).unwrap();
    assert_eq!(found.len(), expected.len());
    for ((found, expected), bracket) in found.iter().zip(&expected).zip(&listed) {
        let place = format!("{} rows of {} labels, {bracket:?}", case.n, case.k);
        assert_eq!((found.at_lo, found.at_hi), (expected.at_lo, expected.at_hi), "{place}");
        assert!(found.between == expected.between, "{place}: other scores between");
    }
    0
}

#[test]
fn counts_of_a_cell_are_of_its_labels() {
    for_cases!(600, check_cell_counts);
}

/// A candidate that few pairs separate from others, with ends among the scores of rows that are to select.
fn survivor(hash: &mut Hash, scoring: Scoring, own: &[f64]) -> Survivor {
    let kind = [0, 0, 1, 2, 2, 2, 3, 4][hash.below(8)];
    let bracket = brackets(hash, own)[kind];
    let mut between = between(own, bracket, true);
    between.retain(|_| hash.below(8) == 0);
    let (Bracket { lo, hi }, at_lo, weight) = (bracket, hash.below(9) as u64, [1, 1, 1, 2][hash.below(4)]);
    Survivor { scoring, lo, hi, at_lo, between, weight }
}

/// Calibration scores of a candidate, some of them scores of rows.
fn sorted_scores(hash: &mut Hash, own: &[f64]) -> Vec<f64> {
    let mut sorted: Vec<f64> = (0..30).map(|_| own[hash.below(own.len())]).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Checks sets and p-values among so many candidates; the number of rows whose labels do not all select the same.
fn check_selected<F: Element>(hash: &mut Hash, case: &Case<F>, n_survivors: usize) -> usize {
    let mut all = scorings(hash);
    let picked: Vec<Scoring> = (0..n_survivors).map(|_| all.swap_remove(hash.below(all.len()))).collect();
    let tables: Vec<Vec<f64>> = picked.iter().map(|scoring| case.scores(scoring)).collect();
    let list = picked.iter().zip(&tables).map(|(&scoring, own)| survivor(hash, scoring, own));
    let survivors = Survivors::new(list.collect()).unwrap();
    let sorted: Vec<Vec<f64>> = tables.iter().map(|own| sorted_scores(hash, own)).collect();
    let winners = winners(&survivors, &tables, case.k);

    let (rows, random, plan) = (case.rows(), case.randomness(), case.plan());
    let place = format!("{} rows of {} labels, {picked:?}", case.n, case.k);
    for allow_empty in [true, false] {
        let found = predict_selected_sets(&rows, &survivors, allow_empty, &random, &plan).unwrap();
        let is_in = |pair: usize| tables[winners[pair]][pair] <= survivors[winners[pair]].hi;
        assert_eq!(lists(&found), case.sets(allow_empty, is_in), "{place}");
    }
    let mut found = vec![0.0; winners.len()];
    selected_p_values(&rows, &survivors, &sorted, &random, &plan, &mut found).unwrap();
    let expected = winners.iter().enumerate().map(|(pair, &m)| p_value(&sorted[m], tables[m][pair]));
    assert!(found.iter().copied().eq(expected), "{place}: other p-values");
    winners.chunks(case.k).filter(|row| row.iter().any(|m| *m != row[0])).count()
}

#[test]
fn each_label_is_judged_by_the_candidate_that_it_selects() {
    for n_survivors in [1, 2, 3, 8] {
        let n_split = for_cases!(150, |hash: &mut Hash, case: &_| check_selected(hash, case, n_survivors));
        assert!(
            n_survivors == 1 || n_split > 200,
            "{n_split} rows select several of {n_survivors} candidates"
        );
    }
}

/// Checks sets and p-values by cells; the number of rows in which labels of one cell do not all select the same.
fn check_cells<F: Element>(hash: &mut Hash, case: &Case<F>) -> usize {
    let (all, most, n_cells) = (scorings(hash), most_ranks(hash, case.k), 1 + hash.below(4));
    let tables: Vec<Vec<f64>> = all.iter().map(|scoring| limited(case, scoring, most.as_deref())).collect();
    let pick = |hash: &mut Hash| {
        (0..[1, 2, 3, 8][hash.below(4)]).map(|_| hash.below(all.len())).collect::<Vec<usize>>()
    };
    let picked: Vec<Vec<usize>> = (0..n_cells).map(|_| pick(hash)).collect();
    let cell = |picked: &Vec<usize>| {
        let candidates = picked.iter().map(|&s| survivor(hash, all[s], &tables[s])).collect();
        let scores = picked.iter().map(|&s| sorted_scores(hash, &tables[s])).collect();
        Cell { candidates: Survivors::new(candidates).unwrap(), counts_all: hash.below(3) == 0, scores }
    };
    let cells: Vec<Cell> = picked.iter().map(cell).collect();
    // Some cells have no labels.
    let cell_of: Vec<u32> = (0..case.k).map(|_| hash.below(n_cells) as u32).collect();
    // The cell of each pair, the candidate of it that the label selects, and the score.
    let judge = |pair: usize| {
        let (start, label) = (pair / case.k * case.k, pair % case.k);
        let cell = cell_of[label] as usize;
        let of_row: Vec<&[f64]> = picked[cell].iter().map(|&s| &tables[s][start..][..case.k]).collect();
        let counts = |other: usize| cells[cell].counts_all || cell_of[other] as usize == cell;
        let m = winner(&cells[cell].candidates, &of_row, label, counts);
        (cell, m, of_row[m][label])
    };
    let judged: Vec<(usize, usize, f64)> = (0..case.n * case.k).map(judge).collect();

    let partition = Partition::new(&cells, cell_of, most).unwrap();
    let (rows, random, plan) = (case.rows(), case.randomness(), case.plan());
    let place = format!("{} rows of {} labels, {picked:?}", case.n, case.k);
    for allow_empty in [true, false] {
        let found = predict_cell_sets(&rows, &cells, &partition, allow_empty, &random, &plan).unwrap();
        let is_in = |pair: usize| judged[pair].2 <= cells[judged[pair].0].candidates[judged[pair].1].hi;
        assert_eq!(lists(&found), case.sets(allow_empty, is_in), "{place}");
    }
    let mut found = vec![0.0; judged.len()];
    cell_p_values(&rows, &cells, &partition, false, &random, &plan, &mut found).unwrap();
    let expected = judged.iter().map(|&(cell, m, score)| p_value(&cells[cell].scores[m], score));
    assert!(found.iter().copied().eq(expected), "{place}: other p-values");
    let is_split = |row: &[(usize, usize, f64)]| row.iter().any(|j| j.0 == row[0].0 && j.1 != row[0].1);
    judged.chunks(case.k).filter(|row| is_split(row)).count()
}

#[test]
fn each_label_of_a_cell_is_judged_by_the_candidate_that_it_selects_there() {
    let n_split = for_cases!(150, check_cells);
    assert!(n_split > 100, "labels of a cell select several candidates in {n_split} rows");
}
