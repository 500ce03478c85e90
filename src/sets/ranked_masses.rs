//! What are the masses of a row's first labels by rank, at one beta?
//!
//! Sets of many candidates are cut from one row. The total and the terms are computed once for all candidates
//! of one beta. They are relative to the maximum, so masses far below it round to 0; the margins leave room
//! for that (see [`super::bounds`]). They are in the finest quanta: coarse ones would leave too many labels
//! to the definition.

use crate::error::Error;
use crate::kernels::{self, FEW_TERMS, Float};
use crate::math::{Grain, ln, quanta};
use crate::run::{list_bytes, reserve};
use crate::score::{Masses, RowView, Scoring, Sharpness, Sums, masses};
use crate::simd::{NoLines, Simd};

/// Masses by rank, and the definition's sums that labels share.
#[derive(Debug, Default)]
pub(crate) struct RankedMasses<F: Float> {
    pub(crate) sharpness: Sharpness<F>,
    /// `Z`, the total in units of the largest term.
    pub(crate) z: f64,
    log_z: Option<f64>,
    /// The exact total.
    pub(crate) total: i128,
    /// The total in the grain of the row's scores, once it is known.
    sum_of_all: Option<i128>,
    /// The definition's masses of the top label, once they are known.
    of_top: Option<Masses>,
    /// The exact sum of the labels that are known or were passed over.
    pub(crate) seen: i128,
    /// The terms by label, where labels are few.
    few: Vec<F>,
    known: Vec<Mass>,
    /// The sums of the last label at the edge.
    edge: Option<Edge<F>>,
    /// Ranks before those that are known.
    pub(crate) skipped: usize,
    /// The reweighting and temperature that they are for.
    key: Option<BetaKey>,
}

type BetaKey = ((u64, u64), u64);

/// The definition's sums of a label at the edge. The next label extends them. Where beta is small all labels
/// of a row may be at the edge, and sums anew for each would take the square of their number.
#[derive(Clone, Copy, Debug)]
struct Edge<F> {
    /// Its rank, counted from 0.
    rank: usize,
    /// Over the labels before it, relative to the largest logit.
    above: i128,
    /// What the sums over the labels after it are relative to.
    shift: F,
    /// Over all labels, and over those up to this one, relative to the shift.
    all: i128,
    counted: i128,
}

/// A label's own mass and that of all labels after it, in units of the largest term.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mass {
    pub(crate) own: f64,
    pub(crate) after: f64,
}

impl<F: Float> RankedMasses<F> {
    /// Makes room for the masses of so many labels.
    pub(crate) fn reserve(&mut self, n_labels: usize) -> Result<(), Error> {
        self.forget();
        self.known.clear();
        self.few.clear();
        reserve(&mut self.known, n_labels)?;
        reserve(&mut self.few, FEW_TERMS)
    }

    /// Bytes that it has room for.
    pub(crate) fn bytes(&self) -> usize {
        list_bytes(&self.few) + list_bytes(&self.known)
    }

    /// Forgets the last row.
    #[inline(always)]
    pub(crate) fn forget(&mut self) {
        self.key = None;
    }

    /// Takes the sums of a candidate, unless the last one had the same beta.
    #[inline(always)]
    pub(crate) fn take<S: Simd>(&mut self, s: S, view: &RowView<'_, F>, scoring: &Scoring) {
        let key = Some((scoring.reweight.bits(), scoring.temperature.to_bits()));
        if key == self.key || scoring.is_limit() {
            return;
        }
        let sharpness = view.sharpness(scoring);
        (self.key, self.sharpness) = (key, sharpness);
        (self.seen, self.skipped, self.log_z) = (0, 0, None);
        (self.sum_of_all, self.of_top, self.edge) = (None, None, None);
        self.few.clear();
        self.known.clear();
        let (row, max, scale) = (view.row, view.scan.max, sharpness.scale);
        self.total = if row.len() <= FEW_TERMS {
            kernels::few_terms(s, row, max, scale, &mut self.few)
        } else {
            kernels::sum(s, row, max, scale, Grain::Fine, NoLines)
        };
        self.z = F::sum_to_f64(self.total);
    }

