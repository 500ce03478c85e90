//! How does a predictor predict one row, and what can be asked of it?

use super::contents::{Condition, Contents, GroupKey, GroupName, Parted};
use super::document;
use super::json::Json;
use crate::conformal::{Cell, CellVote, Partition, Survivor, Vote};
use crate::error::Error;
use crate::kernels::Float;
use crate::math::{Randomness, Uniforms};
use crate::rows::log_probabilities;
use crate::run::reserve;
use crate::score::RowView;
use crate::simd::{Simd, dispatch, with_subnormals};

/// A calibrated predictor. It is immutable, safe to share among threads, and predicts the same bits as in
/// Python.
///
/// For rows exchangeable with the calibration rows, the set of a new row contains its label with
/// probability at least `1 - alpha`, over the draw of both; with a condition, within each label or group.
///
/// # Examples
/// ```
/// use tightset::{Matrix, Options, Plan, Predictor, Scratch};
///
/// # let text = include_str!("../../tests/fixtures/v1/aps.json");
/// let predictor = Predictor::from_json(text)?;
/// let rows = [0.1_f32, 3.5, -1.0, 2.0, 9.0, 0.0, 0.5, 0.1];
///
/// let mut scratch = Scratch::new();
/// let first = predictor.predict_row(&rows[..4], &mut scratch)?.to_vec();
///
/// // Many rows are predicted in the caller's rayon pool, if the caller is in one.
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
    pub(super) contents: Contents,
}

/// What a prediction is given beside the rows.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// Whether a set may be empty, as the guarantee permits; if not, such a set holds the top label.
    pub allow_empty: bool,
    /// Where U comes from. Sources other than the row are for comparison only.
    pub uniforms: Uniforms<'a>,
    /// An id for each row, exactly when calibration had them.
    pub row_ids: Option<&'a [u64]>,
    /// The group of each row, exactly when calibration had groups.
    pub groups: Option<&'a [GroupKey<'a>]>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self { allow_empty: true, uniforms: Uniforms::FromRow, row_ids: None, groups: None }
    }
}

/// Working space of one thread, for rows of f32 or of f64 and any predictor.
///
/// The first row of a predictor makes room. Later rows allocate nothing, unless several candidates differ on
/// more labels than in any row before.
#[derive(Debug)]
pub struct Scratch<F: Float = f32> {
    vote: Vote<F>,
    cell_vote: CellVote<F>,
    labels: Vec<u32>,
    row: Vec<F>,
}

impl<F: Float> Scratch<F> {
    /// Empty working space; the first row fills it.
    #[must_use]
    pub fn new() -> Self {
        Self { vote: Vote::default(), cell_vote: CellVote::default(), labels: Vec::new(), row: Vec::new() }
    }

    /// Makes room for rows of a predictor.
    fn fit(&mut self, predictor: &Contents) -> Result<(), Error> {
        let k = predictor.n_labels;
        self.labels.clear();
        self.row.clear();
        reserve(&mut self.labels, k)?;
        reserve(&mut self.row, if predictor.probabilities { k } else { 0 })?;
        if let Some(partition) = predictor.partition() {
            return self.cell_vote.reserve(&predictor.cells, partition);
        }
        let n_candidates = predictor.cells.iter().map(|cell| cell.candidates.len()).max();
        self.vote.reserve(n_candidates.unwrap_or(1), k)
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

    /// [`Predictor::from_json`] for texts of up to `max_bytes`: a score table has 16 bytes for each row and
    /// candidate.
    ///
    /// # Errors
    /// As [`Predictor::from_json`].
    pub fn from_json_up_to(text: &str, max_bytes: usize) -> Result<Self, Error> {
        if text.len() > max_bytes {
            let length = text.len();
            return Err(Error::Document(format!("{length} bytes are too large: more than {max_bytes}")));
        }
        let contents = with_subnormals(|| document::read(&Json::parse(text)?))?;
        Ok(Self { contents })
    }

    /// The document, byte for byte as Python writes it for the same predictor. It includes the score table if
    /// there is one.
    #[must_use]
    pub fn to_json(&self) -> String {
        document::write(&self.contents).pretty()
    }

    /// Miscoverage level.
    #[must_use]
    pub fn alpha(&self) -> f64 {
        self.contents.alpha
    }

    /// Number of labels, K.
    #[must_use]
    pub fn n_labels(&self) -> usize {
        self.contents.n_labels
    }

    /// Number of calibration rows that set the thresholds.
    #[must_use]
    pub fn n_calibration(&self) -> usize {
        self.contents.n_calibration
    }

    /// The rank of the calibration score that is the threshold. Above [`Predictor::n_calibration`], the
    /// threshold is infinite.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.contents.rank
    }

    /// Whether rows hold probabilities instead of logits.
    #[must_use]
    pub fn takes_probabilities(&self) -> bool {
        self.contents.probabilities
    }

    /// Whether rows need ids.
    #[must_use]
    pub fn uses_row_ids(&self) -> bool {
        self.contents.uses_row_ids
    }

