//! What is the score, rank, uncertainty or softmax of each row of a matrix?
//!
//! Inputs are checked before anything is written: lengths at once, values as rows are read.

use super::candidates::{Candidates, sharing_order};
use super::place::place_in;
use super::scoring::{Reweight, Scale, Score, Scoring};
use super::tile::{LabelScratch, TileView, label_scores_of_tile};
use crate::error::Error;
use crate::kernels::{Float, TILE};
use crate::math::Randomness;
use crate::rows::{Rows, Tile, gini, margin};
use crate::run::{Plan, Planes, Reads, TileWork, fill_tiles, with_scratch};
use crate::simd::Simd;

/// A measure of how uncertain a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Entropy in nats.
    Entropy,
    /// Difference of the two largest probabilities.
    Margin,
    /// Gini impurity.
    Gini,
}

/// Refuses an argument of another length than expected.
pub(crate) fn check_length(name: &'static str, found: usize, expected: usize) -> Result<(), Error> {
    if found == expected { Ok(()) } else { Err(Error::Length { name, found, expected }) }
}

/// Copies the labels of a tile's rows into `checked`; refuses a label out of range.
#[inline(always)]
fn check_labels(labels: &[i64], n_labels: usize, checked: &mut [usize; TILE]) -> Result<(), Error> {
    let mut outside = false;
    for (place, &label) in checked.iter_mut().zip(labels) {
        outside |= label as u64 >= n_labels as u64; // negative ones too
        *place = label as usize;
    }
    if outside {
        // The copies: another thread may have written to the labels meanwhile.
        for (row, &label) in checked[..labels.len()].iter().enumerate() {
            if label >= n_labels {
                return Err(Error::Label { row, value: label as i64, n_labels });
            }
        }
    }
    Ok(())
}

/// Uncertainty of each row.
///
/// # Errors
/// For a row that is not one of logits.
pub fn uncertainty<F: Float, R: Rows<F>>(
    rows: &R,
    measure: Measure,
    plan: &Plan<'_>,
    out: &mut [f64],
) -> Result<(), Error> {
    check_length("out", out.len(), rows.n_rows())?;
    fill_tiles::<f64, F, _>(rows, &measure, 1, 1, plan, out)
}

impl<F: Float> TileWork<F> for Measure {
    type Scratch = ();
    type Out<'a> = Planes<'a, f64>;

    fn reads(&self) -> Option<Reads> {
        Some(Reads { entropy: *self == Self::Entropy, sums: false })
    }

    #[inline(always)]
    fn tile<S: Simd>(
        &self,
        s: S,
        tile: &mut Tile<'_, F>,
        (): &mut (),
        out: &mut Planes<'_, f64>,
    ) -> Result<(), Error> {
        let out = &mut out.only()[tile.at..][..tile.count];
        if *self == Self::Entropy {
            tile.take_entropies();
            out.copy_from_slice(&tile.scan.entropies[..tile.count]);
            return Ok(());
        }
        for i in 0..tile.count {
            let (row, scan) = (tile.rows[i], tile.row_scan(i));
            out[i] = if *self == Self::Margin { margin(s, row, &scan) } else { gini(s, row, &scan) };
        }
        Ok(())
    }
}

/// Reweighted, tempered softmax of each row.
///
/// # Errors
/// For a row that is not one of logits, or a negative temperature.
pub fn softmax<F: Float, R: Rows<F>>(
    rows: &R,
    reweight: Reweight,
    temperature: f64,
    plan: &Plan<'_>,
    out: &mut [F],
) -> Result<(), Error> {
    let k = rows.n_labels();
    check_length("out", out.len(), rows.n_rows() * k)?;
    let scoring = Scoring::new(Score::Thr, reweight, temperature)?;
    fill_tiles::<F, F, _>(rows, &Softmax { scoring }, k, 4, plan, out)
}

struct Softmax {
    scoring: Scoring,
}

impl<F: Float> TileWork<F> for Softmax {
    type Scratch = ();
    type Out<'a> = Planes<'a, F>;

    fn reads(&self) -> Option<Reads> {
        Some(Reads { entropy: self.scoring.reweight.needs_entropy(), sums: false })
    }

