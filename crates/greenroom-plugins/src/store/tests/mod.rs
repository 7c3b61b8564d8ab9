//! The store on a real disk.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use greenroom_formats::manifest::{Allow, Hook};
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

mod required;
mod sources;

const QUICKSTART: &str = "name: my-filter\ndescription: Redact API keys from session output.\nversion: 0.1.0\n\
                          entry: ./filter\nhooks:\n  - post_session_output\ntimeout_ms: 1500\n";
const NATIVE: &str = "schema = 1\n[plugin]\nname = \"guard\"\nversion = \"1\"\n[[runtime]]\nid = \"main\"\nkind = \"jsonl\"\n\
                      command = [\"./run\"]\n[[hooks]]\nhook = \"session.before\"\n[capabilities]\n\"screen.read\" = true\n\
                      \"secrets.read\" = [\"token\"]\n\"net.connect\" = [\"a:1\", \"b:2\"]\n";

struct Home {
    dir: TempDir,
    store: Store,
}

/// Copies are read-only: whoever is not root cannot just remove them.
impl Drop for Home {
    fn drop(&mut self) {
        remove(self.dir.path());
    }
}

impl Home {
    fn new() -> Home {
        let dir = tempfile::tempdir().unwrap();
        // As the host makes its own.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let store = Home::store(dir.path());
        Home { dir, store }
    }

    fn store(home: &Path) -> Store {
        let places = Places {
            plugins: home.join("plugins"),
            store: home.join("state/store"),
            lock: home.join("plugins.lock"),
            secrets: home.join("secrets"),
        };
        Store::new(places, |url, revision, into| {
            Ok(greenroom_workspace::git::clone(url, revision, into)?.to_string())
        })
    }

    /// As after a restart of the daemon.
    fn restarted(&mut self) {
        self.store = Home::store(self.dir.path());
    }

    fn write(&self, path: &str, text: &str) -> PathBuf {
        let file = self.dir.path().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
        let program = !text.contains("name") && !path.contains('.');
        fs::set_permissions(&file, fs::Permissions::from_mode(if program { 0o755 } else { 0o644 }))
            .unwrap();
        file
    }

    fn quickstart(&self) -> PathBuf {
        self.write("plugins/my-filter/manifest.yaml", QUICKSTART);
        self.write("plugins/my-filter/filter", "#!/bin/sh\necho '{\"action\":\"pass\"}'\n")
    }

    fn native(&self, place: &str) -> PathBuf {
        self.write(&format!("{place}/plugin.toml"), NATIVE);
        let run = self.write(&format!("{place}/run"), "#!/bin/sh\n");
        run.parent().unwrap().to_owned()
    }

    fn find(&self, name: &str) -> Found {
        let all = self.store.survey().found;
        all.into_iter().find(|found| found.name == name).unwrap_or_else(|| panic!("no {name}"))
    }

    fn grant(&self, name: &str) -> Result<Found, StoreError> {
        self.store.grant(name, &Granting { by: "test".into(), ..Granting::default() })
    }
}

#[test]
fn the_quickstart_is_found_and_runs_from_a_copy_nobody_can_write() {
    let home = Home::new();
    let filter = home.quickstart();
    let found = home.find("my-filter");
    assert_eq!(found.standing, Standing::Granted);
    assert_eq!(found.manifest.as_ref().unwrap().hooks[0].hook.hook, Hook::OutputFilter);
    assert_ne!(found.root, found.dir);
    assert_eq!(fs::read(found.root.join("filter")).unwrap(), fs::read(filter).unwrap());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&found.root), mode(&found.root.join("filter"))), (0o555, 0o555));
    assert_eq!(mode(&found.root.join("manifest.yaml")), 0o444);
    assert_eq!(mode(&home.dir.path().join("plugins.lock")), 0o600);
    home.store.unchanged(&found).unwrap();
}

#[test]
fn changed_bytes_do_not_run_until_the_operator_takes_them() {
    let mut home = Home::new();
    home.quickstart();
    let before = home.find("my-filter");
    // The same length, at once: what the clock of the disk cannot tell apart.
    home.write("plugins/my-filter/filter", "#!/bin/sh\necho '{\"action\":\"drop\"}'\n");
    assert!(home.store.unchanged(&before).unwrap_err().contains("have changed"));
    assert_eq!(home.find("my-filter").standing, Standing::Modified);
    home.restarted();
    assert_eq!(home.find("my-filter").standing, Standing::Modified);
    assert_eq!(home.store.accept(Some("other")).unwrap(), Vec::<String>::new());
    assert_eq!(home.store.accept(None).unwrap(), ["my-filter"]);
    let after = home.find("my-filter");
    assert_eq!(after.standing, Standing::Granted);
    assert_ne!(after.digest, before.digest);
    home.store.unchanged(&after).unwrap();
}

#[test]
fn copies_nobody_needs_go_with_the_next_daemon() {
    let mut home = Home::new();
    home.quickstart();
    let before = home.find("my-filter");
    home.write("plugins/my-filter/filter", "#!/bin/sh\n:\n");
    home.store.accept(None).unwrap();
    let after = home.find("my-filter");
    assert!(before.root.is_dir(), "a call may be under way");
    home.restarted();
    assert_eq!(home.find("my-filter").root, after.root);
    assert!(!before.root.exists() && after.root.is_dir());
}

