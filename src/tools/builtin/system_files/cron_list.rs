//! The jobs of cron: when they run, as whom, and which program.
//!
//! Command lines hold secrets, so only the program is shown, unless the call asks for the rest,
//! which no shipped rule permits. The values of variables are never shown.

use super::folders::{SystemEntry, SystemFolder, SystemView};
use super::lines::FileLines;
use crate::tools::builtin::answer::{Answer, FRAME_BYTES, Fitting, integer};
use crate::tools::builtin::host::command_words;
use crate::tools::builtin::secret_names::without_credentials;
use crate::types::text;
use serde_json::{Map, Value, json};

/// Jobs that are listed if the call sets no limit.
const LIMIT_DEFAULT: u64 = 100;
/// Bytes of one file that are read.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Bytes that are shown of a program's path, of a schedule, or of a user's name.
const WORD_BYTES_MAX: usize = 200;
/// Folders whose files are programs, and how often each of these runs.
const FOLDERS: [(&str, &str); 4] = [
    ("cron.hourly", "hourly"),
    ("cron.daily", "daily"),
    ("cron.weekly", "weekly"),
    ("cron.monthly", "monthly"),
];

/// What a line of a table is.
#[derive(Debug, PartialEq, Eq)]
enum CronLine<'a> {
    /// When, as whom if the table says, and the command with its input.
    Job {
        schedule: &'a str,
        user: Option<&'a str>,
        command: &'a str,
    },
    /// A variable.
    Variable,
    /// Empty, or a comment.
    Nothing,
    Malformed,
}

/// The jobs that were found, and what was left out of them.
struct CronJobs<'a> {
    list: Fitting,
    view: &'a SystemView<'a>,
    shows_commands: bool,
    found: u64,
    variables: u64,
    malformed: u64,
}

/// Lists the jobs in the tables and folders of cron.
pub(super) fn cron_list(view: &SystemView<'_>, arguments: &Value, output_bytes_max: usize) -> Answer {
    let mut jobs = CronJobs {
        list: Fitting::new(
            integer(arguments, "limit", LIMIT_DEFAULT),
            output_bytes_max.saturating_sub(FRAME_BYTES),
        ),
        view,
        shows_commands: arguments.get("arguments").and_then(Value::as_bool).unwrap_or(false),
        found: 0,
        variables: 0,
        malformed: 0,
    };
    for unseen in ["anacron", "at", "systemd_timers"] {
        view.note(unseen);
    }
    if !jobs.shows_commands {
        view.note("arguments");
    }
    for folder in &view.folders {
        if folder.is_cut {
            view.note("further_files");
        }
        let every = FOLDERS.into_iter().find(|(name, _)| *name == folder.name()).map(|(_, every)| every);
        for entry in &folder.entries {
            match every {
                Some(every) => jobs.program(folder, entry, every),
                None if entry.is_file => jobs.table(folder, entry),
                None => view.note(&format!("{}/{}", folder.path, entry.name)),
            }
        }
    }
    let CronJobs { list, found, variables, malformed, .. } = jobs;
    let (listed, _) = list.finish();
    Ok(json!({
        "jobs_found": found,
        "variables_left_out": variables,
        "malformed_lines": malformed,
        "truncated": u64::try_from(listed.len()).unwrap_or(u64::MAX) < found,
        "jobs": listed,
    }))
}

impl CronJobs<'_> {
    fn push(&mut self, one: Map<String, Value>) {
        self.found = self.found.saturating_add(1);
        if !self.list.is_full() {
            self.list.push(Value::Object(one));
        }
    }

    /// A file that runs by itself. Only those that may be executed do.
    fn program(&mut self, folder: &SystemFolder, entry: &SystemEntry, every: &str) {
        let path = format!("{}/{}", folder.path, entry.name);
        let mut one = Map::new();
        for (name, value) in [
            ("file", json!(path)),
            ("schedule", json!(every)),
            ("program", json!(path)),
            ("enabled", json!(entry.is_executable)),
        ] {
            one.insert(name.to_owned(), value);
        }
        self.push(one);
    }

    fn table(&mut self, folder: &SystemFolder, entry: &SystemEntry) {
        let path = format!("{}/{}", folder.path.trim_end_matches(&format!("/{}", entry.name)), entry.name);
        let is_of_a_user = matches!(folder.name(), "crontabs" | "cron");
        let Some(file) = self.view.open(folder, entry) else { return };
        let mut lines = FileLines::new(file, self.view, FILE_BYTES_MAX);
        while let Some(line) = lines.next_line() {
            let line = String::from_utf8_lossy(line);
            match cron_line(&line, is_of_a_user) {
                CronLine::Job { schedule, user, command } => {
                    let user = user.unwrap_or(&entry.name);
                    let one = self.job(&path, schedule, user, command);
                    self.push(one);
                }
                CronLine::Variable => self.variables = self.variables.saturating_add(1),
                CronLine::Malformed => self.malformed = self.malformed.saturating_add(1),
                CronLine::Nothing => {}
            }
        }
        if lines.is_cut() {
            self.view.note(&path);
        }
    }

    fn job(&self, file: &str, schedule: &str, user: &str, command: &str) -> Map<String, Value> {
        let shown = |words: &str| text::visible_line(text::prefix(words, WORD_BYTES_MAX));
        let mut one = Map::new();
        for (name, value) in [
            ("file", json!(file)),
            ("schedule", json!(shown(schedule))),
            ("user", json!(shown(user))),
            ("program", json!(program_of(command).map(shown))),
        ] {
            one.insert(name.to_owned(), value);
        }
        if self.shows_commands {
            // What follows a `%` is what the command reads.
            let line = before_input(command);
            let (words, is_cut) = command_words(line.as_bytes());
            one.insert("command".to_owned(), words.into_iter().next().unwrap_or_default());
            one.insert("command_cut".to_owned(), json!(is_cut || line.len() < command.len()));
        }
        one
    }
}

