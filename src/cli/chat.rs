//! `par chat`: one message after the other, in one session.
//!
//! Every message is a run, as with `par run`: decided, recorded and printed in the same way. A call
//! that waits for a person is answered elsewhere, by `par approval` or in the dashboard: nothing
//! that is typed here, and nothing that a model writes, answers one.

use super::exit::{self, Fail};
use super::local::{self, Inside};
use super::remote::Server;
use super::{compose, reply, run, sessions, show};
use crate::agent::{self, RunReply, RunRequest};
use crate::config::Home;
use crate::policy::Door;
use crate::types::SessionId;
use clap::Args;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

#[derive(Debug, Args)]
pub(super) struct Chat {
    /// Go on with this session: its id, or `latest` [default: a new one]
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Let the runs use only these tools [default: every tool that the caller may use]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    tools: Option<Vec<String>>,
    /// Talk with the server at this URL, with the key in PAR_KEY, PAR_KEY_FILE or
    /// ~/.config/par/key; needs no home here [env: PAR_URL]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
}

const HELP: &str = "\
/new        begins a new session
/steps      shows the steps of the last run
/sessions   lists the sessions
/help       shows these lines
/quit       ends, as Ctrl-D does
Ctrl-C cancels a run that is under way. Anything else is a message; `//` begins one with a slash.";

/// What was typed.
enum TypedLine {
    Message(String),
    New,
    Steps,
    Sessions,
    Help,
    Unknown(String),
    Nothing,
}

/// What comes in.
enum Came {
    Line(String),
    /// Ctrl-C.
    Interrupt,
    /// The end of standard input.
    End,
}

/// The lines of standard input.
struct ChatInput {
    coming: UnboundedReceiver<Came>,
    kept: UnboundedSender<Came>,
    /// Lines that came during a run.
    held: VecDeque<String>,
}

/// A conversation so far.
struct Talk {
    session: Option<SessionId>,
    last: Option<RunReply>,
    /// Whether a person types at a terminal.
    is_typed: bool,
    is_json: bool,
    /// The exit code of the last run.
    code: u8,
}

impl Chat {
    pub(super) fn run(&self, home: Home, is_json: bool) -> Result<u8, Fail> {
        let server = match self.url.clone().or_else(|| home.server_url()) {
            Some(url) => Some(Server::at(&url)?.checked()?),
            None => Server::of_home(&home)?,
        };
        let is_typed = std::io::stdin().is_terminal() && !is_json;
        let talk = Talk { session: None, last: None, is_typed, is_json, code: exit::OK };
        match server {
            Some(server) => self.with_server(&server, talk),
            None => {
                let config = compose::load(home)?;
                local::with_front(config, "chat", async |home| Ok(self.here(home, talk).await))?
            }
        }
    }

    fn with_server(&self, server: &Server, mut talk: Talk) -> Result<u8, Fail> {
        talk.session = self.session.as_ref().map(|named| sessions::meant(server, named)).transpose()?;
        let mut input = ChatInput::open()?;
        input.heed_interrupts()?;
        talk.greet();
        loop {
            talk.prompt();
            let Came::Line(line) = input.next_blocking() else { break };
            match TypedLine::of(&line) {
                TypedLine::Message(message) => {
                    let body = json!({
                        "message": message, "session": talk.session, "tools": run::ceiling(self.tools.as_deref()),
                    });
                    let made = server.run_live(&body, talk.is_json);
                    if input.was_interrupted(talk.is_typed) {
                        cancel(server);
                    }
                    talk.hear(made.and_then(|(made, printed)| {
                        reply::print_rest(&made, &printed, talk.is_json).map(|code| (made, code))
                    }));
                }
                TypedLine::Sessions => {
                    let page = server.ask("/sessions", None);
                    talk.show(page.and_then(|page| sessions::table(items(&page))));
                }
                other => talk.obey(other),
            }
        }
        Ok(talk.end())
    }

    /// Without a server, in this process.
    async fn here(&self, home: &Inside, mut talk: Talk) -> Result<u8, Fail> {
        let (agent, by) = (&home.agent, &home.principal);
        let named = self.session.clone().map(|named| sessions::meant_here(agent, by, named)).transpose();
        let named = named.map_err(Fail::failed)?;
        talk.session = named.map(|named| sessions::parse(&named, None)).transpose()?;
        let mut input = ChatInput::open()?;
        talk.greet();
        loop {
            talk.prompt();
            let line = tokio::select! {
                came = input.next() => came,
                _heard = tokio::signal::ctrl_c() => Came::Interrupt,
            };
            let Came::Line(line) = line else { break };
            match TypedLine::of(&line) {
                TypedLine::Message(message) => {
                    let request = RunRequest {
                        message,
                        session: talk.session.as_ref().map(|id| id.as_str().to_owned()),
                        tools: run::ceiling(self.tools.as_deref()),
                        ..RunRequest::default()
                    };
                    let ask = async move |agent: &agent::Agent, by: &crate::auth::Principal| {
                        agent.run(by, Door::LOCAL, request).await
                    };
                    let made = local::run_inside(home, !talk.is_json, ask).await;
                    input.was_interrupted(talk.is_typed);
                    talk.hear(made.and_then(|(made, printed)| {
                        reply::print_rest(&made, &printed, talk.is_json).map(|code| (made, code))
                    }));
                }
                TypedLine::Sessions => {
                    let found = agent::list_sessions(agent.ledger(), None, 20, |_| true);
                    let rows = found.map_err(Fail::failed).and_then(|rows| {
                        let rows = rows.iter().map(serde_json::to_value);
                        rows.collect::<Result<Vec<Value>, _>>().map_err(Fail::failed)
                    });
                    talk.show(rows.and_then(|rows| sessions::table(&rows)));
                }
                other => talk.obey(other),
            }
        }
        Ok(talk.end())
    }
}

