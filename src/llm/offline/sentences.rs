//! The sentences that are understood without a model: of an operator's day, over the tools that are
//! on.

use super::calls::WrittenCall;
use super::form::{SaidWord, Slots, read};
use crate::llm::provider::ToolOffer;
use serde_json::Value;
use std::path::PathBuf;

/// Lines that a question for the last lines shows.
const LINES: u16 = 20;

/// One meaning, and the forms that have it.
pub(super) struct Sentence {
    /// As the help shows it.
    pub(super) example: &'static str,
    forms: &'static [&'static str],
    means: Meaning,
}

/// What a sentence means.
enum Meaning {
    /// These calls.
    Steps(&'static [SentenceStep]),
    /// PAR's own record is not read by a tool: the command that shows it.
    Command(&'static str),
}

/// One call.
struct SentenceStep {
    tool: &'static str,
    arguments: &'static [(&'static str, Word)],
}

/// The value of an argument.
enum Word {
    /// A text, in which `{slot}` stands for its value, and `@logs` or `@workspace` at its start for
    /// that folder.
    Text(&'static str),
    Number(u16),
    /// The number in this slot.
    Slot(&'static str),
    True,
}

use Meaning::{Command, Steps};
use Word::{Number, Slot, Text, True};

/// The folders that a sentence may mean without naming their paths.
#[derive(Clone, Debug, Default)]
pub(in crate::llm) struct NamedFolders {
    pub(in crate::llm) logs: PathBuf,
    pub(in crate::llm) workspace: PathBuf,
}

/// What a message means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Understood {
    Calls(Vec<WrittenCall>),
    /// An answer without a call.
    Answer(String),
}

const HEALTH: SentenceStep = SentenceStep { tool: "health_check", arguments: &[] };
const LOGS: SentenceStep =
    SentenceStep { tool: "list_dir", arguments: &[("path", Text("@logs")), ("limit", Number(LINES))] };
const LIST: SentenceStep = SentenceStep { tool: "list_dir", arguments: &[("path", Text("{path}"))] };
const FIND: SentenceStep = SentenceStep {
    tool: "search_files",
    arguments: &[("path", Text("{path}")), ("pattern", Text("{text}"))],
};

/// A search for a regular expression.
const fn search(arguments: &'static [(&'static str, Word)]) -> SentenceStep {
    SentenceStep { tool: "search_files", arguments }
}

const ERRORS: Word = Text("(?i)error|fatal|critical|panic|emerg");

