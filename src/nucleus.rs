//! What a set by mass holds in a row of many labels, without judging every label.
//!
//! Under APS a set ends where the labels so far hold all mass but `exp(-q)`. Labels after those that hold it,
//! with a margin to spare, are out by the bound `left <= total - (mass before)` (see [`crate::judge`]); the first
//! ones, as long as what is left after them exceeds `exp(-q)` by the margin, are in. Both ends are found in
//! vectors, so that a set of dozens of labels among a thousand costs the order of those dozens, and the verdict
//! of the few labels in between. What is found here only spares work: every verdict is one that
//! [`Cut::walk_from`] would have given.

use crate::cut::Cut;
use crate::float::Float;
use crate::kernel::View;
use crate::ranked_masses::RankedMasses;
use crate::scoring::Score;
use crate::spare::bytes;
use crate::top_labels::TopLabels;

/// Up to this many terms are added in float32 lanes: 1024 roundings in each of 8 lanes are less than 6.2e-5.
pub(crate) const MOST_SUMMED: usize = 8192;
/// What covers those roundings, and that of the bound itself, relative to the total.
const ROUNDINGS: f64 = 1e-4;
/// Up to this many labels a row is walked as it is. Beyond, it pays to find out first, by a logarithm, which labels
/// are too low to be in the set, and to take and rank the others in vectors.
pub(crate) const FEW_LABELS: usize = 64;

/// The mass that labels must hold for all after them to be out, in units of the largest term.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) mass: f32,
    pub(crate) max: f32,
    pub(crate) scale: f32,
}

/// Parts of what was taken that may wait to be ranked, and how often a label may be moved on average: more than
/// twice what rows in no particular order need.
const MOST_WAITING: usize = 48;
const MOST_ROUNDS: usize = 48;

/// Labels of a row that may be in its set, with room for a vector beyond the row.
#[derive(Debug)]
pub(crate) struct Candidates {
    pub(crate) logits: Vec<f32>,
    pub(crate) labels: Vec<u32>,
    pub(crate) terms: Vec<f32>,
    pub(crate) spare: Vec<u32>,
    /// By rank, the first `ranked` of them.
    pub(crate) ranked_logits: Vec<f32>,
    pub(crate) ranked_labels: Vec<u32>,
    pub(crate) taken: usize,
    pub(crate) ranked: usize,
    /// Parts, as their starts and lengths, whose labels rank before those of the parts below them.
    waiting: [(usize, usize); MOST_WAITING],
    parts: usize,
    moved: usize,
}

impl Default for Candidates {
    fn default() -> Self {
        Self {
            logits: Vec::new(),
            labels: Vec::new(),
            terms: Vec::new(),
            spare: Vec::new(),
            ranked_logits: Vec::new(),
            ranked_labels: Vec::new(),
            taken: 0,
            ranked: 0,
            waiting: [(0, 0); MOST_WAITING],
            parts: 0,
            moved: 0,
        }
    }
}

impl Candidates {
    /// Bytes that there is room for.
    pub(crate) fn bytes(&self) -> usize {
        let labels = bytes(&self.labels) + bytes(&self.spare) + bytes(&self.ranked_labels);
        labels + bytes(&self.logits) + bytes(&self.terms) + bytes(&self.ranked_logits)
    }

    /// Makes room for rows of so many labels.
    pub(crate) fn make_room(&mut self, n_labels: usize) {
        let room = n_labels + 16;
        if self.logits.len() < room {
            self.logits.resize(room, 0.0);
            self.labels.resize(room, 0);
            self.terms.resize(room, 0.0);
            self.spare.resize(room, 0);
            self.ranked_logits.resize(n_labels, 0.0);
            self.ranked_labels.resize(n_labels, 0);
        }
    }

    /// Says that so many labels were taken, none of them ranked.
    pub(crate) fn begin(&mut self, taken: usize) {
        (self.taken, self.ranked, self.moved) = (taken, 0, 0);
        self.parts = 1;
        self.waiting[0] = (0, taken);
    }

    /// The part whose labels rank next.
    pub(crate) fn next_part(&mut self) -> Option<(usize, usize)> {
        self.parts = self.parts.checked_sub(1)?;
        Some(self.waiting[self.parts])
    }

    /// Says that a part was split, after its first labels; `false` where the limits are met.
    pub(crate) fn wait(&mut self, start: usize, higher: usize, count: usize) -> bool {
        self.moved += count;
        if self.parts + 2 > MOST_WAITING || self.moved > MOST_ROUNDS * self.taken {
            return false;
        }
        self.waiting[self.parts] = (start + higher, count - higher);
        self.waiting[self.parts + 1] = (start, higher);
        self.parts += 2;
        true
    }
}

impl Cut<'_> {
    /// Whether the set ends by the mass of labels before it.
    fn is_by_mass<F: Float>(&self, view: &View<'_, F>, masses: &RankedMasses<F>) -> bool {
        matches!(self.scoring.score, Score::Aps)
            && !self.scoring.is_limit()
            && view.row.len() > FEW_LABELS
            && masses.sharpness.scale < F::MAX
    }

    /// Takes the labels that may be in the set.
    #[inline(always)]
    pub(crate) fn take<F: Float>(
        &self,
        view: &View<'_, F>,
        masses: &mut RankedMasses<F>,
        top: &mut TopLabels<F>,
    ) {
        let floor = self.floor(view, masses);
        #[cfg(target_arch = "x86_64")]
        if floor > F::NEG_INFINITY
            && self.is_by_mass(view, masses)
            && let Some(row) = F::as_f32(view.row)
        {
            let kept = self.bounds.1 * masses.z * (1.0 - F::MARGIN);
            let mass = masses.z * (1.0 + ROUNDINGS) - kept + self.quantisation::<F>();
            let wanted = Wanted {
                mass: mass as f32,
                max: view.scan.max.to_f64() as f32,
                scale: masses.sharpness.scale.to_f64() as f32,
            };
            if top.take_in_vectors(row, floor.to_f64() as f32, Some(&wanted)) {
                return;
            }
        }
        top.take(view.row, floor);
    }

    /// How many of the first labels are in at `lo` for certain. Their masses are passed over.
    #[inline(always)]
    pub(crate) fn certain<F: Float>(
        &self,
        view: &View<'_, F>,
        masses: &mut RankedMasses<F>,
        top: &mut TopLabels<F>,
    ) -> usize {
        masses.rewind();
        if !self.is_by_mass(view, masses) {
            return 0;
        }
        // In, as `left >= after`, where after - MARGIN after > needed + quantisation.
        let after = (self.bounds.0 * masses.z + self.quantisation::<F>()) / (1.0 - 2.0 * F::MARGIN);
        let limit = masses.total().saturating_sub((after / F::QUANTUM).ceil() as i128);
        let mut count = 0;
        if limit > 0 {
            while let Some(ranked) = top.ranked_from(count) {
                let known = masses.seen();
                let Some((more, seen)) =
                    leading(ranked, view.scan.max, masses.sharpness.scale, limit - known)
                else {
                    break;
                };
                count += more;
                masses.skip(more, seen);
                if more < ranked.len() {
                    break;
                }
            }
        }
        count
    }
}

#[inline(always)]
fn leading<F: Float>(logits: &[F], max: F, scale: F, limit: i128) -> Option<(usize, i128)> {
    #[cfg(target_arch = "x86_64")]
    if let Some(narrow) = F::as_f32(logits) {
        return crate::simd::x86_64::leading(narrow, max.to_f64() as f32, scale.to_f64() as f32, limit);
    }
    let _ = (logits, max, scale, limit);
    None
}
