//! A calibrated predictor, as the Python package saves it: read once, shared by all threads.

use crate::cells::{Cell, CellVote, Partition, predict_cell_row};
use crate::condition::{Condition, GroupKey, GroupName, Parted};
use crate::cut::Cut;
use crate::document;
use crate::error::Error;
use crate::float::Float;
use crate::json::Json;
use crate::kernel::View;
use crate::recipe::Recipe;
use crate::rows::log_probabilities;
use crate::scoring::Reweight;
use crate::selected::Vote;
use crate::simd::{instances, with_subnormals};
use crate::survivors::Survivor;
use crate::uniform::{Randomness, Uniforms};

/// A calibrated predictor: immutable, safe to share among threads, the same bits as in Python.
///
/// For rows exchangeable with the calibration rows, the set of a new row contains its label with
/// probability at least `1 - alpha`, over the draw of both; with a condition, within each label or group.
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
    pub(crate) pac: Option<Pac>,
    pub(crate) label_names: Option<Vec<String>>,
    pub(crate) recipe: Recipe,
    /// One, or those of the condition.
    pub(crate) cells: Vec<Cell>,
    /// What else is known of each cell.
    pub(crate) details: Vec<Detail>,
    pub(crate) condition: Option<Condition>,
}

/// A guarantee over calibration draws: all but a share delta of them cover.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pac {
    pub(crate) delta: f64,
    /// Thresholds that delta was divided among.
    pub(crate) shares: u64,
}

/// A cell's calibration.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Detail {
    pub(crate) n_calibration: usize,
    pub(crate) rank: usize,
    /// The candidates' reweightings as they were given: none and one of power 0 compute alike.
    pub(crate) reweights: Vec<Option<Reweight>>,
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
/// The first row of a predictor makes room; later ones allocate nothing, unless one of several
/// candidates has a set of more than 1024 labels, larger than any before.
#[derive(Debug)]
pub struct Scratch<F: Float = f32> {
    vote: Vote<F>,
    cell_vote: CellVote<F>,
    labels: Vec<u32>,
    row: Vec<F>,
    /// The candidates and labels that there is room for.
    room: (usize, usize),
}

impl<F: Float> Scratch<F> {
    /// Empty working space; the first row fills it.
    #[must_use]
    pub fn new() -> Self {
        Self {
            vote: Vote::default(),
            cell_vote: CellVote::default(),
            labels: Vec::new(),
            row: Vec::new(),
            room: (0, 0),
        }
    }

    fn fit(&mut self, predictor: &Predictor, cell: usize) {
        let most = predictor.cells.iter().map(|cell| cell.candidates.len()).max();
        let room = (most.unwrap_or(0), predictor.n_labels);
        if self.room != room {
            self.vote.reserve(room.0, room.1);
            self.labels.clear();
            self.labels.reserve(room.1 + 1);
            self.row.clear();
            self.row.reserve(if predictor.probabilities { room.1 } else { 0 });
            self.room = room;
        }
        if let Some(partition) = predictor.partition() {
            self.cell_vote.reserve(&predictor.cells, partition);
        } else {
            self.vote.fit(predictor.cells[cell].candidates.len());
        }
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
    /// row selects. With a condition, none: see [`Predictor::cells`].
    #[must_use]
    pub fn candidates(&self) -> &[Survivor] {
        if self.condition.is_none() { &self.cells[0].candidates } else { &[] }
    }

    /// What was calibrated: one cell of all rows, or those of the condition.
    #[must_use]
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Whether rows need groups.
    #[must_use]
    pub fn uses_groups(&self) -> bool {
        self.condition.as_ref().is_some_and(Condition::has_groups)
    }

    /// The groups of the calibration; none without groups.
    pub fn groups(&self) -> impl Iterator<Item = GroupKey<'_>> {
        let names = match self.condition.as_ref().map(|condition| &condition.parted) {
            Some(Parted::Groups { names, .. }) => names.as_slice(),
            _ => &[],
        };
        names.iter().map(GroupName::key)
    }