/// The table: the first form that fits decides.
pub(super) const SENTENCES: [Sentence; 34] = [
    Sentence {
        example: "how is this server doing?",
        forms: &[
            "how is|are this|the|my server|host|machine [doing]",
            "check this|the server|host",
            "health check",
            "health",
            "status",
            "is this|the server|host ok|healthy|fine",
        ],
        means: Steps(&[HEALTH, LOGS]),
    },
    Sentence {
        example: "what is the load?",
        forms: &[
            "[what] [is] [the] [current] load [of] [this|the] [server]",
            "why is this|the server [so] slow",
            "is this|the server busy",
        ],
        means: Steps(&[HEALTH]),
    },
    Sentence {
        example: "how much memory is free?",
        forms: &["how much memory is free|used|left", "[show] [the] memory [usage]", "is memory low"],
        means: Steps(&[HEALTH]),
    },
    Sentence {
        example: "how full are the disks?",
        forms: &[
            "how full is|are the|my disk|disks",
            "[show] [the] disk|disks [usage|space]",
            "is a|the|any disk full",
            "how much disk [space] is free|left",
        ],
        means: Steps(&[HEALTH]),
    },
    Sentence {
        example: "how long is this server up?",
        forms: &["how long is|has this|the server [been] up", "[show] [the] uptime"],
        means: Steps(&[HEALTH]),
    },
    Sentence {
        example: "what logs are there?",
        forms: &["what|which logs are there", "[list|show] [the] logs"],
        means: Steps(&[LOGS]),
    },
    Sentence {
        example: "errors in the logs",
        forms: &[
            "[show|find] [the|all] errors in|of the logs",
            "[show|find] [the|all] errors",
            "any errors [in] [the] [logs]",
            "are there [any] errors [in] [the] [logs]",
        ],
        means: Steps(&[search(&[("path", Text("@logs")), ("pattern", ERRORS), ("regex", True)])]),
    },
    Sentence {
        example: "warnings in the logs",
        forms: &["[show|find] [the|all] warnings in|of the logs", "[show|find] [the|all] warnings"],
        means: Steps(&[search(&[("path", Text("@logs")), ("pattern", Text("(?i)warn")), ("regex", True)])]),
    },
    Sentence {
        example: "errors in nginx/error.log",
        forms: &[
            "[show|find] [the|all] errors in {path}",
            "any errors in {path}",
            "are there [any] errors in {path}",
            "what went wrong in {path}",
        ],
        means: Steps(&[search(&[("path", Text("{path}")), ("pattern", ERRORS), ("regex", True)])]),
    },
    Sentence {
        example: "warnings in syslog",
        forms: &["[show|find] [the|all] warnings in {path}", "any warnings in {path}"],
        means: Steps(&[search(&[("path", Text("{path}")), ("pattern", Text("(?i)warn")), ("regex", True)])]),
    },
    Sentence {
        example: "errors of nginx",
        forms: &["[show|find] [the|all] errors of|from {name}", "{name} errors", "what is wrong with {name}"],
        means: Steps(&[search(&[("path", Text("@logs/{name}")), ("pattern", ERRORS), ("regex", True)])]),
    },
    Sentence {
        example: "search the logs for timeout",
        forms: &["search|grep [in] the logs for {text}", "find {text} in the logs"],
        means: Steps(&[search(&[("path", Text("@logs")), ("pattern", Text("{text}"))])]),
    },
    Sentence {
        example: "search syslog for out of memory",
        forms: &["search|grep [in] {path} for {text}", "look for {text} in {path}"],
        means: Steps(&[FIND]),
    },
    Sentence {
        example: "find timeout in /var/log/nginx",
        forms: &["find {text} in {path}", "where is {text} in {path}"],
        means: Steps(&[FIND]),
    },
    Sentence {
        example: "which files in /var/log/nginx contain timeout?",
        forms: &[
            "which|what files in|below {path} contain|have {text}",
            "which|what files contain {text} in {path}",
        ],
        means: Steps(&[FIND]),
    },
    Sentence {
        example: "last 50 lines of syslog",
        forms: &["[show|the] [the] [me] last {number} lines of|in {path}", "tail {number} {path}"],
        means: Steps(&[SentenceStep {
            tool: "tail_file",
            arguments: &[("path", Text("{path}")), ("lines", Slot("number"))],
        }]),
    },
    Sentence {
        example: "last lines of syslog",
        forms: &[
            "[show] [the] [me] last lines of|in {path}",
            "[show] [the] end of {path}",
            "tail {path}",
            "what happened last in {path}",
        ],
        means: Steps(&[SentenceStep {
            tool: "tail_file",
            arguments: &[("path", Text("{path}")), ("lines", Number(LINES))],
        }]),
    },
    Sentence {
        example: "what is in the workspace?",
        forms: &["what is in the workspace", "[list|show] [the] workspace", "which|what projects are there"],
        means: Steps(&[SentenceStep { tool: "list_dir", arguments: &[("path", Text("@workspace"))] }]),
    },
    Sentence {
        example: "what is in /var/log/nginx?",
        forms: &[
            "what is in|below {path}",
            "what files are in {path}",
            "list|ls {path}",
            "list [the] files in {path}",
        ],
        means: Steps(&[LIST]),
    },
    Sentence {
        example: "how large are the files in /var/log?",
        forms: &[
            "how large|big are the files in {path}",
            "[show] [the] sizes in {path}",
            "what is large|big in {path}",
        ],
        means: Steps(&[LIST]),
    },
    Sentence {
        example: "failed logins",
        forms: &["[show] [the] failed logins", "who failed to log in", "who tried to log in"],
        means: Steps(&[search(&[
            ("path", Text("@logs/auth.log")),
            ("pattern", Text("(?i)failed password|authentication failure|invalid user")),
            ("regex", True),
        ])]),
    },
    Sentence {
        example: "who logged in?",
        forms: &["who logged|has in", "who logged in", "[show] [the] logins"],
        means: Steps(&[search(&[
            ("path", Text("@logs/auth.log")),
            ("pattern", Text("(?i)accepted (password|publickey)|session opened for")),
            ("regex", True),
        ])]),
    },
    Sentence {
        example: "what did sudo run?",
        forms: &["what did sudo run|do", "who used sudo", "[show] [the] sudo commands"],
        means: Steps(&[search(&[("path", Text("@logs/auth.log")), ("pattern", Text("sudo:"))])]),
    },
    Sentence {
        example: "did this server run out of memory?",
        forms: &[
            "did this|the server run out of memory",
            "was anything|something killed",
            "[any] oom kills",
            "out of memory",
        ],
        means: Steps(&[search(&[
            ("path", Text("@logs")),
            ("pattern", Text("(?i)out of memory|oom-kill")),
            ("regex", True),
        ])]),
    },
    Sentence {
        example: "are there disk errors?",
        forms: &["are there [any] disk errors", "[any] disk errors"],
        means: Steps(&[search(&[
            ("path", Text("@logs")),
            ("pattern", Text("(?i)i/o error|ext4-fs error|xfs.*corruption|remounting filesystem read-only")),
            ("regex", True),
        ])]),
    },
    Sentence {
        example: "which version of demo is live?",
        forms: &["which|what version of {project} is live|deployed|running", "what is live in {project}"],
        means: Steps(&[SentenceStep {
            tool: "read_file",
            arguments: &[("path", Text("@workspace/{project}/current/VERSION"))],
        }]),
    },
    Sentence {
        example: "which versions of demo are there?",
        forms: &[
            "which|what versions of {project} are there",
            "which|what versions of {project} can be deployed",
            "versions of {project}",
        ],
        means: Steps(&[SentenceStep {
            tool: "list_dir",
            arguments: &[("path", Text("@workspace/{project}/incoming"))],
        }]),
    },
    Sentence {
        example: "deploy demo 1.0.1",
        forms: &[
            "deploy {project} {version}",
            "deploy [version] {version} of {project}",
            "deploy {project} [in|at] version {version}",
        ],
        means: Steps(&[SentenceStep {
            tool: "deploy",
            arguments: &[("project", Text("{project}")), ("version", Text("{version}"))],
        }]),
    },
    Sentence {
        example: "roll back demo to 1.0.0",
        forms: &[
            "roll back {project} to [version] {version}",
            "rollback {project} to [version] {version}",
            "go back to {version} of {project}",
        ],
        means: Steps(&[SentenceStep {
            tool: "deploy",
            arguments: &[("project", Text("{project}")), ("version", Text("{version}"))],
        }]),
    },
    Sentence {
        example: "restart nginx",
        forms: &["restart [the] [service] {service}"],
        means: Steps(&[SentenceStep {
            tool: "service_restart",
            arguments: &[("service", Text("{service}"))],
        }]),
    },
    Sentence {
        example: "fetch https://www.example.com/",
        forms: &["fetch|get|open {url}", "is {url} up|there", "does {url} answer|work"],
        means: Steps(&[SentenceStep { tool: "http_get", arguments: &[("url", Text("{url}"))] }]),
    },
    Sentence {
        example: "show syslog",
        forms: &["show|read|cat|print [the] [file] {path}", "what does {path} say"],
        means: Steps(&[SentenceStep { tool: "read_file", arguments: &[("path", Text("{path}"))] }]),
    },
    Sentence {
        example: "who was denied?",
        forms: &["who|what was denied", "[show] [the] denied calls", "[show] [the] denials"],
        means: Command("par audit show decision:deny"),
    },
    Sentence {
        example: "what waits for approval?",
        forms: &["what|who waits for approval", "[show] [the] approvals", "what is waiting"],
        means: Command("par approval list"),
    },
];

