//! Where do results go? Into planes of rows, one plane for each candidate. A block of rows fills its part of
//! each plane.

/// What a block of rows fills: its part of each plane.
#[derive(Debug)]
pub(crate) enum Planes<'a, T> {
    /// All planes, one after the other, and the length of each: for a call that is one block. This allocates
    /// nothing.
    Whole(&'a mut [T], usize),
    /// Some rows of each plane.
    Parts(Vec<&'a mut [T]>),
}

impl<T> Planes<'_, T> {
    /// The part of one plane.
    #[inline(always)]
    pub(crate) fn plane(&mut self, i: usize) -> &mut [T] {
        match self {
            Self::Whole(all, length) => &mut all[i * *length..][..*length],
            Self::Parts(parts) => parts[i],
        }
    }

    /// The part of the only plane.
    #[inline(always)]
    pub(crate) fn only(&mut self) -> &mut [T] {
        self.plane(0)
    }
}
