//! Forms of a sentence: words with slots, and what a message gives for the slots.
//!
//! ```text
//! form   = word *( " " word )
//! word   = literal *( "|" literal )      one of these, in any case
//!        / "[" literal *( "|" literal ) "]"    the same, or nothing
//!        / "{" slot "}"                  a value
//! ```

use std::collections::BTreeMap;
use std::path::{Component, Path};

/// The value of each slot.
pub(super) type Slots = BTreeMap<&'static str, String>;

/// A word of a message. What stands in quotes is one word, and never a literal of a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SaidWord {
    text: String,
    is_quoted: bool,
}

/// The words of a message, without courtesies at its start and end, and punctuation at its end.
pub(super) fn words(message: &str) -> Vec<SaidWord> {
    let message = message.trim().trim_end_matches(['?', '!', '.', ' ']);
    let (mut words, mut rest) = (Vec::new(), message);
    while let Some(first) = rest.chars().next() {
        let quote = ['"', '\'', '`'].into_iter().find(|quote| *quote == first);
        let quoted = quote.and_then(|quote| rest.strip_prefix(quote)?.split_once(quote));
        let (text, after) = match quoted {
            Some(found) => found,
            None => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
        };
        words.push(SaidWord { text: text.to_owned(), is_quoted: quoted.is_some() });
        rest = after.trim_start();
    }
    let is = |words: &[SaidWord], at: usize, literals: &[&str]| {
        words.get(at).is_some_and(|word| word.is_one_of(literals))
    };
    if words.len() > 1 && is(&words, words.len() - 1, &["please"]) {
        words.pop();
    }
    loop {
        let asks = is(&words, 0, &["can", "could", "would"]) && is(&words, 1, &["you"]);
        let tells = is(&words, 0, &["tell"]) && is(&words, 1, &["me"]);
        match (is(&words, 0, &["please"]), asks || tells) {
            (true, _) => drop(words.drain(..1)),
            (false, true) => drop(words.drain(..2)),
            (false, false) => break,
        }
    }
    // `show me syslog` is `show syslog`.
    if words.len() > 2 && is(&words, 0, &["show", "give", "list", "find", "print"]) && is(&words, 1, &["me"])
    {
        words.remove(1);
    }
    words
}

/// The literals of a form: each spelling of each word that is not a slot.
pub(super) fn literals(form: &'static str) -> impl Iterator<Item = &'static str> {
    let words = form.split(' ').filter(|word| inside(word, '{', '}').is_none());
    words.flat_map(|word| inside(word, '[', ']').unwrap_or(word).split('|'))
}

impl SaidWord {
    /// A word without quotes.
    pub(super) fn plain(text: &str) -> Self {
        Self { text: text.to_owned(), is_quoted: false }
    }

    /// The word without its quotes.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn is_quoted(&self) -> bool {
        self.is_quoted
    }

    /// The word as a person types it.
    pub(super) fn as_typed(&self) -> String {
        if self.is_quoted { format!("\"{}\"", self.text) } else { self.text.clone() }
    }

    fn is_one_of(&self, literals: &[&str]) -> bool {
        !self.is_quoted && literals.iter().any(|literal| literal.eq_ignore_ascii_case(&self.text))
    }
}

/// What `said` gives for the slots of `form`, if it has that form.
pub(super) fn read(form: &'static str, said: &[SaidWord]) -> Option<Slots> {
    let form: Vec<&'static str> = form.split(' ').collect();
    let mut slots = Slots::new();
    rest(&form, said, &mut slots).then_some(slots)
}

