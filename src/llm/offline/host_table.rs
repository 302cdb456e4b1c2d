//! Sentences about the host: its processes, memory, disks, network, services and files.

use super::meaning::Meaning::{Command, Either, Missing, Say, Steps};
use super::meaning::Word::{Number, Slot, Text, True};
use super::meaning::{Sentence, SentenceStep, Word};
use super::table::{BY_MEMORY, DISKS, ERRORS, HEALTH, MEMORY, PORTS, failed_logins};

/// Items of a list that an answer needs.
const ITEMS: u16 = 10;

const BY_CPU: SentenceStep = processes(&[("sort", Text("cpu")), ("limit", Number(ITEMS))]);
const BY_IO: SentenceStep = processes(&[("sort", Text("io")), ("limit", Number(ITEMS))]);
const DISK_IO: SentenceStep = SentenceStep { tool: "disk_io", arguments: &[] };

const fn processes(arguments: &'static [(&'static str, Word)]) -> SentenceStep {
    SentenceStep { tool: "process_list", arguments }
}

const fn largest(arguments: &'static [(&'static str, Word)]) -> SentenceStep {
    SentenceStep { tool: "largest_paths", arguments }
}

const fn errors_since(arguments: &'static [(&'static str, Word)]) -> SentenceStep {
    SentenceStep { tool: "search_files", arguments }
}

