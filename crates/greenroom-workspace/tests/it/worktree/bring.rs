//! Included files, shared directories, setup and teardown, ports; and the whole as a link of the
//! chain.
#![expect(clippy::print_stderr, reason = "what was not run is said")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use greenroom_engine::SessionId;
use greenroom_engine::term::Size;
use greenroom_protocol::api::ask::{Asked, SessionAsk, WorktreeAsk};
use greenroom_workspace::git::session_config;
use greenroom_workspace::spec::{
    Cleanup, EndedHow, PluginState, SessionEnd, SessionPlugin, SessionSpec,
};
use greenroom_workspace::worktree::{
    Ended, Outcome, Request, Share, Worktree, WorktreeConfig, WorktreeError,
};

use super::stage::{Stage, assert_kept, assert_removed, git, git_command, try_git};

fn config() -> WorktreeConfig {
    WorktreeConfig { ports: false, share: BTreeMap::new(), ..WorktreeConfig::default() }
}

fn with_modules(stage: &Stage) {
    fs::create_dir_all(stage.repo.join("node_modules/m/deep")).unwrap();
    fs::write(stage.repo.join("node_modules/m/deep/x.js"), "module").unwrap();
    symlink("m", stage.repo.join("node_modules/link")).unwrap();
}

#[test]
fn included_is_what_is_named_and_ignored() {
    let stage = Stage::new();
    let write = |name: &str, text: &str| {
        fs::create_dir_all(stage.repo.join(name).parent().unwrap()).unwrap();
        fs::write(stage.repo.join(name), text).unwrap();
    };
    write(".worktreeinclude", ".env\n*.log\n!secret.log\nplain\nsub/deep/\na\n");
    write(".env", "KEY=1");
    write("sub/.env", "KEY=2");
    write("x.log", "log");
    write("secret.log", "not named");
    write("plain", "named, not ignored");
    write("sub/deep/y.log", "deep");
    write("target/z.log", "in build products");
    symlink(".env", stage.repo.join("l.log")).unwrap();
    let made = stage.make(1, "x").unwrap();
    let read = |name: &str| fs::read_to_string(made.path.join(name)).ok();
    assert_eq!(read(".env").as_deref(), Some("KEY=1"));
    assert_eq!(read("sub/.env").as_deref(), Some("KEY=2"));
    assert_eq!(read("x.log").as_deref(), Some("log"));
    assert_eq!(read("sub/deep/y.log").as_deref(), Some("deep"));
    assert_eq!(fs::read_link(made.path.join("l.log")).unwrap(), Path::new(".env"));
    assert_eq!(read("secret.log"), None);
    assert_eq!(read("plain"), None);
    assert_eq!(git(&made.path, &["status", "--porcelain"]), "");
    assert_removed(&stage.end(1, "x"));
    assert!(stage.repo.join(".env").exists());
    // Changed there, it is work.
    let made = stage.make(2, "x").unwrap();
    fs::write(made.path.join(".env"), "KEY=3").unwrap();
    assert_kept(&stage.end(2, "x"), "changed since it was copied in: .env");
}

/// A commit that has a link where the checkout has a directory must not lead the copy out of the
/// worktree.
#[test]
fn a_copy_does_not_follow_links() {
    let stage = Stage::new();
    let outside = stage.dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    symlink(&outside, stage.repo.join("conf")).unwrap();
    stage.git(&["add", "conf"]);
    stage.git(&["commit", "-qm", "link"]);
    stage.git(&["tag", "linked"]);
    stage.git(&["rm", "-q", "conf"]);
    stage.git(&["commit", "-qm", "no link"]);
    fs::create_dir(stage.repo.join("conf")).unwrap();
    fs::write(stage.repo.join("conf/.env"), "KEY").unwrap();
    fs::write(stage.repo.join(".worktreeinclude"), ".env\n").unwrap();
    let worktrees = stage.worktrees();
    let made = stage.make_with(&worktrees, 1, "x", Some("linked")).unwrap();
    assert!(made.path.join("conf").is_symlink());
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    assert_removed(&stage.end(1, "x"));
}

#[test]
fn nothing_of_javascript_is_shared_unasked() {
    let stage = Stage::new();
    with_modules(&stage);
    let made = stage.make(1, "x").unwrap();
    assert!(!made.path.join("node_modules").exists());
}

