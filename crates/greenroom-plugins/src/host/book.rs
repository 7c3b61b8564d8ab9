//! What is counted of a plugin, and what it said: one book for each name, over all its generations.
//!
//! In: how calls went, lines of stderr. Out: [`Statistics`], the last lines, and one file (0600, replaced by rename) that
//! outlives the host. It also keeps whether the operator turned a plugin on or off. Deliberately absent: payloads and
//! answers; what a plugin said is kept in memory only, and only after the built-in rules saw it.

use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use greenroom_engine::egress::{Egress, Raw, Sink};
use serde::{Deserialize, Serialize};

use super::facts::{LogLine, Statistics};

/// Lines kept of one plugin: a screen or two of trouble.
const LINES_MAX: usize = 200;
/// Of one line.
const LINE_BYTES: usize = 2048;
/// Lines taken of one program's stderr, the last ones.
const LINES_EACH: usize = 20;
/// A file larger than this is not ours.
const FILE_MAX: u64 = 4 * 1024 * 1024;
/// Of the file's format.
const VERSION: u32 = 1;
/// Four to each power of two microseconds, up to a day and a half.
const BUCKETS: usize = 37 * 4;

/// What lasts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Kept {
    #[serde(skip_serializing_if = "Option::is_none")]
    enabled: Option<bool>,
    calls: u64,
    errors: u64,
    timeouts: u64,
    drops: u64,
    restarts: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_call_ms: Option<u64>,
    hooks: BTreeMap<String, (u64, u64)>,
    /// Calls by how long they took; trailing zeros are left out.
    took: Vec<u64>,
}

#[derive(Serialize, Deserialize)]
struct File {
    version: u32,
    plugins: BTreeMap<String, Kept>,
}

/// All books.
pub(super) struct Books {
    path: PathBuf,
    books: Mutex<BTreeMap<String, Arc<Book>>>,
    dirty: Arc<AtomicBool>,
}

/// One plugin's.
pub(super) struct Book {
    page: Mutex<Page>,
    dirty: Arc<AtomicBool>,
}

#[derive(Default)]
struct Page {
    kept: Kept,
    lines: VecDeque<LogLine>,
}

