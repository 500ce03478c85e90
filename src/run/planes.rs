//! Where do results go? Into planes of rows, one for each candidate, of which a block of rows fills its part.

/// What a block of rows fills: its part of each plane.
#[derive(Debug)]
pub(crate) enum Planes<'a, T> {
    /// All planes, one after the other, each of so many values: those of a call that is one block. Nothing is
    /// allocated for them.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_planes_and_parts_are_the_same_places() {
        let mut values = [0, 1, 2, 3, 4, 5];
        let mut whole = Planes::Whole(&mut values, 3);
        assert_eq!((whole.plane(1).to_vec(), whole.only().to_vec()), (vec![3, 4, 5], vec![0, 1, 2]));
        let mut parts = Planes::Parts(values.chunks_exact_mut(3).collect());
        assert_eq!((parts.plane(1).to_vec(), parts.only().to_vec()), (vec![3, 4, 5], vec![0, 1, 2]));
    }
}
