//! Plugins that come from somewhere: directories, links, archives, repositories.

use std::process::Command;

use super::*;

#[test]
fn a_directory_is_added_granted_and_removed() {
    let mut home = Home::new();
    let dir = home.native("elsewhere");
    let taken = home.store.add(dir.to_str().unwrap()).unwrap();
    assert_eq!((taken.name.as_str(), taken.trusted), ("guard", false));
    assert_eq!(home.find("guard").standing, Standing::NeedsConsent);
    home.grant("guard").unwrap();
    home.restarted();
    let found = home.find("guard");
    assert_eq!(found.standing, Standing::Granted);
    // What happens where it came from is nothing to the copy.
    fs::write(dir.join("run"), "#!/bin/sh\n:\n").unwrap();
    home.store.unchanged(&found).unwrap();
    assert!(
        home.store.add(dir.to_str().unwrap()).is_ok_and(|taken| !taken.trusted),
        "an update needs consent"
    );
    home.store.remove("guard").unwrap();
    assert!(home.store.survey().found.is_empty());
    assert!(matches!(home.store.remove("guard"), Err(StoreError::Unknown { .. })));
}

#[test]
fn the_operators_directory_is_not_removed() {
    let home = Home::new();
    home.quickstart();
    home.find("my-filter");
    let error = home.store.remove("my-filter").unwrap_err();
    assert!(error.hint().unwrap().contains("; rm -r "));
    assert!(home.dir.path().join("plugins/my-filter").is_dir());
}

#[test]
fn a_linked_plugin_runs_whatever_lies_there() {
    let mut home = Home::new();
    let dir = home.native("src/guard");
    home.store.link(&dir, "me").unwrap();
    home.restarted();
    let found = home.find("guard");
    assert_eq!((found.standing.clone(), found.root.clone()), (Standing::Linked, dir.clone()));
    assert_eq!(found.grants.len(), 3);
    fs::write(dir.join("run"), "#!/bin/sh\n:\n").unwrap();
    home.store.unchanged(&found).unwrap();
    home.store.remove("guard").unwrap();
    assert!(dir.is_dir() && home.store.survey().found.is_empty());
}

#[test]
fn a_plugin_is_loaded_for_a_lifetime() {
    let mut home = Home::new();
    let dir = home.native("src/guard");
    assert_eq!(home.store.load(&dir.join("plugin.toml")).unwrap(), "guard");
    assert_eq!(home.find("guard").standing, Standing::Granted);
    assert!(home.store.load(&dir.join("plugin.toml")).is_err());
    home.store.unload("guard").unwrap();
    assert!(home.store.survey().found.is_empty());
    home.store.load(&dir.join("plugin.toml")).unwrap();
    home.restarted();
    assert!(home.store.survey().found.is_empty());
}

#[test]
fn links_that_lead_out_and_things_that_are_no_files_are_refused() {
    for (name, target, fits) in [
        ("a", "run", true),
        ("lib/b", "../run", true),
        ("c", "/etc/passwd", false),
        ("lib/d", "../../secret", false),
        ("e", "nowhere", false),
        ("f", ".git/x", false),
    ] {
        let home = Home::new();
        let dir = home.native("src/guard");
        home.write("src/secret", "x");
        home.write("src/guard/.git/x", "x");
        fs::create_dir_all(dir.join("lib")).unwrap();
        symlink(target, dir.join(name)).unwrap();
        let added = home.store.add(dir.to_str().unwrap());
        assert_eq!(added.is_ok(), fits, "{name}: {added:?}");
    }
    let home = Home::new();
    let dir = home.native("src/guard");
    rustix::fs::mkfifoat(rustix::fs::CWD, dir.join("pipe"), rustix::fs::Mode::RWXU).unwrap();
    let error = home.store.add(dir.to_str().unwrap()).unwrap_err();
    assert!(error.to_string().contains("neither a file nor a directory"), "{error}");
}

#[test]
fn archives_are_unpacked_within_limits() {
    let home = Home::new();
    let dir = home.native("src/guard");
    for (name, flags) in [("g.tar.gz", "czf"), ("g.tar", "cf"), ("g.tgz", "czf")] {
        let archive = home.dir.path().join(name);
        let made = Command::new("tar")
            .arg(flags)
            .arg(&archive)
            .arg("-C")
            .arg(dir.parent().unwrap())
            .arg("guard")
            .status();
        assert!(made.unwrap().success());
        assert_eq!(home.store.add(archive.to_str().unwrap()).unwrap().name, "guard");
        home.store.remove("guard").unwrap();
    }
    let bad = |entry: &str, kind: tar::EntryType| {
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(0);
        header.set_mode(0o644);
        header.set_entry_type(kind);
        header.as_gnu_mut().unwrap().name[..entry.len()].copy_from_slice(entry.as_bytes());
        if kind == tar::EntryType::Symlink {
            header.set_link_name("/etc/passwd").unwrap();
        }
        header.set_cksum();
        builder.append(&header, &[][..]).unwrap();
        let file = home.dir.path().join("bad.tar");
        fs::write(&file, builder.into_inner().unwrap()).unwrap();
        home.store.add(file.to_str().unwrap()).unwrap_err().to_string()
    };
    assert!(bad("../out", tar::EntryType::Regular).contains("leads out"));
    assert!(bad("link", tar::EntryType::Symlink).contains("neither a file nor"));
    assert!(!home.dir.path().join("state/out").exists());
    let left: Vec<_> = fs::read_dir(home.dir.path().join("state/store")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_repository_is_cloned_and_its_commit_recorded() {
    let home = Home::new();
    let dir = home.native("src/guard");
    test_kit::git::init(&dir);
    test_kit::git::commit_all(&dir, "one");
    let url = format!("git+file://{}", dir.display());
    assert_eq!(home.store.add(&url).unwrap().name, "guard");
    let record = home.store.record("guard").unwrap().unwrap();
    let (_, commit) = record.source.split_once('#').unwrap();
    assert_eq!(commit.len(), 40, "{}", record.source);
    assert!(home.store.add(&format!("{url}#nowhere")).is_err());
    for bad in ["git@host:x", "ssh://host/x", "git+ext::sh", "relative/dir", "/no/such/dir"] {
        assert!(home.store.add(bad).is_err(), "{bad}");
    }
}

#[test]
fn passwords_in_addresses_are_not_written_down() {
    let source = Source::parse("https://me:s3cret@example.com/x.git#main").unwrap();
    assert_eq!(source.describe(Some("abc")), "git+https://example.com/x.git#abc");
}
