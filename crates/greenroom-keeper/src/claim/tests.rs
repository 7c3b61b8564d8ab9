//! One keeper per directory, whatever was lost and however it is reached.

use std::os::unix::fs::symlink;
use std::process::{Child, Command, Stdio};

use super::*;

fn seat(dir: &Path) -> Seat {
    let run = dir.join("run");
    Seat {
        state: dir.join("state"),
        lock: run.join("lock"),
        socket: run.join("sock"),
        alias: None,
        elders: Vec::new(),
    }
}

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
    let seat = seat(dir.path());
    let first = Claim::take(&seat).unwrap();
    let error = Claim::take(&seat).err().unwrap();
    let expected = format!(
        "another keeper (pid {}) already holds {}",
        std::process::id(),
        seat.state.display()
    );
    assert_eq!(error.to_string(), expected);
    assert!(first.covers(&seat.state));
    drop(first);
    Claim::take(&seat).unwrap();
}

#[test]
fn other_names_and_lost_files_do_not_free_it() {
    let dir = tempfile::tempdir().unwrap();
    let here = seat(dir.path());
    let _first = Claim::take(&here).unwrap();
    let link = dir.path().join("link");
    symlink(&here.state, &link).unwrap();
    let by_link = Seat { state: link, lock: dir.path().join("other/lock"), ..here.clone() };
    assert!(Claim::take(&by_link).is_err());
    std::fs::remove_dir_all(dir.path().join("run")).unwrap();
    std::fs::remove_file(here.state.join(LEDGER)).unwrap();
    assert_eq!(held(Claim::take(&here)), None, "held by nobody knows whom, but held");
    let moved = dir.path().join("moved");
    std::fs::rename(&here.state, &moved).unwrap();
    assert!(Claim::take(&Seat { state: moved, ..here }).is_err());
}

#[test]
fn a_lock_of_an_earlier_version_counts() {
    let dir = tempfile::tempdir().unwrap();
    let elder = dir.path().join("elder");
    let file = hold(&elder, Duration::ZERO).unwrap();
    let seat = Seat { elders: vec![elder.clone(), dir.path().join("none")], ..seat(dir.path()) };
    std::fs::write(&elder, "4711\n").unwrap();
    assert_eq!(held(Claim::take(&seat)), Some(4711));
    drop(file);
    Claim::take(&seat).unwrap();
}

#[test]
fn a_keeper_of_an_earlier_version_that_was_replaced_locks_the_directory_too() {
    let dir = tempfile::tempdir().unwrap();
    let elder = dir.path().join("elder");
    let seat = Seat { elders: vec![elder.clone()], ..seat(dir.path()) };
    private_directory(&seat.lock).unwrap();
    let claim = Claim::resumed(hold(&elder, Duration::ZERO).unwrap(), &seat);
    assert!(claim.covers(&seat.state));
    assert!(Claim::take(&Seat { elders: Vec::new(), ..seat }).is_err());
}

#[test]
fn a_living_keeper_of_a_copied_directory_keeps_it() {
    let dir = tempfile::tempdir().unwrap();
    let seat = seat(dir.path());
    std::fs::create_dir(&seat.state).unwrap();
    let other = Other::start();
    let ledger = seat.state.join(LEDGER);
    std::fs::write(&ledger, format!("garbage\n{}\n", other.identity())).unwrap();
    assert_eq!(held(Claim::take(&seat)), Some(other.0.id() as i32));
    drop(other);
    Claim::take(&seat).unwrap();
}

#[test]
fn earlier_boots_recycled_numbers_and_damage_are_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let seat = seat(dir.path());
    std::fs::create_dir(&seat.state).unwrap();
    let other = Other::start();
    let here = other.identity();
    assert!(here.lives() && Identity::parse(&here.to_string()) == Some(here.clone()));
    let boot = Identity { boot: "of-another-day".to_owned(), ..here.clone() };
    let mut recycled = here.clone();
    recycled.process.start_time -= 1;
    let elsewhere = Identity { space: here.space + 1, ..here };
    let lines =
        [boot.to_string(), recycled.to_string(), elsewhere.to_string(), "\0\0 1".to_owned()];
    std::fs::write(seat.state.join(LEDGER), lines.join("\n")).unwrap();
    Claim::take(&seat).unwrap();
    let text = std::fs::read_to_string(seat.state.join(LEDGER)).unwrap();
    assert_eq!(text, format!("{}\n", Identity::own().unwrap()), "only who holds it is left");
}

#[test]
fn a_dead_one_that_nobody_has_waited_for_is_dead() {
    let mut other = Other::start();
    let identity = other.identity();
    drop(other.0.stdin.take());
    while !crate::tree::is_dead(identity.process.pid) {
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
    let error = Claim::take(&seat(dir.path())).err().unwrap();
    assert!(matches!(error, ClaimError::OpenDirectory { mode: 0o750, .. }));
}

#[test]
fn a_resumed_claim_is_the_same_claim() {
    let dir = tempfile::tempdir().unwrap();
    let seat = seat(dir.path());
    let Claim { main, _file, .. } = Claim::take(&seat).unwrap();
    drop(_file);
    let again = Claim::resumed(main, &seat);
    assert!(again.covers(&seat.state) && Claim::take(&seat).is_err());
}
