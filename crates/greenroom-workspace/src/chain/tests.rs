//! The transaction under failures and crashes: whatever happens, the next host leaves nothing
//! behind.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use greenroom_engine::SessionId;
use greenroom_engine::process::ExitStatus;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use super::*;
use crate::spec::{BoxFuture, Cleanup, CleanupError, Description};
use crate::testing::spec;

const NAMES: [&str; 4] = ["p0", "p1", "p2", "p3"];

/// Makes `parts` files, notes each before it makes it, and may refuse half way.
struct FakePlugin {
    about: Description,
    dir: PathBuf,
    parts: usize,
    refuse_at: Option<usize>,
    log: Arc<Mutex<Vec<String>>>,
}

#[derive(Serialize, Deserialize)]
struct Made {
    files: Vec<PathBuf>,
}

impl SessionPlugin for FakePlugin {
    fn about(&self) -> &Description {
        &self.about
    }

    fn wanted(&self, _: &SessionSpec) -> bool {
        true
    }

    fn before_session<'a>(
        &'a self,
        spec: &'a mut SessionSpec,
        state: &'a mut PluginState,
    ) -> BoxFuture<'a, Result<(), Refusal>> {
        Box::pin(async move {
            self.log.lock().unwrap().push(format!("before {}", self.about.name));
            let mut files = Vec::new();
            for part in 0..self.parts {
                if self.refuse_at == Some(part) {
                    return Err(Refusal::new("no more").hint("try less"));
                }
                files.push(self.dir.join(format!("{}-{}-{part}", spec.id, self.about.name)));
                state.record(&Made { files: files.clone() })?;
                std::fs::write(&files[part], "x").unwrap();
            }
            spec.set_env(format!("FROM_{}", self.about.name.to_uppercase()), "1");
            Ok(())
        })
    }

    fn after_session<'a>(
        &'a self,
        _: &'a SessionEnd,
        state: &'a PluginState,
    ) -> BoxFuture<'a, Result<Cleanup, CleanupError>> {
        Box::pin(async move {
            self.log.lock().unwrap().push(format!("after {}", self.about.name));
            let Some(made) = state.read::<Made>()? else { return Ok(Cleanup::Nothing) };
            for file in &made.files {
                if file.exists() {
                    std::fs::remove_file(file).map_err(|e| CleanupError::new(e.to_string()))?;
                }
            }
            Ok(Cleanup::Removed { what: format!("{} files", made.files.len()) })
        })
    }

    fn dry_run<'a>(&'a self, spec: &'a mut SessionSpec) -> BoxFuture<'a, Result<(), Refusal>> {
        spec.set_env(format!("FROM_{}", self.about.name.to_uppercase()), "1");
        Box::pin(async { Ok(()) })
    }
}

/// Dies at its nth moment, as a killed host would: nothing runs after it.
struct DiesAt {
    left: AtomicUsize,
}

impl Watch for DiesAt {
    fn at(&self, _: SessionId, _: Moment<'_>) {
        let before = self.left.fetch_sub(1, Ordering::SeqCst);
        assert!(before != 1, "killed here");
    }
}

#[derive(Clone, Debug)]
struct Scene {
    /// Parts and durability of each plugin.
    plugins: Vec<(usize, bool)>,
    refuses: Option<(usize, usize)>,
}

struct Stage {
    home: tempfile::TempDir,
    scene: Scene,
    log: Arc<Mutex<Vec<String>>>,
}

impl Stage {
    fn new(scene: Scene) -> Stage {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("made")).unwrap();
        Stage { home, scene, log: Arc::default() }
    }

    fn of(plugins: usize) -> Stage {
        Stage::new(Scene { plugins: vec![(1, true); plugins], refuses: None })
    }

    /// A host that has just started.
    fn chains(&self) -> Chains {
        let plugins = self.scene.plugins.iter().enumerate().map(|(index, (parts, durable))| {
            let refuse_at = self.scene.refuses.filter(|(who, _)| *who == index).map(|(_, at)| at);
            Arc::new(FakePlugin {
                about: Description {
                    name: NAMES[index],
                    summary: None,
                    asks: &[],
                    // Given in reverse: the registry sorts.
                    order: 100 + index as u16,
                    durable: *durable,
                },
                dir: self.home.path().join("made"),
                parts: *parts,
                refuse_at,
                log: self.log.clone(),
            }) as Arc<dyn SessionPlugin>
        });
        let registry = Registry::new(plugins.rev());
        Chains::load(self.home.path().join("chains"), registry, Arc::default()).unwrap()
    }

    fn made(&self) -> Vec<PathBuf> {
        files(&self.home.path().join("made"))
    }

    fn noted(&self) -> Vec<PathBuf> {
        files(&self.home.path().join("chains"))
    }
}

