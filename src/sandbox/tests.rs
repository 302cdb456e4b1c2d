//! The whole room against real processes.
//!
//! Forking requires a process with one thread, which a test harness is not: each scenario runs in a
//! separate process of this same binary, as the user who runs the tests and, if that is root, as an
//! ordinary user too.
#![expect(clippy::disallowed_methods, reason = "tests start themselves again and look at the environment")]

use rustix::thread::{Gid, Uid};
use std::process::Command;
use world::{Stage, World, alive, compile, has, until};

mod apart;
mod content;
mod crash;
mod files;
mod flood;
mod front;
mod given;
mod groups;
mod host;
mod layer_off;
mod left;
mod levels;
mod life;
mod limits;
mod objects;
mod proc;
mod reach;
mod search;
mod soak;
mod view;
mod world;

const SCENARIO: &str = "PAR_SANDBOX_SCENARIO";
const AS_UID: &str = "PAR_SANDBOX_UID";
/// An ordinary user, who owns nothing.
const ORDINARY: u32 = 65_534;

macro_rules! scenarios {
    ($($name:ident)*) => {
        $(#[test] fn $name() { play(stringify!($name)); })*

        fn perform(name: &str) {
            match name {
                $(stringify!($name) => scenario::$name(),)*
                other => panic!("no scenario `{other}`"),
            }
        }
    };
}

scenarios! {
    reports_what_it_enforces
    reads_lists_checks_and_tails
    resolves_what_is_there
    keeps_what_is_outside_outside
    refuses_a_swapped_object
    a_go_for_another_call_starts_nothing
    strange_files_are_answered
    refuses_what_the_manifest_does_not_say
    ends_calls_that_do_not_end
    takes_a_program_apart_from_the_machine
    releases_abandoned_calls
    ends_calls_without_a_go
    does_without_namespaces
    keeps_time_when_the_front_does_not_read
    survives_the_death_of_a_launcher
    dies_with_its_front
    forwards_signals
    locks_the_front
    the_front_reaches_nothing_else
    a_compromised_front_is_refused
    a_front_with_its_own_launcher_is_refused
    a_front_that_dials_launchers_is_refused
    a_front_has_few_launchers
    unfinished_messages_fill_no_memory
    unread_answers_fill_no_memory
    a_launcher_that_hangs_is_ended_and_replaced
    measures_latency
    finds_lines_below_a_folder
    leaves_out_what_is_excluded
    reports_named_paths_below
    stays_on_its_mount
    programs_read_below_only_if_their_manifest_says_so
    no_excluded_byte_is_found
    describes_files_of_every_kind
    compares_files_without_what_is_excluded
    measures_a_tree_without_what_is_excluded
    reports_on_the_host_show_no_secret
    the_kept_proc_opens_only_what_the_table_names
    only_reports_have_the_hosts_proc
    no_layer_is_decoration
    every_layer_has_its_case
    hides_the_rest_of_the_host
    shows_what_is_named_as_it_is_named
    cannot_be_changed_from_below
    follows_no_later_mount
    closes_access_to_the_host
    does_without_proc
    older_kernels_give_fewer_protections
    less_than_the_minimum_is_refused
    a_crash_starts_no_program_of_the_host
    without_a_core_limit_a_protection_is_missing
    a_call_leaves_nothing_on_what_others_are_given
    a_fork_loop_is_throttled
    programs_have_the_lowest_priority
    gives_arguments_on_standard_input
    gives_secrets_by_descriptor
    connects_to_named_sockets
    each_call_has_its_own_group
    leftovers_of_a_dead_launcher_are_removed
    a_delegated_group_is_divided
    a_group_bounds_what_its_call_uses
    a_call_adds_no_more_than_it_may
    moved_folders_are_still_counted
    no_program_gives_up_the_lock_or_the_limits_of_its_call
    no_folder_stops_later_calls
    a_thousand_calls_leave_nothing
    calls_that_write_nothing_have_their_own_uid
    the_calls_own_proc_shows_only_that_call
    a_script_finds_itself_in_proc
    paths_below_are_reported_the_same_with_proc
    content_is_read_and_given_as_a_copy
    content_that_is_not_plain_is_refused
    content_that_changed_after_prepare_is_not_run
    what_is_given_is_what_was_decided_on
    a_call_has_the_groups_of_its_manifest_and_no_other
    calls_share_the_groups_of_a_launcher_that_is_not_root
}

/// Returns at once, unless a scenario is requested.
#[test]
fn driver() {
    let Ok(name) = std::env::var(SCENARIO) else { return };
    if let Ok(uid) = std::env::var(AS_UID) {
        become_user(uid.parse().expect("a uid"), &[]);
    }
    perform(&name);
}

fn play(name: &str) {
    let root = rustix::process::geteuid().is_root();
    let users: &[Option<u32>] = if root { &[None, Some(ORDINARY)] } else { &[None] };
    for user in users {
        let mut command = Command::new(std::env::current_exe().expect("this binary"));
        command.args(["--exact", "sandbox::tests::driver", "--nocapture", "--test-threads=1"]);
        command.env(SCENARIO, name);
        command.envs(user.map(|uid| (AS_UID, uid.to_string())));
        // The harness's first thread must not take a signal that is meant for a supervisor.
        let mut term = nix::sys::signal::SigSet::empty();
        term.add(nix::sys::signal::Signal::SIGTERM);
        term.thread_block().expect("blocked");
        let output = command.output().expect("started");
        let text =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "as {user:?}: {text}");
        print!("{text}");
    }
}

