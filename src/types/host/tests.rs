//! Each host and URL has one spelling; anything else is refused.

use super::{HostPort, WebUrl};
use crate::types::{laws, limits};
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

#[test]
fn every_spelling_of_a_host_is_one() {
    for (text, expect) in [
        ("git.example.com:443", "git.example.com:443"),
        ("GIT.Example.COM:443", "git.example.com:443"),
        ("git.example.com.:443", "git.example.com:443"),
        ("git.example.com:00443", "git.example.com:443"),
        ("git\u{3002}example\u{ff0e}com:443", "git.example.com:443"),
        ("\u{ff27}it.example.com:443", "git.example.com:443"),
        ("g\u{ad}it.exam\u{200b}ple.com:443", "git.example.com:443"),
        ("b\u{fc}cher.example:443", "xn--bcher-kva.example:443"),
        ("bu\u{308}cher.example:443", "xn--bcher-kva.example:443"),
        ("XN--BCHER-KVA.example:443", "xn--bcher-kva.example:443"),
        ("stra\u{df}e.example:1", "xn--strae-oqa.example:1"),
        ("_dmarc.a_b.example:65535", "_dmarc.a_b.example:65535"),
        ("r3---sn-x.example:443", "r3---sn-x.example:443"),
        ("localhost:80", "localhost:80"),
        ("192.0.2.1:80", "192.0.2.1:80"),
        ("192.0.2.1.:80", "192.0.2.1:80"),
        ("192.0.513:80", "192.0.2.1:80"),
        ("3221225985:80", "192.0.2.1:80"),
        ("0xC0000201:80", "192.0.2.1:80"),
        ("0300.0.02.01:80", "192.0.2.1:80"),
        ("\u{ff11}\u{ff19}\u{ff12}.0.2.1:80", "192.0.2.1:80"),
        ("127.1:80", "127.0.0.1:80"),
        ("0:80", "0.0.0.0:80"),
        ("[::ffff:192.0.2.1]:80", "192.0.2.1:80"),
        ("[::FFFF:c000:201]:80", "192.0.2.1:80"),
        ("[2001:DB8:0:0:0:0:0:1]:443", "[2001:db8::1]:443"),
        ("[::192.0.2.1]:80", "[::c000:201]:80"),
        ("[64:ff9b::192.0.2.1]:80", "[64:ff9b::c000:201]:80"),
    ] {
        let read = HostPort::parse(text).unwrap_or_else(|why| panic!("{text:?} {why}"));
        assert_eq!(read.to_string(), expect, "{text:?}");
        assert_eq!(HostPort::parse(expect), Ok(read), "{text:?}");
    }
}

const NOT_A_HOST_AND_PORT: &[&str] = &[
    "",
    ":",
    ":443",
    "git.example.com",
    "git.example.com:",
    "git.example.com:0",
    "git.example.com:65536",
    "git.example.com:+443",
    "git.example.com:-1",
    "git.example.com:443 ",
    "git.example.com:4\u{663}",
    "git.example.com:443/",
    "git.example.com:443:443",
    "user@git.example.com:443",
    "http://git.example.com:443",
    "git.example.com/x:443",
    "git.example.com\\x:443",
    "git example.com:443",
    " git.example.com:443",
    "git.example.com\0:443",
    "git.example.com\t:443",
    "git.example.com\r\n:443",
    "git%2eexample.com:443",
    "git.ex%61mple.com:443",
    "git.example.com\u{ff0f}x:443",
    "a\u{ff05}2e.com:443",
    "git..example.com:443",
    ".git.example.com:443",
    "git.example.com..:443",
    ".:443",
    "-git.example.com:443",
    "git'example.com:443",
    "a,b.example:443",
    "*.example.com:443",
    "a;b:443",
    "$(id).example:443",
    "1.2.3.4.5:80",
    "0x7f.foo.0x1:80",
    "foo.1:80",
    "256.1.1.1:80",
    "1.2.3.08:80",
    "4294967296:80",
    "1..2:80",
    "::1:80",
    "[::1:80",
    "[::1]80",
    "[::1]:",
    "[fe80::1%eth0]:80",
    "[fe80::1%25eth0]:80",
    "[1.2.3.4]:80",
    "[::1].example:80",
    "xn--a.example:443",
    "xn--ascii-.example:443",
    "xn--.example:443",
    "xn--wca.example:443",
    "xn--bcher-kva-.example:443",
    "xn--bcher-kv\u{e4}.example:443",
    "xn--\u{fc}.example:443",
    "a\u{2024}\u{ff05}b:443",
    "\u{ad}:443",
    "a.\u{ad}.b:443",
    "\u{fffd}.example:443",
];

