//! How does a predictor predict many rows? The rows of each cell together.

use super::condition::{Picked, PickedRandomness, merged};
use super::one_row::{Options, Predictor};
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
    /// The sets of many rows, on the threads that the plan allows.
    ///
    /// # Errors
    /// As [`Predictor::predict_row`], naming the first row that is at fault.
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
        let Some(of_rows) = self.cells_by_row(options, rows.n_rows())? else {
            return cell_sets(&self.contents.cells[0], rows, allow_empty, randomness, plan);
        };
        randomness.check(rows.n_rows())?;
        let mut parts = Vec::new();
        for (cell, indices) in of_rows {
            let random = PickedRandomness::of(randomness, &indices);
            let picked = Picked { rows, indices };
            let sets =
                cell_sets(&self.contents.cells[cell], &picked, allow_empty, &random.view(randomness), plan)?;
            parts.push((picked.indices, sets));
        }
        merged(&parts, rows.n_rows())
    }

    /// The cells that rows are in, with the rows of each; `None` without groups.
    fn cells_by_row(&self, options: &Options<'_>, n_rows: usize) -> Result<Option<Vec<CellRows>>, Error> {
        let Some(cell_of) = self.cells_of(options, n_rows)? else { return Ok(None) };
        let mut indices = vec![Vec::new(); self.contents.cells.len()];
        (0..n_rows).for_each(|i| indices[cell_of(i) as usize].push(i));
        Ok(Some(indices.into_iter().enumerate().filter(|(_, rows)| !rows.is_empty()).collect()))
    }

    /// Conformal p-values of all labels, `out` as rows of K. `options.allow_empty` has no part in them.
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
        let Some(of_rows) = self.cells_by_row(options, n)? else {
            return p_values_in(&self.contents.cells[0], rows, randomness, plan, out);
        };
        randomness.check(n)?;
        check_length("out", out.len(), n * k)?;
        for (cell, indices) in of_rows {
            let random = PickedRandomness::of(randomness, &indices);
            let picked = Picked { rows, indices };
            let mut found = zeroed(picked.indices.len(), k)?;
            p_values_in(&self.contents.cells[cell], &picked, &random.view(randomness), plan, &mut found)?;
            for (&i, row) in picked.indices.iter().zip(found.chunks_exact(k)) {
                out[i * k..][..k].copy_from_slice(row);
            }
        }
        Ok(())
    }
}

/// A cell and the rows in it.
type CellRows = (usize, Vec<usize>);

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