    pub(crate) fn partition(&self) -> Option<&Partition> {
        match self.condition.as_ref().map(|condition| &condition.parted) {
            Some(Parted::Labels(partition)) => Some(partition),
            _ => None,
        }
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
        let cell = self.cells_of(options, 1)?.map_or(0, |cell| cell(0)) as usize;
        scratch.fit(self, cell);
        with_subnormals(|| predict_one::<F>(self, cell, row, options.allow_empty, &randomness, scratch))?;
        Ok(&scratch.labels)
    }

    /// The cell of each row, by its group; `None` without groups.
    pub(crate) fn cells_of<'a>(
        &'a self,
        options: &Options<'a>,
        n_rows: usize,
    ) -> Result<Option<impl Fn(usize) -> u32 + 'a>, Error> {
        let (condition, groups) = match (&self.condition, options.groups) {
            (Some(condition), Some(groups)) if condition.has_groups() => (condition, groups),
            _ if self.uses_groups() || options.groups.is_some() => {
                let found = if self.uses_groups() { "none" } else { "some" };
                return Err(Error::argument("groups", "given exactly when calibration had them", found));
            }
            _ => return Ok(None),
        };
        if groups.len() != n_rows {
            return Err(Error::Length { name: "groups", found: groups.len(), expected: n_rows });
        }
        // Unknown groups are refused before anything is predicted.
        groups.iter().try_for_each(|&group| condition.cell_of(group).map(|_| ()))?;
        Ok(Some(move |i: usize| condition.cell_of(groups[i]).ok().flatten().unwrap_or(0)))
    }

    pub(crate) fn check_labels(&self, found: usize) -> Result<(), Error> {
        let expected = self.n_labels;
        if found == expected { Ok(()) } else { Err(Error::Labels { found, expected }) }
    }

    pub(crate) fn randomness<'a>(&self, options: &Options<'a>) -> Result<Randomness<'a>, Error> {
        if options.row_ids.is_some() != self.uses_row_ids {
            let found = if self.uses_row_ids { "none" } else { "some" };
            return Err(Error::argument("row_ids", "given exactly when calibration had them", found));
        }
        Ok(Randomness { seed: self.seed, uniforms: options.uniforms, row_ids: options.row_ids })
    }
}

instances! {
    fn predict_one<F: Float>(predictor: &Predictor, cell: usize, row: &[F], allow_empty: bool, randomness: &Randomness<'_>, scratch: &mut Scratch<F>) -> Result<(), Error> = predict_one_body::<F>;
}

#[inline(always)]
fn predict_one_body<F: Float>(
    predictor: &Predictor,
    cell: usize,
    row: &[F],
    allow_empty: bool,
    randomness: &Randomness<'_>,
    scratch: &mut Scratch<F>,
) -> Result<(), Error> {
    let Scratch { vote, cell_vote, labels, row: own, .. } = scratch;
    let row = if predictor.probabilities {
        own.clear();
        own.extend_from_slice(row);
        log_probabilities(own, 0)?;
        &*own
    } else {
        row
    };
    let (partition, used) = (predictor.partition(), &predictor.cells[cell].candidates);
    let candidates = partition.map_or_else(|| used.candidates(), Partition::candidates);
    let view = View::of(row, 0, 0, &candidates, randomness)?;
    if let Some(partition) = partition {
        predict_cell_row(&view, &predictor.cells, partition, allow_empty, cell_vote, labels);
        return Ok(());
    }
    if let [only] = &used[..] {
        let Vote { masses, top, .. } = vote;
        let cut = Cut::new(&only.scoring, only.hi, only.hi, row.len());
        masses.forget();
        masses.take(&view, cut.scoring);
        cut.take(&view, masses, top);
        cut.walk(&view, masses, top, |label, _| labels.push(label));
    } else {
        vote.row(&view, used, labels);
    }
    if labels.is_empty() && !allow_empty {
        labels.extend(vote.top.get(0).map(|first| first.0));
    }
    Ok(())
}
