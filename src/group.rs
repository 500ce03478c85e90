//! A group of rows at a time, and the places of their labels: the fast twin of the one-row definitions in
//! [`crate::place`]; in [`crate::group_scans`] of those in [`crate::row`], in [`crate::group_masses`] of those in
//! [`crate::masses`].
//!
//! Two things make it fast. What is left of a row after its sums (entropy, weight, score) is a few dozen
//! operations, as much work as summing a hundred labels; done for a group of rows in lanes
//! it nearly vanishes. And for few labels the sums themselves run across rows, one lane a row, instead of
//! along them, where most lanes would be empty. Sums are exact, or for entropy in the order of the
//! labels, so both ways give the same bits as the one-row forms; the tests below hold them to it.

use crate::ahead::ColumnsAhead;
use crate::float::Float;
use crate::group_scans::Scans;
use crate::place::{FEW_BEFORE, Place, place_and_before, place_few};
use crate::rows::{Column, GROUP};
#[cfg(target_arch = "x86_64")]
use crate::simd::x86_64;
use crate::sum::{Grain, each_lane};
use crate::unit_sums::MOST_SIDE_BY_SIDE;

/// Rows, and the same transposed when labels are few.
#[derive(Debug)]
pub(crate) struct Group<'a, F> {
    pub(crate) rows: &'a [&'a [F]; GROUP],
    pub(crate) count: usize,
    pub(crate) columns: &'a mut [Column<F>],
    /// What the next group will be read from, to be fetched meanwhile; may be empty.
    pub(crate) ahead: &'a [F],
    /// The same where rows are read from columns.
    pub(crate) columns_ahead: Option<ColumnsAhead>,
    /// Whether half of these are fetched in [`Group::masses`].
    pub(crate) is_summed: bool,
}

/// [`Place`] of each row's label.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Places<F> {
    pub(crate) label: [usize; GROUP],
    pub(crate) logit: [F; GROUP],
    pub(crate) rank: [usize; GROUP],
    pub(crate) next: [F; GROUP],
    /// How many labels rank before it, where that was counted across rows.
    before_count: [u32; GROUP],
    /// The logits of the labels before it, where labels are many and these few; else it may be empty.
    pub(crate) before: Vec<[F; FEW_BEFORE]>,
    /// Whether another label may have a label's logit.
    pub(crate) ties: bool,
    /// Whether places were found row by row, for the rows with a bit in `others`; the other labels are alone at the top.
    pub(crate) by_row: bool,
    pub(crate) others: u32,
}

/// With fewer labels than this, labels that are not at the top are placed across rows too.
const LABELS_BY_ROW: usize = 33;
/// And with more such rows than this in a group.
const ROWS_BY_ROW: u32 = 12;

/// The rows of a group that have a bit.
#[inline(always)]
pub(crate) fn rows_of(mut bits: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let row = bits.trailing_zeros() as usize;
        bits &= bits.wrapping_sub(1);
        (row < GROUP).then_some(row)
    })
}

impl<F: Float> Default for Places<F> {
    fn default() -> Self {
        Self {
            label: [0; GROUP],
            logit: [F::ZERO; GROUP],
            rank: [1; GROUP],
            next: [F::NEG_INFINITY; GROUP],
            before_count: [0; GROUP],
            before: Vec::new(),
            ties: true,
            by_row: false,
            others: 0,
        }
    }
}

impl<F: Float> Places<F> {
    /// Reads the logits of labels: before what else there is to do, as loads of vectors wait until all of what they read
    /// has reached the cache.
    #[inline(always)]
    pub(crate) fn read(&mut self, rows: &[&[F]; GROUP], label: &[usize; GROUP]) {
        for i in 0..GROUP {
            self.logit[i] = rows[i][label[i]];
        }
        self.label = *label;
    }

    /// The places of the top labels, whichever these are.
    #[inline(always)]
    pub(crate) fn of_top(scans: &Scans<F>) -> Self {
        Self { logit: scans.max, next: scans.second, by_row: true, ..Self::default() }
    }
}

