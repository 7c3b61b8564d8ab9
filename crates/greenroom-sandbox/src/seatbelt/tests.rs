use proptest::prelude::*;

use super::*;
use crate::policy::{HostPattern, Level, Private, Protected};

fn made(policy: &Policy) -> Profile {
    profile(policy, Path::new("/dev/ttys007"), 3128).unwrap()
}

/// Without the lines every profile has.
fn own_lines(policy: &Policy) -> String {
    let made = made(policy);
    let params: Vec<String> =
        made.params.iter().map(|(name, value)| format!("{name}={}", value.display())).collect();
    format!("{}\n{}", made.text.strip_prefix(BASE).unwrap(), params.join("\n"))
}

#[test]
fn a_plain_session() {
    let policy = Policy {
        hidden: vec!["/Users/u/.ssh".into()],
        protected: vec![Protected::existing("/Users/u/p/.vscode")],
        ..Policy::new(Level::Full, "/Users/u/p", "/private/tmp/s1")
    };
    insta::assert_snapshot!(own_lines(&policy), @r#"
    (allow process-fork)
    (allow file-read* file-test-existence)
    (allow file-read* file-write* (subpath (param "WRITE_0")))
    (allow file-read* file-write* (subpath (param "TMP_0")))
    (deny file-write* (subpath (param "FIXED_0")))
    (deny file-write-unlink (literal (param "FIXED_PARENT_0")))
    (deny file-read* file-write* (subpath (param "HIDDEN_0")))
    (deny file-write-setugid)

    TTY=/dev/ttys007
    WRITE_0=/Users/u/p
    TMP_0=/private/tmp/s1
    FIXED_0=/Users/u/p/.vscode
    FIXED_PARENT_0=/Users/u/p
    HIDDEN_0=/Users/u/.ssh
    "#);
}

#[test]
fn a_worktree_with_hosts() {
    let policy = Policy {
        network: Network::Hosts(vec![HostPattern::parse("example.com").unwrap()]),
        git: Some(GitRules::Worktree {
            worktree: "/w".into(),
            common_dir: "/r/.git".into(),
            admin_dir: "/r/.git/worktrees/w".into(),
            refs: Refs::Own { dir: "greenroom/s1".into() },
        }),
        ..Policy::new(Level::Full, "/w", "/private/tmp/s1")
    };
    insta::assert_snapshot!(own_lines(&policy), @r#"
    (allow process-fork)
    (allow file-read* file-test-existence)
    (allow file-read* file-write* (subpath (param "WRITE_0")))
    (allow file-read* file-write* (subpath (param "TMP_0")))
    (allow file-write* (subpath (param "GIT_0")))
    (allow file-write* (subpath (param "GIT_1")))
    (allow file-write* (subpath (param "GIT_2")))
    (allow file-write* (subpath (param "GIT_3")))
    (deny file-write* (subpath (param "GIT_FIXED_0")))
    (deny file-write* (subpath (param "GIT_FIXED_1")))
    (deny file-write* (subpath (param "GIT_FIXED_2")))
    (deny file-write* (subpath (param "GIT_FIXED_3")))
    (deny file-write* (subpath (param "GIT_FIXED_4")))
    (deny file-write* (subpath (param "GIT_FIXED_5")))
    (allow network-outbound (remote ip "localhost:3128"))
    (deny file-write-setugid)

    TTY=/dev/ttys007
    WRITE_0=/w
    TMP_0=/private/tmp/s1
    GIT_0=/r/.git/worktrees/w
    GIT_1=/r/.git/objects
    GIT_2=/r/.git/refs/heads/greenroom/s1
    GIT_3=/r/.git/logs/refs/heads/greenroom/s1
    GIT_FIXED_0=/r/.git/objects/pack
    GIT_FIXED_1=/r/.git/objects/info
    GIT_FIXED_2=/r/.git/worktrees/w/commondir
    GIT_FIXED_3=/r/.git/worktrees/w/gitdir
    GIT_FIXED_4=/r/.git/worktrees/w/config.worktree
    GIT_FIXED_5=/w/.git
    "#);
}

#[test]
fn a_main_checkout() {
    let git = GitRules::Checkout { git_dir: "/p/.git".into(), modules: vec![] };
    let policy = Policy { git: Some(git), ..Policy::new(Level::Full, "/p", "/private/tmp/s1") };
    insta::assert_snapshot!(own_lines(&policy), @r#"
    (allow process-fork)
    (allow file-read* file-test-existence)
    (allow file-read* file-write* (subpath (param "WRITE_0")))
    (allow file-read* file-write* (subpath (param "TMP_0")))
    (deny file-write* (subpath (param "GIT_FIXED_0")))
    (deny file-write* (subpath (param "GIT_FIXED_1")))
    (deny file-write* (subpath (param "GIT_FIXED_2")))
    (deny file-write* (subpath (param "GIT_FIXED_3")))
    (deny file-write* (subpath (param "GIT_FIXED_4")))
    (deny file-write-unlink (literal (param "GIT_PARENT_0")))
    (deny file-write-unlink (literal (param "GIT_PARENT_1")))
    (deny file-write-setugid)

    TTY=/dev/ttys007
    WRITE_0=/p
    TMP_0=/private/tmp/s1
    GIT_FIXED_0=/p/.git/hooks
    GIT_FIXED_1=/p/.git/config
    GIT_FIXED_2=/p/.git/config.worktree
    GIT_FIXED_3=/p/.git/info/attributes
    GIT_FIXED_4=/p/.git/commondir
    GIT_PARENT_0=/p/.git
    GIT_PARENT_1=/p/.git/info
    "#);
}

#[test]
fn a_plugin_and_an_open_network() {
    let policy = Policy {
        reads: Reads::Only(vec!["/plugin".into()]),
        spawn: false,
        network: Network::Open,
        ..Policy::new(Level::Full, "/data", "/private/tmp/s1")
    };
    insta::assert_snapshot!(own_lines(&policy), @r#"
    (allow file-read-metadata)
    (allow file-read*
      (subpath "/usr") (subpath "/bin") (subpath "/sbin") (subpath "/System") (subpath "/Library/Apple")
      (subpath "/private/etc/ssl") (literal "/private/etc/localtime") (literal "/dev/dtracehelper"))
    (allow file-read* (subpath (param "READ_0")))
    (allow file-read* file-write* (subpath (param "WRITE_0")))
    (allow file-read* file-write* (subpath (param "TMP_0")))
    (allow network-outbound (remote ip))
    (allow network-inbound (local ip "localhost:*"))
    (allow system-socket)
    (allow mach-lookup (global-name "com.apple.SystemConfiguration.DNSConfiguration"))
    (deny file-write-setugid)

    TTY=/dev/ttys007
    READ_0=/plugin
    WRITE_0=/data
    TMP_0=/private/tmp/s1
    "#);
}

proptest! {
    /// A path of any name leaves the text what it would be for any other path.
    #[test]
    fn paths_never_become_text(name in "[^\0/.][^\0/]{0,29}", hidden in "[^\0/.][^\0/]{0,29}") {
        let with = |name: &str, hidden: &str| Policy {
            hidden: vec![Path::new("/h").join(hidden)],
            protected: vec![Protected::existing(Path::new("/w").join(name).join("x"))],
            git: Some(GitRules::Worktree {
                worktree: Path::new("/w").join(name),
                common_dir: Path::new("/r").join(name),
                admin_dir: Path::new("/r").join(name).join("worktrees/w"),
                refs: Refs::Own { dir: name.to_owned() },
            }),
            ..Policy::new(Level::Full, Path::new("/w").join(name), "/t")
        };
        let evil = made(&with(&name, &hidden));
        let plain = made(&with("plain", "plain"));
        // Printed as a file, every line is of the text or a comment.
        let printed = evil.to_string();
        prop_assert_eq!(printed.lines().count(), plain.to_string().lines().count());
        prop_assert!(printed.lines().skip(plain.text.lines().count() + 2).all(|it| it.starts_with(";;")));
        prop_assert_eq!(evil.text, plain.text);
    }
}

#[test]
fn a_copy_of_its_own_is_writable_where_it_lies() {
    let own = Private { at: "/Users/u/.agent".into(), from: "/state/agent".into(), views: vec![] };
    let policy =
        Policy { private: vec![own], ..Policy::new(Level::Full, "/Users/u/p", "/private/tmp/s1") };
    let made = made(&policy);
    assert!(made.params.contains(&("PRIVATE_0".into(), "/state/agent".into())), "{made:?}");
    assert!(made.text.contains("(allow file-read* file-write* (subpath (param \"PRIVATE_0\")))"));
}

#[test]
fn as_a_file_it_says_that_it_is_untried_and_what_goes_with_it() {
    let printed = made(&Policy::new(Level::Full, "/w/a\n(allow default)", "/t")).to_string();
    assert!(printed.starts_with(";; untried on a Mac: "), "{printed}");
    let end = printed.split_once("(deny file-write-setugid)").unwrap().1;
    insta::assert_snapshot!(end.trim(), @r#"
    ;; sandbox-exec -f FILE, and for each of these -D:
    ;;   TTY="/dev/ttys007"
    ;;   WRITE_0="/w/a\n(allow default)"
    ;;   TMP_0="/t"
    "#);
}

#[test]
fn what_no_sandbox_may_write_is_refused_here_too() {
    for wide in ["/", "/usr", "relative"] {
        let policy = Policy::new(Level::Full, wide, "/t");
        assert!(profile(&policy, Path::new("/dev/ttys007"), 3128).is_err(), "{wide}");
    }
}

#[test]
fn quotes_and_parentheses_in_a_name_stay_in_its_parameter() {
    let name = "/w\")(allow default)(deny (literal \"";
    let made = made(&Policy::new(Level::Full, name, "/t"));
    assert!(!made.text.contains("allow default"));
    assert!(made.params.contains(&("WRITE_0".into(), name.into())));
}
