//! A turn of the script as a queue of small acts.
//!
//! In: the steps of a turn and the prompt. Out: acts, each done at once; time lies only in
//! [`Act::Pause`]. The agent on a terminal and the plain one play the same queue.

use std::collections::VecDeque;
use std::time::Duration;

use crate::line::{Line, Style};
use crate::script::{Script, Step};

#[derive(Debug)]
pub(crate) enum Act {
    Pause(Duration),
    /// The word beside the spinner.
    Spin(String),
    /// More of the paragraph at the bottom.
    Stream(Line),
    /// The paragraph is complete.
    EndParagraph,
    Commit(Line),
    Raw(Vec<u8>),
    Notify(String),
    Bell,
    Title(String),
    Ask(Dialog),
    Exit(u8),
}

#[derive(Clone, Debug)]
pub(crate) struct Dialog {
    /// What "don't ask again" is remembered by; none for a plan.
    pub tool: Option<String>,
    pub title: String,
    pub body: Vec<String>,
    pub question: String,
    /// The last one declines.
    pub options: Vec<String>,
    pub selected: usize,
}

/// A tool takes this many words' time before its output shows.
const TOOL_WORDS: u32 = 10;
/// A line of code takes this many words' time.
const CODE_WORDS: u32 = 3;

pub(crate) fn acts(script: &Script, prompt: &str) -> VecDeque<Act> {
    let mut acts = VecDeque::new();
    match script.turn_for(prompt) {
        Some(turn) => {
            for step in &turn.steps {
                add(&mut acts, script, step, prompt);
            }
        }
        None => say(&mut acts, script, "My script has no answer to that."),
    }
    acts
}

fn add(acts: &mut VecDeque<Act>, script: &Script, step: &Step, prompt: &str) {
    let filled = |text: &str| text.replace("{prompt}", prompt);
    match step {
        Step::Think { time, word } => {
            acts.push_back(Act::Spin(word.clone()));
            acts.push_back(Act::Pause(*time));
        }
        Step::Wait(time) => acts.push_back(Act::Pause(*time)),
        Step::Say(text) => say(acts, script, &filled(text)),
        Step::Code { language, body } => {
            acts.push_back(Act::Commit(Line::new(&format!("  ```{language}"), Style::Dim)));
            for line in body {
                acts.push_back(Act::Commit(Line::new(&format!("  {line}"), Style::Code)));
                acts.push_back(Act::Pause(script.speed * CODE_WORDS));
            }
            acts.push_back(Act::Commit(Line::new("  ```", Style::Dim)));
        }
        Step::Tool { call, body } => {
            let (name, arguments) = call.split_at(call.find('(').unwrap_or(call.len()));
            let head = Line::new("⏺ ", Style::Good).with(name, Style::Bold);
            acts.push_back(Act::Commit(head.with(arguments, Style::Plain)));
            acts.push_back(Act::Pause(script.speed * TOOL_WORDS));
            for (at, line) in body.iter().enumerate() {
                let lead = if at == 0 { "  ⎿  " } else { "     " };
                acts.push_back(Act::Commit(Line::new(lead, Style::Dim).with(line, Style::Plain)));
            }
        }
        Step::Ask { call, body } => acts.push_back(Act::Ask(permission(script, call, body))),
        Step::Plan { body } => acts.push_back(Act::Ask(plan(body))),
        Step::Print(text) => acts.push_back(Act::Commit(Line::plain(&filled(text)))),
        Step::Raw(bytes) => acts.push_back(Act::Raw(bytes.clone())),
        Step::Notify(text) => acts.push_back(Act::Notify(filled(text))),
        Step::Bell => acts.push_back(Act::Bell),
        Step::Title(text) => acts.push_back(Act::Title(filled(text))),
        Step::Exit(code) => acts.push_back(Act::Exit(*code)),
    }
}

fn say(acts: &mut VecDeque<Act>, script: &Script, text: &str) {
    for (at, line) in text.lines().enumerate() {
        let mut whole = Line::new(if at == 0 { "⏺ " } else { "  " }, Style::Plain);
        whole.append(Line::markdown(line));
        for word in whole.words() {
            acts.push_back(Act::Stream(word));
            acts.push_back(Act::Pause(script.speed));
        }
        acts.push_back(Act::EndParagraph);
    }
}

fn permission(script: &Script, call: &str, body: &[String]) -> Dialog {
    let (name, arguments) = call.split_at(call.find('(').unwrap_or(call.len()));
    let arguments = arguments.trim_start_matches('(').trim_end_matches(')');
    let mut lines = vec![format!("  {arguments}")];
    lines.extend(body.iter().map(|line| format!("  {line}")));
    Dialog {
        tool: Some(name.to_owned()),
        title: format!("{name} command"),
        body: lines,
        question: "Do you want to proceed?".into(),
        options: vec![
            "Yes".into(),
            format!("Yes, and don't ask again for {name}"),
            format!("No, and tell {} what to do differently (esc)", script.name),
        ],
        selected: 0,
    }
}

fn plan(body: &[String]) -> Dialog {
    Dialog {
        tool: None,
        title: "Ready to code?".into(),
        body: body.iter().map(|line| format!("  {line}")).collect(),
        question: "Would you like to proceed?".into(),
        options: vec![
            "Yes, and auto-accept edits".into(),
            "Yes, and manually approve edits".into(),
            "No, keep planning (esc)".into(),
        ],
        selected: 0,
    }
}

impl Dialog {
    pub(crate) fn declines(&self, choice: usize) -> bool {
        choice + 1 >= self.options.len()
    }
}
