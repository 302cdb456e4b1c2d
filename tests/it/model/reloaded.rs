//! A reload exchanges a key and the finder of secrets together: whatever runs meanwhile, the key of
//! a request is not in its answer, which the server fills with it.

use super::http;
use crate::support::{Server, TestHome, text};
use serde_json::json;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};

/// The beginning of every key; none of its bytes is anywhere else.
const KEYS: &str = "qzxwvj-";

/// Answers with the key of the request.
fn echo(stream: TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let (mut key, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 || line.trim().is_empty() {
            break;
        }
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        } else if let Some(value) = lower.strip_prefix("authorization: bearer ") {
            value.trim().clone_into(&mut key);
        }
    }
    reader.read_exact(&mut vec![0; length]).ok()?;
    let message = json!({ "role": "assistant", "content": format!("the key is {key}") });
    let body =
        json!({ "model": "m", "choices": [{ "index": 0, "message": message, "finish_reason": "stop" }] });
    reader.get_mut().write_all(http(200, "", &body.to_string()).as_bytes()).ok()
}

/// Asks until the reloads are over. Returns the answers.
fn asks(server: &Server, key: &str, is_over: &AtomicBool) -> Vec<String> {
    let mut answers = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let answer = server.run(key, "hello");
        assert_eq!(answer.status, 200, "{}", text(&answer.body));
        answers.push(text(&answer.body));
    }
    answers
}

#[test]
fn no_request_is_sent_with_a_key_that_is_not_searched_for() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("address");
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || echo(stream));
        }
    });
    let home = TestHome::init();
    let file = home.beside("key");
    let write = |at: usize| crate::secrets::private(&file, &format!("{KEYS}{at}-0123456789"));
    write(0);
    home.configure(&format!(
        "[llm]\nuse = [\"m\"]\n[models.m]\nwire = \"openai\"\nmodel = \"m\"\nbase_url = \"http://{address}/v1\"\n\
         key = \"file:{}\"\n[paths]\nlogs = \"/var/log\"\n",
        file.display()
    ));
    let key = home.key("ops", "operator");
    let server = home.serve();
    let is_over = AtomicBool::new(false);
    let answers: Vec<String> = std::thread::scope(|scope| {
        let asking = [(); 3].map(|()| scope.spawn(|| asks(&server, &key, &is_over)));
        for at in 1..8 {
            write(at);
            home.expect(0, &["reload"]);
        }
        is_over.store(true, Ordering::Relaxed);
        asking.into_iter().flat_map(|thread| thread.join().expect("answers")).collect()
    });
    assert!(answers.len() > 7, "{} answers", answers.len());
    for answer in &answers {
        assert!(answer.contains("the key is [secret:models.m.key:") && !answer.contains(KEYS), "{answer}");
    }
    assert_eq!(server.stop(), Some(0));
    home.expect(0, &["audit", "verify"]);
}
