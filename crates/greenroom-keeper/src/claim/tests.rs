//! One keeper per directory, whatever was lost and however it is reached.

use std::os::unix::fs::symlink;
use std::process::{Child, Command, Stdio};

use super::*;

fn held(taken: Result<Claim, ClaimError>) -> Option<i32> {
    match taken {
        Err(ClaimError::Held { pid, .. }) => pid,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was had twice"),
    }
}

/// A living process that is not ours.
struct Other(Child);

impl Other {
    fn start() -> Other {
        Other(Command::new("cat").stdin(Stdio::piped()).spawn().unwrap())
    }

    fn identity(&self) -> Identity {
        let process = Process::of(self.0.id() as i32).unwrap();
        Identity { process, ..Identity::own().unwrap() }
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn a_directory_is_held_once_and_names_its_holder() {
    let dir = tempfile::tempdir().unwrap();
    let paths = KeeperPaths::below(dir.path());
    let first = Claim::take(&paths).unwrap();
    let error = Claim::take(&paths).err().unwrap();
    let expected = format!(
        "another keeper (pid {}) already holds {}",
        std::process::id(),
        paths.state.display()
    );
    assert_eq!(error.to_string(), expected);
    assert!(first.covers(&paths.state));
    drop(first);
    Claim::take(&paths).unwrap();
}

#[test]
fn other_names_and_lost_files_do_not_free_it() {
    let dir = tempfile::tempdir().unwrap();
    let here = KeeperPaths::below(dir.path());
    let _first = Claim::take(&here).unwrap();
    let link = dir.path().join("link");
    symlink(&here.state, &link).unwrap();
    let by_link = KeeperPaths { state: link, lock: dir.path().join("other/lock"), ..here.clone() };
    assert!(Claim::take(&by_link).is_err());
    std::fs::remove_dir_all(dir.path().join("run")).unwrap();
    std::fs::remove_file(here.state.join(LEDGER)).unwrap();
    assert_eq!(held(Claim::take(&here)), None, "held by nobody knows whom, but held");
    let moved = dir.path().join("moved");
    std::fs::rename(&here.state, &moved).unwrap();
    assert!(Claim::take(&KeeperPaths { state: moved, ..here }).is_err());
}

#[test]
fn a_lock_of_an_earlier_version_counts() {
    let dir = tempfile::tempdir().unwrap();
    let earlier = dir.path().join("earlier");
    let file = hold(&earlier, Duration::ZERO).unwrap();
    let paths = KeeperPaths {
        earlier_locks: vec![earlier.clone(), dir.path().join("none")],
        ..KeeperPaths::below(dir.path())
    };
    std::fs::write(&earlier, "4711\n").unwrap();
    assert_eq!(held(Claim::take(&paths)), Some(4711));
    drop(file);
    Claim::take(&paths).unwrap();
}

#[test]
fn a_keeper_of_an_earlier_version_that_was_replaced_locks_the_directory_too() {
    let dir = tempfile::tempdir().unwrap();
    let earlier = dir.path().join("earlier");
    let paths =
        KeeperPaths { earlier_locks: vec![earlier.clone()], ..KeeperPaths::below(dir.path()) };
    private_directory(&paths.lock).unwrap();
    let claim = Claim::resumed(hold(&earlier, Duration::ZERO).unwrap(), &paths);
    assert!(claim.covers(&paths.state));
    assert!(Claim::take(&KeeperPaths { earlier_locks: Vec::new(), ..paths }).is_err());
}

#[test]
fn a_living_keeper_of_a_copied_directory_keeps_it() {
    let dir = tempfile::tempdir().unwrap();
    let paths = KeeperPaths::below(dir.path());
    std::fs::create_dir(&paths.state).unwrap();
    let other = Other::start();
    let ledger = paths.state.join(LEDGER);
    std::fs::write(&ledger, format!("garbage\n{}\n", other.identity())).unwrap();
    assert_eq!(held(Claim::take(&paths)), Some(other.0.id() as i32));
    drop(other);
    Claim::take(&paths).unwrap();
}

#[test]
fn earlier_boots_recycled_numbers_and_damage_are_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let paths = KeeperPaths::below(dir.path());
    std::fs::create_dir(&paths.state).unwrap();
    let other = Other::start();
    let here = other.identity();
    assert!(here.lives() && Identity::parse(&here.to_string()) == Some(here.clone()));
    let boot = Identity { boot: "of-another-day".to_owned(), ..here.clone() };
    let mut recycled = here.clone();
    recycled.process.start_time -= 1;
    let elsewhere = Identity { space: here.space + 1, ..here };
    let lines =
        [boot.to_string(), recycled.to_string(), elsewhere.to_string(), "\0\0 1".to_owned()];
    std::fs::write(paths.state.join(LEDGER), lines.join("\n")).unwrap();
    Claim::take(&paths).unwrap();
    let text = std::fs::read_to_string(paths.state.join(LEDGER)).unwrap();
    assert_eq!(text, format!("{}\n", Identity::own().unwrap()), "only who holds it is left");
}

#[test]
fn a_dead_one_that_nobody_has_waited_for_is_dead() {
    let mut other = Other::start();
    let identity = other.identity();
    drop(other.0.stdin.take());
    while identity.process.lives() {
        std::thread::yield_now();
    }
    assert!(!identity.lives());
}

#[test]
fn a_directory_open_to_others_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let open = dir.path().join("run");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o750)).unwrap();
    let error = Claim::take(&KeeperPaths::below(dir.path())).err().unwrap();
    assert!(matches!(error, ClaimError::OpenDirectory { mode: 0o750, .. }));
}

#[test]
fn a_resumed_claim_is_the_same_claim() {
    let dir = tempfile::tempdir().unwrap();
    let paths = KeeperPaths::below(dir.path());
    let Claim { main, _file, .. } = Claim::take(&paths).unwrap();
    drop(_file);
    let again = Claim::resumed(main, &paths);
    assert!(again.covers(&paths.state) && Claim::take(&paths).is_err());
}

#[test]
fn what_lies_in_the_place_of_a_lock_is_moved_aside() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lock");
    std::fs::create_dir(&path).unwrap();
    std::fs::write(path.join("inside"), "").unwrap();
    drop(hold(&path, Duration::ZERO).unwrap());
    assert!(path.is_file() && dir.path().join("lock.damaged-1/inside").exists());
    std::fs::remove_file(&path).unwrap();
    symlink("elsewhere", &path).unwrap();
    drop(hold(&path, Duration::ZERO).unwrap());
    assert!(dir.path().join("lock.damaged-2").is_symlink());
    assert!(!dir.path().join("elsewhere").exists(), "nothing is made where a link leads");
}
