//! The addresses to which a tool may be connected.

use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether a tool may be connected to `ip`.
///
/// Public unicast addresses are permitted. Loopback, private, documentation and benchmarking
/// addresses are permitted only if `named` contains them. Unspecified, multicast, broadcast,
/// link-local, metadata and reserved addresses never are. An IPv6 address that embeds an IPv4
/// address is judged as that address.
pub fn check(ip: IpAddr, named: &[IpNet]) -> Result<(), Forbidden> {
    let range = range_of(ip);
    let refuse = |what| Err(Forbidden { ip, inside: None, what });
    match range.may {
        May::Always => Ok(()),
        May::WhereNamed if named.iter().any(|net| net.contains(&ip)) => Ok(()),
        May::WhereNamed | May::Never => refuse(range.what),
        May::AsInside(from) => {
            let inside = inside(ip, from);
            check(inside, named).map_err(|why| Forbidden { ip, inside: Some(inside), what: why.what })
        }
    }
}

/// Why a tool may not be connected to an address: `192.168.0.1 is private`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{ip} {}{what}", inside.map_or_else(|| "is ".to_owned(), |inside| format!("contains {inside}, which is ")))]
pub struct Forbidden {
    ip: IpAddr,
    inside: Option<IpAddr>,
    what: &'static str,
}

impl Forbidden {
    /// Whether naming the address would not help.
    #[must_use]
    pub fn is_final(&self) -> bool {
        let host = IpNet::from(self.inside.unwrap_or(self.ip));
        check(self.ip, &[host]).is_err()
    }
}

struct Range {
    net: IpNet,
    may: May,
    what: &'static str,
}

#[derive(Clone, Copy)]
enum May {
    Always,
    WhereNamed,
    Never,
    /// Judged as the IPv4 address that begins at this bit.
    AsInside(u32),
}
use May::{Always, AsInside, Never, WhereNamed};

