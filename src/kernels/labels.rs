//! Which labels of a long row can be in its set, in the order of their ranks?
//!
//! ```text
//! take: the labels with logits of at least a floor; if a mass is wanted, of those the first that hold it and a few more
//!       (found by bisection: three thresholds are tried in each of three passes)
//! rank: a quicksort that stops after the first part, down to parts in which each label is compared with all others
//! ```

use fearless_simd::{prelude::*, u32x16};

use super::terms::Terms;
use super::{Float, Row, V};
use crate::error::Error;
use crate::math::WIDTH;
use crate::simd::{Lanes, Simd, vectorize};

/// Up to this many terms are added in float32 lanes: 512 roundings in each of 16 lanes are less than 3.1e-5.
const MOST_SUMMED: usize = 8192;
/// Up to this many labels a row is walked as it is. Beyond, it pays to find out first, by a logarithm, which
/// labels are too low to be in the set, and to take and rank the others in vectors.
pub(crate) const FEW_LABELS: usize = 64;
/// Each pass over the labels tries three thresholds at once: 1/64 of the range is left after three passes.
/// With two or four, sets of 56 among 1000 labels take 5 and 12 % longer.
const PASSES: usize = 3;
/// Labels that are ranked by comparing each with all others.
pub(super) const MOST_COMPARED: usize = 64;
/// Parts of what was taken that may wait to be ranked, and how often a label may be moved on average: more
/// than twice what rows in no particular order need.
const MOST_WAITING: usize = 48;
const MOST_ROUNDS: usize = 48;

/// The mass that labels must hold for all after them to be out, in units of the largest term.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MassWanted<F> {
    pub(crate) mass: F,
    pub(crate) max: F,
    pub(crate) scale: F,
}

/// Labels of a row that may be in its set, with room for a vector beyond them.
#[derive(Debug)]
pub(crate) struct LabelBuffer<F> {
    pub(crate) logits: Vec<F>,
    pub(crate) labels: Vec<u32>,
    terms: Vec<F>,
    spare: Vec<u32>,
    /// By rank, the first `ranked` of them.
    pub(crate) ranked_logits: Vec<F>,
    pub(crate) ranked_labels: Vec<u32>,
    pub(crate) taken: usize,
    pub(crate) ranked: usize,
    /// Parts, as their starts and lengths, whose labels rank before those of the parts below them.
    waiting: [(usize, usize); MOST_WAITING],
    parts: usize,
    moved: usize,
}

impl<F> Default for LabelBuffer<F> {
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

impl<F: Float> LabelBuffer<F> {
    /// Bytes that there is room for.
    pub(crate) fn bytes(&self) -> usize {
        let labels = vec_bytes(&self.labels) + vec_bytes(&self.spare) + vec_bytes(&self.ranked_labels);
        labels + vec_bytes(&self.logits) + vec_bytes(&self.terms) + vec_bytes(&self.ranked_logits)
    }

    /// Makes room for rows of so many labels.
    pub(crate) fn make_room(&mut self, n_labels: usize) -> Result<(), Error> {
        let room = n_labels + WIDTH;
        if self.logits.len() < room {
            grow(&mut self.logits, room)?;
            grow(&mut self.labels, room)?;
            grow(&mut self.terms, room)?;
            grow(&mut self.spare, room)?;
            grow(&mut self.ranked_logits, n_labels)?;
            grow(&mut self.ranked_labels, n_labels)?;
        }
        Ok(())
    }

    /// Says that so many labels were taken, none of them ranked.
    fn begin(&mut self, taken: usize) {
        (self.taken, self.ranked, self.moved) = (taken, 0, 0);
        self.parts = 1;
        self.waiting[0] = (0, taken);
    }

    /// The part whose labels rank next.
    fn next_part(&mut self) -> Option<(usize, usize)> {
        self.parts = self.parts.checked_sub(1)?;
        Some(self.waiting[self.parts])
    }

