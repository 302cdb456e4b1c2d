//! A run on a server, as it happens: the events of `POST /agent/run`.

use super::server::{self, Server};
use crate::agent::{AllowedCall, DecidedCall, RunNews, RunReply, Step, Watch};
use crate::cli::exit::{self, Fail};
use crate::egress::{Credential, Endpoint, HttpRequest};
use crate::types::{RunId, limits};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::time::Duration;

/// Longest line of an event, in bytes. The last event has every step of the run.
const LINE_BYTES_MAX: usize = 64 << 20;

/// The events that have come.
struct RunEventReader<'a> {
    watch: &'a Watch,
    words: Option<crate::agent::ReplyWords<'a>>,
    left: Vec<u8>,
    /// Where `left` was searched for a line end.
    searched: usize,
    name: String,
    run: Option<RunId>,
    /// The outcome: the JSON of the run, or of a problem.
    last: Option<Result<Value, Value>>,
}

impl Server {
    /// Sends a run, and reports to `watch` what it does. Says that the run goes on if Ctrl-C ends
    /// the waiting. Blocking.
    pub(super) fn follow_run(&self, body: &Value, watch: &Watch) -> Result<RunReply, Fail> {
        let endpoint = Endpoint::parse(&self.url, "/agent/run").map_err(Fail::failed)?;
        let body = body.to_string();
        let ask = HttpRequest {
            endpoint: &endpoint,
            credential: self.key.as_ref().map(Credential::Bearer),
            // A server of an earlier version answers with JSON.
            headers: &[("accept", "text/event-stream, application/json")],
            body: Some(body.as_bytes()),
            deadline: Duration::from_millis(limits::RUN_MS_MAX + limits::MODEL_MS_MAX),
        };
        let mut reader = RunEventReader::new(watch);
        let answer = self.runtime.block_on(async {
            tokio::select! {
                answer = self.client.listen(ask, |piece| reader.take(piece)) => Ok(answer),
                heard = tokio::signal::ctrl_c() => Err(heard.map_or_else(Fail::failed, |()| self.goes_on())),
            }
        })?;
        let answer = answer.map_err(|e| server::unanswered(&self.url, &e))?;
        match (answer.status, reader.last) {
            (200, Some(Ok(reply))) => server::reply(&self.url, reply),
            (200, Some(Err(problem))) => Err(server::refused(&self.url, 0, &problem)),
            (200, None) if reader.name.is_empty() && reader.run.is_none() => {
                let reply = serde_json::from_slice(&reader.left);
                server::reply(&self.url, reply.map_err(|e| self.unreadable(&e))?)
            }
            (200, None) => Err(self.ended_early(reader.run.as_ref())),
            (202, _) => {
                let reply = serde_json::from_slice(&answer.body);
                server::reply(&self.url, reply.map_err(|e| self.unreadable(&e))?)
            }
            (status, _) => {
                let problem = serde_json::from_slice(&answer.body).unwrap_or_default();
                Err(server::refused(&self.url, status, &problem))
            }
        }
    }

    fn unreadable(&self, error: &serde_json::Error) -> Fail {
        Fail::failed(format!("{}: the answer cannot be read: {error}", server::place(&self.url)))
    }

    /// The stream ended, and the run may go on.
    fn ended_early(&self, run: Option<&RunId>) -> Fail {
        let shown = run.map_or_else(|| "`par runs list`".to_owned(), |run| format!("`par runs show {run}`"));
        Fail::new(
            exit::UNREACHABLE,
            format!(
                "{}: the events ended before the run did: {shown} has its outcome",
                server::place(&self.url)
            ),
        )
    }
}

impl<'a> RunEventReader<'a> {
    fn new(watch: &'a Watch) -> Self {
        let (left, name) = (Vec::new(), String::new());
        Self { watch, words: watch.reply(), left, searched: 0, name, run: None, last: None }
    }

    /// Takes the next bytes. Returns whether more are wanted.
    fn take(&mut self, piece: &[u8]) -> bool {
        self.left.extend_from_slice(piece);
        while let Some(end) =
            self.left.get(self.searched..).and_then(|left| left.iter().position(|byte| *byte == b'\n'))
        {
            let line: Vec<u8> = self.left.drain(..=self.searched + end).collect();
            self.searched = 0;
            self.line(String::from_utf8_lossy(&line).trim_end());
        }
        self.searched = self.left.len();
        self.last.is_none() && self.left.len() < LINE_BYTES_MAX
    }

