//! The kernels of float32: over vectors, where there are any.

use super::{
    Column, Each, FEW_BEFORE, Float, LabelBuffer, MassWanted, Scanned, Square, TILE, TileLabels, TileScan,
    coarse_sums, entropy_sums, in_vectors, labels, rank, scan, sums, tile, tile_sets, transpose,
};
use crate::math::{COARSE_BITS, Grain, MOST_COARSE, WIDTH, WordSums};
use crate::simd::{ColumnLines, ColumnsAhead, Lines, RowLines, Simd};

/// Coarse sums in quanta.
#[inline(always)]
fn in_quanta((upper, lower): (u64, u64)) -> (i128, i128) {
    (i128::from(upper) << COARSE_BITS, i128::from(lower) << COARSE_BITS)
}

impl Float for f32 {
    #[inline(always)]
    fn scan<S: Simd>(s: S, row: &[f32]) -> Scanned<f32> {
        in_vectors!(s, scan::vectors::<S::Vectors>(row));
        scan::portable(row)
    }

    #[inline(always)]
    fn sum<S: Simd>(s: S, row: &[f32], shift: f32, scale: f32, grain: Grain) -> i128 {
        if grain == Grain::Coarse {
            in_vectors!(s, i128::from(coarse_sums::sum::<S::Vectors>(row, shift, scale)) << COARSE_BITS);
        } else {
            in_vectors!(s, sums::vectors::<S::Vectors>(row, shift, scale));
        }
        sums::portable(row, shift, scale, grain)
    }

    #[inline(always)]
    fn sums_of_few<S: Simd>(
        s: S,
        few: &[f32; WIDTH],
        shifts: [f32; 2],
        scale: f32,
        grain: Grain,
    ) -> [(u64, u64); 2] {
        if grain == Grain::Coarse {
            in_vectors!(
                s,
                coarse_sums::sums_of_few::<S::Vectors>(few, shifts, scale).map(|sum| (sum << COARSE_BITS, 0))
            );
        }
        sums::few_portable(few, shifts, scale, grain)
    }

    #[inline(always)]
    fn split<S: Simd, const LOWER: bool>(
        s: S,
        part: &[f32],
        y: f32,
        [max, shift]: [f32; 2],
        scale: f32,
        grain: Grain,
    ) -> (i128, i128) {
        if grain == Grain::Coarse {
            in_vectors!(s, in_quanta(coarse_sums::split::<S::Vectors, LOWER>(part, y, [max, shift], scale)));
        } else {
            in_vectors!(s, sums::split_vectors::<S::Vectors, LOWER>(part, y, [max, shift], scale));
        }
        sums::split_portable::<LOWER, _>(part, y, [max, shift], scale, grain)
    }

    #[inline(always)]
    fn few_terms<S: Simd>(s: S, row: &[f32], shift: f32, scale: f32, terms: &mut Vec<f32>) -> i128 {
        in_vectors!(s, sums::few_terms_vectors::<S::Vectors>(row, shift, scale, terms));
        sums::few_terms_portable(row, shift, scale, terms)
    }

    #[inline(always)]
    fn entropy_sums<S: Simd>(s: S, row: &[f32], shift: f32, lines: impl Lines) -> (f64, f64) {
        if row.len() > entropy_sums::MOST_SIDE_BY_SIDE {
            in_vectors!(s, entropy_sums::vectors::<S::Vectors>(row, shift, lines));
        }
        s.vectorize(
            #[inline(always)]
            move || entropy_sums::portable(row, shift),
        )
    }

    #[inline(always)]
    fn count_before<S: Simd, const LOWER: bool>(s: S, part: &[f32], y: f32) -> (usize, f32) {
        in_vectors!(s, rank::count_vectors::<S::Vectors, LOWER>(part, y));
        rank::count_portable::<LOWER, _>(part, y)
    }

    #[inline(always)]
    fn rank_few<S: Simd>(
        s: S,
        rows: &Each<&[f32]>,
        labels: &Each<usize>,
        wanted: u32,
        rank: &mut Each<usize>,
        next: &mut Each<f32>,
        before: &mut [[f32; FEW_BEFORE]],
    ) -> u32 {
        in_vectors!(s, rank::rank_few_vectors::<S::Vectors>(rows, labels, wanted, rank, next, before));
        rank::rank_few_portable(rows, labels, wanted, rank, next, before)
    }

    #[inline(always)]
    fn read_tile<S: Simd>(
        s: S,
        rows: &Each<&[f32]>,
        columns: &mut [Column<f32>],
        with_entropy: bool,
        lines: RowLines,
        scan: &mut TileScan<f32>,
    ) -> bool {
        in_vectors!(s, tile::read_vectors::<S::Vectors>(rows, columns, with_entropy, lines, scan));
        tile::read_portable(rows, columns, with_entropy, scan)
    }

    #[inline(always)]
    fn are_top<S: Simd>(s: S, logit: &Each<f32>, scan: &TileScan<f32>) -> u32 {
        in_vectors!(s, tile::are_top_vectors::<S::Vectors>(logit, scan));
        tile::are_top_portable(logit, scan)
    }

