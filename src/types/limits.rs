//! Every limit by name, unit last, with its default.

/// A request body, in bytes.
pub const REQUEST_BYTES_MAX: usize = 1 << 20;
/// Nesting of arrays and objects in any JSON that comes from outside.
pub const JSON_DEPTH_MAX: usize = 64;
/// Request line and headers of one HTTP request, in bytes.
pub const HEADER_BYTES_MAX: usize = 16 << 10;
/// Open HTTP connections.
pub const CONNECTIONS_MAX: usize = 256;
/// The share of an address in them, as a part of all: an address with more gives way first when there are no more.
pub const CONNECTIONS_SHARE: usize = 4;
/// The share of a key in them, as a part of all: requests of one key under way at once.
pub const KEY_CONNECTIONS_SHARE: usize = 2;
/// HTTP connections that gave way to newer ones and are not closed yet.
pub const CONNECTIONS_ENDING_MAX: usize = 64;
/// Time to receive the headers of a request, in milliseconds.
pub const HEADER_READ_MS_MAX: u64 = 10_000;
/// Time to receive the body of a request, in milliseconds.
pub const BODY_READ_MS_MAX: u64 = 30_000;
/// The same without a valid key, which only the form of the login is, in milliseconds.
pub const BODY_UNPROVEN_READ_MS_MAX: u64 = 2_000;
/// Bytes of a body over its limit that are read and thrown away, so that its sender sees the answer.
pub const DISCARD_BYTES_MAX: usize = 16 << 20;
/// Time in which a client takes none of its answer, in milliseconds.
pub const TAKE_MS_MAX: u32 = 30_000;
/// Time for open requests to end at a stop, in milliseconds.
pub const STOP_MS_MAX: u64 = 30_000;
/// Items of one page of a list, where none is asked for.
pub const PAGE_ITEMS: usize = 100;
/// Items of one page of a list.
pub const PAGE_ITEMS_MAX: usize = 1_000;
/// Entries that one page of the ledger looks at.
pub const PAGE_SCAN_MAX: usize = 20_000;
/// Exports at once.
pub const EXPORTS_MAX: usize = 2;
/// Exports at once for one key.
pub const KEY_EXPORTS_MAX: usize = 1;
/// One line of an export, in bytes: each byte of a payload may have become six.
pub const EXPORT_LINE_BYTES_MAX: u64 = 32 << 20;
/// After the index could not follow until it is tried again, in milliseconds.
pub const INDEX_PAUSE_MS: u64 = 5_000;
/// Blocks of 256 entries that one page passes over by the index.
pub const PAGE_BLOCKS_MAX: u64 = 20_000;
/// Of them those that are held to their digests for it; what was held before counts no more.
pub const PAGE_BLOCKS_CHECKED_MAX: u64 = 1_000;
/// Payloads that one page looks into for free text, in bytes.
pub const PAGE_TEXT_BYTES_MAX: usize = 16 << 20;
/// One query, in bytes.
pub const QUERY_BYTES_MAX: usize = 4_096;
/// Words of one query.
pub const QUERY_WORDS_MAX: usize = 64;
/// One request on the admin socket, in bytes.
pub const ADMIN_BYTES_MAX: usize = 64 << 10;
/// Time to receive one request on the admin socket, in milliseconds.
pub const ADMIN_MS_MAX: u64 = 5_000;
/// Time for its answer, which may wait for the disk or for a launcher that tests itself, in milliseconds.
pub const ADMIN_ANSWER_MS_MAX: u64 = 30_000;
/// Entries that one redaction erases.
pub const REDACTED_ENTRIES_MAX: usize = 1_024;
/// The reason of a redaction, in bytes.
pub const REDACTION_REASON_BYTES_MAX: usize = 500;
/// How long a redaction waits for readers of the write-ahead log, in milliseconds.
pub const REDACTION_WAIT_MS_MAX: u64 = 5_000;
/// A ledger file that a redaction may write anew, which takes as much memory, in bytes.
pub const REDACTION_REWRITE_BYTES_MAX: u64 = 512 << 20;
/// Pieces of erased payloads that files are searched for.
pub const REDACTION_PIECES_MAX: usize = 8_192;
/// Headers and payloads of one segment of the ledger, in bytes.
pub const SEGMENT_BYTES_MAX: u64 = 1 << 30;
/// Least that may be configured for it, in bytes.
pub const SEGMENT_BYTES_MAX_MIN: u64 = 64 << 10;
/// How long a look for payloads that are over their age waits for readers of a segment, in milliseconds.
pub const SETTLE_MS_MAX: u64 = 2_000;
/// From one look for payloads that are over their age to the next, in milliseconds.
pub const EXPIRY_EVERY_MS_MAX: u64 = 60_000;
/// Open connections on the admin socket.
pub const ADMIN_CONNECTIONS_MAX: usize = 8;
/// Runs at once.
pub const RUNS_RUNNING_MAX: usize = 16;
/// Runs at once for one key.
pub const KEY_RUNS_RUNNING_MAX: usize = 4;
/// Runs of one key within an hour, where nothing is configured.
pub const KEY_RUNS_HOUR_MAX: u64 = 3_600;
/// What the runs of one key put on the ledger within an hour, in bytes, where nothing is configured.
pub const KEY_BYTES_HOUR_MAX: u64 = 1 << 30;
/// Entries that wait for the ledger's writer.
pub const QUEUE_ENTRIES_MAX: usize = 4_096;
/// Tool calls in one run.
pub const CALLS_PER_RUN_MAX: u32 = 32;
/// Tool calls in one reply of the model.
pub const REPLY_CALLS_MAX: usize = 32;
/// Requests to the model in one run.
pub const MODEL_ROUNDS_MAX: u32 = 16;
/// One run from request to answer, in milliseconds.
pub const RUN_MS_MAX: u64 = 300_000;
/// The conversation sent to the model, in bytes.
pub const CONTEXT_BYTES_MAX: usize = 512 << 10;
/// One payload on the ledger, in bytes; of a longer one the length and SHA-256 are kept.
pub const PAYLOAD_BYTES_MAX: usize = 4 << 20;
/// One entry header, in bytes.
pub const HEADER_ENTRY_BYTES_MAX: usize = 64 << 10;
/// Resolving the arguments of one call, in milliseconds.
pub const PREPARE_MS_MAX: u64 = 2_000;
/// The same of a call whose content is read for it, in milliseconds.
pub const CONTENT_MS_MAX: u64 = 10_000;
/// Files of one content together, in bytes.
pub const CONTENT_BYTES_MAX: u64 = 1 << 30;
/// Files and folders of one content.
pub const CONTENT_ENTRIES_MAX: u64 = 100_000;
/// Folders of one content in each other.
pub const CONTENT_DEPTH_MAX: usize = 64;
/// From one question to a launcher whether it answers to the next, in milliseconds.
pub const LAUNCHER_PING_EVERY_MS: u64 = 2_000;
/// Time for its answer, in milliseconds. It answers between two steps of calls, none of which waits for anybody.
pub const LAUNCHER_PONG_MS_MAX: u64 = 4_000;
/// Questions without an answer, one after the other, at which a launcher is given up.
pub const LAUNCHER_PINGS_MISSED_MAX: u32 = 2;
/// From the end of a launcher's connection to its kill, in milliseconds: one that hangs does not see that end.
pub const LAUNCHER_LEAVE_MS_MAX: i64 = 2_000;
/// Launchers of one supervisor: one in use, one that takes over, some that are ending.
pub const LAUNCHERS_MAX: usize = 8;
/// One message between front and launcher, in bytes.
pub const LINK_MESSAGE_BYTES_MAX: usize = 8 << 20;
/// All messages of one connection whose last piece has not come, in bytes. Front and launcher send the pieces of one
/// message after the other, so that one message is all there is.
pub const LINK_UNFINISHED_BYTES_MAX: usize = LINK_MESSAGE_BYTES_MAX;
/// Packets that wait in a launcher for a front that does not read, from which on the launcher does not read either.
pub const LINK_WAITING_PACKETS_MAX: usize = 256;
/// Messages of a launcher about one call: prepared or not, and its end.
pub const LINK_CALL_MESSAGES_MAX: u32 = 2;
/// A permit's life between its decision and its begin, in milliseconds.
pub const PERMIT_MS_MAX: u64 = 10_000;
/// A question to a person's life, in milliseconds; afterwards it is refused.
pub const APPROVAL_MS_MAX: u64 = 900_000;
/// The reason that a person gives with an answer, in bytes.
pub const APPROVAL_REASON_BYTES_MAX: usize = 500;
/// What the model said with a call that a person is asked about, in bytes; more is cut.
pub const APPROVAL_SAID_BYTES_MAX: usize = 2_000;
/// Results that are named to a person as what a session has seen; of more the newest.
pub const APPROVAL_TAINTED_BY_MAX: usize = 16;
/// Calls of one page of approvals, in bytes of their arguments.
pub const APPROVAL_PAGE_BYTES_MAX: usize = 128 << 10;
/// Free space below which no new run is taken, in bytes.
pub const LEDGER_FREE_BYTES_MIN: u64 = 256 << 20;
/// Space under the ledger that is held back for the results of calls under way on a full disk, in bytes.
pub const LEDGER_RESERVE_BYTES: u64 = 8 << 20;
/// Write-ahead log of a segment of the ledger behind which it is cut, or else the segment is sealed, in bytes.
pub const WAL_BYTES_MAX: u64 = 64 << 20;
/// Wait of the ledger's writer for readers, where that log is as long as it may be, in milliseconds.
pub const WAL_WAIT_MS_MAX: u64 = 100;
/// Entries between two kept checkpoints: each commit is signed, and of a span of that many entries the newest is kept.
pub const CHECKPOINT_ENTRIES: u64 = 1_024;
/// Between two looks of the ledger's writer for what is left to do, in milliseconds.
pub const LEDGER_TICK_MS: u64 = 1_000;
/// Entries in a row without a checkpoint over them that a verification takes.
pub const UNSIGNED_ENTRIES_MAX: u64 = 8_192;
/// Milliseconds that an epoch key signs.
pub const EPOCH_MS_MAX: u64 = 24 * 3_600_000;
/// Between two anchors of a ledger that grows, in milliseconds, where nothing is configured.
pub const ANCHOR_EVERY_MS: u64 = 3_600_000;
/// The same, at least.
pub const ANCHOR_EVERY_MS_MIN: u64 = 100;
/// From a start to its first anchor, in milliseconds, unless they are closer to each other.
pub const ANCHOR_FIRST_MS: u64 = 60_000;
/// After the first anchor that failed until it is tried again, in milliseconds; doubled each time.
pub const ANCHOR_PAUSE_MS: u64 = 1_000;
/// Age of the newest anchor beyond which it is warned of, in milliseconds, where nothing is configured.
pub const ANCHOR_AGE_MS_MAX: u64 = 4 * 3_600_000;
/// One question to a witness, in milliseconds.
pub const WITNESS_MS_MAX: u64 = 30_000;
/// The canonical arguments of one call, in bytes.
pub const ARGUMENTS_BYTES_MAX: usize = 64 << 10;
/// `maxLength` of a text argument that policies see as it is, in characters; of a longer one they see length and
/// digest.
pub const TEXT_CHARS_MAX: u64 = 4_096;
/// Raw arguments of an invalid call that are told, in bytes.
pub const RAW_ARGUMENTS_SHOWN_BYTES_MAX: usize = 4_096;
/// One path, in bytes (`PATH_MAX` less the terminator).
pub const PATH_BYTES_MAX: usize = 4_095;
/// Names in one path: each folder above an object is one that policies are asked about.
pub const PATH_NAMES_MAX: usize = 128;
/// Named paths below the object of one call that are decided on with it; of more the call is denied.
pub const NAMED_BENEATH_MAX: usize = 256;
/// A named secret, in bytes; a shorter one would occur by chance.
pub const SECRET_BYTES_MIN: usize = 8;
/// The same, at most.
pub const SECRET_BYTES_MAX: usize = 8 << 10;
/// Cases of a bundle's own tests, each combination of a list in them counted.
pub const POLICY_CASES_MAX: usize = 65_536;
/// Secrets that are looked for, and patterns.
pub const SECRETS_MAX: usize = 64;
/// All secrets together, in bytes.
pub const SECRETS_BYTES_MAX: usize = 32 << 10;
/// Connections that one tool is given.
pub const CONNECTIONS_GIVEN_MAX: usize = 4;
/// Secrets that one tool is given.
pub const SECRETS_GIVEN_MAX: usize = 8;
/// A pattern of secrets as written, in bytes.
pub const SECRET_PATTERN_BYTES_MAX: usize = 1_024;
/// The same as compiled, in bytes.
pub const SECRET_PATTERN_SIZE_MAX: usize = 1 << 20;
/// One id of a project, service or job, in bytes.
pub const ID_BYTES_MAX: usize = 64;
/// Processes and threads that one call starts in a second, over its whole life; one that starts more is made to wait.
pub const FORKS_PER_SECOND_MAX: u64 = 1_000;
/// Those that it may start ahead of that rate.
pub const FORKS_BURST_MAX: u64 = 2_000;
/// Between two looks at how many a call has started, in milliseconds.
pub const FORKS_LOOK_MS: u64 = 200;
/// How much later than the launcher programs have their turn, in steps of nice(2).
pub const PROGRAM_NICE: i32 = 5;
/// Wait of a call for another that writes in the same folder, in milliseconds.
pub const WRITE_WAIT_MS_MAX: u64 = 5_000;
/// One answer of the model, in bytes.
pub const MODEL_REPLY_BYTES_MAX: usize = 4 << 20;
/// One request to the model, in milliseconds.
pub const MODEL_MS_MAX: u64 = 120_000;
/// Tokens of one reply, for a server that must be told and where nothing is configured: what every model
/// grants, and most write within [`MODEL_MS_MAX`].
pub const REPLY_TOKENS_MAX: u32 = 4_096;
/// Tries of one request to the model.
pub const MODEL_TRIES_MAX: u32 = 3;
/// Longest wait between two tries, in milliseconds; a server that asks for more ends them.
pub const MODEL_PAUSE_MS_MAX: u64 = 20_000;
/// The answer of a run, made visible, in bytes; the whole is in its `model.reply`.
pub const ANSWER_BYTES_MAX: usize = 1 << 20;
/// What is kept of an answer that was no reply, in bytes.
pub const MODEL_ERROR_BYTES_MAX: usize = 64 << 10;
/// Bytes of what is wrong with rules that were not loaded, as the ledger keeps it.
pub const REFUSAL_BYTES_MAX: usize = 16 << 10;
/// What is told of one failure or one tool result, in bytes.
pub const REASON_BYTES_MAX: usize = 500;
/// Opening one outbound connection, TLS included, in milliseconds.
pub const CONNECT_MS_MAX: u64 = 10_000;
/// One host name, in bytes.
pub const HOST_BYTES_MAX: usize = 253;
/// One URL that a tool is asked for, in bytes.
pub const URL_BYTES_MAX: usize = 4_096;
/// Addresses of one name that are tried; all that it has are checked.
pub const CONNECT_ADDRESSES_MAX: usize = 16;
/// Names that the resolver is asked for at once.
pub const LOOK_UPS_MAX: usize = 64;
/// The head of one request to a call's proxy, in bytes.
pub const PROXY_HEAD_BYTES_MAX: usize = 8 << 10;
/// Headers of it.
pub const PROXY_HEADERS_MAX: usize = 100;
/// Time to receive it, in milliseconds.
pub const PROXY_HEAD_MS_MAX: u64 = 10_000;
/// Connections of one call through its proxy at once.
pub const PROXY_CONNECTIONS_MAX: usize = 64;
/// Connections to allowed hosts that one call may ask for, one after the other: each makes an entry.
pub const PROXY_ASKED_MAX: usize = 1_024;
/// Connections that are told in a call's result; the rest are counted.
pub const PROXY_TOLD_MAX: usize = 64;
/// Bytes of one call through its proxy, both directions of all connections together.
pub const PROXY_BYTES_MAX: u64 = 1 << 30;
/// Tries of one key per minute whose HMAC fits and whose argon2id does not, then 429.
pub const REFUSALS_PER_MINUTE_MAX: u32 = 10;
/// Wait of a command for the ledger's lock, in milliseconds.
pub const LOCK_WAIT_MS_MAX: u64 = 10_000;
/// Bytes of a message or an argument that a person's table shows.
pub const SHOWN_BYTES_MAX: usize = 200;
/// A form of the dashboard, in bytes.
pub const FORM_BYTES_MAX: usize = 16 << 10;
/// A login of the dashboard without a request, in milliseconds.
pub const LOGIN_IDLE_MS_MAX: u64 = 12 * 3_600_000;
/// A login of the dashboard from its start to its end, in milliseconds.
pub const LOGIN_LIFE_MS_MAX: u64 = 7 * 24 * 3_600_000;
/// Age of a login that may say yes to a call, in milliseconds.
pub const LOGIN_FRESH_MS_MAX: u64 = 15 * 60_000;
/// Open logins of the dashboard.
pub const LOGINS_MAX: usize = 512;
/// Open logins of one key; a further one ends the oldest.
pub const KEY_LOGINS_MAX: usize = 16;
/// Live tails and streams of approvals at once.
pub const TAILS_MAX: usize = 32;
/// The same of one key.
pub const KEY_TAILS_MAX: usize = 8;
/// Between two looks of a live tail for new entries, in milliseconds.
pub const TAIL_MS: u64 = 250;
/// Rows of one page of the dashboard.
pub const PAGE_ROWS_MAX: usize = 200;
/// Entries that the overview looks at.
pub const OVERVIEW_SCAN_MAX: usize = 10_000;
/// Text from outside in one block of a page, in bytes.
pub const BLOCK_BYTES_MAX: usize = 16 << 10;