fn rest(form: &[&'static str], said: &[SaidWord], slots: &mut Slots) -> bool {
    let Some((word, form)) = form.split_first() else { return said.is_empty() };
    if let Some(slot) = inside(word, '{', '}') {
        // A text may have several words; any other value is one.
        let most = if slot == "text" { said.len() } else { said.len().min(1) };
        return (1..=most).any(|count| {
            let Some((taken, after)) = said.split_at_checked(count) else { return false };
            let Some(value) = value(slot, taken) else { return false };
            slots.insert(slot, value);
            rest(form, after, slots)
        });
    }
    let optional = inside(word, '[', ']');
    let literals: Vec<&str> = optional.unwrap_or(word).split('|').collect();
    let with = said
        .split_first()
        .is_some_and(|(first, after)| first.is_one_of(&literals) && rest(form, after, slots));
    with || (optional.is_some() && rest(form, said, slots))
}

fn inside(word: &'static str, open: char, close: char) -> Option<&'static str> {
    word.strip_prefix(open)?.strip_suffix(close)
}

/// The value of a slot, if the words have its form. A relative path starts at the folder of logs.
fn value(slot: &str, words: &[SaidWord]) -> Option<String> {
    if slot == "text" {
        let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
        return Some(texts.join(" ")).filter(|text| !text.is_empty());
    }
    let [SaidWord { text, .. }] = words else { return None };
    let is_name = |name: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._@-".contains(c);
        name.chars().all(plain) && name.starts_with(|c: char| c.is_ascii_alphanumeric())
    };
    match slot {
        "path" => {
            let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::RootDir);
            let is_path = !text.is_empty() && Path::new(text).components().all(is_plain);
            let path = if text.starts_with('/') { text.clone() } else { format!("@logs/{text}") };
            is_path.then_some(path)
        }
        "number" => text.parse::<u16>().ok().filter(|n| (1..=1_000).contains(n)).map(|n| n.to_string()),
        "pid" => text.parse::<u32>().ok().filter(|n| (1..=4_194_304).contains(n)).map(|n| n.to_string()),
        "port" => {
            let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
            text.rsplit_once(':').filter(|(host, port)| is_name(host) && is_port(port)).map(|_| text.clone())
        }
        "portnumber" => text.parse::<u16>().ok().filter(|port| *port > 0).map(|port| port.to_string()),
        "url" => (text.starts_with("http://") || text.starts_with("https://")).then(|| text.clone()),
        "service" => {
            is_name(text).then(|| if text.contains('.') { text.clone() } else { format!("{text}.service") })
        }
        _ => is_name(text).then(|| text.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::{read, words};

    #[test]
    fn a_message_fits_a_form_or_does_not() {
        let check = |form: &'static str, message: &str, expect: Option<&[(&str, &str)]>| {
            let found = read(form, &words(message));
            let expect =
                expect.map(|all| all.iter().map(|(slot, value)| (*slot, (*value).to_owned())).collect());
            assert_eq!(found, expect, "{form}: {message}");
        };
        let restart = "restart [the] [service] {service}";
        check(restart, "Restart nginx.", Some(&[("service", "nginx.service")]));
        check(
            restart,
            "could you please restart the service cron.timer?",
            Some(&[("service", "cron.timer")]),
        );
        check(restart, "Could you tell me please: x", None);
        check("how much {name}", "could you tell me how much ram, please?", None);
        check("how much {name}", "could you tell me how much ram please?", Some(&[("name", "ram")]));
        check("show {path}", "show me syslog", Some(&[("path", "@logs/syslog")]));
        check("is [the] port {portnumber} open", "is port 5432 open?", Some(&[("portnumber", "5432")]));
        check("is [the] port {portnumber} open", "is port 0 open?", None);
        check(restart, "restart \"the\"", Some(&[("service", "the.service")]));
        for other in ["restart", "restart nginx now", "restart ../x", "restart -x", "restart a/b", ""] {
            check(restart, other, None);
        }
        let search = "search {path} for {text}";
        check(
            search,
            "search syslog for out of memory",
            Some(&[("path", "@logs/syslog"), ("text", "out of memory")]),
        );
        check(search, "search /a for \"for  x?\"", Some(&[("path", "/a"), ("text", "for  x?")]));
        check(search, "search ../x for y", None);
        check("find {text} in {path}", "find a in b in /c", Some(&[("text", "a in b"), ("path", "/c")]));
        check("last {number} lines", "last 20 lines", Some(&[("number", "20")]));
        check("last {number} lines", "last 0 lines", None);
        check("last {number} lines", "last 1001 lines", None);
    }
}
