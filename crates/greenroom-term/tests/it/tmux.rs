//! The same bytes through our screen and through a real tmux: text and cursor must agree.
//!
//! The bytes are the files of `tests/corpus`, made from the table in `tmux/cases.rs`, and the
//! recordings of real programs in `tests/corpus/recorded` (see the README there). Where tmux
//! 3.3a is wrong or differs by design, or our guest is wrong, the case is in `tmux/different.rs`
//! with the reason and both results, so that a change on either side is seen.

use std::path::{Path, PathBuf};
use std::process::Command;

use greenroom_term::{Frame, Screen, Size, Style};

mod cases;
mod different;

use cases::CASES;
use different::DIFFERENT;

const COLS: u16 = 80;
const ROWS: u16 = 24;
/// The name of our tmux's socket, in a directory of its own.
const SOCKET: &str = "greenroom";
/// Seconds; a call takes milliseconds.
const DEADLINE: &str = "60";
/// tmux 3.3a drops hyperlinks, so the styles of this case cannot agree.
const HYPERLINK: &str = "hyperlink";
/// What `timeout` says when it does not find the program.
const NOT_FOUND: i32 = 127;

/// What a terminal shows.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shown {
    /// Without trailing blanks and without trailing empty rows.
    text: Vec<String>,
    /// Row and column from 0. A cursor that waits to wrap stands in the last column.
    cursor: (usize, usize),
}

/// Something to play.
struct Case {
    name: String,
    about: &'static str,
    file: PathBuf,
    bytes: Vec<u8>,
}

/// The table's cases and the recordings.
fn all_cases() -> Vec<Case> {
    let written = CASES.iter().map(|case| Case {
        name: case.name.to_owned(),
        about: case.about,
        file: file_of(case.name),
        bytes: case.bytes.into(),
    });
    let recorded = files(&corpus().join("recorded")).into_iter().map(|file| Case {
        name: format!("recorded-{}", file.file_stem().unwrap_or_default().display()),
        about: "a recording of a real program",
        bytes: std::fs::read(&file).expect("a recording can be read"),
        file,
    });
    written.chain(recorded).collect()
}

/// The escape files of a directory, sorted.
fn files(directory: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(directory).expect("the corpus is there");
    let paths = files.map(|file| file.expect("the corpus can be listed").path());
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|end| end == "esc")).collect();
    paths.sort();
    paths
}

#[test]
fn corpus_files_are_made_from_the_table() {
    let write = std::env::var_os("GREENROOM_WRITE_CORPUS").is_some();
    for case in CASES {
        let file = file_of(case.name);
        if write {
            std::fs::write(&file, case.bytes).expect("the corpus can be written");
        }
        let stored = std::fs::read(&file).unwrap_or_default();
        assert!(
            stored == case.bytes.as_bytes(),
            "tests/corpus/{}.esc is not what the table says: write it with \
             GREENROOM_WRITE_CORPUS=1 cargo test -p greenroom-term corpus",
            case.name
        );
        assert!(!case.about.is_empty(), "{} does not say what it is about", case.name);
    }
    for file in files(&corpus()) {
        let known = CASES.iter().any(|case| file_of(case.name) == file);
        assert!(known, "{} is in no table", file.display());
    }
}

