//! A calibrated predictor, as the Python package saves it: read once, shared by all threads.

use crate::cut::Cut;
use crate::document;
use crate::error::Error;
use crate::float::Float;
use crate::json::Json;
use crate::kernel::{Candidates, View};
use crate::rows::{LogProbabilities, Rows, log_probabilities};
use crate::scoring::{Reweight, Score, Scoring};
use crate::selected::{Survivor, Vote, predict_selected_sets, selected_p_values};
use crate::sets::{Sets, predict_sets};
use crate::simd::{instances, with_subnormals};
use crate::threads::Plan;
use crate::uniform::{Randomness, Uniforms};

/// How one of several candidates is selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    Modsel,
    HeldOut,
    Paper,
    Released,
}

impl Selection {
    pub(crate) const ALL: [Self; 4] = [Self::Modsel, Self::HeldOut, Self::Paper, Self::Released];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Modsel => "modsel",
            Self::HeldOut => "held-out",
            Self::Paper => "paper",
            Self::Released => "released",
        }
    }
}

/// Some of a recipe's candidates: every combination of what is listed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Part {
    pub(crate) scores: Vec<Score>,
    pub(crate) reweights: Vec<Option<Reweight>>,
    /// None for the fixed grid.
    pub(crate) temperatures: Option<Vec<f64>>,
    /// A preference for other parts.
    pub(crate) handicap: f64,
}

impl Part {
    pub(crate) fn holds(&self, scoring: &Scoring, reweight: Option<Reweight>) -> bool {
        let is_listed = self.temperatures.as_ref().is_none_or(|list| list.contains(&scoring.temperature));
        is_listed && self.scores.contains(&scoring.score) && self.reweights.contains(&reweight)
    }
}

/// What a predictor was made by; kept to be written again.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Recipe {
    pub(crate) selection: Option<Selection>,
    pub(crate) parts: Vec<Part>,
}

/// A calibrated predictor: immutable, safe to share among threads, the same bits as in Python.
///
/// For rows exchangeable with the calibration rows, the set of a new row contains its label with
/// probability at least `1 - alpha`, over the draw of both.
///
/// # Examples
/// ```
/// use tightset::{Matrix, Options, Plan, Predictor, Scratch};
///
/// # let text = include_str!("../tests/fixtures/v1/aps.json");
/// let predictor = Predictor::from_json(text)?;
/// let rows = [0.1_f32, 3.5, -1.0, 2.0, 9.0, 0.0, 0.5, 0.1];
///
/// let mut scratch = Scratch::new();
/// let first = predictor.predict_row(&rows[..4], &mut scratch)?.to_vec();
///
/// // The same for many rows, in the caller's rayon pool if it is in one.
/// let matrix = Matrix::new(&rows, predictor.n_labels())?;
/// let sets = predictor.predict_sets(&matrix, &Options::default(), &Plan::default())?;
/// assert_eq!(sets.row(0).len(), first.len());
/// assert_eq!(sets.row(1), [0]);
///
/// assert_eq!(Predictor::from_json(&predictor.to_json())?, predictor);
/// # Ok::<(), tightset::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Predictor {
    pub(crate) alpha: f64,
    pub(crate) n_labels: usize,
    pub(crate) n_calibration: usize,
    pub(crate) rank: usize,
    pub(crate) seed: u64,
    pub(crate) probabilities: bool,
    pub(crate) uses_row_ids: bool,
    pub(crate) label_names: Option<Vec<String>>,
    pub(crate) recipe: Recipe,
    /// The candidates' reweightings as they were given: none and one of power 0 compute alike.
    pub(crate) reweights: Vec<Option<Reweight>>,
    pub(crate) candidates: Vec<Survivor>,
    pub(crate) calibration_scores: Option<Vec<Vec<f64>>>,
    /// The candidates' scorings, and the order in which they share their sums.
    scorings: Vec<Scoring>,
    order: Vec<usize>,
}

/// What a prediction may be asked for beyond the rows.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Whether a set may be empty, as the guarantee permits; if not, such a set holds the top label.
    pub allow_empty: bool,
    /// Where U comes from; other than from the row, for comparison only.
    pub uniforms: Uniforms<'a>,
    /// An id for each row, exactly when calibration had them.
    pub row_ids: Option<&'a [u64]>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self { allow_empty: true, uniforms: Uniforms::FromRow, row_ids: None }
    }
}

/// Working space of one thread, for rows of f32 or of f64 and any predictor.
///
/// The first row of a predictor makes room; later ones allocate nothing, unless one of several
/// candidates has a set of more than 1024 labels, larger than any before.
#[derive(Debug)]
pub struct Scratch<F: Float = f32> {
    vote: Vote<F>,
    order: Vec<usize>,
    labels: Vec<u32>,
    row: Vec<F>,
    /// The candidates and labels that there is room for.
    room: (usize, usize),
}

