//! A dialogue: what a speaker is told, and what it said.
//!
//! In: the turns so far. Out: the text for the next speaker, and the protocol of it all for those
//! who read it later. A speaker that answers and exits is told everything each time; one that stays
//! is told only what was said since it spoke last.

use std::fmt::Write as _;

use greenroom_formats::connector::plan::Turn;

/// What one turn may add to the dialogue; the rest is cut with a mark.
pub(crate) const ANSWER_MAX: usize = 16 * 1024;

/// What a speaker is told of the dialogue at most: it must fit one argument. The oldest is left
/// out.
const TOLD_MAX: usize = 48 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub speaker: String,
    pub round: u32,
    pub text: String,
}

/// The text for whoever's turn it is. `stays`: it remembers what it was told before.
pub(crate) fn prompt(topic: Option<&str>, turn: &Turn, said: &[Said], stays: bool) -> String {
    let mut text = String::new();
    let first_time = !said.iter().any(|said| said.speaker == turn.speaker);
    if !stays || first_time {
        let others: Vec<&str> = turn
            .speakers
            .iter()
            .filter(|name| **name != turn.speaker)
            .map(String::as_str)
            .collect();
        let _ = write!(text, "You are {} in a dialogue with {}.", turn.speaker, others.join(", "));
        if let Some(role) = turn.role.as_deref().filter(|role| *role != turn.speaker) {
            let _ = write!(text, " Your role: {role}.");
        }
        text.push('\n');
        if let Some(topic) = topic {
            let _ = write!(text, "\n{topic}\n");
        }
    }
    let own = said.iter().rposition(|said| said.speaker == turn.speaker);
    let since = own.filter(|_| stays).map_or(0, |at| at + 1);
    let heard = heard(&said[since..]);
    if !heard.is_empty() {
        let _ = write!(text, "\nWhat was said{}:\n{heard}", if since > 0 { " since" } else { "" });
    }
    let _ = write!(text, "\nIt is your turn (round {} of {}).", turn.round, turn.rounds);
    text
}

fn heard(said: &[Said]) -> String {
    let mut kept: Vec<String> = Vec::new();
    let mut room = TOLD_MAX;
    for one in said.iter().rev() {
        let piece = format!("\n{}: {}\n", one.speaker, one.text);
        if piece.len() > room {
            kept.push("\n(what was said before is left out)\n".to_owned());
            break;
        }
        room -= piece.len();
        kept.push(piece);
    }
    kept.into_iter().rev().collect()
}

/// What a program printed, as its words in the dialogue.
pub(crate) fn answer(printed: &str) -> String {
    let lines: Vec<&str> = printed.lines().map(str::trim_end).collect();
    let text = lines.join("\n");
    let text = text.trim_matches('\n');
    if text.len() <= ANSWER_MAX {
        return text.to_owned();
    }
    let cut = text.floor_char_boundary(ANSWER_MAX);
    format!("{} (cut)", &text[..cut])
}

/// The whole dialogue as a document.
pub(crate) fn protocol(topic: Option<&str>, said: &[Said]) -> String {
    let mut text = String::new();
    if let Some(topic) = topic {
        let _ = write!(text, "{topic}\n\n");
    }
    for one in said {
        let _ = write!(text, "## {}, round {}\n\n{}\n\n", one.speaker, one.round, one.text);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(speaker: &str, round: u32) -> Turn {
        let speakers = vec!["ann".to_owned(), "bob".to_owned()];
        Turn { speaker: speaker.into(), role: Some("critic".into()), round, rounds: 2, speakers }
    }

    fn said(speaker: &str, round: u32, text: &str) -> Said {
        Said { speaker: speaker.into(), round, text: text.into() }
    }

    #[test]
    fn each_hears_what_it_has_not_heard() {
        let first = prompt(Some("tea?"), &turn("ann", 1), &[], false);
        assert_eq!(
            first,
            "You are ann in a dialogue with bob. Your role: critic.\n\ntea?\n\nIt is your turn (round 1 of 2)."
        );
        let so_far = [said("ann", 1, "yes"), said("bob", 1, "no")];
        let again = prompt(Some("tea?"), &turn("ann", 2), &so_far, false);
        assert!(again.contains("tea?") && again.contains("\nann: yes\n\nbob: no\n"), "{again}");
        let stays = prompt(Some("tea?"), &turn("ann", 2), &so_far, true);
        assert!(
            !stays.contains("yes") && !stays.contains("tea?") && stays.contains("bob: no"),
            "{stays}"
        );
    }

    #[test]
    fn long_talk_is_cut_where_it_is_oldest() {
        let many: Vec<Said> =
            (1..=20).map(|n| said("bob", n, &format!("{n}-{}", "x".repeat(8000)))).collect();
        let told = prompt(None, &turn("ann", 1), &many, false);
        assert!(told.len() < TOLD_MAX + 1000);
        assert!(told.contains("left out") && told.contains("20-x") && !told.contains("\nbob: 1-x"));
        assert!(answer(&"ä".repeat(ANSWER_MAX)).ends_with(" (cut)"));
        assert_eq!(answer("\n\n hi  \nthere\t\n\n"), " hi\nthere");
    }
}
