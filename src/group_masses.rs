//! The masses of a group of rows, one label each: the fast twin of [`crate::masses`].

#[cfg(target_arch = "x86_64")]
use crate::float::COARSE_BITS;
use crate::float::Float;
#[cfg(target_arch = "x86_64")]
use crate::group::lanes;
use crate::group::{Group, Places, is_before, narrow, rows_of};
use crate::group_scans::Scans;
use crate::masses::{SharpnessLanes, Sums, split_sums, sum_but_one, sums_after_few};
use crate::place::{FEW_BEFORE, Place};
use crate::rows::GROUP;
use crate::score::{MassLanes, Wants};
#[cfg(target_arch = "x86_64")]
use crate::simd::x86_64;
#[cfg(target_arch = "x86_64")]
use crate::sum::COARSE;
use crate::sum::{Depths, Grain, Lanes, each_lane, sums_of_few, words, words_of_few};

/// Where the sums over the labels before each row's label, if they are parted, and over the others go.
type Halves<'a> = (&'a mut [f64; GROUP], &'a mut [f64; GROUP]);

impl<F: Float> Group<'_, F> {
    /// [`crate::masses::label_masses`] of each row's label, as far as it is wanted, put into `lanes`.
    #[inline(always)]
    pub(crate) fn masses(
        &self,
        kind: Sums,
        wants: Wants,
        scans: &Scans<F>,
        places: &Places<F>,
        sharpness: &SharpnessLanes<F>,
        lanes: &mut MassLanes<GROUP>,
    ) {
        let shift = each_lane!([F::ZERO; GROUP], |i| {
            let place = Place { logit: places.logit[i], rank: places.rank[i], next: places.next[i] };
            sharpness.get(i).shift_of(kind, &place, scans.max[i])
        });
        let sums = (&mut lanes.above, &mut lanes.below);
        if self.is_transposed() && kind == Sums::Split && !places.by_row {
            self.split_columns(scans, places, &shift, &sharpness.scale, sums);
        } else if let Some(all) = self.sums_but_one(kind, places, &shift, &sharpness.scale) {
            self.part_sums(&all, kind, scans, places, &shift, &sharpness.scale, sums);
        } else {
            self.sums_of_rows(kind, scans, places, &shift, &sharpness.scale, sums);
        }
        if kind == Sums::Others {
            for i in 0..GROUP {
                let rest = lanes.below[i];
                let is_above = places.rank[i] > 1;
                lanes.above[i] = if is_above { rest } else { 0.0 };
                lanes.below[i] = if is_above { 0.0 } else { rest };
            }
        }
        lanes.beta = sharpness.beta;
        lanes.rank = places.rank;
        if wants.distances {
            for i in 0..GROUP {
                let (max, y) = (scans.max[i].to_f64(), places.logit[i].to_f64());
                lanes.distance[i] = max - y;
                lanes.shift_distance[i] = max - shift[i].to_f64();
                lanes.lead[i] = y - shift[i].to_f64();
            }
        }
        if wants.terms {
            // In loops of their own, of whole vectors of the computing type.
            let depths = each_lane!([Depths::new(F::LOG2_E); GROUP], |i| Depths::new(sharpness.scale[i]));
            let own =
                each_lane!([F::ZERO; GROUP], |i| depths[i].term_in_lanes(places.logit[i], scans.max[i]));
            let at_shift = each_lane!([F::ZERO; GROUP], |i| depths[i].term_in_lanes(shift[i], scans.max[i]));
            for i in 0..GROUP {
                (lanes.own[i], lanes.at_shift[i]) = (own[i].to_f64(), at_shift[i].to_f64());
            }
        }
    }

    /// Sums of each row by itself: over the labels before its label, where these are parted, and over the others.
    #[inline(always)]
    fn sums_of_rows(
        &self,
        kind: Sums,
        scans: &Scans<F>,
        places: &Places<F>,
        shift: &[F; GROUP],
        scale: &[F; GROUP],
        (above, rest): Halves<'_>,
    ) {
        for i in 0..self.count {
            let (row, y, max) = (self.rows[i], places.logit[i], scans.max[i]);
            let sums = if kind == Sums::Others || places.rank[i] == 1 {
                (0, sum_but_one(row, y, shift[i], scale[i]))
            } else if places.rank[i] <= FEW_BEFORE + 1 {
                sums_after_few(row, &places.before[i], y, max, shift[i], scale[i])
            } else {
                split_sums(row, places.label[i], y, max, shift[i], scale[i])
            };
            (above[i], rest[i]) = (F::sum_to_f64(sums.0), F::sum_to_f64(sums.1));
        }
    }

    /// The same from sums over all labels but each row's own, where labels are parted in few rows: those before are
    /// taken out again.
    #[inline(always)]
    #[allow(clippy::too_many_arguments, reason = "a kernel: everything it reads and writes, named")]
    fn part_sums(
        &self,
        sums: &Lanes<GROUP>,
        kind: Sums,
        scans: &Scans<F>,
        places: &Places<F>,
        shift: &[F; GROUP],
        scale: &[F; GROUP],
        (above, rest): Halves<'_>,
    ) {
        for i in 0..GROUP {
            (above[i], rest[i]) = (0.0, F::words_to_f64((sums.high[i], sums.low[i])));
        }
        for i in rows_of(if kind == Sums::Split { places.others } else { 0 }) {
            let (y, max) = (places.logit[i], scans.max[i]);
            let has_few = places.rank[i] <= FEW_BEFORE + 1;
            let (few, shifts) = (&places.before[i], [max, shift[i]]);
            if has_few && let Some([before, counted]) = words_of_few(few, shifts, scale[i], self.grain()) {
                let after = minus((sums.high[i], sums.low[i]), counted);
                (above[i], rest[i]) = (F::words_to_f64(before), F::words_to_f64(after));
                continue;
            }
            let (before, after) = if has_few {
                let [before, counted] = sums_of_few(few, shifts, scale[i], self.grain());
                (before, F::collect((sums.high[i], sums.low[i])) - counted)
            } else {
                split_sums(self.rows[i], places.label[i], y, max, shift[i], scale[i])
            };
            (above[i], rest[i]) = (F::sum_to_f64(before), F::sum_to_f64(after));
        }
    }

    /// Sums over all labels but each row's own, in words, for all rows at once; not of rows along which labels are
    /// parted. `None` where rows are better summed one by one.
    #[inline(always)]
    fn sums_but_one(
        &self,
        kind: Sums,
        places: &Places<F>,
        shift: &[F; GROUP],
        scale: &[F; GROUP],
    ) -> Option<Lanes<GROUP>> {
        #[cfg(target_arch = "x86_64")]
        if self.grain() == Grain::Coarse
            && let (Some(columns), Some(rows)) = (F::columns_as_f32(self.columns), F::group_as_f32(self.rows))
            && let (Some(logit), Some(shift), Some(scale)) =
                (lanes(&places.logit), lanes(shift), lanes(scale))
        {
            let mut sums = Lanes::EMPTY;
            let found = if self.is_transposed() {
                x86_64::sum_columns(columns, logit, shift, scale, &mut sums.high)
            } else {
                let mut wanted = 0;
                for i in 0..self.count {
                    let is_wanted = kind == Sums::Others || places.rank[i] <= FEW_BEFORE + 1;
                    wanted |= u32::from(is_wanted) << i;
                }
                let ahead =
                    self.columns_ahead.filter(|_| self.is_summed).map(|columns| (columns, self.count));
                x86_64::sum_rows(rows, wanted, logit, shift, scale, ahead, &mut sums.high)
            };
            if found.is_some() {
                sums.high = each_lane!([0; GROUP], |i| sums.high[i] << COARSE_BITS);
                return Some(sums);
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = kind;
        if !self.is_transposed() {
            return None;
        }
        let depths = each_lane!([Depths::new(F::LOG2_E); GROUP], |i| Depths::new(scale[i]));
        let mut all = self.sum(shift, &depths);
        for i in 0..GROUP {
            let own = words(depths[i].term(places.logit[i], shift[i]), self.grain());
            (all.high[i], all.low[i]) = minus(all.words::<F>(i, 0), own);
        }
        Some(all)
    }

    /// Sums over the labels before each row's label and over those after it.
    #[inline(always)]
    fn split_columns(
        &self,
        scans: &Scans<F>,
        places: &Places<F>,
        shift: &[F; GROUP],
        scale: &[F; GROUP],
        (above, rest): Halves<'_>,
    ) {
        #[cfg(target_arch = "x86_64")]
        if let Some(columns) = F::columns_as_f32(self.columns)
            && !places.ties
            && let (Some(logit), Some(max)) = (lanes(&places.logit), lanes(&scans.max))
            && let (Some(shift), Some(scale)) = (lanes(shift), lanes(scale))
        {
            let (mut upper, mut lower) = ([0; GROUP], [0; GROUP]);
            if x86_64::split_columns(columns, logit, max, shift, scale, &mut upper, &mut lower).is_some() {
                for i in 0..GROUP {
                    above[i] = upper[i] as f64 / f64::from(COARSE);
                    rest[i] = lower[i] as f64 / f64::from(COARSE);
                }
                return;
            }
        }
        let depths = each_lane!([Depths::new(F::LOG2_E); GROUP], |i| Depths::new(scale[i]));
        let (above_sums, all) = self.split(scans, places, shift, &depths);
        for i in 0..GROUP {
            // The label itself was counted among the others.
            let own = words(depths[i].term(places.logit[i], shift[i]), self.grain());
            let above_words = above_sums.words::<F>(i, 0);
            above[i] = F::words_to_f64(above_words);
            rest[i] = F::words_to_f64(minus(minus(all.words::<F>(i, 0), above_words), own));
        }
    }

    /// Sum over all labels of each row, relative to a shift.
    #[inline(always)]
    fn sum(&self, shift: &[F; GROUP], depths: &[Depths<F>; GROUP]) -> Lanes<GROUP> {
        let (grain, mut all) = (self.grain(), Lanes::EMPTY);
        for column in &*self.columns {
            let terms = each_lane!([F::ZERO; GROUP], |lane| depths[lane].term(column.0[lane], shift[lane]));
            for lane in 0..GROUP {
                all.add_words(lane, words(terms[lane], grain), true);
            }
        }
        all
    }

    /// Sums over the labels before each row's label, relative to the maximum, and over all, the others
    /// relative to a shift.
    #[inline(always)]
    fn split(
        &self,
        scans: &Scans<F>,
        places: &Places<F>,
        shift: &[F; GROUP],
        depths: &[Depths<F>; GROUP],
    ) -> (Lanes<GROUP>, Lanes<GROUP>) {
        let (grain, label) = (self.grain(), narrow(&places.label));
        let (mut upper, mut all) = (Lanes::EMPTY, Lanes::EMPTY);
        for (k, column) in self.columns.iter().enumerate() {
            let (mut terms, mut above) = ([F::ZERO; GROUP], [false; GROUP]);
            for lane in 0..GROUP {
                above[lane] = is_before(column.0[lane], places.logit[lane], k as u32, label[lane]);
                let reference = if above[lane] { scans.max[lane] } else { shift[lane] };
                terms[lane] = depths[lane].term(column.0[lane], reference);
            }
            for lane in 0..GROUP {
                let words = words(terms[lane], grain);
                upper.add_words(lane, words, above[lane]);
                all.add_words(lane, words, true);
            }
        }
        (upper, all)
    }
}

/// The difference of two sums of words.
#[inline(always)]
fn minus(a: (u64, u64), b: (u64, u64)) -> (u64, u64) {
    (a.0.wrapping_sub(b.0), a.1.wrapping_sub(b.1))
}
