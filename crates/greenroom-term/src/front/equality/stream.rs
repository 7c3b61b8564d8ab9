//! Random terminal output, made of pieces so that a failing stream can be made small.

use crate::size::Size;

/// A small generator of numbers: the same seed gives the same stream on every machine.
pub struct Random {
    state: u64,
    /// Rows of the screen: many rules turn on a count of lines close to it.
    rows: usize,
}

impl Random {
    pub fn new(seed: u64) -> Random {
        let state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0xd1b5_4a32_d192_ed03;
        Random { state, rows: 0 }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    fn of<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len())]
    }
}

#[derive(Clone)]
pub struct Stream {
    pub size: Size,
    pub cuts: u64,
    pieces: Vec<Vec<u8>>,
}

impl Stream {
    pub fn random(seed: u64) -> Stream {
        let random = &mut Random::new(seed);
        let cols = 2 + random.below(24) as u16;
        let rows = 1 + random.below(8) as u16;
        let size = Size::new(cols, rows).expect("within limits");
        random.rows = rows.into();
        // Some streams are calm, so that there is something to skip.
        let calm = random.below(4);
        // Short ones, too: what goes wrong early scrolls off later.
        let most = [5, 20, 60][random.below(3)];
        let pieces = (0..1 + random.below(most)).map(|_| piece(random, calm)).collect();
        Stream { size, cuts: random.next(), pieces }
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.pieces.concat()
    }

    /// Leaves out whatever is not needed to fail.
    pub fn shrunk(mut self, fails: impl Fn(&Stream) -> bool) -> Stream {
        for len in [32, 16, 8, 4, 2, 1, 1, 1] {
            let mut at = 0;
            while at < self.pieces.len() {
                let mut smaller = self.clone();
                let end = (at + len).min(smaller.pieces.len());
                smaller.pieces.drain(at..end);
                if fails(&smaller) {
                    self = smaller;
                } else {
                    at += 1;
                }
            }
        }
        // Then bytes within pieces.
        for piece in 0..self.pieces.len() {
            let mut at = 0;
            while at < self.pieces[piece].len() {
                let mut smaller = self.clone();
                smaller.pieces[piece].remove(at);
                if fails(&smaller) {
                    self = smaller;
                } else {
                    at += 1;
                }
            }
        }
        self
    }
}

fn piece(random: &mut Random, calm: usize) -> Vec<u8> {
    let text = match random.below(if calm == 0 { 40 } else { 14 + 9 * (4 - calm) }) {
        0..=3 => lines(random),
        4 => pictures(random),
        5 => repaint(random),
        6..=8 => words(random),
        9 => sgr(random),
        10 => format!("{}{}\r\n", sgr(random), words(random)),
        11 => frame(random),
        12 => control(random),
        13 => wide(random),
        14 => osc(random),
        15..=16 => csi(random),
        17 => mode(random),
        18 => escape(random),
        19 => query(random),
        20 => stack(random),
        21 => return broken_utf8(random),
        22 => string(random),
        23 => malformed(random),
        24 => format!("{}\x1b[{}b", word(random), random.below(9)),
        25 => format!("x\x1b[{}b", random.of::<u32>(&[&70, &600, &65_535])),
        26 => format!("あ\x1b[{}b", random.of::<u32>(&[&70, &601, &65_535])),
        27 => sgr(random),
        28 => words(random),
        29 => lines(random),
        30..=32 => csi(random),
        33 => frame(random),
        34 => mode(random),
        35 => escape(random),
        36 => wide(random),
        37 => osc(random),
        38 => malformed(random),
        _ => stack(random),
    };
    text.into_bytes()
}

fn word(random: &mut Random) -> String {
    let len = 1 + random.below(12);
    (0..len).map(|_| char::from(b'!' + random.below(94) as u8)).collect()
}

fn words(random: &mut Random) -> String {
    (0..1 + random.below(4)).map(|_| word(random) + random.of(&["", " ", "  ", "~"])).collect()
}