/// IANA's registries of special-purpose addresses for IPv4 and IPv6, and other reserved ranges. The
/// first range that contains an address decides, so an exception precedes its rule. The last two
/// ranges catch the rest.
#[rustfmt::skip]
const RANGES: &[Range] = &[
    // Services of hosting providers, outside link-local, that give credentials to any client.
    v4([100, 100, 100, 200], 32, Never, "a metadata service"),
    v4([168, 63, 129, 16], 32, Never, "a metadata service"),
    v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128, Never, "a metadata service"),

    v4([0, 0, 0, 0], 32, Never, "unspecified"),                              // RFC 1122
    v4([0, 0, 0, 0], 8, Never, "of this network"),                           // RFC 791
    v4([10, 0, 0, 0], 8, WhereNamed, "private"),                             // RFC 1918
    v4([100, 64, 0, 0], 10, WhereNamed, "shared by a provider's customers"), // RFC 6598
    v4([127, 0, 0, 0], 8, WhereNamed, "loopback"),                           // RFC 1122
    v4([169, 254, 0, 0], 16, Never, "link-local"),                           // RFC 3927
    v4([172, 16, 0, 0], 12, WhereNamed, "private"),                          // RFC 1918
    v4([192, 0, 0, 9], 32, Always, "public"),                                // RFC 7723: port control, anycast
    v4([192, 0, 0, 10], 32, Always, "public"),                               // RFC 8155: TURN, anycast
    v4([192, 0, 0, 0], 24, Never, "for IETF protocols"),                     // RFC 6890, 7335, 7600, 8880
    v4([192, 0, 2, 0], 24, WhereNamed, "for documentation"),                 // RFC 5737
    v4([192, 31, 196, 0], 24, Always, "public"),                             // RFC 7535: AS112
    v4([192, 52, 193, 0], 24, Always, "public"),                             // RFC 7450: AMT
    v4([192, 88, 99, 0], 24, Never, "a 6to4 relay"),                         // RFC 7526, 6751
    v4([192, 168, 0, 0], 16, WhereNamed, "private"),                         // RFC 1918
    v4([192, 175, 48, 0], 24, Always, "public"),                             // RFC 7534: AS112
    v4([198, 18, 0, 0], 15, WhereNamed, "for benchmarks"),                   // RFC 2544
    v4([198, 51, 100, 0], 24, WhereNamed, "for documentation"),              // RFC 5737
    v4([203, 0, 113, 0], 24, WhereNamed, "for documentation"),               // RFC 5737
    v4([224, 0, 0, 0], 4, Never, "multicast"),                               // RFC 5771
    v4([255, 255, 255, 255], 32, Never, "broadcast"),                        // RFC 919
    v4([240, 0, 0, 0], 4, Never, "reserved"),                                // RFC 1112

    v6([0, 0, 0, 0, 0, 0, 0, 0], 128, Never, "unspecified"),                 // RFC 4291
    v6([0, 0, 0, 0, 0, 0, 0, 1], 128, WhereNamed, "loopback"),               // RFC 4291
    v6([0, 0, 0, 0, 0, 0xffff, 0, 0], 96, AsInside(96), "mapped"),           // RFC 4291
    v6([0, 0, 0, 0, 0, 0, 0, 0], 96, AsInside(96), "IPv4-compatible"),       // RFC 4291
    v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96, AsInside(96), "translated"),    // RFC 6052: NAT64
    v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48, Never, "translated by its own network"), // RFC 8215
    v6([0x100, 0, 0, 0, 0, 0, 0, 0], 64, Never, "discard-only"),             // RFC 6666
    v6([0x100, 0, 0, 1, 0, 0, 0, 0], 64, Never, "a dummy prefix"),           // RFC 9780
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32, Never, "a Teredo tunnel"),         // RFC 4380
    v6([0x2001, 1, 0, 0, 0, 0, 0, 1], 128, Always, "public"),                // RFC 7723: port control, anycast
    v6([0x2001, 1, 0, 0, 0, 0, 0, 2], 128, Always, "public"),                // RFC 8155: TURN, anycast
    v6([0x2001, 1, 0, 0, 0, 0, 0, 3], 128, Always, "public"),                // RFC 9665: DNS-SD, anycast
    v6([0x2001, 2, 0, 0, 0, 0, 0, 0], 48, WhereNamed, "for benchmarks"),     // RFC 5180
    v6([0x2001, 3, 0, 0, 0, 0, 0, 0], 32, Always, "public"),                 // RFC 7450: AMT
    v6([0x2001, 4, 0x112, 0, 0, 0, 0, 0], 48, Always, "public"),             // RFC 7535: AS112
    v6([0x2001, 0x20, 0, 0, 0, 0, 0, 0], 28, Never, "an ORCHID"),            // RFC 7343: a hash, not a location
    v6([0x2001, 0x30, 0, 0, 0, 0, 0, 0], 28, Never, "a drone's remote ID tag"), // RFC 9374: a hash, not a location
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, Never, "for IETF protocols"),      // RFC 2928, 4843
    v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, WhereNamed, "for documentation"), // RFC 3849
    v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, AsInside(16), "6to4"),             // RFC 3056
    v6([0x2620, 0x4f, 0x8000, 0, 0, 0, 0, 0], 48, Always, "public"),         // RFC 7534: AS112
    v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, WhereNamed, "for documentation"),  // RFC 9637
    v6([0x5f00, 0, 0, 0, 0, 0, 0, 0], 16, Never, "a segment identifier"),    // RFC 9602
    v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, WhereNamed, "private"),             // RFC 4193
    v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, Never, "link-local"),              // RFC 4291
    v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, Never, "site-local"),              // RFC 3879
    v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, Never, "multicast"),                // RFC 4291
    v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3, Always, "public"),                  // RFC 4291: global unicast
    v4([0, 0, 0, 0], 0, Always, "public"),
    v6([0, 0, 0, 0, 0, 0, 0, 0], 0, Never, "reserved"),                      // RFC 4291
];

const fn v4(ip: [u8; 4], bits: u8, may: May, what: &'static str) -> Range {
    let [a, b, c, d] = ip;
    Range { net: IpNet::new_assert(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), bits), may, what }
}

const fn v6(ip: [u16; 8], bits: u8, may: May, what: &'static str) -> Range {
    let [a, b, c, d, e, f, g, h] = ip;
    Range { net: IpNet::new_assert(IpAddr::V6(Ipv6Addr::new(a, b, c, d, e, f, g, h)), bits), may, what }
}

fn range_of(ip: IpAddr) -> &'static Range {
    const NONE: &Range = &v4([0, 0, 0, 0], 0, Never, "outside every range");
    RANGES.iter().find(|range| range.net.contains(&ip)).unwrap_or(NONE)
}

