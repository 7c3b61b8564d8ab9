//! Plugins that are required, and what is left of them when files are damaged or gone.

use super::*;

#[test]
fn a_lock_that_cannot_be_read_lets_nothing_run() {
    let home = Home::new();
    home.quickstart();
    for text in ["version = 2\n", "not toml", "version = 1\n[[plugin]]\nname = 3\n"] {
        home.write("plugins.lock", text);
        let error = home.store.survey().faults[0].to_string();
        assert!(error.contains("plugins.lock"), "{error}");
    }
}

/// The guard with hooks whose absence counts, added and agreed to.
fn guarded() -> Home {
    let home = Home::new();
    let dir = home.native("elsewhere");
    let required = NATIVE.replace("\"session.before\"\n", "\"session.before\"\nrequired = true\n");
    fs::write(dir.join("plugin.toml"), required).unwrap();
    home.store.add(dir.to_str().unwrap()).unwrap();
    home.grant("guard").unwrap();
    assert!(home.find("guard").claims.is_empty(), "it runs");
    home
}

type Damage = (&'static str, fn(&Path));

/// What can become of a file.
const DAMAGES: [Damage; 6] = [
    ("gone", |path| fs::remove_file(path).unwrap()),
    ("empty", |path| fs::write(path, "").unwrap()),
    ("junk", |path| fs::write(path, "junk\n").unwrap()),
    ("short", |path| {
        let bytes = fs::read(path).unwrap();
        fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
    }),
    ("another version", |path| fs::write(path, "version = 7\n").unwrap()),
    ("a directory", |path| {
        fs::remove_file(path).unwrap();
        fs::create_dir(path).unwrap();
    }),
];

fn claimed(survey: &Survey) -> Vec<(&str, Hook)> {
    let claims = |one: &Found| one.claims.iter().map(|hook| hook.hook.hook).collect::<Vec<_>>();
    survey
        .found
        .iter()
        .flat_map(|one| claims(one).into_iter().map(|hook| (one.name.as_str(), hook)))
        .collect()
}

#[test]
fn a_required_plugin_is_missed_whatever_became_of_its_files() {
    let copy = |home: &Home| home.find("guard").root;
    type Damage = fn(&Path);
    let lost: [(&str, Damage); 3] = [
        ("no copies", |copy| remove(copy.parent().unwrap())),
        ("no manifest", |copy| {
            fs::set_permissions(copy, fs::Permissions::from_mode(0o755)).unwrap();
            fs::remove_file(copy.join("plugin.toml")).unwrap();
        }),
        ("no program", |copy| {
            fs::set_permissions(copy, fs::Permissions::from_mode(0o755)).unwrap();
            fs::remove_file(copy.join("run")).unwrap();
        }),
    ];
    for (how, lose) in lost {
        let mut home = guarded();
        lose(&copy(&home));
        for _ in 0..2 {
            home.restarted();
            let survey = home.store.survey();
            assert_eq!(claimed(&survey), [("guard", Hook::SessionBefore)], "{how}");
            assert_eq!((survey.faults.len(), survey.unguarded), (0, None), "{how}");
        }
        // An operator who says so does without it.
        match how {
            "no program" => drop(home.store.revoke("guard").unwrap()),
            _ => home.store.remove("guard").unwrap(),
        }
        home.restarted();
        assert_eq!(claimed(&home.store.survey()), [], "{how}");
    }
    // A manifest that asks for less now is not what was agreed to.
    let mut home = guarded();
    let file = copy(&home).join("plugin.toml");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(&file, NATIVE).unwrap();
    home.restarted();
    assert_eq!(home.find("guard").standing, Standing::Modified);
    assert_eq!(claimed(&home.store.survey()), [("guard", Hook::SessionBefore)]);
}

#[test]
fn a_lost_lock_or_note_is_no_leave() {
    for (how, damage) in DAMAGES {
        let mut home = guarded();
        let lock = home.dir.path().join("plugins.lock");
        damage(&lock);
        for _ in 0..2 {
            home.restarted();
            let survey = home.store.survey();
            assert_eq!(claimed(&survey), [("guard", Hook::SessionBefore)], "lock {how}");
            assert!(survey.faults[0].to_string().contains("plugins.lock"), "lock {how}");
            assert_eq!(survey.unguarded, None, "lock {how}");
        }
        home.store.remove("guard").unwrap();
        home.restarted();
        let survey = home.store.survey();
        assert_eq!((claimed(&survey), &survey.unguarded), (vec![], &None), "lock {how}");
        // The lock says it all: the note is made again.
        let mut home = guarded();
        damage(&home.dir.path().join("plugins.required"));
        home.restarted();
        let survey = home.store.survey();
        assert_eq!((survey.faults.len(), survey.unguarded), (0, None), "note {how}");
        remove(home.find("guard").root.parent().unwrap());
        assert_eq!(claimed(&home.store.survey()), [("guard", Hook::SessionBefore)], "note {how}");
        // It does not.
        let mut home = guarded();
        damage(&home.dir.path().join("plugins.required"));
        remove(&home.dir.path().join("state/store"));
        home.restarted();
        let unguarded = home.store.survey().unguarded.unwrap_or_else(|| panic!("note {how}"));
        assert!(unguarded.hint.contains("plugin grant guard"), "{unguarded:?}");
        home.store.remove("guard").unwrap();
        assert_eq!(home.store.survey().unguarded, None, "note {how}");
    }
}

#[test]
fn without_lock_and_note_nobody_knows_and_it_is_said() {
    for (first, damage) in DAMAGES {
        for (second, other) in DAMAGES {
            let how = format!("lock {first}, note {second}");
            let mut home = guarded();
            let (lock, note) =
                (home.dir.path().join("plugins.lock"), home.dir.path().join("plugins.required"));
            damage(&lock);
            other(&note);
            for _ in 0..2 {
                home.restarted();
                let unguarded = home.store.survey().unguarded.unwrap_or_else(|| panic!("{how}"));
                assert!(unguarded.why.contains("plugins.required"), "{how}: {unguarded:?}");
                assert!(unguarded.hint.contains("plugins.lock"), "{how}: {unguarded:?}");
            }
            // Nor does agreeing to another hide it.
            let other = home.native("plugins/other");
            let text = NATIVE
                .replace("guard", "other")
                .replace("before\"\n", "before\"\nrequired = true\n");
            fs::write(other.join("plugin.toml"), text).unwrap();
            assert!(home.grant("other").is_err(), "{how}");
            assert!(home.store.survey().unguarded.is_some(), "{how}");
            for path in [&lock, &note, &home.dir.path().join("state/store/.required")] {
                let _ = fs::remove_file(path).or_else(|_| fs::remove_dir(path));
            }
            home.restarted();
            assert_eq!(home.store.survey().unguarded, None, "{how}");
        }
    }
}

#[test]
fn nobody_is_missed_where_nobody_was_required() {
    let mut home = Home::new();
    let dir = home.native("elsewhere");
    home.store.add(dir.to_str().unwrap()).unwrap();
    home.quickstart();
    let without = |home: &Home| {
        let survey = home.store.survey();
        assert_eq!((claimed(&survey), &survey.unguarded), (vec![], &None));
    };
    without(&home);
    home.grant("guard").unwrap();
    without(&home);
    // A changed plugin is not missed either, nor the note where all run as agreed.
    fs::remove_file(home.dir.path().join("plugins.required")).unwrap();
    without(&home);
    assert!(home.dir.path().join("plugins.required").exists());
    fs::remove_file(home.dir.path().join("plugins.lock")).unwrap();
    home.restarted();
    without(&home);
}

#[test]
fn a_required_plugin_that_was_dropped_or_linked_is_missed_too() {
    let required = NATIVE.replace("\"session.before\"\n", "\"session.before\"\nrequired = true\n");
    for linked in [false, true] {
        let mut home = Home::new();
        let dir = home.native("plugins/guard");
        fs::write(dir.join("plugin.toml"), &required).unwrap();
        let elsewhere = home.dir.path().join("elsewhere");
        if linked {
            fs::rename(&dir, &elsewhere).unwrap();
            home.store.link(&elsewhere, "me").unwrap();
        } else {
            home.grant("guard").unwrap();
        }
        assert_eq!(claimed(&home.store.survey()), []);
        let (from, aside) = (if linked { &elsewhere } else { &dir }, home.dir.path().join("aside"));
        fs::rename(from, &aside).unwrap();
        home.restarted();
        assert_eq!(claimed(&home.store.survey()), [("guard", Hook::SessionBefore)]);
        fs::rename(&aside, from).unwrap();
        assert_eq!(claimed(&home.store.survey()), []);
        assert!(home.find("guard").standing.may_run());
        fs::remove_dir_all(from).unwrap();
        home.store.remove("guard").unwrap();
        assert_eq!(claimed(&home.store.survey()), []);
    }
}