fn lines(random: &mut Random) -> String {
    let mut text = String::new();
    let ends: &[&str] =
        if random.below(4) == 0 { &["\r\n", "\n", "\x0b", "\n\r"] } else { &["\r\n"] };
    let most = if random.below(2) == 0 { 2 * random.rows + 2 } else { 25 };
    for _ in 0..1 + random.below(most) {
        if random.below(5) > 0 {
            text += &words(random);
        }
        if random.below(9) == 0 {
            text += &sgr(random);
        }
        if random.below(30) == 0 {
            text += random.of(&[
                "\x07",
                "\t",
                "\x1b[K",
                "\u{e9}",
                "\x1b[2X",
                "\x08",
                "\x0e",
                "\x0f",
                "\x1b]2;a\nb\x07",
            ]);
        }
        text += random.of(ends);
    }
    text
}

/// Over what is already there, from somewhere above the bottom; or a line feed that is none.
fn repaint(random: &mut Random) -> String {
    let up = random.below(8);
    let start = match random.below(7) {
        0 => format!("\x1b[{}A", 1 + up),
        1 => format!("\x1b[{}F", 1 + up),
        2 => format!("\x1b[{}d", 1 + up),
        3 => {
            let few = "z\r\n".repeat(random.below(random.rows + 1));
            return words(random) + &lines(random) + "\x1b]2;a\nb\x07" + &few + "\x1b[s";
        }
        _ => format!("\x1b[{}H", 1 + up),
    };
    lines(random) + &words(random) + &start + &short_lines(random)
}

/// Rows written and their rest erased, as full-screen programs do it.
fn frame(random: &mut Random) -> String {
    let mut text = String::new();
    for _ in 0..2 + random.below(8) {
        text += &format!("\x1b[{};{}H", 1 + random.below(2), 1 + random.below(9));
        text += random.of(&["", "abcdefgh", "abcdefgh", "ijkl", "x", "\x1b[44m", "\x1b[m"]);
        if random.below(4) == 0 {
            text += random.of(&[
                "漢",
                "e\u{301}",
                "\x1b[2@",
                "\x1b[P",
                "\x1b[?25l",
                "\t",
                "\x1b[1K",
                "\x1b[3X",
                "\x1b[J",
                "\n\n\n\n\n",
            ]);
        }
        text += random.of(&["\x1b[K", "\x1b[K", ""]);
    }
    text
}

/// What is wrong with a picture.
#[derive(Clone, Copy, PartialEq)]
enum Flaw {
    None,
    /// Something in between, rows that are not whole.
    Gaps,
    /// Positions that count from a region's start.
    Origin,
    /// Text that moves what it is written on.
    Insert,
    /// Rows in any order, with text that goes on in the next.
    Overlong,
}

/// Whole pictures, row by row; some that only look like it.
fn pictures(random: &mut Random) -> String {
    use Flaw::{Gaps, Insert, Origin, Overlong};
    let flaws = [Flaw::None, Gaps, Origin, Insert, Overlong, Overlong, Overlong];
    let flaw = flaws[random.below(flaws.len())];
    let mut text = lines(random);
    if flaw == Flaw::Insert {
        text += &wide(random);
        text += "\x1b[4h";
        text += &wide(random).repeat(4);
    }
    if flaw == Flaw::Origin {
        text += random.of(&["\x1b[2;3r\x1b[?6h", "\x1b[?6h", "\x1b[1;2r"]);
    }
    let mut rows: Vec<_> = (1..=random.rows).collect();
    for _ in 0..1 + random.below(3) {
        text += random.of(&["", "\x1b[?25l", "\x1b[2J", "\x1b[H", "\x1b[1;31m", "\x1b]2;t\x07"]);
        if flaw == Flaw::Overlong {
            let (a, b) = (random.below(rows.len()), random.below(rows.len()));
            rows.swap(a, b);
        }
        for row in &rows {
            picture_row(&mut text, random, *row, flaw);
        }
    }
    text
}

fn picture_row(text: &mut String, random: &mut Random, row: usize, flaw: Flaw) {
    let flawed = |random: &mut Random, kind| flaw == kind && random.below(3) == 0;
    if flawed(random, Flaw::Gaps) && random.below(random.rows) == 0 {
        *text += random.of(&[
            "\x1b[3;2Hab",
            "\x1b[2L",
            "\x1bM",
            "\n",
            "\t",
            "\x1b[6n",
            "\x1b7",
            "abcdefghij",
        ]);
        return;
    }
    let col = if flawed(random, Flaw::Gaps) { 2 } else { 1 };
    *text += &format!("\x1b[{row};{col}H");
    let texts = ["", "", "a", "a", "\x1b[7m", "\x1b[m", "bc", "\u{e9}", "あ", "\x1b[44mxyz\x1b[m"];
    *text += random.of(&texts);
    if flawed(random, Flaw::Overlong) {
        *text += "abcdefghijklmnopqrstuvwxyz";
    }
    let ends = ["\x1b[K", "\x1b[K", "\x1b[K", "\x1b[0K", "\x1b[2K"];
    *text += if flawed(random, Flaw::Gaps) { "" } else { random.of(&ends) };
}