fn files(dir: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect()
}

struct Unwatched;

impl Watch for Unwatched {
    fn at(&self, _: SessionId, _: Moment<'_>) {}
}

fn unwatched() -> Arc<dyn Watch> {
    Arc::new(Unwatched)
}

fn ended(id: u64, how: EndedHow) -> SessionEnd {
    SessionEnd { id: SessionId(id), how, at: SystemTime::now() }
}

fn exited(id: u64) -> SessionEnd {
    ended(id, EndedHow::Exited(ExitStatus::Code(0)))
}

#[tokio::test]
async fn plugins_run_in_order_and_clean_up_in_reverse() {
    let stage = Stage::of(3);
    let chains = stage.chains();
    let prepared = chains.prepare(spec(1), &unwatched()).await.unwrap();
    assert_eq!(prepared.spec.env("FROM_P2").unwrap(), "1");
    assert_eq!(prepared.changes[1].lines, ["env: + FROM_P1=1"]);
    assert_eq!(chains.look(SessionId(1)).unwrap().phase(), Phase::Prepared);
    let outcomes = chains.finish(&exited(1), &unwatched()).await;
    assert_eq!(outcomes.iter().map(|o| o.plugin.as_str()).collect::<Vec<_>>(), ["p2", "p1", "p0"]);
    let expected = ["before p0", "before p1", "before p2", "after p2", "after p1", "after p0"];
    assert_eq!(*stage.log.lock().unwrap(), expected);
    assert!(stage.made().is_empty());
    // A second call does nothing and says the same.
    assert_eq!(chains.finish(&exited(1), &unwatched()).await, outcomes);
    assert_eq!(stage.log.lock().unwrap().len(), 6);
    // Told until the session is removed, also by the next host.
    assert_eq!(stage.chains().look(SessionId(1)).unwrap().outcomes(), outcomes);
    chains.forget(SessionId(1));
    assert!(stage.noted().is_empty());
}

#[tokio::test]
async fn a_refusal_names_the_plugin_and_leaves_nothing() {
    let scene = Scene { plugins: vec![(2, true); 3], refuses: Some((1, 1)) };
    let stage = Stage::new(scene);
    let refusal = stage.chains().prepare(spec(4), &unwatched()).await.unwrap_err();
    assert_eq!((refusal.plugin.as_str(), refusal.what.as_str()), ("p1", "no more"));
    assert_eq!(refusal.hint.as_deref(), Some("try less"));
    assert!(stage.made().is_empty());
    assert!(stage.noted().is_empty());
}

#[tokio::test]
async fn a_disk_that_refuses_starts_nothing() {
    let stage = Stage::of(2);
    let chains = stage.chains();
    std::fs::remove_dir_all(stage.home.path().join("chains")).unwrap();
    let refusal = chains.prepare(spec(1), &unwatched()).await.unwrap_err();
    assert_eq!(refusal.plugin, "p0");
    assert!(refusal.what.starts_with("cannot write down"), "{refusal}");
    assert!(stage.made().is_empty());
}

#[tokio::test]
async fn an_unknown_plugin_is_refused_by_name() {
    let stage = Stage::of(1);
    let mut spec = spec(1);
    spec.with = vec!["podman".into()];
    let refusal = stage.chains().prepare(spec, &unwatched()).await.unwrap_err();
    assert_eq!(refusal.plugin, "podman");
    assert_eq!(refusal.hint.as_deref(), Some("there are: p0"));
}

#[tokio::test]
async fn a_dry_run_makes_nothing() {
    let stage = Stage::of(2);
    let dry = stage.chains().dry_run(spec(1)).await.unwrap();
    assert_eq!(dry.changes.len(), 2);
    assert!(stage.made().is_empty() && stage.noted().is_empty());
}

#[tokio::test]
async fn limits_and_remarks_survive_the_host() {
    let stage = Stage::of(1);
    let chains = stage.chains();
    let mut spec = spec(1);
    spec.limits.timeout = Some(Duration::from_secs(60));
    chains.prepare(spec, &unwatched()).await.unwrap();
    let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_123);
    chains.started(SessionId(1), at);
    chains.timed_out(SessionId(1));
    chains.remark(SessionId(1), "denied evil.example:443".into());
    chains.remark(SessionId(1), "denied evil.example:443".into());
    let file = stage.chains().look(SessionId(1)).unwrap();
    assert_eq!(file.limits().timeout, Some(Duration::from_secs(60)));
    assert_eq!(file.started_at(), Some(at));
    assert_eq!(file.remarks().0.len(), 1);
    let code = ExitStatus::Code(1);
    assert_eq!(file.how_it_ended(EndedHow::Exited(code)), EndedHow::TimedOut(code));
}