    #[inline(always)]
    fn rank_columns<S: Simd>(
        s: S,
        columns: &[Column<f32>],
        labels: &TileLabels<'_, f32>,
        rank: &mut Each<usize>,
        next: &mut Each<f32>,
    ) -> bool {
        if S::LEVEL != crate::simd::Level::Scalar && rank_untied(s, columns, labels.logit, rank, next) {
            return false;
        }
        s.vectorize(
            #[inline(always)]
            move || tile::rank_portable(columns, labels, rank, next),
        );
        true
    }

    #[inline(always)]
    fn split_columns<S: Simd>(
        s: S,
        columns: &[Column<f32>],
        labels: &TileLabels<'_, f32>,
        has_ties: bool,
        max: &Each<f32>,
        shift: &Each<f32>,
        scale: &Each<f32>,
        [above, below]: [&mut Each<f64>; 2],
    ) {
        if !has_ties {
            in_vectors!(
                s,
                tile::split_vectors::<S::Vectors>(columns, labels.logit, max, shift, scale, above, below)
            );
        }
        s.vectorize(
            #[inline(always)]
            move || tile::split_portable(columns, labels, max, shift, scale, above, below),
        );
    }

    #[inline(always)]
    fn sum_columns<S: Simd>(
        s: S,
        columns: &[Column<f32>],
        logit: &Each<f32>,
        shift: &Each<f32>,
        scale: &Each<f32>,
        sums: &mut WordSums<TILE>,
    ) {
        in_vectors!(s, tile::sum_vectors::<S::Vectors>(columns, logit, shift, scale, &mut sums.high));
        tile::sum_portable(columns, logit, shift, scale, sums);
    }

    #[inline(always)]
    fn sum_rows<S: Simd>(
        s: S,
        rows: &Each<&[f32]>,
        wanted: u32,
        logit: &Each<f32>,
        shift: &Each<f32>,
        scale: &Each<f32>,
        columns: Option<(ColumnsAhead, usize)>,
        sums: &mut WordSums<TILE>,
    ) -> bool {
        if S::LEVEL == crate::simd::Level::Scalar || rows[0].len() > MOST_COARSE {
            return false;
        }
        sum_rows(s, rows, wanted, logit, shift, scale, columns, &mut sums.high);
        true
    }

    #[inline(always)]
    fn first_labels<S: Simd>(s: S, columns: &[Column<f32>], scan: &TileScan<f32>) -> [Each<u32>; 3] {
        in_vectors!(s, tile_sets::first_labels_vectors::<S::Vectors>(columns, scan));
        tile_sets::first_labels_portable(columns, scan)
    }

    #[inline(always)]
    fn total_terms<S: Simd>(
        s: S,
        columns: &[Column<f32>],
        max: &Each<f32>,
        scale: &Each<f32>,
        totals: &mut Each<f64>,
    ) {
        in_vectors!(s, tile_sets::total_terms_vectors::<S::Vectors>(columns, max, scale, totals));
        tile_sets::total_terms_portable(columns, max, scale, totals);
    }

    #[inline(always)]
    fn take_labels<S: Simd>(
        s: S,
        row: &[f32],
        floor: f32,
        wanted: Option<&MassWanted>,
        to: &mut LabelBuffer,
    ) -> bool {
        in_vectors!(s, labels::take::<S::Vectors>(row, floor, wanted, to));
        false
    }

    #[inline(always)]
    fn rank_labels<S: Simd>(s: S, to: &mut LabelBuffer) -> bool {
        in_vectors!(s, labels::rank::<S::Vectors>(to));
        false
    }

    #[inline(always)]
    fn leading<S: Simd>(s: S, logits: &[f32], max: f32, scale: f32, limit: i128) -> Option<(usize, i128)> {
        in_vectors!(s, Some(labels::leading::<S::Vectors>(logits, max, scale, limit)));
        None
    }

    #[inline(always)]
    fn write_rows<S: Simd>(
        s: S,
        square: &Square<'_, f32>,
        first: usize,
        stride: usize,
        lines: ColumnLines,
        rows: &mut [f32],
    ) {
        in_vectors!(s, transpose::vectors::<S::Vectors>(square, first, stride, lines, rows));
        transpose::portable(square, first, stride, lines, rows);
    }
}

/// Ranks by counting across rows; `false` where another label has a label's logit.
#[inline(always)]
fn rank_untied<S: Simd>(
    s: S,
    columns: &[Column<f32>],
    logit: &Each<f32>,
    rank: &mut Each<usize>,
    next: &mut Each<f32>,
) -> bool {
    in_vectors!(s, tile::rank_vectors::<S::Vectors>(columns, logit, rank, next));
    false
}

#[inline(always)]
#[allow(clippy::too_many_arguments, reason = "a kernel: everything it reads and writes, named")]
fn sum_rows<S: Simd>(
    s: S,
    rows: &Each<&[f32]>,
    wanted: u32,
    logit: &Each<f32>,
    shift: &Each<f32>,
    scale: &Each<f32>,
    columns: Option<(ColumnsAhead, usize)>,
    sums: &mut Each<u64>,
) {
    in_vectors!(s, tile::sum_rows::<S::Vectors>(rows, wanted, logit, shift, scale, columns, sums));
}
