//! The cases in which our screen and tmux 3.3a show different things, with the reason and both
//! results. A row must go when the two agree again: the test says so.

/// A case in which the two are known to differ, and what each shows.
pub struct Different {
    pub name: &'static str,
    pub why: &'static str,
    pub ours: (&'static [&'static str], (usize, usize)),
    pub tmux: (&'static [&'static str], (usize, usize)),
}

pub const DIFFERENT: &[Different] = &[
    Different {
        name: "cursor-relative",
        why: "tmux 3.3a does not know HPR (CSI a) and VPR (CSI e); xterm does, as we do",
        ours: (&["a  b", "", "    c"], (2, 5)),
        tmux: (&["abc"], (0, 3)),
    },
    Different {
        name: "wide-overwrite-tail",
        why: "tmux keeps the first half of a wide character whose second half is gone; xterm blanks it, as we do",
        ours: (&[" x界"], (0, 2)),
        tmux: (&["世x界"], (0, 2)),
    },
    Different {
        name: "joiner",
        why: "tmux drops a joiner that joins nothing; we keep it with its letter",
        ours: (&["y\u{200d}z"], (0, 2)),
        tmux: (&["yz"], (0, 2)),
    },
    Different {
        name: "emoji-zwj",
        why: "tmux joins emoji around a ZWJ into two cells; we count each emoji on its own",
        ours: (&["👨\u{200d}👩\u{200d}👧|    X", "👩\u{200d}💻|      X"], (2, 0)),
        tmux: (&["👨\u{200d}👩\u{200d}👧|        X", "👩\u{200d}💻|        X"], (2, 0)),
    },
    Different {
        name: "tabs-forward",
        why: "tmux 3.3a does not know CHT (CSI I); xterm does, as we do",
        ours: (
            &[
                "                        y",
                "                                                                               e",
            ],
            (1, 79),
        ),
        tmux: (&["y", "e"], (1, 1)),
    },
    Different {
        name: "tabs-pending-wrap",
        why: "our guest keeps a pending wrap over CBT; xterm and tmux end it",
        ours: (
            &[
                "                                                                               e",
                "s",
            ],
            (1, 1),
        ),
        tmux: (
            &["s                                                                              e"],
            (0, 1),
        ),
    },
    Different {
        name: "wrap-back",
        why: "tmux's waiting cursor stands behind the last column, so BS and CUB end one column further right than in xterm and here",
        ours: (
            &[
                "                                                                              BA",
                "",
                "                                                                              CB",
            ],
            (2, 79),
        ),
        tmux: (
            &[
                "                                                                               B",
                "",
                "                                                                              AC",
            ],
            (2, 79),
        ),
    },
    Different {
        name: "scroll-region-motion",
        why: "our guest lets CUU and CUD run through the margins; xterm and tmux stop there",
        ours: (
            &[
                "     y", "above", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "",
                "", "below", "", "     x",
            ],
            (0, 6),
        ),
        tmux: (
            &[
                "", "above", "", "", "     y", "", "", "", "", "     x", "", "", "", "", "", "",
                "", "", "", "below",
            ],
            (4, 6),
        ),
    },
    Different {
        name: "scroll-region-beyond",
        why: "our guest takes margins below the screen and goes home; xterm and tmux ignore them",
        ours: (&["b", "c", "  a"], (1, 1)),
        tmux: (&["", "", "  ab", "c"], (3, 1)),
    },
    Different {
        name: "origin-motion",
        why: "our guest adds the top margin again to CUU and CUD in origin mode; xterm and tmux do not",
        ours: (
            &[
                "       d",
                "",
                "",
                "",
                "",
                "",
                "    a",
                "",
                "",
                "     b",
                "",
                "",
                "",
                "",
                "      c e",
            ],
            (14, 9),
        ),
        tmux: (
            &[
                "",
                "",
                "",
                "",
                "       d",
                "     b",
                "    a",
                "      c",
                "",
                "",
                "",
                "",
                "",
                "",
                "        e",
            ],
            (14, 9),
        ),
    },
    Different {
        name: "origin-save",
        why: "our guest does not save origin mode with the cursor; xterm and tmux do",
        ours: (&["c", "", "", "", "", " b"], (0, 1)),
        tmux: (&["a", "", "", "", "c", " b"], (4, 1)),
    },
    Different {
        name: "insert-lines-outside",
        why: "tmux inserts and deletes lines outside the margins; xterm ignores it, as we do",
        ours: (&["1", "2", "3", "b", "a", "6"], (3, 1)),
        tmux: (&["1", "2", "3", "b", "5", "6"], (3, 1)),
    },
    Different {
        name: "delete-chars-past-edge",
        why: "our guest clears the whole line when DCH asks for more than is left; xterm and tmux clear to its end",
        ours: (&[], (0, 2)),
        tmux: (&["ab"], (0, 2)),
    },
    Different {
        name: "insert-chars-past-edge",
        why: "tmux ignores an ICH of more than there is room; xterm blanks to the end, as we do",
        ours: (&["ab"], (0, 2)),
        tmux: (&["abcdef"], (0, 2)),
    },
    Different {
        name: "alt-screen-47",
        why: "our guest keeps a cursor for each screen and goes back to it; xterm and tmux keep the position",
        ours: (&["mainA", "B"], (1, 1)),
        tmux: (&["main", "", "     A", "", "          B"], (4, 11)),
    },
    Different {
        name: "rep-after-sgr",
        why: "tmux forgets the character to repeat at any sequence; we repeat it, as xterm does",
        ours: (&["zz"], (0, 2)),
        tmux: (&["z"], (0, 1)),
    },
    Different {
        name: "rep-wrap",
        why: "tmux repeats only to the end of the line; xterm wraps, as we do",
        ours: (
            &[
                "                                                                             zzz",
                "zzz|",
            ],
            (1, 4),
        ),
        tmux: (
            &[
                "                                                                             zzz",
                "|",
            ],
            (1, 1),
        ),
    },
    Different {
        name: "rep-wide",
        why: "tmux does not repeat a wide character; xterm does, as we do",
        ours: (&["世世世|"], (0, 7)),
        tmux: (&["世|"], (0, 3)),
    },
];
