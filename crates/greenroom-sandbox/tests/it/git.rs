//! Git inside: a worktree's session can work, and can do nothing to the repository or to git
//! outside.

use greenroom_sandbox::policy::{GitRules, Level, Policy, Refs};
use std::path::Path;
use test_kit::git::git_as;

use crate::cage::{Outcome, User, World};
use crate::replaced::sees;

/// A repository with a worktree on a branch of its own, and another branch beside it.
struct Repo {
    world: World,
    refs: Refs,
}

fn git(world: &World, dir: &Path, args: &[&str]) -> String {
    git_as(world.user, dir, args)
}

impl Repo {
    fn new(user: User, refs: Refs) -> Repo {
        let world = World::new(user);
        let main = world.path("out/main");
        std::fs::create_dir(&main).unwrap();
        world.write("home/.gitconfig", "[user]\nname=x\nemail=x@x\n");
        world.own();
        git(&world, &main, &["init", "-qb", "main"]);
        std::fs::write(main.join("a"), "1\n").unwrap();
        world.own();
        git(&world, &main, &["add", "a"]);
        git(&world, &main, &["commit", "-qm", "first"]);
        git(&world, &main, &["gc", "-q"]);
        let (own, beside) = match &refs {
            Refs::Own { dir } => (format!("{dir}/work"), "greenroom/beside".to_owned()),
            Refs::Shared { branch } => (branch.clone(), "greenroom/beside".to_owned()),
        };
        git(&world, &main, &["branch", &beside]);
        std::fs::remove_dir(world.path("work")).unwrap();
        let work = world.path("work");
        git(&world, &main, &["worktree", "add", "-qb", &own, work.to_str().unwrap()]);
        Repo { world, refs }
    }

    fn git_dir(&self) -> std::path::PathBuf {
        self.world.path("out/main/.git")
    }

    fn policy(&self, level: Level) -> Policy {
        let git = GitRules::Worktree {
            worktree: self.world.path("work"),
            common_dir: self.git_dir(),
            admin_dir: self.git_dir().join("worktrees/work"),
            refs: self.refs.clone(),
        };
        Policy { git: Some(git), ..self.world.policy(level) }
    }

    fn sh(&self, level: Level, script: &str) -> Outcome {
        self.world.run(&self.policy(level), &["sh", "-c", script])
    }

    fn branch(&self) -> String {
        match &self.refs {
            Refs::Own { dir } => format!("{dir}/work"),
            Refs::Shared { branch } => branch.clone(),
        }
    }
}

fn own() -> Refs {
    Refs::Own { dir: "greenroom/s1".into() }
}

fn shared() -> Refs {
    Refs::Shared { branch: "greenroom/feat".into() }
}

const FLOW: &str = "set -e
    git status --short; echo 2 >> a; git add a; git commit -qm second; git commit -q --amend -m second
    echo 3 > b; git add b; git commit -qm third
    git reset -q --hard HEAD~1; git merge -q --ff-only HEAD@{1}
    git revert --no-edit HEAD >/dev/null; git cherry-pick --no-commit HEAD~1; git commit -qm picked
    GIT_SEQUENCE_EDITOR=true git rebase -q -i HEAD~2
    git log --oneline | wc -l; git fsck --connectivity-only; echo flowed";

#[test]
fn a_session_commits_merges_and_rebases() {
    for (level, users) in [(Level::Full, User::all()), (Level::Reduced, vec![User::Ordinary])] {
        for user in users {
            for refs in [own(), shared()] {
                let repo = Repo::new(user, refs);
                let outcome = repo.sh(level, FLOW);
                assert!(outcome.text.ends_with("flowed\n"), "{level} {user:?}: {}", outcome.text);
                // Seen outside as what it is.
                let log = git(
                    &repo.world,
                    &repo.world.path("out/main"),
                    &["log", "--format=%s", &repo.branch()],
                );
                assert!(log.contains("second"), "{log}");
                git(&repo.world, &repo.world.path("out/main"), &["fsck"]);
            }
        }
    }
}