impl TypedLine {
    fn of(line: &str) -> Self {
        let line = line.trim();
        match line.split_whitespace().next().unwrap_or_default() {
            "" => Self::Nothing,
            "/new" => Self::New,
            "/steps" => Self::Steps,
            "/sessions" => Self::Sessions,
            "/help" => Self::Help,
            word if word.starts_with("//") => {
                let rest = line.strip_prefix('/').unwrap_or(line);
                Self::Message(rest.to_owned())
            }
            word if word.starts_with('/') && !word.get(1..).unwrap_or_default().contains('/') => {
                Self::Unknown(word.to_owned())
            }
            _ => Self::Message(line.to_owned()),
        }
    }
}

impl Talk {
    fn greet(&self) {
        if self.is_typed {
            match &self.session {
                Some(session) => {
                    show::note(&format!("par: {session} goes on; /help shows what can be typed"))
                }
                None => show::note("par: a new session; /help shows what can be typed"),
            }
        }
    }

    fn prompt(&self) {
        if self.is_typed {
            let mut screen = std::io::stderr().lock();
            drop(screen.write_all(b"> ").and_then(|()| screen.flush()));
        }
    }

    /// Takes the outcome of a message.
    fn hear(&mut self, made: Result<(RunReply, u8), Fail>) {
        match made {
            Ok((reply, code)) => {
                self.session = Some(reply.session.clone());
                (self.last, self.code) = (Some(reply), code);
            }
            Err(fail) => {
                show::note(&format!("par: {fail}"));
                self.code = fail.code;
            }
        }
    }

    fn show(&mut self, shown: Result<(), Fail>) {
        if let Err(fail) = shown {
            show::note(&format!("par: {fail}"));
        }
    }

    fn obey(&mut self, typed: TypedLine) {
        match typed {
            TypedLine::New => {
                (self.session, self.last) = (None, None);
                show::note("par: a new session begins with the next message");
            }
            TypedLine::Steps => match &self.last {
                Some(last) if !last.steps.is_empty() => {
                    let shown = reply::steps(&last.steps);
                    self.show(shown);
                }
                _ => show::note("par: the last run has no steps"),
            },
            TypedLine::Help => show::note(HELP),
            TypedLine::Unknown(word) => {
                let word = crate::types::text::visible_line(&word);
                show::note(&format!("par: `{word}` is not known; /help shows what can be typed"));
            }
            TypedLine::Sessions | TypedLine::Message(_) | TypedLine::Nothing => {}
        }
    }

    fn end(&self) -> u8 {
        if let (true, Some(session)) = (self.is_typed, &self.session) {
            show::note(&format!("\npar: `par chat --session {session}` goes on with this session"));
        }
        self.code
    }
}

impl ChatInput {
    /// Reads the lines of standard input in a thread of its own, until its end or `/quit`.
    fn open() -> Result<Self, Fail> {
        let (typed, coming) = unbounded_channel();
        let kept = typed.clone();
        let read = move || {
            for line in std::io::stdin().lock().lines() {
                let Ok(line) = line else { break };
                if line.trim() == "/quit" || typed.send(Came::Line(line)).is_err() {
                    break;
                }
            }
            drop(typed.send(Came::End));
        };
        std::thread::Builder::new().spawn(read).map_err(Fail::failed)?;
        Ok(Self { coming, kept, held: VecDeque::new() })
    }

    /// Reports Ctrl-C too, from a thread of its own.
    fn heed_interrupts(&self) -> Result<(), Fail> {
        let (to, runtime) = (self.kept.clone(), compose::runtime()?);
        let heed = move || {
            runtime.block_on(async {
                while tokio::signal::ctrl_c().await.is_ok() {
                    if to.send(Came::Interrupt).is_err() {
                        break;
                    }
                }
            });
        };
        std::thread::Builder::new().spawn(heed).map_err(Fail::failed)?;
        Ok(())
    }

    /// What comes next.
    async fn next(&mut self) -> Came {
        match self.held.pop_front() {
            Some(line) => Came::Line(line),
            None => self.coming.recv().await.unwrap_or(Came::End),
        }
    }

    /// The same, in a thread without a runtime.
    fn next_blocking(&mut self) -> Came {
        match self.held.pop_front() {
            Some(line) => Came::Line(line),
            None => self.coming.blocking_recv().unwrap_or(Came::End),
        }
    }

    /// Whether Ctrl-C was pressed during a run. What a person typed meanwhile is dropped: the
    /// answer was not to be read yet. What a program wrote is kept.
    fn was_interrupted(&mut self, is_typed: bool) -> bool {
        let mut is_interrupted = false;
        while let Ok(one) = self.coming.try_recv() {
            match one {
                Came::Interrupt => is_interrupted = true,
                Came::Line(line) if !is_typed => self.held.push_back(line),
                Came::Line(_) => {}
                Came::End => {
                    self.coming.close();
                    break;
                }
            }
        }
        is_interrupted
    }
}

/// Cancels the caller's newest run, if it has not ended.
fn cancel(server: &Server) {
    let newest = server.ask("/runs?limit=1", None).ok();
    let id = newest.as_ref().and_then(|page| page.pointer("/items/0/run")?.as_str());
    let Some(id) = id else { return };
    match server.ask(&format!("/runs/{id}/cancel"), Some(&json!({}))) {
        Ok(_) => show::note(&format!("par: cancelled; `par runs show {id}` shows what had happened")),
        Err(fail) => show::note(&format!("par: {fail}")),
    }
}

fn items(page: &Value) -> &[Value] {
    page.get("items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}
