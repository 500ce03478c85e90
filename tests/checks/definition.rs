//! Rows of all kinds, and what the definitions make of them: every label of every row is scored, and the scores are
//! compared one by one.
#![allow(dead_code, reason = "not all of it is used by each test")]

use tightset::{
    Bracket, Float, Matrix, PairCounts, Plan, Randomness, Reweight, Scale, Score, Scoring, Sets, Survivor,
    Uniforms, all_scores, label_scores,
};

/// Splitmix64: the same numbers in every run.
pub(crate) struct Hash(pub(crate) u64);

impl Hash {
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % n.max(1) as u64) as usize
    }

    /// From 0 to 1.
    pub(crate) fn unit(&mut self) -> f64 {
        self.below((1 << 24) + 1) as f64 / f64::from(1 << 24)
    }
}

/// A computing type that logits are made in.
pub(crate) trait Element: Float {
    fn of(value: f64) -> Self;
}

impl Element for f32 {
    fn of(value: f64) -> Self {
        value as Self
    }
}

impl Element for f64 {
    fn of(value: f64) -> Self {
        value
    }
}

/// Rows of `k` labels with what else was drawn for them.
pub(crate) struct Case<F> {
    pub(crate) data: Vec<F>,
    pub(crate) n: usize,
    pub(crate) k: usize,
    uniforms: Vec<f64>,
    kind: usize,
    n_threads: Option<usize>,
}

impl<F: Element> Case<F> {
    /// Rows that are flat, tied, smooth or sharp, each with impossible labels or without.
    pub(crate) fn new(hash: &mut Hash, n: usize, k: usize) -> Self {
        let mut data = Vec::with_capacity(n * k);
        for _ in 0..n {
            let (scale, step) = [(0.0, 1.0), (3.0, 1.0), (3.0, 0.0), (6.0, 0.5), (60.0, 0.0)][hash.below(5)];
            let (has_impossible, possible) = (hash.below(3) == 0, hash.below(k));
            for label in 0..k {
                let z = scale * (2.0 * hash.unit() - 1.0);
                let z = if step > 0.0 { (z / step).round() * step } else { z };
                let is_impossible = has_impossible && label != possible && hash.below(4) == 0;
                data.push(F::of(if is_impossible { f64::NEG_INFINITY } else { z }));
            }
        }
        let uniforms = (0..n).map(|_| hash.unit()).collect();
        Self { data, n, k, uniforms, kind: hash.below(3), n_threads: [None, Some(1), Some(2)][hash.below(3)] }
    }

    /// The same with U from the rows, as it is by default.
    pub(crate) fn by_default(self) -> Self {
        Self { kind: 0, ..self }
    }

    pub(crate) fn rows(&self) -> Matrix<'_, F> {
        Matrix::new(&self.data, self.k).unwrap()
    }

    pub(crate) fn randomness(&self) -> Randomness<'_> {
        let all = [Uniforms::FromRow, Uniforms::Fixed(self.uniforms[0]), Uniforms::Each(&self.uniforms)];
        Randomness { uniforms: all[self.kind], ..Randomness::default() }
    }

    pub(crate) fn plan(&self) -> Plan<'static> {
        Plan { n_threads: self.n_threads, ..Plan::default() }
    }

    /// The ranked score of each label of each row; where labels are few, one label is scored at a time.
    pub(crate) fn scores(&self, scoring: &Scoring) -> Vec<f64> {
        let (rows, random, plan) = (self.rows(), self.randomness(), self.plan());
        let mut scores = vec![0.0; self.n * self.k];
        if self.k > 10 {
            all_scores(&rows, scoring, Scale::Ranked, &random, &plan, &mut scores).unwrap();
            return scores;
        }
        for label in 0..self.k {
            let (labels, mut found) = (vec![label as i64; self.n], vec![0.0; self.n]);
            label_scores(&rows, &labels, &[*scoring], Scale::Ranked, &random, &plan, &mut found).unwrap();
            scores[label..].iter_mut().step_by(self.k).zip(found).for_each(|(to, score)| *to = score);
        }
        scores
    }

    /// The labels of a row by falling logit, equal logits by lower label first.
    pub(crate) fn by_rank(&self, row: usize) -> Vec<usize> {
        let (row, mut labels) = (&self.data[row * self.k..][..self.k], (0..self.k).collect::<Vec<_>>());
        labels.sort_by(|&a, &b| row[b].partial_cmp(&row[a]).unwrap().then(a.cmp(&b)));
        labels
    }

    /// The sets of the pairs that are in, numbered as in a matrix of rows times labels.
    pub(crate) fn sets(&self, allow_empty: bool, is_in: impl Fn(usize) -> bool) -> Vec<Vec<usize>> {
        let set = |row: usize| {
            let by_rank = self.by_rank(row);
            let set: Vec<usize> = by_rank.iter().copied().filter(|y| is_in(row * self.k + y)).collect();
            if set.is_empty() && !allow_empty { vec![by_rank[0]] } else { set }
        };
        (0..self.n).map(set).collect()
    }
}

