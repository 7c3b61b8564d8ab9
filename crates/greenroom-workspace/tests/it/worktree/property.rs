//! The rule: no sequence of verbs, crashes and re-runs makes a commit or a file's content
//! unreachable.
//!
//! Random verbs of users, agents and ours against real git. Around each verb of *ours*, also one
//! that dies midway, everything is listed: objects that refs and heads lead to, objects that logs
//! and indexes lead to, files on disk. All that was there before must be there after, as strongly
//! held; refs and checkouts that are not ours must be the same.
//!
//! A series: `make soak` runs more of them.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use greenroom_protocol::api::fence::{CleanAction, WorktreeMergeParams};
use greenroom_workspace::worktree::{
    Ask, Ended, KEPT, Share, WorktreeConfig, WorktreeError, Worktrees,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use tempfile::TempDir;

use super::stage::{Alive, Stage, fast_dir, files_below, git, git_command, try_git};

const SLUGS: [&str; 2] = ["x", "y/z"];

/// Which checkout a user's or an agent's verb works in: the main one, or a worktree.
type At = usize;

#[derive(Clone, Debug)]
enum Verb {
    // Ours. The number is the step to die at, if that many come.
    Make(usize, Option<usize>),
    End(usize, Option<usize>),
    Clean(Option<usize>),
    /// The next host finishes what is open.
    Recover(Option<usize>),
    /// By force.
    Remove(usize, Option<usize>),
    /// Merges it into what the main checkout is on, perhaps squashed.
    Home(usize, bool, Option<usize>),
    /// A host forgot its sessions.
    Forget,
    // Theirs.
    Write(At, usize, u8),
    Delete(At, usize),
    Add(At),
    Commit(At),
    Amend(At),
    Branch(At, usize),
    Switch(At, usize),
    SwitchBack(At),
    Detach(At),
    Stash(At),
    Pop(At),
    ResetHard(At),
    ResetSoft(At),
    Merge(At, usize),
    Rebase(At),
    Hide(At, usize),
    Keep(At),
    RemoveByHand(usize),
    Prune,
    DropBranch(usize),
    Tag(At),
    Push(At),
}

const FILES: [&str; 8] =
    ["a", "sub/b", "new", "sub/new", "x.log", ".env", "target/out", "sub/.git/odd"];

/// The names of `made` and `seen` as objects.
const SETUP_MAKES: [&str; 2] =
    ["c5f1b8eaf85917b894fea0c18c228e380290308a", "1b5326f23c159f2e826f8d49d0492becb6c3be9b"];

fn verbs() -> impl Strategy<Value = Verb> {
    let slug = 0..SLUGS.len();
    let at = || prop_oneof![1 => Just(0usize), 5 => Just(1usize), 2 => Just(2usize)];
    let file = || 0..FILES.len();
    let die = || prop_oneof![3 => Just(None), 2 => (0..24usize).prop_map(Some)];
    let ours = prop_oneof![
        6 => (slug.clone(), die()).prop_map(|(slug, die)| Verb::Make(slug, die)),
        5 => (slug.clone(), die()).prop_map(|(slug, die)| Verb::End(slug, die)),
        2 => die().prop_map(Verb::Clean),
        3 => die().prop_map(Verb::Recover),
        3 => (slug.clone(), die()).prop_map(|(slug, die)| Verb::Remove(slug, die)),
        3 => (slug.clone(), any::<bool>(), die())
            .prop_map(|(slug, squash, die)| Verb::Home(slug, squash, die)),
        1 => Just(Verb::Forget),
    ];
    let files = prop_oneof![
        6 => (at(), file(), any::<u8>()).prop_map(|(at, file, content)| Verb::Write(at, file, content)),
        1 => (at(), file()).prop_map(|(at, file)| Verb::Delete(at, file)),
        2 => at().prop_map(Verb::Add),
        4 => at().prop_map(Verb::Commit),
        1 => (at(), file()).prop_map(|(at, file)| Verb::Hide(at, file)),
    ];
    let history = prop_oneof![
        at().prop_map(Verb::Amend),
        (at(), 0..2usize).prop_map(|(at, name)| Verb::Branch(at, name)),
        (at(), 0..2usize).prop_map(|(at, name)| Verb::Switch(at, name)),
        at().prop_map(Verb::SwitchBack),
        at().prop_map(Verb::Detach),
        at().prop_map(Verb::Stash),
        at().prop_map(Verb::Pop),
        at().prop_map(Verb::ResetHard),
        at().prop_map(Verb::ResetSoft),
        (at(), slug.clone()).prop_map(|(at, slug)| Verb::Merge(at, slug)),
        at().prop_map(Verb::Rebase),
        at().prop_map(Verb::Keep),
        slug.clone().prop_map(Verb::RemoveByHand),
        Just(Verb::Prune),
        slug.prop_map(Verb::DropBranch),
        at().prop_map(Verb::Tag),
        at().prop_map(Verb::Push),
    ];
    prop_oneof![6 => ours, 4 => files, 4 => history]
}

/// Made once; each case gets a copy of its files.
static TEMPLATE: LazyLock<TempDir> = LazyLock::new(|| {
    let dir = fast_dir();
    let repo = dir.path().join("repo");
    fs::create_dir(&repo).unwrap();
    git(&repo, &["init", "-q", "-b", "main", "--template="]);
    fs::create_dir(repo.join("sub")).unwrap();
    fs::create_dir_all(repo.join("node_modules/m")).unwrap();
    for (name, text) in [
        ("a", "one\n"),
        ("sub/b", "two\n"),
        (".gitignore", "*.log\n.env\ntarget/\nnode_modules/\n"),
        (".worktreeinclude", ".env\n"),
    ] {
        fs::write(repo.join(name), text).unwrap();
    }
    git(&repo, &["add", "."]);
    git(&repo, &["commit", "-qm", "one"]);
    fs::write(repo.join("a"), "later\n").unwrap();
    git(&repo, &["commit", "-qam", "two"]);
    git(&repo, &["update-ref", "refs/remotes/origin/main", "HEAD^"]);
    fs::write(repo.join(".env"), "KEY=1\n").unwrap();
    fs::write(repo.join("node_modules/m/x"), "module\n").unwrap();
    dir
});

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

struct World {
    stage: Stage,
    config: WorktreeConfig,
    next: u64,
    /// The session that works in each slug.
    working: [Option<u64>; SLUGS.len()],
    /// Ends that were not finished.
    open: Vec<(usize, u64, Ended)>,
    counter: Cell<u32>,
    /// Contents we put into worktrees ourselves: what setup made, and what the main checkout had to
    /// copy.
    copied: RefCell<HashSet<String>>,
}

/// What is held, and how.
#[derive(Debug, Default)]
struct Holdings {
    /// By refs and heads.
    strong: HashSet<String>,
    /// By logs and indexes too.
    weak: HashSet<String>,
    /// On disk.
    files: BTreeSet<(String, PathBuf)>,
    refs: BTreeMap<String, String>,
    main: BTreeSet<(String, PathBuf)>,
}

impl World {
    fn new(variant: u8) -> World {
        let dir = fast_dir();
        let repo = dir.path().canonicalize().unwrap().join("repo");
        copy_tree(&TEMPLATE.path().join("repo"), &repo);
        let mut config = WorktreeConfig { ports: variant & 1 == 1, ..WorktreeConfig::default() };
        if variant & 2 == 2 {
            config.share.insert("node_modules".into(), Share::Symlink);
        }
        if variant & 4 == 4 {
            config.setup = vec!["echo made > made.log; echo seen > made".into()];
        }
        World {
            stage: Stage { dir, repo, alive: Arc::new(Alive::default()) },
            config,
            next: 1,
            working: [None; SLUGS.len()],
            open: Vec::new(),
            counter: Cell::new(0),
            copied: RefCell::default(),
        }
    }

    fn worktrees(&self, die: Option<usize>) -> Worktrees {
        let worktrees = self.stage.worktrees_with(self.config.clone());
        let Some(die) = die else { return worktrees };
        let step = AtomicUsize::new(0);
        worktrees.stopping(move |_| step.fetch_add(1, Ordering::Relaxed) >= die)
    }

    fn path_of(&self, slug: usize) -> PathBuf {
        self.worktrees(None).target(&self.stage.repo, SLUGS[slug]).unwrap().path
    }

    fn at(&self, at: At) -> Option<PathBuf> {
        if at == 0 {
            return Some(self.stage.repo.clone());
        }
        let state = self.stage.state().join("worktrees");
        let key = fs::read_dir(state).ok()?.next()?.ok()?.path();
        let path = key.join(SLUGS[at - 1].replace('/', "+"));
        path.join(".git").exists().then_some(path)
    }

    fn holdings(&self) -> Holdings {
        let repo = &self.stage.repo;
        let objects = |args: &[&str]| -> HashSet<String> {
            let args = [&["rev-list", "--objects", "--no-object-names", "--all"], args].concat();
            git(repo, &args).lines().map(str::to_owned).collect()
        };
        let refs = git(repo, &["for-each-ref", "--format=%(refname) %(objectname)"]);
        let refs = refs.lines().filter_map(|line| line.split_once(' '));
        let mut paths = Vec::new();
        for top in [repo.clone(), self.stage.state().join("worktrees")] {
            let own = [top.join(".git"), repo.join("node_modules")];
            let listed = files_below(&top).into_iter();
            paths.extend(listed.filter(|path| !own.iter().any(|own| path.starts_with(own))));
        }
        paths.retain(|path| {
            let plain = fs::symlink_metadata(path).unwrap().is_file();
            let inner = path
                .components()
                .any(|part| part.as_os_str() == ".records" || part.as_os_str() == ".staging");
            // Build products are exempt, by configuration; so is the pointer.
            let derived = path.ends_with("target/out") || path.ends_with(".git");
            plain && !inner && !derived
        });
        let mut command = git_command(repo);
        command.args(["hash-object", "--no-filters", "--"]).args(&paths);
        let hashed = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let files: BTreeSet<(String, PathBuf)> =
            hashed.lines().map(str::to_owned).zip(paths.iter().cloned()).collect();
        assert_eq!(files.len(), paths.len());
        let mut copied = self.copied.borrow_mut();
        copied.extend(SETUP_MAKES.map(str::to_owned));
        let env = repo.join(".env");
        copied.extend(
            files.iter().filter(|(_, path)| *path == env).map(|(content, _)| content.clone()),
        );
        let put =
            |path: &Path| ["made", "made.log", ".env"].iter().any(|name| path.ends_with(name));
        let files: BTreeSet<(String, PathBuf)> = files
            .into_iter()
            .filter(|(content, path)| {
                path.starts_with(repo) || !(put(path) && copied.contains(content))
            })
            .collect();
        let main = files.iter().filter(|(_, path)| path.starts_with(repo)).cloned().collect();
        Holdings {
            strong: objects(&[]),
            weak: objects(&["--reflog", "--indexed-objects"]),
            refs: refs.map(|(name, oid)| (name.to_owned(), oid.to_owned())).collect(),
            files,
            main,
        }
    }

    /// Runs a verb of ours and compares.
    fn ours(&mut self, verb: &Verb) -> Result<(), TestCaseError> {
        let before = self.holdings();
        let said = match verb {
            Verb::Make(slug, die) => self.make(*slug, *die),
            Verb::End(slug, die) => match self.working[*slug].take() {
                Some(session) => self.end(*slug, session, Ended::Exited, *die),
                None => return Ok(()),
            },
            Verb::Clean(die) => match self.worktrees(*die).clean(false) {
                Ok(cleaned) => {
                    let failed = cleaned.iter().find(|one| one.action == CleanAction::Failed);
                    let stopped = |why: &String| why.starts_with("stopped at");
                    let odd = failed.filter(|one| !one.why.iter().any(stopped));
                    prop_assert!(odd.is_none(), "{cleaned:?}");
                    format!(
                        "{:?}",
                        cleaned.iter().map(|one| (one.action, &one.why)).collect::<Vec<_>>()
                    )
                }
                Err(error) => error.to_string(),
            },
            Verb::Recover(die) => {
                let mut said = Vec::new();
                for (slug, session, how) in std::mem::take(&mut self.open) {
                    said.push(self.end(slug, session, how, *die));
                }
                said.join(", ")
            }
            Verb::Remove(slug, die) => {
                let worktrees = self.worktrees(*die);
                let found = worktrees.find(&Ask { name: SLUGS[*slug].into(), ..Ask::default() });
                match found.and_then(|found| worktrees.remove_one(&found, true)) {
                    Ok(removed) => format!("{removed:?}"),
                    Err(error) => error.to_string(),
                }
            }
            Verb::Home(slug, squash, die) => {
                let worktrees = self.worktrees(*die);
                let found = worktrees.find(&Ask { name: SLUGS[*slug].into(), ..Ask::default() });
                let how = WorktreeMergeParams { squash: *squash, ..WorktreeMergeParams::default() };
                match found.and_then(|found| worktrees.merge(&found, &how)) {
                    Ok(merged) => format!("{merged:?}"),
                    Err(error) => error.to_string(),
                }
            }
            _ => unreachable!("theirs"),
        };
        let after = self.holdings();
        let compared = match verb {
            Verb::Home(..) => {
                held(&before, &after).and_then(|()| only_forward(&self.stage.repo, &before, &after))
            }
            _ => compare(&before, &after),
        };
        compared.map_err(|lost| TestCaseError::fail(format!("{verb:?} ({said}) lost {lost}")))
    }

    fn make(&mut self, slug: usize, die: Option<usize>) -> String {
        let session = self.next;
        self.next += 1;
        let worktrees = self.worktrees(die);
        match self.stage.make_with(&worktrees, session, SLUGS[slug], None) {
            Ok(made) => {
                self.working[slug] = Some(session);
                format!("made, resumed: {}", made.resumed)
            }
            Err(WorktreeError::Stopped(step)) => {
                self.open.push((slug, session, Ended::NeverStarted));
                format!("died {step}")
            }
            Err(error) => {
                let end = self.end(slug, session, Ended::NeverStarted, None);
                format!("refused: {error}; then {end}")
            }
        }
    }

    fn end(&mut self, slug: usize, session: u64, how: Ended, die: Option<usize>) -> String {
        let worktrees = self.worktrees(die);
        let record = worktrees.target(&self.stage.repo, SLUGS[slug]).unwrap().record;
        match worktrees.end(&record, greenroom_engine::SessionId(session), how) {
            Ok(outcome) => {
                self.stage.alive.died(session);
                format!("{outcome:?}")
            }
            Err(error) => {
                self.open.push((slug, session, how));
                format!("not ended: {error}")
            }
        }
    }

    fn theirs(&mut self, verb: &Verb) {
        let number = self.counter.replace(self.counter.get() + 1);
        let message = format!("c{number}");
        let run = |at: At, args: &[&str]| {
            if let Some(path) = self.at(at) {
                let _ = try_git(&path, args);
            }
        };
        let names = ["side", "other"];
        match verb {
            Verb::Write(at, file, content) => {
                if let Some(path) = self.at(*at) {
                    let file = path.join(FILES[*file]);
                    let _ = fs::create_dir_all(file.parent().unwrap());
                    let _ = fs::write(file, format!("{content} {number}\n"));
                }
            }
            Verb::Delete(at, file) => {
                if let Some(path) = self.at(*at) {
                    let _ = fs::remove_file(path.join(FILES[*file]));
                }
            }
            Verb::Add(at) => run(*at, &["add", "."]),
            Verb::Commit(at) => {
                run(*at, &["add", "."]);
                run(*at, &["commit", "-qm", &message, "--allow-empty"]);
            }
            Verb::Amend(at) => run(*at, &["commit", "-q", "--amend", "-m", &message]),
            Verb::Branch(at, name) => run(*at, &["branch", names[*name]]),
            Verb::Switch(at, name) => run(*at, &["checkout", "-q", names[*name]]),
            Verb::SwitchBack(0) => run(0, &["checkout", "-q", "main"]),
            Verb::SwitchBack(at) => {
                let name = format!("greenroom/{}", SLUGS[at - 1]);
                run(*at, &["checkout", "-q", &name]);
            }
            Verb::Detach(at) => run(*at, &["checkout", "-q", "--detach"]),
            Verb::Stash(at) => run(*at, &["stash", "-q"]),
            Verb::Pop(at) => run(*at, &["stash", "pop", "-q"]),
            Verb::ResetHard(at) => run(*at, &["reset", "-q", "--hard", "HEAD^"]),
            Verb::ResetSoft(at) => run(*at, &["reset", "-q", "--soft", "HEAD^"]),
            Verb::Merge(at, slug) => {
                let name = format!("greenroom/{}", SLUGS[*slug]);
                run(*at, &["merge", "-q", "-m", &message, &name]);
            }
            Verb::Rebase(at) => run(*at, &["rebase", "-q", "main"]),
            Verb::Hide(at, file) => run(*at, &["update-index", "--assume-unchanged", FILES[*file]]),
            Verb::Keep(at) => {
                run(*at, &["update-ref", &format!("refs/worktree/k{number}"), "HEAD"])
            }
            Verb::RemoveByHand(slug) => {
                if self.stage.state().exists() {
                    let _ = fs::remove_dir_all(self.path_of(*slug));
                }
            }
            Verb::Prune => run(0, &["worktree", "prune"]),
            Verb::DropBranch(slug) => {
                run(0, &["branch", "-D", &format!("greenroom/{}", SLUGS[*slug])])
            }
            Verb::Tag(at) => run(*at, &["tag", &message]),
            Verb::Push(at) => {
                run(*at, &["update-ref", &format!("refs/remotes/origin/p{number}"), "HEAD"])
            }
            Verb::Forget => {
                for session in self.working.iter_mut().filter_map(Option::take) {
                    self.stage.alive.died(session);
                }
                for (_, session, _) in self.open.drain(..) {
                    self.stage.alive.died(session);
                }
            }
            _ => unreachable!("ours"),
        }
    }

    /// Everybody ends, everything open is finished: then nothing of ours is left but what was kept.
    fn finish(&mut self) -> Result<(), TestCaseError> {
        for slug in 0..SLUGS.len() {
            self.ours(&Verb::End(slug, None))?;
        }
        self.ours(&Verb::Recover(None))?;
        self.theirs(&Verb::Forget);
        self.ours(&Verb::Clean(None))?;
        let kept = self.worktrees(None).clean(false).unwrap();
        prop_assert!(kept.iter().all(|one| one.action == CleanAction::Kept), "{kept:?}");
        let left = files_below(&self.stage.state().join("worktrees"));
        let staged =
            left.iter().find(|path| path.components().any(|part| part.as_os_str() == ".staging"));
        prop_assert!(staged.is_none(), "{staged:?}");
        let records =
            left.iter().filter(|path| path.to_str().unwrap().contains("/.records/")).count();
        prop_assert_eq!(records, kept.len(), "{:?}", left);
        for one in &kept {
            let unsure = one.why.iter().find(|why| why.contains("cannot be checked"));
            prop_assert!(unsure.is_none(), "{:?}", one.why);
        }
        Ok(())
    }
}

fn compare(before: &Holdings, after: &Holdings) -> Result<(), String> {
    held(before, after)?;
    if before.main != after.main {
        return Err("something in the main checkout".into());
    }
    if foreign(&before.refs) != foreign(&after.refs) {
        return Err("a ref that is not ours".into());
    }
    Ok(())
}

fn foreign(refs: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let ours = |name: &str| {
        name.starts_with(KEPT)
            || SLUGS.iter().any(|slug| name == format!("refs/heads/greenroom/{slug}"))
    };
    refs.iter().filter(|(name, _)| !ours(name)).map(|(n, o)| (n.clone(), o.clone())).collect()
}

/// A merge moves a branch of the user's, to something that follows it.
fn only_forward(repo: &Path, before: &Holdings, after: &Holdings) -> Result<(), String> {
    let (before, after) = (foreign(&before.refs), foreign(&after.refs));
    for (name, oid) in &before {
        let now = after.get(name).ok_or_else(|| name.clone())?;
        if now != oid && try_git(repo, &["merge-base", "--is-ancestor", oid, now]).is_err() {
            return Err(format!("{name} does not follow what it was"));
        }
    }
    if after.len() == before.len() { Ok(()) } else { Err("nothing, but made a ref".into()) }
}

/// Everything that was held is held as strongly.
fn held(before: &Holdings, after: &Holdings) -> Result<(), String> {
    if let Some(object) = before.strong.iter().find(|object| !after.strong.contains(*object)) {
        return Err(format!("{object}, which refs held"));
    }
    if let Some(object) = before.weak.iter().find(|object| !after.weak.contains(*object)) {
        return Err(format!("{object}, which a log or an index held"));
    }
    let on_disk: HashSet<&String> = after.files.iter().map(|(content, _)| content).collect();
    for (content, path) in &before.files {
        if !on_disk.contains(content) && !after.strong.contains(content) {
            return Err(format!("the content of {}", path.display()));
        }
    }
    Ok(())
}

fn is_ours(verb: &Verb) -> bool {
    matches!(
        verb,
        Verb::Make(..)
            | Verb::End(..)
            | Verb::Clean(_)
            | Verb::Recover(_)
            | Verb::Remove(..)
            | Verb::Home(..)
    )
}

fn run(variant: u8, verbs: &[Verb]) -> Result<(), TestCaseError> {
    let mut world = World::new(variant);
    for verb in verbs {
        if is_ours(verb) {
            world.ours(verb)?;
        } else {
            world.theirs(verb);
        }
    }
    world.finish()
}

fn run_cases(part: u64) {
    let series = test_kit::series::series("lives of worktrees", 12, 3000);
    let config = Config {
        cases: series.cases as u32,
        rng_seed: RngSeed::Fixed(series.seed.wrapping_add(part)),
        max_shrink_iters: 300,
        failure_persistence: None,
        ..Config::default()
    };
    let strategy = (0..8u8, proptest::collection::vec(verbs(), 1..24));
    let done = TestRunner::new(config).run(&strategy, |(variant, verbs)| {
        let verbs = [vec![Verb::Make(0, None)], verbs].concat();
        run(variant, &verbs)
    });
    if let Err(error) = done {
        panic!("{error}");
    }
}

#[test]
fn nothing_becomes_unreachable() {
    run_cases(0);
}

#[test]
fn nothing_becomes_unreachable_on_the_other_core() {
    run_cases(1);
}

/// Dies at every step of making, and at every step of ending, one after the other, with work and
/// without.
#[test]
fn every_single_step() {
    for work in [false, true] {
        for step in 0.. {
            let mut world = World::new(7);
            world.ours(&Verb::Make(0, Some(step))).unwrap();
            let done = world.working[0].is_some();
            if work {
                world.theirs(&Verb::Write(1, 2, 1));
            }
            world.ours(&Verb::Recover(None)).unwrap();
            if !work {
                world.finish().unwrap();
                let cleaned = world.worktrees(None).clean(false).unwrap();
                // Where the setup command was at work nobody knows whose the files are.
                let unsure =
                    cleaned.iter().all(|one| one.why.iter().any(|why| why.contains("made")));
                assert!(cleaned.is_empty() || unsure, "{step}: {cleaned:?}");
            }
            if done {
                break;
            }
        }
        for step in 0.. {
            let mut world = World::new(3);
            world.ours(&Verb::Make(0, None)).unwrap();
            if work {
                world.theirs(&Verb::Commit(1));
            }
            world.ours(&Verb::End(0, Some(step))).unwrap();
            let done = world.open.is_empty();
            world.theirs(&Verb::Write(1, 2, 1));
            world.ours(&Verb::Recover(Some(step))).unwrap();
            world.finish().unwrap();
            if done {
                break;
            }
        }
    }
}

/// A property that cannot fail proves nothing: with a removal that does not look, it fails.
#[test]
fn the_rule_notices_a_loss() {
    let mut world = World::new(0);
    world.ours(&Verb::Make(0, None)).unwrap();
    world.theirs(&Verb::Commit(1));
    let before = world.holdings();
    let path = world.path_of(0);
    git(&world.stage.repo, &["worktree", "remove", "--force", path.to_str().unwrap()]);
    compare(&before, &world.holdings()).unwrap();
    git(&world.stage.repo, &["branch", "-D", "greenroom/x"]);
    assert!(compare(&before, &world.holdings()).unwrap_err().contains("which refs held"));
    let mut world = World::new(0);
    world.ours(&Verb::Make(0, None)).unwrap();
    world.theirs(&Verb::Write(1, 2, 1));
    let before = world.holdings();
    fs::remove_dir_all(world.path_of(0)).unwrap();
    assert!(compare(&before, &world.holdings()).unwrap_err().contains("the content of"));
}
