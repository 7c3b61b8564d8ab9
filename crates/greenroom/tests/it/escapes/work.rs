//! What must work inside: a fence nobody can work behind is taken down.

use test_kit::git::git_as;

use super::able;
use super::site::{Site, User};
use crate::support::Said;

/// Git, a compiler, and what shells do; wherever a session may be.
const WORK: &str = r#"set -e
echo 2 >> a; git add a; git commit -qm second; git commit -q --amend -m second
git checkout -q --detach; echo 3 > b; git add b; git commit -qm beside; beside=$(git rev-parse HEAD); git checkout -q -
echo 4 > c; git add c; git commit -qm third; git merge -q --no-edit "$beside"; git log --merges --oneline | wc -l
GIT_SEQUENCE_EDITOR=true git rebase -q -i HEAD~2; git log --format=%s | sort | tr '\n' ' '; git status --porcelain
printf '#include <stdio.h>\nint main(void) { puts("compiled"); }\n' > /tmp/a.c; cc -O1 -o ./a.out /tmp/a.c; ./a.out; rm a.out
set -m; sh -c 'kill -STOP $$; echo resumed' || jobs; fg %1; set +m
echo "at $GREENROOM_SANDBOX"
"#;

/// And what has a place of its own at level full only.
const OWN_PLACE: &str = r#"
tty; script -qec tty /dev/null
python3 -c "
import socket, threading
s = socket.create_server(('127.0.0.1', 18779))
threading.Thread(target=lambda: s.accept()[0].sendall(b'loopback'), daemon=True).start()
print('own', socket.create_connection(('127.0.0.1', 18779)).recv(9).decode())"
exec 3<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT evil.example.com:443 HTTP/1.1\r\n\r\n' >&3; head -1 <&3; exec 3>&-
"#;

fn works(user: User, level: &str) {
    let site = Site::new(user);
    if !able(&site, level) {
        return;
    }
    let repo = site.path("work/repo");
    std::fs::create_dir(&repo).unwrap();
    std::fs::write(repo.join("a"), "1\n").unwrap();
    user.owns(&repo);
    for args in [&["init", "-qb", "main"][..], &["add", "a"], &["commit", "-qm", "first"]] {
        git_as(user, &repo, args);
    }
    let full = level == "full";
    let script = if full { WORK.to_owned() + OWN_PLACE } else { WORK.to_owned() };
    let sandbox = format!("--sandbox={level}");
    let mut args = vec!["new", "--worktree", "feat-x", "--size", "200x50", &sandbox];
    if full {
        args.extend(["--allow-host", "api.example.com"]);
    }
    // In a shell of its own: what fails ends it, and not the session.
    args.extend(["--", "bash", "-c", "bash -c \"$1\"; echo \"status $?\"; cat", "x", &script]);
    let id = site.ok(&repo, &args);
    site.home.wait_text(&id, "status [0-9]+");
    let screen = site.home.screen(&id);
    let mut parts =
        vec!["1\n", "beside first second third", "compiled", "Stopped", "resumed", "status 0"];
    if full {
        parts.extend(["/dev/pts/0\n/dev/pts/1", "own loopback", "403 Forbidden", "at full"]);
    }
    for part in parts {
        assert!(screen.contains(part), "{level} as {user:?}: {part:?} is missing in\n{screen}");
    }
    // The end tells what was denied and what is kept.
    let killed = Said::of(site.command(&repo, &["kill", &id]).output().unwrap());
    assert_eq!(killed.code, 0, "{killed:?}");
    assert!(killed.err.contains("kept worktree"), "{killed:?}");
    if full {
        assert!(killed.err.contains("denied evil.example.com:443: not an allowed"), "{killed:?}");
    }
    let log = git_as(user, &repo, &["log", "--format=%s", "greenroom/feat-x"]);
    assert!(["second", "beside", "third"].iter().all(|line| log.contains(line)), "{log}");
    git_as(user, &repo, &["fsck"]);
    // Picks are over, though git inside could not say so: what keeps it is commits.
    let kept = site.home.json(&["worktree", "ls", "--json"])["worktrees"][0]["why"].to_string();
    assert!(kept.contains("on no other branch") && !kept.contains("in progress"), "{kept}");
}

#[test]
fn work_is_possible_at_full_as_an_ordinary_user() {
    works(User::Ordinary, "full");
}

#[test]
fn work_is_possible_at_full_as_root() {
    if rustix::process::geteuid().is_root() {
        works(User::Root, "full");
    }
}

#[test]
fn work_is_possible_at_reduced() {
    works(User::Ordinary, "reduced");
}
