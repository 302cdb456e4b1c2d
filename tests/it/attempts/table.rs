//! The table: number, attempt, how it is made, the expected outcome, and the layers responsible.
//!
//! Layers: PV policy and validation of arguments, OB the object opened by openat2 and identified by
//! its inode, LL Landlock, SC seccomp, NS namespaces, UID uid and capabilities, NNP no_new_privs,
//! RL rlimits, FD closed descriptors, SUP the launcher (clock, caps, kill), OUT output made
//! visible, ENV an empty environment.

use super::calls::{self, Act};
use super::stage::{Outcome, Stage};
use By::{Both, Call, End, Nothing, Program, Tests, Told};
use Expect::{Held, HeldByView, Untested};
use std::collections::BTreeSet;
use std::fmt;

/// One attempt of the list.
pub(crate) struct Row {
    pub(crate) number: u32,
    pub(crate) attempt: &'static str,
    pub(crate) by: By,
    pub(crate) expect: Expect,
    pub(crate) layer: &'static str,
}

/// How an attempt is made.
pub(crate) enum By {
    /// By the program's attempts with these names, in each tool that makes them.
    Program(&'static [&'static str]),
    /// By calls that a model makes.
    Call(&'static str, Act),
    /// By calls of a program that follows its arguments.
    Told(&'static str, Act),
    /// By both.
    Both(&'static [&'static str], &'static str, Act),
    /// By a program that does this, with the expected status of its call.
    End(&'static [(&'static str, &'static str)]),
    /// By other tests: file and function.
    Tests(&'static [&'static str]),
    /// Not at all, and why.
    Nothing(&'static str),
}

/// The expected outcome.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expect {
    Held,
    /// Held if the launcher has a mount view, which a call's layers name, and not otherwise.
    HeldByView,
    Untested,
}

impl Expect {
    /// Whether these outcomes match, on the launcher's ground.
    pub(crate) fn fits(self, outcomes: &BTreeSet<Outcome>, stage: &Stage) -> bool {
        let gone = outcomes.contains(&Outcome::Succeeded);
        let is_refused = stage.refuses_programs().is_some();
        match self {
            Self::Held => !gone && !outcomes.contains(&Outcome::NotApplicable),
            Self::HeldByView => gone != (stage.has_view() || is_refused),
            Self::Untested => !gone && outcomes.contains(&Outcome::NotApplicable),
        }
    }
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let programs = |names: &[&str]| format!("program: {}", names.join(" "));
        match self {
            Program(names) => f.write_str(&programs(names)),
            Call(what, _) | Told(what, _) => write!(f, "calls: {what}"),
            Both(names, what, _) => write!(f, "{}; calls: {what}", programs(names)),
            End(ends) => {
                let ends: Vec<String> =
                    ends.iter().map(|(what, status)| format!("{what} → {status}")).collect();
                write!(f, "ends: {}", ends.join(", "))
            }
            Tests(names) => f.write_str(&names.join(" ")),
            Nothing(why) => f.write_str(why),
        }
    }
}

const fn row(number: u32, attempt: &'static str, by: By, expect: Expect, layer: &'static str) -> Row {
    Row { number, attempt, by, expect, layer }
}

const SWAPS: &str = "src/sandbox/tests/objects.rs::refuses_a_swapped_object";
const FRONT_DIES: &str = "src/sandbox/tests/life.rs::dies_with_its_front";
const ONE_ELEMENT: &str = "src/tools/manifest/argv.rs::one_element_per_argument_and_no_flags";
const NO_VERSION: &str = "tests/it/jobs.rs::an_invalid_version_is_an_invalid_call";
const MANIFESTS: &str = "src/tools/tests.rs::an_impossible_manifest_is_refused_with_its_line";

