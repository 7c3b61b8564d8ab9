//! What the schema cannot say: names, references between parts, what goes with what.

use std::collections::HashSet;
use std::path::{Component, Path};

use greenroom_plugin_api::file::{HookEntry, Manifest, Runtime, RuntimeKind, Unit, When};
use greenroom_plugin_api::hook::{Class, OnFailure};

use crate::tree::{At, Node, Step, meant};

/// Names that would be taken for the host itself, or for a path of its own (`/api/plugins/reload`).
const RESERVED: [&str; 2] = ["host", "reload"];

/// A regular expression that compiles to more than this would cost each line too much.
const REGEX_SIZE_MAX: usize = 1024 * 1024;

/// Whether this can be a plugin's name; else why not.
pub fn check_name(name: &str) -> Result<(), String> {
    let fits = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-');
    let first =
        name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    if !first || name.len() > 64 || !name.bytes().all(fits) {
        let better: String = name
            .to_ascii_lowercase()
            .chars()
            .map(|c| if c.is_ascii() && fits(c as u8) { c } else { '-' })
            .take(64)
            .collect();
        let better = better.trim_start_matches(['-', '.', '_']);
        let meant = match better {
            "" => String::new(),
            better => format!(", such as {better:?}"),
        };
        return Err(format!(
            "a plugin's name has at most 64 lower-case letters, digits, \".\", \"_\" and \"-\", \
             and begins with a letter or digit{meant}"
        ));
    }
    if RESERVED.iter().any(|word| name == *word || name.starts_with("builtin")) {
        return Err(format!("the name {name:?} is the host's own"));
    }
    Ok(())
}

/// Whether this path stays inside the plugin; else why not.
pub fn check_inside(path: &str) -> Result<(), &'static str> {
    let parts = Path::new(path);
    if path.is_empty() || path.contains('\0') {
        return Err("a path must not be empty");
    }
    if parts.is_absolute() || path.starts_with('~') {
        return Err(
            "must be a path inside the plugin: a program elsewhere is started by a script with a #! line",
        );
    }
    let inside = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    if !parts.components().all(inside) {
        return Err("must stay inside the plugin: \"..\" leads out of it");
    }
    let named = parts.components().any(|part| matches!(part, Component::Normal(_)));
    if named { Ok(()) } else { Err("must name a file") }
}

pub(super) fn check(manifest: &Manifest, root: &Node<'_>) -> Vec<At> {
    let mut checking = Checking { manifest, root, problems: Vec::new() };
    checking.identity();
    for (index, runtime) in manifest.runtime.iter().enumerate() {
        checking.runtime(index, runtime);
    }
    for (index, entry) in manifest.hooks.iter().enumerate() {
        checking.hook(index, entry);
    }
    checking.faces();
    checking.settings();
    checking.problems
}

struct Checking<'m> {
    manifest: &'m Manifest,
    root: &'m Node<'m>,
    problems: Vec<At>,
}

