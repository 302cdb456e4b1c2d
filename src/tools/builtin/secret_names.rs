//! Names that look like a secret's, such as `db_password`, and values with credentials in them.
//!
//! A closed list, to leave out what an operator would not want to see by accident. It is not a
//! wall: a secret under another name is not recognized.

/// What stands in place of a value.
pub(super) const LEFT_OUT: &str = "[left out]";

/// Parts of names, without case and marks.
const PARTS: [&str; 22] = [
    "accesskey",
    "apikey",
    "authkey",
    "authorization",
    "bearer",
    "connectionstring",
    "cookie",
    "credential",
    "encryptionkey",
    "hmackey",
    "htpasswd",
    "masterkey",
    "passphrase",
    "passwd",
    "password",
    "privatekey",
    "pwd",
    "secret",
    "sessionkey",
    "signingkey",
    "sshkey",
    "token",
];
/// Whole names, or words of names between marks.
const WORDS: [&str; 10] = ["auth", "dsn", "jwt", "key", "pass", "pin", "pw", "salt", "seed", "userpass"];

/// Whether `name` looks like the name of a secret.
pub(super) fn is_secret_name(name: &str) -> bool {
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    let words = || name.split(|c: char| !c.is_ascii_alphanumeric());
    PARTS.iter().any(|part| plain.contains(part))
        || words().any(|word| WORDS.iter().any(|one| word.eq_ignore_ascii_case(one)))
}

/// `value` without the user's part of a URL, such as `name:password@`, and without the values of
/// parameters in its query that have the name of a secret.
pub(super) fn without_credentials(value: &str) -> String {
    let Some((scheme, rest)) = value.split_once("://") else { return value.to_owned() };
    let end = rest.find(['/', '?', '#', ' ']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at_checked(end).unwrap_or((rest, ""));
    let path = without_parameters(path);
    match authority.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://{LEFT_OUT}@{host}{path}"),
        None => format!("{scheme}://{authority}{path}"),
    }
}

/// The end of a URL, from its path on, without such values.
fn without_parameters(path: &str) -> String {
    let Some((path, query)) = path.split_once('?') else { return path.to_owned() };
    let (query, rest) =
        query.split_at_checked(query.find(['#', ' ']).unwrap_or(query.len())).unwrap_or((query, ""));
    let shown = query.split_inclusive(['&', ';']).map(|one| {
        let (inner, mark) = one.split_at_checked(one.trim_end_matches(['&', ';']).len()).unwrap_or((one, ""));
        match inner.split_once('=') {
            Some((name, value)) if !value.is_empty() && is_secret_name(name) => {
                format!("{name}={LEFT_OUT}{mark}")
            }
            _ => one.to_owned(),
        }
    });
    format!("{path}?{}{rest}", shown.collect::<String>())
}

/// Whether `value` holds a private key (RFC 7468), whatever its name is.
pub(super) fn is_private_key(value: &str) -> bool {
    value.contains("-----BEGIN") && value.contains("PRIVATE KEY-----")
}

#[cfg(test)]
mod tests {
    use super::{is_private_key, is_secret_name, without_credentials};

    #[test]
    fn names_of_secrets_are_recognized_in_any_spelling() {
        for name in
            ["password", "DB_PASSWORD", "--api-key", "apiKey", "ssl_key", "auth", "refreshToken", "smtp.pass"]
        {
            assert!(is_secret_name(name), "{name}");
        }
        for name in ["", "port", "keyboard", "passenger", "bypass_cache", "author", "monkey", "listen"] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn a_url_loses_its_user() {
        for (value, expect) in [
            ("https://a:b@h:1/p?q=x@y", "https://[left out]@h:1/p?q=x@y"),
            ("redis://:b@h", "redis://[left out]@h"),
            ("https://h/p@x", "https://h/p@x"),
            ("a@b", "a@b"),
            ("x://a@b@c", "x://[left out]@c"),
            (
                "postgres://h/db?user=x&password=p%40&sslmode=on",
                "postgres://h/db?user=x&password=[left out]&sslmode=on",
            ),
            ("https://a:b@h?api_key=k;x=1#token=t", "https://[left out]@h?api_key=[left out];x=1#token=t"),
            ("https://h/?q=a?token=b&token=&&token", "https://h/?q=a?token=b&token=&&token"),
        ] {
            assert_eq!(without_credentials(value), expect);
        }
        assert!(
            is_private_key("-----BEGIN EC PRIVATE KEY-----\nx")
                && !is_private_key("-----BEGIN CERTIFICATE-----")
        );
    }
}
