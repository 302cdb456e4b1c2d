//! A run as it happens: each step once its outcome is on the ledger, the words of the model while
//! they come, and what the run does meanwhile.

use super::exit::Fail;
use super::progress::WaitLine;
use super::reply::{self, PrintedRun};
use super::show;
use super::table::{Screen, Tone};
use crate::agent::{DecidedCall, RecordedReply, RunNews, Step, VoidReason, Watch};
use crate::llm::RetriedAsk;
use crate::types::text;
use std::io::Write as _;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;

/// A thread that prints, so that a slow terminal never holds up the run.
#[derive(Debug)]
pub(super) struct LiveRun {
    told: Sender<Option<RunNews>>,
    thread: JoinHandle<Result<PrintedRun, Fail>>,
    wants_words: bool,
}

impl LiveRun {
    /// Starts the thread. Steps are printed if `is_printed`, and on a terminal the words of the
    /// model too; a terminal is told in any case what the run does.
    pub(super) fn start(is_printed: bool) -> Result<Self, Fail> {
        let (told, news) = channel();
        let screen = Screen::stdout();
        let wants_words = is_printed && screen.columns.is_some();
        let printer = Printer { screen, is_printed, words: String::new(), printed: PrintedRun::default() };
        let thread = std::thread::Builder::new().spawn(move || follow(&news, printer));
        Ok(Self { told, thread: thread.map_err(Fail::failed)?, wants_words })
    }

    /// Receives the news of the run.
    pub(super) fn watch(&self) -> Watch {
        let told = self.told.clone();
        // Once the thread has ended, nothing is printed any more.
        let watch = Watch::new(move |news| drop(told.send(Some(news))));
        if self.wants_words { watch.with_words() } else { watch }
    }

    /// Returns once everything is printed.
    pub(super) fn end(self) -> Result<PrintedRun, Fail> {
        drop(self.told.send(None));
        self.thread.join().map_err(|_| Fail::failed("the steps were not printed"))?
    }
}

fn follow(news: &Receiver<Option<RunNews>>, mut printer: Printer) -> Result<PrintedRun, Fail> {
    let (mut line, mut waits) = (WaitLine::new("starting"), Waits::default());
    loop {
        match news.recv_timeout(line.pause()) {
            Ok(Some(news)) => {
                let is_shown = printer.is_shown(&news);
                if is_shown {
                    line.erase();
                }
                if let Some(what) = waits.after(&news) {
                    line.now(what);
                }
                if is_shown {
                    printer.print(news)?;
                }
            }
            // Words that have no line end yet stay as they are.
            Err(RecvTimeoutError::Timeout) if printer.words.is_empty() => line.write(),
            Err(RecvTimeoutError::Timeout) => {}
            Ok(None) | Err(RecvTimeoutError::Disconnected) => {
                line.erase();
                printer.void("the text above is not recorded")?;
                return Ok(printer.printed);
            }
        }
    }
}

/// What a run waits for. A server does not say that it asks the model: a run does so once it has
/// begun, and once the calls of the last reply have ended.
#[derive(Default)]
struct Waits {
    /// Calls that were allowed and have not ended.
    running: usize,
}

impl Waits {
    /// What the run waits for after these news, if that is something else than before.
    fn after(&mut self, news: &RunNews) -> Option<String> {
        let asks = || Some("asking the model".to_owned());
        match news {
            RunNews::Begun(_) | RunNews::Asking | RunNews::NextModel(_) => asks(),
            RunNews::Retrying(RetriedAsk { why, attempt, attempts_max, .. }) => {
                Some(format!("{}; attempt {attempt} of {attempts_max}", text::visible_line(why)))
            }
            RunNews::Step(_) => {
                self.running = self.running.saturating_sub(1);
                if self.running == 0 { asks() } else { None }
            }
            RunNews::Decided(calls) => {
                let runs = |call: &DecidedCall| match call {
                    DecidedCall::Allowed(call) => Some(call.tool.clone()),
                    DecidedCall::Other(_) => None,
                };
                let tools: Vec<String> = calls.iter().filter_map(runs).collect();
                self.running = tools.len();
                match tools.is_empty() {
                    true => asks(),
                    false => Some(format!("running {}", text::visible_line(&tools.join(", ")))),
                }
            }
            _ => None,
        }
    }
}

/// Writes to standard output.
struct Printer {
    screen: Screen,
    is_printed: bool,
    /// What was written of a reply that is still coming.
    words: String,
    printed: PrintedRun,
}