/// A program that tries forbidden hosts for ever.
#[test]
fn a_file_that_is_written_for_ever_stays_small() {
    let dir = tempfile::tempdir().unwrap();
    let mut file = ChainFile::new(SessionId(7));
    for count in 0..2000 {
        file.remark(format!("{count} {}", "x".repeat(100)));
        // Not brought to the disk each time: that it stays small does not depend on it.
        drop(file::write(dir.path(), &file).unwrap());
    }
    let [path] = files(dir.path()).try_into().unwrap();
    assert!(path.metadata().unwrap().len() < 128 * 1024);
    assert_eq!(file::load_all(dir.path()).unwrap()[&SessionId(7)], file);
}

#[test]
fn a_host_that_died_before_its_first_line_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("s7.json"), "").unwrap();
    std::fs::write(dir.path().join("s8.json"), "not ours").unwrap();
    assert!(file::load_all(dir.path()).unwrap().is_empty());
    assert_eq!(files(dir.path()), [dir.path().join("s8.json")]);
}

proptest! {
    /// Wherever a disk cut the file, the newest line that is whole counts, and what is added later
    /// is read again.
    #[test]
    fn a_file_that_was_cut_tells_what_it_said_before(lines in 1..6_usize, cut in 0..2000_usize) {
        let dir = tempfile::tempdir().unwrap();
        let mut file = ChainFile::new(SessionId(7));
        let (mut states, mut ends) = (Vec::new(), Vec::new());
        for line in 0..lines {
            file.remark(format!("line {line}"));
            drop(file::write(dir.path(), &file).unwrap());
            states.push(file.clone());
            ends.push(files(dir.path())[0].metadata().unwrap().len() as usize);
        }
        let path = files(dir.path()).remove(0);
        let cut = cut % (ends[lines - 1] + 1);
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(cut as u64).unwrap();
        // Without its newline a line is whole too.
        let whole = ends.iter().filter(|end| **end <= cut + 1).count();
        let read = file::load_all(dir.path()).unwrap().remove(&SessionId(7));
        prop_assert_eq!(read.as_ref(), whole.checked_sub(1).map(|it| &states[it]));
        drop(file::write(dir.path(), &file).unwrap());
        prop_assert_eq!(file::load_all(dir.path()).unwrap().remove(&SessionId(7)), Some(file));
    }
}

fn crash_and_recover(scene: Scene, dies_at: usize, then_dies_at: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stage = Stage::new(scene);
        // The first host prepares, then cleans up, and dies somewhere.
        let chains = Arc::new(stage.chains());
        let watch: Arc<dyn Watch> = Arc::new(DiesAt { left: AtomicUsize::new(dies_at) });
        let host = tokio::spawn(async move {
            if chains.prepare(spec(7), &watch).await.is_ok() {
                chains.finish(&exited(7), &watch).await;
            }
        });
        let _ = host.await;
        // The second dies while it cleans up, the third does not.
        for dies_at in [then_dies_at, usize::MAX] {
            let chains = Arc::new(stage.chains());
            let watch: Arc<dyn Watch> = Arc::new(DiesAt { left: AtomicUsize::new(dies_at) });
            let host = tokio::spawn(async move {
                for id in chains.open_ids() {
                    chains.finish(&ended(id.0, EndedHow::NeverStarted), &watch).await;
                }
            });
            let _ = host.await;
        }
        assert_eq!(stage.made(), Vec::<PathBuf>::new());
        assert_eq!(stage.chains().open_ids(), Vec::<SessionId>::new());
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Killed between any two steps, twice: the next host finishes, and nothing is left.
    #[test]
    fn a_killed_host_leaves_nothing(
        plugins in prop::collection::vec((0usize..3, any::<bool>()), 1..4),
        refuses in prop::option::of((0usize..4, 0usize..3)),
        dies_at in 1usize..30,
        then_dies_at in 1usize..12,
    ) {
        // A plugin that is not durable makes nothing that must survive: its files would be a lie.
        let plugins = plugins.into_iter().map(|(parts, durable)| (if durable { parts } else { 0 }, durable));
        let scene = Scene { plugins: plugins.collect(), refuses };
        std::panic::set_hook(Box::new(|_| {}));
        crash_and_recover(scene, dies_at, then_dies_at);
        let _ = std::panic::take_hook();
    }
}
