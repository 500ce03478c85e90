//! Where does a label stand in its row, without a sort?
//!
//! ```text
//! rank(y) = 1 + (labels with a larger logit) + (lower labels with the same logit)
//! next(y) = the largest logit of the labels that rank after y
//! ```
//!
//! Most labels that are scored have few labels before them: one pass counts and collects those.

use super::{Each, Float, Row, V, lanes_of};
use crate::math::WIDTH;
use crate::simd::{Lanes, Simd, vectorize};

/// Labels before a label that are collected at most: a vector of them.
pub(crate) const FEW_BEFORE: usize = WIDTH;

/// Most vectors of a row in which nothing depends on where its larger logits are.
const MOST_UNFORESEEN: usize = 16;

/// Where the ranks of a tile's labels go, the logits ranked next, and those before.
#[derive(Debug)]
pub(crate) struct RanksFound<'a, F> {
    pub(crate) rank: &'a mut Each<usize>,
    pub(crate) next: &'a mut Each<F>,
    pub(crate) before: &'a mut [[F; FEW_BEFORE]],
}

/// How many of the labels lower (`LOWER`) or higher than one with logit `y` rank before it, and the largest
/// logit of the others.
#[inline(always)]
pub(crate) fn count_before<const LOWER: bool, S: Simd, F: Float>(s: S, part: &[F], y: F) -> (usize, F) {
    vectorize!(s, {
        let (row, none) = (Row::of(part), V::<F, S>::splat(s, F::NEG_INFINITY));
        let (y, mut next, mut count) = (V::<F, S>::splat(s, y), none, 0);
        macro_rules! take {
            ($z:expr, $kept:expr) => {
                let z = $z;
                let is_before = if LOWER { z.at_least(y) } else { z.greater(y) };
                count += (V::<F, S>::bits(is_before) & $kept).count_ones() as usize;
                next = next.larger(V::<F, S>::select(is_before, none, z));
            };
        }
        for values in row.whole {
            take!(V::<F, S>::load(s, values), u32::MAX);
        }
        if let Some((z, _)) = row.last(s) {
            take!(z, (1 << row.rest.len()) - 1);
        }
        (count, next.largest())
    })
}

/// How many labels rank before a label, and the largest logit of those after it; the logits before it are put
/// into `found`, with `-inf` in the other places. `None` when there are more of them than there is room for,
/// or another label has the same logit.
#[inline(always)]
fn rank_one<S: Simd, F: Float>(
    s: S,
    row: &[F],
    label: usize,
    found: &mut [F; FEW_BEFORE],
) -> Option<(usize, F)> {
    let (vectors, none) = (Row::of(row), V::<F, S>::splat(s, F::NEG_INFINITY));
    let y = V::<F, S>::splat(s, row[label]);
    let (mut count, mut at_least, mut next) = (0, 0, none);
    // Room for a vector from the last place on: each is written whole, wherever it may end.
    let mut before = [F::NEG_INFINITY; FEW_BEFORE + WIDTH];
    // Which vectors hold one cannot be foreseen, so in a row of few vectors nothing depends on it; of many
    // vectors most hold none, and are passed over.
    let is_long = vectors.whole.len() > MOST_UNFORESEEN;
    macro_rules! take {
        ($z:expr, $kept:expr) => {
            let z = $z;
            let is_at_least = z.at_least(y);
            next = next.larger(V::<F, S>::select(is_at_least, none, z));
            if !is_long || V::<F, S>::any(is_at_least) {
                let is_before = z.greater(y);
                if let Some(to) = before[FEW_BEFORE.min(count)..].first_chunk_mut() {
                    z.compress(is_before, to);
                }
                count += V::<F, S>::bits(is_before).count_ones() as usize;
                at_least += (V::<F, S>::bits(is_at_least) & $kept).count_ones() as usize;
            }
        };
    }
    for values in vectors.whole {
        take!(V::<F, S>::load(s, values), u32::MAX);
    }
    if let Some((z, _)) = vectors.last(s) {
        take!(z, (1 << vectors.rest.len()) - 1);
    }
    if count > FEW_BEFORE || at_least != count + 1 {
        return None;
    }
    for i in 0..FEW_BEFORE {
        found[i] = if i < count { before[i] } else { F::NEG_INFINITY };
    }
    Some((count, next.largest()))
}

/// Ranks the labels of the rows with a bit in `wanted`, where few labels rank before them: the rank, the
/// logit ranked next and those before it. A bit for each row that is left.
#[inline(always)]
pub(crate) fn rank_few<S: Simd, F: Float>(
    s: S,
    rows: &Each<&[F]>,
    labels: &Each<usize>,
    wanted: u32,
    found: RanksFound<'_, F>,
) -> u32 {
    let RanksFound { rank, next, before } = found;
    vectorize!(s, {
        let mut left = 0;
        for i in lanes_of(wanted) {
            match rank_one(s, rows[i], labels[i], &mut before[i]) {
                Some((count, logit)) => (rank[i], next[i]) = (1 + count, logit),
                None => left |= 1 << i,
            }
        }
        left
    })
}