/// Sets as lists of labels.
pub(crate) fn lists(sets: &Sets) -> Vec<Vec<usize>> {
    (0..sets.offsets.len() - 1).map(|i| sets.row(i).iter().map(|&label| label as usize).collect()).collect()
}

/// Two candidates of each score, aps first, then the limits in temperature of those that have them. Those of aps share
/// their reweighted, tempered logits with no other; the others do now and then.
pub(crate) fn scorings(hash: &mut Hash) -> Vec<Scoring> {
    let reweights = [Reweight::NONE, Reweight::new(0.0, 1.0).unwrap(), Reweight::new(1.0, 0.5).unwrap()];
    let mut list: Vec<Scoring> =
        (0..2).map(|i| Scoring::new(Score::Aps, reweights[hash.below(3)], [1.25, 0.2][i]).unwrap()).collect();
    let others = [
        Score::Thr,
        Score::Raps { penalty: 0.1, k_reg: 2 },
        Score::Saps { weight: 0.2 },
        Score::Rank,
        Score::Mixed { weight: 0.3 },
    ];
    for score in others.iter().flat_map(|score| [score, score]) {
        let temperature = [0.1, 1.0, 1.0, 3.0][hash.below(4)];
        list.push(Scoring::new(*score, reweights[hash.below(3)], temperature).unwrap());
    }
    for score in [Score::Thr, Score::Aps] {
        list.extend([0.0, f64::INFINITY].map(|t| Scoring::new(score, reweights[hash.below(3)], t).unwrap()));
    }
    list
}

/// Brackets among the scores: neighbours, equal ends, a wide one, infinite ends.
pub(crate) fn brackets(hash: &mut Hash, scores: &[f64]) -> Vec<Bracket> {
    let mut sorted = scores.to_vec();
    sorted.sort_by(f64::total_cmp);
    let [i, j, l] = [(); 3].map(|()| hash.below(sorted.len()));
    let (low, high) = (f64::NEG_INFINITY, f64::INFINITY);
    let pairs = [
        (sorted[i.saturating_sub(1)], sorted[i]),
        (sorted[j], sorted[j]),
        (sorted[i.min(l)], sorted[i.max(l)]),
        (low, sorted[0]),
        (sorted[l], high),
        (low, high),
        (low, low),
        (high, high),
    ];
    pairs.map(|(lo, hi)| Bracket { lo, hi }).to_vec()
}

/// How many scores are up to `q`.
pub(crate) fn up_to(scores: &[f64], q: f64) -> u64 {
    scores.iter().filter(|&&score| score <= q).count() as u64
}

/// The scores above `lo` and up to `hi`, sorted, if they are kept.
pub(crate) fn between(scores: &[f64], Bracket { lo, hi }: Bracket, keep: bool) -> Vec<f64> {
    let mut between: Vec<f64> = scores.iter().copied().filter(|&s| keep && lo < s && s <= hi).collect();
    between.sort_by(f64::total_cmp);
    between
}

/// What pairs with these scores, rows of `k`, add up to at a bracket.
pub(crate) fn counted(scores: &[f64], k: usize, bracket: Bracket, keep: bool) -> PairCounts {
    let rows_of =
        |size: u64| scores.chunks_exact(k).filter(|row| up_to(row, bracket.hi) == size).count() as u64;
    PairCounts {
        at_lo: up_to(scores, bracket.lo),
        at_hi: up_to(scores, bracket.hi),
        singletons: rows_of(1),
        empty: rows_of(0),
        between: between(scores, bracket, keep),
    }
}

/// The candidate that a label selects, the first of those with the fewest pairs, given the row's scores by each
/// candidate and which labels count.
pub(crate) fn winner(
    survivors: &[Survivor],
    scores: &[&[f64]],
    label: usize,
    counts: impl Fn(usize) -> bool,
) -> usize {
    let pairs = |m: usize| {
        let Survivor { lo, hi, at_lo, ref between, weight, .. } = survivors[m];
        let q = scores[m][label].clamp(lo, hi);
        let own = scores[m].iter().enumerate().filter(|&(other, &score)| counts(other) && score <= q).count();
        u128::from(weight) * (u128::from(at_lo) + u128::from(up_to(between, q)) + own as u128)
    };
    (0..survivors.len()).min_by_key(|&m| pairs(m)).unwrap()
}

/// [`winner`] of each pair of a row and a label, all labels counting, given each candidate's scores.
pub(crate) fn winners(survivors: &[Survivor], tables: &[Vec<f64>], k: usize) -> Vec<usize> {
    let of_pair = |i: usize| {
        let of_row: Vec<&[f64]> = tables.iter().map(|table| &table[i / k * k..][..k]).collect();
        winner(survivors, &of_row, i % k, |_| true)
    };
    (0..tables[0].len()).map(of_pair).collect()
}