#[test]
fn symlinks_only_when_asked_and_the_tree_stays_clean() {
    let stage = Stage::new();
    with_modules(&stage);
    let share = [("node_modules".to_owned(), Share::Symlink)].into();
    let worktrees = stage.worktrees_with(WorktreeConfig { share, ..config() });
    let made = stage.make_with(&worktrees, 1, "x", None).unwrap();
    assert_eq!(
        fs::read_link(made.path.join("node_modules")).unwrap(),
        stage.repo.join("node_modules")
    );
    // A pattern with a slash at its end does not match a link.
    assert_eq!(git(&made.path, &["status", "--porcelain"]), "?? node_modules");
    let mut env = BTreeMap::new();
    session_config::add(&mut env, "core.excludesFile", made.excludes.clone().unwrap());
    let said = git_command(&made.path).envs(&env).args(["status", "--porcelain"]).output().unwrap();
    assert_eq!(String::from_utf8(said.stdout).unwrap(), "");
    assert!(try_git(&stage.repo, &["config", "--get-regexp", "extensions|exclude"]).is_err());
    // Not the user's repository, nor their checkout.
    assert!(!stage.repo.join(".git/info").exists());
    assert_removed(&stage.end_with(&worktrees, 1, "x", Ended::Exited).unwrap());
    assert!(stage.repo.join("node_modules/m/deep/x.js").exists());
    // Replaced by an install of the session's own: still build products.
    let made = stage.make_with(&worktrees, 2, "x", None).unwrap();
    fs::remove_file(made.path.join("node_modules")).unwrap();
    fs::create_dir(made.path.join("node_modules")).unwrap();
    fs::write(made.path.join("node_modules/own"), "x").unwrap();
    assert_removed(&stage.end_with(&worktrees, 2, "x", Ended::Exited).unwrap());
    // Led elsewhere: work.
    let made = stage.make_with(&worktrees, 3, "x", None).unwrap();
    fs::remove_file(made.path.join("node_modules")).unwrap();
    symlink("/etc", made.path.join("node_modules")).unwrap();
    let outcome = stage.end_with(&worktrees, 3, "x", Ended::Exited).unwrap();
    assert_kept(&outcome, "changed since it was copied in: node_modules");
}

#[test]
fn hardlinks() {
    let stage = Stage::new();
    with_modules(&stage);
    let share = [("node_modules".to_owned(), Share::Hardlink)].into();
    let worktrees = stage.worktrees_with(WorktreeConfig { share, ..config() });
    let made = stage.make_with(&worktrees, 1, "x", None).unwrap();
    let file = "node_modules/m/deep/x.js";
    let inode = |top: &Path| fs::metadata(top.join(file)).unwrap().ino();
    assert_eq!(inode(&made.path), inode(&stage.repo));
    assert_eq!(fs::read_link(made.path.join("node_modules/link")).unwrap(), Path::new("m"));
    assert_eq!(git(&made.path, &["status", "--porcelain"]), "");
    assert_removed(&stage.end_with(&worktrees, 1, "x", Ended::Exited).unwrap());
    assert_eq!(fs::read_to_string(stage.repo.join(file)).unwrap(), "module");
}

/// A sandbox cannot guard what a hard link leads to.
#[test]
fn hardlinks_do_not_go_into_a_sandbox() {
    let stage = Stage::new();
    with_modules(&stage);
    let share = [("node_modules".to_owned(), Share::Hardlink)].into();
    let worktrees = stage.worktrees_with(WorktreeConfig { share, ..config() });
    let target = worktrees.target(&stage.repo, "x").unwrap();
    let env = BTreeMap::new();
    let request = Request { session: SessionId(1), base: None, env: &env, confined: true };
    let made = worktrees.make(&target, &request).unwrap();
    assert!(!made.path.join("node_modules").exists());
    assert!(made.notes.iter().any(|note| note.contains("not hard-linked")), "{:?}", made.notes);
}

/// Whether the test's file system can or cannot: asked for it is done or refused, unasked it is
/// done or left out.
#[test]
fn reflinks() {
    let stage = Stage::new();
    fs::create_dir_all(stage.repo.join("target/debug")).unwrap();
    fs::write(stage.repo.join("target/debug/out"), vec![1; 100_000]).unwrap();
    for (session, mode) in [(1, Share::Reflink), (2, Share::ReflinkIfPossible)] {
        let share = [("target".to_owned(), mode)].into();
        let worktrees = stage.worktrees_with(WorktreeConfig { share, ..config() });
        let can = match stage.make_with(&worktrees, session, "x", None) {
            Ok(made) => made.path.join("target/debug/out").exists(),
            Err(error) => {
                assert!(matches!(error, WorktreeError::Share { .. }), "{error}");
                assert_eq!(mode, Share::Reflink);
                assert!(error.hint().unwrap().contains("share"));
                false
            }
        };
        let outcome = stage.end_with(&worktrees, session, "x", Ended::NeverStarted).unwrap();
        assert!(matches!(outcome, Outcome::Removed { .. }), "{can} {outcome:?}");
        stage.assert_spotless();
    }
}