/// Every attempt, in the order of the list.
#[rustfmt::skip]
pub(crate) const ROWS: &[Row] = &[
    row(1, "../ in a path", Both(&["dotdot"], "below the workspace and up", calls::climbs), Held, "PV OB LL"),
    row(2, "an absolute path outside", Both(&["absolute", "list", "change"], "files of the host", calls::absolute), Held, "PV OB LL"),
    row(3, "an encoded ../", Call("percent, unicode, backslash, twice", calls::encoded), Held, "PV"),
    row(4, "NUL in a path or argument", Call("before, within, behind", calls::nul), Held, "PV"),
    row(5, "a path over 4096 bytes, a name over 255", Call("read_file and list_dir", calls::long), Held, "PV OB"),
    row(6, "a link in the workspace that leads out", Both(&["link_out", "own_link"], "to a file, through a folder", calls::links), Held, "OB LL"),
    row(7, "a link swapped in between check and open", Both(&["by_number"], "while another renames", calls::swapped_file), Held, "OB LL"),
    row(8, "a folder swapped in during a walk", Call("while another renames", calls::swapped_folder), Held, "OB LL"),
    row(9, "a hard link to a file outside", Program(&["hard_link"]), Held, "SC LL"),
    row(10, "a rename in or out", Program(&["move_in", "move_out"]), Held, "LL"),
    row(11, "a link in a circle, or to nowhere", Call("error results", calls::loops), Held, "OB"),
    row(12, "/proc/self/root and cwd", Both(&["own_proc", "by_folder"], "read_file", calls::own_proc), Held, "OB LL"),
    row(13, "/proc/1/root, /proc/PPID/root", Both(&["proc_root"], "read_file", calls::other_proc), Held, "LL UID NS"),
    row(14, "/proc/self/fd/N of an O_PATH descriptor", Both(&["by_number"], "read_file", calls::own_descriptors), Held, "OB LL"),
    row(15, "/proc/PPID/environ, mem, maps, fd", Program(&["proc_memory"]), Held, "LL UID NS"),
    row(16, "/proc/self/mem", Program(&["own_memory"]), Held, "LL"),
    row(17, "/proc/kcore, kallsyms, /dev/mem, /dev/kmsg", Program(&["kernel_memory"]), Held, "LL UID"),
    row(18, "/proc/sys core_pattern, modprobe", Program(&["kernel_settings", "kernel_words"]), Held, "LL UID"),
    row(19, "/sys, debugfs, cgroupfs", Program(&["sysfs", "own_group"]), Held, "LL UID"),
    row(20, "/etc/shadow, ~/.ssh, the server's keys and rules", Program(&["passwords", "keys", "keys_written"]), Held, "LL UID"),
    row(21, "stat as an oracle on paths outside", Program(&["look"]), HeldByView, "NS"),
    row(22, "chmod, chown, utime, setxattr", Program(&["modes", "times", "own_modes", "lent_rights"]), Held, "SC UID"),
    row(23, "an inherited socket, database or log", Program(&["descriptors"]), Held, "FD"),
    row(24, "an inherited folder", Program(&["folder_descriptors"]), Held, "FD LL"),
    row(25, "descriptors over a socket", Program(&["receive_descriptor"]), Held, "SC"),
    row(26, "standard input is the server's", Program(&["standard_input"]), Held, "FD"),
    row(27, "ptrace of parent or sibling", Program(&["trace", "trace_init"]), Held, "SC UID LL NS"),
    row(28, "process_vm_readv, writev", Program(&["peek"]), Held, "SC UID LL NS"),
    row(29, "pidfd_open and pidfd_getfd", Program(&["steal_descriptor"]), Held, "SC NS"),
    row(30, "kill of parent, group, all", Program(&["signal_stranger", "signal_all"]), Held, "NS LL UID"),
    row(31, "a sibling of the same uid", Program(&["proc_memory", "proc_words", "proc_root", "signal_stranger", "scheduling"]), Held, "LL NS"),
    row(32, "SIGSTOP of itself or the group", End(&[("stop", "timeout"), ("stop_all", "timeout")]), Held, "SUP"),
    row(33, "TERM, INT, HUP ignored", End(&[("ignore", "timeout")]), Held, "SUP"),
    row(34, "F_SETOWN, queued signals", Program(&["owner_signals", "queued_signals"]), Held, "SC LL NS"),
    row(35, "an abstract unix socket", Program(&["unix_hidden"]), Held, "SC LL NS"),
    row(36, "a unix socket by its path", Program(&["unix_named"]), Held, "SC"),
    row(37, "TCP connect and bind", Program(&["tcp_connect", "tcp_listen", "send_on_any"]), Held, "SC LL NS"),
    row(38, "UDP", Program(&["udp_send"]), Held, "SC NS"),
    row(39, "ICMP, raw, packet sockets", Program(&["ping", "raw"]), Held, "SC UID NS"),
    row(40, "netlink, vsock, alg, bluetooth, xdp", Program(&["netlink", "families"]), Held, "SC"),
    row(41, "socketpair and sendmsg", Program(&["pair", "receive_descriptor"]), Held, "SC"),
    row(42, "the metadata service", Program(&["metadata"]), Held, "SC NS"),
    row(43, "io_uring", Program(&["io_uring"]), Held, "SC"),
    row(44, "bpf, perf_event_open", Program(&["bpf", "perf"]), Held, "SC UID"),
    row(45, "userfaultfd", Program(&["page_faults"]), Held, "SC"),
    row(46, "keyrings", Program(&["keyrings"]), Held, "SC"),
    row(47, "memfd_create and exec", Program(&["memory_program"]), Held, "SC"),
    row(48, "memfd_secret, pkey, modify_ldt, personality", Program(&["odd_memory"]), Held, "SC"),
    row(49, "open_by_handle_at", Program(&["open_handle"]), Held, "SC UID"),
    row(50, "name_to_handle, fanotify, quotactl, acct, swapon", Program(&["by_handle", "whole_watches"]), Held, "SC UID"),
    row(51, "kexec, modules, reboot, time, ports", Program(&["whole_machine", "host_name"]), Held, "SC UID"),
    row(52, "x32 and int 0x80", Program(&["other_numbers", "other_machine"]), Held, "SC"),
    row(53, "the high half of arguments", Program(&["high_bits"]), Held, "SC"),
    row(54, "clone3, unknown calls, a filter of its own", Program(&["hidden_flags", "unknown", "own_filter"]), Held, "SC"),
    row(55, "nested namespaces", Program(&["namespaces"]), Held, "SC"),
    row(56, "setns", Program(&["enter_namespace"]), Held, "SC LL"),
    row(57, "mount, fsopen, open_tree, move_mount", Program(&["mounts", "take_away"]), Held, "SC LL UID"),
    row(58, "pivot_root, chroot", Program(&["new_root"]), Held, "SC UID"),
    row(59, "a set-uid program", Both(&["run_set_id", "run_lent"], "one that a manifest names", calls::set_id), Held, "LL NNP UID"),
    row(60, "a program with file capabilities", Told("one that a manifest names", calls::capable), Held, "NNP UID"),
    row(61, "back to uid 0", Program(&["become_root"]), Held, "SC UID"),
    row(62, "exec of what was not granted", Program(&["run_other"]), Held, "LL"),
    row(63, "write, chmod, exec in the workspace", Program(&["run_own", "run_dropped"]), Held, "LL"),
    row(64, "the loader on a dropped program", Program(&["run_by_loader", "map_own"]), HeldByView, "NS"),
    row(65, "an interpreter that takes any code", Tests(&[NO_VERSION, "src/tools/tests.rs::the_shipped_job_is_what_it_says"]), Held, "PV"),
    row(66, "#! of a granted interpreter", Program(&["run_script"]), Held, "LL"),
    row(67, "LD_PRELOAD, BASH_ENV and the like", Program(&["environment"]), Held, "ENV"),
    row(68, "secrets in environment or argv", Program(&["environment", "proc_words"]), Held, "ENV LL"),
    row(69, "a planted program found by PATH", Tests(&[MANIFESTS]), Held, "PV"),
    row(70, "an argument with a leading -", Told("refused", calls::flags), Held, "PV"),
    row(71, "an option in a file's name", Told("tail -n", calls::file_named_flag), Held, "PV"),
    row(72, "very long arguments", Told("over the schema's bound", calls::long_arguments), Held, "PV"),
    row(73, "shell metacharacters", Tests(&[ONE_ELEMENT, NO_VERSION]), Held, "PV"),
    row(74, "an empty argv", Tests(&[ONE_ELEMENT]), Held, "SUP"),
    row(75, "a fork bomb", Both(&["forks"], "another call beside it", calls::others_go_on), Held, "RL"),
    row(76, "a thread bomb", Program(&["threads"]), Held, "RL"),
    row(77, "zombies", Told("reaped, and nothing left", calls::zombies), Held, "NS SUP"),
    row(78, "a memory bomb", Program(&["memory"]), Held, "RL"),
    row(79, "mlock, shm, queues, tmpfs", Program(&["other_memory", "shared_memory", "segments"]), Held, "RL SC LL"),
    row(80, "a disk full of many files", End(&[("fill", "quota"), ("fill_moving", "quota")]), Held, "SUP"),
    row(81, "inodes", End(&[("fill_files", "quota")]), Held, "SUP"),
    row(82, "a sparse file of 1 TiB", Program(&["sparse"]), Held, "RL"),
    row(83, "descriptors", Program(&["open_files", "raised"]), Held, "RL"),
    row(84, "CPU", End(&[("spin", "timeout")]), Held, "SUP RL"),
    row(85, "sleep for ever", End(&[("sleep", "timeout")]), Held, "SUP"),
    row(86, "a clock of the child's own", End(&[("block", "timeout")]), Held, "SUP"),
    row(87, "a flood on standard output", End(&[("flood", "output_cap")]), Held, "SUP"),
    row(88, "a flood on standard error", End(&[("flood_errors", "output_cap"), ("flood_both", "output_cap")]), Held, "SUP"),
    row(89, "one endless line", End(&[("one_line", "output_cap")]), Held, "SUP"),
    row(90, "output closed, and on", End(&[("closed", "timeout")]), Held, "SUP"),
    row(91, "a pipe that a grandchild keeps", Told("ends with its program", calls::keeps_pipe), Held, "NS SUP"),
    row(92, "a daemon", Told("nothing is left", calls::outlives), Held, "NS"),
    row(93, "the death signal cleared", Program(&["death_signal"]), Held, "SC NS"),
    row(94, "the server dies, the tool goes on", Tests(&[FRONT_DIES]), Held, "NS"),
    row(95, "a process number used again", Tests(&["tests/it/tidy.rs::only_descriptors_are_signalled"]), Held, "SUP"),
    row(96, "an end without output, or by a signal", End(&[("quiet", "ok"), ("killed", "signal"), ("fault", "signal")]), Held, "SUP"),
    row(97, "an exit code over 255, a core flag", End(&[("far_code", "error"), ("abort", "signal")]), Held, "SUP"),
    row(98, "a core dump, to a file or to core_pattern's program", Both(&["core_dump"], "none where cores are off", calls::no_core), Held, "RL"),
    row(99, "TIOCSTI, TIOCLINUX", Program(&["terminal_words"]), Held, "SC FD"),
    row(100, "/dev/tty", Program(&["terminals"]), Held, "LL"),
    row(101, "terminal escapes in output", Told("made visible", calls::escapes), Held, "OUT"),
    row(102, "bidi and zero-width characters", Told("made visible", calls::escapes), Held, "OUT"),
    row(103, "bytes that are no UTF-8", Told("base64", calls::bytes), Held, "OUT"),
    row(104, "a carriage return, a forged frame", Told("one string of JSON", calls::escapes), Held, "OUT"),
    row(105, "instructions in output", Tests(&["tests/it/model.rs::results_reach_the_model_as_data", "tests/it/model.rs::a_run_that_has_read_untrusted_text_is_narrowed"]), Held, "OUT PV"),
    row(106, "JSON in what is recorded", Tests(&["tests/it/model.rs::answers_of_any_length_and_content_are_shown_safely_and_found_again"]), Held, "OUT"),
    row(107, "a FIFO in the workspace", Call("read_file, list_dir, search_files", calls::fifo), Held, "OB SUP"),
    row(108, "FIFO, socket, device, link made", Program(&["special_files", "link_outside"]), Held, "SC LL"),
    row(109, "/dev/zero", Both(&["devices"], "read_file", calls::endless), Held, "OB LL"),
    row(110, "a device that blocks", Program(&["blocking_devices"]), Held, "LL"),
    row(111, "a file that grows while it is read", Call("while another writes", calls::grows), Held, "SUP"),
    row(112, "a file cut while it is read", Call("while another cuts", calls::shrinks), Held, "SUP"),
    row(113, "a folder of very many entries", Tests(&["src/sandbox/tests/objects.rs::strange_files_are_answered"]), Held, "SUP"),
    row(114, "names with escapes, newlines, bytes, a leading -", Call("list_dir, search_files", calls::names), Held, "OUT PV"),
    row(115, "a tree deeper than a path", Call("search_files", calls::deep), Held, "SUP"),
    row(116, "archive bombs", Nothing("no tool of PAR opens archives"), Untested, "PV"),
    row(117, "locks and leases on the server's files", Program(&["server_lock", "watch_lease"]), Held, "LL SC"),
    row(118, "inotify on a path outside", Program(&["watches"]), Held, "SC"),
    row(119, "a working folder that is gone", Tests(&["tests/it/jobs.rs::a_project_that_is_a_link_is_not_followed"]), Held, "SUP"),
    row(120, "folders that cannot be cleared away", Nothing("a copy that a tool left and that cannot be removed is a refusal"), Untested, "SUP"),
    row(121, "times in the future, xattr, ACL", Program(&["times", "own_times"]), Held, "SC"),
    row(122, "a workspace on a file system that hangs", Nothing("needs a file system that hangs; prepare and the call have their deadlines"), Untested, "SUP"),
    row(123, "side channels", Nothing("accepted"), Untested, "-"),
    row(124, "another program in the tool's place", Told("written over, then put in its place", calls::replaced), Held, "PV"),
    row(125, "two tools in one workspace", Tests(&["tests/it/jobs.rs::two_at_once_come_one_behind_the_other"]), Held, "SUP"),
    row(126, "A approved, B executed", Tests(&["tests/it/approval.rs::another_object_under_the_same_name_needs_another_approval", "src/gate/tests/approvals.rs::an_approval_is_spent_once_and_on_its_own_object_only", SWAPS]), Held, "PV"),
    row(127, "the limit of cores lowered, so that core_pattern's program starts", Program(&["core_lowered"]), Held, "SC RL"),
    row(128, "flags, offsets and locks left for the next call", Program(&["left_input"]), Held, "FD SC"),
    row(129, "a lock on a file that is only read, F_NOTIFY", Program(&["file_locks"]), Held, "SC"),
    row(130, "pipes of a megabyte", Program(&["pipe_size"]), Held, "SC"),
    row(131, "a rename that leaves a device (RENAME_WHITEOUT)", Program(&["whiteout"]), Held, "SC"),
    row(132, "a turn before others (nice, SCHED_OTHER)", Program(&["priority"]), Held, "SC"),
    row(133, "a loop of forks", Tests(&["src/sandbox/tests/left.rs::a_fork_loop_is_throttled"]), Held, "SUP"),
    row(134, "a folder that nobody can look into, made by a call", Program(&["closed_folder"]), Held, "SC"),
    row(135, "folders deeper than a path, made by a call", End(&[("deep", "ok")]), Held, "SUP"),
];
