//! `greenroom plugin new`: a directory with a plugin that works, to begin with. Its programs lie in
//! `templates/` of this crate, one for each class of hook and language.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use greenroom_formats::manifest::{Class, HookName, check_name};
use serde_json::json;

use super::author::hook_named;
use crate::commands::Context;
use crate::commands::plugin::args::{Lang, PluginNewArgs};
use crate::error::{ExitResult, Failure};

struct Written {
    path: &'static str,
    text: String,
    executable: bool,
}

pub fn new(args: &PluginNewArgs, context: &Context) -> ExitResult {
    let crate::commands::plugin::args::Face::Hook = args.face;
    check_name(&args.name)
        .map_err(|why| Failure::usage(format!("cannot call a plugin {:?}: {why}", args.name)))?;
    // The native name has the safer defaults.
    let hook = HookName::from(hook_named(&args.hook)?.hook);
    let dir = args.into.clone().unwrap_or_else(|| PathBuf::from(".")).join(&args.name);
    fs::create_dir(&dir)
        .map_err(|error| Failure::io(format_args!("create {}", dir.display()), &error))?;
    let files = files(&args.name, args.lang, hook);
    for file in &files {
        write(&dir, file)?;
    }
    let shown = dir.display().to_string();
    let names: Vec<&str> = files.iter().map(|file| file.path).collect();
    context.out.answer(&json!({"dir": &shown, "files": names}), || {
        let mut text = format!("made {shown}: {}\n", names.join(", "));
        if args.lang == Lang::Rust {
            text.push_str(&format!("build it:  sh {shown}/build.sh\n"));
        }
        text.push_str(&format!(
            "try it:    greenroom plugin run {shown} {hook} '{}'\n",
            sample(hook)
        ));
        text.push_str(&format!("use it:    greenroom plugin link {shown}"));
        text
    })
}

fn write(dir: &Path, file: &Written) -> Result<(), Failure> {
    let path = dir.join(file.path);
    let fault =
        |error: std::io::Error| Failure::io(format_args!("write {}", path.display()), &error);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(fault)?;
    }
    fs::write(&path, &file.text).map_err(fault)?;
    let mode = if file.executable { 0o755 } else { 0o644 };
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).map_err(fault)
}

fn files(name: &str, lang: Lang, hook: HookName) -> Vec<Written> {
    let [shell, python, rust] = programs(hook.hook.class());
    let plain = |path, text| Written { path, text, executable: false };
    let program = |path, text: &str| Written { path, text: text.to_owned(), executable: true };
    let manifest = |program, hello| plain("plugin.toml", manifest(name, hook, program, hello));
    match lang {
        Lang::Sh => vec![manifest("./run.sh", false), program("run.sh", shell)],
        Lang::Python => vec![manifest("./run.py", true), program("run.py", python)],
        Lang::Rust => vec![
            manifest("./run", false),
            plain("main.rs", rust.to_owned()),
            program("build.sh", BUILD),
        ],
    }
}

const BUILD: &str =
    "#!/bin/sh\ncd \"$(dirname \"$0\")\" && rustc --edition 2024 -O main.rs -o run\n";

/// In shell, Python and Rust.
fn programs(class: Class) -> [&'static str; 3] {
    macro_rules! templates {
        ($name:literal) => {
            [
                include_str!(concat!("../../../templates/", $name, ".sh")),
                // What it answers, then the loop that is the same for all.
                concat!(
                    include_str!(concat!("../../../templates/", $name, ".py")),
                    include_str!("../../../templates/serve.py"),
                ),
                include_str!(concat!("../../../templates/", $name, ".rs")),
            ]
        };
    }
    match class {
        Class::Filter => templates!("filter"),
        Class::Gate => templates!("gate"),
        Class::Observe => templates!("observe"),
    }
}

fn manifest(name: &str, hook: HookName, program: &str, hello: bool) -> String {
    let mut text = format!(
        "schema = 1\n\n[plugin]\nname = \"{name}\"\nversion = \"0.1.0\"\ndescription = \"{}\"\n\n\
         [[runtime]]\nid = \"main\"\nkind = \"jsonl\"\ncommand = [\"{program}\"]\n",
        about(hook.hook.class()),
    );
    if !hello {
        text.push_str("# A plain loop: one request, one answer.\nhello = false\n");
    }
    text.push_str(&format!("\n[[hooks]]\nhook = \"{hook}\"\n"));
    if hook.hook.class() == Class::Filter {
        text.push_str(
            "stage = \"redact\"\n# Lines without this never leave the host.\nwhen = { regex = \"SECRET\" }\n\
             # What is shown when the plugin is late or broken.\non_failure = \"mask\"\n",
        );
    }
    text
}

fn about(class: Class) -> &'static str {
    match class {
        Class::Filter => "Takes lines with SECRET out of the output",
        Class::Gate => "Says no to whatever holds the word FORBIDDEN",
        Class::Observe => "Notes each event on stderr",
    }
}

fn sample(hook: HookName) -> &'static str {
    match hook.hook.class() {
        Class::Filter => "{\"line\":\"a SECRET\"}",
        Class::Gate => "{\"task\":\"FORBIDDEN\"}",
        Class::Observe => "{}",
    }
}
