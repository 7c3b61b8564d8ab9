//! The corpus: what each file of `tests/corpus` tries, and the bytes in it.
//!
//! This table is the source; `GREENROOM_WRITE_CORPUS=1 cargo test -p greenroom-term corpus` writes
//! the files from it, and a test fails when they differ. Rules for a case: it begins on a fresh
//! 80x24 screen, ends between sequences, asks the terminal nothing, and uses plain CR LF, since it
//! is played without output processing. Say in `about` what would go wrong.

pub struct Case {
    pub name: &'static str,
    pub about: &'static str,
    pub bytes: &'static str,
}

const fn case(name: &'static str, about: &'static str, bytes: &'static str) -> Case {
    Case { name, about, bytes }
}

pub const CASES: &[Case] = &[
    case(
        "plain",
        "lines that scroll off the top",
        concat!(
            "1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n7\r\n8\r\n9\r\n10\r\n11\r\n12\r\n13\r\n14\r\n15\r\n16\r\n",
            "17\r\n18\r\n19\r\n20\r\n21\r\n22\r\n23\r\n24\r\n25\r\n26\r\n27\r\nlast"
        ),
    ),
    case(
        "controls",
        "BS, HT, LF, VT, FF, CR, NUL, DEL, BEL and SO/SI at their edges",
        concat!(
            "abc\x08\x08X\r\nline\nstairs\x0bdown\x0cmore\rback\x07\r\n",
            "a\0b\x7fc\x08\x08\x08\x08\x08\x08Z\r\n\x1b[10;80H\x08y\x1b[10;1H\x08z"
        ),
    ),
    case(
        "cursor",
        "every cursor motion, with and past the edges",
        concat!(
            "\x1b[5;10HA\x1b[2AB\x1b[3BC\x1b[4CD\x1b[6DE\x1b[2EF\x1b[1FG\x1b[40GH\x1b[12dI",
            "\x1b[999;999HJ\x1b[0;0HK\x1b[999CL\x1b[999BM\x1b[999AN\x1b[999DO\x1b[3`P",
            "\x1b[15;20fS\x1b[;5HT\x1b[7HU"
        ),
    ),
    case("cursor-relative", "HPR and VPR", "a\x1b[2ab\x1b[2ec"),
    case(
        "wide",
        "characters of two cells",
        concat!(
            "世界 hello\x1b[30GX\r\nＡＢＣ full width\x1b[30GX\r\n한국어 テスト\x1b[30GX\r\nx世y界z\r\n\x1b[3C世\x1b[2D*\r\n"
        ),
    ),
    case(
        "wide-overwrite",
        "half of a wide character is overwritten or erased",
        concat!(
            "世界\x1b[1;1Hx\r\n世界\x1b[3;3Hx\r\n世界\x1b[4;4Hx\r\n",
            "a世b\x1b[5;3Hx\r\n世界\x1b[6;1H界\r\n世界世\x1b[7;2H界\r\n"
        ),
    ),
    case(
        "wide-overwrite-tail",
        "the second half of a wide character is overwritten",
        "世界\x1b[1;2Hx",
    ),
    case(
        "wide-erase",
        "EL, ECH and ED that begin or end inside a wide character",
        concat!(
            "世界世界\x1b[1;4H\x1b[K\r\n世界世界\x1b[2;4H\x1b[1K\r\n世界世界\x1b[3;2H\x1b[2X\r\n",
            "世界世界\x1b[4;1H\x1b[X\r\n世界世界\x1b[5;2H\x1b[J"
        ),
    ),
    case(
        "wide-shift",
        "ICH and DCH whole and inside a wide character",
        concat!(
            "世界ab\x1b[1;1H\x1b[@\r\n世界ab\x1b[2;3H\x1b[2@\r\n世界ab\x1b[3;1H\x1b[2P\r\n",
            "ab世界\x1b[4;1H\x1b[P\r\n"
        ),
    ),
    case(
        "wide-margin",
        "a wide character that does not fit the last column",
        concat!("\x1b[1;80H世\r\n\x1b[4;79H世x\r\n\x1b[7;78H世界\r\n\x1b[24;80H世"),
    ),
    case(
        "combining",
        "marks join the character before them",
        concat!(
            "e\u{301}a\u{308}n\u{303} o\u{302}\u{323}\x1b[20GX\r\n世\u{301}x\x1b[20GX\r\nกา ที่\x1b[20GX\r\nשָׁ\x1b[20GX\r\n",
            "\x1b[6;80He\u{301}f\r\nx\u{200b}y\x1b[20GX\r\n"
        ),
    ),
    case("joiner", "a zero-width joiner after a letter", "y\u{200d}z"),
    case(
        "combining-edge",
        "a mark at the pending wrap and after motion",
        concat!("\x1b[2;80Hq\u{301}\r\nab\x08\u{301}c\r\n"),
    ),
    case(
        "emoji",
        "emoji of one code point are two cells",
        "👍🎉🚀 ok\x1b[20GX\r\n😀|😀|\x1b[20GX\r\n⌚|⏰|✨|\x1b[20GX\r\n",
    ),
    case("thai-am", "SARA AM is one cell, though it joins the letter before it", "กำx\x1b[10GX"),
    case(
        "emoji-vs16",
        "a text symbol made emoji by VS16",
        "❤\u{fe0f}|\x1b[12GX\r\n☀\u{fe0f}|\x1b[12GX\r\n1\u{fe0f}\u{20e3}|\x1b[12GX\r\n",
    ),
    case(
        "emoji-zwj",
        "one family of several emoji",
        "👨\u{200d}👩\u{200d}👧|\x1b[12GX\r\n👩\u{200d}💻|\x1b[12GX\r\n",
    ),
    case(
        "emoji-flags",
        "two regional indicators are one flag",
        "🇩🇪|\x1b[12GX\r\n🇫🇷🇯🇵|\x1b[12GX\r\n",
    ),
    case(
        "emoji-skin",
        "a skin tone joins the emoji before it",
        "👍🏽|\x1b[12GX\r\n👋🏻👋🏿|\x1b[12GX\r\n",
    ),
    case(
        "symbols",
        "box drawing, braille, arrows and powerline are one cell",
        concat!(
            "╭─╮│╰╯ ⠋⠙⠹ →← ❯ ⏺ ⎿ ✻ ✳ · … █▓▒░ \u{e0b0}|\x1b[60GX\r\n①②③ ±×÷ “q” – — €|\x1b[60GX\r\n"
        ),
    ),
    case(
        "tabs",
        "HT, CHT and CBT on the usual stops",
        concat!(
            "a\tb\tc\r\n\t\t\tx\r\n1234567\tq\r\n12345678\tq\r\n\t\ty\x1b[Zz\x1b[2Zw\r\n",
            "\x1b[6;77H\tA\tB\r\n\x1b[8;70He\x1b[99Zs"
        ),
    ),
    case("tabs-forward", "CHT", "\x1b[3Iy\r\n\x1b[99Ie"),
    case("tabs-pending-wrap", "CBT ends a pending wrap", "\x1b[1;80He\x1b[99Zs"),
    case(
        "tab-stops",
        "HTS and TBC",
        concat!(
            "\x1b[3g\x1b[1;5H\x1bH\x1b[1;20H\x1bH\r\ta\tb\tc\r\n\x1b[2;5H\x1b[g\r\tx\r\n",
            "\x1b[2;40H\x1bH\r\n\ty\tz\r\n"
        ),
    ),
    case(
        "wrap",
        "autowrap and the pending wrap",
        concat!(
            "12345678901234567890123456789012345678901234567890123456789012345678901234567890wrapped\r\n",
            "\x1b[4;80HA\rB\r\n\x1b[8;80HA\x1b[KB\r\n",
            "\x1b[12;80HA\n\x1b[14;80HA\tB\r\n\x1b[16;80HA\x1b[31mB\x1b[m\r\n\x1b[24;80HAB"
        ),
    ),
    case("wrap-back", "BS and CUB from a pending wrap", "\x1b[1;80HA\x08B\r\n\x1b[3;79HAB\x1b[DC"),
    case(
        "wrap-save",
        "save and restore over a pending wrap, CUP and CUF clear it",
        concat!("\x1b[2;80HA\x1b[2;80HB\r\n\x1b[4;80HA\x1b[CB\r\n\x1b[6;80HA\x1b[A\x1b[BC\r\n"),
    ),
    case(
        "wrap-off",
        "DECAWM off keeps to the last column",
        concat!("\x1b[?7l\x1b[1;78Habcdef\r\n\x1b[3;79H世界x\r\n\x1b[?7h\x1b[5;79Habc"),
    ),
    case(
        "wrap-off-wide",
        "a wide character in the last column without autowrap",
        "\x1b[?7l\x1b[1;80H世\r\n\x1b[?7h",
    ),
    case(
        "scroll-region",
        "lines move only between the margins",
        concat!(
            "top\x1b[24;1Hbottom\x1b[5;10r\x1b[5;1Ha\r\nb\r\nc\r\nd\r\ne\r\nf\r\ng\r\nh\x1b[5;1H\x1bM\x1bMnew",
            "\x1b[r\x1b[12;1Hfree"
        ),
    ),
    case(
        "scroll-region-edge",
        "lines outside the margins, margins that are none",
        concat!(
            "\x1b[5;10r\x1b[2;1Habove\x1b[20;1Hbelow\x1b[23;1H\r\n\r\n\r\nz",
            "\x1b[10;5rq\x1b[7;7rw\x1b[0;0r\x1b[3;1Hend"
        ),
    ),
    case(
        "scroll-region-motion",
        "CUU and CUD stop at the margin they come to",
        "\x1b[5;10r\x1b[2;1Habove\x1b[20Bx\x1b[20;1Hbelow\x1b[20Ay",
    ),
    case(
        "scroll-region-beyond",
        "margins below the screen are none",
        "\x1b[3;3Ha\x1b[99;100rb\r\nc",
    ),
    case(
        "scroll-updown",
        "SU and SD, whole screen and region",
        concat!(
            "1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n7\r\n8\x1b[2S\x1b[1Tx\x1b[2;5r\x1b[S\x1b[2Ty\x1b[99S\x1b[r\x1b[10;1Hz"
        ),
    ),
    case(
        "origin",
        "DECOM makes positions relative to the margins",
        concat!(
            "\x1b[5;15r\x1b[?6h\x1b[1;1Ha\x1b[3;5Hb\x1b[99;99Hc\x1b[2;70Hd\x1b[2de\x1b[?6l",
            "\x1b[1;1Hg\x1b[r"
        ),
    ),
    case(
        "origin-motion",
        "CUU and CUD in origin mode",
        "\x1b[5;15r\x1b[?6h\x1b[3;5Ha\x1b[Ab\x1b[2Bc\x1b[99Ad\x1b[99Be",
    ),
    case(
        "origin-save",
        "save and restore keep origin mode",
        concat!("\x1b[5;15r\x1b[?6h\x1b[2;2H\x1b7\x1b[?6l\x1b[1;1Ha\x1b8b\x1b[1;1Hc"),
    ),
    case(
        "insert-delete-lines",
        "IL and DL in and outside of a region",
        concat!(
            "1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n7\r\n8\x1b[3;4H\x1b[2Lx\x1b[6;1H\x1b[My\x1b[2;6r\x1b[3;1H\x1b[Lz",
            "\x1b[4;1H\x1b[99M\x1b[r"
        ),
    ),
    case(
        "insert-lines-outside",
        "IL and DL outside the margins do nothing",
        "1\r\n2\r\n3\r\n4\r\n5\r\n6\x1b[1;3r\x1b[5;1H\x1b[La\x1b[4;1H\x1b[Mb",
    ),
    case(
        "insert-delete-chars",
        "ICH and DCH with counts past the edge",
        concat!(
            "abcdef\x1b[1;3H\x1b[2@XY\r\nabcdef\x1b[2;2H\x1b[3P\r\n",
            "\x1b[5;75Habcdef\x1b[5;76H\x1b[@Z\r\n\x1b[6;75Habcdef\x1b[6;75H\x1b[2P"
        ),
    ),
    case("delete-chars-past-edge", "DCH of more than there is", "abcdef\x1b[1;3H\x1b[99P"),
    case("insert-chars-past-edge", "ICH of more than there is room", "abcdef\x1b[1;3H\x1b[99@"),
    case(
        "erase",
        "every EL, ED and ECH",
        concat!(
            "aaaaaaaaaa\r\nbbbbbbbbbb\r\ncccccccccc\r\ndddddddddd\r\neeeeeeeeee\r\nffffffffff\r\n",
            "\x1b[1;4H\x1b[K\x1b[2;4H\x1b[1K\x1b[3;4H\x1b[2K\x1b[4;4H\x1b[3Xx\x1b[5;9H\x1b[99X",
            "\x1b[6;5H\x1b[J\x1b[8;1Hg\x1b[1;2H\x1b[1J\x1b[3;1Hh"
        ),
    ),
    case("erase-all", "ED 2 leaves the cursor", "junk\r\nmore\x1b[2Jx\r\ny\x1b[3Jz"),
    case(
        "erase-background",
        "erased cells take the background colour",
        concat!(
            "\x1b[41m\x1b[Kred\x1b[m\r\n\x1b[44mblue\x1b[K\x1b[m\r\nabcdef\x1b[3;3H\x1b[42m\x1b[2X\x1b[m\r\n",
            "abcdef\x1b[4;3H\x1b[43m\x1b[2P\x1b[m\r\nabcdef\x1b[5;3H\x1b[45m\x1b[2@\x1b[m\r\n",
            "\x1b[48;5;200m\x1b[6;10H\x1b[1K\x1b[m\x1b[8;1Hx\x1b[46m\x1b[J\x1b[m",
            "\x1b[1;80H|\x1b[2;80H|\x1b[4;80H|\x1b[6;80H|\x1b[8;80H|\x1b[9;80H|\x1b[24;80H|"
        ),
    ),
    case(
        "scroll-background",
        "lines scrolled in take the background colour",
        concat!(
            "\x1b[44m\x1b[3;6r\x1b[6;1Hend\r\n\r\n\x1b[r\x1b[10;1H\x1b[L\x1b[12;1H\x1b[M\x1b[m\x1b[5;80H|\x1b[6;80H|\x1b[10;80H|\x1b[24;80H|"
        ),
    ),
    case(
        "sgr",
        "attributes and colours of all forms",
        concat!(
            "\x1b[1mbold\x1b[22m \x1b[2mdim\x1b[22m \x1b[3mital\x1b[23m \x1b[4munder\x1b[24m \x1b[7minv\x1b[27m ",
            "\x1b[8mhide\x1b[28m \x1b[9mstrike\x1b[29m\r\n\x1b[31mred\x1b[39m \x1b[97mbright\x1b[39m ",
            "\x1b[48;5;22mgreen\x1b[49m \x1b[38;2;1;2;3mrgb\x1b[39m \x1b[38:2::4:5:6mcolon\x1b[m ",
            "\x1b[1;4;35;46mall\x1b[m plain \x1b[;32mg\x1b[0m"
        ),
    ),
    case(
        "line-drawing",
        "DEC special graphics in G0 and G1",
        concat!(
            "\x1b(0lqqqk\r\nx   x\r\nmqqqj\x1b(B abc\r\n\x1b)0a\x0eqxa`fgy\x0fq\r\n",
            "\x1b(0tquvwnopqrs~{|}\x1b(B\r\n"
        ),
    ),
    case(
        "line-drawing-save",
        "save and restore keep the character set",
        "\x1b(0\x1b7\x1b(Bq\x1b8q\x1b(Bq",
    ),
    case(
        "save-restore",
        "DECSC and SCOSC, restore without save",
        concat!(
            "\x1b[u\x1b8a\x1b[5;5H\x1b[31m\x1b7\x1b[10;10H\x1b[32mb\x1b8c\x1b[m\x1b[7;7H\x1b[s\x1b[9;9Hd\x1b[ue"
        ),
    ),
    case(
        "alt-screen",
        "1049 keeps the main screen and its cursor",
        concat!("main one\r\nmain two\x1b[?1049h\x1b[Halt\r\nmore alt\x1b[?1049lX"),
    ),
    case(
        "alt-screen-stay",
        "what is seen on the alternate screen",
        concat!("main\r\n\x1b[31m\x1b[?1049h\x1b[2;3Halt\x1b[m\x1b[24;1Hbottom\r\nscrolled"),
    ),
    case(
        "alt-screen-47",
        "the older 47 and 1047",
        concat!("main\x1b[?47h\x1b[3;3Halt\x1b[?47lA\r\n\x1b[?1047h\x1b[5;5Hsecond\x1b[?1047lB"),
    ),
    case("rep", "REP repeats the character before it", concat!("a\x1b[5b|\r\n-\x1b[bx\r\n")),
    case("rep-after-sgr", "REP with SGR between it and its character", "z\x1b[31m\x1b[b"),
    case("rep-wrap", "REP over the end of a line", "\x1b[1;78Hz\x1b[5b|"),
    case("rep-wide", "REP of a wide character", "世\x1b[2b|"),
    case(
        "index",
        "IND, RI and NEL at the edges",
        concat!(
            "\x1b[1;5Ha\x1bMb\x1bMc\x1b[24;5Hd\x1bDe\x1bDf\x1bEg\x1b[10;10Hh\x1bDi\x1bMj\x1bEk"
        ),
    ),
    case(
        "insert-mode",
        "IRM shifts the rest of the line",
        concat!(
            "abcdef\x1b[1;3H\x1b[4hXY\x1b[4lZ\r\n\x1b[2;78Habc\x1b[2;77H\x1b[4hq\x1b[4l\r\n",
            "世界\x1b[3;1H\x1b[4h中\x1b[4l"
        ),
    ),
    case("alignment", "DECALN fills the screen", "x\x1b[5;5r\x1b#8\x1b[3;3Hy"),
    case(
        "reset",
        "RIS takes everything back",
        concat!(
            "junk\x1b[5;10r\x1b[?6h\x1b[31m\x1b(0\x1b[?7l\x1b[4h\x1b[3g\x1bcq\tx\r\n\x1b[1;78Habcdef"
        ),
    ),
    case(
        "soft-reset",
        "DECSTR takes modes back and keeps the text",
        concat!("text\x1b[5;10r\x1b[?6h\x1b[4h\x1b[!p\x1b[1;1Hab\x1b[24;1Hend"),
    ),
    case(
        "strings",
        "OSC, DCS, APC, PM and SOS print nothing",
        concat!(
            "a\x1b]0;title\x07b\x1b]2;t\x1b\\cd\x1bP1$x\x1b\\e",
            "\x1b_apc\x1b\\f\x1b^pm\x1b\\g\x1b]133;A\x07h\x1b]9;note\x07i\x1b]52;c;aGk=\x07j"
        ),
    ),
    case(
        "hyperlink",
        "OSC 8 prints only the text between its two halves",
        "a \x1b]8;id=1;http://x/y;z\x1b\\link\x1b]8;;\x1b\\ \x1b]8;;http://x\x07b\x1b]8;;\x07 c",
    ),
    case(
        "unknown",
        "sequences nobody knows print nothing",
        concat!(
            "a\x1b[?9999hb\x1b[>5;1md\x1b[1;2;3;4;5;6;7;8;9;10ze\x1b[=1uf\x1b[5 qg\x1b[?2026hh\x1b[?2026li",
            "\x1b[?2004hj\x1b[?1000hk\x1b[?1006hl\x1b[?1000lm\x1b#3n\x1b%Go"
        ),
    ),
    case(
        "cancel",
        "CAN and SUB end a sequence, ESC begins a new one",
        "a\x1b[3\x18b\x1b[3\x1ac\x1b[3\x1b[1Cd\x1b\x1b[Ce",
    ),
    case(
        "controls-inside",
        "C0 controls inside a sequence act at once",
        "ab\x1b[\r3Cx\x1b[5\n;5Hy",
    ),
    case(
        "tui-agent",
        "a coding agent's inline frames: erase below, lines, box, cursor up",
        concat!(
            "\x1b[?2004h\x1b[?2026h\x1b[?25l╭──────────────────────╮\r\n│ \x1b[1m✻ Welcome\x1b[m            │\r\n",
            "╰──────────────────────╯\r\n\x1b[2m╭────────────────────╮\x1b[m\r\n\x1b[2m│\x1b[m > list files       \x1b[2m│\x1b[m\r\n",
            "\x1b[2m╰────────────────────╯\x1b[m\r\n  ? for shortcuts\x1b[2A\r\x1b[14C\x1b[?25h\x1b[?2026l",
            "\x1b[?2026h\x1b[?25l\r\x1b[1A\x1b[J> list files\r\n\r\n\x1b[38;2;215;119;87m✻ Pondering… \x1b[2m(1s · esc to interrupt)\x1b[m\r\n",
            "\r\n╭────────────────────╮\r\n│ >                  │\r\n╰────────────────────╯\r\n  ? for shortcuts\x1b[2A\r\x1b[4C\x1b[?25h\x1b[?2026l",
            "\x1b[?2026h\r\x1b[3A\x1b[J\x1b[32m⏺\x1b[m \x1b[1mBash\x1b[m(ls)\r\n  ⎿  Cargo.toml\r\n     世界.txt\r\n\r\n",
            "╭────────────────────╮\r\n│ >                  │\r\n╰────────────────────╯\x1b[1A\r\x1b[4C\x1b[?2026l"
        ),
    ),
    case(
        "tui-editor",
        "an editor: alternate screen, scroll region, status line, insert line",
        concat!(
            "$ vi x\r\n\x1b[?1049h\x1b[22;0;0t\x1b[?1h\x1b=\x1b[?2004h\x1b[1;24r\x1b[27m\x1b[24m\x1b[0m\x1b[H\x1b[J\x1b[?25l",
            "\x1b[24;1H\"x\" 3L, 20B\x1b[1;1Hfirst line\r\nsecond line\r\nthird 行\r\n\x1b[94m~\x1b[5;1H~\x1b[6;1H~\x1b[m",
            "\x1b[24;63H1,1\x1b[11CAll\x1b[2;1H\x1b[?25h\x1b[?25l\x1b[2;23r\x1b[2;1H\x1b[L\x1b[1;24rinserted\x1b[24;1H\x1b[1m-- INSERT --\x1b[m",
            "\x1b[24;63H\x1b[K\x1b[24;63H2,9\x1b[11CAll\x1b[2;9H\x1b[?25h"
        ),
    ),
    case(
        "tui-pager",
        "a pager scrolling both ways",
        concat!(
            "\x1b[?1049h\x1b[H\x1b[2Jline 1\r\nline 2\r\nline 3\r\nline 4\r\n\x1b[24;1H\x1b[7m:\x1b[27m\x1b[K\r\x1b[K",
            "line 24\r\n\x1b[7m:\x1b[27m\x1b[K\x1b[H\x1bMline 0\x1b[24;1H\r\x1b[K\x1b[7m(END)\x1b[27m\x1b[K"
        ),
    ),
    case(
        "tui-monitor",
        "a process monitor: bars, colours, absolute rows",
        concat!(
            "\x1b[?1049h\x1b[?1000h\x1b[?1006h\x1b[H\x1b[J\x1b[2;3H\x1b[36m1\x1b[39m[\x1b[32m||||||\x1b[31m||\x1b[30m\x1b[1m      12.5%\x1b[m]",
            "\x1b[3;3H\x1b[36mMem\x1b[39m[\x1b[32m|||||||||\x1b[34m||\x1b[33m||||\x1b[m  1.2G/7.6G]\x1b[5;1H\x1b[30m\x1b[42m  PID USER      PRI  NI  VIRT\x1b[K\x1b[m",
            "\x1b[6;1H\x1b[30m\x1b[46m    1 root       20   0  168M\x1b[K\x1b[m\x1b[7;1H   42 root       20   0 \x1b[36m 12M\x1b[39m\x1b[K",
            "\x1b[24;1HF1\x1b[30m\x1b[46mHelp  \x1b[mF10\x1b[30m\x1b[46mQuit  \x1b[m\x1b[K"
        ),
    ),
    case(
        "tui-progress",
        "progress bars by CR and by CUU",
        concat!(
            "fetch\r\n[#         ] 10%\r[##        ] 20%\r[##########] 100%\x1b[K\r\nA 1\r\nB 1\r\n",
            "\x1b[2A\x1b[KA 2\r\n\x1b[KB 2\r\n\x1b[2AA 3\x1b[K\r\n\x1b[1BC\r\n"
        ),
    ),
    case(
        "tui-prompt",
        "a shell prompt with a right side, redrawn on typing",
        concat!(
            "\x1b]133;A\x07\x1b[1m\x1b[7m%\x1b[27m\x1b[1m\x1b[0m\x1b[78C \r \r\r\x1b[0m\x1b[27m\x1b[24m\x1b[J\x1b[32m~/src\x1b[39m ❯ \x1b[K",
            "\x1b[66C12:00\x1b[71D\x1b]133;B\x07l\x08ls\x08\x08\x1b[4ml\x1b[4ms\x1b[24m\x1b[1C-la\r\r\n"
        ),
    ),
];
