use std::ffi::OsStr;
use std::process::Command;
use std::time::SystemTime;

use greenroom_protocol::api::ask::Asked;
use serde_json::Value;

use super::*;
use crate::git::session_config;
use crate::spec::EndedHow;
use crate::testing::{spec, surroundings};

const LINK: &str = "scratchpad";

struct Stage {
    home: tempfile::TempDir,
    plugin: Scratchpad,
}

impl Stage {
    fn new() -> Stage {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("work")).unwrap();
        let plugin = Scratchpad::new(ScratchpadConfig::default(), &surroundings(home.path()));
        Stage { home, plugin }
    }

    fn work(&self) -> PathBuf {
        self.home.path().join("work")
    }

    fn spec(&self, id: u64, name: Option<&str>) -> SessionSpec {
        let mut spec = spec(id);
        spec.base.cwd = self.work();
        spec.ask.scratchpad = Asked::Yes(ScratchpadAsk { name: name.map(str::to_owned) });
        spec
    }

    async fn begin(&self, spec: &mut SessionSpec) -> Result<PluginState, Refusal> {
        let mut state = PluginState::of(Value::Null);
        self.plugin.before_session(spec, &mut state).await?;
        Ok(state)
    }

    async fn end(&self, id: u64, state: &PluginState) -> Cleanup {
        let id = SessionId(id);
        let end = SessionEnd { id, how: EndedHow::NeverStarted, at: SystemTime::now() };
        self.plugin.after_session(&end, state).await.unwrap()
    }
}

#[tokio::test]
async fn two_share_a_named_one_and_the_last_removes_it_if_empty() {
    let stage = Stage::new();
    let (mut one, mut two) = (stage.spec(1, Some("team")), stage.spec(2, Some("team")));
    let first = stage.begin(&mut one).await.unwrap();
    let second = stage.begin(&mut two).await.unwrap();
    let dir = stage.home.path().join("state/scratchpads/team");
    assert_eq!(one.env(VARIABLE), Some(dir.as_os_str()));
    assert_eq!((one.env(VARIABLE), &one.writable), (two.env(VARIABLE), &two.writable));
    std::fs::write(stage.work().join("scratchpad/found"), "x").unwrap();
    assert!(dir.join("found").exists());
    assert_eq!(stage.end(1, &first).await, Cleanup::Nothing);
    assert!(stage.work().join(LINK).exists(), "the other session still has it");
    std::fs::remove_file(dir.join("found")).unwrap();
    let removed = Cleanup::Removed { what: "the empty scratchpad team".into() };
    assert_eq!(stage.end(2, &second).await, removed);
    assert!(!stage.work().join(LINK).is_symlink() && !dir.exists());
    assert_eq!(stage.end(2, &second).await, Cleanup::Nothing);
}

#[tokio::test]
async fn what_it_holds_is_kept_and_told() {
    let stage = Stage::new();
    let mut spec = stage.spec(3, None);
    let state = stage.begin(&mut spec).await.unwrap();
    let dir = stage.home.path().join("state/scratchpads/session-s3");
    std::fs::write(dir.join("notes.md"), "y".repeat(2048)).unwrap();
    let kept = Cleanup::Kept {
        what: format!("scratchpad {}", dir.display()),
        why: "it holds 1 file, 2.0 KiB".into(),
    };
    assert_eq!(stage.end(3, &state).await, kept);
    assert_eq!(stage.end(3, &state).await, kept);
    assert!(dir.join("notes.md").exists() && !stage.work().join(LINK).is_symlink());
}

#[tokio::test]
async fn workers_of_a_run_share_one() {
    let stage = Stage::new();
    let mut spec = stage.spec(1, None);
    spec.run = Some("r7".into());
    stage.plugin.dry_run(&mut spec).await.unwrap();
    let dir = stage.home.path().join("state/scratchpads/run-r7");
    assert_eq!(spec.env(VARIABLE), Some(dir.as_os_str()));
    assert!(!dir.exists());
}