    #[inline(always)]
    fn tile<S: Simd>(
        &self,
        _s: S,
        tile: &mut Tile<'_, F>,
        (): &mut (),
        out: &mut Planes<'_, F>,
    ) -> Result<(), Error> {
        let (k, candidates) = (tile.n_labels(), Candidates::only(&self.scoring));
        let view = TileView::of(tile, &candidates, &Randomness::default())?;
        let tile = view.tile;
        let out = &mut out.only()[tile.at * k..][..tile.count * k];
        for (i, out) in out.chunks_exact_mut(k).enumerate() {
            view.row(i, &candidates).softmax(self.scoring.reweight, self.scoring.temperature, out);
        }
        Ok(())
    }
}

/// Rank of each row's label: 1 for the largest logit, equal logits by lower label first.
///
/// # Errors
/// For a row that is not one of logits or a label out of range.
pub fn ranks<F: Float, R: Rows<F>>(
    rows: &R,
    labels: &[i64],
    plan: &Plan<'_>,
    out: &mut [i64],
) -> Result<(), Error> {
    check_length("labels", labels.len(), rows.n_rows())?;
    check_length("out", out.len(), rows.n_rows())?;
    fill_tiles::<i64, F, _>(rows, &Ranks { labels }, 1, 1, plan, out)
}

struct Ranks<'l> {
    labels: &'l [i64],
}

impl<F: Float> TileWork<F> for Ranks<'_> {
    type Scratch = ();
    type Out<'a> = Planes<'a, i64>;

    fn reads(&self) -> Option<Reads> {
        Some(Reads::default())
    }

    #[inline(always)]
    fn tile<S: Simd>(
        &self,
        s: S,
        tile: &mut Tile<'_, F>,
        (): &mut (),
        out: &mut Planes<'_, i64>,
    ) -> Result<(), Error> {
        let mut label = [0; TILE];
        check_labels(&self.labels[tile.first..][..tile.count], tile.n_labels(), &mut label)?;
        for (i, out) in out.only()[tile.at..][..tile.count].iter_mut().enumerate() {
            *out = place_in(s, tile.rows[i], label[i], &tile.row_scan(i)).rank as i64;
        }
        Ok(())
    }
}

/// Scores of each row's label. `out` holds one run of rows for each candidate; rows are read once for all of
/// them.
///
/// # Errors
/// For a row that is not one of logits, a label out of range, or U outside `[0, 1]`.
pub fn label_scores<F: Float, R: Rows<F>>(
    rows: &R,
    labels: &[i64],
    candidates: &[Scoring],
    scale: Scale,
    randomness: &Randomness<'_>,
    plan: &Plan<'_>,
    out: &mut [f64],
) -> Result<(), Error> {
    let n = rows.n_rows();
    check_length("labels", labels.len(), n)?;
    check_length("out", out.len(), n * candidates.len())?;
    randomness.check(n)?;
    with_scratch(false, |order: &mut Vec<usize>| {
        sharing_order(candidates, order);
        let work =
            LabelScores { labels, candidates: Candidates::ordered(candidates, order), scale, randomness };
        fill_tiles::<f64, F, _>(rows, &work, 1, candidates.len(), plan, out)
    })
}

struct LabelScores<'c> {
    labels: &'c [i64],
    candidates: Candidates<'c>,
    scale: Scale,
    randomness: &'c Randomness<'c>,
}

impl<F: Float> TileWork<F> for LabelScores<'_> {
    type Scratch = LabelScratch<F>;
    type Out<'a> = Planes<'a, f64>;

    fn reads(&self) -> Option<Reads> {
        Some(Reads { entropy: self.candidates.entropy, sums: true })
    }

    #[inline(always)]
    fn tile<S: Simd>(
        &self,
        s: S,
        tile: &mut Tile<'_, F>,
        scratch: &mut LabelScratch<F>,
        out: &mut Planes<'_, f64>,
    ) -> Result<(), Error> {
        let Self { labels, candidates, scale, randomness } = self;
        let mut label = [0; TILE];
        check_labels(&labels[tile.first..][..tile.count], tile.n_labels(), &mut label)?;
        scratch.read(tile, &label);
        let view = TileView::of(tile, candidates, randomness)?;
        label_scores_of_tile(s, &view, candidates, *scale, scratch, out, view.tile.at);
        Ok(())
    }
}