#[test]
fn branches_of_its_own_and_merges_with_conflicts_work() {
    let repo = Repo::new(User::Ordinary, own());
    let script = "set -e; git checkout -qb greenroom/s1/x; echo x > a; git commit -qam x
        git checkout -q greenroom/s1/work; echo y > a; git commit -qam y
        git merge greenroom/s1/x || echo conflict; echo z > a; git add a; git commit -qm merged; git log --oneline | wc -l";
    let outcome = repo.sh(Level::Full, script);
    assert!(outcome.text.contains("conflict") && outcome.text.trim().ends_with('4'), "{outcome:?}");
}

/// Everything of the repository that the session may not change, as one text.
fn untouchable(repo: &Repo, full: bool) -> String {
    let git_dir = repo.git_dir();
    let mut text = String::new();
    let mut files = vec![
        "config",
        "HEAD",
        "packed-refs",
        "hooks",
        "info",
        "objects/pack",
        "objects/info",
        "refs/tags",
        "refs/heads/main",
    ];
    if full {
        files.extend([
            "refs/heads/greenroom/beside",
            "worktrees/work/commondir",
            "worktrees/work/gitdir",
        ]);
    }
    for name in files {
        describe(&git_dir.join(name), &mut text);
    }
    if full {
        describe(&repo.world.path("work/.git"), &mut text);
        describe(&git_dir.join("worktrees/work/config.worktree"), &mut text);
    }
    text
}

fn describe(path: &Path, text: &mut String) {
    if path.is_dir() {
        let mut entries: Vec<_> =
            std::fs::read_dir(path).unwrap().map(|it| it.unwrap().path()).collect();
        entries.sort();
        entries.iter().for_each(|it| describe(it, text));
    } else {
        let bytes = std::fs::read(path).unwrap_or_default();
        text.push_str(&format!("{} {:?}\n", path.display(), String::from_utf8_lossy(&bytes)));
    }
}

const ATTACKS: &[&str] = &[
    "echo evil > $G/hooks/pre-commit",
    "rm -rf $G/hooks",
    "git config core.fsmonitor evil",
    "git config --worktree core.fsmonitor evil",
    "echo evil >> $G/config",
    "mkdir -p $G/info && echo '* filter=evil' > $G/info/attributes",
    "echo evil > $G/HEAD",
    "git update-ref refs/heads/main HEAD~0 && echo evil > $G/refs/heads/main",
    "git tag evil",
    "git update-ref -d refs/heads/greenroom/beside",
    "echo 0000000000000000000000000000000000000000 > $G/refs/heads/greenroom/beside",
    "rm -f $G/refs/heads/greenroom/beside",
    "mv $G/refs/heads/greenroom $G/refs/heads/elsewhere",
    "rm -f $G/objects/pack/*",
    "mv $G/objects/pack $G/objects/pack2",
    "mv $G/objects $G/objects2",
    "echo /evil > $G/objects/info/alternates",
    "echo 'gitdir: /evil' > .git",
    "rm -f .git && mkdir .git",
    "mv .git .git2",
    "echo ../evil > $G/worktrees/work/commondir",
    "rm -f $G/worktrees/work/commondir",
    "mv $G/worktrees/work/gitdir $G/worktrees/work/gitdir2",
    "mv $G/worktrees/work $G/worktrees/work2",
    "git pack-refs --all",
    "git gc",
];

/// Landlock cannot carve files out of a directory that may be written.
const REDUCED_CANNOT: &[&str] =
    &[".git", "commondir", "gitdir", "beside", "--worktree", "refs/heads/greenroom"];

#[test]
fn the_repository_stays_as_it_is() {
    for (level, users) in [(Level::Full, User::all()), (Level::Reduced, vec![User::Ordinary])] {
        for user in users {
            let full = level == Level::Full;
            let repo = Repo::new(user, shared());
            // Once, so that what the start makes is there.
            repo.sh(level, "true").ok();
            let before = untouchable(&repo, full);
            for attack in ATTACKS {
                let attack = attack.replace("$G", repo.git_dir().to_str().unwrap());
                if !full && REDUCED_CANNOT.iter().any(|it| attack.contains(it)) {
                    continue;
                }
                let outcome = repo.sh(level, &attack);
                assert!(outcome.fault.is_none(), "{outcome:?}");
                assert_eq!(untouchable(&repo, full), before, "{level} {user:?}: {attack}");
            }
        }
    }
}