#[test]
fn anything_but_a_host_and_port_is_refused() {
    let long = format!("{}.example:1", "a".repeat(64));
    let longer = format!("{}example:1", "a.".repeat(124));
    let longest = format!("{}:1", "a".repeat(1 << 20));
    for text in NOT_A_HOST_AND_PORT.iter().copied().chain([long.as_str(), &longer, &longest]) {
        let read = HostPort::parse(text);
        assert!(read.is_err(), "{text:.80?} is {read:?}");
    }
}

#[test]
fn the_parts_of_a_host() {
    for (text, host, port, ip) in [
        ("Git.example.com:0443", "git.example.com", 443, None),
        ("0x7f.1:80", "127.0.0.1", 80, Some(IpAddr::V4(Ipv4Addr::LOCALHOST))),
        ("[0::1]:80", "::1", 80, Some(IpAddr::V6(Ipv6Addr::LOCALHOST))),
    ] {
        let read = HostPort::parse(text).expect(text);
        assert_eq!((read.host(), read.port(), read.ip()), (host, port, ip), "{text}");
    }
}

#[test]
fn every_spelling_of_a_url_is_one() {
    for (text, expect, host_port, path) in [
        ("https://Example.com", "https://example.com/", "example.com:443", "/"),
        ("HTTP://example.com:80/a?b=c", "http://example.com/a?b=c", "example.com:80", "/a?b=c"),
        ("https://example.com:80?", "https://example.com:80/?", "example.com:80", "/?"),
        ("https://example.com.:0443/", "https://example.com/", "example.com:443", "/"),
        ("https://a/b/../c/./%2e%2E/d", "https://a/d", "a:443", "/d"),
        ("https://a/\u{fc}?\u{fc}'\"", "https://a/%C3%BC?%C3%BC%27%22", "a:443", "/%C3%BC?%C3%BC%27%22"),
        ("http://0x7f.1/", "http://127.0.0.1/", "127.0.0.1:80", "/"),
        ("http://[::ffff:1.2.3.4]:8080/", "http://1.2.3.4:8080/", "1.2.3.4:8080", "/"),
        ("http://[2001:DB8::1]", "http://[2001:db8::1]/", "[2001:db8::1]:80", "/"),
        (
            "https://b\u{fc}cher.example/@x:y",
            "https://xn--bcher-kva.example/@x:y",
            "xn--bcher-kva.example:443",
            "/@x:y",
        ),
        ("https://a//b?c?d/e", "https://a//b?c?d/e", "a:443", "//b?c?d/e"),
    ] {
        let read = WebUrl::parse(text).unwrap_or_else(|why| panic!("{text:?} {why}"));
        assert_eq!(read.as_str(), expect, "{text:?}");
        assert_eq!(read.host_port().as_str(), host_port, "{text:?}");
        assert_eq!(read.path_and_query(), path, "{text:?}");
        assert_eq!(read.is_tls(), expect.starts_with("https"), "{text:?}");
        assert_eq!(WebUrl::parse(expect), Ok(read), "{text:?}");
    }
    let header = |text| WebUrl::parse(text).expect(text).host_header().to_owned();
    assert_eq!(header("https://Example.com:443/x"), "example.com");
    assert_eq!(header("http://[::1]:8080/x"), "[::1]:8080");
}

#[test]
fn anything_but_a_web_url_is_refused() {
    let long = format!("https://a/{}", "x".repeat(limits::URL_BYTES_MAX));
    let grows = format!("https://a/{}", "\u{fc}".repeat(limits::URL_BYTES_MAX / 3));
    for text in [
        "",
        "example.com",
        "//example.com/",
        "https:example.com",
        "https:/example.com",
        "https:///example.com",
        "https://",
        "https:///",
        "https://?x",
        "ftp://example.com/",
        "file:///etc/passwd",
        "data:,x",
        "javascript://a/%0aalert",
        "https://user@example.com/",
        "https://user:pw@example.com/",
        "https://@a/",
        "https://a@b@c/",
        "https://example.com/#x",
        "https://example.com/#",
        "https://a\\@b/",
        "https://a/b\\c",
        " https://a/",
        "https://a/ ",
        "https://a/b c",
        "https://a/b\r\nHost: c",
        "https://a\t/",
        "ht\ntps://a/",
        "https://a%2fb/",
        "https://ex%61mple.com/",
        "https://a:0/",
        "https://a:65536/",
        "https://a:/",
        "https://a:+1/",
        "https://[::1%25eth0]/",
        "https://[::1/",
        "https://1.2.3.4.5/",
        "https://a..b/",
        "https://a\u{a0}/",
        long.as_str(),
        grows.as_str(),
    ] {
        let read = WebUrl::parse(text);
        assert!(read.is_err(), "{text:.80?} is {read:?}");
    }
}

