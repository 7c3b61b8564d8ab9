//! Styled text: what is painted, before it meets a width.
//!
//! In: text with a little markdown. Out: lines cut to a width and their escape form. Control
//! characters never get in: what the user pastes must not move the cursor.

use unicode_width::UnicodeWidthChar;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Style {
    #[default]
    Plain,
    Bold,
    Italic,
    Dim,
    Accent,
    Code,
    Good,
    Bad,
}

impl Style {
    fn sgr(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Bold => "1",
            Self::Italic => "3",
            Self::Dim => "2",
            Self::Accent => "38;2;215;119;87",
            Self::Code => "36",
            Self::Good => "32",
            Self::Bad => "31",
        }
    }
}

/// Characters with their styles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line(Vec<(char, Style)>);

impl Line {
    pub(crate) fn new(text: &str, style: Style) -> Self {
        let mut line = Self::default();
        line.push(text, style);
        line
    }

    pub(crate) fn plain(text: &str) -> Self {
        Self::new(text, Style::Plain)
    }

    /// Reads `**bold**`, `*italic*` and `` `code` ``.
    pub(crate) fn markdown(text: &str) -> Self {
        let mut line = Self::default();
        let mut style = Style::Plain;
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let marks = [("`", Style::Code), ("**", Style::Bold), ("*", Style::Italic)].into_iter();
            let mark = marks.into_iter().find(|(mark, kind)| {
                rest.starts_with(mark)
                    && (style == *kind
                        || style == Style::Plain && rest[mark.len()..].contains(mark))
            });
            if let Some((mark, kind)) = mark {
                style = if style == kind { Style::Plain } else { kind };
                rest = &rest[mark.len()..];
            } else {
                line.push(c.encode_utf8(&mut [0; 4]), style);
                rest = &rest[c.len_utf8()..];
            }
        }
        line
    }

    pub(crate) fn push(&mut self, text: &str, style: Style) {
        for c in text.chars() {
            match c {
                '\t' => self.0.extend([(' ', style); 4]),
                c if c.is_control() => self.0.push(('·', style)),
                c => self.0.push((c, style)),
            }
        }
    }

    pub(crate) fn append(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub(crate) fn with(mut self, text: &str, style: Style) -> Self {
        self.push(text, style);
        self
    }

    pub(crate) fn width(&self) -> usize {
        self.0.iter().map(|(c, _)| width_of(*c)).sum()
    }

    pub(crate) fn text(&self) -> String {
        self.0.iter().map(|(c, _)| c).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Words with the space after them: what is streamed one by one.
    pub(crate) fn words(&self) -> Vec<Self> {
        let pieces = self.0.split_inclusive(|(c, _)| *c == ' ');
        pieces.map(|piece| Self(piece.to_vec())).collect()
    }

    /// Breaks at spaces so that no row is wider than `width`; rows after the first begin with
    /// `indent` spaces. Leading spaces stay: they are code's.
    pub(crate) fn wrap(&self, width: usize, indent: usize) -> Vec<Self> {
        let width = width.max(2);
        let indent = if indent + 2 > width { 0 } else { indent };
        let mut rows = vec![Self::default()];
        let mut used = 0;
        for word in self.words() {
            let visible = word.trimmed_width();
            if used > 0 && used + visible > width && visible + indent <= width {
                rows.push(Self(vec![(' ', Style::Plain); indent]));
                used = indent;
            }
            for (c, style) in word.0 {
                let cells = width_of(c);
                if used + cells > width {
                    if c == ' ' {
                        continue;
                    }
                    rows.push(Self(vec![(' ', Style::Plain); indent]));
                    used = indent;
                }
                if let Some(row) = rows.last_mut() {
                    row.0.push((c, style));
                }
                used += cells;
            }
        }
        rows
    }

    /// The line cut or filled with spaces to exactly this width.
    pub(crate) fn fit(&self, width: usize) -> Self {
        let mut out = self.cut(width);
        let missing = width - out.width();
        out.0.extend(std::iter::repeat_n((' ', Style::Plain), missing));
        out
    }

    pub(crate) fn cut(&self, width: usize) -> Self {
        let mut used = 0;
        let kept = self.0.iter().take_while(|(c, _)| {
            used += width_of(*c);
            used <= width
        });
        Self(kept.copied().collect())
    }

    /// The escape form, ending in the default style.
    pub(crate) fn paint(&self, out: &mut Vec<u8>) {
        let mut now = Style::Plain;
        for (c, style) in &self.0 {
            if *style != now {
                out.extend_from_slice(b"\x1b[m");
                if *style != Style::Plain {
                    out.extend_from_slice(format!("\x1b[{}m", style.sgr()).as_bytes());
                }
                now = *style;
            }
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
        if now != Style::Plain {
            out.extend_from_slice(b"\x1b[m");
        }
    }

    fn trimmed_width(&self) -> usize {
        let trailing = self.0.iter().rev().take_while(|(c, _)| *c == ' ').count();
        self.width() - trailing
    }
}

fn width_of(c: char) -> usize {
    c.width().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str, width: usize, indent: usize) -> Vec<String> {
        Line::plain(text).wrap(width, indent).iter().map(Line::text).collect()
    }

    #[test]
    fn wraps_at_spaces_and_cuts_long_words() {
        assert_eq!(rows("one two three", 8, 2), ["one two ", "  three"]);
        assert_eq!(rows("abcdefghij", 4, 0), ["abcd", "efgh", "ij"]);
        assert_eq!(rows("世界世界", 5, 0), ["世界", "世界"]);
        assert_eq!(rows("    code", 20, 0), ["    code"]);
        assert_eq!(rows("", 5, 0), [""]);
    }

    #[test]
    fn reads_markdown_and_keeps_lone_marks() {
        let mut out = Vec::new();
        Line::markdown("a **b** `c` 2*3").paint(&mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "a \x1b[m\x1b[1mb\x1b[m \x1b[m\x1b[36mc\x1b[m 2*3"
        );
    }

    #[test]
    fn controls_do_not_get_in() {
        assert_eq!(Line::plain("a\x1b[2Jb\u{9b}c\td").text(), "a·[2Jb·c    d");
    }

    proptest::proptest! {
        #[test]
        fn no_row_is_wider_and_no_text_is_lost(
            text in "[a-z 世é]{0,60}", width in 2usize..30, indent in 0usize..4,
        ) {
            let line = Line::plain(&text);
            let rows = line.wrap(width, indent);
            proptest::prop_assert!(rows.iter().all(|row| row.width() <= width));
            let letters = |s: &str| s.chars().filter(|c| *c != ' ').collect::<String>();
            let joined: String = rows.iter().map(Line::text).collect();
            proptest::prop_assert_eq!(letters(&joined), letters(&text));
            proptest::prop_assert_eq!(line.fit(width).width(), width);
        }
    }
}
