//! The escape grammar: where a sequence begins, what belongs to it, where it ends.
//!
//! In: bytes, one at a time. Out: what each is in its place. This is the one statement of the
//! grammar; it mirrors the states of vte's parser, so that whoever reads a session's output agrees
//! with its screen about what is text. Two readers stand on it: [`collect`] keeps sequences whole
//! for the screen, [`tokens`] sorts a stream into text and what lies between. Deliberately absent:
//! meaning, buffers and lengths. They are the readers'.

pub(crate) mod collect;
pub(crate) mod tokens;

/// Where in a sequence the next byte stands. From [`Place::DcsEntry`] on all are strings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd)]
pub(crate) enum Place {
    #[default]
    Ground,
    Escape,
    EscapeIntermediate,
    CsiEntry,
    CsiParam,
    CsiIntermediate,
    CsiIgnore,
    DcsEntry,
    DcsParam,
    DcsIntermediate,
    DcsIgnore,
    DcsPassthrough,
    Osc,
    /// SOS, PM or APC.
    Text,
}

const PLACES: [Place; 14] = [
    Place::Ground,
    Place::Escape,
    Place::EscapeIntermediate,
    Place::CsiEntry,
    Place::CsiParam,
    Place::CsiIntermediate,
    Place::CsiIgnore,
    Place::DcsEntry,
    Place::DcsParam,
    Place::DcsIntermediate,
    Place::DcsIgnore,
    Place::DcsPassthrough,
    Place::Osc,
    Place::Text,
];

/// What a byte is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Part of the sequence or of its payload.
    Part,
    /// Swallowed: nothing follows from it.
    Nothing,
    /// A control. It acts at once, in the midst of a sequence too.
    Execute,
    /// ESC: a sequence begins, and one that was open is void.
    Begin,
    /// The sequence makes no sense: it is swallowed up to its end.
    Ignore,
    /// The sequence ends without effect.
    Drop,
    /// The last byte of a sequence.
    Last(Kind),
    /// The end of a string, and no part of it. An ESC is the beginning of the next sequence, too.
    StringEnd(Kind),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Escape,
    Csi,
    /// `bell`: ended by BEL.
    Osc {
        bell: bool,
    },
    Dcs,
    /// SOS, PM or APC.
    Text,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Grammar {
    place: Place,
}

impl Grammar {
    #[inline]
    pub(crate) fn place(self) -> Place {
        self.place
    }

    #[inline]
    pub(crate) fn in_string(self) -> bool {
        self.place >= Place::DcsEntry
    }

    #[inline]
    pub(crate) fn step(&mut self, byte: u8) -> Step {
        let (place, step) = TABLE[self.place as usize][usize::from(byte)];
        self.place = place;
        step
    }

    /// The sequence is too long for its reader: the rest of it is swallowed.
    pub(crate) fn ignore(&mut self) {
        self.place = if self.in_string() { Place::DcsIgnore } else { Place::CsiIgnore };
    }

    /// The sequence is taken to be over.
    pub(crate) fn abandon(&mut self) {
        self.place = Place::Ground;
    }
}

/// [`rule`] for every place and byte: a look-up takes no branch.
static TABLE: [[(Place, Step); 256]; PLACES.len()] = {
    let mut table = [[(Place::Ground, Step::Nothing); 256]; PLACES.len()];
    let mut place = 0;
    while place < PLACES.len() {
        assert!(PLACES[place] as usize == place, "the list is in the enum's order");
        let mut byte = 0;
        while byte < 256 {
            table[place][byte] = rule(PLACES[place], byte as u8);
            byte += 1;
        }
        place += 1;
    }
    table
};

