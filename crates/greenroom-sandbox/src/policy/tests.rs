use proptest::prelude::*;

use super::*;

#[track_caller]
fn refused(text: &str, part: &str) {
    let error = HostPattern::parse(text).unwrap_err().to_string();
    assert!(error.contains(part), "{text:?}: {error}");
}

#[track_caller]
fn check(pattern: &str, host: &str, expected: bool) {
    let pattern = HostPattern::parse(pattern).unwrap();
    assert_eq!(pattern.matches(host), expected, "{pattern} on {host:?}");
}

#[test]
fn exact_names_mean_themselves_only() {
    check("crates.io", "crates.io", true);
    check("Crates.IO", "cRATES.io.", true);
    check("crates.io", "index.crates.io", false);
    check("crates.io", "crates.io.evil.com", false);
    check("crates.io", "evilcrates.io", false);
    check("crates.io", "crates.io..", false);
}

#[test]
fn a_star_means_every_name_below_but_not_the_domain() {
    check("*.debian.org", "deb.debian.org", true);
    check("*.debian.org", "a.b.debian.org", true);
    check("*.debian.org", "debian.org", false);
    check("*.debian.org", "evildebian.org", false);
    check("*.debian.org", ".debian.org", false);
}

#[test]
fn what_is_no_host_is_never_meant() {
    for host in [
        "",
        ".",
        "127.0.0.1",
        "2130706433",
        "0x7f.1",
        "0x7f000001",
        "127.1",
        "[::1]",
        "::1",
        "a b",
        "a\r\nb",
        "a\0b",
        "crates.io:443",
        "crates_io",
        "-a.com",
        "a-.com",
        "ümlaut.de",
    ] {
        assert!(normalise(host).is_err(), "{host:?}");
        check("*.example.com", host, false);
    }
}

#[test]
fn patterns_that_would_allow_too_much_are_refused() {
    refused("*", "open network");
    refused("*.*", "open network");
    refused("*.com", "top-level");
    refused("a.*.com", "star elsewhere");
    refused("*example.com", "star elsewhere");
    refused("169.254.169.254", "address");
    refused("*.0.0.1", "address");
    refused("https://example.com", "no host name");
    refused("example.com:443", "no host name");
    refused("", "empty");
    refused(&format!("{}.com", "a".repeat(64)), "no host name");
    refused(&"a.".repeat(200), "too long");
}

#[test]
fn a_single_label_is_a_host() {
    check("localhost", "localhost", true);
}

#[test]
fn a_mistake_is_shown_without_control_characters() {
    let error = HostPattern::parse("a\x1b[2Jb").unwrap_err().to_string();
    assert!(!error.contains('\x1b'), "{error:?}");
}

proptest! {
    #[test]
    fn any_text_is_no_panic(text: String, host: String) {
        if let Ok(pattern) = HostPattern::parse(&text) {
            pattern.matches(&host);
            prop_assert_eq!(HostPattern::parse(&pattern.to_string()).unwrap(), pattern);
        }
    }

    #[test]
    fn a_match_ends_in_the_patterns_name(
        name in "[a-z]{1,5}(\\.[a-z]{1,5}){1,2}",
        before in "([a-z0-9]{1,4}\\.){0,3}",
        wildcard: bool,
    ) {
        let pattern = if wildcard { format!("*.{name}") } else { name.clone() };
        let pattern = HostPattern::parse(&pattern).unwrap();
        let host = format!("{before}{name}");
        prop_assert_eq!(pattern.matches(&host), wildcard != before.is_empty());
        let prefixed = format!("x{name}");
        prop_assert!(!pattern.matches(&prefixed));
    }
}