impl Checking<'_> {
    fn problem(&mut self, path: &[Step<'_>], text: impl Into<String>) {
        self.problems.push(At::new(self.root.find(path), text));
    }

    fn identity(&mut self) {
        let path = [Step::Key("plugin"), Step::Key("name")];
        if let Err(why) = check_name(&self.manifest.plugin.name) {
            self.problem(&path, why);
        }
        for (index, file) in self.manifest.docs.files.iter().enumerate() {
            if let Err(why) = check_inside(file) {
                let path = [Step::Key("docs"), Step::Key("files"), Step::Index(index)];
                self.problem(&path, format!("{file:?} {why}"));
            }
        }
    }

    fn runtime(&mut self, index: usize, runtime: &Runtime) {
        let at = |key| [Step::Key("runtime"), Step::Index(index), Step::Key(key)];
        if self.manifest.runtime[..index].iter().any(|other| other.id == runtime.id) {
            self.problem(&at("id"), format!("the runtime {:?} is given twice", runtime.id));
        }
        match runtime.kind {
            RuntimeKind::Builtin => {
                let text = "\"builtin\" is for plugins that ship with the host: use \"oneshot\" or \"jsonl\"";
                self.problem(&at("kind"), text);
            }
            RuntimeKind::Lua => self.lua(index, runtime),
            RuntimeKind::Oneshot | RuntimeKind::Jsonl | RuntimeKind::Framed => {
                self.command(index, runtime);
            }
        }
        if runtime.abi.is_some() && runtime.kind != RuntimeKind::Framed {
            self.problem(&at("abi"), "\"abi\" belongs to kind = \"framed\"");
        }
        for name in runtime.env.keys() {
            if name.is_empty() || name.contains(['=', '\0']) {
                self.problem(&at("env"), format!("{name:?} is no name of a variable"));
            }
        }
    }

    fn lua(&mut self, index: usize, runtime: &Runtime) {
        let at = |key| [Step::Key("runtime"), Step::Index(index), Step::Key(key)];
        if !runtime.command.is_empty() {
            self.problem(
                &at("command"),
                "a Lua runtime has no \"command\": name its file in \"entry\"",
            );
        }
        match runtime.entry.as_ref().map(|entry| (entry, check_inside(entry))) {
            None => self.problem(&at("entry"), "the key \"entry\" is missing: the Lua file"),
            Some((entry, Err(why))) => self.problem(&at("entry"), format!("{entry:?} {why}")),
            Some((_, Ok(()))) => {}
        }
    }

    fn command(&mut self, index: usize, runtime: &Runtime) {
        let at = |key| [Step::Key("runtime"), Step::Index(index), Step::Key(key)];
        if runtime.entry.is_some() {
            self.problem(
                &at("entry"),
                "\"entry\" belongs to kind = \"lua\": name the program in \"command\"",
            );
        }
        let Some(program) = runtime.command.first() else {
            let text = "the key \"command\" is missing: the program and its arguments, such as [\"./run\"]";
            return self.problem(&at("command"), text);
        };
        if let Err(why) = check_inside(program) {
            self.problem(&at("command"), format!("{program:?} {why}"));
        }
        if runtime.command.iter().any(|word| word.contains('\0')) {
            self.problem(&at("command"), "an argument holds a zero byte");
        }
    }

    fn hook(&mut self, index: usize, entry: &HookEntry) {
        let at = |key| [Step::Key("hooks"), Step::Index(index), Step::Key(key)];
        let class = entry.hook.hook.class();
        let name = entry.hook.name();
        self.reference(&at("runtime"), &entry.runtime, "hook");
        let runtime = self.manifest.runtime_of(entry).map(|runtime| runtime.kind);
        if runtime == Some(RuntimeKind::Lua) && class == Class::Filter {
            self.problem(
                &at("runtime"),
                format!("{name} cannot be answered by Lua: use oneshot, jsonl or framed"),
            );
        }
        if let Some(policy) = entry.on_failure.filter(|policy| !class.policies().contains(policy)) {
            let known: Vec<String> =
                class.policies().iter().map(|policy| format!("{:?}", policy.word())).collect();
            let text = format!(
                "\"on_failure\" of {name} must be {}, not {:?}",
                known.join(" or "),
                policy.word()
            );
            self.problem(&at("on_failure"), text);
        }
        if entry.hold.is_some() && entry.on_failure != Some(OnFailure::Hold) {
            self.problem(&at("hold"), "\"hold\" goes with on_failure = \"hold\"");
        }
        self.only(index, entry, class);
        if let Some(Err(why)) = entry.when.regex.as_deref().map(compiles) {
            let path =
                [Step::Key("hooks"), Step::Index(index), Step::Key("when"), Step::Key("regex")];
            self.problem(&path, why);
        }
        let own = &self.manifest.plugin.name;
        if entry.before.contains(own) || entry.after.contains(own) {
            self.problem(&at("hook"), format!("{name} cannot stand before or after itself"));
        }
    }

    /// Keys that mean something for one class only: elsewhere the author expects what will not
    /// happen.
    fn only(&mut self, index: usize, entry: &HookEntry, class: Class) {
        let name = entry.hook.name();
        let When { regex, sinks, labels: _ } = &entry.when;
        for (key, given, needs) in [
            ("unit", entry.unit != Unit::default(), Class::Filter),
            ("batch", entry.batch.is_some(), Class::Filter),
            ("when", regex.is_some() || !sinks.is_empty(), Class::Filter),
            ("queue", entry.queue.is_some(), Class::Observe),
        ] {
            if given && class != needs {
                let path = [Step::Key("hooks"), Step::Index(index), Step::Key(key)];
                let text = match key {
                    "when" => format!(
                        "\"regex\" and \"sinks\" are for filters, and {name} is a {class} hook"
                    ),
                    _ => format!("{key:?} is for {needs} hooks, and {name} is a {class} hook"),
                };
                self.problem(&path, text);
            }
        }
    }

    fn faces(&mut self) {
        let Manifest { session, adapter, capsule, .. } = self.manifest;
        for (face, id, stays) in [
            ("session", session.as_ref().map(|face| &face.runtime), false),
            ("adapter", adapter.as_ref().map(|face| &face.runtime), true),
            ("capsule", capsule.as_ref().map(|face| &face.runtime), true),
        ] {
            let Some(id) = id else { continue };
            let path = [Step::Key(face), Step::Key("runtime")];
            self.reference(&path, id, face);
            let kind = self.manifest.runtime(id).map(|runtime| runtime.kind);
            if stays && kind == Some(RuntimeKind::Oneshot) {
                let text = format!("a \"{face}\" needs a runtime that stays, not \"oneshot\"");
                self.problem(&path, text);
            }
        }
    }

    fn reference(&mut self, path: &[Step<'_>], id: &str, face: &str) {
        if self.manifest.runtime(id).is_some() {
            return;
        }
        let ids = self.manifest.runtime.iter().map(|runtime| runtime.id.as_str());
        let text = match (id, self.manifest.runtime.len()) {
            (_, 0) => format!("this {face} needs a [[runtime]], and there is none"),
            ("", _) => format!("the key \"runtime\" is missing: this {face} needs one of several"),
            (id, _) => format!("there is no runtime {id:?}{}", meant(id, ids)),
        };
        self.problem(path, text);
    }

    fn settings(&mut self) {
        let mut seen = HashSet::new();
        for (index, setting) in self.manifest.config.iter().enumerate() {
            if !seen.insert(setting.key.as_str()) {
                let path = [Step::Key("config"), Step::Index(index), Step::Key("key")];
                self.problem(&path, format!("the setting {:?} is given twice", setting.key));
            }
        }
    }
}

fn compiles(pattern: &str) -> Result<(), String> {
    let built = regex::RegexBuilder::new(pattern).size_limit(REGEX_SIZE_MAX).build();
    built.map(drop).map_err(|error| {
        let text = error.to_string();
        let last = text.lines().last().unwrap_or_default();
        format!("this regular expression is wrong: {}", last.trim_start_matches("error: "))
    })
}
