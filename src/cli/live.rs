//! A run in this process, as it happens: each step once its outcome is on the ledger, and what the
//! run does meanwhile.

use super::exit::Fail;
use super::progress::WaitLine;
use super::reply;
use super::table::Screen;
use crate::agent::{RunNews, Watch};
use crate::types::{CallId, RunId, text};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;

/// A thread that prints, so that a slow terminal never holds up the run.
#[derive(Debug)]
pub(super) struct LiveRun {
    told: Sender<Option<RunNews>>,
    thread: JoinHandle<Result<PrintedRun, Fail>>,
}

/// What is on the screen of a run.
#[derive(Debug, Default)]
pub(super) struct PrintedRun {
    /// The run, once it began.
    pub(super) run: Option<RunId>,
    /// The calls whose steps were printed.
    pub(super) calls: BTreeSet<CallId>,
}

impl LiveRun {
    /// Starts the thread. Steps are printed if `is_printed`; a terminal is told in any case what
    /// the run does.
    pub(super) fn start(is_printed: bool) -> Result<Self, Fail> {
        let (told, news) = channel();
        let thread = std::thread::Builder::new().spawn(move || follow(&news, is_printed));
        Ok(Self { told, thread: thread.map_err(Fail::failed)? })
    }

    /// Receives the news of the run.
    pub(super) fn watch(&self) -> Watch {
        let told = self.told.clone();
        // Once the thread has ended, nothing is printed any more.
        Arc::new(move |news| drop(told.send(Some(news))))
    }

    /// Returns once everything is printed.
    pub(super) fn end(self) -> Result<PrintedRun, Fail> {
        drop(self.told.send(None));
        self.thread.join().map_err(|_| Fail::failed("the steps were not printed"))?
    }
}

fn follow(news: &Receiver<Option<RunNews>>, is_printed: bool) -> Result<PrintedRun, Fail> {
    let screen = Screen::stdout();
    let (mut line, mut printed) = (WaitLine::new("starting"), PrintedRun::default());
    loop {
        match news.recv_timeout(line.pause()) {
            Ok(Some(RunNews::Begun(run))) => printed.run = Some(run),
            Ok(Some(RunNews::Asking)) => line.now("asking the model".to_owned()),
            Ok(Some(RunNews::Running(tools))) => {
                line.now(format!("running {}", text::visible_line(&tools.join(", "))));
            }
            Ok(Some(RunNews::Step(step))) if is_printed => {
                line.erase();
                reply::step(&step, &screen)?;
                printed.calls.insert(step.call);
            }
            Ok(Some(RunNews::Step(_))) => {}
            Err(RecvTimeoutError::Timeout) => line.write(),
            Ok(None) | Err(RecvTimeoutError::Disconnected) => {
                line.erase();
                return Ok(printed);
            }
        }
    }
}