#[test]
fn a_changed_mode_or_another_file_is_a_change() {
    let home = Home::new();
    let filter = home.quickstart();
    let before = home.find("my-filter");
    home.write("plugins/my-filter/lib/more.sh", "x");
    assert!(home.store.unchanged(&before).is_err());
    fs::remove_dir_all(home.dir.path().join("plugins/my-filter/lib")).unwrap();
    home.store.unchanged(&before).unwrap();
    // Neither is part of a plugin, and neither is in the copy that runs.
    home.write("plugins/my-filter/.git/HEAD", "x");
    home.write("plugins/my-filter/__pycache__/a.pyc", "x");
    home.store.unchanged(&before).unwrap();
    fs::set_permissions(&filter, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(home.store.unchanged(&before).is_err());
    let told = home.find("my-filter").standing;
    assert!(
        matches!(&told, Standing::Invalid(why) if why[0].contains("not executable") && why[0].contains("chmod +x")),
        "{told:?}"
    );
}

#[test]
fn a_copy_that_was_tampered_with_does_not_run() {
    let home = Home::new();
    home.quickstart();
    let found = home.find("my-filter");
    let copy = found.root.join("filter");
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(&copy, "#!/bin/sh\nevil\n").unwrap();
    assert!(home.store.unchanged(&found).is_err());
}

#[test]
fn a_native_plugin_needs_consent_and_is_bound_to_its_bytes() {
    let home = Home::new();
    let dir = home.native("plugins/guard");
    assert_eq!(home.find("guard").standing, Standing::NeedsConsent);
    let wrong = Granting { digest: Some("sha256:0".into()), ..Granting::default() };
    assert!(matches!(home.store.grant("guard", &wrong), Err(StoreError::Digest { .. })));
    let granted = home.grant("guard").unwrap();
    assert_eq!(granted.standing, Standing::Granted);
    assert_eq!(granted.grants.len(), 3);
    fs::write(dir.join("run"), "#!/bin/sh\n:\n").unwrap();
    assert_eq!(home.find("guard").standing, Standing::Modified);
    assert!(home.store.accept(None).unwrap().is_empty(), "a reload is no consent");
    assert_eq!(home.grant("guard").unwrap().standing, Standing::Granted);
    assert_eq!(home.store.revoke("guard").unwrap().standing, Standing::NeedsConsent);
    assert!(home.find("guard").grants.is_empty());
}

#[test]
fn a_revoked_script_stays_revoked() {
    let mut home = Home::new();
    home.quickstart();
    home.find("my-filter");
    assert_eq!(home.store.revoke("my-filter").unwrap().standing, Standing::NeedsConsent);
    home.restarted();
    assert!(home.store.accept(None).unwrap().is_empty());
    assert_eq!(home.find("my-filter").standing, Standing::NeedsConsent);
    assert_eq!(home.grant("my-filter").unwrap().standing, Standing::Granted);
}

#[test]
fn grants_can_be_narrowed_and_not_widened() {
    let home = Home::new();
    home.native("plugins/guard");
    let only = |caps: &[&str]| Granting {
        only: Some(caps.iter().map(|cap| (*cap).to_owned()).collect()),
        ..Granting::default()
    };
    let found = home.store.grant("guard", &only(&["screen.read", "net.connect=a:1"])).unwrap();
    assert_eq!(found.grants["net.connect"], Allow::List(vec!["a:1".into()]));
    assert!(!found.grants.contains_key("secrets.read"));
    for more in ["input.write", "net.connect=c:3"] {
        assert!(matches!(
            home.store.grant("guard", &only(&[more])),
            Err(StoreError::NotAsked { .. })
        ));
    }
}

#[test]
fn secrets_are_for_those_who_were_granted_them() {
    let home = Home::new();
    home.native("plugins/guard");
    home.write("secrets/token", "s3cret\n");
    home.write("secrets/other", "x");
    let found = home.grant("guard").unwrap();
    assert_eq!(home.store.secret(&found, "token").unwrap(), "s3cret");
    assert!(home.store.secret(&found, "other").is_none());
    assert!(home.store.secret(&found, "../plugins.lock").is_none());
    assert!(home.store.secret(&Found { grants: Allowed::new(), ..found }, "token").is_none());
}

#[test]
fn one_broken_plugin_is_one_broken_plugin() {
    let home = Home::new();
    home.quickstart();
    home.write(
        "plugins/typo/manifest.yaml",
        "name: typo\nentry: ./x\nhooks: [post_session_ouput]\n",
    );
    home.write("plugins/empty/README.md", "");
    home.write("plugins/two/manifest.yaml", "a: 1");
    home.write("plugins/two/manifest.toml", "a = 1");
    home.write("plugins/gone/manifest.yaml", "name: gone\nentry: ./gone\nhooks: [on_alert]\n");
    home.write("plugins/notes.txt", "");
    symlink("/etc", home.dir.path().join("plugins/link")).unwrap();
    let all = home.store.survey().found;
    let told = |name: &str| match &all.iter().find(|found| found.name == name).unwrap().standing {
        Standing::Invalid(why) => why.join("\n"),
        other => panic!("{name}: {other:?}"),
    };
    let place = home.dir.path().join("plugins/typo/manifest.yaml");
    let expected = format!(
        "{}:3:9: there is no hook \"post_session_ouput\", did you mean \"post_session_output\"?",
        place.display()
    );
    assert_eq!(told("typo"), expected);
    assert!(told("empty").contains("there is no manifest"));
    assert!(told("two").contains("two manifests"));
    assert!(told("gone").contains("not there"));
    assert!(told("link").contains("plugin link /etc"));
    assert_eq!(all.iter().filter(|found| found.standing == Standing::Granted).count(), 1);
    assert_eq!(all.len(), 6);
}

#[test]
fn nothing_is_found_in_the_working_directory() {
    let home = Home::new();
    let elsewhere = Home::new();
    elsewhere.quickstart();
    elsewhere.native("here");
    // The process's own directory is nothing the store ever asks for; these are places a host might
    // look in.
    for place in ["plugins", ".greenroom/plugins", "dist/plugins", ".host/plugins"] {
        elsewhere.native(&format!("{place}/guard"));
    }
    assert!(home.store.survey().found.is_empty());
}

#[test]
fn what_others_may_write_needs_consent() {
    let home = Home::new();
    home.quickstart();
    let dir = home.dir.path().join("plugins/my-filter");
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
    // Behind a door that only we can open it does no harm.
    assert_eq!(home.find("my-filter").standing, Standing::Granted);
    home.store.revoke("my-filter").unwrap();
    fs::remove_file(home.dir.path().join("plugins.lock")).unwrap();
    fs::set_permissions(home.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let found = home.find("my-filter");
    assert_eq!(found.standing, Standing::NeedsConsent);
    assert!(
        found.warnings.iter().any(|warning| warning.contains("chmod -R go-w")),
        "{:?}",
        found.warnings
    );
}

#[test]
fn names_are_unique() {
    let home = Home::new();
    home.native("plugins/a");
    home.native("plugins/b");
    let all = home.store.survey().found;
    let names: Vec<&str> = all.iter().map(|found| found.name.as_str()).collect();
    assert_eq!(names, ["guard", "guard#2"]);
    assert!(matches!(&all[1].standing, Standing::Invalid(why) if why[0].contains("is taken by")));
    let elsewhere = home.native("elsewhere");
    assert!(matches!(home.store.add(elsewhere.to_str().unwrap()), Err(StoreError::Taken { .. })));
    assert!(matches!(home.store.link(&elsewhere, "me"), Err(StoreError::Taken { .. })));
}
#[test]
fn a_program_outside_counts_as_part_of_the_plugin() {
    let home = Home::new();
    let tool = home.write("tool", "#!/bin/sh\n");
    home.write(
        "plugins/x/manifest.yaml",
        &format!("name: x\nentry: {}\nhooks: [on_alert]\n", tool.display()),
    );
    let found = home.find("x");
    assert_eq!(found.standing, Standing::Granted);
    fs::write(&tool, "#!/bin/sh\n:\n").unwrap();
    assert!(home.store.unchanged(&found).is_err());
    assert_eq!(home.find("x").standing, Standing::Modified);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_digest_tells_trees_apart_and_survives_copying(
        files in prop::collection::btree_map("[a-c]{1,2}(/[a-c]{1,2})?", (".{0,20}", any::<bool>()), 1..6),
        change in 0..6_usize,
    ) {
        let home = Home::new();
        let make = |root: &str, change: Option<usize>| {
            let root = home.dir.path().join(root);
            fs::create_dir_all(&root).unwrap();
            for (at, (path, (text, executable))) in files.iter().enumerate() {
                let file = root.join(path);
                let text = if change == Some(at) { format!("{text}!") } else { text.clone() };
                // `a` may be a file and a directory of another path: the first wins.
                if fs::create_dir_all(file.parent().unwrap()).is_err() || fs::write(&file, text).is_err() {
                    continue;
                }
                let mode = if *executable { 0o755 } else { 0o644 };
                fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            }
            root
        };
        let one = Tree::list(&make("one", None)).unwrap();
        let copied = one.copy(&home.dir.path().join("copy")).unwrap();
        prop_assert_eq!(&copied, &one.digest().unwrap());
        prop_assert_eq!(&copied, &Tree::list(&home.dir.path().join("copy")).unwrap().digest().unwrap());
        prop_assert_eq!(&copied, &Tree::list(&make("two", None)).unwrap().digest().unwrap());
        let other = Tree::list(&make("three", Some(change))).unwrap().digest().unwrap();
        let root = home.dir.path();
        let really = files.keys().any(|path| fs::read(root.join("one").join(path)).ok() != fs::read(root.join("three").join(path)).ok());
        prop_assert_eq!(copied != other, really);
        remove(&home.dir.path().join("copy"));
    }
}