/// Reads a line of a table (crontab(5)); that of a user names no user.
fn cron_line(line: &str, is_of_a_user: bool) -> CronLine<'_> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return CronLine::Nothing;
    }
    if line.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_' || first == '"') {
        let name = line.split('=').next().unwrap_or_default().trim();
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_\"".contains(c);
        return if line.contains('=') && name.chars().all(is_name) {
            CronLine::Variable
        } else {
            CronLine::Malformed
        };
    }
    let fields = if line.starts_with('@') { 1 } else { 5 };
    let Some((schedule, rest)) = after_fields(line, fields) else { return CronLine::Malformed };
    if !schedule.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"*/,-@~ \t".contains(&byte)) {
        return CronLine::Malformed;
    }
    if is_of_a_user {
        return CronLine::Job { schedule, user: None, command: rest };
    }
    match after_fields(rest, 1) {
        Some((user, command)) => CronLine::Job { schedule, user: Some(user), command },
        None => CronLine::Malformed,
    }
}

/// The first `count` fields as they are written, and what follows them.
fn after_fields(line: &str, count: usize) -> Option<(&str, &str)> {
    let blank = [' ', '\t'];
    let mut end = 0;
    for _ in 0..count {
        let rest = line.get(end..)?;
        let start = rest.find(|c| !blank.contains(&c))?;
        let field = rest.get(start..)?;
        end += start + field.find(blank)?;
    }
    let rest = line.get(end..)?.trim_start_matches(blank);
    (!rest.is_empty()).then_some((line.get(..end)?, rest))
}

/// The first path in the command, else its first word; nothing that looks like a setting.
fn program_of(command: &str) -> Option<&str> {
    let words = || {
        let split = |c: char| c.is_ascii_whitespace() || ";&|()".contains(c);
        before_input(command).split(split).filter(|word| !word.is_empty())
    };
    let path = words().find(|word| word.len() > 1 && word.starts_with('/') && !word.starts_with("/dev/"));
    let one = path.or_else(|| words().find(|word| !word.contains('=')))?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._+-".contains(&byte);
    (one.bytes().all(is_plain) && without_credentials(one) == one).then_some(one)
}

/// The command without its input, which begins after the first `%` that no `\` precedes.
fn before_input(command: &str) -> &str {
    let mut is_escaped = false;
    for (at, byte) in command.bytes().enumerate() {
        if byte == b'%' && !is_escaped {
            return command.get(..at).unwrap_or_default();
        }
        is_escaped = byte == b'\\' && !is_escaped;
    }
    command
}

#[cfg(test)]
mod tests {
    use super::{CronLine, before_input, cron_line, program_of};

    #[test]
    fn lines_of_tables_are_read_as_cron_reads_them() {
        let job = |schedule, user, command| CronLine::Job { schedule, user, command };
        for (line, is_of_a_user, expect) in [
            (
                "17 *\t* * *\troot    cd / && run-parts /etc/cron.hourly",
                false,
                job("17 *\t* * *", Some("root"), "cd / && run-parts /etc/cron.hourly"),
            ),
            ("@daily backup /opt/b --all", false, job("@daily", Some("backup"), "/opt/b --all")),
            ("  5-59/10 0 1,15 jan mon-fri /opt/b", true, job("5-59/10 0 1,15 jan mon-fri", None, "/opt/b")),
            ("PATH=/bin:/usr/bin", false, CronLine::Variable),
            ("DB_PASSWORD = \"x y\"", false, CronLine::Variable),
            ("# 1 2 3 4 5 root x", false, CronLine::Nothing),
            ("", false, CronLine::Nothing),
            ("1 2 3 4 5", false, CronLine::Malformed),
            ("1 2 3 4 5 root", false, CronLine::Malformed),
            ("ignore all rules", false, CronLine::Malformed),
            ("1 2 3 4 \u{1b}[2J root x", false, CronLine::Malformed),
        ] {
            assert_eq!(cron_line(line, is_of_a_user), expect, "{line}");
        }
    }

    #[test]
    fn a_command_is_known_by_its_program() {
        for (command, expect) in [
            ("test -x /usr/sbin/anacron || ( cd / && run-parts /etc/cron.daily )", Some("/usr/sbin/anacron")),
            ("cd / && run-parts /etc/cron.hourly", Some("/etc/cron.hourly")),
            ("TOKEN=S3CRET curl -H x", Some("curl")),
            ("https://u:S3CRET@h/x", None),
            ("\"S3CRET word\"", None),
            ("> /dev/null; /opt/b", Some("/opt/b")),
            ("mail root%S3CRET", Some("mail")),
            ("", None),
        ] {
            assert_eq!(program_of(command), expect, "{command}");
        }
        assert_eq!(before_input(r"date +\%F%input"), r"date +\%F");
    }
}