const fn rule(place: Place, byte: u8) -> (Place, Step) {
    match place {
        Place::Ground => match byte {
            0x1b => (Place::Escape, Step::Begin),
            0x00..=0x1f => (place, Step::Execute),
            _ => (place, Step::Nothing),
        },
        Place::Escape => match byte {
            0x20..=0x2f => (Place::EscapeIntermediate, Step::Part),
            b'P' => (Place::DcsEntry, Step::Part),
            b'[' => (Place::CsiEntry, Step::Part),
            b']' => (Place::Osc, Step::Part),
            b'X' | b'^' | b'_' => (Place::Text, Step::Part),
            0x30..=0x7e => (Place::Ground, Step::Last(Kind::Escape)),
            _ => control(place, byte),
        },
        Place::EscapeIntermediate => match byte {
            0x20..=0x2f => (place, Step::Part),
            0x30..=0x7e => (Place::Ground, Step::Last(Kind::Escape)),
            _ => control(place, byte),
        },
        Place::CsiEntry | Place::CsiParam => match byte {
            0x20..=0x2f => (Place::CsiIntermediate, Step::Part),
            0x30..=0x3b => (Place::CsiParam, Step::Part),
            0x3c..=0x3f if matches!(place, Place::CsiEntry) => (Place::CsiParam, Step::Part),
            0x3c..=0x3f => (Place::CsiIgnore, Step::Ignore),
            0x40..=0x7e => (Place::Ground, Step::Last(Kind::Csi)),
            _ => control(place, byte),
        },
        Place::CsiIntermediate => match byte {
            0x20..=0x2f => (place, Step::Part),
            0x30..=0x3f => (Place::CsiIgnore, Step::Ignore),
            0x40..=0x7e => (Place::Ground, Step::Last(Kind::Csi)),
            _ => control(place, byte),
        },
        Place::CsiIgnore => match byte {
            0x40..=0x7e => (Place::Ground, Step::Drop),
            _ => control(place, byte),
        },
        Place::DcsEntry | Place::DcsParam => match byte {
            0x20..=0x2f => (Place::DcsIntermediate, Step::Part),
            0x30..=0x3b => (Place::DcsParam, Step::Part),
            0x3c..=0x3f if matches!(place, Place::DcsEntry) => (Place::DcsParam, Step::Part),
            0x3c..=0x3f => (Place::DcsIgnore, Step::Ignore),
            0x40..=0x7e => (Place::DcsPassthrough, Step::Part),
            _ => anywhere(place, byte),
        },
        Place::DcsIntermediate => match byte {
            0x20..=0x2f => (place, Step::Part),
            0x30..=0x3f => (Place::DcsIgnore, Step::Ignore),
            0x40..=0x7e => (Place::DcsPassthrough, Step::Part),
            _ => anywhere(place, byte),
        },
        Place::DcsIgnore => anywhere(place, byte),
        Place::DcsPassthrough => match byte {
            0x18 | 0x1a | 0x9c => (Place::Ground, Step::StringEnd(Kind::Dcs)),
            0x1b => (Place::Escape, Step::StringEnd(Kind::Dcs)),
            0x7f.. => (place, Step::Nothing),
            _ => (place, Step::Part),
        },
        Place::Osc => match byte {
            0x07 => (Place::Ground, Step::StringEnd(Kind::Osc { bell: true })),
            0x18 | 0x1a => (Place::Ground, Step::StringEnd(Kind::Osc { bell: false })),
            0x1b => (Place::Escape, Step::StringEnd(Kind::Osc { bell: false })),
            0x00..=0x1f => (place, Step::Nothing),
            _ => (place, Step::Part),
        },
        Place::Text => match byte {
            0x1b => (Place::Escape, Step::StringEnd(Kind::Text)),
            0x18 | 0x1a => (Place::Ground, Step::Drop),
            _ => (place, Step::Part),
        },
    }
}

/// Outside strings controls act.
const fn control(place: Place, byte: u8) -> (Place, Step) {
    match byte {
        0x00..=0x17 | 0x19 | 0x1c..=0x1f => (place, Step::Execute),
        _ => anywhere(place, byte),
    }
}

const fn anywhere(place: Place, byte: u8) -> (Place, Step) {
    match byte {
        0x18 | 0x1a => (Place::Ground, Step::Drop),
        0x1b => (Place::Escape, Step::Begin),
        _ => (place, Step::Nothing),
    }
}