#[tokio::test]
async fn what_is_in_the_way_stays() {
    let stage = Stage::new();
    let there = stage.work().join(LINK);
    std::fs::create_dir(&there).unwrap();
    let refusal = stage.begin(&mut stage.spec(1, None)).await.unwrap_err();
    assert!(refusal.what.ends_with("something else is there"), "{refusal}");
    assert!(!stage.home.path().join("state").exists());
    std::fs::remove_dir(&there).unwrap();
    let state = stage.begin(&mut stage.spec(1, None)).await.unwrap();
    // The session puts its own work in place of the link.
    std::fs::remove_file(&there).unwrap();
    std::fs::write(&there, "work").unwrap();
    stage.end(1, &state).await;
    assert_eq!(std::fs::read_to_string(&there).unwrap(), "work");
}

#[tokio::test]
async fn bad_names_are_refused() {
    let stage = Stage::new();
    for bad in ["", "..", "a/b", ".x", "run-1", "session-s1", "ä"] {
        let refusal = stage.begin(&mut stage.spec(1, Some(bad))).await.unwrap_err();
        assert!(refusal.what.starts_with("cannot name a scratchpad"), "{bad}: {refusal}");
    }
}

#[tokio::test]
async fn a_crash_before_it_was_made_leaves_nothing() {
    let stage = Stage::new();
    let spec = stage.spec(1, Some("team"));
    let mut state = PluginState::of(Value::Null);
    state.record(&stage.plugin.plan(&spec).unwrap()).unwrap();
    assert_eq!(stage.end(1, &state).await, Cleanup::Nothing);
    assert_eq!(stage.end(1, &PluginState::default()).await, Cleanup::Nothing);
}

#[tokio::test]
async fn git_does_not_see_the_link() {
    let stage = Stage::new();
    let git = |args: &[&str], env: &SessionSpec| {
        let mut command = Command::new("git");
        command.args(args).current_dir(stage.work()).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", stage.home.path());
        let output = command.envs(&env.base.env).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    git(&["init", "-q"], &stage.spec(1, None));
    let list = stage.work().join(".git/info/exclude");
    std::fs::write(&list, "*.o").unwrap();
    let mut spec = stage.spec(1, None);
    let state = stage.begin(&mut spec).await.unwrap();
    assert_eq!(git(&["status", "--porcelain"], &spec), "");
    // Nor outside of the session, nor is it staged; the user's own patterns hold.
    let outside = stage.spec(1, None);
    git(&["add", "-A"], &outside);
    std::fs::write(stage.work().join("x.o"), "").unwrap();
    assert_eq!(git(&["status", "--porcelain"], &outside), "");
    // A directory of that name is somebody's work.
    let dir = stage.work().join("elsewhere");
    git(&["init", "-q", dir.to_str().unwrap()], &outside);
    std::fs::copy(&list, dir.join(".git/info/exclude")).unwrap();
    std::fs::create_dir(dir.join(LINK)).unwrap();
    std::fs::write(dir.join(LINK).join("work"), "").unwrap();
    let seen = git(&["-C", dir.to_str().unwrap(), "status", "--porcelain"], &outside);
    assert_eq!(seen, "?? scratchpad/\n");
    std::fs::remove_dir_all(&dir).unwrap();
    let file = session_config::get(&spec.base.env, "core.excludesFile").unwrap().to_owned();
    // A worktree that brings a file of its own: the link is added to it once.
    let mut other = stage.spec(2, Some("team"));
    other.base.cwd = stage.work().join("deep/er");
    std::fs::create_dir_all(&other.base.cwd).unwrap();
    session_config::add(&mut other.base.env, "core.excludesFile", file.clone());
    let others = stage.begin(&mut other).await.unwrap();
    stage.begin(&mut other).await.unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(text.lines().filter(|line| *line == "/deep/er/scratchpad").count(), 1, "{text}");
    assert_eq!(git(&["status", "--porcelain"], &other), "");
    stage.end(1, &state).await;
    assert!(!Path::new(&file).exists());
    assert_eq!(git(&["status", "--porcelain"], &outside), "", "the other still lives");
    stage.end(2, &others).await;
    stage.end(2, &others).await;
    assert_eq!(std::fs::read_to_string(&list).unwrap(), "*.o");
    assert_eq!(session_config::get(&stage.spec(3, None).base.env, "x"), None::<&OsStr>);
}