/// Changes the ids of this thread only, which is the one that forks.
fn become_user(id: u32, groups: &[u32]) {
    let (uid, gid) = (Uid::from_raw(id), Gid::from_raw(id));
    let groups: Vec<Gid> = groups.iter().map(|group| Gid::from_raw(*group)).collect();
    rustix::thread::set_thread_groups(&groups).expect("groups");
    rustix::thread::set_thread_res_gid(gid, gid, gid).expect("gid");
    rustix::thread::set_thread_res_uid(uid, uid, uid).expect("uid");
    // As after an exec; otherwise this process could not write its own id maps.
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::Dumpable).expect("dumpable");
}

mod scenario {
    pub(super) use super::apart::takes_a_program_apart_from_the_machine;
    pub(super) use super::content::{
        content_is_read_and_given_as_a_copy, content_that_changed_after_prepare_is_not_run,
        content_that_is_not_plain_is_refused, what_is_given_is_what_was_decided_on,
    };
    pub(super) use super::crash::{
        a_crash_starts_no_program_of_the_host, without_a_core_limit_a_protection_is_missing,
    };
    pub(super) use super::files::{
        compares_files_without_what_is_excluded, describes_files_of_every_kind,
        measures_a_tree_without_what_is_excluded,
    };
    pub(super) use super::flood::{
        a_front_has_few_launchers, a_launcher_that_hangs_is_ended_and_replaced,
        unfinished_messages_fill_no_memory, unread_answers_fill_no_memory,
    };
    pub(super) use super::front::the_front_reaches_nothing_else;
    pub(super) use super::given::{
        connects_to_named_sockets, gives_arguments_on_standard_input, gives_secrets_by_descriptor,
    };
    pub(super) use super::groups::{
        a_call_has_the_groups_of_its_manifest_and_no_other,
        calls_share_the_groups_of_a_launcher_that_is_not_root,
    };
    pub(super) use super::host::{
        only_reports_have_the_hosts_proc, reports_on_the_host_show_no_secret,
        the_kept_proc_opens_only_what_the_table_names,
    };
    pub(super) use super::layer_off::{every_layer_has_its_case, no_layer_is_decoration};
    pub(super) use super::left::{
        a_call_leaves_nothing_on_what_others_are_given, a_fork_loop_is_throttled,
        programs_have_the_lowest_priority,
    };
    pub(super) use super::levels::{less_than_the_minimum_is_refused, older_kernels_give_fewer_protections};
    pub(super) use super::life::{
        dies_with_its_front, does_without_namespaces, ends_calls_that_do_not_end, ends_calls_without_a_go,
        forwards_signals, keeps_time_when_the_front_does_not_read, locks_the_front, measures_latency,
        releases_abandoned_calls, survives_the_death_of_a_launcher,
    };
    pub(super) use super::limits::{
        a_call_adds_no_more_than_it_may, a_delegated_group_is_divided, a_group_bounds_what_its_call_uses,
        calls_that_write_nothing_have_their_own_uid, each_call_has_its_own_group,
        leftovers_of_a_dead_launcher_are_removed, moved_folders_are_still_counted,
        no_folder_stops_later_calls, no_program_gives_up_the_lock_or_the_limits_of_its_call,
    };
    pub(super) use super::objects::{
        a_go_for_another_call_starts_nothing, keeps_what_is_outside_outside, reads_lists_checks_and_tails,
        refuses_a_swapped_object, refuses_what_the_manifest_does_not_say, reports_what_it_enforces,
        resolves_what_is_there, strange_files_are_answered,
    };
    pub(super) use super::proc::{
        a_script_finds_itself_in_proc, paths_below_are_reported_the_same_with_proc,
        the_calls_own_proc_shows_only_that_call,
    };
    pub(super) use super::reach::{
        a_compromised_front_is_refused, a_front_that_dials_launchers_is_refused,
        a_front_with_its_own_launcher_is_refused,
    };
    pub(super) use super::search::{
        finds_lines_below_a_folder, leaves_out_what_is_excluded, no_excluded_byte_is_found,
        programs_read_below_only_if_their_manifest_says_so, reports_named_paths_below, stays_on_its_mount,
    };
    pub(super) use super::soak::a_thousand_calls_leave_nothing;
    pub(super) use super::view::{
        cannot_be_changed_from_below, closes_access_to_the_host, does_without_proc, follows_no_later_mount,
        hides_the_rest_of_the_host, shows_what_is_named_as_it_is_named,
    };
}