/// A branch that is only in the packed list has no file that could be pinned, so it gets one.
#[test]
fn packed_branches_beside_its_own_cannot_be_moved() {
    for user in User::all() {
        let repo = Repo::new(user, shared());
        let main = repo.world.path("out/main");
        git(&repo.world, &main, &["branch", "greenroom/deep/er"]);
        git(&repo.world, &main, &["pack-refs", "--all"]);
        let beside = ["for-each-ref", "refs/heads/greenroom/beside", "refs/heads/greenroom/deep"];
        let before = git(&repo.world, &main, &beside);
        assert!(!repo.git_dir().join("refs/heads/greenroom/beside").exists(), "it is packed");
        let script = "echo 2 >> a; git commit -qam second
            git update-ref refs/heads/greenroom/beside HEAD; git update-ref refs/heads/greenroom/deep/er HEAD
            git rev-parse HEAD > $G/refs/heads/greenroom/beside; git branch -D greenroom/beside; git --no-pager log -1 --format=%s";
        let script = script.replace("$G", repo.git_dir().to_str().unwrap());
        let outcome = repo.sh(Level::Full, &script);
        assert!(outcome.text.trim().ends_with("second"), "{outcome:?}");
        assert_eq!(git(&repo.world, &main, &beside), before);
        let own = git(&repo.world, &main, &["log", "-1", "--format=%s", "greenroom/feat"]);
        assert_eq!(own, "second");
    }
}

/// Branches come and go outside while sandboxes start beside them. What was there a moment ago is
/// not made again: an empty branch is a broken one, and an empty lock keeps git out for ever.
#[test]
fn a_start_makes_no_branches_and_no_locks() {
    let repo = Repo::new(User::Ordinary, shared());
    let heads = repo.git_dir().join("refs/heads/greenroom");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let coming_and_going = scope.spawn(|| {
            let id = std::fs::read(heads.join("beside")).unwrap();
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                std::fs::write(heads.join("new.lock"), &id).unwrap();
                std::fs::rename(heads.join("new.lock"), heads.join("new")).unwrap();
                std::fs::remove_file(heads.join("new")).unwrap();
            }
        });
        for _ in 0..12 {
            let outcome = repo.sh(Level::Full, "true");
            assert_eq!(outcome.code, Some(0), "{outcome:?}");
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        coming_and_going.join().unwrap();
    });
    let mut left: Vec<_> =
        std::fs::read_dir(&heads).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["beside", "feat"]);
}

/// A commit replaces the branch's file, and with it what fixed that file.
#[test]
fn a_branch_that_others_move_cannot_be_moved_by_this_one() {
    for user in User::all() {
        let repo = Repo::new(user, shared());
        let main = repo.world.path("out/main");
        let path = repo.git_dir().join("refs/heads/greenroom/beside");
        let attack =
            format!("echo 0000 > {0} && echo WROTE; rm -f {0} && echo GONE", path.display());
        let after = format!("sleep 0.3; {attack}");
        let said = sees(&repo.world, &repo.policy(Level::Full), [&attack, &after], || {
            for _ in 0..2 {
                git(&repo.world, &main, &["commit", "-q", "--allow-empty", "-m", "more"]);
                git(&repo.world, &main, &["branch", "-f", "greenroom/beside"]);
            }
        });
        let said = said.concat();
        assert!(!said.contains("WROTE") && !said.contains("GONE"), "{said}");
        let head = git(&repo.world, &main, &["rev-parse", "HEAD"]);
        assert_eq!(std::fs::read_to_string(path).unwrap().trim(), head.trim());
    }
}

#[test]
fn the_attacks_work_without_a_sandbox() {
    let mut works = 0;
    for attack in ATTACKS {
        let repo = Repo::new(User::Ordinary, shared());
        let before = untouchable(&repo, true);
        let attack = attack.replace("$G", repo.git_dir().to_str().unwrap());
        let mut command = repo.world.user.command("sh");
        command
            .args(["-c", &attack])
            .current_dir(repo.world.path("work"))
            .env("HOME", repo.world.path("home"));
        let _ = command.output().unwrap();
        let changed =
            std::panic::catch_unwind(|| untouchable(&repo, true)).map_or(true, |now| now != before);
        if changed {
            works += 1;
        } else {
            eprintln!("NOT RUN: {attack}: changes nothing outside either");
        }
    }
    assert!(works + 3 >= ATTACKS.len(), "{works} of {} attacks prove something", ATTACKS.len());
}

