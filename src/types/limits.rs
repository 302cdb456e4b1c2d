//! Every limit by name, unit last, with its default.

/// A request body, in bytes.
pub const REQUEST_BYTES_MAX: usize = 1 << 20;
/// Nesting of arrays and objects in any JSON that comes from outside.
pub const JSON_DEPTH_MAX: usize = 64;
/// Request line and headers of one HTTP request, in bytes.
pub const HEADER_BYTES_MAX: usize = 16 << 10;
/// Open HTTP connections.
pub const CONNECTIONS_MAX: usize = 256;
/// The share of one address, as a fraction of all connections (1/4): when none is free, an address
/// over its share loses its oldest connections first.
pub const CONNECTIONS_SHARE: usize = 4;
/// The share of one key, as a fraction of all connections (1/2): its concurrent requests.
pub const KEY_CONNECTIONS_SHARE: usize = 2;
/// HTTP connections that were displaced by newer ones and are not closed yet.
pub const CONNECTIONS_ENDING_MAX: usize = 64;
/// Time to receive the headers of a request, in milliseconds.
pub const HEADER_READ_MS_MAX: u64 = 10_000;
/// Time to receive the body of a request, in milliseconds.
pub const BODY_READ_MS_MAX: u64 = 30_000;
/// Time to receive the body of a request without a valid key (only the login form), in
/// milliseconds.
pub const BODY_UNPROVEN_READ_MS_MAX: u64 = 2_000;
/// Bytes of a body over its limit that are read and discarded, so that the sender sees the answer.
pub const DISCARD_BYTES_MAX: usize = 16 << 20;
/// Time without progress after which a client that does not read its answer is dropped, in
/// milliseconds.
pub const TAKE_MS_MAX: u32 = 30_000;
/// Time that open requests have to finish when the server stops, in milliseconds.
pub const STOP_MS_MAX: u64 = 30_000;
/// Items on one page of a list, by default.
pub const PAGE_ITEMS: usize = 100;
/// Items on one page of a list, at most.
pub const PAGE_ITEMS_MAX: usize = 1_000;
/// Ledger entries that one page scans.
pub const PAGE_SCAN_MAX: usize = 20_000;
/// Concurrent exports.
pub const EXPORTS_MAX: usize = 2;
/// Concurrent exports of one key.
pub const KEY_EXPORTS_MAX: usize = 1;
/// One line of an export, in bytes: escaping may turn each byte of a payload into six.
pub const EXPORT_LINE_BYTES_MAX: u64 = 32 << 20;
/// Delay before the indexer retries after an error, in milliseconds.
pub const INDEX_PAUSE_MS: u64 = 5_000;
/// Blocks of 256 entries that one page skips by the index.
pub const PAGE_BLOCKS_MAX: u64 = 20_000;
/// The number of those blocks that are checked against their digests; blocks checked earlier do
/// not count.
pub const PAGE_BLOCKS_CHECKED_MAX: u64 = 1_000;
/// Payloads that one page searches for free text, in bytes.
pub const PAGE_TEXT_BYTES_MAX: usize = 16 << 20;
/// One query, in bytes.
pub const QUERY_BYTES_MAX: usize = 4_096;
/// Words in one query.
pub const QUERY_WORDS_MAX: usize = 64;
/// One request on the admin socket, in bytes.
pub const ADMIN_BYTES_MAX: usize = 64 << 10;
/// Time to receive one request on the admin socket, in milliseconds.
pub const ADMIN_READ_MS_MAX: u64 = 5_000;
/// Time to answer it, which may include waiting for the disk or for a launcher's self-test, in
/// milliseconds.
pub const ADMIN_ANSWER_MS_MAX: u64 = 30_000;
/// Entries that one redaction erases.
pub const REDACTED_ENTRIES_MAX: usize = 1_024;
/// The reason for a redaction, in bytes.
pub const REDACTION_REASON_BYTES_MAX: usize = 500;
/// Time that a redaction waits for readers of the write-ahead log, in milliseconds.
pub const REDACTION_WAIT_MS_MAX: u64 = 5_000;
/// Size of a ledger file that a redaction may rewrite, in bytes; rewriting takes as much memory.
pub const REDACTION_REWRITE_BYTES_MAX: u64 = 512 << 20;
/// Pieces of erased payloads that files are searched for.
pub const REDACTION_PIECES_MAX: usize = 8_192;
/// Headers and payloads in one segment of the ledger, in bytes.
pub const SEGMENT_BYTES_MAX: u64 = 1 << 30;
/// Smallest segment size that may be configured, in bytes.
pub const SEGMENT_BYTES_MAX_MIN: u64 = 64 << 10;
/// Interval at which a server verifies what was appended since, in seconds, by default.
pub const VERIFY_EVERY_S: u64 = 3_600;
/// Interval at which a server verifies every entry, in seconds, by default.
pub const VERIFY_WHOLE_EVERY_S: u64 = 86_400;
/// The share of the time that this verification takes, as a fraction (1/20): after each slice it
/// pauses for nineteen times as long as the slice took.
pub const VERIFY_SHARE: u64 = 20;
/// Entries that one slice of it reads.
pub const VERIFY_SLICE_ENTRIES_MAX: u64 = 4_096;
/// Time after which a slice ends before that, in milliseconds.
pub const VERIFY_SLICE_MS_MAX: u64 = 100;
/// Interval at which it looks for new entries that are few enough to verify early, in milliseconds.
pub const VERIFY_LOOK_MS: u64 = 1_000;
/// Newest entries that a command without a server verifies before it acts, in addition to all that
/// were never verified.
pub const VERIFY_TO_ACT_AGAIN: u64 = 2_000;
/// Newest entries that it verifies if it does not know which were verified before.
pub const VERIFY_TO_ACT_FIRST: u64 = 20_000;
/// Delay before it continues after a file could not be read, in milliseconds.
pub const VERIFY_PAUSE_MS: u64 = 5_000;
/// Time that the expiry of old payloads waits for readers of a segment, in milliseconds.
pub const SETTLE_MS_MAX: u64 = 2_000;
/// Interval between two checks for payloads past their age, in milliseconds.
pub const EXPIRY_EVERY_MS_MAX: u64 = 60_000;
/// Open connections on the admin socket, of those who manage, and of those who only answer.
pub const ADMIN_CONNECTIONS_MAX: usize = 8;
/// Open connections on the admin socket of one user who only answers.
pub const USER_ADMIN_CONNECTIONS_MAX: usize = 2;
/// Open connections on `par.sock`.
pub const ASK_CONNECTIONS_MAX: usize = 64;
/// Open connections on `par.sock` of one user.
pub const USER_ASK_CONNECTIONS_MAX: usize = 16;
/// Concurrent runs.
pub const RUNS_RUNNING_MAX: usize = 16;
/// Concurrent runs of one key.
pub const KEY_RUNS_RUNNING_MAX: usize = 4;
/// Runs of one key in an hour, by default.
pub const KEY_RUNS_HOUR_MAX: u64 = 3_600;
/// What the runs of one key put on the ledger in an hour, in bytes, by default.
pub const KEY_BYTES_HOUR_MAX: u64 = 1 << 30;
/// Entries queued for the ledger's writer.
pub const QUEUE_ENTRIES_MAX: usize = 4_096;
/// Tool calls in one run.
pub const CALLS_PER_RUN_MAX: u32 = 32;
/// Tool calls in one reply of the model.
pub const REPLY_CALLS_MAX: usize = 32;
/// One runbook, in bytes.
pub const RUNBOOK_BYTES_MAX: usize = 16 << 10;
/// Runbooks of one home.
pub const RUNBOOKS_MAX: usize = 256;
/// Steps of one runbook.
pub const RUNBOOK_STEPS_MAX: usize = 16;
/// Items of one list in the front matter of a runbook.
pub const RUNBOOK_WORDS_MAX: usize = 64;
/// A phrase that chooses a runbook, in bytes.
pub const RUNBOOK_PHRASE_BYTES_MAX: usize = 200;
/// Requests to the model in one run.
pub const MODEL_ROUNDS_MAX: u32 = 16;
/// The schema that an answer is held to, as canonical JSON, in bytes: the model reads it in each
/// request.
pub const RESPONSE_SCHEMA_BYTES_MAX: usize = 16 << 10;
/// Subschemas in it, with each `$ref` replaced by what it leads to, and values in its `enum`s.
pub const RESPONSE_SCHEMA_NODES_MAX: usize = 1_024;
/// Nesting of its subschemas.
pub const RESPONSE_SCHEMA_DEPTH_MAX: usize = 32;
/// Regular expressions in it.
pub const RESPONSE_PATTERNS_MAX: usize = 32;
/// One of them as written, in bytes.
pub const RESPONSE_PATTERN_BYTES_MAX: usize = 512;
/// One of them compiled, in bytes.
pub const RESPONSE_PATTERN_SIZE_MAX: usize = 256 << 10;
/// An answer that is held to a schema, in bytes.
pub const RESPONSE_BYTES_MAX: usize = 256 << 10;
/// A place in an answer or a schema as it is reported, in bytes.
pub const RESPONSE_POINTER_BYTES_MAX: usize = 1_024;
/// How often the model is asked again for an answer that does not match.
pub const RESPONSE_REPAIRS_MAX: u64 = 1;
/// One run from request to answer, in milliseconds.
pub const RUN_MS_MAX: u64 = 300_000;
/// The conversation sent to the model, in bytes.
pub const CONTEXT_BYTES_MAX: usize = 512 << 10;
/// One payload on the ledger, in bytes; a longer one is stored as its length and SHA-256.
pub const PAYLOAD_BYTES_MAX: usize = 4 << 20;
/// One entry header, in bytes.
pub const HEADER_ENTRY_BYTES_MAX: usize = 64 << 10;
/// Time to resolve the arguments of one call, in milliseconds.
pub const PREPARE_MS_MAX: u64 = 2_000;
/// Time to resolve the arguments of a call whose content is read for the decision, in milliseconds.
pub const CONTENT_MS_MAX: u64 = 10_000;
/// All files of one content, in bytes.
pub const CONTENT_BYTES_MAX: u64 = 1 << 30;
/// Files and folders of one content.
pub const CONTENT_ENTRIES_MAX: u64 = 100_000;
/// Nesting of the folders of one content.
pub const CONTENT_DEPTH_MAX: usize = 64;
/// Folders in `code` of one manifest.
pub const CODE_FOLDERS_MAX: usize = 8;
/// Files, folders and links in one folder of `code`.
pub const CODE_ENTRIES_MAX: usize = 20_000;
/// All files in one folder of `code`, in bytes.
pub const CODE_BYTES_MAX: u64 = 256 << 20;
/// Interval between two pings to a launcher, in milliseconds.
pub const LAUNCHER_PING_EVERY_MS: u64 = 2_000;
/// Time to answer a ping, in milliseconds. A launcher answers between two steps of calls, and no
/// step blocks.
pub const LAUNCHER_PONG_MS_MAX: u64 = 4_000;
/// Missed pings in a row after which a launcher is given up.
pub const LAUNCHER_PINGS_MISSED_MAX: u32 = 2;
/// Time from the end of a launcher's connection to its kill, in milliseconds: a launcher that hangs
/// does not notice that end.
pub const LAUNCHER_LEAVE_MS_MAX: i64 = 2_000;
/// Launchers of one supervisor: one in use, one that takes over, some that are ending.
pub const LAUNCHERS_MAX: usize = 8;
/// One message between front and launcher, in bytes.
pub const LINK_MESSAGE_BYTES_MAX: usize = 8 << 20;
/// All unfinished messages of one connection, in bytes. Front and launcher send the pieces of one
/// message in sequence, so at most one message is unfinished.
pub const LINK_UNFINISHED_BYTES_MAX: usize = LINK_MESSAGE_BYTES_MAX;
/// Packets queued in a launcher for a front that does not read. At this number the launcher stops
/// reading.
pub const LINK_WAITING_PACKETS_MAX: usize = 256;
/// Messages from a launcher about one call: prepared or not, and its end.
pub const LINK_CALL_MESSAGES_MAX: u32 = 2;
/// Lifetime of a permit, from the decision to the begin of the call, in milliseconds.
pub const PERMIT_MS_MAX: u64 = 10_000;
/// The longest lifetime of an approval request, in milliseconds: seven days. After its lifetime it
/// counts as refused.
pub const APPROVAL_MS_MAX: u64 = 604_800_000;
/// The lifetime of an approval request if neither the configuration nor a rule sets one, in
/// milliseconds.
pub const APPROVAL_MS: u64 = 900_000;
/// Open questions to people that one key or user may have, if the configuration sets no bound.
pub const APPROVALS_OPEN_KEY_MAX: u64 = 256;
/// Open questions to people that one run may have, if the configuration sets no bound.
pub const APPROVALS_OPEN_RUN_MAX: u64 = 32;
/// How long a refusal by a person holds against the same call, in milliseconds.
pub const APPROVAL_REFUSAL_MS: u64 = 3_600_000;
/// The reason that a person gives with an answer, in bytes.
pub const APPROVAL_REASON_BYTES_MAX: usize = 500;
/// The model's text that came with a call shown for approval, in bytes; the rest is cut.
pub const APPROVAL_SAID_BYTES_MAX: usize = 2_000;
/// The message of the run that is shown with a call for approval, in bytes; the rest is cut.
pub const APPROVAL_QUESTION_BYTES_MAX: usize = 4_000;
/// The script that is shown with a call for approval, in bytes. No person is asked about a call
/// with a longer one.
pub const APPROVAL_SCRIPT_BYTES_MAX: usize = 128 << 10;
/// Results listed in an approval as read by the session earlier; if there are more, the newest.
pub const APPROVAL_TAINTED_BY_MAX: usize = 16;
/// Arguments and cards of the calls on one page of approvals, in bytes.
pub const APPROVAL_PAGE_BYTES_MAX: usize = 1 << 20;
/// Free space below which no new run is accepted, in bytes.
pub const LEDGER_FREE_BYTES_MIN: u64 = 256 << 20;
/// Space on the ledger's filesystem reserved for the results of calls in progress when the disk is
/// full, in bytes.
pub const LEDGER_RESERVE_BYTES: u64 = 8 << 20;
/// Size of a segment's write-ahead log at which it is truncated, or else the segment is sealed, in
/// bytes.
pub const WAL_BYTES_MAX: u64 = 64 << 20;
/// Time that the ledger's writer waits for readers when that log is full, in milliseconds.
pub const WAL_WAIT_MS_MAX: u64 = 100;
/// Entries between two checkpoints that are kept: each commit is signed, and the newest signature
/// of each span of this many entries is kept.
pub const CHECKPOINT_ENTRIES: u64 = 1_024;
/// Interval at which the ledger's writer checks for pending work, in milliseconds.
pub const LEDGER_TICK_MS: u64 = 1_000;
/// Consecutive entries without a checkpoint that a verification accepts.
pub const UNSIGNED_ENTRIES_MAX: u64 = 8_192;
/// Time for which an epoch key signs, in milliseconds.
pub const EPOCH_MS_MAX: u64 = 24 * 3_600_000;
/// Interval between two anchors of a growing ledger, in milliseconds, by default.
pub const ANCHOR_EVERY_MS: u64 = 3_600_000;
/// The shortest such interval that may be configured, in milliseconds.
pub const ANCHOR_EVERY_MS_MIN: u64 = 100;
/// Time from a start to its first anchor, in milliseconds, unless the interval is shorter.
pub const ANCHOR_FIRST_MS: u64 = 60_000;
/// Delay before the first retry after a failed anchor, in milliseconds; doubled each time.
pub const ANCHOR_PAUSE_MS: u64 = 1_000;
/// Age of the newest anchor above which a warning is given, in milliseconds, by default.
pub const ANCHOR_AGE_MS_MAX: u64 = 4 * 3_600_000;
/// One request to a witness, in milliseconds.
pub const WITNESS_MS_MAX: u64 = 30_000;
/// The canonical arguments of one call, in bytes.
pub const ARGUMENTS_BYTES_MAX: usize = 64 << 10;
/// Text of one run in which values of arguments are looked up, in bytes of its two forms.
pub const PROVENANCE_BYTES_MAX: usize = 1 << 20;
/// Values of one call that are looked up.
pub const PROVENANCE_VALUES_MAX: usize = 64;
/// Sensitive arguments of one tool.
pub const SENSITIVE_ARGUMENTS_MAX: usize = 16;
/// Largest `maxLength` of a text argument that policies see in full, in characters; for a longer
/// one they see its length and digest.
pub const TEXT_CHARS_MAX: u64 = 4_096;
/// Raw arguments of an invalid call that are reported, in bytes.
pub const RAW_ARGUMENTS_SHOWN_BYTES_MAX: usize = 4_096;
/// One path, in bytes (`PATH_MAX` minus the terminator).
pub const PATH_BYTES_MAX: usize = 4_095;
/// Names in one path: policies are asked about each folder above an object.
pub const PATH_NAMES_MAX: usize = 128;
/// Named paths below the object of one call that are decided with it; a call with more is denied.
pub const NAMED_BENEATH_MAX: usize = 256;
/// Length of the name of a unit, in bytes (systemd.unit(5)).
pub const UNIT_BYTES_MAX: usize = 255;
/// Shortest named secret, in bytes; a shorter one would match by chance.
pub const SECRET_BYTES_MIN: usize = 8;
/// Longest named secret, in bytes.
pub const SECRET_BYTES_MAX: usize = 8 << 10;
/// Cases of a bundle's own tests, each combination of a list in them counted.
pub const POLICY_CASES_MAX: usize = 65_536;
/// Secrets and patterns that are searched for, of each kind.
pub const SECRETS_MAX: usize = 64;
/// All secrets together, in bytes.
pub const SECRETS_BYTES_MAX: usize = 32 << 10;
/// Connections passed to one tool.
pub const CONNECTIONS_GIVEN_MAX: usize = 4;
/// Groups of the host that one tool is in, in addition to its own.
pub const GROUPS_GIVEN_MAX: usize = 8;
/// Secrets passed to one tool.
pub const SECRETS_GIVEN_MAX: usize = 8;
/// A pattern of secrets as written, in bytes.
pub const SECRET_PATTERN_BYTES_MAX: usize = 1_024;
/// A compiled pattern of secrets, in bytes.
pub const SECRET_PATTERN_SIZE_MAX: usize = 1 << 20;
/// One id of a project, a service or a job, in bytes.
pub const ID_BYTES_MAX: usize = 64;
/// Processes and threads that one call may start per second, averaged over its life; a call over it
/// is throttled.
pub const FORKS_PER_SECOND_MAX: u64 = 1_000;
/// Processes and threads that it may start ahead of that rate.
pub const FORKS_BURST_MAX: u64 = 2_000;
/// Interval between two counts of what a call has started, in milliseconds.
pub const FORKS_CHECK_MS: u64 = 200;
/// How much lower the priority of programs is than the launcher's, in steps of nice(2).
pub const PROGRAM_NICE: i32 = 5;
/// Time that a call waits for another that writes in the same folder, in milliseconds.
pub const WRITE_WAIT_MS_MAX: u64 = 5_000;
/// Summaries and schemas of all tools, as one `tools.load` describes them, in bytes. If they are
/// longer, it describes none.
pub const TOOLS_DESCRIBED_BYTES_MAX: usize = 1 << 20;
/// One answer of the model, in bytes.
pub const MODEL_REPLY_BYTES_MAX: usize = 4 << 20;
/// Streamed text that is held back because it may be the beginning of a secret, in bytes; beyond
/// that, the rest of the reply is not streamed.
pub const STREAM_HELD_BYTES_MAX: usize = 1_024;
/// Words of replies that wait to be shown to one reader, in bytes; beyond that, the rest of a reply
/// is shown only once it is recorded.
pub const LIVE_WORDS_BYTES_MAX: usize = 256 << 10;
/// The size of the context for a server that sets it by request, in tokens, by default.
pub const CONTEXT_TOKENS: u32 = 16_384;
/// One request to the model, in milliseconds.
pub const MODEL_MS_MAX: u64 = 120_000;
/// Time to connect to a model's server, in milliseconds, by default: look-up, TCP and TLS.
pub const MODEL_CONNECT_MS: u64 = 10_000;
/// Time from a request to a model until the head of the answer, in milliseconds, by default.
pub const MODEL_FIRST_BYTE_MS: u64 = 120_000;
/// Time between two pieces of a model's answer, in milliseconds, by default.
pub const MODEL_IDLE_MS: u64 = 60_000;
/// Models in the configuration.
pub const MODELS_MAX: usize = 16;
/// Failed requests in a row after which a model is not asked for a while.
pub const MODEL_FAILURES_MAX: u32 = 5;
/// Time for which it is then not asked, in milliseconds. It doubles each time that the next request
/// fails too.
pub const MODEL_REST_MS: u64 = 5_000;
/// Longest time for which a model is not asked, in milliseconds, whatever its server asks for.
pub const MODEL_REST_MS_MAX: u64 = 600_000;
/// A model's key as a person types or pastes it, in bytes.
pub const MODEL_KEY_BYTES_MAX: usize = 4_096;
/// Tokens in one reply, by default, for a server that requires the number: every model allows as
/// many, and most finish them within [`MODEL_MS_MAX`].
pub const REPLY_TOKENS_MAX: u32 = 4_096;
/// Bytes of text and JSON that count as one token when tokens are estimated. Most models have more
/// bytes in a token, so the estimate is rather too high.
pub const BYTES_PER_TOKEN: usize = 3;
/// Runs of one session.
pub const SESSION_RUNS_MAX: usize = 500;

