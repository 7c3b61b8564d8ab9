//! What is counted of a plugin, and what it said: one history for each name, over all its
//! generations.
//!
//! In: how calls went, lines of stderr. Out: [`Statistics`], the last lines, and one file (0600,
//! replaced by rename) that outlives the host. It also keeps whether the operator turned a plugin
//! on or off. Deliberately absent: payloads and answers; what a plugin said is kept in memory only,
//! and only after the built-in rules saw it.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, SystemTime};

use greenroom_engine::egress::{Egress, Raw};
use greenroom_engine::keep::{self, Lasting};
use greenroom_protocol::Timestamp;
use serde::{Deserialize, Serialize};

use super::facts::{LogLine, Statistics};
use crate::lock;

/// Lines kept of one plugin: a screen or two of trouble.
const LINES_MAX: usize = 200;
/// The longest line.
const LINE_BYTES: usize = 2048;
/// Lines taken of one program's stderr, the last ones.
const LINES_EACH: usize = 20;
/// A file larger than this is not ours.
const FILE_MAX: u64 = 4 * 1024 * 1024;
/// The version of the file's format.
const VERSION: u32 = 1;
/// Four to each power of two microseconds, up to a day and a half.
const BUCKETS: usize = 37 * 4;

/// What lasts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Kept {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    enabled: Option<bool>,
    #[serde(flatten)]
    stats: Statistics,
}

#[derive(Serialize, Deserialize)]
struct File {
    version: u32,
    plugins: BTreeMap<String, Kept>,
}

/// The histories of all plugins, in one file.
pub(super) struct Histories {
    pub path: PathBuf,
    histories: Mutex<BTreeMap<String, Arc<History>>>,
    dirty: Arc<AtomicBool>,
}

/// What is recorded of one plugin.
pub(super) struct History {
    recorded: Mutex<Recorded>,
    dirty: Arc<AtomicBool>,
}

#[derive(Default)]
struct Recorded {
    kept: Kept,
    lines: VecDeque<LogLine>,
}

impl Histories {
    /// Reads what an earlier host left. A file that cannot be read costs the counts, not the
    /// plugins.
    pub(super) fn open(path: PathBuf) -> Histories {
        let dirty = Arc::<AtomicBool>::default();
        let kept = match read(&path) {
            Ok(kept) => kept,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "statistics of plugins begin anew");
                BTreeMap::new()
            }
        };
        let history = |(name, kept)| {
            let recorded = Mutex::new(Recorded { kept, lines: VecDeque::new() });
            (name, Arc::new(History { recorded, dirty: dirty.clone() }))
        };
        let histories = Mutex::new(kept.into_iter().map(history).collect());
        Histories { path, histories, dirty }
    }

    pub(super) fn of(&self, name: &str) -> Arc<History> {
        let fresh = || Arc::new(History { recorded: Mutex::default(), dirty: self.dirty.clone() });
        lock(&self.histories).entry(name.to_owned()).or_insert_with(fresh).clone()
    }

    /// Writes if anything changed since the last time. Blocks.
    pub(super) fn save(&self) -> io::Result<()> {
        if !self.dirty.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let kept = |(name, history): (&String, &Arc<History>)| {
            (name.clone(), lock(&history.recorded).kept.clone())
        };
        let plugins = lock(&self.histories).iter().map(kept).collect();
        let text =
            serde_json::to_vec(&File { version: VERSION, plugins }).map_err(io::Error::other);
        let saved = text.and_then(|text| keep::write(&self.path, &text, Lasting::Process));
        if saved.is_err() {
            self.dirty.store(true, Ordering::Release);
        }
        saved
    }
}

impl History {
    pub(super) fn succeeded(&self, hook: &str, took: Duration) {
        lock(&self.recorded).kept.stats.called(hook, took);
        self.changed();
    }

    pub(super) fn failed(&self, hook: &str, took: Duration, timeout: bool, why: &str) {
        let mut recorded = lock(&self.recorded);
        let stats = &mut recorded.kept.stats;
        stats.called(hook, took);
        stats.errors += 1;
        stats.timeouts += u64::from(timeout);
        stats.hooks.entry(hook.to_owned()).or_default().1 += 1;
        stats.last_error = Some(shortened(why));
        stats.last_error_ms = stats.last_call_ms;
        recorded.say("failure", why);
        self.changed();
    }

    /// Counts events or lines it was not asked about.
    pub(super) fn dropped(&self, count: u64) {
        lock(&self.recorded).kept.stats.drops += count;
        self.changed();
    }

    pub(super) fn restarted(&self) {
        lock(&self.recorded).kept.stats.restarts += 1;
        self.changed();
    }

    pub(super) fn say(&self, kind: &'static str, text: &str) {
        lock(&self.recorded).say(kind, text);
    }

    /// What a program printed on stderr, after the built-in rules saw it.
    pub(super) fn stderr(&self, text: &str) {
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let skipped = lines.len().saturating_sub(LINES_EACH);
        let mut recorded = lock(&self.recorded);
        for line in &lines[skipped..] {
            recorded.say("stderr", line);
        }
    }

    pub(super) fn enabled(&self) -> Option<bool> {
        lock(&self.recorded).kept.enabled
    }

    pub(super) fn enable(&self, enabled: bool) {
        lock(&self.recorded).kept.enabled = Some(enabled);
        self.changed();
    }

    pub(super) fn lines(&self, max: usize) -> Vec<LogLine> {
        let recorded = lock(&self.recorded);
        recorded.lines.iter().skip(recorded.lines.len().saturating_sub(max)).cloned().collect()
    }