#[test]
fn the_screen_shows_what_tmux_shows() {
    let tmux = Tmux::start("text");
    let mut wrong = Vec::new();
    let cases = all_cases();
    for case in &cases {
        let (ours, theirs) = (ours(case), tmux.show(case));
        let known = DIFFERENT.iter().find(|different| different.name == case.name);
        let (expected_ours, expected_theirs) = match known {
            Some(different) => (shown(different.ours), shown(different.tmux)),
            None => (theirs.clone(), theirs.clone()),
        };
        if ours != expected_ours || theirs != expected_theirs {
            let about = known.map_or(case.about, |different| different.why);
            wrong.push(format!("{} ({about})\n{}", case.name, compared(&ours, &theirs)));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// What stands before a picture is taken, and what the program prints after it. Hidden state that
/// only shows in the second. Not here: a wrap that is pending below the alternate screen. tmux 3.3a
/// itself forgets it when that screen is left.
fn attached() -> Vec<(&'static str, String, &'static str)> {
    let full = "0123456789".repeat(8);
    vec![
        ("wrap", full.clone(), "NEXT"),
        ("wrap-at-the-bottom", format!("\x1b[24;1H{full}"), "NEXT"),
        ("wrap-after-wide", format!("{}\u{4e2d}", &full[..78]), "NEXT"),
        ("wrap-after-a-mark", format!("{full}\u{301}"), "NEXT"),
        ("wrap-in-colour", format!("\x1b[31m{full}\x1b[32m"), "NEXT"),
        ("wrap-in-a-region", format!("\x1b[5;8r\x1b[?6h\x1b[2;1H{full}"), "NEXT"),
        ("no-wrap", format!("\x1b[?7l{full}"), "NEXT"),
        ("origin", "\x1b[5;15r\x1b[?6h\x1b[2;4H".to_owned(), "X\x1b[HY"),
        ("tabs", "\x1b[3g\x1b[4G\x1bH\x1b[11G\x1bH\r".to_owned(), "\ta\tb\tc"),
        ("shifted", "\x1b)0a\x0eq".to_owned(), "qq\x0fq"),
        ("insert", "abc\x1b[1;2H\x1b[4h".to_owned(), "XY"),
    ]
}

/// A user who attaches inside tmux sees the session, now and after its next output, under its own
/// title.
#[test]
fn a_picture_in_tmux_goes_on_as_the_session_does() {
    let tmux = Tmux::start("viewer");
    let directory = tmux.directory.join("pictures");
    std::fs::create_dir_all(&directory).expect("a directory for the pictures");
    for (name, before, after) in attached() {
        let mut screen = new_screen();
        screen.feed(format!("\x1b]2;its own\x1b\\{before}").as_bytes());
        let bytes = [&screen.viewer_keyframe()[..], after.as_bytes()].concat();
        screen.feed(after.as_bytes());
        let file = directory.join(name);
        std::fs::write(&file, &bytes).expect("a picture can be written");
        let case = Case { name: name.to_owned(), about: "a picture", file, bytes };
        let (ours, theirs) = (seen(&screen), tmux.show(&case));
        assert_eq!(
            ours,
            theirs,
            "{name}: {}\n{}",
            case.bytes.escape_ascii(),
            compared(&ours, &theirs)
        );
        let title =
            tmux.play(&case, |pane| vec!["display-message", "-p", "-t", pane, "#{pane_title}"]);
        assert_eq!(title.trim_end(), "its own", "{name}");
    }
}

/// Colours and attributes of every case that shows the same text.
#[test]
fn colours_agree_with_tmux() {
    let tmux = Tmux::start("colours");
    let different = |case: &&Case| DIFFERENT.iter().any(|different| different.name == case.name);
    let cases = all_cases();
    let same = cases.iter().filter(|case| !different(case) && case.name != HYPERLINK);
    for case in same {
        let mut screen = new_screen();
        screen.feed(&case.bytes);
        let capture = tmux.play(case, |pane| vec!["capture-pane", "-p", "-e", "-N", "-t", pane]);
        let (ours, theirs) = (painted(&screen.frame()), painted(&repainted(&capture)));
        assert_eq!(ours, theirs, "{} ({})", case.name, case.about);
    }
}

/// A row of the table is dead when the case is gone or the two agree again.
#[test]
fn known_differences_are_differences() {
    for different in DIFFERENT {
        assert!(CASES.iter().any(|case| case.name == different.name), "{}", different.name);
        assert_ne!(shown(different.ours), shown(different.tmux), "{}", different.name);
        assert!(different.why.len() > 20, "{} needs its reason", different.name);
    }
}

/// Where the reads are cut must not matter, nor may a case break the screen.
#[test]
fn cuts_do_not_matter() {
    for case in &all_cases() {
        let whole = ours(case);
        for step in [1, 2, 3, 7] {
            let mut screen = new_screen();
            for piece in case.bytes.chunks(step) {
                screen.feed(piece);
            }
            assert!(!screen.is_broken(), "{}", case.name);
            assert_eq!(seen(&screen), whole, "{} in pieces of {step}", case.name);
        }
    }
}

fn ours(case: &Case) -> Shown {
    let mut screen = new_screen();
    screen.feed(&case.bytes);
    seen(&screen)
}

fn new_screen() -> Screen {
    Screen::new(Size::new(COLS, ROWS).expect("a usual size"))
}

fn seen(screen: &Screen) -> Shown {
    let cursor = screen.cursor();
    Shown { text: rows(&screen.text()), cursor: clamped(cursor.row.into(), cursor.col.into()) }
}

fn shown((text, cursor): (&[&str], (usize, usize))) -> Shown {
    Shown { text: text.iter().map(|row| (*row).to_owned()).collect(), cursor }
}

fn clamped(row: usize, col: usize) -> (usize, usize) {
    (row, col.min(usize::from(COLS) - 1))
}

fn rows(text: &str) -> Vec<String> {
    let mut rows: Vec<String> = text.lines().map(|row| row.trim_end().to_owned()).collect();
    while rows.last().is_some_and(String::is_empty) {
        rows.pop();
    }
    rows
}

/// A capture without its colours, and with line drawing (between SO and SI) as it looks.
fn plain(capture: &str) -> String {
    const DRAWN: (&str, &str) = ("`afgjklmnopqrstuvwxyz{|}~", "◆▒°±┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·");
    let mut out = String::with_capacity(capture.len());
    let mut drawing = false;
    let mut chars = capture.chars();
    while let Some(c) = chars.next() {
        match c {
            '\x0e' => drawing = true,
            '\x0f' => drawing = false,
            '\x1b' => skip_sequence(&mut chars),
            c => {
                let at = DRAWN.0.chars().position(|letter| drawing && letter == c);
                out.push(at.and_then(|at| DRAWN.1.chars().nth(at)).unwrap_or(c));
            }
        }
    }
    out
}

/// SGR, or a hyperlink that ends with ST.
fn skip_sequence(chars: &mut std::str::Chars<'_>) {
    match chars.next() {
        Some(']') => {
            let _ = chars.by_ref().take_while(|c| *c != '\x1b').count();
            let _ = chars.next();
        }
        _ => {
            let _ = chars.by_ref().take_while(|c| !c.is_ascii_alphabetic()).count();
        }
    }
}

fn compared(ours: &Shown, theirs: &Shown) -> String {
    let mut out = format!("  cursor: ours {:?} tmux {:?}\n", ours.cursor, theirs.cursor);
    let row = |shown: &Shown, at: usize| shown.text.get(at).cloned().unwrap_or_default();
    for at in 0..ours.text.len().max(theirs.text.len()) {
        let (a, b) = (row(ours, at), row(theirs, at));
        let mark = if a == b { ' ' } else { '!' };
        out += &format!("  {mark}{at:2} ours {a:?}\n");
        if a != b {
            out += &format!("  {mark}{at:2} tmux {b:?}\n");
        }
    }
    out
}

/// A screen painted from a capture with escapes.
fn repainted(capture: &str) -> Frame {
    let mut screen = new_screen();
    // Between SO and SI a capture means line drawing.
    screen.feed(b"\x1b)0");
    for (at, line) in capture.lines().enumerate() {
        screen.feed(format!("\x1b[{};1H{line}", at + 1).as_bytes());
    }
    screen.frame()
}

/// Row, column, text and style, without the blanks behind the last text of a row: tmux keeps their
/// colour but does not tell it. The cases put a mark into the last column where it matters.
fn painted(frame: &Frame) -> Vec<(usize, u16, String, Style)> {
    let mut out = Vec::new();
    for (at, row) in frame.rows.iter().enumerate() {
        let last = row.runs.iter().rposition(|run| !run.text.trim_end().is_empty());
        let runs = last.map_or(&row.runs[..0], |last| &row.runs[..=last]);
        for (n, run) in runs.iter().enumerate() {
            let text = if Some(n) == last { run.text.trim_end() } else { &run.text };
            out.push((at, run.col, text.to_owned(), run.style.clone()));
        }
    }
    out
}

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

fn file_of(name: &str) -> PathBuf {
    corpus().join(format!("{name}.esc"))
}

/// A tmux server of our own, ended with the test.
struct Tmux {
    /// Holds the socket, so that no other tmux is ever met.
    directory: PathBuf,
}

impl Tmux {
    /// `test` keeps tests of one process apart.
    fn start(test: &str) -> Self {
        let name = format!("greenroom-tmux-{}-{test}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).expect("a directory for the socket");
        let tmux = Self { directory };
        // The session holds the server open. Without the status line a pane has all 24 rows.
        let hold = ["new-session", "-d", "-s", "hold", "cat"];
        let start = ["start-server", ";", "set-option", "-g", "status", "off", ";"];
        tmux.tmux(&[&start[..], &hold[..]].concat());
        tmux
    }

    fn show(&self, case: &Case) -> Shown {
        let format = "#{cursor_y} #{cursor_x} #{pane_width}x#{pane_height}";
        // With -e, since without it line drawing comes as the letters under it.
        let answer = self.play(case, |pane| {
            let state = ["display-message", "-p", "-t", pane, format, ";"];
            [&state[..], &["capture-pane", "-p", "-e", "-t", pane]].concat()
        });
        let (state, capture) = answer.split_once('\n').expect("a line of state");
        let mut words = state.split_whitespace();
        let mut number = || words.next().and_then(|word| word.parse().ok()).expect("a number");
        let cursor = clamped(number(), number());
        assert_eq!(words.next(), Some("80x24"), "{}: the pane has another size", case.name);
        Shown { text: rows(&plain(capture)), cursor }
    }

    /// Plays the file in a pane and returns what the commands `look` makes for it say. The pane's
    /// own question after the file (DSR) is answered only when tmux has read all before it; the
    /// answer then opens the barrier we wait at.
    fn play(&self, case: &Case, look: impl FnOnce(&str) -> Vec<&str>) -> String {
        let play = format!(
            "stty raw -echo; cat '{}'; printf '\\033[5n'; dd bs=1 count=4 >/dev/null 2>&1; \
             tmux -L {SOCKET} wait-for -S '{name}'; exec cat >/dev/null",
            case.file.display(),
            name = case.name
        );
        let (cols, rows) = (COLS.to_string(), ROWS.to_string());
        let pane = format!("={}:", case.name);
        let start = ["new-session", "-d", "-s", &case.name, "-x", &cols, "-y", &rows, &play, ";"];
        self.tmux(&[&start[..], &["wait-for", &case.name]].concat());
        self.tmux(&[&look(&pane)[..], &[";", "kill-session", "-t", &pane]].concat())
    }

    fn tmux(&self, args: &[&str]) -> String {
        let output = self
            .command()
            .args(["-u", "-f", "/dev/null"])
            .args(args)
            .output()
            .expect("timeout of coreutils can be run");
        assert!(
            output.status.code() != Some(NOT_FOUND),
            "tmux is not installed; this test compares our screen with it. Install it with \
             `apt-get install tmux` (`make test` does)."
        );
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "tmux {args:?}: {} {error}", output.status);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Every call has a deadline: a pane that dies would leave us at its barrier for ever.
    fn command(&self) -> Command {
        let mut command = Command::new("timeout");
        command.args([DEADLINE, "tmux", "-L", SOCKET]);
        command.env("TMUX_TMPDIR", &self.directory).env("LC_ALL", "C.UTF-8").env_remove("TMUX");
        command
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        // The server may be gone already, and the directory with it.
        let _ = self.command().arg("kill-server").output();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
