//! From a model's name to the programs that may play it, the first choice first.
//!
//! A name is looked up in the file, then among the programs known here. A name of the file may
//! stand for another, so the way is followed with care for circles. `primary` falls back to
//! `fallback` where a file has both and says nothing else.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::file::{Model, ModelEntry, PromptVia};
use super::{MODELS_MAX, meant};

/// A program that can play a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Candidate {
    /// The name it was found by.
    pub model: String,
    /// Program and arguments, without the prompt.
    pub command: Vec<String>,
    /// How the prompt reaches it.
    pub prompt_via: PromptVia,
    /// Who could talk to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter: Option<String>,
}

/// What a session will do with the program; known programs are called accordingly.
#[derive(Clone, Copy, Debug, Default)]
pub struct Use<'a> {
    /// There is something to say to it.
    pub prompt: bool,
    /// What the file says of permissions.
    pub permission: Option<&'a str>,
}

/// A program we know how to call.
struct Known {
    name: &'static str,
    /// For a person at the terminal, or for somebody who types.
    command: &'static [&'static str],
    /// With the prompt as the last argument: answers it and exits.
    answering: &'static [&'static str],
    adapter: &'static str,
}

/// It reads prompts until its input ends.
const FAKE_AGENT: &str = "exec greenroom fake-agent --no-tty \"$1\" < /dev/null";

const KNOWN: &[Known] = &[
    known("claude", &["claude"], &["claude", "-p"], "claude"),
    known(
        "haiku",
        &["claude", "--model", "haiku"],
        &["claude", "--model", "haiku", "-p"],
        "claude",
    ),
    known(
        "sonnet",
        &["claude", "--model", "sonnet"],
        &["claude", "--model", "sonnet", "-p"],
        "claude",
    ),
    known("opus", &["claude", "--model", "opus"], &["claude", "--model", "opus", "-p"], "claude"),
    known("codex", &["codex"], &["codex", "exec"], "codex"),
    known("gemini", &["gemini"], &["gemini", "-p"], "gemini"),
    known("opencode", &["opencode"], &["opencode", "run"], "opencode"),
    known("aider", &["aider"], &["aider", "--yes-always", "--message"], "aider"),
    known(
        "fake-agent",
        &["greenroom", "fake-agent"],
        &["sh", "-c", FAKE_AGENT, "fake-agent"],
        "fake-agent",
    ),
];

const fn known(
    name: &'static str,
    command: &'static [&'static str],
    answering: &'static [&'static str],
    adapter: &'static str,
) -> Known {
    Known { name, command, answering, adapter }
}

/// `ollama/llama3` and the like.
const OLLAMA: &str = "ollama/";

/// Names of the programs known here.
pub fn known_names() -> impl Iterator<Item = &'static str> {
    KNOWN.iter().map(|known| known.name)
}

/// The programs for a name, or why there are none.
pub fn resolve(
    models: &BTreeMap<String, ModelEntry>,
    name: &str,
    usage: Use<'_>,
) -> Result<Vec<Candidate>, String> {
    let mut found = Vec::new();
    follow(models, name, usage, &mut Vec::new(), &mut found)?;
    let mut once: Vec<Candidate> = Vec::new();
    for candidate in found {
        if !once.iter().any(|other| other.command == candidate.command) {
            once.push(candidate);
        }
    }
    Ok(once)
}

/// The model of a phase that names none.
pub fn default_of(models: &BTreeMap<String, ModelEntry>) -> Option<&str> {
    let usual = ["default", "primary"].into_iter().find(|name| models.contains_key(*name));
    let only = || (models.len() == 1).then(|| models.keys().next()).flatten().map(String::as_str);
    usual.or_else(only)
}

fn follow(
    models: &BTreeMap<String, ModelEntry>,
    name: &str,
    usage: Use<'_>,
    way: &mut Vec<String>,
    found: &mut Vec<Candidate>,
) -> Result<(), String> {
    if way.iter().any(|step| step == name) || way.len() > MODELS_MAX {
        return Err(format!("the model {name:?} leads back to itself: {}", way.join(" to ")));
    }
    let Some(entry) = models.get(name) else {
        found.push(program(name, name, None, usage).ok_or_else(|| unknown(models, name))?);
        return Ok(());
    };
    way.push(name.to_owned());
    let fallback = match entry {
        // `"claude": "claude"` means the program of that name.
        ModelEntry::Name(other) if other == name => {
            found.push(program(name, name, None, usage).ok_or_else(|| unknown(models, other))?);
            Vec::new()
        }
        ModelEntry::Name(other) => {
            follow(models, other, usage, way, found)?;
            Vec::new()
        }
        ModelEntry::Full(model) => {
            found.push(of_entry(name, model, usage)?);
            model.fallback.as_ref().map(|names| names.as_slice().to_vec()).unwrap_or_default()
        }
    };
    let usual = name == "primary" && fallback.is_empty() && models.contains_key("fallback");
    for next in fallback.iter().map(String::as_str).chain(usual.then_some("fallback")) {
        follow(models, next, usage, way, found)?;
    }
    way.pop();
    Ok(())
}

fn of_entry(name: &str, model: &Model, usage: Use<'_>) -> Result<Candidate, String> {
    let via = model.prompt_via;
    match (&model.command, &model.adapter) {
        (Some(command), adapter) => Ok(Candidate {
            model: name.to_owned(),
            command: command.clone(),
            prompt_via: via.unwrap_or_default(),
            adapter: adapter.clone(),
        }),
        (None, Some(adapter)) => program(name, adapter, via, usage).ok_or_else(|| {
            let meant = meant(adapter, known_names());
            format!(
                "the model {name:?} has no command, and no program is known as {adapter:?}{meant}"
            )
        }),
        (None, None) => Err(format!("the model {name:?} has neither a command nor an adapter")),
    }
}

/// A known program, called for its use.
fn program(model: &str, name: &str, via: Option<PromptVia>, usage: Use<'_>) -> Option<Candidate> {
    let prompt_via = via.unwrap_or_default();
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    if let Some(ollama) = name.strip_prefix(OLLAMA).filter(|name| is_word(name)) {
        let command = words(&["ollama", "run", ollama]);
        return Some(Candidate { model: model.to_owned(), command, prompt_via, adapter: None });
    }
    let known = KNOWN.iter().find(|known| known.name == name)?;
    let answers = usage.prompt && prompt_via != PromptVia::Stdin;
    let mut command = words(if answers { known.answering } else { known.command });
    if let (Some(permission), "claude") = (usage.permission, known.adapter) {
        command.extend(["--permission-mode".to_owned(), permission.to_owned()]);
    }
    let adapter = Some(known.adapter.to_owned());
    Some(Candidate { model: model.to_owned(), command, prompt_via, adapter })
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('-') && text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn unknown(models: &BTreeMap<String, ModelEntry>, name: &str) -> String {
    let known = known_names().map(|name| -> &str { name });
    let names = models.keys().map(String::as_str).chain(known);
    let meant = meant(name, names);
    format!("unknown model {name:?}{meant}")
}
