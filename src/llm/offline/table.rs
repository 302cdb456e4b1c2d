//! The sentences that are understood without a model: of an operator's day.

use super::meaning::Meaning::{Command, Either, Help, Missing, Say, Steps};
use super::meaning::Word::{AnyCase, Number, Slot, Text, True};
use super::meaning::{Meaning, Sentence, SentenceStep, Word};

/// Lines that a question for the last lines shows.
const LINES: u16 = 20;

pub(super) const HEALTH: SentenceStep = SentenceStep { tool: "health_check", arguments: &[] };
pub(super) const MEMORY: SentenceStep = SentenceStep { tool: "memory_usage", arguments: &[] };
pub(super) const DISKS: SentenceStep = SentenceStep { tool: "disk_usage", arguments: &[] };
pub(super) const PORTS: SentenceStep = SentenceStep { tool: "listening_ports", arguments: &[] };
pub(super) const BY_MEMORY: SentenceStep =
    SentenceStep { tool: "process_list", arguments: &[("sort", Text("memory")), ("limit", Number(10))] };
const LOGINS: SentenceStep = SentenceStep { tool: "logins", arguments: &[] };
const LOGS: SentenceStep =
    SentenceStep { tool: "list_dir", arguments: &[("path", Text("@logs")), ("limit", Number(LINES))] };
const LIST: SentenceStep = SentenceStep { tool: "list_dir", arguments: &[("path", Text("{path}"))] };
const FIND: SentenceStep = SentenceStep {
    tool: "search_files",
    arguments: &[("path", Text("{path}")), ("pattern", AnyCase("{text}")), ("regex", True)],
};

/// A search for a regular expression.
const fn search(arguments: &'static [(&'static str, Word)]) -> SentenceStep {
    SentenceStep { tool: "search_files", arguments }
}

/// Failed logins: these steps, or a search of the log.
pub(super) const fn failed_logins(steps: &'static [SentenceStep]) -> Meaning {
    Either(steps, &FAILED_IN_LOG)
}

// Not the names of users that do not exist: people type passwords there.
const FAILED_IN_LOG: Meaning = Steps(&[search(&[
    ("path", Text("@logs/auth.log")),
    ("pattern", Text("(?i)sshd[^ ]*: failed password for [^ ]+ from|authentication failure")),
    ("regex", True),
])]);

pub(super) const ERRORS: Word = Text("(?i)error|fatal|critical|panic|emerg");