    /// The server writes the name of an event before its data, each on one line.
    fn line(&mut self, line: &str) {
        if let Some(name) = line.strip_prefix("event: ") {
            name.clone_into(&mut self.name);
        } else if let Some(data) = line.strip_prefix("data: ") {
            self.event(data);
        }
    }

    /// An event that cannot be read, or of a later version, is passed over: the last one has all
    /// that counts.
    fn event(&mut self, data: &str) {
        fn read<T: DeserializeOwned>(data: &str) -> Option<T> {
            serde_json::from_str(data).ok()
        }
        let whole = |data: &str| read::<Value>(data).unwrap_or_default();
        let news = match self.name.as_str() {
            "run.started" => read(data).map(RunNews::Begun),
            "text.delta" => {
                let text = whole(data).get("text").and_then(Value::as_str).map(str::to_owned);
                if let (Some(words), Some(text)) = (&self.words, text) {
                    words.pass_received(text);
                }
                None
            }
            "text.void" => whole(data)
                .get("reason")
                .and_then(|reason| serde_json::from_value(reason.clone()).ok())
                .map(RunNews::Void),
            "model.retry" => read(data).map(RunNews::Retrying),
            "context.trim" => read(data).map(RunNews::Trimmed),
            "model.changed" => read(data).map(RunNews::NextModel),
            "message" => read(data).map(|reply| RunNews::Said(Box::new(reply))),
            "call.decision" | "approval.requested" => {
                let other = read::<Step>(data).map(|step| DecidedCall::Other(Box::new(step)));
                let decided = other.or_else(|| read::<AllowedCall>(data).map(DecidedCall::Allowed));
                decided.map(|call| RunNews::Decided(vec![call]))
            }
            "call.result" => read(data).map(RunNews::Step),
            "run.finished" | "run.waiting" => {
                self.last = Some(Ok(whole(data)));
                None
            }
            "error" => {
                self.last = Some(Err(whole(data)));
                None
            }
            _ => None,
        };
        match &news {
            Some(RunNews::Begun(begun)) => self.run = Some(begun.run.clone()),
            // Words from here on are of another reply.
            Some(RunNews::Void(_) | RunNews::Said(_)) => self.words = self.watch.reply(),
            _ => {}
        }
        news.into_iter().for_each(|news| self.watch.tell(news));
    }
}

#[cfg(test)]
mod tests {
    use super::RunEventReader;
    use crate::agent::{RunNews, Watch};
    use std::sync::{Arc, Mutex};

    /// Events arrive in pieces; what this version does not know is passed over, and the last one
    /// ends the reading.
    #[test]
    fn events_in_pieces_become_news() {
        let stream = "retry: 2000\n\nid: 4\nevent: run.started\ndata: \
            {\"run\":\"run_01JD0000000000000000000000\",\"session\":\"ses_01JD0000000000000000000000\",\"seq\":4}\n\n\
            :\n\nevent: text.delta\ndata: {\"text\":\"h\u{e9}\"}\n\nevent: later\ndata: {}\n\n\
            event: text.void\ndata: {\"reason\":\"failed\"}\n\nevent: message\n\
            data: {\"seq\":9,\"text\":\"hello\",\"calls\":0}\n\nevent: call.result\ndata: {}\n\n\
            event: run.finished\ndata: {\"run\":1}\n\n";
        for size in [1, 3, 7, stream.len()] {
            let told = Arc::new(Mutex::new(Vec::new()));
            let keep = told.clone();
            let watch = Watch::new(move |news: RunNews| {
                let word = match news {
                    RunNews::Begun(begun) => format!("begun {}", begun.seq),
                    RunNews::Words(words) => format!("words {}", words.text()),
                    RunNews::Void(reason) => format!("void {reason:?}"),
                    RunNews::Said(reply) => format!("said {} {:?}", reply.seq, reply.text),
                    other => format!("{other:?}"),
                };
                keep.lock().expect("news").push(word);
            })
            .with_words();
            let mut reader = RunEventReader::new(&watch);
            let more: Vec<bool> = stream.as_bytes().chunks(size).map(|piece| reader.take(piece)).collect();
            assert_eq!(more.last(), Some(&false));
            assert_eq!(reader.last, Some(Ok(serde_json::json!({ "run": 1 }))));
            let expect = ["begun 4", "words h\u{e9}", "void Failed", "said 9 Some(\"hello\")"];
            assert_eq!(*told.lock().expect("news"), expect);
        }
    }
}