/// A session ends by itself so long after its newest run, in milliseconds: 30 days.
pub const SESSION_IDLE_MS: u64 = 30 * 24 * 3_600_000;

/// Smallest window of a model that may be configured, in tokens.
pub const MODEL_WINDOW_TOKENS_MIN: u64 = 1_024;
/// Attempts at one request to the model.
pub const MODEL_TRIES_MAX: u32 = 3;
/// Longest delay between two attempts, in milliseconds; if a server asks for more, there is no
/// further attempt.
pub const MODEL_PAUSE_MS_MAX: u64 = 20_000;
/// The answer of a run after escaping, in bytes; its `model.reply` has all of it.
pub const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Bytes kept of an answer that is not a valid reply.
pub const MODEL_ERROR_BYTES_MAX: usize = 64 << 10;
/// The errors of rules that were not loaded, as the ledger keeps them, in bytes.
pub const REFUSAL_BYTES_MAX: usize = 16 << 10;
/// The text of one failure or one tool result, in bytes.
pub const REASON_BYTES_MAX: usize = 500;
/// Opening one outbound connection, TLS included, in milliseconds.
pub const CONNECT_MS_MAX: u64 = 10_000;
/// One host name, in bytes.
pub const HOST_BYTES_MAX: usize = 253;
/// One URL that a tool requests, in bytes.
pub const URL_BYTES_MAX: usize = 4_096;
/// Addresses of one name that are tried; all its addresses are checked.
pub const CONNECT_ADDRESSES_MAX: usize = 16;
/// Concurrent name lookups.
pub const LOOKUPS_MAX: usize = 64;
/// The head of one request to a call's proxy, in bytes.
pub const PROXY_HEAD_BYTES_MAX: usize = 8 << 10;
/// Headers in that head.
pub const PROXY_HEADERS_MAX: usize = 100;
/// Time to receive that head, in milliseconds.
pub const PROXY_HEAD_MS_MAX: u64 = 10_000;
/// Concurrent connections of one call through its proxy.
pub const PROXY_CONNECTIONS_MAX: usize = 64;
/// Connections to allowed hosts that one call may request in total: each makes an entry.
pub const PROXY_ASKED_MAX: usize = 1_024;
/// Connections listed in a call's result; the rest are counted.
pub const PROXY_LISTED_MAX: usize = 64;
/// Bytes of one call through its proxy, in both directions and over all connections.
pub const PROXY_BYTES_MAX: u64 = 1 << 30;
/// Attempts per minute with one key whose HMAC matches and whose argon2id does not, before 429.
pub const REFUSALS_PER_MINUTE_MAX: u32 = 10;
/// Time that a command waits for the ledger's lock, in milliseconds.
pub const LOCK_WAIT_MS_MAX: u64 = 10_000;
/// Time that a command waits for the ledger without a message, in milliseconds.
pub const LOCK_QUIET_MS: u64 = 200;
/// Interval at which a command looks again for a server that is starting, in milliseconds.
pub const LOCK_STEP_MS: u64 = 20;
/// Time that a command waits for `par.sock` of a server that has published its URL, in
/// milliseconds.
pub const ASK_WAIT_MS_MAX: u64 = 3_000;
/// Bytes of a message or an argument shown in a table.
pub const SHOWN_BYTES_MAX: usize = 200;
/// One form of the dashboard, in bytes.
pub const FORM_BYTES_MAX: usize = 16 << 10;
/// Idle time after which a dashboard login ends, in milliseconds.
pub const LOGIN_IDLE_MS_MAX: u64 = 12 * 3_600_000;
/// Lifetime of a dashboard login, in milliseconds.
pub const LOGIN_LIFE_MS_MAX: u64 = 7 * 24 * 3_600_000;
/// Age of a login that may still approve a call, in milliseconds.
pub const LOGIN_FRESH_MS_MAX: u64 = 15 * 60_000;
/// How long a login link can be used, in milliseconds.
pub const LOGIN_LINK_MS_MAX: u64 = 60_000;
/// Login links that were made and not used.
pub const LOGIN_LINKS_MAX: usize = 64;
/// Open logins of the dashboard.
pub const LOGINS_MAX: usize = 512;
/// Open logins of one key; a further one ends the oldest.
pub const KEY_LOGINS_MAX: usize = 16;
/// Concurrent live tails and streams of approvals.
pub const TAILS_MAX: usize = 32;
/// Concurrent live tails and streams of one key.
pub const KEY_TAILS_MAX: usize = 8;
/// Interval at which a live tail checks for new entries, in milliseconds.
pub const TAIL_MS: u64 = 250;
/// Rows on one page of the dashboard.
pub const PAGE_ROWS_MAX: usize = 200;
/// Entries that the overview counts one by one, if the index does not cover them.
pub const OVERVIEW_SCAN_MAX: usize = 10_000;
/// Untrusted text in one block of a page, in bytes.
pub const BLOCK_BYTES_MAX: usize = 16 << 10;