/// Lines that do not wrap, about a screen of them.
fn short_lines(random: &mut Random) -> String {
    let count = random.rows + random.below(random.rows + 2);
    (0..count).map(|_| random.of(&["\r\n", "a\r\n", "bc\r\n"])).collect()
}

fn control(random: &mut Random) -> String {
    let controls =
        ["\r", "\n", "\t", "\x08", "\x07", "\x0b", "\x0c", "\x0e", "\x0f", "\0", "\x7f", "\x18"];
    (0..1 + random.below(3)).map(|_| random.of(&controls)).collect()
}

fn wide(random: &mut Random) -> String {
    let chars = [
        "あ",
        "漢字",
        "é",
        "e\u{301}",
        "\u{301}",
        "😀",
        "👨\u{200d}👩",
        "─│┌",
        "\u{85}",
        "\u{a0}",
        "ﷺ",
        "\u{ad}",
        "ß",
        "한",
        "\u{200b}",
        "a\u{300}\u{301}",
        "０",
    ];
    (0..1 + random.below(6)).map(|_| random.of(&chars)).collect()
}

fn broken_utf8(random: &mut Random) -> Vec<u8> {
    let broken: [&[u8]; 12] = [
        b"\xff",
        b"\xc3",
        b"\xc3(",
        b"\xe2\x82",
        b"\xf0\x9f",
        b"\x80",
        b"\x9b1m",
        b"\xed\xa0\x80",
        b"\xc3\x1b[1m",
        b"\xf4\x90\x80\x80",
        b"\x85",
        b"\xe2\x82\n",
    ];
    random.of(&broken).to_vec()
}

fn number(random: &mut Random) -> String {
    match random.below(9) {
        0 => String::new(),
        1 => "0".to_owned(),
        2 => "99999".to_owned(),
        3 => random.below(300).to_string(),
        _ => random.below(10).to_string(),
    }
}

fn numbers(random: &mut Random) -> String {
    let count = 1 + random.below(3);
    (0..count).map(|_| number(random)).collect::<Vec<_>>().join(random.of(&[";", ";", ";", ":"]))
}

fn sgr(random: &mut Random) -> String {
    let attributes = [
        "",
        "0",
        "1",
        "2",
        "3",
        "4",
        "4:3",
        "4:0",
        "4:2",
        "7",
        "8",
        "9",
        "21",
        "22",
        "24",
        "27",
        "31",
        "42",
        "39",
        "49",
        "95",
        "104",
        "38;5;9",
        "48;5;200",
        "38;2;1;2;3",
        "48;2;9;8;7",
        "58;5;3",
        "58;2;1;2;3",
        "59",
        "38:2:1:2:3",
        "38:2::1:2:3",
        "38;5;300",
        "38;2;1;999;3;4",
        "38",
        "48;7;1",
        "38;2;1",
        "5",
        "25",
    ];
    let count = 1 + random.below(3);
    let list: Vec<_> = (0..count).map(|_| random.of(&attributes)).collect();
    format!("\x1b[{}m", list.join(";"))
}

fn csi(random: &mut Random) -> String {
    let finals = b"ABCDEFGHIJKLMPSTXZ@`abdefgrsu";
    let last = char::from(finals[random.below(finals.len())]);
    // REP of a combining mark reaches our limit of marks.
    let count = if last == 'b' { random.below(4).to_string() } else { numbers(random) };
    format!("\x1b[{count}{last}")
}

fn mode(random: &mut Random) -> String {
    let modes = [
        "1", "7", "12", "25", "1000", "1002", "1003", "1004", "1005", "1006", "1007", "1042",
        "2004", "2026", "3", "6", "1049", "1049", "1;25", "7;1049", "6;7", "1001", "5", "2", "",
    ];
    let state = random.of(&["h", "l"]);
    match random.below(5) {
        0 => format!("\x1b[{}{state}", random.of(&["4", "20", "4;20", "12"])),
        _ => format!("\x1b[?{}{state}", random.of(&modes)),
    }
}

