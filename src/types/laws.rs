//! How many cases a property is asked, and which.

use proptest::prelude::ProptestConfig;
use proptest::test_runner::RngSeed;

/// `cases` cases, the same in each run: a test suite that says two things of one commit says nothing.
/// `PAR_CASES=50` looks for new ones, fifty times as many.
pub(crate) fn cases(cases: u32) -> ProptestConfig {
    let times = std::env::var("PAR_CASES").ok().map(|times| times.parse().expect("PAR_CASES is a number"));
    let rng_seed = if times.is_some() { RngSeed::Random } else { RngSeed::Fixed(6962) };
    ProptestConfig { cases: cases * times.unwrap_or(1), rng_seed, ..ProptestConfig::default() }
}