impl<'a, F: Float> Group<'a, F> {
    /// Takes the rows; `columns` is working space for transposing them, which [`Group::scan`] does.
    #[inline(always)]
    pub(crate) fn new(
        rows: &'a [&'a [F]; GROUP],
        count: usize,
        ahead: &'a [F],
        columns: &'a mut Vec<Column<F>>,
    ) -> Self {
        let n_labels = rows[0].len();
        // What is there from the last group is written over.
        columns.resize(if n_labels <= MOST_SIDE_BY_SIDE { n_labels } else { 0 }, Column([F::ZERO; GROUP]));
        Self { rows, count, columns, ahead, columns_ahead: None, is_summed: false }
    }

    /// With columns to fetch meanwhile.
    #[inline(always)]
    pub(crate) fn fetching(self, columns_ahead: Option<ColumnsAhead>) -> Self {
        Self { columns_ahead, ..self }
    }

    /// To be followed by [`Group::masses`], where half of the columns are fetched if the rows are summed there along
    /// themselves, all in one place.
    #[inline(always)]
    pub(crate) fn then_summed(self) -> Self {
        let is_summed = F::as_f32(self.rows[0]).is_some() && self.grain() == Grain::Coarse;
        Self { is_summed, ..self }
    }

    #[inline(always)]
    pub(crate) fn is_transposed(&self) -> bool {
        !self.columns.is_empty()
    }

    #[inline(always)]
    pub(crate) fn grain(&self) -> Grain {
        Grain::of(self.rows[0].len())
    }

    /// The rows transposed, where labels are few.
    #[inline(always)]
    pub(crate) fn columns(&self) -> Option<&[Column<F>]> {
        self.is_transposed().then_some(&*self.columns)
    }

    /// Finds the places of labels with few before them, in the rows with a bit in `wanted`; a bit for each row that is
    /// left.
    #[inline(always)]
    fn place_few(&self, wanted: u32, places: &mut Places<F>) -> u32 {
        #[cfg(target_arch = "x86_64")]
        if let Some(rows) = F::group_as_f32(self.rows)
            && let Some(next) = lanes_mut(&mut places.next)
            && let Some(before) = F::as_f32_mut(places.before.as_flattened_mut())
        {
            let (before, _) = before.as_chunks_mut();
            let found = x86_64::place_rows(rows, &places.label, wanted, &mut places.rank, next, before);
            if let Some(left) = found {
                return left;
            }
        }
        let mut left = 0;
        for i in rows_of(wanted) {
            match place_few(self.rows[i], places.label[i], &mut places.before[i]) {
                Some((count, next)) => (places.rank[i], places.next[i]) = (1 + count, next),
                None => left |= 1 << i,
            }
        }
        left
    }

    /// [`crate::place::place`] of each row's label, which [`Places::read`] has read. What else `places` holds, of other
    /// rows, is written over, or not looked at.
    #[inline(always)]
    pub(crate) fn places(&self, scans: &Scans<F>, places: &mut Places<F>) {
        places.ties = true;
        // Most labels are alone at the top in most data, and nothing is to be counted then.
        let others = !are_top(&places.logit, scans) & (u32::MAX >> (GROUP - self.count));
        let n_labels = self.columns.len();
        places.by_row =
            !self.is_transposed() || (n_labels >= LABELS_BY_ROW && others.count_ones() <= ROWS_BY_ROW);
        if places.by_row {
            (places.rank, places.next) = ([1; GROUP], scans.second);
            places.before.resize(GROUP, [F::NEG_INFINITY; FEW_BEFORE]);
            for i in rows_of(self.place_few(others, places)) {
                let Place { rank, next, .. } =
                    place_and_before(self.rows[i], places.label[i], &scans.scan(i), &mut places.before[i]);
                (places.rank[i], places.next[i]) = (rank, next);
            }
            places.others = others;
            return;
        }
        #[cfg(target_arch = "x86_64")]
        if let Some(columns) = F::columns_as_f32(self.columns)
            && let (Some(logit), Some(next)) = (lanes(&places.logit), lanes_mut(&mut places.next))
            && let Some(true) = x86_64::places_columns(columns, logit, &mut places.before_count, next)
        {
            places.rank = each_lane!([1; GROUP], |i| 1 + places.before_count[i] as usize);
            places.ties = false;
            return;
        }
        let label = narrow(&places.label);
        let mut count = [0_u32; GROUP];
        places.next = [F::NEG_INFINITY; GROUP];
        for (k, column) in self.columns.iter().enumerate() {
            for lane in 0..GROUP {
                let before = is_before(column.0[lane], places.logit[lane], k as u32, label[lane]);
                count[lane] += u32::from(before);
                let z = if before | (k as u32 == label[lane]) { F::NEG_INFINITY } else { column.0[lane] };
                places.next[lane] = places.next[lane].larger(z);
            }
        }
        places.rank = each_lane!([1; GROUP], |i| 1 + count[i] as usize);
    }
}