/// What `said` means, over the tools in `offered`.
pub(super) fn understand(
    said: &[SaidWord],
    folders: &NamedFolders,
    offered: &[ToolOffer],
) -> Option<Understood> {
    let fits = |sentence: &'static Sentence| {
        sentence.forms.iter().find_map(|form| read(form, said)).map(|slots| (sentence, slots))
    };
    let (sentence, slots) = SENTENCES.iter().find_map(fits)?;
    let steps = match sentence.means {
        Command(command) => {
            return Some(Understood::Answer(format!(
                "No tool reads PAR's own record. This command shows it:\n  {command}"
            )));
        }
        Steps(steps) => steps,
    };
    let is_on = |step: &&SentenceStep| offered.iter().any(|tool| tool.name == step.tool);
    let calls: Vec<WrittenCall> = steps.iter().filter(is_on).map(|step| step.call(&slots, folders)).collect();
    if !calls.is_empty() {
        return Some(Understood::Calls(calls));
    }
    let names: Vec<String> = steps.iter().map(|step| format!("`{}`", step.tool)).collect();
    Some(Understood::Answer(format!(
        "This is understood as a call of {}, which is not on, or which no policy permits you to call.",
        names.join(" and ")
    )))
}

impl Sentence {
    /// Whether the tools that it needs are on.
    pub(super) fn is_on(&self, offered: &[ToolOffer]) -> bool {
        match self.means {
            Command(_) => true,
            Steps(steps) => steps.iter().all(|step| offered.iter().any(|tool| tool.name == step.tool)),
        }
    }
}

impl SentenceStep {
    fn call(&self, slots: &Slots, folders: &NamedFolders) -> WrittenCall {
        let member = |(name, word): &(&str, Word)| {
            let value = match word {
                Text(text) => Value::from(filled(text, slots, folders)),
                Number(number) => Value::from(*number),
                Slot(slot) => {
                    slots.get(slot).and_then(|n| n.parse::<u16>().ok()).map_or(Value::Null, Value::from)
                }
                True => Value::from(true),
            };
            format!("\"{name}\":{value}")
        };
        let members: Vec<String> = self.arguments.iter().map(member).collect();
        WrittenCall { tool: self.tool.to_owned(), arguments: format!("{{{}}}", members.join(",")) }
    }
}

fn filled(text: &str, slots: &Slots, folders: &NamedFolders) -> String {
    let mut out = text.to_owned();
    // A template holds at most one slot, and a value is not searched for others.
    if let Some((slot, value)) = slots.iter().find(|(slot, _)| text.contains(&format!("{{{slot}}}"))) {
        out = text.replace(&format!("{{{slot}}}"), value);
        // Only a path stands for a folder: a text that begins with `@logs` is that text.
        if !text.starts_with('@') && *slot != "path" {
            return out;
        }
    }
    for (name, folder) in [("@logs", &folders.logs), ("@workspace", &folders.workspace)] {
        match out.strip_prefix(name) {
            Some("") => return folder.to_string_lossy().into_owned(),
            Some(below) if below.starts_with('/') => return format!("{}{below}", folder.display()),
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests;
