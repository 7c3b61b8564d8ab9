use std::os::unix::fs::symlink;

use serde_json::json;

use super::super::{AGENTS, CLAUDE_STATE};
use super::*;
use crate::testing::{spec, surroundings};

struct Stage {
    dir: tempfile::TempDir,
}

impl Stage {
    fn new() -> Stage {
        let dir = tempfile::tempdir().unwrap();
        for name in ["state", "work", ".claude/skills/mine", ".claude/projects"] {
            std::fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        let stage = Stage { dir };
        stage.write(".claude/settings.json", "{\"model\":\"x\"}");
        stage.write(".claude.json", "{\"theme\":\"dark\"}");
        stage
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        std::fs::write(self.at(path), text).unwrap();
    }

    fn policy(&self, level: Level) -> Policy {
        let mut policy = Policy::new(level, self.at("work"), self.at("state/tmp"));
        policy.home = Some(self.dir.path().to_owned());
        policy.home = policy.home.map(|home| home.canonicalize().unwrap());
        policy
    }

    fn tree(&self, level: Level, env: &[(&str, PathBuf)]) -> Result<Tree, Refusal> {
        let mut spec = spec(1);
        for (name, value) in env {
            spec.set_env(name, value);
        }
        Tree::of(&AGENTS[0], &spec, &surroundings(&self.at("")), &self.policy(level))
    }

    fn prepared(&self) -> Tree {
        let tree = self.tree(Level::Full, &[]).unwrap();
        tree.prepare().unwrap();
        tree
    }
}

fn text(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn settings_are_the_users_at_each_start_and_the_rest_stays() {
    let stage = Stage::new();
    stage.write(".claude/odd", "taken over once");
    let here = dashed(&stage.at("work"));
    for project in [here.as_str(), "-elsewhere"] {
        std::fs::create_dir(stage.at(".claude/projects").join(project)).unwrap();
        stage.write(&format!(".claude/projects/{project}/a.jsonl"), "talk");
    }
    let tree = stage.prepared();
    let own = tree.dir.join(".claude");
    assert_eq!(text(own.join("settings.json")), "{\"model\":\"x\"}");
    assert_eq!(text(own.join("odd")), "taken over once");
    assert_eq!(text(own.join("projects").join(&here).join("a.jsonl")), "talk");
    assert!(!own.join("projects/-elsewhere").exists());
    // What a session plants.
    std::fs::write(own.join("settings.json"), "{\"hooks\":{}}").unwrap();
    std::fs::write(own.join("settings.local.json"), "{\"hooks\":{}}").unwrap();
    std::fs::create_dir(own.join("commands")).unwrap();
    std::fs::write(own.join("commands/evil.md"), "x").unwrap();
    std::fs::write(own.join("odd"), "its own").unwrap();
    std::fs::write(own.join("history.jsonl"), "mine").unwrap();
    stage.write(".claude/settings.json", "{\"model\":\"y\"}");
    stage.prepared();
    assert_eq!(text(own.join("settings.json")), "{\"model\":\"y\"}");
    assert!(!own.join("settings.local.json").exists() && !own.join("commands").exists());
    assert_eq!(
        (text(own.join("odd")), text(own.join("history.jsonl"))),
        ("its own".into(), "mine".into())
    );
    assert_eq!(text(stage.at(".claude/odd")), "taken over once");
    let policy = tree.policy(&stage.policy(Level::Full));
    let places: Vec<PathBuf> = policy.iter().map(|it| it.at.clone()).collect();
    assert_eq!(places, [stage.at(".claude"), stage.at(".claude.json")]);
    assert_eq!(policy[0].views, [("skills".into(), stage.at(".claude/skills"))]);
}

#[test]
fn links_a_session_left_are_not_followed() {
    let stage = Stage::new();
    stage.write("victim", "untouched");
    std::fs::create_dir(stage.at("dir")).unwrap();
    stage.write("dir/file", "untouched");
    let tree = stage.prepared();
    let own = tree.dir.join(".claude");
    for (name, target) in [
        ("settings.json", "victim"),
        ("settings.local.json", "victim"),
        ("skills", "dir"),
        ("hooks", "dir"),
    ] {
        copy::clear(&own.join(name)).unwrap();
        symlink(stage.at(target), own.join(name)).unwrap();
    }
    stage.prepared();
    assert_eq!(
        (text(stage.at("victim")), text(stage.at("dir/file"))),
        ("untouched".into(), "untouched".into())
    );
    assert!(own.join("settings.json").symlink_metadata().unwrap().is_file());
    assert!(own.join("skills").symlink_metadata().unwrap().is_dir());
    assert!(own.join("hooks").symlink_metadata().is_err());
}

#[test]
fn the_users_links_are() {
    let stage = Stage::new();
    std::fs::rename(stage.at(".claude"), stage.at("dotfiles")).unwrap();
    symlink("dotfiles", stage.at(".claude")).unwrap();
    std::fs::rename(stage.at("dotfiles/settings.json"), stage.at("shared.json")).unwrap();
    symlink("../shared.json", stage.at("dotfiles/settings.json")).unwrap();
    let tree = stage.prepared();
    assert_eq!(tree.places().collect::<Vec<_>>(), [stage.at("dotfiles")]);
    assert_eq!(text(tree.dir.join(".claude/settings.json")), "{\"model\":\"x\"}");
    std::fs::remove_dir_all(stage.at("dotfiles")).unwrap();
    let refused = stage.tree(Level::Full, &[]).err().unwrap();
    assert!(refused.what.contains("a link that leads nowhere"), "{refused}");
}

#[test]
fn an_agent_that_never_ran_leaves_nothing_outside() {
    let stage = Stage::new();
    std::fs::remove_dir_all(stage.at(".claude")).unwrap();
    std::fs::remove_file(stage.at(".claude.json")).unwrap();
    let tree = stage.prepared();
    assert_eq!(
        text(tree.dir.join(".claude.json")).replace(char::is_whitespace, ""),
        "{\"projects\":{}}"
    );
    assert!(!stage.at(".claude").exists() && !stage.at(".claude.json").exists());
    let places = tree.policy(&stage.policy(Level::Full));
    assert_eq!(places.len(), 2, "both are put there all the same");
}

#[test]
fn a_place_of_the_users_own_choice_has_a_tree_of_its_own() {
    let stage = Stage::new();
    let usual = stage.tree(Level::Full, &[]).unwrap();
    let at = stage.at("elsewhere/claude");
    let other = stage.tree(Level::Full, &[("CLAUDE_CONFIG_DIR", at.clone())]).unwrap();
    assert_ne!(usual.dir, other.dir);
    other.prepare().unwrap();
    assert!(at.is_dir(), "there must be something to put it on");
    let places: Vec<PathBuf> =
        other.policy(&stage.policy(Level::Full)).into_iter().map(|it| it.at).collect();
    assert_eq!(places, [at]);
    assert!(other.dir.join(".claude/.claude.json").is_file());
    for wide in [PathBuf::from("/"), stage.at("").canonicalize().unwrap(), "/..".into()] {
        let refused = stage.tree(Level::Full, &[("CLAUDE_CONFIG_DIR", wide)]).err().unwrap();
        assert!(refused.what.contains("cannot be all of it"), "{refused}");
    }
}

#[test]
fn where_nothing_can_be_put_the_agent_is_told() {
    let stage = Stage::new();
    let tree = stage.tree(Level::Reduced, &[]).unwrap();
    tree.prepare().unwrap();
    let own = tree.dir.join(".claude");
    assert_eq!(tree.variables().collect::<Vec<_>>(), [("CLAUDE_CONFIG_DIR", own.as_path())]);
    assert_eq!(std::fs::read_link(own.join("skills")).unwrap(), stage.at(".claude/skills"));
    assert!(text(own.join(".claude.json")).contains("dark"));
    let gemini = AGENTS.iter().find(|agent| agent.name == "gemini").unwrap();
    let tree =
        Tree::of(gemini, &spec(1), &surroundings(&stage.at("")), &stage.policy(Level::Reduced))
            .unwrap();
    assert_eq!(tree.variables().collect::<Vec<_>>(), [("GEMINI_CLI_HOME", tree.dir.as_path())]);
}

#[test]
fn of_a_mixed_file_what_runs_something_is_the_users() {
    let object = |value: Value| value.as_object().unwrap().clone();
    let users = object(json!({
        "theme": "dark", "mcpServers": { "mine": {} },
        "projects": { "/w": { "hasTrustDialogAccepted": false, "allowedTools": ["Read"] } },
    }));
    let own = object(json!({
        "theme": "light", "tips": 3, "mcpServers": { "evil": {} }, "apiKeyHelper": "x",
        "projects": {
            "/w": { "hasTrustDialogAccepted": true, "allowedTools": ["Bash"], "mcpServers": {} },
            "/new": { "cost": 1, "mcpServers": { "evil": {} } },
        },
    }));
    let after = merged(users, own, &CLAUDE_STATE);
    assert_eq!(
        Value::Object(after),
        json!({
            "theme": "dark", "tips": 3, "mcpServers": { "mine": {} },
            "projects": {
                "/w": { "hasTrustDialogAccepted": true, "allowedTools": ["Read"] },
                "/new": { "cost": 1 },
            },
        })
    );
}

#[test]
fn a_damaged_file_of_the_sessions_is_no_obstacle() {
    let stage = Stage::new();
    let tree = stage.prepared();
    for content in ["", "{", "[1]", "\u{0}\u{0}"] {
        std::fs::write(tree.dir.join(".claude.json"), content).unwrap();
        stage.prepared();
        assert!(text(tree.dir.join(".claude.json")).contains("dark"), "{content:?}");
    }
}

#[test]
fn trees_of_directories_that_are_gone_go_too() {
    let stage = Stage::new();
    let tree = stage.prepared();
    let around = surroundings(&stage.at(""));
    let old = SystemTime::now() - FORGOTTEN - Duration::from_secs(60);
    let about = std::fs::File::options().write(true).open(tree.dir.join(ABOUT)).unwrap();
    about.set_modified(old).unwrap();
    sweep(&around);
    assert!(tree.dir.exists(), "its directory is there");
    std::fs::remove_dir(stage.at("work")).unwrap();
    sweep(&around);
    assert!(!tree.dir.exists());
}