/// A main checkout, with whatever `prepare` does to it.
fn checkout(user: User, prepare: impl FnOnce(&World, &Path)) -> (World, Policy) {
    let world = World::new(user);
    world.write("home/.gitconfig", "[user]\nname=x\nemail=x@x\n");
    git(&world, &world.path("work"), &["init", "-qb", "main"]);
    let git_dir = world.path("work/.git");
    prepare(&world, &git_dir);
    world.own();
    let rules = GitRules::Checkout { git_dir, modules: Vec::new() };
    let policy = Policy { git: Some(rules), ..world.policy(Level::Full) };
    (world, policy)
}

const CHECKOUT_ATTACKS: &str = "echo evil > .git/hooks/pre-commit; chmod 755 .git/hooks/pre-commit; rm -rf .git/hooks; mkdir -p .git/hooks; echo evil > .git/hooks/x
    git config core.fsmonitor evil; echo evil >> .git/config; mkdir -p .git/info; echo evil > .git/info/attributes
    echo evil > .git/config.worktree; mkdir e; echo ../e > .git/commondir; rm -f .git/commondir; mv .git/info .git/i2; mv .git x; mkdir -p .git/hooks
    echo 1 > a; git add a; git commit -qm one; git stash list; git tag t; git log --oneline | wc -l";

#[test]
fn submodules_keep_hooks_and_configuration_too() {
    let (world, mut policy) = checkout(User::Ordinary, |_, git_dir| {
        let module = git_dir.join("modules/libs/sub");
        std::fs::create_dir_all(module.join("hooks")).unwrap();
        std::fs::write(module.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        std::fs::write(module.join("config"), "mine\n").unwrap();
    });
    let git_dir = world.path("work/.git");
    let modules = greenroom_sandbox::modules::of(&git_dir).unwrap();
    policy.git = Some(GitRules::Checkout { git_dir: git_dir.clone(), modules });
    let script = "cd .git/modules/libs/sub; echo evil > hooks/x; echo evil > config; echo evil > commondir; cd ..; mv sub s2; cd ..; mv libs l2; cd ..; mv modules m2; echo over";
    let outcome = world.run(&policy, &["sh", "-c", script]);
    assert!(outcome.text.ends_with("over\n"), "{outcome:?}");
    let mut text = String::new();
    describe(&git_dir.join("modules/libs/sub"), &mut text);
    assert!(text.contains("mine") && !text.contains("evil"), "{text}");
}

#[test]
fn a_main_checkout_works_and_keeps_hooks_and_configuration() {
    type Prepare = fn(&World, &Path);
    let cases: [(&str, Prepare); 3] = [
        ("plain", |_, _| {}),
        ("no hooks", |_, git_dir| std::fs::remove_dir_all(git_dir.join("hooks")).unwrap()),
        ("hooks elsewhere", |world, git_dir| {
            std::fs::remove_dir_all(git_dir.join("hooks")).unwrap();
            std::fs::create_dir(world.path("out/hooks")).unwrap();
            std::os::unix::fs::symlink(world.path("out/hooks"), git_dir.join("hooks")).unwrap();
        }),
    ];
    for user in User::all() {
        for (name, prepare) in cases {
            let (world, policy) = checkout(user, prepare);
            let git_dir = world.path("work/.git");
            let config = std::fs::read_to_string(git_dir.join("config")).unwrap();
            let outcome = world.run(&policy, &["sh", "-c", CHECKOUT_ATTACKS]);
            assert!(outcome.text.trim().ends_with('1'), "{name}: {outcome:?}");
            let mut text = String::new();
            for file in ["hooks", "config", "info/attributes", "config.worktree", "commondir"] {
                describe(&git_dir.join(file), &mut text);
            }
            assert!(!text.contains("evil"), "{name} {user:?}: {text}");
            assert_eq!(std::fs::read_to_string(git_dir.join("config")).unwrap(), config);
            assert_eq!(std::fs::read_to_string(git_dir.join("commondir")).unwrap(), ".\n");
            if name == "hooks elsewhere" {
                assert!(git_dir.join("hooks").is_symlink());
            }
            // And git outside still knows it.
            assert_eq!(git(&world, &world.path("work"), &["tag"]), "t", "{name}");
        }
    }
}
