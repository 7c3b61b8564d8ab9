//! For whoever writes a plugin: lint, convert, run. None of it needs the host.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use greenroom_formats::manifest::{
    FILE_MAX, FILE_NAMES, FOREIGN_NAMES, Format, HookName, Loaded, RuntimeKind, parse, to_toml,
};
use greenroom_formats::tree::Problem;
use greenroom_protocol::api::plugin::Warning;
use serde::Serialize;
use serde_json::{Value, json};

use super::payload;
use crate::commands::Context;
use crate::commands::plugin::args::{PluginConvertArgs, PluginLintArgs, PluginRunArgs};
use crate::error::{ExitResult, Failure};
use crate::input;
use crate::output::Tone;

#[derive(Serialize)]
struct Linted {
    file: String,
    valid: bool,
    problems: Vec<Problem>,
    warnings: Vec<Warning>,
}

pub fn lint(args: &PluginLintArgs, context: &Context) -> ExitResult {
    let file = manifest(&args.path)?;
    let name = file.display().to_string();
    let (problems, warnings) = match parse(&name, &read(&file)?) {
        Ok(loaded) => (missing(&file, &loaded), loaded.warnings),
        Err(error) => (error.problems, Vec::new()),
    };
    let bad = !problems.is_empty() || args.strict && !warnings.is_empty();
    let linted = Linted { file: name.clone(), valid: problems.is_empty(), problems, warnings };
    context.out.answer(&linted, || {
        let problems = linted.problems.iter().map(|p| {
            let word = context.out.paint(Tone::Bad, "error");
            format!("{name}:{}:{}: {word}: {}", p.line, p.column, p.text)
        });
        let warnings = linted.warnings.iter().map(|w| {
            let word = context.out.paint(Tone::Warn, &w.code);
            format!("{name}:{}:{}: {word}: {}", w.line, w.column, w.text)
        });
        let lines: Vec<String> = problems.chain(warnings).collect();
        if lines.is_empty() {
            return format!("{name}: nothing to complain about");
        }
        lines.join("\n")
    })?;
    Ok(u8::from(bad))
}

/// What the manifest names and the directory does not have.
fn missing(file: &Path, loaded: &Loaded) -> Vec<Problem> {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = file.parent().unwrap_or(Path::new("."));
    let mut problems = Vec::new();
    for runtime in &loaded.manifest.runtime {
        let named = match runtime.kind {
            RuntimeKind::Lua => runtime.entry.as_ref(),
            _ => runtime.command.first(),
        };
        let Some(named) = named else { continue };
        let path = dir.join(named);
        let text = match fs::metadata(&path) {
            Ok(meta) if !meta.is_file() => format!("{named} is no file"),
            Ok(meta)
                if runtime.kind != RuntimeKind::Lua && meta.permissions().mode() & 0o111 == 0 =>
            {
                format!("{named} is not executable: chmod +x {}", path.display())
            }
            Ok(_) => continue,
            Err(_) => format!("{named} is not there"),
        };
        problems.push(Problem { line: 1, column: 1, text });
    }
    problems
}

pub fn convert(args: &PluginConvertArgs, context: &Context) -> ExitResult {
    let file = manifest(&args.path)?;
    let loaded = loaded(&file)?;
    let text = to_toml(&loaded.manifest)
        .map_err(|error| Failure::failed(format!("cannot convert {}: {error}", file.display())))?;
    if !args.write {
        let value = json!({"file": file.display().to_string(), "toml": &text});
        return context.out.answer(&value, || text.clone());
    }
    let to = file.with_file_name("plugin.toml");
    if loaded.manifest.format == Format::Native {
        return Err(Failure::usage(format!("{} is in the native form already", file.display())));
    }
    fs::File::create_new(&to)
        .and_then(|mut made| made.write_all(text.as_bytes()))
        .map_err(|error| Failure::io(format_args!("write {}", to.display()), &error))?;
    let shown = to.display().to_string();
    context.out.answer(&json!({"file": &shown}), || {
        format!("wrote {shown}; it is read instead of {}", file.display())
    })
}

pub fn run(args: &PluginRunArgs, context: &Context) -> ExitResult {
    let file = manifest(&args.dir)?;
    let manifest = loaded(&file)?.manifest;
    let hook = hook_named(&args.hook)?;
    let entry =
        manifest.hooks.iter().find(|entry| entry.hook.hook == hook.hook).ok_or_else(|| {
            Failure::usage(format!("{} has no hook {}", manifest.plugin.name, args.hook))
        })?;
    let runtime = manifest.runtime_of(entry);
    let program = runtime.and_then(|runtime| runtime.command.split_first());
    let (Some((program, rest)), Some(runtime)) = (program, runtime) else {
        return Err(Failure::failed(format!("{} has no program to run", manifest.plugin.name)));
    };
    let payload = payload(&args.payload)?;
    let mut request = payload.clone();
    request.insert("v".to_owned(), json!(1));
    request.insert("id".to_owned(), json!("1"));
    request.insert("hook".to_owned(), json!(entry.hook.name()));
    request.insert("payload".to_owned(), Value::Object(payload));
    let dir = file.parent().map(Path::to_owned).unwrap_or_default();
    let dir = fs::canonicalize(&dir).map_err(|error| Failure::io("find the plugin", &error))?;
    let began = Instant::now();
    let mut child = Command::new(dir.join(program))
        .args(rest)
        .envs(&runtime.env)
        .current_dir(&dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| Failure::io(format_args!("start {program}"), &error))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A plugin that answers without reading does not fail.
        let _ = writeln!(stdin, "{}", Value::Object(request));
    }
    let done = child
        .wait_with_output()
        .map_err(|error| Failure::io(format_args!("run {program}"), &error))?;
    let answer = String::from_utf8_lossy(&done.stdout).into_owned();
    let took = began.elapsed().as_secs_f64() * 1000.0;
    let exit = done.status.code();
    context
        .out
        .answer(&json!({"answer": &answer, "exit": exit, "took_ms": took}), || answer.clone())?;
    context.out.note(&format!("{} after {took:.1} ms, as you and unconfined", done.status));
    Ok(u8::from(!done.status.success()))
}

/// A hook by either name, or the one that was probably meant.
pub fn hook_named(name: &str) -> Result<HookName, Failure> {
    HookName::parse(name).ok_or_else(|| {
        let failure = Failure::usage(format!("there is no hook {name:?}"));
        match greenroom_protocol::nearest(name, HookName::all()) {
            Some(nearest) => failure.hint(format!("did you mean {nearest}?")),
            None => failure,
        }
    })
}

fn loaded(file: &Path) -> Result<Loaded, Failure> {
    parse(&file.display().to_string(), &read(file)?)
        .map_err(|error| Failure::failed(error.to_string()))
}

fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    input::read(file, FILE_MAX as u64)
        .map_err(|error| Failure::io(format_args!("read {}", file.display()), &error))
}

/// A manifest, or the one in a directory.
fn manifest(path: &Path) -> Result<PathBuf, Failure> {
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    let names = FILE_NAMES.iter().chain(&FOREIGN_NAMES);
    names.map(|name| path.join(name)).find(|file| file.is_file()).ok_or_else(|| {
        Failure::failed(format!("there is no manifest in {}", path.display()))
            .hint("plugin.toml or manifest.yaml is expected; greenroom plugin new NAME writes one")
    })
}
