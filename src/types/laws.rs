//! How many cases a property test runs, and which.

use proptest::prelude::ProptestConfig;
use proptest::test_runner::RngSeed;

/// `cases` cases, the same in each run, so that the result depends on the commit alone.
/// `PAR_CASES=50` generates new cases, fifty times as many.
#[expect(clippy::disallowed_methods, reason = "the developer chooses the number of cases")]
pub(crate) fn cases(cases: u32) -> ProptestConfig {
    let times = std::env::var("PAR_CASES").ok().map(|times| times.parse().expect("PAR_CASES is a number"));
    let rng_seed = if times.is_some() { RngSeed::Random } else { RngSeed::Fixed(6962) };
    ProptestConfig { cases: cases * times.unwrap_or(1), rng_seed, ..ProptestConfig::default() }
}
