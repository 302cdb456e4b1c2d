//! The driver on stable: runs a target on its kept corpus and on mutations of it for a bounded
//! time.
//!
//! A seed leads to one sequence of inputs, so a longer run repeats a shorter one and goes on. The
//! driver sees no coverage. `cargo fuzz` does, and what it finds is kept in the corpus.

use super::calls::top;
use super::words::words;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

/// Duration for each target without `PAR_FUZZ_MS`, in milliseconds.
const MS_DEFAULT: u64 = 300;
/// Start of the sequence of inputs without `PAR_FUZZ_SEED`.
const SEED_DEFAULT: u64 = 1;
/// Longer inputs are cut to this length, in bytes.
const INPUT_BYTES_MAX: usize = 16 << 10;
/// An input that takes longer fails the target.
const INPUT_TIME_MAX: Duration = Duration::from_secs(20);
/// Mutated inputs that are kept for further mutation, in addition to the corpus.
const KEPT_MAX: usize = 256;

/// Runs `law` on the kept corpus of `target` and on mutations of it.
pub(super) fn drive(target: &str, law: fn(&[u8])) {
    let corpus = corpus(target);
    assert!(!corpus.is_empty(), "fuzz/corpus/{target} is empty");
    let seed = variable("PAR_FUZZ_SEED").unwrap_or(SEED_DEFAULT);
    let end = Instant::now() + Duration::from_millis(variable("PAR_FUZZ_MS").unwrap_or(MS_DEFAULT));
    let began = Instant::now();
    for (name, input) in &corpus {
        hold(target, law, input, name);
    }
    let mut mutator = Mutator { state: seed, words: words(target) };
    let mut pool: Vec<Vec<u8>> = corpus.into_iter().map(|(_, input)| input).collect();
    let kept_from = pool.len();
    let mut turns = 0_u64;
    while Instant::now() < end {
        let input = mutator.input(&pool);
        turns += 1;
        hold(target, law, &input, &format!("input {turns} of seed {seed}"));
        if turns.is_multiple_of(16) {
            if pool.len() < kept_from + KEPT_MAX {
                pool.push(input);
            } else {
                let at = kept_from + mutator.below(KEPT_MAX);
                pool[at] = input;
            }
        }
    }
    println!("{target}: {turns} inputs in {} ms", began.elapsed().as_millis());
}

/// Runs the law on one input. A failure prints the input in a form that can be kept.
fn hold(target: &str, law: fn(&[u8]), input: &[u8], from: &str) {
    let began = Instant::now();
    let result = catch_unwind(AssertUnwindSafe(|| law(input)));
    let result = result.and_then(|()| match began.elapsed() {
        long if long > INPUT_TIME_MAX => Err(Box::new(format!("{target}: {long:?} for one input")) as Box<_>),
        _ => Ok(()),
    });
    if let Err(why) = result {
        eprintln!(
            "{target}: a law does not hold for {from}, {} bytes: {}",
            input.len(),
            input.escape_ascii()
        );
        eprintln!("to keep it: base64 -d <<<'{}' >fuzz/corpus/{target}/NAME", STANDARD.encode(input));
        resume_unwind(why);
    }
}

/// The kept inputs of a target, by name.
pub(super) fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = top().join("fuzz/corpus").join(target);
    let Ok(items) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut all: Vec<(String, Vec<u8>)> = items
        .map(|item| {
            let path = item.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            (name, std::fs::read(path).expect("an input"))
        })
        .collect();
    all.sort();
    all
}

#[expect(clippy::disallowed_methods, reason = "the duration of a test is not a setting of the product")]
fn variable(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("`{name}` must be a number, found `{value}`")))
}

/// Makes an input from others.
struct Mutator {
    state: u64,
    words: &'static [&'static [u8]],
}

impl Mutator {
    /// The next number, by splitmix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut out = self.state;
        out = (out ^ (out >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        out = (out ^ (out >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        out ^ (out >> 31)
    }

    /// A number below `end`, or 0.
    fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end.max(1)).expect("a length");
        usize::try_from(self.next() % end).expect("below a length")
    }

    /// An input of the pool with one to eight changes.
    fn input(&mut self, pool: &[Vec<u8>]) -> Vec<u8> {
        let mut input = pool[self.below(pool.len())].clone();
        let changes = 1 << self.below(4);
        for _ in 0..changes {
            self.change(&mut input, pool);
        }
        input.truncate(INPUT_BYTES_MAX);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>, pool: &[Vec<u8>]) {
        let at = self.below(input.len() + 1);
        let some = 1 + self.below(8);
        let end = (at + some).min(input.len());
        match self.below(12) {
            0 | 1 if at < input.len() => input[at] ^= 1 << self.below(8),
            2 if at < input.len() => input[at] = BYTES[self.below(BYTES.len())],
            3 => drop(input.drain(at..end)),
            4 => drop(input.splice(at..at, [BYTES[self.below(BYTES.len())]])),
            5 => {
                let byte = self.next().to_le_bytes()[0];
                input.splice(at..at, std::iter::repeat_n(byte, some));
            }
            // Repeats a piece, sometimes often enough to reach a limit.
            6 => {
                let from = self.below(at + 1);
                let piece = input[from..at].to_vec();
                let most = if self.below(32) == 0 { 12 } else { 3 };
                let often = 1 << self.below(most);
                let room = INPUT_BYTES_MAX.saturating_sub(input.len()) / piece.len().max(1);
                input.splice(at..at, piece.repeat(often.min(room)));
            }
            7 => input.truncate(at),
            // Continues with the end of another input.
            8 => {
                let other = &pool[self.below(pool.len())];
                let from = self.below(other.len() + 1);
                input.truncate(at);
                input.extend(&other[from..]);
            }
            // Moves a piece.
            9 => {
                let piece: Vec<u8> = input.drain(at..end).collect();
                let to = self.below(input.len() + 1);
                input.splice(to..to, piece);
            }
            _ if self.words.is_empty() => {}
            10 => {
                let word = self.words[self.below(self.words.len())];
                input.splice(at..at, word.iter().copied());
            }
            _ => {
                let word = self.words[self.below(self.words.len())];
                let end = (at + word.len()).min(input.len());
                input.splice(at..end, word.iter().copied());
            }
        }
    }
}

/// Bytes that have a meaning in many formats.
const BYTES: &[u8] = b"\0\x01\x1b\x7f\x80\xff\"'\\/:;,.-+*=#%@&|?!<>[]{}() \t\r\n0189aefnxAZ_~\xc2\xe2";