impl<F: Float> Scratch<F> {
    /// Empty working space; the first row fills it.
    #[must_use]
    pub fn new() -> Self {
        Self { vote: Vote::default(), order: Vec::new(), labels: Vec::new(), row: Vec::new(), room: (0, 0) }
    }

    fn fit(&mut self, predictor: &Predictor) {
        let room = (predictor.candidates.len(), predictor.n_labels);
        if self.room != room {
            self.vote.reserve(room.0, room.1);
            self.labels.clear();
            self.labels.reserve(room.1 + 1);
            self.row.clear();
            self.row.reserve(if predictor.probabilities { room.1 } else { 0 });
            self.room = room;
        }
        self.order.clear();
        self.order.extend_from_slice(&predictor.order);
        self.labels.clear();
    }
}

impl<F: Float> Default for Scratch<F> {
    fn default() -> Self {
        Self::new()
    }
}

impl Predictor {
    /// Longest text that [`Predictor::from_json`] reads.
    pub const MAX_BYTES: usize = 1 << 26;

    /// Reads the document that `Predictor.save` writes in Python, or [`Predictor::to_json`].
    ///
    /// # Errors
    /// When the text is longer than [`Predictor::MAX_BYTES`], is not such a document, was changed after
    /// it was written, was made by an incompatible version, or holds a value outside its domain.
    pub fn from_json(text: &str) -> Result<Self, Error> {
        Self::from_json_up_to(text, Self::MAX_BYTES)
    }

    /// The same for texts of up to `max_bytes`: a score table has 16 bytes for each row and candidate.
    ///
    /// # Errors
    /// As [`Predictor::from_json`].
    pub fn from_json_up_to(text: &str, max_bytes: usize) -> Result<Self, Error> {
        if text.len() > max_bytes {
            let length = text.len();
            return Err(Error::Document(format!("{length} bytes are too large: more than {max_bytes}")));
        }
        document::read(&Json::parse(text)?)
    }

    /// The document, to the byte what Python writes for the same predictor, with the score table if there
    /// is one.
    #[must_use]
    pub fn to_json(&self) -> String {
        document::write(self).pretty()
    }

    #[allow(clippy::too_many_arguments, reason = "the fields of a document, once")]
    pub(crate) fn from_parts(
        alpha: f64,
        n_labels: usize,
        n_calibration: usize,
        rank: usize,
        seed: u64,
        probabilities: bool,
        uses_row_ids: bool,
        label_names: Option<Vec<String>>,
        recipe: Recipe,
        reweights: Vec<Option<Reweight>>,
        candidates: Vec<Survivor>,
        calibration_scores: Option<Vec<Vec<f64>>>,
    ) -> Self {
        let scorings: Vec<Scoring> = candidates.iter().map(|c| c.scoring).collect();
        let order = Candidates::new(&scorings).order;
        Self {
            alpha,
            n_labels,
            n_calibration,
            rank,
            seed,
            probabilities,
            uses_row_ids,
            label_names,
            recipe,
            reweights,
            candidates,
            calibration_scores,
            scorings,
            order,
        }
    }

    /// Miscoverage level.
    #[must_use]
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// Number of labels, K.
    #[must_use]
    pub fn n_labels(&self) -> usize {
        self.n_labels
    }

    /// Rows that set the thresholds.
    #[must_use]
    pub fn n_calibration(&self) -> usize {
        self.n_calibration
    }

    /// Which of their scores, in order, a threshold is; above [`Predictor::n_calibration`] it is infinite.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Whether rows hold probabilities instead of logits.
    #[must_use]
    pub fn takes_probabilities(&self) -> bool {
        self.probabilities
    }

    /// Whether rows need ids.
    #[must_use]
    pub fn uses_row_ids(&self) -> bool {
        self.uses_row_ids
    }

    /// Names of the labels, if they were saved.
    #[must_use]
    pub fn label_names(&self) -> Option<&[String]> {
        self.label_names.as_deref()
    }

    /// What prediction uses: one candidate with its threshold `hi`, or those among which each label of a
    /// row selects.
    #[must_use]
    pub fn candidates(&self) -> &[Survivor] {
        &self.candidates
    }

