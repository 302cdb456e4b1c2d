//! Answers about what was found at other ends: ports, web servers, names and certificates.

use super::shape::{count, items, joined, number, size, texts, time, word};
use serde_json::Value;

/// The answer to a call of `tool`; `None` for another tool, or if the result has another shape.
pub(super) fn probed(tool: &str, result: &Value) -> Option<String> {
    match tool {
        "tls_certificate" | "certificate_file" => certificate(result),
        "http_probe" => web(result),
        "tcp_probe" => port(result),
        "dns_lookup" => name(result),
        _ => None,
    }
}

fn certificate(result: &Value) -> Option<String> {
    let problems = result.get("problems")?.as_array()?.iter().filter_map(Value::as_str);
    let problems: Vec<String> = problems.map(|problem| problem.replace('_', " ")).collect();
    let verdict = word(result, "verdict")?;
    let verdict = match problems.is_empty() {
        true => verdict,
        false => format!("{verdict}: {}", problems.join(", ")),
    };
    let days = result.get("days_left").and_then(Value::as_i64)?;
    let until = result.get("chain").and_then(|chain| time(chain.get(0)?, "not_after"));
    let until = until.map(|until| format!(", until {until}")).unwrap_or_default();
    let soon = if result.get("expires_soon") == Some(&Value::Bool(true)) { "expires soon, " } else { "" };
    let left = match u64::try_from(days) {
        Ok(days) => format!("{soon}{} left", days_of(days)),
        Err(_) => format!("expired {} ago", days_of(days.unsigned_abs())),
    };
    Some(joined([
        Some(verdict),
        Some(format!("{left}{until}")),
        texts(result, "names").map(|names| format!("for {names}")),
        number(result, "chain_length").map(|many| format!("{} in the chain", count(many, "certificate"))),
    ]))
}

fn days_of(days: u64) -> String {
    if days == 1 { "1 day".to_owned() } else { format!("{days} days") }
}

fn web(result: &Value) -> Option<String> {
    let server = result.get("headers").and_then(|headers| word(headers, "server"));
    let status = number(result, "status").map(|status| format!("status {status}"));
    let late = word(result, "timed_out").map(|what| {
        let waited = number(result, "waited_ms").map(|ms| format!(" after {ms} ms")).unwrap_or_default();
        format!("TIMED OUT{waited} without a whole {what}")
    });
    if status.is_none() && late.is_none() {
        return None;
    }
    Some(joined([
        status,
        late,
        number(result, "first_byte_ms").map(|ms| format!("first byte after {ms} ms")),
        number(result, "body_bytes").map(size),
        server.map(|server| format!("server {server}")),
        result.get("location").and_then(|to| word(to, "host")).map(|host| format!("redirects to {host}")),
        word(result, "location_left_out").map(|why| format!("redirects to {why}")),
    ]))
}

fn port(result: &Value) -> Option<String> {
    let line = |one: &Value| {
        let took = number(one, "connect_ms").map(|ms| format!(" after {ms} ms")).unwrap_or_default();
        Some(format!("{}: {}{took}", word(one, "address")?, word(one, "outcome")?.replace('_', " ")))
    };
    Some(format!("{}{}", word(result, "outcome")?.replace('_', " "), items(result, "tried", line)?))
}

fn name(result: &Value) -> Option<String> {
    let addresses: Vec<String> = ["ipv4", "ipv6"].iter().filter_map(|family| texts(result, family)).collect();
    let outcome = word(result, "outcome")?.replace('_', " ");
    Some(match addresses.is_empty() {
        true => outcome,
        false => format!("{outcome}: {}", addresses.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::probed;
    use serde_json::json;

    #[test]
    fn other_ends_are_told_in_few_lines() {
        let check = |tool: &str, result: serde_json::Value, expect: &str| {
            assert_eq!(probed(tool, &result).as_deref(), Some(expect), "{tool}");
        };
        let chain = json!([{ "not_after": "2020-01-01T00:00:00.000000Z" }]);
        check(
            "tls_certificate",
            json!({ "verdict": "refused", "problems": ["expired", "wrong_name"], "days_left": -2, "chain": chain,
                "names": ["a.example", "b.example"], "chain_length": 1 }),
            "refused: expired, wrong name; expired 2 days ago, until 2020-01-01T00:00:00Z; for a.example, b.example; 1 \
             certificate in the chain",
        );
        check(
            "certificate_file",
            json!({ "verdict": "accepted", "problems": [], "days_left": 1, "expires_soon": true, "chain": [] }),
            "accepted; expires soon, 1 day left",
        );
        check(
            "http_probe",
            json!({ "status": 301, "first_byte_ms": 3, "body_bytes": 0, "headers": { "server": "n\u{1b}x" },
                "location": { "host": "www.example.com" } }),
            "status 301; first byte after 3 ms; 0 bytes; server n\\u{1b}x; redirects to www.example.com",
        );
        check(
            "tcp_probe",
            json!({ "outcome": "timed_out", "tried": [{ "address": "::1", "outcome": "timed_out", "connect_ms": 9 }] }),
            "timed out\n  ::1: timed out after 9 ms",
        );
        check(
            "dns_lookup",
            json!({ "outcome": "found", "ipv4": ["192.0.2.1"], "ipv6": ["2001:db8::1"] }),
            "found: 192.0.2.1, 2001:db8::1",
        );
        check("dns_lookup", json!({ "outcome": "no_address", "ipv4": [], "ipv6": [] }), "no address");
        assert_eq!(probed("tls_certificate", &json!({ "verdict": "accepted" })), None);
    }
}
