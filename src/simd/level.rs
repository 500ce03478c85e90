//! Which instruction sets are there, and which one is in use?
//!
//! `TIGHTSET_SIMD` forces one by its name, for tests: `avx512`, `avx2`, and what every machine of the
//! architecture has, `sse2`, `neon` or `fallback`.

use std::sync::OnceLock;

/// An instruction set that kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// What every machine of the architecture has: SSE2, NEON, or no vectors.
    Baseline,
    /// AVX2 and FMA: x86-64-v3.
    Avx2,
    /// AVX-512 as Ice Lake and Zen 4 have it. Older forms of it take AVX2.
    Avx512,
}

/// The proof of what every machine of the architecture has.
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) type Baseline = fearless_simd::Sse2;
/// The proof of what every machine of the architecture has.
#[cfg(all(target_arch = "aarch64", not(miri)))]
pub(crate) type Baseline = fearless_simd::Neon;
/// The proof of nothing: plain loops. Miri takes them too, which has few instructions of vectors.
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub(crate) type Baseline = fearless_simd::Fallback;

/// The proof of the instruction set in use.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Chosen {
    Baseline(Baseline),
    #[cfg(target_arch = "x86_64")]
    Avx2(fearless_simd::Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(fearless_simd::Avx512),
}

impl Level {
    /// All levels, the best last.
    pub const ALL: [Self; 3] = [Self::Baseline, Self::Avx2, Self::Avx512];

    /// Whether this machine has it.
    #[must_use]
    pub fn is_available(self) -> bool {
        self.proof().is_some()
    }

    /// Its name in `TIGHTSET_SIMD`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Baseline if cfg!(miri) => "fallback",
            Self::Baseline if cfg!(target_arch = "x86_64") => "sse2",
            Self::Baseline if cfg!(target_arch = "aarch64") => "neon",
            Self::Baseline => "fallback",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }

    fn proof(self) -> Option<Chosen> {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        let proof = {
            let best = fearless_simd::Level::new();
            match self {
                Self::Baseline => best.as_sse2().map(Chosen::Baseline),
                Self::Avx2 => best.as_avx2().map(Chosen::Avx2),
                Self::Avx512 => best.as_avx512().map(Chosen::Avx512),
            }
        };
        #[cfg(all(target_arch = "aarch64", not(miri)))]
        let proof = match self {
            Self::Baseline => fearless_simd::Level::new().as_neon().map(Chosen::Baseline),
            _ => None,
        };
        #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
        let proof = match (self, fearless_simd::Level::fallback()) {
            (Self::Baseline, fearless_simd::Level::Fallback(token)) => Some(Chosen::Baseline(token)),
            _ => None,
        };
        proof
    }
}

static IN_USE: OnceLock<(Level, Chosen)> = OnceLock::new();

/// The level in use: the best available one, or what `TIGHTSET_SIMD` names. Decided once.
#[must_use]
pub fn level() -> Level {
    in_use().0
}

/// The proof of [`level`].
#[inline(always)]
pub(crate) fn chosen() -> Chosen {
    in_use().1
}

#[inline(always)]
fn in_use() -> (Level, Chosen) {
    *IN_USE.get_or_init(|| choose(std::env::var("TIGHTSET_SIMD").ok().as_deref()))
}

/// A name that is unknown, or not available here, is passed over: a service must start.
#[cold]
fn choose(forced: Option<&str>) -> (Level, Chosen) {
    let available =
        || Level::ALL.into_iter().rev().filter_map(|level| level.proof().map(|proof| (level, proof)));
    let named = forced.and_then(|name| available().find(|(level, _)| level.name() == name));
    let Some(found) = named.or_else(|| available().next()) else {
        unreachable!("every machine has the baseline of its architecture");
    };
    found
}

/// The proofs of all instruction sets that this machine has.
#[cfg(test)]
pub(crate) struct Tokens {
    pub(crate) baseline: Baseline,
    #[cfg(target_arch = "x86_64")]
    pub(crate) avx2: Option<fearless_simd::Avx2>,
    #[cfg(target_arch = "x86_64")]
    pub(crate) avx512: Option<fearless_simd::Avx512>,
}

#[cfg(test)]
pub(crate) fn baseline() -> Baseline {
    let Some(Chosen::Baseline(token)) = Level::Baseline.proof() else { unreachable!("every machine has it") };
    token
}

#[cfg(test)]
pub(crate) fn tokens() -> Tokens {
    Tokens {
        baseline: baseline(),
        #[cfg(target_arch = "x86_64")]
        avx2: fearless_simd::Level::new().as_avx2(),
        #[cfg(target_arch = "x86_64")]
        avx512: fearless_simd::Level::new().as_avx512(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_force_levels() {
        assert_eq!(choose(Some(Level::Baseline.name())).0, Level::Baseline);
        let best = choose(None).0;
        assert!(best.is_available());
        assert_eq!(choose(Some("no such set")).0, best);
    }
}