    /// The set of one row: labels by falling probability.
    ///
    /// Allocates nothing once `scratch` has seen a row of this predictor, and uses no other thread.
    ///
    /// # Errors
    /// For a row of another length, or that is not one of logits (of probabilities, if calibration had
    /// those); when calibration had row ids.
    pub fn predict_row<'s, F: Float>(
        &self,
        row: &[F],
        scratch: &'s mut Scratch<F>,
    ) -> Result<&'s [u32], Error> {
        self.predict_row_with(row, &Options::default(), scratch)
    }

    /// The same with options; ids and U are lists of one.
    ///
    /// # Errors
    /// As [`Predictor::predict_row`], or when an option does not fit.
    pub fn predict_row_with<'s, F: Float>(
        &self,
        row: &[F],
        options: &Options<'_>,
        scratch: &'s mut Scratch<F>,
    ) -> Result<&'s [u32], Error> {
        self.check_labels(row.len())?;
        let randomness = self.randomness(options)?;
        randomness.check(1)?;
        scratch.fit(self);
        with_subnormals(|| predict_one::<F>(self, row, options.allow_empty, &randomness, scratch))?;
        Ok(&scratch.labels)
    }

    /// The sets of many rows, on the threads that the plan allows.
    ///
    /// # Errors
    /// As [`Predictor::predict_row`], naming the first row that is at fault.
    pub fn predict_sets<F: Float, R: Rows<F>>(
        &self,
        rows: &R,
        options: &Options<'_>,
        plan: &Plan<'_>,
    ) -> Result<Sets, Error> {
        self.check_labels(rows.n_labels())?;
        let randomness = self.randomness(options)?;
        if self.probabilities {
            self.sets_of(&LogProbabilities(rows), options.allow_empty, &randomness, plan)
        } else {
            self.sets_of(rows, options.allow_empty, &randomness, plan)
        }
    }

    fn sets_of<F: Float, R: Rows<F>>(
        &self,
        rows: &R,
        allow_empty: bool,
        randomness: &Randomness<'_>,
        plan: &Plan<'_>,
    ) -> Result<Sets, Error> {
        match self.candidates.as_slice() {
            [only] => predict_sets(rows, &only.scoring, only.hi, allow_empty, randomness, plan),
            several => predict_selected_sets(rows, several, allow_empty, randomness, plan),
        }
    }

    /// Conformal p-values of all labels, `out` as rows of K. `options.allow_empty` has no part in them.
    ///
    /// # Errors
    /// As [`Predictor::predict_row`], or when the predictor was saved without its score table.
    pub fn p_values<F: Float, R: Rows<F>>(
        &self,
        rows: &R,
        options: &Options<'_>,
        plan: &Plan<'_>,
        out: &mut [f64],
    ) -> Result<(), Error> {
        self.check_labels(rows.n_labels())?;
        let randomness = self.randomness(options)?;
        if self.probabilities {
            self.p_values_of(&LogProbabilities(rows), &randomness, plan, out)
        } else {
            self.p_values_of(rows, &randomness, plan, out)
        }
    }

    fn p_values_of<F: Float, R: Rows<F>>(
        &self,
        rows: &R,
        randomness: &Randomness<'_>,
        plan: &Plan<'_>,
        out: &mut [f64],
    ) -> Result<(), Error> {
        let Some(table) = &self.calibration_scores else {
            return Err(Error::argument("score_table", "saved with the predictor, for p-values", "none"));
        };
        if let ([only], [scores]) = (self.candidates.as_slice(), table.as_slice()) {
            return crate::p_values(rows, &only.scoring, scores, false, randomness, plan, out);
        }
        let table: Vec<&[f64]> = table.iter().map(Vec::as_slice).collect();
        selected_p_values(rows, &self.candidates, &table, randomness, plan, out)
    }

    fn check_labels(&self, found: usize) -> Result<(), Error> {
        let expected = self.n_labels;
        if found == expected { Ok(()) } else { Err(Error::Labels { found, expected }) }
    }

    fn randomness<'a>(&self, options: &Options<'a>) -> Result<Randomness<'a>, Error> {
        if options.row_ids.is_some() != self.uses_row_ids {
            let found = if self.uses_row_ids { "none" } else { "some" };
            return Err(Error::argument("row_ids", "given exactly when calibration had them", found));
        }
        Ok(Randomness { seed: self.seed, uniforms: options.uniforms, row_ids: options.row_ids })
    }
}

instances! {
    fn predict_one<F: Float>(predictor: &Predictor, row: &[F], allow_empty: bool, randomness: &Randomness<'_>, scratch: &mut Scratch<F>) -> Result<(), Error> = predict_one_body::<F>;
}

#[inline(always)]
fn predict_one_body<F: Float>(
    predictor: &Predictor,
    row: &[F],
    allow_empty: bool,
    randomness: &Randomness<'_>,
    scratch: &mut Scratch<F>,
) -> Result<(), Error> {
    let Scratch { vote, order, labels, row: own, .. } = scratch;
    let row = if predictor.probabilities {
        own.clear();
        own.extend_from_slice(row);
        log_probabilities(own, 0)?;
        &*own
    } else {
        row
    };
    let candidates = Candidates::ordered(&predictor.scorings, std::mem::take(order));
    let view = View::of(row, 0, 0, &candidates, randomness);
    *order = candidates.order;
    let view = view?;
    if let [only] = predictor.candidates.as_slice() {
        let Vote { masses, top, .. } = vote;
        let cut = Cut::new(&only.scoring, only.hi, only.hi, row.len());
        masses.forget();
        masses.take(&view, cut.scoring);
        top.take(row, cut.floor(&view, masses));
        cut.walk(&view, masses, top, |label, _| labels.push(label));
    } else {
        vote.row(&view, &predictor.candidates, order, labels);
    }
    if labels.is_empty() && !allow_empty {
        labels.extend(vote.top.get(0).map(|first| first.0));
    }
    Ok(())
}