    /// Names of the labels, if they were saved.
    #[must_use]
    pub fn label_names(&self) -> Option<&[String]> {
        self.contents.label_names.as_deref()
    }

    /// The candidates that prediction uses: one with its threshold `hi`, or several among which each label of
    /// a row selects. With a condition there are none here: see [`Predictor::cells`].
    #[must_use]
    pub fn candidates(&self) -> &[Survivor] {
        if self.contents.condition.is_none() { &self.contents.cells[0].candidates } else { &[] }
    }

    /// The cells that were calibrated: one of all rows, or those of the condition.
    #[must_use]
    pub fn cells(&self) -> &[Cell] {
        &self.contents.cells
    }

    /// Whether rows need groups.
    #[must_use]
    pub fn uses_groups(&self) -> bool {
        self.contents.uses_groups()
    }

    /// The groups of the calibration; none without groups.
    pub fn groups(&self) -> impl Iterator<Item = GroupKey<'_>> {
        let names = match self.contents.condition.as_ref().map(|condition| &condition.parted) {
            Some(Parted::Groups { names, .. }) => names.as_slice(),
            _ => &[],
        };
        names.iter().map(GroupName::key)
    }

    /// The prediction set of one row: labels by falling probability.
    ///
    /// Allocates nothing once `scratch` has seen a row of this predictor, and uses no other thread.
    ///
    /// # Errors
    /// For a row of another length, or with a value that is no logit (or no probability, if calibration had
    /// probabilities); when calibration had row ids or groups.
    pub fn predict_row<'s, F: Float>(
        &self,
        row: &[F],
        scratch: &'s mut Scratch<F>,
    ) -> Result<&'s [u32], Error> {
        self.predict_row_with(row, &Options::default(), scratch)
    }

    /// [`Predictor::predict_row`] with options. Ids, groups and U are lists of one.
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
        let cell = match self.groups_of(options, 1)? {
            Some((condition, groups)) => condition.cell_of(groups[0])?,
            None => 0,
        };
        scratch.fit(&self.contents)?;
        let (contents, allow_empty) = (&self.contents, options.allow_empty);
        with_subnormals(
            || dispatch!(s => predict_one(s, contents, cell, row, allow_empty, &randomness, scratch)),
        )?;
        Ok(&scratch.labels)
    }

    /// The groups of the rows, and the condition that gives their cells; `None` without groups.
    pub(super) fn groups_of<'a>(
        &'a self,
        options: &Options<'a>,
        n_rows: usize,
    ) -> Result<Option<(&'a Condition, &'a [GroupKey<'a>])>, Error> {
        if options.groups.is_some() != self.uses_groups() {
            return Err(only_as_calibrated("groups", self.uses_groups()));
        }
        let (Some(condition), Some(groups)) = (&self.contents.condition, options.groups) else {
            return Ok(None);
        };
        if groups.len() != n_rows {
            return Err(Error::Length { name: "groups", found: groups.len(), expected: n_rows });
        }
        Ok(Some((condition, groups)))
    }

    pub(super) fn check_labels(&self, found: usize) -> Result<(), Error> {
        let expected = self.contents.n_labels;
        if found == expected { Ok(()) } else { Err(Error::Labels { found, expected }) }
    }

    pub(super) fn randomness<'a>(&self, options: &Options<'a>) -> Result<Randomness<'a>, Error> {
        if options.row_ids.is_some() != self.contents.uses_row_ids {
            return Err(only_as_calibrated("row_ids", self.contents.uses_row_ids));
        }
        Ok(Randomness { seed: self.contents.seed, uniforms: options.uniforms, row_ids: options.row_ids })
    }
}

/// Refuses an option that the call lacks and calibration had, or the other way round.
fn only_as_calibrated(name: &'static str, is_missing: bool) -> Error {
    Error::argument(name, "given exactly when calibration had them", if is_missing { "none" } else { "some" })
}

#[inline(always)]
fn predict_one<S: Simd, F: Float>(
    s: S,
    predictor: &Contents,
    cell: usize,
    row: &[F],
    allow_empty: bool,
    randomness: &Randomness<'_>,
    scratch: &mut Scratch<F>,
) -> Result<(), Error> {
    let Scratch { vote, cell_vote, labels, row: own } = scratch;
    let row = if predictor.probabilities {
        own.extend_from_slice(row);
        log_probabilities(own, 0)?;
        &*own
    } else {
        row
    };
    let (partition, used) = (predictor.partition(), &predictor.cells[cell].candidates);
    let candidates = partition.map_or_else(|| used.candidates(), Partition::candidates);
    let view = RowView::of(s, row, &candidates, randomness)?;
    if let Some(partition) = partition {
        cell_vote.set(s, &view, &predictor.cells, partition, |label| labels.push(label));
    } else {
        vote.row(s, &view, used, |label| labels.push(label));
    }
    if labels.is_empty() && !allow_empty {
        labels.extend(if partition.is_some() { cell_vote.top_label() } else { vote.top_label(s) });
    }
    Ok(())
}