fn escape(random: &mut Random) -> String {
    let escapes = [
        "\x1b7", "\x1b8", "\x1bD", "\x1bE", "\x1bM", "\x1bH", "\x1b=", "\x1b>", "\x1bZ", "\x1b\\",
        "\x1b#8", "\x1b(0", "\x1b(B", "\x1b)0", "\x1b)B", "\x1b*0", "\x1b+0", "\x1b(A", "\x1b%G",
        "\x1bc", "\x1b[3g", "\x1b[g", "\x1b#3", "\x1b6",
    ];
    random.of(&escapes).to_owned()
}

fn query(random: &mut Random) -> String {
    let queries = [
        "\x1b[c",
        "\x1b[>c",
        "\x1b[5n",
        "\x1b[6n",
        "\x1b[?25$p",
        "\x1b[?7$p",
        "\x1b[4$p",
        "\x1b[?12$p",
        "\x1b[18t",
        "\x1b[14t",
        "\x1b[?u",
        "\x1b[>q",
        "\x1b]11;?\x07",
        "\x1b]4;1;?;2;?\x1b\\",
        "\x1b[?3$p",
        "\x1b[0c",
        "\x1b[1c",
        "\x1b[5:1n",
        "\x1b[7n",
    ];
    random.of(&queries).to_owned()
}

/// Titles, keyboard flags, cursor style.
fn stack(random: &mut Random) -> String {
    let stacks = [
        "\x1b[22t",
        "\x1b[23t",
        "\x1b[22;0;0t",
        "\x1b[>1u",
        "\x1b[>5u",
        "\x1b[<u",
        "\x1b[<2u",
        "\x1b]2;one\x07",
        "\x1b]0;two;three\x1b\\",
        "\x1b[3 q",
        "\x1b[ q",
        "\x1b[2 q",
        "\x1b[9 q",
        "\x1b[>4;2m",
        "\x1b[>4m",
        "\x1b]50;CursorShape=1\x07",
    ];
    random.of(&stacks).to_owned()
}

fn osc(random: &mut Random) -> String {
    let bodies = [
        "2;title",
        "0; spaced ",
        "2;",
        "2",
        "4;1;rgb:11/22/33",
        "4;300;#fff",
        "10;#123456",
        "11;rgb:f/f/f",
        "12;#abc",
        "104",
        "104;1",
        "110",
        "111",
        "8;;http://x",
        "8;id=a;http://y;z",
        "8;;",
        "999;x",
        "",
        "2;li\nne",
        "22;text",
        "10;#111;#222;#333;#444",
        "2;caf\u{e9}",
        "8;;http://x",
        "4;1;bad",
    ];
    let ends = ["\x07", "\x1b\\", "\x1b\\", "\x1b[1m", "\x18", "\x1b]2;in\x07"];
    format!("\x1b]{}{}", random.of(&bodies), random.of(&ends))
}

/// Strings that do nothing, ended in every way.
fn string(random: &mut Random) -> String {
    let starts = ["\x1bP1$t", "\x1bPq", "\x1bP1;2<", "\x1b_G", "\x1b^", "\x1bX", "\x1bP"];
    let ends = ["\x1b\\", "\x18", "\x1a", "\x1b[m", "\u{9c}\x1b\\", "\x1b\x1b\\"];
    format!("{}data\n{}", random.of(&starts), random.of(&ends))
}

fn malformed(random: &mut Random) -> String {
    let sequences = [
        "\x1b[1\n;2H",
        "\x1b[3\x08m",
        "\x1b[1;\x1b[2m",
        "\x1b[3<m",
        "\x1b[?1",
        "\x1b[",
        "\x1b",
        "\x1b]",
        "\x1b[1 2m",
        "\x1b[!p",
        "\x1b[1$r",
        "\x1b[31\x18m",
        "\x1b\x1b[1m",
        "\x1b(\n0",
        "\x1b[\x7f1m",
        "\x1b[>1;2x",
        "\x1b[=5z",
        "\x1b[1:2:3m",
        "\x1b[\x0e4m",
        "\x1b[::5H",
        "\x1b[?1:2h",
        "\x1b[1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;31m",
        "\x1b[1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;31m",
        "\x1b[?7;25$p",
        "\x1b[38;5",
        "\x1b[\u{e9}1m",
    ];
    random.of(&sequences).to_owned()
}
