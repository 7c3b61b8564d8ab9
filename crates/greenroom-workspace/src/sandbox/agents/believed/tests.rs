use std::os::unix::fs::symlink;

use super::*;
use crate::testing::{spec, surroundings};

/// A home with a repository of settings in it.
struct Stage {
    dir: tempfile::TempDir,
}

impl Stage {
    fn new() -> Stage {
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let stage = Stage { dir };
        stage.write("dot/claude/settings.json");
        stage.write("dot/skill/SKILL.md");
        stage.write("dot/conf.yml");
        stage
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(path)
    }

    fn write(&self, path: &str) {
        std::fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        std::fs::write(self.at(path), "").unwrap();
    }

    fn link(&self, at: &str, to: &str) {
        std::fs::create_dir_all(self.at(at).parent().unwrap()).unwrap();
        symlink(self.at(to), self.at(at)).unwrap();
    }

    fn granted(&self, level: Level, cwd: &str, granted: &[&str]) -> Result<Vec<PathBuf>, Refusal> {
        let mut policy = Policy::new(level, self.at(cwd), self.at("tmp"));
        policy.home = Some(self.at(""));
        let granted: Vec<PathBuf> = granted.iter().map(|path| self.at(path)).collect();
        policy.writable.extend(granted.iter().cloned());
        let mut spec = spec(1);
        spec.set_env("CODEX_HOME", "state-of-codex");
        fix(&mut policy, &spec, &surroundings(&self.at("")), &granted)?;
        let mut fixed: Vec<PathBuf> = policy.protected.into_iter().map(|it| it.path).collect();
        // Named by its variable, and made first.
        fixed.retain(|path| !path.ends_with("state-of-codex"));
        fixed.sort();
        Ok(fixed)
    }

    fn fixed(&self, cwd: &str) -> Vec<PathBuf> {
        self.granted(Level::Full, cwd, &[]).unwrap()
    }

    #[track_caller]
    fn refused(&self, level: Level, cwd: &str, because: &str) {
        let refusal = self.granted(level, cwd, &[]).unwrap_err();
        assert!(refusal.what.contains(because) && refusal.hint.is_some(), "{refusal}");
    }
}

#[test]
fn a_state_that_leads_into_the_directory_is_fixed_with_every_link_on_the_way() {
    let stage = Stage::new();
    stage.link(".claude", "dot/one");
    stage.link("dot/one", "dot/two");
    stage.link("dot/two", "dot/claude");
    let all = ["dot/claude", "dot/one", "dot/two"].map(|path| stage.at(path));
    assert_eq!(stage.fixed("dot"), all);
    stage.refused(Level::Reduced, "dot", "sandbox level reduced cannot keep it");
    std::fs::create_dir(stage.at("work")).unwrap();
    assert_eq!(stage.fixed("work"), [] as [PathBuf; 0]);
}

#[test]
fn links_in_a_state_count_wherever_they_are() {
    let stage = Stage::new();
    stage.link(".claude/settings.json", "dot/claude/settings.json");
    stage.link(".claude/statusline.sh", "dot/line.sh");
    stage.write("dot/line.sh");
    stage.link(".claude/skills/mine", "dot/skill");
    stage.link(".gemini", "elsewhere");
    stage.link("elsewhere/commands", "dot/commands");
    stage.write("dot/commands/x.toml");
    stage.link(".aider.conf.yml", "dot/conf.yml");
    let all = ["claude/settings.json", "commands", "conf.yml", "line.sh", "skill"];
    assert_eq!(stage.fixed("dot"), all.map(|path| stage.at("dot").join(path)));
    // Conversations of other directories are nothing an agent runs.
    stage.link(".claude/projects/x/link", "dot/skill/SKILL.md");
    assert_eq!(stage.fixed("dot").len(), all.len());
}

#[test]
fn what_is_allowed_by_name_is_open_and_nothing_around_it() {
    let stage = Stage::new();
    stage.link(".claude", "dot/claude");
    stage.link(".aider.conf.yml", "dot/conf.yml");
    let open = stage.granted(Level::Full, "dot", &["dot/claude"]).unwrap();
    assert_eq!(open, [stage.at("dot/conf.yml")]);
    let wider = stage.granted(Level::Full, "tmp", &["dot"]).unwrap();
    assert_eq!(wider, [stage.at("dot/claude"), stage.at("dot/conf.yml")]);
}

#[test]
fn nobody_works_in_a_state_and_nothing_is_made_at_a_links_end() {
    let stage = Stage::new();
    stage.link(".claude", "dot/claude");
    std::fs::create_dir_all(stage.at("dot/claude/skills/x")).unwrap();
    let state = "where claude keeps its state";
    stage.refused(Level::Full, "dot/claude", state);
    stage.refused(Level::Full, "dot/claude/skills/x", state);
    stage.refused(Level::Reduced, "dot/claude/skills/x", state);
    stage.granted(Level::Full, "dot/claude/skills", &["dot/claude/skills"]).unwrap();
    let alone = stage.granted(Level::Full, "dot", &["dot/claude/skills"]).unwrap_err();
    assert!(alone.what.contains("cannot be opened alone"), "{alone}");
    stage.link(".codex", "dot/nowhere/codex");
    stage.refused(Level::Full, "dot", "which is not there");
}

#[test]
fn a_place_in_the_directory_that_a_variable_names_is_made_and_fixed() {
    let stage = Stage::new();
    let mut policy = Policy::new(Level::Full, stage.at("dot"), stage.at("tmp"));
    let mut spec = spec(1);
    spec.set_env("CODEX_HOME", "codex");
    fix(&mut policy, &spec, &surroundings(&stage.at("")), &[]).unwrap();
    assert_eq!(policy.protected, [Protected::dir(stage.at("dot/codex"))]);
    spec.set_env("CLAUDE_CONFIG_DIR", ".");
    let refused = fix(&mut policy, &spec, &surroundings(&stage.at("")), &[]).unwrap_err();
    assert!(refused.what.contains("cannot be a session's directory"), "{refused}");
}
