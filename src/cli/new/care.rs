//! What a person should know about a tool before it is used: it is legal, and wider than it looks.

use super::place::FoundPlace;
use crate::types::text;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Programs that run what they are given.
const INTERPRETERS: [&str; 13] =
    ["ash", "awk", "bash", "busybox", "dash", "env", "ksh", "node", "perl", "ruby", "sh", "xargs", "zsh"];

/// Programs that report on the processes of the host.
const OF_PROCESSES: [&str; 13] = [
    "free", "fuser", "htop", "lsof", "netstat", "pgrep", "pidof", "ps", "pstree", "ss", "top", "uptime",
    "vmstat",
];

/// A line for each thing to know about a tool with this command and these grants. `class` is the
/// one in the manifest.
pub(super) fn lines(elements: &[String], reads: &[FoundPlace], class: &str) -> Vec<String> {
    let program = elements.first().map(Path::new).and_then(Path::file_name);
    let program = program.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let is_interpreter = INTERPRETERS.contains(&program.as_str()) || program.starts_with("python");
    let has_argument = elements.iter().any(|element| element.starts_with('{'));
    let runs_all = (is_interpreter && has_argument).then(|| {
        let exec = if class == "exec" { "" } else { ", and its class is not `exec`" };
        format!(
            "{program} runs whatever a caller writes into its argument{exec}: name the program that should run \
             instead, or put a script into etc/jobs.d/"
        )
    });
    let closed = reads.iter().filter_map(closed);
    runs_all.into_iter().chain(closed).collect()
}

/// That text arguments are not what the rules about paths see, in a tool that may use folders.
pub(super) fn past_rules(texts: &[&str], granted: &[&str]) -> Option<String> {
    let (first, folders) = (texts.first()?, granted.first().map(|_| granted.join(", "))?);
    Some(format!(
        "rules about paths do not see `{{{first}}}`: if the program takes it for a file, a caller may name \
         whatever lies below {folders}"
    ))
}

/// That a program about processes finds none of the host's, and what does.
pub(super) fn host_processes(program: &str) -> Option<String> {
    let name = Path::new(program).file_name()?.to_str()?;
    OF_PROCESSES.contains(&name).then(|| {
        format!(
            "{name} reads /proc, and a program never sees the processes of the host, with `--proc` only those of \
             its own call: the tools process_list, process_info, health_check and connections report on the host"
        )
    })
}

/// That the Unix rights keep other users from what the tool is granted.
fn closed(place: &FoundPlace) -> Option<String> {
    let mode = std::fs::metadata(&place.real).ok()?.permissions().mode();
    (mode & 0o004 == 0).then(|| {
        let path = text::visible_line(&place.real.to_string_lossy());
        format!(
            "{path} is closed to other users of this host (mode {:04o}), and whoever may call the tool may ask for it",
            mode & 0o7777
        )
    })
}

#[cfg(test)]
mod tests {
    use super::{FoundPlace, lines};
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_shell_and_a_closed_file_are_warned_of() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let shell = lines(&words(&["/bin/bash", "-c", "{cmd}"]), &[], "read");
        assert!(shell[0].starts_with("bash runs whatever a caller writes"), "{shell:?}");
        assert!(lines(&words(&["/bin/sh", "/opt/fixed.sh"]), &[], "read").is_empty());
        assert!(lines(&words(&["/usr/bin/stat", "{path}"]), &[], "read").is_empty());
        let file = tempfile::NamedTempFile::new().expect("a file");
        let set = |mode: u32| {
            std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).expect("mode");
            let path = file.path().to_str().expect("UTF-8").to_owned();
            let place = FoundPlace {
                written: path.clone(),
                real: file.path().to_owned(),
                in_rule: path.clone(),
                in_cases: vec![path],
            };
            lines(&words(&["/usr/bin/stat"]), &[place], "read")
        };
        assert!(set(0o640)[0].contains("(mode 0640)"));
        assert!(set(0o644).is_empty());
    }
}