/// The 32 bits of an IPv6 address from bit `from` on. Returns an IPv4 address unchanged; no range
/// that calls this contains one.
fn inside(ip: IpAddr, from: u32) -> IpAddr {
    match ip {
        IpAddr::V4(_) => ip,
        IpAddr::V6(ip) => {
            let [.., a, b, c, d] = (ip.to_bits() >> 96_u32.saturating_sub(from)).to_be_bytes();
            Ipv4Addr::new(a, b, c, d).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{May, RANGES, check};
    use crate::egress::IpNet;
    use crate::types::laws;
    use proptest::prelude::*;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    fn told(ip: &str, named: &[&str]) -> String {
        let named: Vec<IpNet> = named.iter().map(|net| net.parse().expect(net)).collect();
        match check(ip.parse().expect(ip), &named) {
            Ok(()) => "may".to_owned(),
            Err(why) => why.to_string().strip_prefix(ip).expect(ip).trim_start().to_owned(),
        }
    }

    const ALL: [&str; 2] = ["0.0.0.0/0", "::/0"];

    /// An address, the verdict if nothing is named, and the verdict if everything is.
    const JUDGED: &[(&str, &str, &str)] = &[
        ("1.1.1.1", "may", "may"),
        ("223.255.255.255", "may", "may"),
        ("192.0.0.9", "may", "may"),
        ("192.31.196.1", "may", "may"),
        ("2606:4700::1111", "may", "may"),
        ("2620:4f:8000::1", "may", "may"),
        ("2001:1::1", "may", "may"),
        ("2001:200::1", "may", "may"),
        ("10.0.0.1", "is private", "may"),
        ("172.16.0.1", "is private", "may"),
        ("172.31.255.255", "is private", "may"),
        ("172.32.0.1", "may", "may"),
        ("192.168.0.1", "is private", "may"),
        ("127.0.0.1", "is loopback", "may"),
        ("127.255.255.255", "is loopback", "may"),
        ("100.64.0.1", "is shared by a provider's customers", "may"),
        ("100.127.255.255", "is shared by a provider's customers", "may"),
        ("100.128.0.1", "may", "may"),
        ("198.19.0.1", "is for benchmarks", "may"),
        ("192.0.2.1", "is for documentation", "may"),
        ("198.51.100.1", "is for documentation", "may"),
        ("203.0.113.1", "is for documentation", "may"),
        ("0.0.0.0", "is unspecified", "is unspecified"),
        ("0.1.2.3", "is of this network", "is of this network"),
        ("169.254.169.254", "is link-local", "is link-local"),
        ("100.100.100.200", "is a metadata service", "is a metadata service"),
        ("168.63.129.16", "is a metadata service", "is a metadata service"),
        ("192.0.0.170", "is for IETF protocols", "is for IETF protocols"),
        ("192.88.99.1", "is a 6to4 relay", "is a 6to4 relay"),
        ("224.0.0.1", "is multicast", "is multicast"),
        ("239.255.255.255", "is multicast", "is multicast"),
        ("240.0.0.1", "is reserved", "is reserved"),
        ("255.255.255.255", "is broadcast", "is broadcast"),
        ("::", "is unspecified", "is unspecified"),
        ("::1", "is loopback", "may"),
        ("fd12:3456::1", "is private", "may"),
        ("fc00::1", "is private", "may"),
        ("fd00:ec2::254", "is a metadata service", "is a metadata service"),
        ("fe80::1", "is link-local", "is link-local"),
        ("febf::1", "is link-local", "is link-local"),
        ("fec0::1", "is site-local", "is site-local"),
        ("ff02::1", "is multicast", "is multicast"),
        ("100::1", "is discard-only", "is discard-only"),
        ("100:0:0:1::1", "is a dummy prefix", "is a dummy prefix"),
        ("2001::1", "is a Teredo tunnel", "is a Teredo tunnel"),
        ("2001:2::1", "is for benchmarks", "may"),
        ("2001:10::1", "is for IETF protocols", "is for IETF protocols"),
        ("2001:20::1", "is an ORCHID", "is an ORCHID"),
        ("2001:db8::1", "is for documentation", "may"),
        ("3fff::1", "is for documentation", "may"),
        ("5f00::1", "is a segment identifier", "is a segment identifier"),
        ("4000::1", "is reserved", "is reserved"),
        ("::ffff:8.8.8.8", "may", "may"),
        ("::ffff:10.0.0.1", "contains 10.0.0.1, which is private", "may"),
        (
            "::ffff:169.254.169.254",
            "contains 169.254.169.254, which is link-local",
            "contains 169.254.169.254, which is link-local",
        ),
        ("::7f00:1", "contains 127.0.0.1, which is loopback", "may"),
        ("::2", "contains 0.0.0.2, which is of this network", "contains 0.0.0.2, which is of this network"),
        ("64:ff9b::808:808", "may", "may"),
        ("64:ff9b::7f00:1", "contains 127.0.0.1, which is loopback", "may"),
        ("64:ff9b:1::808:808", "is translated by its own network", "is translated by its own network"),
        ("2002:808:808::1", "may", "may"),
        ("2002:a00:1::1", "contains 10.0.0.1, which is private", "may"),
    ];

    #[test]
    fn what_may_be_where_nothing_is_named_and_where_all_is() {
        for (ip, plain, named) in JUDGED {
            assert_eq!((told(ip, &[]).as_str(), told(ip, &ALL).as_str()), (*plain, *named), "{ip}");
        }
    }

    #[test]
    fn only_what_is_named_is_named() {
        for (ip, net, expect) in [
            ("10.1.2.3", "10.1.2.0/24", "may"),
            ("10.1.3.3", "10.1.2.0/24", "is private"),
            ("127.0.0.1", "10.0.0.0/8", "is loopback"),
            ("::ffff:10.1.2.3", "10.1.2.0/24", "may"),
            ("::ffff:10.1.3.3", "10.1.2.0/24", "contains 10.1.3.3, which is private"),
            ("::1", "127.0.0.0/8", "is loopback"),
            ("fd00::1", "fd00::/64", "may"),
        ] {
            assert_eq!(told(ip, &[net]), expect, "{ip} in {net}");
        }
    }

    #[test]
    fn no_range_is_hidden_by_one_before_it() {
        // The last two ranges, which catch the rest, are exempt.
        for (at, range) in RANGES.iter().enumerate().filter(|(_, range)| range.net.prefix_len() > 0) {
            let hit = |ip| RANGES.iter().position(|range| range.net.contains(&ip)) == Some(at);
            // An earlier exception may cover one end.
            assert!(hit(range.net.network()) || hit(range.net.broadcast()), "{}", range.net);
            assert_eq!(range.net, range.net.trunc(), "bits beyond its length");
        }
    }

    proptest! {
        #![proptest_config(laws::cases(1024))]

        /// The standard library classifies some of the ranges too.
        #[test]
        fn no_special_address_of_the_standard_library_is_public(v4 in any::<u32>(), v6 in any::<u128>(), top in 0_u32..0x300) {
            let ip = Ipv4Addr::from_bits(v4);
            let special = ip.is_private() || ip.is_loopback() || ip.is_link_local() || ip.is_broadcast()
                || ip.is_documentation() || ip.is_multicast() || ip.is_unspecified();
            prop_assert!(!special || check(ip.into(), &[]).is_err(), "{}", ip);
            for ip in [Ipv6Addr::from_bits(v6), Ipv6Addr::from_bits(v6 >> 16 | u128::from(0xfd00 + top) << 112)] {
                let special = ip.is_loopback() || ip.is_multicast() || ip.is_unspecified() || ip.is_unique_local()
                    || ip.is_unicast_link_local();
                prop_assert!(!special || check(ip.into(), &[]).is_err(), "{}", ip);
            }
        }

        /// An embedded IPv4 address is judged the same, whatever the form that embeds it.
        #[test]
        fn an_address_inside_another_is_judged_as_itself(v4 in any::<u32>(), low in any::<u64>()) {
            let four = Ipv4Addr::from_bits(v4);
            let bits = u128::from(v4);
            let all: Vec<IpNet> = ALL.iter().map(|net| net.parse().expect("a net")).collect();
            for named in [&[][..], &all] {
                let alone = check(four.into(), named).is_ok();
                for six in [
                    0xffff << 32 | bits,
                    0x64_ff9b << 96 | bits,
                    0x2002 << 112 | bits << 80 | u128::from(low),
                ] {
                    let six = Ipv6Addr::from_bits(six);
                    prop_assert_eq!(check(IpAddr::V6(six), named).is_ok(), alone, "{}", six);
                }
            }
        }
    }

    #[test]
    fn ipv4_is_inside_of_four_kinds_of_address() {
        assert_eq!(RANGES.iter().filter(|range| matches!(range.may, May::AsInside(_))).count(), 4);
    }
}
