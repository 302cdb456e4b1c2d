//! The sections of the manual pages that do not come from the definition of the command line.

const EXIT_STATUS: &str = "\
0  success
1  it failed
2  wrong usage or configuration
3  a policy denied it, or a person refused it
4  a call waits for approval, or the run goes on
5  the ledger does not verify
6  the caller is not authenticated
7  no server can be reached
8  a limit was reached";

const ENVIRONMENT: &str = "\
PAR_HOME          folder of the home; --home overrides it
PAR_URL           server to use instead of a home; --home and --url override it
PAR_KEY           API key of the caller
PAR_KEY_FILE      file with the API key; only its owner may read it
PAR_LOG           log lines to write, such as info or par=debug
PAR_SECTION__KEY  value of a key of par.toml, such as PAR_SERVER__LISTEN
NO_COLOR          if it is not empty, no colours
TZ                time zone of the times that are shown on a terminal";

const FILES: &str = "\
HOME/etc/par.toml           configuration
HOME/etc/policies/          policies and their tests
HOME/etc/tools.d/           one manifest for each tool
HOME/etc/credentials/       keys of models, one file for each
HOME/data/ledger.db         the ledger
~/.config/par/key           API key of the caller
~/.config/par/known-logs    logs that were seen, with their newest checkpoints";

/// Examples of the commands that people begin with.
const EXAMPLES: [(&str, &str); 13] = [
    ("par", "par quickstart\npar run 'how is this server doing?'\npar audit show decision:deny"),
    ("par run", "par run 'list_dir(path=\"/var/log\")'\necho 'what is new?' | par run -"),
    ("par runs list", "par runs list nginx --limit 5\npar runs list --status denied"),
    ("par runs show", "par runs show run_01JD0000000000000000000000"),
    ("par tool call", "par tool call read_file '{\"path\":\"/var/log/syslog\"}'"),
    ("par audit show", "par audit show decision:deny since:24h\npar audit show 42\npar audit show 42 --json"),
    ("par audit verify", "par audit verify\npar audit verify --since-last"),
    ("par audit export", "par audit export since:7d -o week.jsonl\npar audit verify --export week.jsonl"),
    ("par approval approve", "par approval list\npar approval approve apr_01JD0000000000000000000000"),
    ("par key create", "par key create ops --role operator --user anna --expires 90d"),
    ("par model login", "par model login fast\npar reload\npar model test fast"),
    (
        "par policy explain",
        "par policy explain read_file '{\"path\":\"/etc/shadow\"}'\npar policy explain 42",
    ),
    ("par doctor", "par doctor\npar doctor path /var/log/syslog"),
];

/// The sections of the page of the command `name`, such as `par audit show`.
pub(super) fn of(name: &str) -> Vec<(&'static str, &'static str)> {
    let example = EXAMPLES.iter().find(|(command, _)| *command == name);
    let mut sections: Vec<(&str, &str)> =
        example.map(|(_, lines)| ("EXAMPLES", *lines)).into_iter().collect();
    sections.extend([("EXIT STATUS", EXIT_STATUS), ("ENVIRONMENT", ENVIRONMENT), ("FILES", FILES)]);
    sections
}