/// A bit for each row whose label is alone at the top.
#[inline(always)]
fn are_top<F: Float>(logit: &[F; GROUP], scans: &Scans<F>) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if let (Some(logit), Some(max), Some(second)) = (lanes(logit), lanes(&scans.max), lanes(&scans.second))
        && let Some(bits) = x86_64::are_top(logit, max, second)
    {
        return bits;
    }
    let mut bits = 0;
    for i in 0..GROUP {
        let is_top = (logit[i] == scans.max[i]) & (scans.second[i] < scans.max[i]);
        bits |= u32::from(is_top) << i;
    }
    bits
}

/// Lanes of float32 as such.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
pub(crate) fn lanes<F: Float>(values: &[F; GROUP]) -> Option<&[f32; GROUP]> {
    F::as_f32(values)?.try_into().ok()
}

/// The same of lanes that are written.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
pub(crate) fn lanes_mut<F: Float>(values: &mut [F; GROUP]) -> Option<&mut [f32; GROUP]> {
    F::as_f32_mut(values)?.try_into().ok()
}

/// Whether label k with logit z ranks before the label with logit y.
#[inline(always)]
pub(crate) fn is_before<F: Float>(z: F, y: F, k: u32, label: u32) -> bool {
    (z > y) | ((z == y) & (k < label))
}