    /// The sum over all labels, relative to the maximum, that scores are made of.
    #[inline(always)]
    pub(crate) fn sum_of_all<S: Simd>(&mut self, s: S, view: &RowView<'_, F>) -> i128 {
        match (self.sum_of_all, Grain::of(view.row.len())) {
            (Some(known), _) => known,
            (None, Grain::Fine) => self.total,
            (None, grain) => {
                let sum = kernels::sum(s, view.row, view.scan.max, self.sharpness.scale, grain, NoLines);
                *self.sum_of_all.insert(sum)
            }
        }
    }

    /// The masses of the top label that scores are made of.
    #[inline(always)]
    pub(crate) fn of_top<S: Simd>(&mut self, s: S, view: &RowView<'_, F>) -> Masses {
        match self.of_top {
            Some(known) => known,
            None => *self.of_top.insert(view.top_masses(s, &self.sharpness)),
        }
    }

    /// The definition's masses of the label at rank `i` counted from 0, for sums that are split at the label.
    /// `ranked` are the logits by rank, at least up to it, and `next` is the logit ranked next, `-inf` if no
    /// possible label is.
    #[inline(always)]
    pub(crate) fn split_at<S: Simd>(
        &mut self,
        s: S,
        view: &RowView<'_, F>,
        ranked: &[F],
        i: usize,
        next: F,
    ) -> Masses {
        let (max, y, scale, grain) =
            (view.scan.max, ranked[i], self.sharpness.scale, Grain::of(view.row.len()));
        let shift = self.sharpness.shift_or(next, max, y);
        let edge = match self.edge {
            Some(mut edge) if edge.shift == shift && edge.rank <= i => {
                for rank in edge.rank..i {
                    edge.above += quanta(ranked[rank], max, scale, grain);
                    edge.counted += quanta(ranked[rank + 1], shift, scale, grain);
                }
                Edge { rank: i, ..edge }
            }
            _ => Edge {
                rank: i,
                above: kernels::sum(s, &ranked[..i], max, scale, grain, NoLines),
                shift,
                all: kernels::sum(s, view.row, shift, scale, grain, NoLines),
                counted: kernels::sum(s, &ranked[..=i], shift, scale, grain, NoLines),
            },
        };
        self.edge = Some(edge);
        masses(Sums::Split, max, y, (edge.above, edge.all - edge.counted), shift, &self.sharpness)
    }

    /// Passes over the next `count` labels, whose terms add up to `sum`. No mass may be known yet.
    #[inline(always)]
    pub(crate) fn skip(&mut self, count: usize, sum: i128) {
        self.skipped += count;
        self.seen += sum;
    }

    /// Begins again with the first label.
    #[inline(always)]
    pub(crate) fn restart(&mut self) {
        (self.seen, self.skipped) = (0, 0);
        self.known.clear();
    }

    /// The mass of the label at rank `i` counted from 0. Ranks must come one after another.
    #[inline(always)]
    pub(crate) fn at(&mut self, view: &RowView<'_, F>, i: usize, label: u32, logit: F) -> Mass {
        if let Some(&mass) = self.known.get(i - self.skipped) {
            return mass;
        }
        let own = match self.few.get(label as usize) {
            Some(&term) => F::quanta(term, Grain::Fine),
            None => quanta(logit, view.scan.max, self.sharpness.scale, Grain::Fine),
        };
        self.seen += own;
        let mass = Mass { own: F::sum_to_f64(own), after: F::sum_to_f64(self.total - self.seen) };
        self.known.push(mass);
        mass
    }

    /// The mass of the top label, if it is known.
    #[inline(always)]
    pub(crate) fn first(&self) -> Mass {
        self.known.first().copied().unwrap_or(Mass { own: 1.0, after: self.z - 1.0 })
    }

    /// `log Z`.
    #[inline(always)]
    pub(crate) fn log_z(&mut self) -> f64 {
        match self.log_z {
            Some(known) => known,
            None => *self.log_z.insert(ln(self.z)),
        }
    }
}