/// The table, before that of the other sentences: some of those accept any name.
pub(super) const HOST_SENTENCES: [Sentence; 37] = [
    Sentence {
        example: "why is this server slow?",
        forms: &[
            "why is this|the|my server|host|machine [so] slow",
            "is this|the server busy|overloaded|slow",
        ],
        means: Steps(&[HEALTH, BY_CPU, MEMORY, DISK_IO]),
    },
    Sentence {
        example: "what filled the disk?",
        forms: &[
            "what filled|fills [up] the|my disk|disks",
            "what is filling [up] the|my disk|disks",
            "why is the|my disk [so] full",
            "what uses [all] [the] [disk] space",
            "where did the [disk] space go",
        ],
        means: Steps(&[
            DISKS,
            largest(&[("path", Text("@logs")), ("limit", Number(ITEMS))]),
            largest(&[("path", Text("@workspace")), ("limit", Number(ITEMS))]),
        ]),
    },
    Sentence {
        example: "what fills /var/log?",
        forms: &[
            "what fills|filled [up] {path}",
            "what is large|big in|below {path}",
            "[show] [the] largest|biggest files|folders|paths in|below {path}",
            "du {path}",
        ],
        means: Steps(&[largest(&[("path", Text("{path}")), ("limit", Number(ITEMS))])]),
    },
    Sentence {
        example: "what listens here?",
        forms: &[
            "what listens [here|on] [this|the] [server|host]",
            "what is listening [here]",
            "what|who listens on [port] {portnumber}",
            "what is listening on [port] {portnumber}",
            "what|which ports are open [here]",
            "[show] [me] [the] open|listening ports",
            "netstat",
            "ss",
        ],
        means: Steps(&[PORTS]),
    },
    Sentence {
        example: "who is connected?",
        forms: &[
            "who|what is connected [here|now]",
            "[show] [me] [the] [open] connections",
            "which connections are open",
            "how many connections are there|open",
        ],
        means: Steps(&[SentenceStep {
            tool: "connections",
            arguments: &[("state", Text("established")), ("limit", Number(50))],
        }]),
    },
    Sentence {
        example: "what is running?",
        forms: &[
            "what is running [here|now]",
            "what|which processes are running|there",
            "what|which processes use the most cpu",
            "what uses [the] [most] cpu",
            "what is using [the|all] [the] cpu",
            "top processes",
            "[show] [me] [the] processes",
            "top",
            "ps",
        ],
        means: Steps(&[BY_CPU]),
    },
    Sentence {
        example: "what uses the most memory?",
        forms: &[
            "what|who uses [the] [most|all] memory|ram",
            "what is using [the|all] [the] memory|ram",
            "what|which processes use the most memory",
            "where did the memory go",
        ],
        means: Steps(&[MEMORY, BY_MEMORY]),
    },
    Sentence {
        example: "what uses the disk?",
        forms: &[
            "what uses|reads|writes [the] disk [most]",
            "what|which processes use the disk [most]",
            "is a|the|any disk busy|slow",
            "iostat",
            "iotop",
        ],
        means: Steps(&[DISK_IO, BY_IO]),
    },
    Sentence {
        example: "show process 1",
        forms: &[
            "show|describe [the] process {pid}",
            "what is process {pid} [doing]",
            "what does process {pid} do",
        ],
        means: Steps(&[SentenceStep { tool: "process_info", arguments: &[("pid", Slot("pid"))] }]),
    },
    Sentence {
        example: "which addresses has this server?",
        forms: &[
            "what|which addresses|address has this|the server|host",
            "what is my|its ip|address",
            "[show] [me] [the] interfaces|network",
            "ip addr|a",
            "ifconfig",
        ],
        means: Steps(&[SentenceStep { tool: "interfaces", arguments: &[] }]),
    },
    Sentence {
        example: "which services failed?",
        forms: &[
            "what|which services|units [have] failed",
            "[show] [me] [the] failed services|units",
            "did a|any service|unit fail",
            "is a|any service|unit down|broken",
        ],
        means: Either(
            &[SentenceStep { tool: "failed_units", arguments: &[] }],
            &Missing("the state of services", &["process_list", "listening_ports", "health_check"]),
        ),
    },
    Sentence {
        example: "which services are there?",
        forms: &["what|which services are there|running|active", "[show|list] [me] [the] [all] services"],
        means: Either(
            &[SentenceStep { tool: "service_list", arguments: &[] }],
            &Missing("the state of services", &["process_list", "listening_ports", "health_check"]),
        ),
    },
    Sentence {
        example: "which timers are there?",
        forms: &["what|which timers are there", "[show|list] [me] [the] [all] timers", "what runs by itself"],
        means: Either(
            &[SentenceStep { tool: "timer_list", arguments: &[] }],
            &Missing("the timers of systemd", &["process_list", "search_files"]),
        ),
    },
    Sentence {
        example: "resolve example.com",
        forms: &[
            "resolve|nslookup|dig {name}",
            "what|which address has {name}",
            "what is the address of {name}",
        ],
        means: Either(
            &[SentenceStep { tool: "dns_lookup", arguments: &[("name", Text("{name}"))] }],
            &Missing("to look up a name", &["interfaces", "http_get"]),
        ),
    },
    Sentence {
        example: "is localhost:5432 open?",
        forms: &["is [the] [port] {port} open|reachable|up", "[can] [i] reach {port}", "connect to {port}"],
        means: Either(
            &[SentenceStep { tool: "tcp_probe", arguments: &[("host", Text("{port}"))] }],
            &Missing("to try a port", &["listening_ports", "connections"]),
        ),
    },
    Sentence {
        example: "is port 5432 open?",
        forms: &[
            "is [the] port {portnumber} open|reachable|up [here]",
            "is [the] port {portnumber} open|reachable|up on localhost",
            "is [the] port {portnumber} open|reachable|up on this|the server|host",
        ],
        means: Either(
            &[SentenceStep { tool: "tcp_probe", arguments: &[("host", Text("localhost:{portnumber}"))] }],
            &Steps(&[PORTS]),
        ),
    },
    Sentence {
        example: "is http://localhost/ up?",
        forms: &["is {url} up|there|ok", "does {url} answer|work", "probe {url}"],
        means: Either(
            &[SentenceStep { tool: "http_probe", arguments: &[("url", Text("{url}"))] }],
            &Steps(&[SentenceStep { tool: "http_get", arguments: &[("url", Text("{url}"))] }]),
        ),
    },
    Sentence {
        example: "compare app.conf.old with app.conf in /srv/app",
        forms: &[
            "compare {old} with|and|to {new} in {path}",
            "what changed between {old} and {new} in {path}",
            "what changed from {old} to {new} in {path}",
            "diff {old} {new} in {path}",
        ],
        means: Steps(&[SentenceStep {
            tool: "diff_files",
            arguments: &[("path", Text("{path}")), ("old", Text("{old}")), ("new", Text("{new}"))],
        }]),
    },
    Sentence {
        example: "show config /srv/app/app.toml",
        forms: &[
            "show|read [the] config|settings [of|in] {path}",
            "what is set|configured in {path}",
            "settings in|of {path}",
        ],
        means: Steps(&[SentenceStep { tool: "read_config", arguments: &[("path", Text("{path}"))] }]),
    },
    Sentence {
        example: "when did syslog change?",
        forms: &[
            "when did {path} [last] change",
            "when was {path} [last] changed|modified|written",
            "who owns {path}",
            "how large|big is {path}",
            "stat {path}",
        ],
        means: Steps(&[SentenceStep { tool: "file_info", arguments: &[("path", Text("{path}"))] }]),
    },
    Sentence {
        example: "which updates are there?",
        forms: &[
            "what|which updates are there|pending|available",
            "are there [any] [pending] [security] updates",
            "[show] [me] [the] [pending] updates",
        ],
        means: Either(
            &[SentenceStep { tool: "pending_updates", arguments: &[] }],
            &Missing("pending updates", &["search_files", "health_check"]),
        ),
    },
    Sentence {
        example: "which cron jobs are there?",
        forms: &["what|which cron jobs are there", "[show|list] [me] [the] [all] cron jobs", "crontab -l"],
        means: Either(
            &[SentenceStep { tool: "cron_list", arguments: &[] }],
            &Missing("the jobs of cron", &["timer_list", "search_files"]),
        ),
    },
    Sentence {
        example: "errors of the last hour",
        forms: &["[show] [me] [the] errors of|from|in the last hour", "what went wrong in the last hour"],
        means: Either(
            &[SentenceStep {
                tool: "journal_search",
                arguments: &[("since", Text("1h ago")), ("priority", Text("err"))],
            }],
            &Steps(&[SentenceStep {
                tool: "search_files",
                arguments: &[
                    ("path", Text("@logs")),
                    ("pattern", ERRORS),
                    ("regex", True),
                    ("since", Text("1h")),
                ],
            }]),
        ),
    },
    Sentence {
        example: "any errors today?",
        forms: &[
            "any|all errors today",
            "[show] [the|all] errors [of|from] today",
            "[show] [the|all] errors of|from|in the last day",
            "are there [any] errors today",
            "what went wrong today",
        ],
        means: Either(
            &[SentenceStep {
                tool: "journal_search",
                arguments: &[("since", Text("today")), ("priority", Text("err"))],
            }],
            &Steps(&[SentenceStep {
                tool: "search_files",
                arguments: &[
                    ("path", Text("@logs")),
                    ("pattern", ERRORS),
                    ("regex", True),
                    ("since", Text("24h")),
                ],
            }]),
        ),
    },
    Sentence {
        example: "errors in syslog today",
        forms: &["[show|find] [the|all] errors in {path} [of|from] today", "any errors in {path} today"],
        means: Steps(&[errors_since(&[
            ("path", Text("{path}")),
            ("pattern", ERRORS),
            ("regex", True),
            ("since", Text("24h")),
        ])]),
    },
    Sentence {
        example: "errors in syslog since yesterday",
        forms: &[
            "[show|find] [the|all] errors in {path} since yesterday",
            "any errors in {path} since yesterday",
        ],
        means: Steps(&[errors_since(&[
            ("path", Text("{path}")),
            ("pattern", ERRORS),
            ("regex", True),
            ("since", Text("48h")),
        ])]),
    },
    Sentence {
        example: "what was denied yesterday?",
        forms: &["who|what was|got denied yesterday", "who|what was|got denied since yesterday"],
        means: Either(
            &[SentenceStep { tool: "who_was_denied", arguments: &[("hours", Number(48))] }],
            &Command("par audit show decision:deny since:48h"),
        ),
    },
    Sentence {
        example: "failed logins today",
        forms: &[
            "[show] [the] failed logins today",
            "who failed to log in today",
            "who tried to log in today",
        ],
        means: failed_logins(&[SentenceStep { tool: "logins", arguments: &[("hours", Number(24))] }]),
    },
    Sentence {
        example: "failed logins in the last hour",
        forms: &["[show] [the] failed logins of|from|in the last hour"],
        means: failed_logins(&[SentenceStep { tool: "logins", arguments: &[("hours", Number(1))] }]),
    },
    Sentence {
        example: "what was deployed last?",
        forms: &[
            "what was deployed [last|today|yesterday|recently]",
            "what did i|we deploy [last|today|yesterday|recently]",
            "[show] [the] [last|recent] deploys|deployments",
        ],
        means: Command("par audit show kind:call.result tool:deploy"),
    },
    Sentence {
        example: "restart the web server",
        forms: &["restart [the|my|our] web|database|mail|file|ssh server"],
        means: Say("Name the service: `restart nginx`. `which services are there?` lists them."),
    },
    Sentence {
        example: "what did the kernel log?",
        forms: &["what did the kernel log|say [lately]", "[show] [me] [the] kernel log", "dmesg"],
        means: Either(
            &[SentenceStep { tool: "kernel_log", arguments: &[("limit", Number(20))] }],
            &Steps(&[SentenceStep {
                tool: "search_files",
                arguments: &[("path", Text("@logs")), ("pattern", Text("kernel: "))],
            }]),
        ),
    },
    Sentence {
        example: "what did nginx log?",
        forms: &[
            "what did [the] [service] {name} log|say [lately]",
            "[show] [me] [the] journal of {name}",
            "journalctl -u {name}",
        ],
        means: Either(
            &[SentenceStep {
                tool: "journal_query",
                arguments: &[("unit", Text("{name}.service")), ("limit", Number(20))],
            }],
            &Steps(&[SentenceStep { tool: "list_dir", arguments: &[("path", Text("@logs/{name}"))] }]),
        ),
    },
    Sentence {
        example: "does the certificate expire soon?",
        forms: &[
            "does the|our|my certificate expire [soon]",
            "when does the|our|my certificate expire",
            "is the|our|my certificate valid",
        ],
        means: Either(
            &[SentenceStep { tool: "tls_certificate", arguments: &[("host", Text("localhost:443"))] }],
            &Missing("to check a certificate", &["certificate_file", "http_get"]),
        ),
    },
    Sentence {
        example: "check certificate in /etc/ssl/certs/site.pem",
        forms: &[
            "check|show [the] certificate|certificates in {path}",
            "when does the certificate in {path} expire",
            "does the certificate in {path} expire [soon]",
            "is the certificate in {path} valid",
        ],
        means: Either(
            &[SentenceStep { tool: "certificate_file", arguments: &[("path", Text("{path}"))] }],
            &Missing("to check a certificate", &["tls_certificate"]),
        ),
    },
    Sentence {
        example: "what changed in this config?",
        forms: &["what changed in this|the|my config|configuration|settings", "what changed [here]"],
        means: Say(
            "Name both files and their folder: `compare OLD with NEW in FOLDER`. `when did FILE change?` shows the \
             time of the last change.",
        ),
    },
    Sentence {
        example: "what swapped?",
        forms: &["what swapped", "does this|the server swap", "is this|the server swapping"],
        means: Steps(&[MEMORY, BY_MEMORY]),
    },
];