#[inline(always)]
pub(crate) fn narrow(label: &[usize; GROUP]) -> [u32; GROUP] {
    each_lane!([0; GROUP], |i| label[i] as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::masses::{SharpnessLanes, Sums, label_masses};
    use crate::place::{place, place_in};
    use crate::row::{Scan, entropy};
    use crate::score::{MassLanes, Wants};
    use proptest::prelude::*;

    /// All that is in it, to the bit but for the sign of zero: logits that tie may be of either, and distances of zero
    /// are taken for what they are, see `scaled` in [`crate::score`].
    fn shown(value: &impl std::fmt::Debug) -> String {
        format!("{value:?}").replace("-0.0,", "0.0,")
    }

    /// Everything the group computes equals its one-row definition, to the bit.
    fn check<F: Float>(data: &[Vec<F>], beta: f64, picks: &[usize]) {
        let k = data[0].len();
        let rows: [&[F]; GROUP] = std::array::from_fn(|i| data[i % data.len()].as_slice());
        let mut columns = Vec::new();
        let mut group = Group::new(&rows, data.len(), &[], &mut columns);
        assert_eq!(group.is_transposed(), k <= MOST_SIDE_BY_SIDE);
        let mut scans = Scans::EMPTY;
        group.scan(true, |i| i, &mut scans).unwrap();
        let entropies = scans.entropies();
        let label = std::array::from_fn(|i| {
            let wanted = picks[i] % k;
            if rows[i][wanted] > F::NEG_INFINITY { wanted } else { k - 1 }
        });
        let mut places = Places::default();
        places.read(&rows, &label);
        group.places(&scans, &mut places);
        let sharpness = SharpnessLanes::<F>::new(&[1.0 / beta; GROUP], 1.0, group.grain());
        let masses = [Sums::Split, Sums::Others].map(|kind| {
            let mut masses = MassLanes::EMPTY;
            group.masses(kind, Wants::ALL, &scans, &places, &sharpness, &mut masses);
            (kind, masses)
        });
        let mut of_top = MassLanes::EMPTY;
        group.masses(Sums::Split, Wants::ALL, &scans, &Places::of_top(&scans), &sharpness, &mut of_top);
        for i in 0..data.len() {
            let scan = Scan::of(rows[i], i).unwrap();
            assert_eq!(shown(&scan), shown(&scans.scan(i)));
            assert_eq!(entropy(rows[i], &scan).to_bits(), entropies[i].to_bits());
            let one = place(rows[i], label[i]);
            let quick = place_in(rows[i], label[i], &scan);
            assert_eq!((one.rank, one.next), (quick.rank, quick.next));
            assert_eq!((one.rank, one.next), (places.rank[i], places.next[i]));
            let first = rows[i].iter().position(|&z| z == scan.max).unwrap();
            let expected =
                label_masses(Sums::Split, rows[i], &scan, first, &place(rows[i], first), &sharpness.get(i));
            assert_eq!(shown(&expected), shown(&of_top.get(i)));
            for (kind, masses) in &masses {
                let expected = label_masses(*kind, rows[i], &scan, label[i], &one, &sharpness.get(i));
                assert_eq!(shown(&expected), shown(&masses.get(i)));
            }
        }
    }

    fn logit() -> impl Strategy<Value = f64> {
        prop_oneof![
            8 => -30.0_f64..30.0,
            2 => (-4_i32..4).prop_map(f64::from),
            1 => Just(-0.0),
            1 => Just(f64::NEG_INFINITY),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 128 }))]
        #[test]
        fn groups_equal_rows(
            mut data in (1..if cfg!(miri) { 5_usize } else { 100 }, 1..=if cfg!(miri) { 3 } else { GROUP }).prop_flat_map(|(k, n)| {
                prop::collection::vec(prop::collection::vec(logit(), k), n)
            }),
            log_beta in -12.0_f64..20.0,
            picks in prop::collection::vec(0_usize..1000, GROUP),
        ) {
            for row in &mut data {
                row.push(0.25);
            }
            check(&data, log_beta.exp2(), &picks);
            let narrow: Vec<Vec<f32>> =
                data.iter().map(|row| row.iter().map(|&z| z as f32).collect()).collect();
            check(&narrow, log_beta.exp2(), &picks);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 64 }))]
        /// Summed along the row; labels near the top, which have few before them, and any others.
        #[test]
        fn groups_of_long_rows_equal_rows(
            mut row in prop::collection::vec(logit(), MOST_SIDE_BY_SIDE + 1..300),
            log_beta in -12.0_f64..20.0,
            picks in prop::collection::vec(0_usize..1000, GROUP),
        ) {
            row.push(0.25);
            let mut ranked: Vec<usize> = (0..row.len()).collect();
            ranked.sort_by(|&a, &b| row[b].total_cmp(&row[a]));
            let picks: Vec<usize> =
                picks.iter().enumerate().map(|(i, &pick)| if i < 20 { ranked[i] } else { pick }).collect();
            let data = vec![row; GROUP];
            check(&data, log_beta.exp2(), &picks);
            let narrow: Vec<Vec<f32>> =
                data.iter().map(|row| row.iter().map(|&z| z as f32).collect()).collect();
            check(&narrow, log_beta.exp2(), &picks);
        }
    }

    #[test]
    fn bad_rows_are_named() {
        for k in [3, MOST_SIDE_BY_SIDE + 5] {
            let good = vec![0.0_f64; k];
            let mut nan = good.clone();
            nan[2] = f64::NAN;
            let none = vec![f64::NEG_INFINITY; k];
            let mut columns = Vec::new();
            for (bad, expected) in [(nan, "column 2"), (none, "row 107")] {
                let rows: [&[f64]; GROUP] =
                    std::array::from_fn(|i| if i == 7 { &bad } else { &good }.as_slice());
                let mut group = Group::new(&rows, 9, &[], &mut columns);
                let mut scans = Scans::EMPTY;
                let error = group.scan(true, |i| 100 + i, &mut scans).unwrap_err();
                assert!(error.to_string().contains(expected), "{error}");
            }
        }
    }
}
