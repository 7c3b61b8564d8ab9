//! Agents in a sandbox: their state is a private copy that goes on from session to session, what
//! they plant stays there, a login that was refreshed comes back, and their hooks are heard. The
//! agents are scripts; real ones are for `make test-agents`.
#![expect(clippy::print_stderr, reason = "what was not run is said")]

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use test_kit::place;
use test_kit::user::User;

use crate::support::{Home, Said, eventually};

/// `home` of the user, `work` for sessions, `state` of the host, `bin` with what is called like
/// agents.
struct Place {
    home: Home,
}

impl Place {
    fn new() -> Place {
        let place = Place { home: Home::of(User::Ordinary.uid(), place::public(), "state") };
        for name in ["home", "work"] {
            std::fs::create_dir(place.at(name)).unwrap();
        }
        for agent in ["claude", "codex", "gemini"] {
            // Runs what the test says.
            place::program(&place.at("bin").join(agent), "#!/bin/sh\n. ./script\n");
        }
        place.own();
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.home.around().canonicalize().unwrap().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.at(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        self.own();
    }

    fn own(&self) {
        for name in ["home", "work", "elsewhere"] {
            User::Ordinary.owns(&self.at(name));
        }
    }

    fn run(&self, args: &[&str]) -> Said {
        let mut command = self.home.command(args);
        command.env("HOME", self.at("home")).current_dir(self.at("work"));
        Said::of(command.output().unwrap())
    }

    #[track_caller]
    fn ok(&self, args: &[&str]) -> String {
        let said = self.run(args);
        assert_eq!(said.code, 0, "{args:?}: {said:?}");
        said.out.trim_end().to_owned()
    }

    fn able(&self, level: &str) -> bool {
        let found: Value =
            serde_json::from_str(&self.ok(&["sandbox", "doctor", "--json"])).unwrap();
        if found[level] != true {
            eprintln!("NOT RUN: level {level} cannot be enforced here: {found}");
        }
        found[level] == true
    }

    /// Runs a script as an agent to its end; answers what it printed.
    #[track_caller]
    fn session(&self, flags: &[&str], agent: &str, script: &str) -> String {
        self.write("work/script", script);
        let args = [&["new", "--size", "200x50"], flags, &["--", agent]].concat();
        let id = self.ok(&args);
        self.ok(&["wait", &id, "--until", "exit", "--timeout", "60s"]);
        self.ok(&["read", &id])
    }

    fn events(&self) -> Vec<Value> {
        let text = self.ok(&["events", "--json"]);
        let all = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        all.filter(|event| event["kind"] == "agent.event").collect()
    }
}

/// Every file below, with its content.
fn snapshot(dir: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.symlink_metadata().unwrap().is_dir() {
            all.push(path.display().to_string());
            all.extend(snapshot(&path));
        } else {
            all.push(format!("{} {:?}", path.display(), std::fs::read(&path).ok()));
        }
    }
    all.sort();
    all
}