impl Printer {
    /// Whether something is printed for these news.
    fn is_shown(&self, news: &RunNews) -> bool {
        match news {
            RunNews::Begun(_) | RunNews::NextModel(_) | RunNews::Trimmed(_) => true,
            RunNews::Asking | RunNews::Retrying(_) => false,
            RunNews::Words(_) | RunNews::Decided(_) | RunNews::Step(_) => self.is_printed,
            RunNews::Void(_) | RunNews::Said(_) => !self.words.is_empty(),
        }
    }

    fn print(&mut self, news: RunNews) -> Result<(), Fail> {
        match news {
            RunNews::Begun(begun) => self.printed.run = Some(begun.run),
            RunNews::Asking | RunNews::Retrying(_) => {}
            RunNews::Trimmed(trimmed) => show::note(&format!(
                "par: {}, recorded as entry {}",
                text::visible_line(&trimmed.what),
                trimmed.seq
            )),
            RunNews::Words(words) => self.words(words.text())?,
            RunNews::Void(reason) => self.void(match reason {
                VoidReason::Failed => {
                    "the text above is void: the model's server failed before the reply was complete"
                }
                VoidReason::Unusable => "the text above is void: the reply may not be used",
            })?,
            RunNews::NextModel(change) => show::note(&format!(
                "par: the model `{}` is not in service: {}; asking `{}`",
                text::visible_line(&change.failed),
                text::visible_line(&change.why),
                text::visible_line(&change.next)
            )),
            RunNews::Said(reply) => self.recorded(*reply)?,
            RunNews::Decided(calls) => {
                for call in calls {
                    if let DecidedCall::Other(step) = call {
                        self.step(&step)?;
                    }
                }
            }
            RunNews::Step(step) => self.step(&step)?,
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<(), Fail> {
        reply::step(step, &self.screen)?;
        self.printed.calls.insert(step.call.clone());
        Ok(())
    }

    /// Writes words as they come. Whatever a model writes, it moves no cursor.
    fn words(&mut self, words: &str) -> Result<(), Fail> {
        if self.words.is_empty() {
            show::note(
                &self.screen.paint(Tone::Faint, "the model writes (provisional until it is recorded):"),
            );
        }
        let words = text::visible(words);
        self.words.push_str(&words);
        write(&words)
    }

    /// Completes the words of a reply that is on the ledger.
    fn recorded(&mut self, reply: RecordedReply) -> Result<(), Fail> {
        let whole = text::visible(reply.text.as_deref().unwrap_or_default());
        let shown = std::mem::take(&mut self.words);
        match whole.strip_prefix(&shown) {
            Some(rest) => write(&format!("{rest}\n"))?,
            None => {
                show::line("")?;
                show::note("the text above is void; recorded is:");
                show::line(&whole)?;
            }
        }
        let told = format!("recorded as entry {}", reply.seq);
        show::note(&self.screen.paint(Tone::Faint, &told));
        if let Some(unfit) = reply.unfit.filter(|unfit| unfit.repair.is_some()) {
            let told = format!("the answer {}: the model is asked for it again", unfit.words());
            show::note(&self.screen.paint(Tone::Warn, &told));
        }
        self.printed.said = Some(whole);
        Ok(())
    }

    /// Ends words that no recorded reply confirms.
    fn void(&mut self, why: &str) -> Result<(), Fail> {
        if !std::mem::take(&mut self.words).is_empty() {
            show::line("")?;
            show::note(&self.screen.paint(Tone::Warn, why));
        }
        Ok(())
    }
}

/// Writes to standard output at once, also without a line end.
fn write(words: &str) -> Result<(), Fail> {
    show::bytes(words.as_bytes())?;
    // What cannot be written is reported by the next line.
    drop(std::io::stdout().lock().flush());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Waits;
    use crate::agent::{RunBegun, RunNews};
    use crate::llm::RetriedAsk;
    use crate::types::{RunId, SessionId};

    /// Issue 15, finding 21: while the model thought, the line said `starting`.
    #[test]
    fn a_run_that_has_begun_asks_the_model() {
        let (run, session) = (RunId::generate(), SessionId::generate());
        let begun = RunNews::Begun(RunBegun { run, session, seq: 7 });
        let mut waits = Waits::default();
        assert_eq!(waits.after(&begun), Some("asking the model".to_owned()));
        assert_eq!(waits.after(&RunNews::Asking), Some("asking the model".to_owned()));
        let why = "the model answered 429".to_owned();
        let retried = RetriedAsk { why, attempt: 2, attempts_max: 3, pause_ms: 7_000 };
        let told = waits.after(&RunNews::Retrying(retried));
        assert_eq!(told, Some("the model answered 429; attempt 2 of 3".to_owned()));
        assert_eq!(waits.after(&RunNews::Decided(Vec::new())), Some("asking the model".to_owned()));
    }
}
