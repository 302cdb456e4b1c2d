//! Every fault of a block whose keys or types are wrong.
//!
//! A reader stops at the first one. So the block is repaired in memory, where that one is, and read
//! again: a line with a wrong key or a wrong type is left out, a missing key gets a value. What is
//! repaired is only read for further faults, never used.

use toml::Table;

/// Faults of one block that are reported, at most.
const FAULTS_MAX: usize = 16;

/// A value for each key that may be missing from a block, of its type.
const VALUES: [(&str, &str); 7] = [
    ("name", "\"\""),
    ("role", "\"viewer\""),
    ("tool", "\"tool\""),
    ("power", "\"run\""),
    ("owner", "\"self\""),
    ("tools", "[]"),
    ("expect", "\"deny\""),
];

/// What one block is found to be.
pub(super) struct BlockRead<T> {
    /// Offset and message of each fault, in the order in which they were found.
    pub(super) faults: Vec<(usize, String)>,
    /// The block as far as it can be read.
    pub(super) read: Option<T>,
}

/// Reads `text`, in which only one block is not blank. `start` is the offset of the block.
pub(super) fn read<T>(
    text: &str,
    start: usize,
    parse: impl Fn(&str) -> Result<T, toml::de::Error>,
) -> BlockRead<T> {
    let (mut text, mut faults) = (text.to_owned(), Vec::new());
    loop {
        let error = match parse(&text) {
            Ok(read) => return BlockRead { faults, read: Some(read) },
            Err(error) => error,
        };
        let at = error.span().map_or(start, |span| span.start);
        faults.push((at, error.message().to_owned()));
        let repaired = match missing(error.message()) {
            Some(name) => with_key(&text, start, name),
            None => without_line(&text, start, at, error.message()),
        };
        match repaired.filter(|_| faults.len() < FAULTS_MAX) {
            Some(repaired) => text = repaired,
            None => return BlockRead { faults, read: None },
        }
    }
}

fn missing(message: &str) -> Option<&str> {
    message.strip_prefix("missing field `")?.strip_suffix('`')
}

/// The text with the key at the end of the block, where it moves nothing.
fn with_key(text: &str, start: usize, name: &str) -> Option<String> {
    let (_, value) = VALUES.iter().find(|(known, _)| *known == name)?;
    let block = text.get(start..)?;
    let repaired = format!("{}\n{name} = {value}\n", text.trim_end());
    let is_new = !block.lines().any(|line| line.trim_start().starts_with(&format!("{name} =")));
    (is_new && repaired.parse::<Table>().is_ok()).then_some(repaired)
}

/// The text without the line at `at`, if it is one whole setting of the block.
fn without_line(text: &str, start: usize, at: usize, message: &str) -> Option<String> {
    let (before, after) = text.split_at_checked(at)?;
    let from = before.rfind('\n').map_or(0, |end| end + 1);
    let to = at + after.find('\n').unwrap_or(after.len());
    let line = text.get(from..to).filter(|_| from > start)?;
    let setting = line.parse::<Table>().ok()?;
    let name = setting.keys().next()?;
    let repaired = format!("{}{}{}", text.get(..from)?, " ".repeat(line.len()), text.get(to..)?);
    // A known key with a wrong type is not missing too.
    let is_known = !message.starts_with("unknown field");
    let with_value = is_known.then(|| with_key(&repaired, start, name)).flatten();
    let repaired = with_value.unwrap_or(repaired);
    repaired.parse::<Table>().is_ok().then_some(repaired)
}