    pub(super) fn statistics(&self) -> Statistics {
        lock(&self.recorded).kept.stats.clone()
    }

    fn changed(&self) {
        self.dirty.store(true, Ordering::Release);
    }
}

impl Statistics {
    fn called(&mut self, hook: &str, took: Duration) {
        self.calls += 1;
        self.last_call_ms = Some(Timestamp::from_system(SystemTime::now()).0);
        self.hooks.entry(hook.to_owned()).or_default().0 += 1;
        let bucket = bucket(took);
        if self.took.len() <= bucket {
            self.took.resize(bucket + 1, 0);
        }
        self.took[bucket] += 1;
    }

    /// How long that part of the calls took at most; `None` if there were none.
    pub fn quantile(&self, part: f64) -> Option<Duration> {
        let all: u64 = self.took.iter().sum();
        if all == 0 {
            return None;
        }
        #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
        let wanted = (all as f64 * part).ceil() as u64;
        let mut seen = 0;
        let found = self.took.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        found.map(ceiling)
    }
}

impl Recorded {
    fn say(&mut self, kind: &'static str, text: &str) {
        if self.lines.len() == LINES_MAX {
            self.lines.pop_front();
        }
        self.lines.push_back(LogLine { at: SystemTime::now(), kind, text: shortened(text) });
    }
}

/// What a plugin printed, as it may be shown: it may quote what it was asked.
pub(super) fn clean(text: &str) -> String {
    static RULES: LazyLock<Egress> = LazyLock::new(Egress::built_in);
    RULES.text(Raw::new(text.to_owned())).into_inner()
}

/// Masked before it is cut: half a secret is no longer found.
fn shortened(text: &str) -> String {
    let printed = |c: char| if c.is_control() { ' ' } else { c };
    let text = clean(&text[..text.floor_char_boundary(2 * LINE_BYTES)]);
    text[..text.floor_char_boundary(LINE_BYTES)].chars().map(printed).collect()
}

/// Four buckets to each power of two: quantiles are right to a fifth.
fn bucket(took: Duration) -> usize {
    let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(4);
    let power = 63 - micros.leading_zeros() as usize;
    let quarter = ((micros >> (power - 2)) & 3) as usize;
    ((power - 2) * 4 + quarter).min(BUCKETS - 1)
}

/// The longest time of a bucket.
fn ceiling(bucket: usize) -> Duration {
    let (power, quarter) = (bucket / 4 + 2, bucket as u64 % 4);
    Duration::from_micros((5 + quarter) << (power - 2))
}

fn read(path: &Path) -> io::Result<BTreeMap<String, Kept>> {
    let Some(text) = keep::read(path, FILE_MAX)? else { return Ok(BTreeMap::new()) };
    let file: File = serde_json::from_slice(&text).map_err(io::Error::other)?;
    if file.version != VERSION {
        return Err(io::Error::other(format!("version {}", file.version)));
    }
    Ok(file.plugins)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn counts_and_choices_survive_the_host() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("plugins.json");
        let histories = Histories::open(path.clone());
        let history = histories.of("a");
        history.succeeded("input.submit", Duration::from_millis(3));
        history.failed("input.submit", Duration::from_millis(900), true, "did not answer\u{7}");
        history.enable(false);
        history.stderr("one\n\ntwo\n");
        histories.save().unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(
            history.lines(2).iter().map(|line| &*line.text).collect::<Vec<_>>(),
            ["one", "two"]
        );

        let again = Histories::open(path.clone()).of("a");
        let stats = again.statistics();
        assert_eq!((stats.calls, stats.errors, stats.timeouts), (2, 1, 1));
        assert_eq!(stats.last_error.as_deref(), Some("did not answer "));
        assert_eq!(stats.hooks["input.submit"], (2, 1));
        assert_eq!(again.enabled(), Some(false));
        assert!(again.lines(9).is_empty());

        std::fs::write(&path, "{").unwrap();
        assert_eq!(Histories::open(path).of("a").statistics().calls, 0);
    }

    #[test]
    fn the_log_is_bounded() {
        let histories = Histories::open("/nonexistent/x".into());
        let history = histories.of("a");
        for line in 0..1000 {
            history.say("state", &format!("{line}"));
        }
        let lines = history.lines(usize::MAX);
        assert_eq!((lines.len(), &*lines[0].text), (LINES_MAX, "800"));
        history.stderr(&"x".repeat(1_000_000));
        assert_eq!(history.lines(1)[0].text.len(), LINE_BYTES);
    }

    proptest! {
        #[test]
        fn a_bucket_holds_its_times(micros in 4u64..100_000_000_000) {
            let took = Duration::from_micros(micros);
            let at = bucket(took);
            prop_assert!(took < ceiling(at));
            prop_assert!(ceiling(at).as_secs_f64() <= took.as_secs_f64() * 1.26);
        }

        #[test]
        fn quantiles_are_ordered(times in proptest::collection::vec(4u64..10_000_000, 1..200)) {
            let mut stats = Statistics::default();
            for micros in &times {
                stats.called("x", Duration::from_micros(*micros));
            }
            let p50 = stats.quantile(0.5).unwrap();
            let p99 = stats.quantile(0.99).unwrap();
            let longest = Duration::from_micros(*times.iter().max().unwrap());
            prop_assert!(p50 <= p99 && p99 <= longest.mul_f64(1.26));
        }
    }
}