/// Texts that are nearly hosts: pieces that confuse parsers, in any order.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-z0-9-]{1,4}",
        "[0-9a-fx:.\\[\\]]{1,6}",
        "xn--[a-z0-9-]{0,8}",
        prop::sample::select(vec![
            ".",
            "..",
            "-",
            "_",
            "%41",
            "@",
            "[::ffff:",
            "]",
            "0x7f",
            "017",
            "\u{ad}",
            "\u{3002}",
            "\u{ff0e}",
            "\u{df}",
            "\u{ff11}",
            "\u{2460}",
            "\u{5d0}",
            "\u{301}",
            "\u{200d}",
            "\u{1f4a9}",
            "A",
            "::",
            "4294967295",
        ])
        .prop_map(str::to_owned),
        any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 1..6).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(laws::cases(1024))]

    #[test]
    fn a_canonical_host_is_its_own_spelling(text in pieces(), port in 1_u16..) {
        let text = format!("{text}:{port}");
        if let Ok(read) = HostPort::parse(&text) {
            prop_assert_eq!(HostPort::parse(read.as_str()), Ok(read.clone()));
            prop_assert_eq!(read.port(), port);
            prop_assert!(read.host().len() <= limits::HOST_BYTES_MAX);
            prop_assert!(read.as_str().bytes().all(|b| b.is_ascii_graphic() && !b.is_ascii_uppercase()));
        }
    }

    /// Any spelling that a resolver would read as an address is recognized as one.
    #[test]
    fn no_literal_address_passes_as_a_name(text in pieces()) {
        if let Ok(read) = HostPort::parse(&format!("{text}:1")) && read.ip().is_none() {
            prop_assert_eq!(read.host().parse::<IpAddr>().ok(), None);
            let last = read.host().rsplit('.').next().unwrap_or_default();
            let is_number = last.bytes().all(|b| b.is_ascii_digit()) || last.starts_with("0x") && last.get(2..).is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
            prop_assert!(!is_number, "{}", read);
        }
    }

    #[test]
    fn every_address_is_read_as_itself(bits in any::<u128>(), v4 in any::<u32>(), port in 1_u16..) {
        let four = Ipv4Addr::from_bits(v4);
        let [a, b, c, d] = four.octets();
        for text in [format!("{four}"), format!("{v4}"), format!("{v4:#x}"), format!("{v4:#X}"), format!("{a:#x}.{b}.{:#o}", u16::from(c) << 8 | u16::from(d)).replace("0o", "0"), format!("[::ffff:{four}]")] {
            let read = HostPort::parse(&format!("{text}:{port}")).map(|read| (read.ip(), read.to_string()));
            prop_assert_eq!(read, Ok((Some(four.into()), format!("{four}:{port}"))), "{}", text);
        }
        let six = Ipv6Addr::from_bits(bits);
        let read = HostPort::parse(&format!("[{six}]:{port}")).expect("an address");
        prop_assert_eq!(read.ip(), Some(IpAddr::V6(six).to_canonical()));
    }

    #[test]
    fn a_canonical_url_is_its_own_spelling(host in pieces(), path in "\\PC{0,12}", port in prop::option::of(any::<u16>())) {
        let port = port.map(|port| format!(":{port}")).unwrap_or_default();
        if let Ok(read) = WebUrl::parse(&format!("https://{host}{port}/{path}")) {
            prop_assert_eq!(WebUrl::parse(read.as_str()), Ok(read.clone()));
            prop_assert!(read.as_str().bytes().all(|b| b.is_ascii_graphic()), "{}", read);
            prop_assert_eq!(format!("https://{}{}", read.host_header(), read.path_and_query()), read.as_str());
        }
    }
}
