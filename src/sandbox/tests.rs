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
mod flood;
mod front;
mod given;
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
    asks_again_when_the_object_was_swapped
    a_go_for_another_call_starts_nothing
    strange_files_are_answered
    refuses_what_the_manifest_does_not_say
    ends_what_does_not_end
    takes_a_program_apart_from_the_machine
    releases_what_nobody_waits_for
    ends_what_gets_no_go
    does_without_namespaces
    keeps_time_when_the_front_does_not_read
    survives_the_death_of_a_launcher
    dies_with_its_front
    passes_signals_on
    locks_the_front
    the_front_reaches_nothing_else
    a_front_that_was_taken_over_asks_in_vain
    a_front_beside_its_own_launcher_asks_in_vain
    a_front_that_dials_launchers_asks_in_vain
    a_front_has_few_launchers
    unfinished_messages_fill_no_memory
    answers_that_nobody_takes_fill_no_memory
    a_launcher_that_hangs_is_ended_and_replaced
    first_look_at_latency
    finds_lines_below_a_folder
    leaves_out_what_is_excluded
    tells_what_lies_below
    stays_on_its_mount
    programs_read_below_only_where_they_say_so
    no_excluded_byte_is_found
    no_layer_is_decoration
    every_layer_has_its_case
    tells_nothing_of_the_rest
    shows_what_is_named_as_it_is_named
    cannot_be_changed_from_below
    follows_no_later_mount
    closes_the_way_to_the_host
    does_without_proc
    older_kernels_are_told_apart
    less_than_the_minimum_is_refused
    a_crash_starts_no_program_of_the_host
    no_limit_of_cores_is_a_protection_that_is_missing
    a_call_leaves_nothing_on_what_others_are_given
    a_loop_of_forks_is_made_to_wait
    programs_come_last
    gives_arguments_on_standard_input
    gives_secrets_by_descriptor
    connects_to_named_sockets
    each_call_has_a_group_of_its_own
    what_a_dead_launcher_left_is_cleared
    a_group_that_was_given_is_divided
    a_group_bounds_what_its_call_uses
    a_call_adds_no_more_than_it_may
    who_moves_folders_is_counted_all_the_same
    no_program_gives_up_the_lock_or_the_limits_of_its_call
    no_folder_stops_the_calls_behind_it
    a_thousand_calls_leave_nothing
    calls_that_write_nothing_have_uids_of_their_own
    a_proc_of_its_own_shows_its_call_alone
    a_script_finds_itself_in_proc
    what_lies_below_is_told_as_without_it
    content_is_read_and_given_as_a_copy
    content_that_is_not_plain_is_refused
    content_that_changed_after_prepare_is_not_run
    what_is_given_is_what_was_decided_on
}

/// Returns at once, unless a scenario is requested.
#[test]
fn driver() {
    let Ok(name) = std::env::var(SCENARIO) else { return };
    if let Ok(uid) = std::env::var(AS_UID) {
        become_user(uid.parse().expect("a uid"));
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
fn become_user(id: u32) {
    let (uid, gid) = (Uid::from_raw(id), Gid::from_raw(id));
    rustix::thread::set_thread_groups(&[]).expect("groups");
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
        a_crash_starts_no_program_of_the_host, no_limit_of_cores_is_a_protection_that_is_missing,
    };
    pub(super) use super::flood::{
        a_front_has_few_launchers, a_launcher_that_hangs_is_ended_and_replaced,
        answers_that_nobody_takes_fill_no_memory, unfinished_messages_fill_no_memory,
    };
    pub(super) use super::front::the_front_reaches_nothing_else;
    pub(super) use super::given::{
        connects_to_named_sockets, gives_arguments_on_standard_input, gives_secrets_by_descriptor,
    };
    pub(super) use super::layer_off::{every_layer_has_its_case, no_layer_is_decoration};
    pub(super) use super::left::{
        a_call_leaves_nothing_on_what_others_are_given, a_loop_of_forks_is_made_to_wait, programs_come_last,
    };
    pub(super) use super::levels::{less_than_the_minimum_is_refused, older_kernels_are_told_apart};
    pub(super) use super::life::{
        dies_with_its_front, does_without_namespaces, ends_what_does_not_end, ends_what_gets_no_go,
        first_look_at_latency, keeps_time_when_the_front_does_not_read, locks_the_front, passes_signals_on,
        releases_what_nobody_waits_for, survives_the_death_of_a_launcher,
    };
    pub(super) use super::limits::{
        a_call_adds_no_more_than_it_may, a_group_bounds_what_its_call_uses,
        a_group_that_was_given_is_divided, calls_that_write_nothing_have_uids_of_their_own,
        each_call_has_a_group_of_its_own, no_folder_stops_the_calls_behind_it,
        no_program_gives_up_the_lock_or_the_limits_of_its_call, what_a_dead_launcher_left_is_cleared,
        who_moves_folders_is_counted_all_the_same,
    };
    pub(super) use super::objects::{
        a_go_for_another_call_starts_nothing, asks_again_when_the_object_was_swapped,
        keeps_what_is_outside_outside, reads_lists_checks_and_tails, refuses_what_the_manifest_does_not_say,
        reports_what_it_enforces, resolves_what_is_there, strange_files_are_answered,
    };
    pub(super) use super::proc::{
        a_proc_of_its_own_shows_its_call_alone, a_script_finds_itself_in_proc,
        what_lies_below_is_told_as_without_it,
    };
    pub(super) use super::reach::{
        a_front_beside_its_own_launcher_asks_in_vain, a_front_that_dials_launchers_asks_in_vain,
        a_front_that_was_taken_over_asks_in_vain,
    };
    pub(super) use super::search::{
        finds_lines_below_a_folder, leaves_out_what_is_excluded, no_excluded_byte_is_found,
        programs_read_below_only_where_they_say_so, stays_on_its_mount, tells_what_lies_below,
    };
    pub(super) use super::soak::a_thousand_calls_leave_nothing;
    pub(super) use super::view::{
        cannot_be_changed_from_below, closes_the_way_to_the_host, does_without_proc, follows_no_later_mount,
        shows_what_is_named_as_it_is_named, tells_nothing_of_the_rest,
    };
}