    /// Says that a part was split, after its first labels; `false` where the limits are met.
    fn wait(&mut self, start: usize, higher: usize, count: usize) -> bool {
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

/// Lengthens a list with zeros.
fn grow<T: Clone + Default>(list: &mut Vec<T>, length: usize) -> Result<(), Error> {
    let more = length - list.len();
    list.try_reserve(more).map_err(|_| Error::Memory { elements: length, size: size_of::<T>() })?;
    list.resize(length, T::default());
    Ok(())
}

/// Bytes that a list has room for.
fn vec_bytes<T>(list: &Vec<T>) -> usize {
    list.capacity() * size_of::<T>()
}

/// Sixteen places of a list.
#[inline(always)]
fn at<T>(list: &[T], start: usize) -> &[T; WIDTH] {
    list[start..].first_chunk().unwrap_or_else(|| no_room())
}

/// Sixteen places of a list, to be written.
#[inline(always)]
fn at_mut<T>(list: &mut [T], start: usize) -> &mut [T; WIDTH] {
    list[start..].first_chunk_mut().unwrap_or_else(|| no_room())
}

#[cold]
#[inline(never)]
fn no_room() -> ! {
    unreachable!("buffers have room for a vector beyond their labels")
}

/// Labels as lanes.
#[inline(always)]
fn labels<S: Simd>(s: S, labels: &[u32; WIDTH]) -> u32x16<S> {
    u32x16::load_array_ref(s, labels)
}

/// Takes the labels with logits of at least `floor`, which is finite, or of those the first that hold the
/// mass `wanted` and a few more, to be ranked.
#[inline(always)]
pub(crate) fn take_labels<S: Simd, F: Float>(
    s: S,
    row: &[F],
    floor: F,
    wanted: Option<&MassWanted<F>>,
    to: &mut LabelBuffer<F>,
) {
    vectorize!(s, {
        let mut taken = gather(s, row, floor, to);
        if let Some(wanted) = wanted
            && taken > 2 * WIDTH
            && taken <= MOST_SUMMED
        {
            let threshold = threshold(s, floor, taken, wanted, to);
            if threshold > floor {
                taken = keep(s, threshold, taken, to);
            }
        }
        to.begin(taken);
    });
}

/// The labels with logits of at least `floor`, in their order, and a vector of `-inf` after them.
#[inline(always)]
fn gather<S: Simd, F: Float>(s: S, row: &[F], floor: F, to: &mut LabelBuffer<F>) -> usize {
    // As slices: places that are known need not be read again after each that is written.
    let (to_logits, to_labels) = (&mut *to.logits, &mut *to.labels);
    let (row, floor, mut taken) = (Row::of(row), V::<F, S>::splat(s, floor), 0);
    let mut own = u32x16::from_fn(s, |i| i as u32);
    macro_rules! take {
        ($z:expr) => {
            let z = $z;
            let high = z.at_least(floor);
            // Most vectors have no label that is high enough.
            if V::<F, S>::any(high) {
                z.compress(high, at_mut(to_logits, taken));
                V::<F, S>::compress_labels(high, own, at_mut(to_labels, taken));
                taken += V::<F, S>::bits(high).count_ones() as usize;
            }
        };
    }
    for values in row.whole {
        take!(V::<F, S>::load(s, values));
        own += WIDTH as u32;
    }
    if let Some((z, _)) = row.last(s) {
        take!(z);
    }
    *at_mut(to_logits, taken) = [F::NEG_INFINITY; WIDTH];
    taken
}

/// A logit, at least `floor`, such that the labels from there on hold the mass wanted; `floor` where none was
/// found.
#[inline(always)]
fn threshold<S: Simd, F: Float>(
    s: S,
    floor: F,
    taken: usize,
    wanted: &MassWanted<F>,
    to: &mut LabelBuffer<F>,
) -> F {
    let vectors = taken.div_ceil(WIDTH);
    let terms = Terms::new(s, wanted.max, wanted.scale, F::DEEPEST);
    let (logits, _) = to.logits[..vectors * WIDTH].as_chunks::<WIDTH>();
    let (all, _) = to.terms[..vectors * WIDTH].as_chunks_mut::<WIDTH>();
    for (term, z) in all.iter_mut().zip(logits) {
        *term = terms.of(V::<F, S>::load(s, z), F::from_f64(1.0)).to_array();
    }
    let zero = V::<F, S>::splat(s, F::ZERO);
    let (mut low, mut high) = (floor, wanted.max);
    for _ in 0..PASSES {
        let step = F::from_f64(0.25) * (high - low);
        let tried = [low + step, low + step + step, high - step];
        let at = tried.map(|tried| V::<F, S>::splat(s, tried));
        let mut sums = [zero; 3];
        for (term, z) in all.iter().zip(logits) {
            let (z, e) = (V::<F, S>::load(s, z), V::<F, S>::load(s, term));
            for j in 0..3 {
                sums[j] = sums[j] + V::<F, S>::select(z.at_least(at[j]), e, zero);
            }
        }
        (low, high) = if sums[2].total() >= wanted.mass {
            (tried[2], high)
        } else if sums[1].total() >= wanted.mass {
            (tried[1], tried[2])
        } else if sums[0].total() >= wanted.mass {
            (tried[0], tried[1])
        } else {
            (low, tried[0])
        };
    }
    // Logits further apart than the type can say leave no threshold behind.
    if low <= wanted.max { low } else { floor }
}

/// Keeps the labels from a threshold on, and a vector of `-inf` after them.
#[inline(always)]
fn keep<S: Simd, F: Float>(s: S, threshold: F, taken: usize, to: &mut LabelBuffer<F>) -> usize {
    let (mut kept, threshold) = (0, V::<F, S>::splat(s, threshold));
    let (logits, all_labels) = (&mut *to.logits, &mut *to.labels);
    // Vectors are read before they are written over, since what is kept never overtakes what is read.
    for start in (0..taken).step_by(WIDTH) {
        let z = V::<F, S>::load(s, at(logits, start));
        let label = labels(s, at(all_labels, start));
        let high = z.at_least(threshold);
        z.compress(high, at_mut(logits, kept));
        V::<F, S>::compress_labels(high, label, at_mut(all_labels, kept));
        kept += V::<F, S>::bits(high).count_ones() as usize;
    }
    *at_mut(logits, kept) = [F::NEG_INFINITY; WIDTH];
    kept
}

/// Puts the next labels into the order of their ranks, at least one if there are more; `false` where logits
/// are laid out to make that slow.
///
/// A quicksort whose parts keep the order of labels, so that equal logits stay as they rank, down to parts in
/// which each label is compared with all others: without a branch that depends on a logit.
#[inline(always)]
pub(crate) fn rank_labels<S: Simd, F: Float>(s: S, to: &mut LabelBuffer<F>) -> bool {
    vectorize!(s, {
        while let Some((start, count)) = to.next_part() {
            // A part has a vector of -inf after it.
            let (kept, kept_labels) = (*at(&to.logits, start + count), *at(&to.labels, start + count));
            *at_mut(&mut to.logits, start + count) = [F::NEG_INFINITY; WIDTH];
            if count <= MOST_COMPARED {
                compare(s, start, count, to);
                *at_mut(&mut to.logits, start + count) = kept;
                to.ranked = start + count;
                return true;
            }
            let pivot = middle(&to.logits[start..start + count]);
            let mut higher = part::<true, S, F>(s, start, count, pivot, to);
            if higher == count {
                // The pivot is the smallest: labels with its logit are in order.
                *at_mut(&mut to.logits, start + count) = [F::NEG_INFINITY; WIDTH];
                higher = part::<false, S, F>(s, start, count, pivot, to);
            }
            *at_mut(&mut to.logits, start + count) = kept;
            *at_mut(&mut to.labels, start + count) = kept_labels;
            if higher == 0 {
                to.ranked_logits[start..start + count].copy_from_slice(&to.logits[start..start + count]);
                to.ranked_labels[start..start + count].copy_from_slice(&to.labels[start..start + count]);
                to.ranked = start + count;
                return true;
            }
            if !to.wait(start, higher, count) {
                return false;
            }
        }
        true
    })
}

/// The middle one of five of the logits.
#[inline(always)]
fn middle<F: Float>(logits: &[F]) -> F {
    let step = logits.len() / 5;
    let mut some = [F::ZERO; 5];
    for i in 0..5 {
        some[i] = logits[step / 2 + i * step];
    }
    // Selected by exchanges, each of which is two instructions.
    for (i, j) in [(0, 1), (3, 4), (0, 3), (1, 4), (1, 2), (2, 3), (1, 2)] {
        (some[i], some[j]) = (some[i].smaller(some[j]), some[j].larger(some[i]));
    }
    some[2]
}

/// Moves labels that are at least the pivot (`EQUAL`), or above it, before the others, both in their order;
/// how many they are. The part has a vector of `-inf` after it.
#[inline(always)]
fn part<const EQUAL: bool, S: Simd, F: Float>(
    s: S,
    start: usize,
    count: usize,
    pivot: F,
    to: &mut LabelBuffer<F>,
) -> usize {
    let (pivot, mut higher, mut lower) = (V::<F, S>::splat(s, pivot), 0, 0);
    let (logits, all_labels) = (&mut to.logits[start..], &mut to.labels[start..]);
    let (lower_logits, lower_labels) = (&mut *to.terms, &mut *to.spare);
    // The lower ones go where nothing is, and from there after the higher ones.
    for i in (0..count).step_by(WIDTH) {
        let z = V::<F, S>::load(s, at(logits, i));
        let label = labels(s, at(all_labels, i));
        let (high, low) =
            if EQUAL { (z.at_least(pivot), pivot.greater(z)) } else { (z.greater(pivot), pivot.at_least(z)) };
        z.compress(high, at_mut(logits, higher));
        V::<F, S>::compress_labels(high, label, at_mut(all_labels, higher));
        z.compress(low, at_mut(lower_logits, lower));
        V::<F, S>::compress_labels(low, label, at_mut(lower_labels, lower));
        let moved = V::<F, S>::bits(high).count_ones() as usize;
        higher += moved;
        // The filling is behind all others.
        lower += WIDTH.min(count - i) - moved;
    }
    for i in (0..lower).step_by(WIDTH) {
        *at_mut(logits, higher + i) = *at(lower_logits, i);
        *at_mut(all_labels, higher + i) = *at(lower_labels, i);
    }
    higher
}

/// Ranks a part by comparing each label with all others. The part has a vector of `-inf` after it.
#[inline(always)]
fn compare<S: Simd, F: Float>(s: S, start: usize, count: usize, to: &mut LabelBuffer<F>) {
    let (vectors, _) = to.logits[start..start + count.next_multiple_of(WIDTH)].as_chunks::<WIDTH>();
    let (logits, labels) = (&to.logits[start..start + count], &to.labels[start..start + count]);
    let ranked_logits = &mut to.ranked_logits[start..start + count];
    let ranked_labels = &mut to.ranked_labels[start..start + count];
    for j in 0..count {
        let (own, within) = (j / WIDTH, j % WIDTH);
        let z = V::<F, S>::splat(s, logits[j]);
        let mut before = 0;
        for values in &vectors[..own] {
            before += V::<F, S>::bits(V::<F, S>::load(s, values).at_least(z)).count_ones();
        }
        let same = V::<F, S>::load(s, &vectors[own]);
        let lower = V::<F, S>::bits(same.at_least(z)) & ((1 << within) - 1);
        before += (V::<F, S>::bits(same.greater(z)) | lower).count_ones();
        for values in &vectors[own + 1..] {
            before += V::<F, S>::bits(V::<F, S>::load(s, values).greater(z)).count_ones();
        }
        ranked_logits[before as usize] = logits[j];
        ranked_labels[before as usize] = labels[j];
    }
}