/// The table: the first form that fits decides.
pub(super) const SENTENCES: [Sentence; 48] = [
    Sentence {
        example: "who was denied?",
        forms: &[
            "who|what was|got denied [today|recently|lately]",
            "[show] [me] [the] denied calls",
            "[show] [me] [the] denials",
        ],
        means: Either(
            &[SentenceStep { tool: "who_was_denied", arguments: &[] }],
            &Command("par audit show decision:deny since:24h"),
        ),
    },
    Sentence {
        example: "what waits for approval?",
        forms: &[
            "what|who waits for approval",
            "[show|list] [me] [the] [open|waiting] approvals",
            "what is waiting",
            "what needs [my|an] approval",
            "what do i have|need to approve",
        ],
        means: Command("par approval list"),
    },
    Sentence {
        example: "what failed last night?",
        forms: &[
            "what failed [today|yesterday|recently]",
            "what failed last night",
            "[show] [the] failed calls",
        ],
        means: Command("par audit show kind:call.result -status:ok since:24h"),
    },
    Sentence {
        example: "help",
        forms: &[
            "help [me]",
            "hello|hi|hey [par]",
            "what can you do|understand",
            "what do you know|understand",
            "what [else] can i ask|say|do",
        ],
        means: Help,
    },
    Sentence {
        example: "is nginx running?",
        forms: &[
            "[what] [is] [the] status of [the] [service] {service}",
            "is [the] [service] {service} running|up|alive|active",
            "systemctl status {service}",
        ],
        means: Either(
            &[SentenceStep { tool: "service_status", arguments: &[("service", Text("{service}"))] }],
            &Missing("the state of one service", &["process_list", "listening_ports", "service_restart"]),
        ),
    },
    Sentence {
        example: "stop nginx",
        forms: &[
            "stop|start|reload|enable|disable [the] [service] {service}",
            "systemctl stop|start|reload|enable|disable {service}",
        ],
        means: Missing("to start or stop a service", &["service_restart"]),
    },
    Sentence {
        example: "reboot",
        forms: &[
            "reboot|shutdown|poweroff [this|the] [server|host|machine]",
            "restart this|the server|host|machine",
        ],
        means: Missing("to restart this host", &["service_restart"]),
    },
    Sentence {
        example: "check certificate of example.com",
        forms: &[
            "check|show [the] certificate of|for {name}",
            "when does the certificate of|for {name} expire",
            "does the certificate of|for {name} expire [soon]",
            "is the certificate of|for {name} valid",
        ],
        means: Either(
            &[SentenceStep { tool: "tls_certificate", arguments: &[("host", Text("{name}:443"))] }],
            &Missing("to check a certificate", &["http_get"]),
        ),
    },
    Sentence {
        example: "check certificate of localhost:8443",
        forms: &[
            "check|show [the] certificate of|for|at {port}",
            "when does the certificate of|for|at {port} expire",
            "does the certificate of|for|at {port} expire [soon]",
            "is the certificate of|for|at {port} valid",
        ],
        means: Either(
            &[SentenceStep { tool: "tls_certificate", arguments: &[("host", Text("{port}"))] }],
            &Missing("to check a certificate", &["http_get"]),
        ),
    },
    Sentence {
        example: "who is logged in?",
        forms: &["who is logged in [now]", "who", "w"],
        means: Missing("the users who are logged in now", &["logins", "search_files"]),
    },
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
        example: "is nginx healthy?",
        forms: &[
            "is [the] [service] {name} healthy|ok|fine",
            "how is [the] [service] {name} [doing]",
            "check [the] [service] {name}",
        ],
        means: Either(
            &[
                SentenceStep { tool: "service_status", arguments: &[("service", Text("{name}.service"))] },
                PORTS,
                SentenceStep {
                    tool: "search_files",
                    arguments: &[("path", Text("@logs/{name}")), ("pattern", ERRORS), ("regex", True)],
                },
            ],
            &Steps(&[
                BY_MEMORY,
                PORTS,
                SentenceStep {
                    tool: "search_files",
                    arguments: &[("path", Text("@logs/{name}")), ("pattern", ERRORS), ("regex", True)],
                },
            ]),
        ),
    },
    Sentence {
        example: "what is the load?",
        forms: &["[what] [is] [the] [current] load [of] [this|the] [server]"],
        means: Steps(&[HEALTH]),
    },
    Sentence {
        example: "how much memory is free?",
        forms: &[
            "how much memory is free|used|left",
            "[show] [the] memory [usage]",
            "is memory low",
            "free memory|ram",
            "free [-h|-m|-g]",
        ],
        means: Either(&[MEMORY], &Steps(&[HEALTH])),
    },
    Sentence {
        example: "how full are the disks?",
        forms: &[
            "how full is|are the|my disk|disks",
            "[show] [the] disk|disks [usage|space]",
            "is a|the|any disk full",
            "how much disk [space] is free|left",
            "free [disk] space",
            "df [-h]",
        ],
        means: Either(&[DISKS], &Steps(&[HEALTH])),
    },
    Sentence {
        example: "how long is this server up?",
        forms: &["how long is|has this|the server [been] up", "[show] [the] uptime"],
        means: Steps(&[HEALTH]),
    },
    Sentence {
        example: "what logs are there?",
        forms: &[
            "what|which logs are there",
            "[list|show] [the] logs",
            "find|list|show [the|all] files in|of the logs",
        ],
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
        forms: &[
            "search|grep [in] [the] logs for {text}",
            "search|grep|find {text} in|below [the] logs",
            "search|look for {text} in|below [the] logs",
        ],
        means: Steps(&[search(&[("path", Text("@logs")), ("pattern", AnyCase("{text}")), ("regex", True)])]),
    },
    Sentence {
        example: "search syslog for out of memory",
        forms: &[
            "search|look|grep for {text} in|below {path}",
            "search|grep [in] {path} for {text}",
            "search|grep {text} in|below {path}",
            "grep {text} {path}",
        ],
        means: Steps(&[FIND]),
    },
    Sentence {
        example: "what is in the workspace?",
        forms: &[
            "what is in the workspace",
            "[list|show] [the] workspace",
            "find|list|show [the|all] files in|of the workspace",
            "which|what files are in the workspace",
            "which|what projects are there",
        ],
        means: Steps(&[SentenceStep { tool: "list_dir", arguments: &[("path", Text("@workspace"))] }]),
    },
    Sentence {
        example: "find files in demo",
        forms: &[
            "find|list|show [me] [the|all] files in|of [the] [project] {project}",
            "what is in [the] project {project}",
        ],
        means: Steps(&[SentenceStep {
            tool: "list_dir",
            arguments: &[("path", Text("@workspace/{project}"))],
        }]),
    },
    Sentence {
        example: "what is in /var/log/nginx?",
        forms: &[
            "what is in|below {path}",
            "what is in the {path} folder of|in the logs",
            "what files are in {path}",
            "list|ls {path}",
            "find|list|show [me] [the|all] files in|below {path}",
            "what's|whats [new] in {path}",
            "what is new in {path}",
        ],
        means: Steps(&[LIST]),
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
        forms: &["[show|give] [me] [the] last {number} lines of|in|from {path}", "tail [-n] {number} {path}"],
        means: Steps(&[SentenceStep {
            tool: "tail_file",
            arguments: &[("path", Text("{path}")), ("lines", Slot("number"))],
        }]),
    },
    Sentence {
        example: "last lines of syslog",
        forms: &[
            "[show|give] [me] [the] last lines of|in|from {path}",
            "[show] [the] end of {path}",
            "tail [-f] {path}",
            "what happened last in {path}",
        ],
        means: Steps(&[SentenceStep {
            tool: "tail_file",
            arguments: &[("path", Text("{path}")), ("lines", Number(LINES))],
        }]),
    },
    Sentence {
        example: "how large are the files in /var/log?",
        forms: &["how large|big are the files in {path}", "[show] [the] sizes in {path}"],
        means: Steps(&[LIST]),
    },
    Sentence {
        example: "failed logins",
        forms: &["[show] [the] failed logins", "who failed to log in", "who tried to log in"],
        means: failed_logins(&[LOGINS]),
    },
    Sentence {
        example: "who logged in?",
        forms: &["who logged|has in", "who logged in [last|today|recently|lately]", "[show] [the] logins"],
        means: Either(
            &[LOGINS],
            &Steps(&[search(&[
                ("path", Text("@logs/auth.log")),
                ("pattern", Text("(?i)accepted (password|publickey)|session opened for")),
                ("regex", True),
            ])]),
        ),
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
            "roll {project} back to [version] {version}",
            "go back to {version} of {project}",
        ],
        means: Steps(&[SentenceStep {
            tool: "deploy",
            arguments: &[("project", Text("{project}")), ("version", Text("{version}"))],
        }]),
    },
    Sentence {
        example: "roll back demo",
        forms: &["roll back {project}", "rollback {project}", "roll {project} back"],
        means: Say(
            "Name the version: `roll back PROJECT to VERSION`. `which versions of PROJECT are there?` lists them.",
        ),
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
        forms: &["fetch|get|open {url}"],
        means: Steps(&[SentenceStep { tool: "http_get", arguments: &[("url", Text("{url}"))] }]),
    },
    Sentence {
        example: "what did you do today?",
        forms: &["what did you|par do [today|yesterday|recently]", "what have you done [today]"],
        means: Command("par runs list\n  par audit show kind:call.result since:48h"),
    },
    Sentence {
        example: "what did ana do yesterday?",
        forms: &["what did {name} do [today|yesterday|recently]", "what has {name} done"],
        means: Command(
            "par audit show principal:os:{name} since:48h    # a user of this host\n  \
             par audit show key:{name} since:48h             # a key of this name",
        ),
    },
    Sentence {
        example: "show syslog",
        forms: &["show|read|cat|print [the] [file] {path}", "what does {path} say"],
        means: Steps(&[SentenceStep { tool: "read_file", arguments: &[("path", Text("{path}"))] }]),
    },
    Sentence {
        example: "rm -rf /",
        forms: &[
            "rm|sudo|mv|cp|chmod|chown|kill|apt|dd|mkfs|bash|sh|curl|wget {text}",
            "run|execute [the] command {text}",
        ],
        means: Missing("to run a command of a shell", &[]),
    },
];