fn text(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Puts something at every place that an agent outside would run or believe.
const PLANT: &str = r#"
plant() { mkdir -p "$(dirname "$1")" 2>/dev/null; { echo '{"planted":"planted"}' > "$1"; } 2>/dev/null; }
C=${CLAUDE_CONFIG_DIR:-$HOME/.claude}; X=${CODEX_HOME:-$HOME/.codex}; G=${GEMINI_CLI_HOME:-$HOME}/.gemini
for at in "$HOME/.claude.json" "$C/.claude.json" "$HOME"/.claude.json.new "$HOME/.claude/settings.json"; do plant "$at"; done
for name in settings.json settings.local.json CLAUDE.md plugins/evil/hook.sh plugins/config.json skills/evil/SKILL.md commands/evil.md \
    agents/evil.md hooks/evil.sh output-styles/evil.md rules/evil.md projects/x/memory/MEMORY.md never-heard-of; do plant "$C/$name"; done
for name in config.toml hooks.json AGENTS.md prompts/evil.md skills/evil/SKILL.md rules/evil.rules memories/evil.md; do plant "$X/$name"; done
for name in settings.json GEMINI.md commands/evil.toml extensions/evil/gemini-extension.json trustedFolders.json; do plant "$G/$name"; done
for old in "$C" "$X" "$G" "$HOME/.claude.json"; do mv "$old" "$old.moved" 2>/dev/null && mkdir -p "$old"; done
ln -s /etc/passwd "$C/link"; ln "$C/settings.json" ./hard 2>/dev/null; rm -rf "$HOME"/.claude/* "$HOME"/.codex/* 2>/dev/null
plant "$C/settings.json"; plant .claude/settings.json; plant .claude/settings.local.json; plant .codex/config.toml; plant .gemini/settings.json
mv .claude .claude-away 2>/dev/null; plant .claude/commands/evil.md; mkdir -p "$C/projects/here"; echo "$PWD" > "$C/projects/here/talk"
"#;

fn nothing_gets_out(level: &str) {
    let place = Place::new();
    if !place.able(level) {
        return;
    }
    let sandbox = format!("--sandbox={level}");
    place.write("home/.claude/skills/mine/SKILL.md", "mine");
    place.write("home/.claude/CLAUDE.md", "be kind");
    place.write("home/.claude.json", "{\"theme\":\"dark\"}");
    // Codex has only settings; Gemini was never used.
    place.write("home/.codex/config.toml", "model = \"x\"\n");
    let before = snapshot(&place.at("home"));
    for agent in ["claude", "codex", "gemini", "bash"] {
        let args = if agent == "bash" { "exec bash ./script" } else { ". ./script" };
        place.write("work/script", PLANT);
        let id = match agent {
            "bash" => place.ok(&["new", &sandbox, "--", "bash", "-c", args]),
            agent => place.ok(&["new", &sandbox, "--", agent]),
        };
        place.ok(&["wait", &id, "--until", "exit", "--timeout", "60s"]);
        assert_eq!(snapshot(&place.at("home")), before, "{agent} at {level}");
        if level == "full" {
            let work = snapshot(&place.at("work")).join("\n");
            assert!(!work.contains("/.claude/") && !work.contains("/.codex/"), "{agent}: {work}");
        }
    }
    // The next one there finds what it said before, and nothing that was planted.
    let seen = place.session(&[&sandbox], "claude", r#"
C=${CLAUDE_CONFIG_DIR:-$HOME/.claude}; cat "$C/projects/here/talk"; cat "$C/CLAUDE.md"; echo; cat "$C/skills/mine/SKILL.md"; echo
grep -rl planted "$C/settings.json" "$C/plugins" "$C/commands" "$C/hooks" "$C/agents" "$C/skills" "$C/CLAUDE.md" 2>/dev/null
cat "$C/.claude.json" "$HOME/.claude.json" 2>/dev/null | grep -c dark; echo over
"#);
    let lines: Vec<&str> = seen.split_whitespace().collect();
    let work = place.at("work").display().to_string();
    let expected = [work.as_str(), "be", "kind", "mine"];
    assert_eq!(lines[..4], expected, "{seen}");
    assert!(!seen.contains("planted") && seen.contains("over"), "{seen}");
}

#[test]
fn nothing_an_agent_plants_gets_out_of_full() {
    nothing_gets_out("full");
}

#[test]
fn nothing_an_agent_plants_gets_out_of_reduced() {
    nothing_gets_out("reduced");
}

#[test]
fn a_state_that_is_a_link_or_elsewhere_is_as_safe() {
    let place = Place::new();
    if !place.able("full") {
        return;
    }
    place.write("elsewhere/claude/settings.json", "{}");
    place.write("elsewhere/config/settings.json", "{}");
    symlink(place.at("elsewhere/claude"), place.at("home/.claude")).unwrap();
    let before = snapshot(&place.at("elsewhere"));
    place.session(&["--sandbox"], "claude", PLANT);
    assert_eq!(snapshot(&place.at("elsewhere")), before);
    let config = format!("CLAUDE_CONFIG_DIR={}", place.at("elsewhere/config").display());
    let seen = place.session(
        &["--sandbox", "--env", &config],
        "claude",
        &format!("{PLANT}\ngrep -c planted $CLAUDE_CONFIG_DIR/.claude.json"),
    );
    assert!(seen.trim_end().ends_with('1'), "it may write its own: {seen}");
    assert_eq!(snapshot(&place.at("elsewhere")), before);
}

/// Tries to plant in a directory into which the user's own settings lead, or which they are.
fn tries_in(place: &Place, cwd: &str, flags: &[&str], argv: &[&str]) -> Said {
    let cwd = place.at(cwd).display().to_string();
    let args = [&["new", "--cwd", &cwd], flags, &["--"], argv].concat();
    let said = place.run(&args);
    if said.code == 0 {
        place.ok(&["wait", said.out.trim_end(), "--until", "exit", "--timeout", "60s"]);
    }
    said
}

#[test]
fn settings_that_lead_into_the_directory_cannot_be_planted() {
    let place = Place::new();
    if !place.able("full") {
        return;
    }
    let reduced = place.able("reduced");
    let plant = "for at in settings.json claude/settings.json claude/new; do echo planted > $at; done 2>/dev/null; \
        mv claude away; mkdir -p claude; echo planted > claude/settings.json; ln -sfn away claude; echo ran > ran";
    place.write("home/dotfiles/script", plant);
    place.write("home/dotfiles/settings.json", "{}");
    place.write("home/dotfiles/claude/settings.json", "{}");
    let state = place.at("home/.claude");
    let believed = || text(state.join("settings.json"));
    let links: [(&dyn Fn(), &str); 2] = [
        (
            &|| {
                std::fs::create_dir(&state).unwrap();
                symlink(place.at("home/dotfiles/settings.json"), state.join("settings.json"))
                    .unwrap();
            },
            "dotfiles/settings.json",
        ),
        (
            &|| {
                // What nobody believed before was the session's to change.
                for left in ["home/.claude", "home/dotfiles/claude", "home/dotfiles/away"] {
                    std::fs::remove_dir_all(place.at(left)).unwrap();
                }
                place.write("home/dotfiles/claude/settings.json", "{}");
                symlink(place.at("home/dotfiles/claude"), &state).unwrap();
            },
            "dotfiles/claude",
        ),
    ];
    for (link, fixed) in links {
        link();
        place.own();
        for argv in [&["claude"][..], &["bash", "./script"]] {
            let said = tries_in(&place, "home/dotfiles", &["--sandbox"], argv);
            assert_eq!(said.code, 0, "{said:?}");
            assert_eq!(text(place.at("home/dotfiles/ran")), "ran\n", "{argv:?}");
            assert_eq!(believed(), "{}", "{argv:?}: {fixed}");
            assert!(!state.join("new").exists(), "{argv:?}: {fixed}");
            std::fs::remove_file(place.at("home/dotfiles/ran")).unwrap();
            if reduced {
                let said = tries_in(&place, "home/dotfiles", &["--sandbox=reduced"], argv);
                assert!(
                    said.code != 0 && said.err.contains("level reduced cannot keep it"),
                    "{said:?}"
                );
                assert!(said.err.contains("hint: use --sandbox=full"), "{said:?}");
            }
        }
        let cwd = place.at("home/dotfiles").display().to_string();
        let said = place.run(&["sandbox", "explain", "--cwd", &cwd, "--", "bash"]);
        assert!(
            said.out.lines().any(|line| line.contains("fixed") && line.contains(fixed)),
            "{said:?}"
        );
        assert!(said.err.contains("stays as it is"), "{said:?}");
    }
    std::fs::create_dir(place.at("home/dotfiles/claude/skills")).unwrap();
    place.own();
    for cwd in ["home/.claude", "home/dotfiles/claude/skills"] {
        let said =
            tries_in(&place, cwd, &["--sandbox"], &["bash", "-c", "echo planted > settings.json"]);
        assert!(said.code != 0 && said.err.contains("where claude keeps its state"), "{said:?}");
    }
    assert_eq!(believed(), "{}");
}

#[test]
fn settings_of_the_project_are_fixed_unless_granted() {
    let place = Place::new();
    if !place.able("full") {
        return;
    }
    place.write("home/.codex/config.toml", "");
    place.write("work/.mcp.json", "{}");
    place.write("work/.aider.conf.yml", "model: x\n");
    let script = "echo test-cmd: planted > .aider.conf.yml; echo planted > .claude/settings.json; mkdir -p .codex/x; echo planted > .mcp.json; echo yes > CLAUDE.md\n";
    place.session(&["--sandbox"], "claude", script);
    let file = |name: &str| text(place.at("work").join(name));
    assert_eq!((file(".claude/settings.json"), file(".mcp.json")), (String::new(), "{}".into()));
    assert_eq!(file(".aider.conf.yml"), "model: x\n");
    assert!(!place.at("work/.codex/x").exists());
    assert_eq!(file("CLAUDE.md"), "yes\n", "words are part of the work");
    place.session(&["--sandbox", "--allow-write", ".claude"], "claude", script);
    assert_eq!(file(".claude/settings.json"), "planted\n");
}

fn tokens(number: u64) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    json!({ "claudeAiOauth": {
        "accessToken": format!("sk-ant-oat01-{number}"), "refreshToken": format!("sk-ant-ort01-{number}"),
        "expiresAt": now + number * 1000, "scopes": ["user:inference"],
    } })
}

#[test]
fn a_login_refreshed_on_either_side_is_the_others_too() {
    let place = Place::new();
    if !place.able("full") {
        return;
    }
    let real = "home/.claude/.credentials.json";
    place.write(real, &tokens(1).to_string());
    let mut inside = tokens(2000);
    inside["apiKeyHelper"] = json!("touch /tmp/planted");
    place.write("work/new", &inside.to_string());
    // By renaming, as agents do; then it waits for what happens outside.
    place.write("work/script", r#"cd ~/.claude; grep -o 'oat01-1"' .credentials.json
cat "$OLDPWD/new" > .tmp; mv .tmp .credentials.json; until grep -q oat01-3000 .credentials.json; do sleep 0.1; done; echo came"#);
    let id = place.ok(&["new", "--sandbox", "--", "claude"]);
    let value =
        |path: &str| serde_json::from_str::<Value>(&text(place.at(path))).unwrap_or_default();
    eventually("the tokens come out", || {
        (value(real)["claudeAiOauth"]["accessToken"] == "sk-ant-oat01-2000").then_some(())
    });
    assert!(value(real).get("apiKeyHelper").is_none(), "{}", text(place.at(real)));
    assert_eq!(value(real)["claudeAiOauth"]["refreshToken"], "sk-ant-ort01-2000");
    place.write("home/.claude/other", &tokens(3000).to_string());
    std::fs::rename(place.at("home/.claude/other"), place.at(real)).unwrap();
    place.ok(&["wait", &id, "--until", "text=came", "--timeout", "60s"]);
    // Without a host in between: brought back when the next one cleans up.
    let other =
        place.session(&["--sandbox"], "claude", "grep -o 'oat01-3000' ~/.claude/.credentials.json");
    assert!(other.contains("oat01-3000"), "{other}");
}

fn hooks_are_heard(level: &str) {
    let place = Place::new();
    if !place.able(level) {
        return;
    }
    let other = place.ok(&["new", "--", "cat"]);
    let secret = "hush-hush-4711-value";
    let given = format!("KEY={secret}");
    let script = format!(
        r#"GREENROOM_SESSION={other} greenroom hook '{{"hook_event_name":"Notification","transcript_path":"/x","message":"needs you {secret}","kind":"permission"}}'
echo "first $?"
head -c 300000 /dev/zero > "$GREENROOM_HOOK"; head -c 5000 /dev/urandom > "$GREENROOM_HOOK"; printf GRH1 > "$GREENROOM_HOOK"; sleep 0.3
for i in 1 2 3; do printf '{{"hook_event_name":"PreToolUse","tool_name":"Write","tool_input":{{"content":"%s"}}}}' "$(head -c 30000 /dev/zero | tr '\0' x)" | greenroom hook --agent claude; echo "then $?"; done
greenroom hook 'no json'; echo "at last $?"; greenroom ls; echo "not served $?"
"#
    );
    place.write("work/script", &script);
    let id = place.ok(&["new", &format!("--sandbox={level}"), "--env", &given, "--", "claude"]);
    place.ok(&["wait", &id, "--until", "exit", "--timeout", "60s"]);
    let screen = place.ok(&["read", &id]);
    for said in ["first 0", "then 0", "at last 0"] {
        assert!(screen.contains(said), "{screen}");
    }
    assert!(!screen.contains("not served 0"), "{screen}");
    let events = eventually("both are heard", || {
        let events = place.events();
        events.iter().any(|event| event["data"]["event"] == "PreToolUse").then_some(events)
    });
    assert!(events.iter().all(|event| event["session"] == json!(id)), "{events:?}");
    let first = &events[0]["data"];
    assert_eq!((&first["agent"], &first["event"]), (&json!("claude"), &json!("Notification")));
    assert_eq!(first["data"]["kind"], "permission");
    assert!(first["data"]["message"].as_str().unwrap().starts_with("needs you "), "{first}");
    assert!(!json!(events).to_string().contains(secret), "{events:?}");
    let tool = events.iter().find(|event| event["data"]["event"] == "PreToolUse").unwrap();
    assert_eq!(
        (&tool["data"]["data"]["tool_name"], &tool["data"]["cut"]),
        (&json!("Write"), &json!(true))
    );
    // The pipe goes with the session.
    let left = eventually("it is cleaned up", || {
        let left = std::fs::read_dir(place.at("state/state/told")).unwrap().count();
        (left == 0).then_some(left)
    });
    assert_eq!(left, 0);
}

#[test]
fn hooks_are_heard_from_full() {
    hooks_are_heard("full");
}

#[test]
fn hooks_are_heard_from_reduced() {
    hooks_are_heard("reduced");
}