/// Set in a copy of this test that runs where the file system can.
const CAN_REFLINK: &str = "GREENROOM_TEST_REFLINKS";

/// With a file system that can, made for this test in a file and seen by it alone.
#[test]
fn reflinks_where_the_file_system_can() {
    if let Some(dir) = std::env::var_os(CAN_REFLINK) {
        return reflinks_share_blocks_and_not_changes(Path::new(&dir));
    }
    // It takes root, loop devices and mkfs.
    let script = r#"set -e; cd "$1"; mkdir at
        for kind in btrfs xfs none; do
            [ $kind = none ] && exit 77
            rm -f disk; truncate -s 320M disk
            if PATH=$PATH:/usr/sbin:/sbin mkfs.$kind -q disk > why 2>&1 && mount -o loop disk at 2>> why; then break; fi
        done; shift; exec "$@""#;
    let dir = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(dir.path());
    command.arg(std::env::current_exe().unwrap());
    command.args(["--exact", "worktree::bring::reflinks_where_the_file_system_can", "--nocapture"]);
    let output = command.env(CAN_REFLINK, dir.path().join("at")).output();
    match output {
        Ok(output) if output.status.success() => {
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(said.contains("1 passed"), "{said}");
        }
        Ok(output) if output.status.code() == Some(101) => panic!("{output:?}"),
        other => {
            let why = fs::read_to_string(dir.path().join("why")).unwrap_or_default();
            eprintln!(
                "NOT RUN: reflinks that succeed need root, loop devices and mkfs.btrfs or mkfs.xfs: {} {other:?}",
                why.trim()
            );
        }
    }
}

fn reflinks_share_blocks_and_not_changes(dir: &Path) {
    const SIZE: usize = 64 << 20;
    let stage = Stage::below(tempfile::TempDir::new_in(dir).unwrap());
    fs::create_dir_all(stage.repo.join("target/debug")).unwrap();
    let file = "target/debug/out";
    fs::write(stage.repo.join(file), vec![1; SIZE]).unwrap();
    let free = || {
        rustix::fs::sync();
        let stat = rustix::fs::statvfs(dir).unwrap();
        stat.f_bfree * stat.f_frsize
    };
    for (session, mode) in [(1, Share::Reflink), (2, Share::ReflinkIfPossible)] {
        let share = [("target".to_owned(), mode)].into();
        let worktrees = stage.worktrees_with(WorktreeConfig { share, ..config() });
        let before = free();
        let made = stage.make_with(&worktrees, session, "x", None).unwrap();
        let copy = made.path.join(file);
        assert_eq!(fs::metadata(&copy).unwrap().len(), SIZE as u64);
        let taken = before.saturating_sub(free());
        assert!(taken < SIZE as u64 / 4, "{mode:?} took {taken} bytes");
        assert_eq!(git(&made.path, &["status", "--porcelain"]), "");
        // Each is its own from here on.
        fs::write(&copy, "rebuilt").unwrap();
        assert_eq!(fs::metadata(stage.repo.join(file)).unwrap().len(), SIZE as u64);
        assert_removed(&stage.end_with(&worktrees, session, "x", Ended::Exited).unwrap());
        stage.assert_spotless();
    }
}

#[test]
fn what_is_shared_must_be_ignored_and_inside() {
    let stage = Stage::new();
    for (dir, fault) in [("../repo", true), ("sub/../.git", true), (".git", true), ("sub", false)] {
        let share = [(dir.to_owned(), Share::Symlink)].into();
        let worktrees = stage.worktrees_with(WorktreeConfig { share, ..config() });
        match stage.make_with(&worktrees, 1, "x", None) {
            Err(WorktreeError::Share { .. }) => assert!(fault, "{dir}"),
            Ok(made) => assert!(!fault && made.notes[0].contains("does not ignore"), "{dir}"),
            Err(error) => panic!("{error}"),
        }
        assert_removed(&stage.end_with(&worktrees, 1, "x", Ended::NeverStarted).unwrap());
    }
}

