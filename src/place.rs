//! Where a label stands in its row: its rank, what is ranked next, and what is ranked before it, all without a sort.

use crate::float::Float;
use crate::row::Scan;
use crate::simd::instances;
use crate::sum::{Groups, LANES, is_before};

/// Where a label stands in its row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<F> {
    /// Its logit; finite.
    pub(crate) logit: F,
    /// 1-based.
    pub(crate) rank: usize,
    /// The logit ranked next after it, `-inf` when no possible label is.
    pub(crate) next: F,
}

/// How many logits rank before a label with logit `y`, and the largest of the others.
#[inline(always)]
pub(crate) fn count_and_next<const LEFT: bool, F: Float>(part: &[F], y: F) -> (usize, F) {
    let mut count = [0_u32; LANES];
    let mut next = [F::NEG_INFINITY; LANES];
    let groups = Groups::of(part);
    for g in 0..groups.count {
        let group = groups.get(g);
        for lane in 0..LANES {
            count[lane] += u32::from(is_before::<LEFT, F>(group[lane], y));
        }
        for lane in 0..LANES {
            let z = if is_before::<LEFT, F>(group[lane], y) { next[lane] } else { group[lane] };
            next[lane] = next[lane].larger(z);
        }
    }
    let total: usize = count.iter().map(|&c| c as usize).sum();
    // The filling of the last group ranks before no label but one that is -inf itself.
    let filling =
        if is_before::<LEFT, F>(F::NEG_INFINITY, y) { groups.count * LANES - part.len() } else { 0 };
    (total - filling, next.into_iter().fold(F::NEG_INFINITY, Float::larger))
}

instances! {
    fn count_lower<F: Float>(part: &[F], y: F) -> (usize, F) = count_and_next::<true, F>;
}
instances! {
    fn count_higher<F: Float>(part: &[F], y: F) -> (usize, F) = count_and_next::<false, F>;
}

/// Rank of a label by counting: no sort. Equal logits rank by lower label first.
#[inline(always)]
pub(crate) fn place<F: Float>(row: &[F], label: usize) -> Place<F> {
    let logit = row[label];
    let (lower, higher) = (&row[..label], &row[label + 1..]);
    #[cfg(target_arch = "x86_64")]
    if let (Some(narrow_lower), Some(narrow_higher)) = (F::as_f32(lower), F::as_f32(higher)) {
        use crate::simd::x86_64;
        let y = logit.to_f64() as f32;
        let counted = (x86_64::count_lower(narrow_lower, y), x86_64::count_higher(narrow_higher, y));
        if let (Some((left, next_left)), Some((right, next_right))) = counted {
            return Place { logit, rank: 1 + left + right, next: F::from_f32(next_left.larger(next_right)) };
        }
    }
    let (left, next_left) = count_lower(lower, logit);
    let (right, next_right) = count_higher(higher, logit);
    Place { logit, rank: 1 + left + right, next: next_left.larger(next_right) }
}

/// [`place`] of a label of a row that was scanned: nothing is left to count for a label alone at the top.
#[inline(always)]
pub(crate) fn place_in<F: Float>(row: &[F], label: usize, scan: &Scan<F>) -> Place<F> {
    let logit = row[label];
    if logit == scan.max && scan.second < scan.max {
        return Place { logit, rank: 1, next: scan.second };
    }
    place(row, label)
}

/// Labels before a label that are remembered at most: a vector of them.
pub(crate) const FEW_BEFORE: usize = LANES;

instances! {
    /// The logits that rank before a label of this rank, if they are few; `-inf` in the other places.
    pub(crate) fn logits_before<F: Float>(row: &[F], label: usize, rank: usize, found: &mut [F; FEW_BEFORE]) = collect_before::<F>;
}

#[inline(always)]
fn collect_before<F: Float>(row: &[F], label: usize, rank: usize, found: &mut [F; FEW_BEFORE]) {
    *found = [F::NEG_INFINITY; FEW_BEFORE];
    if rank - 1 > FEW_BEFORE {
        return;
    }
    let (y, mut count) = (row[label], 0);
    let (parts, last) = row.as_chunks::<LANES>();
    for (start, part) in (0..).step_by(LANES).zip(parts) {
        // Few parts have one: the others are passed over by one comparison of vectors.
        let mut any = false;
        for lane in 0..LANES {
            any |= part[lane] >= y;
        }
        if any {
            count = append_before(part, start, y, label, count, found);
            if count + 1 >= rank {
                return;
            }
        }
    }
    append_before(last, parts.len() * LANES, y, label, count, found);
}

/// Appends the logits of a part of a row, from label `start` on, that rank before the label; returns how many
/// there are then.
#[inline(always)]
fn append_before<F: Float>(
    part: &[F],
    start: usize,
    y: F,
    label: usize,
    mut count: usize,
    found: &mut [F; FEW_BEFORE],
) -> usize {
    for (k, &z) in (start..).zip(part) {
        // No more than there is room for, even if another thread writes to the row meanwhile.
        if count < FEW_BEFORE && (z > y || (z == y && k < label)) {
            found[count] = z;
            count += 1;
        }
    }
    count
}

instances! {
    /// How many labels rank before a label, and the largest logit of those after it, in one pass; the logits before it are
    /// put into `found`, with `-inf` in the other places. `None` when there are more of them than there is room for, or
    /// another label has the same logit.
    pub(crate) fn place_few<F: Float>(row: &[F], label: usize, found: &mut [F; FEW_BEFORE]) -> Option<(usize, F)> = place_few_body::<F>;
}

#[inline(always)]
fn place_few_body<F: Float>(row: &[F], label: usize, found: &mut [F; FEW_BEFORE]) -> Option<(usize, F)> {
    let (y, mut count, mut at_least) = (row[label], 0, 0);
    let mut next = [F::NEG_INFINITY; LANES];
    let mut before = [F::NEG_INFINITY; FEW_BEFORE];
    let groups = Groups::of(row);
    for g in 0..groups.count {
        let group = groups.get(g);
        let mut any = false;
        for lane in 0..LANES {
            let is_at_least = group[lane] >= y;
            any |= is_at_least;
            next[lane] = next[lane].larger(if is_at_least { F::NEG_INFINITY } else { group[lane] });
        }
        // Few groups have one.
        if any {
            for &z in group {
                at_least += usize::from(z >= y);
                if z > y {
                    *before.get_mut(count)? = z;
                    count += 1;
                }
            }
        }
    }
    if at_least != count + 1 {
        return None;
    }
    *found = before;
    Some((count, next.into_iter().fold(F::NEG_INFINITY, Float::larger)))
}

/// [`place_in`], with the logits that rank before the label, if they are few.
#[inline(always)]
pub(crate) fn place_and_before<F: Float>(
    row: &[F],
    label: usize,
    scan: &Scan<F>,
    before: &mut [F; FEW_BEFORE],
) -> Place<F> {
    let place = place_in(row, label, scan);
    logits_before(row, label, place.rank, before);
    place
}