impl Books {
    /// Reads what an earlier host left. A file that cannot be read costs the counts, not the plugins.
    pub fn open(path: PathBuf) -> Books {
        let dirty = Arc::<AtomicBool>::default();
        let kept = match read(&path) {
            Ok(kept) => kept,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "statistics of plugins begin anew");
                BTreeMap::new()
            }
        };
        let book = |kept| Page { kept, lines: VecDeque::new() };
        let books = kept
            .into_iter()
            .map(|(name, kept)| {
                (name, Arc::new(Book { page: Mutex::new(book(kept)), dirty: dirty.clone() }))
            })
            .collect();
        Books { path, books: Mutex::new(books), dirty }
    }

    pub fn of(&self, name: &str) -> Arc<Book> {
        let mut books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = || Arc::new(Book { page: Mutex::default(), dirty: self.dirty.clone() });
        books.entry(name.to_owned()).or_insert_with(fresh).clone()
    }

    /// Writes if anything changed since the last time. Blocks.
    pub fn save(&self) -> std::io::Result<()> {
        if !self.dirty.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let plugins = {
            let books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
            books.iter().map(|(name, book)| (name.clone(), book.page().kept.clone())).collect()
        };
        let saved = write(&self.path, &File { version: VERSION, plugins });
        if saved.is_err() {
            self.dirty.store(true, Ordering::Release);
        }
        saved
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Book {
    pub fn succeeded(&self, hook: &str, took: Duration) {
        let mut page = self.page();
        page.kept.called(hook, took);
        self.changed();
    }

    pub fn failed(&self, hook: &str, took: Duration, timeout: bool, why: &str) {
        let mut page = self.page();
        page.kept.called(hook, took);
        page.kept.errors += 1;
        page.kept.timeouts += u64::from(timeout);
        page.kept.hooks.entry(hook.to_owned()).or_default().1 += 1;
        page.kept.last_error = Some(shortened(why));
        page.kept.last_error_ms = Some(millis(SystemTime::now()));
        page.say("failure", why);
        self.changed();
    }

    /// Something it was not asked about.
    pub fn dropped(&self, count: u64) {
        self.page().kept.drops += count;
        self.changed();
    }

    pub fn restarted(&self) {
        self.page().kept.restarts += 1;
        self.changed();
    }

    pub fn say(&self, kind: &'static str, text: &str) {
        self.page().say(kind, text);
    }

    /// What a program printed on stderr, after the built-in rules saw it.
    pub fn stderr(&self, text: &str) {
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let skipped = lines.len().saturating_sub(LINES_EACH);
        let mut page = self.page();
        for line in &lines[skipped..] {
            page.say("stderr", line);
        }
    }

    pub fn enabled(&self) -> Option<bool> {
        self.page().kept.enabled
    }

    pub fn enable(&self, enabled: bool) {
        self.page().kept.enabled = Some(enabled);
        self.changed();
    }

    pub fn lines(&self, max: usize) -> Vec<LogLine> {
        let page = self.page();
        page.lines.iter().skip(page.lines.len().saturating_sub(max)).cloned().collect()
    }

    pub fn statistics(&self) -> Statistics {
        let kept = self.page().kept.clone();
        let time = |ms: u64| UNIX_EPOCH.checked_add(Duration::from_millis(ms));
        Statistics {
            calls: kept.calls,
            errors: kept.errors,
            timeouts: kept.timeouts,
            drops: kept.drops,
            restarts: kept.restarts,
            p50: quantile(&kept.took, 0.5),
            p99: quantile(&kept.took, 0.99),
            last_error: kept.last_error,
            last_error_at: kept.last_error_ms.and_then(time),
            last_call_at: kept.last_call_ms.and_then(time),
            hooks: kept.hooks,
        }
    }

    fn changed(&self) {
        self.dirty.store(true, Ordering::Release);
    }

    fn page(&self) -> MutexGuard<'_, Page> {
        self.page.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn called(&mut self, hook: &str, took: Duration) {
        self.calls += 1;
        self.last_call_ms = Some(millis(SystemTime::now()));
        match self.hooks.get_mut(hook) {
            Some(counts) => counts.0 += 1,
            None => drop(self.hooks.insert(hook.to_owned(), (1, 0))),
        }
        let bucket = bucket(took);
        if self.took.len() <= bucket {
            self.took.resize(bucket + 1, 0);
        }
        self.took[bucket] += 1;
    }
}

impl Page {
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
    RULES.text(Sink::Log, Raw::new(text.to_owned())).into_inner()
}

/// Masked before it is cut: half a secret is no longer found.
fn shortened(text: &str) -> String {
    let printed = |c: char| if c.is_control() { ' ' } else { c };
    let text = clean(&text[..text.floor_char_boundary(2 * LINE_BYTES)]);
    text[..text.floor_char_boundary(LINE_BYTES)].chars().map(printed).collect()
}

fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
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

fn quantile(took: &[u64], part: f64) -> Option<Duration> {
    let all: u64 = took.iter().sum();
    if all == 0 {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    let wanted = (all as f64 * part).ceil();
    let mut seen = 0;
    let found = took.iter().position(|count| {
        seen += count;
        #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
        let enough = seen as f64 >= wanted;
        enough
    });
    found.map(ceiling)
}

fn read(path: &Path) -> std::io::Result<BTreeMap<String, Kept>> {
    use std::io::Read;
    let file = match std::fs::File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        other => other?,
    };
    let mut text = Vec::new();
    file.take(FILE_MAX).read_to_end(&mut text)?;
    let file: File = serde_json::from_slice(&text).map_err(std::io::Error::other)?;
    if file.version != VERSION {
        return Err(std::io::Error::other(format!("version {}", file.version)));
    }
    Ok(file.plugins)
}

fn write(path: &Path, file: &File) -> std::io::Result<()> {
    let text = serde_json::to_vec(file).map_err(std::io::Error::other)?;
    let fresh = path.with_extension("new");
    let mut out = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&fresh)?;
    out.write_all(&text)?;
    std::fs::rename(&fresh, path)
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
        let books = Books::open(path.clone());
        let book = books.of("a");
        book.succeeded("input.submit", Duration::from_millis(3));
        book.failed("input.submit", Duration::from_millis(900), true, "did not answer\u{7}");
        book.enable(false);
        book.stderr("one\n\ntwo\n");
        books.save().unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(
            book.lines(2).iter().map(|line| &*line.text).collect::<Vec<_>>(),
            ["one", "two"]
        );

        let again = Books::open(path.clone()).of("a");
        let stats = again.statistics();
        assert_eq!((stats.calls, stats.errors, stats.timeouts), (2, 1, 1));
        assert_eq!(stats.last_error.as_deref(), Some("did not answer "));
        assert_eq!(stats.hooks["input.submit"], (2, 1));
        assert_eq!(again.enabled(), Some(false));
        assert!(again.lines(9).is_empty());

        std::fs::write(&path, "{").unwrap();
        assert_eq!(Books::open(path).of("a").statistics().calls, 0);
    }

    #[test]
    fn the_log_is_bounded() {
        let books = Books::open("/nonexistent/x".into());
        let book = books.of("a");
        for line in 0..1000 {
            book.say("state", &format!("{line}"));
        }
        let lines = book.lines(usize::MAX);
        assert_eq!((lines.len(), &*lines[0].text), (LINES_MAX, "800"));
        book.stderr(&"x".repeat(1_000_000));
        assert_eq!(book.lines(1)[0].text.len(), LINE_BYTES);
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
            let mut kept = Kept::default();
            for micros in &times {
                kept.called("x", Duration::from_micros(*micros));
            }
            let p50 = quantile(&kept.took, 0.5).unwrap();
            let p99 = quantile(&kept.took, 0.99).unwrap();
            let longest = Duration::from_micros(*times.iter().max().unwrap());
            prop_assert!(p50 <= p99 && p99 <= longest.mul_f64(1.26));
        }
    }
}