#[test]
fn setup_and_teardown() {
    let stage = Stage::new();
    let out = stage.dir.path().canonicalize().unwrap().join("out");
    let worktrees = stage.worktrees_with(WorktreeConfig {
        setup: vec![
            "echo $GREENROOM_PORT > port.log".into(),
            "echo x > seen; echo y > .env".into(),
        ],
        teardown: vec![format!("pwd > {}; echo $GREENROOM_BRANCH >> {0}", out.display())],
        ports: true,
        ..config()
    });
    let made = stage.make_with(&worktrees, 1, "x", None).unwrap();
    let port = fs::read_to_string(made.path.join("port.log")).unwrap();
    assert_eq!(port.trim(), made.port.unwrap().to_string());
    let env = made.env();
    let last = env[std::ffi::OsStr::new("GREENROOM_PORT_9")].to_str().unwrap().to_owned();
    assert_eq!(last, (made.port.unwrap() + 9).to_string());
    assert!(!out.exists());
    assert_removed(&stage.end_with(&worktrees, 1, "x", Ended::Exited).unwrap());
    assert_eq!(
        fs::read_to_string(&out).unwrap(),
        format!("{}\ngreenroom/x\n", made.path.display())
    );
    fs::remove_file(&out).unwrap();
    stage.assert_spotless();
    // What setup made and the session changed is work.
    let made = stage.make_with(&worktrees, 2, "x", None).unwrap();
    fs::write(made.path.join("seen"), "changed").unwrap();
    let outcome = stage.end_with(&worktrees, 2, "x", Ended::Exited).unwrap();
    assert_kept(&outcome, "changed since it was copied in: seen");
    // Resumed, it is not set up again.
    let made = stage.make_with(&worktrees, 3, "x", None).unwrap();
    assert_eq!(fs::read_to_string(made.path.join("seen")).unwrap(), "changed");
}

#[test]
fn a_failing_setup_leaves_nothing() {
    let stage = Stage::new();
    let setup = vec![
        "echo x > left.log; mkdir -p d; echo y > d/left; echo no such thing >&2; exit 3".into(),
    ];
    let worktrees = stage.worktrees_with(WorktreeConfig { setup, ..config() });
    let error = stage.make_with(&worktrees, 1, "x", None).unwrap_err();
    assert!(error.to_string().contains("exit status: 3: no such thing"), "{error}");
    assert_removed(&stage.end_with(&worktrees, 1, "x", Ended::NeverStarted).unwrap());
    stage.assert_spotless();
}

#[test]
fn a_failing_teardown_keeps_it() {
    let stage = Stage::new();
    let worktrees =
        stage.worktrees_with(WorktreeConfig { teardown: vec!["exit 1".into()], ..config() });
    stage.make_with(&worktrees, 1, "x", None).unwrap();
    assert_kept(&stage.end_with(&worktrees, 1, "x", Ended::Exited).unwrap(), "teardown");
    assert_eq!(worktrees.clean(false).unwrap().len(), 1);
    stage.assert_spotless();
}

fn spec(stage: &Stage, slug: &str) -> SessionSpec {
    let (argv, size) = (vec!["true".into()], Size::new(80, 24).unwrap());
    let base = greenroom_engine::SessionSpec::new(argv, stage.repo.join("sub"), size);
    let worktree = Asked::Yes(WorktreeAsk::of(slug));
    SessionSpec::new(SessionId(1), base, SessionAsk { worktree, ..SessionAsk::default() })
}

#[tokio::test]
async fn as_a_link_of_the_chain() {
    let stage = Stage::new();
    stage.alive.born(1);
    let plugin = Worktree(stage.worktrees_with(WorktreeConfig::default()));
    let mut dry = spec(&stage, "feat");
    plugin.dry_run(&mut dry).await.unwrap();
    assert!(dry.notes[0].contains("would make branch greenroom/feat at "), "{:?}", dry.notes);
    stage.assert_spotless();
    let (mut spec, mut state) = (spec(&stage, "feat"), PluginState::default());
    assert!(plugin.wanted(&spec));
    plugin.before_session(&mut spec, &mut state).await.unwrap();
    let place = spec.git.clone().unwrap();
    assert_eq!(spec.base.cwd, place.worktree.join("sub"));
    assert_eq!(place.branch, "greenroom/feat");
    assert!(place.admin_dir.starts_with(&place.common_dir));
    assert!(spec.env("GREENROOM_PORT").is_some() && spec.env("GREENROOM_PORT_0").is_some());
    let end = SessionEnd {
        id: SessionId(1),
        how: EndedHow::NeverStarted,
        at: std::time::SystemTime::now(),
    };
    // The notes as another host would read them.
    let state = PluginState::of(state.value().clone());
    let cleanup = plugin.after_session(&end, &state).await.unwrap();
    assert!(matches!(cleanup, Cleanup::Removed { .. }), "{cleanup:?}");
    assert_eq!(plugin.after_session(&end, &state).await.unwrap(), Cleanup::Nothing);
    assert_eq!(
        plugin.after_session(&end, &PluginState::default()).await.unwrap(),
        Cleanup::Nothing
    );
    stage.assert_spotless();
    let mut refused = self::spec(&stage, "../x");
    let refusal =
        plugin.before_session(&mut refused, &mut PluginState::default()).await.unwrap_err();
    assert!(refusal.what.contains("cannot name a worktree") && refusal.hint.is_some());
}
