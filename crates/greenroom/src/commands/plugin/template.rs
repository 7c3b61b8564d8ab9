//! `greenroom plugin new`: a directory with a plugin that works, to begin with.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use greenroom_protocol::manifest::{Class, HookName, check_name};
use serde_json::json;

use crate::cli::plugin::{Lang, PluginNewArgs};
use crate::commands::Context;
use crate::error::{Failure, Outcome};

struct Written {
    path: &'static str,
    text: String,
    executable: bool,
}

pub fn new(args: &PluginNewArgs, context: &Context) -> Outcome {
    let crate::cli::plugin::Face::Hook = args.face;
    check_name(&args.name)
        .map_err(|why| Failure::usage(format!("cannot call a plugin {:?}: {why}", args.name)))?;
    let hook = HookName::parse(&args.hook).ok_or_else(|| {
        let failure = Failure::usage(format!("there is no hook {:?}", args.hook));
        match greenroom_protocol::tree::nearest(&args.hook, HookName::all()) {
            Some(nearest) => failure.hint(format!("did you mean {nearest}?")),
            None => failure,
        }
    })?;
    // The native name has the safer defaults.
    let hook = HookName::from(hook.hook);
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
    })?;
    Ok(0)
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
    let plain = |path, text| Written { path, text, executable: false };
    let program = |path, text| Written { path, text, executable: true };
    let class = hook.hook.class();
    match lang {
        Lang::Sh => vec![
            plain("plugin.toml", manifest(name, hook, "./run.sh", false)),
            program("run.sh", shell(class)),
        ],
        Lang::Python => vec![
            plain("plugin.toml", manifest(name, hook, "./run.py", true)),
            program("run.py", python(class)),
        ],
        Lang::Rust => vec![
            plain("plugin.toml", manifest(name, hook, "./run", false)),
            plain("main.rs", rust(class)),
            program(
                "build.sh",
                "#!/bin/sh\ncd \"$(dirname \"$0\")\" && rustc --edition 2024 -O main.rs -o run\n"
                    .to_owned(),
            ),
        ],
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

fn shell(class: Class) -> String {
    let body = match class {
        Class::Filter => {
            "    *SECRET*) echo '{\"action\":\"replace\",\"line\":\"[redacted]\"}' ;;\n    *) echo '{\"action\":\"pass\"}' ;;\n"
        }
        Class::Gate => {
            "    *FORBIDDEN*) echo '{\"action\":\"block\",\"reason\":\"that word is forbidden\"}' ;;\n    *) echo '{\"action\":\"pass\"}' ;;\n"
        }
        Class::Observe => "    *) echo \"$request\" >&2; echo '{\"ok\":true}' ;;\n",
    };
    format!(
        "#!/bin/sh\n# One JSON object a line comes in, one goes out, in the same order.\n\
         while read -r request; do\n  case $request in\n{body}  esac\ndone\n"
    )
}

fn python(class: Class) -> String {
    let body = match class {
        Class::Filter => {
            "def edit(line):\n    return \"[redacted]\" if \"SECRET\" in line else line\n\n\n\
             def answer(request):\n    if \"items\" in request:  # a batch: only what changes is answered\n        \
             edits = [[item[\"n\"], edit(item[\"line\"])] for item in request[\"items\"]]\n        \
             before = {item[\"n\"]: item[\"line\"] for item in request[\"items\"]}\n        \
             return {\"edits\": [[n, line] for n, line in edits if line != before[n]]}\n    \
             line = edit(request.get(\"line\", \"\"))\n    \
             return {\"action\": \"replace\", \"line\": line} if line != request.get(\"line\") else {\"action\": \"pass\"}\n"
        }
        Class::Gate => {
            "def answer(request):\n    if \"FORBIDDEN\" in json.dumps(request.get(\"payload\", {})):\n        \
             return {\"action\": \"block\", \"reason\": \"that word is forbidden\"}\n    return {\"action\": \"pass\"}\n"
        }
        Class::Observe => {
            "def answer(request):\n    print(json.dumps(request), file=sys.stderr)\n    return {\"ok\": True}\n"
        }
    };
    format!(
        "#!/usr/bin/env python3\nimport json\nimport sys\n\n\n{body}\n\n\
         for line in sys.stdin:\n    request = json.loads(line)\n    if \"cancel\" in request:\n        continue\n    \
         if \"hello\" in request and \"hook\" not in request:\n        reply = {{\"hello\": {{\"features\": [\"filter.batch\"]}}}}\n    \
         else:\n        reply = answer(request)\n        if \"id\" in request:\n            reply[\"id\"] = request[\"id\"]\n    \
         print(json.dumps(reply), flush=True)\n"
    )
}

fn rust(class: Class) -> String {
    let body = match class {
        Class::Filter => {
            "        let answer = match request.contains(\"SECRET\") {\n            true => r#\"{\"action\":\"replace\",\"line\":\"[redacted]\"}\"#,\n            false => r#\"{\"action\":\"pass\"}\"#,\n        };\n"
        }
        Class::Gate => {
            "        let answer = match request.contains(\"FORBIDDEN\") {\n            true => r#\"{\"action\":\"block\",\"reason\":\"that word is forbidden\"}\"#,\n            false => r#\"{\"action\":\"pass\"}\"#,\n        };\n"
        }
        Class::Observe => {
            "        eprintln!(\"{request}\");\n        let answer = r#\"{\"ok\":true}\"#;\n"
        }
    };
    format!(
        "//! One JSON object a line comes in, one goes out, in the same order.\n\n\
         use std::io::{{self, BufRead, Write}};\n\nfn main() -> io::Result<()> {{\n    let mut out = io::stdout();\n    \
         for request in io::stdin().lock().lines() {{\n        let request = request?;\n{body}        \
         writeln!(out, \"{{answer}}\")?;\n        out.flush()?;\n    }}\n    Ok(())\n}}\n"
    )
}
