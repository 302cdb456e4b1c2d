//! The questions, and what about their answers is the same on every host.

/// A message to `offline`.
pub(super) struct AskedOffline {
    /// `@logs`, `@workspace` and `@port` are those of the host.
    pub(super) message: &'static str,
    /// Lines of the answer that are about the trouble: a word in them, and between which words they
    /// differ between hosts, if they do (`~` stands for what differs).
    pub(super) keep: &'static [(&'static str, &'static str)],
}

const fn ask(message: &'static str, keep: &'static [(&'static str, &'static str)]) -> AskedOffline {
    AskedOffline { message, keep }
}

/// A question, and what a person and a model see.
pub(super) struct AskedQuestion {
    pub(super) title: &'static str,
    /// What `offline` is asked, one after the other.
    pub(super) asked: &'static [AskedOffline],
    /// The calls of the scripted model.
    pub(super) calls: &'static [(&'static str, &'static str)],
    /// Words that are in the results of these calls.
    pub(super) shows: &'static [&'static str],
    pub(super) says: &'static str,
    /// Whether it is about the full file system.
    pub(super) is_of_disk: bool,
}

pub(super) const QUESTIONS: [AskedQuestion; 10] = [
    AskedQuestion {
        title: "Why is this server slow?",
        asked: &[ask("why is this server slow?", &[("busy-report", "busy-report: ~, user")])],
        calls: &[("health_check", "{}"), ("process_list", r#"{"sort":"cpu","limit":100}"#)],
        shows: &["busy-report"],
        says: "`busy-report` uses a processor all the time.",
        is_of_disk: false,
    },
    AskedQuestion {
        title: "What filled the disk?",
        asked: &[
            ask(
                "what filled the disk?",
                &[("/workspace/small tmpfs", ""), ("/workspace/small, which is full", "")],
            ),
            ask("what fills @workspace/small?", &[("largest_paths", ""), ("upload.bin", "")]),
        ],
        calls: &[("disk_usage", "{}"), ("largest_paths", r#"{"path":"@workspace/small"}"#)],
        shows: &["/workspace/small", "upload.bin", "\"used_percent\":100"],
        says: "The file system at `workspace/small` is full, and `upload.bin` is all that is in it.",
        is_of_disk: true,
    },
    AskedQuestion {
        title: "Is nginx healthy?",
        asked: &[ask(
            "is nginx healthy?",
            &[("service_status", ""), ("search_files", ""), ("upstream timed out", "")],
        )],
        calls: &[
            ("service_status", r#"{"service":"nginx.service"}"#),
            ("search_files", r#"{"path":"@logs/nginx","pattern":"error"}"#),
        ],
        shows: &["\"active\":\"failed\"", "upstream timed out"],
        says: "No: it ended with exit status 1 and was restarted five times. Its last error is an upstream that \
               timed out.",
        is_of_disk: false,
    },
    AskedQuestion {
        title: "Errors of the last hour",
        asked: &[ask(
            "errors of the last hour",
            &[("search_files", ""), ("app.log", ""), ("upstream timed out", "")],
        )],
        calls: &[("search_files", r#"{"path":"@logs","pattern":"(?i)error","regex":true,"since":"1h"}"#)],
        shows: &["cannot open the queue", "upstream timed out"],
        says: "The shop cannot open its queue, and an upstream of nginx timed out.",
        is_of_disk: false,
    },
    AskedQuestion {
        title: "Does the certificate expire soon?",
        asked: &[ask(
            "does the certificate of localhost:@port expire soon?",
            &[("tls_certificate", "; expired ~ ago,")],
        )],
        calls: &[("tls_certificate", r#"{"host":"localhost:@port"}"#)],
        shows: &["\"problems\":[\"expired\"]"],
        says: "It has expired: it was valid until 1 January 2020.",
        is_of_disk: false,
    },
    AskedQuestion {
        title: "Who logged in?",
        asked: &[ask("who logged in?", &[("search_files", ""), ("auth.log", "")])],
        calls: &[("search_files", r#"{"path":"@logs/auth.log","pattern":"Accepted"}"#)],
        shows: &["Accepted publickey for ana"],
        says: "ana logged in once, with a key, from 192.0.2.7.",
        is_of_disk: false,
    },
    AskedQuestion {
        title: "What listens here?",
        asked: &[ask("what listens here?", &[("80/tcp", "")])],
        calls: &[("listening_ports", "{}")],
        shows: &["\"ports_found\":"],
        says: "Port 80 is open to this host only.",
        is_of_disk: false,
    },
    AskedQuestion {
        title: "What changed in this config?",
        asked: &[ask(
            "what changed between app.conf.old and app.conf in @workspace/shop?",
            &[("diff_files", ""), ("line 1", ""), ("workers = 2", ""), ("workers = 64", "")],
        )],
        calls: &[("diff_files", r#"{"path":"@workspace/shop","old":"app.conf.old","new":"app.conf"}"#)],
        shows: &["workers = 2", "workers = 64"],
        says: "`workers` was raised from 2 to 64.",
        is_of_disk: false,
    },
    AskedQuestion {
        title: "Which updates are pending?",
        asked: &[ask(
            "which updates are pending?",
            &[("pending_updates", ", as of ~"), ("libssl3", ""), ("tzdata", "")],
        )],
        calls: &[("pending_updates", "{}")],
        shows: &["\"count\":2", "\"security\":1"],
        says: "Two: libssl3, for security, and tzdata.",
        is_of_disk: false,
    },
    AskedQuestion {
        title: "What was denied today?",
        asked: &[ask("what was denied today?", &[("who_was_denied", ""), ("read_file", "par.outside, ~")])],
        calls: &[("who_was_denied", "{}")],
        shows: &["\"tool\":\"read_file\""],
        says: "One call: `read_file`, of a file outside the folders that tools may read.",
        is_of_disk: false,
    },
];
