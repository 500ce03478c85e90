//! How does a predictor predict many rows? It predicts the rows of each cell together.

use super::one_row::{Options, Predictor};
use super::picked::{Picked, PickedRandomness, merged};
use crate::conformal::{
    Cell, cell_p_values, p_values, predict_cell_sets, predict_selected_sets, selected_p_values,
};
use crate::error::Error;
use crate::kernels::Float;
use crate::math::Randomness;
use crate::rows::{LogProbabilities, Rows};
use crate::run::{Plan, zeroed};
use crate::score::check_length;
use crate::sets::{Sets, predict_sets};

impl Predictor {
    /// The prediction sets of many rows, on the threads that the plan allows.
    ///
    /// # Errors
    /// As [`Predictor::predict_row`]; the error names the first bad row.
    pub fn predict_sets<F: Float, R: Rows<F>>(
        &self,
        rows: &R,
        options: &Options<'_>,
        plan: &Plan<'_>,
    ) -> Result<Sets, Error> {
        if self.contents.probabilities {
            self.sets_of(&LogProbabilities(rows), options, plan)
        } else {
            self.sets_of(rows, options, plan)
        }
    }

    fn sets_of<F: Float, R: Rows<F>>(
        &self,
        rows: &R,
        options: &Options<'_>,
        plan: &Plan<'_>,
    ) -> Result<Sets, Error> {
        self.check_labels(rows.n_labels())?;
        let (allow_empty, randomness) = (options.allow_empty, &self.randomness(options)?);
        if let Some(partition) = self.contents.partition() {
            return predict_cell_sets(rows, &self.contents.cells, partition, allow_empty, randomness, plan);
        }
        let mut parts = Vec::new();
        let is_grouped = self.for_cells(rows, options, randomness, |cell, picked, randomness| {
            let sets = cell_sets(cell, &picked, allow_empty, randomness, plan)?;
            parts.push((picked.indices, sets));
            Ok(())
        })?;
        if is_grouped {
            return merged(&parts, rows.n_rows());
        }
        cell_sets(&self.contents.cells[0], rows, allow_empty, randomness, plan)
    }

    /// Calls `each` with every cell that has rows, its rows, and their randomness. Returns false without
    /// groups.
    fn for_cells<F: Float, R: Rows<F>>(
        &self,
        rows: &R,
        options: &Options<'_>,
        randomness: &Randomness<'_>,
        mut each: impl FnMut(&Cell, Picked<'_, R>, &Randomness<'_>) -> Result<(), Error>,
    ) -> Result<bool, Error> {
        let Some((condition, groups)) = self.groups_of(options, rows.n_rows())? else { return Ok(false) };
        let mut indices = vec![Vec::new(); self.contents.cells.len()];
        for (i, &group) in groups.iter().enumerate() {
            indices[condition.cell_of(group)?].push(i);
        }
        randomness.check(rows.n_rows())?;
        for (cell, indices) in self.contents.cells.iter().zip(indices) {
            if !indices.is_empty() {
                let picked = PickedRandomness::of(randomness, &indices);
                each(cell, Picked { rows, indices }, &picked.view(randomness))?;
            }
        }
        Ok(true)
    }

    /// Conformal p-values of all labels, `out` as rows of K. `options.allow_empty` does not matter.
    ///
    /// # Errors
    /// As [`Predictor::predict_row`], or when the predictor was saved without its score table.
    pub fn p_values<F: Float, R: Rows<F>>(
        &self,
        rows: &R,
        options: &Options<'_>,
        plan: &Plan<'_>,
        out: &mut [f64],
    ) -> Result<(), Error> {
        if self.contents.probabilities {
            self.p_values_of(&LogProbabilities(rows), options, plan, out)
        } else {
            self.p_values_of(rows, options, plan, out)
        }
    }

    fn p_values_of<F: Float, R: Rows<F>>(
        &self,
        rows: &R,
        options: &Options<'_>,
        plan: &Plan<'_>,
        out: &mut [f64],
    ) -> Result<(), Error> {
        self.check_labels(rows.n_labels())?;
        let randomness = &self.randomness(options)?;
        if self.contents.cells.iter().any(|cell| cell.scores.is_empty()) {
            return Err(Error::argument("score_table", "saved with the predictor, for p-values", "none"));
        }
        if let Some(partition) = self.contents.partition() {
            return cell_p_values(rows, &self.contents.cells, partition, false, randomness, plan, out);
        }
        let (n, k) = (rows.n_rows(), rows.n_labels());
        check_length("out", out.len(), n * k)?;
        let is_grouped = self.for_cells(rows, options, randomness, |cell, picked, randomness| {
            let mut found = zeroed(picked.indices.len(), k)?;
            p_values_in(cell, &picked, randomness, plan, &mut found)?;
            for (&i, row) in picked.indices.iter().zip(found.chunks_exact(k)) {
                out[i * k..][..k].copy_from_slice(row);
            }
            Ok(())
        })?;
        if is_grouped { Ok(()) } else { p_values_in(&self.contents.cells[0], rows, randomness, plan, out) }
    }
}

fn cell_sets<F: Float, R: Rows<F>>(
    cell: &Cell,
    rows: &R,
    allow_empty: bool,
    randomness: &Randomness<'_>,
    plan: &Plan<'_>,
) -> Result<Sets, Error> {
    match &cell.candidates[..] {
        [only] => predict_sets(rows, &only.scoring, only.hi, allow_empty, randomness, plan),
        _ => predict_selected_sets(rows, &cell.candidates, allow_empty, randomness, plan),
    }
}

fn p_values_in<F: Float, R: Rows<F>>(
    cell: &Cell,
    rows: &R,
    randomness: &Randomness<'_>,
    plan: &Plan<'_>,
    out: &mut [f64],
) -> Result<(), Error> {
    if let ([only], [scores]) = (&cell.candidates[..], cell.scores.as_slice()) {
        return p_values(rows, &only.scoring, scores, false, randomness, plan, out);
    }
    selected_p_values(rows, &cell.candidates, &cell.scores, randomness, plan, out)
}
