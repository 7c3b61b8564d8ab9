//! From what a plugin was granted to how its program is held.
//!
//! In: the plugin's tree, its runtime, its grants. Out: a [`Launch`] with a compiled plan, and how
//! much of it is enforced here; or why it must not run. Without grants a program reads its own tree
//! and the system's programs and libraries, writes its data directory and a `/tmp` of its own, sees
//! neither home nor our state nor our socket, and has no network. What a level cannot enforce is
//! tried at the next weaker one, down to what the operator accepts, never further. Pure but for
//! looking at paths and making the two directories. Deliberately absent: who granted what
//! (`store`), and enforcement (`greenroom_sandbox`).
//!
//! `proc.exec` absent means no new process at all, which a shell script can hardly do without;
//! datawatch's format knows no such capability, so its scripts may start programs. A list in
//! `proc.exec` is not told apart from `true` by any layer.

mod program;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use greenroom_formats::manifest::{Allow, Allowed, Format, Runtime};
use greenroom_plugin_api::words;
use greenroom_sandbox::plan::{Plan, compile};
use greenroom_sandbox::policy::{
    Allow as Exceptions, HostPattern, Level, Limits, Network, Policy, Reach, Reads,
};
use greenroom_sandbox::probe::LazyProbe;

use super::{Launch, MAX_ANSWER, MAX_DECLARED_ANSWER, Terms};

/// Enough for an interpreter with its libraries; memory that is only reserved does not count.
const MEMORY_MB: u64 = 512;
const FILES: u64 = 256;
const PROCESSES: u64 = 64;
/// The largest file it may write.
const FILE_BYTES: u64 = 1024 * 1024 * 1024;
/// Where programs are looked for.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// What the proxy lets through besides TLS, if asked for.
const HTTP_PORT: &str = "80";
const TLS_PORT: &str = "443";

/// How much of what was granted, and nothing else, is enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Enforcement {
    /// Nothing: it may do whatever the user may. Its processes are still ended with it.
    Advisory,
    /// Some layers are missing.
    #[default]
    Partial,
    Enforced,
}

words! { Enforcement { Advisory "advisory", Partial "partial", Enforced "enforced", } }

impl Enforcement {
    /// The value of `min_enforcement`.
    pub fn named(word: &str) -> Option<Enforcement> {
        Enforcement::ALL.iter().copied().find(|it| it.word() == word)
    }

    fn of(plan: &Plan) -> Enforcement {
        match plan.steps.level {
            Level::Full if plan.steps.landlock.is_some() => Enforcement::Enforced,
            Level::Full | Level::Reduced => Enforcement::Partial,
            Level::Bare => Enforcement::Advisory,
        }
    }
}

/// What is the same for all plugins of a host.
pub struct Profiles {
    pub home: PathBuf,
    /// Below it each plugin has `data/NAME` and `tmp/NAME`.
    pub state: PathBuf,
    /// Never seen by a plugin: our state, our sockets.
    pub hidden: Vec<PathBuf>,
    pub least: Enforcement,
    pub probe: LazyProbe,
}

/// One runtime of one plugin.
pub struct ProgramSpec<'a> {
    pub plugin: &'a str,
    /// Where its bytes are: what was agreed to.
    pub root: &'a Path,
    pub format: Format,
    pub runtime: &'a Runtime,
    pub grants: &'a Allowed,
    /// Its own variables, secrets filled in. They come before ours.
    pub env: Vec<(OsString, OsString)>,
}

/// How a program will be held.
pub struct Profiled {
    pub launch: Launch,
    pub level: Enforcement,
}

#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    #[error("plugin {plugin} has no program to run")]
    NoProgram { plugin: String },
    #[error("cannot grant {path} to plugin {plugin}: {why}")]
    Path { plugin: String, path: String, why: String },
    #[error("cannot grant host `{host}` to plugin {plugin}: {why}")]
    Host { plugin: String, host: String, why: String },
    #[error("cannot make {} for plugin {plugin}: {source}", path.display())]
    Directory { plugin: String, path: PathBuf, source: io::Error },
    #[error(
        "plugin {plugin} would run at level {found}, the least accepted is {least}: {why}; see greenroom sandbox doctor, or set plugins.min_enforcement"
    )]
    TooWeak { plugin: String, found: Enforcement, least: Enforcement, why: String },
}

impl Profiles {
    /// How a program of this plugin is started. Blocks: looks at paths, and tries the machine's
    /// layers the first time.
    pub fn launch(&self, spec: ProgramSpec<'_>) -> Result<Profiled, ProfileError> {
        let program = self.program(&spec)?;
        let (data, tmp) = (self.made(&spec, "data")?, self.made(&spec, "tmp")?);
        let root = spec.root.canonicalize().map_err(|error| refused(&spec, spec.root, &error))?;
        let (network, reach) = network(&spec)?;
        let mut policy = self.policy(&spec, &root, data.clone(), tmp)?;
        policy.network = network;
        if let (false, Reads::Only(paths)) = (policy.spawn, &mut policy.reads) {
            paths.extend(program::needs(&program, Path::new(PATH)));
        }
        let (plan, level) = self.strongest(&spec, policy)?;
        let mut argv: Vec<OsString> = vec![program.into()];
        argv.extend(spec.runtime.command.iter().skip(1).map(OsString::from));
        let env = environment(&spec, &root, &data);
        let reach = reach.filter(|_| plan.steps.level == Level::Full);
        let terms = terms(&spec);
        let plugin = spec.plugin.to_owned();
        let launch = Launch { plugin, argv, env, cwd: root, plan: Arc::new(plan), reach, terms };
        Ok(Profiled { launch, level })
    }

    /// Inside the plugin's tree; a datawatch entry may be absolute.
    fn program(&self, spec: &ProgramSpec<'_>) -> Result<PathBuf, ProfileError> {
        let first = spec.runtime.command.first().filter(|first| !first.is_empty());
        let first = first.ok_or_else(|| ProfileError::NoProgram { plugin: spec.plugin.into() })?;
        let path = spec.root.join(first);
        path.canonicalize().map_err(|error| refused(spec, &path, &error))
    }

    fn made(&self, spec: &ProgramSpec<'_>, kind: &str) -> Result<PathBuf, ProfileError> {
        let path = self.state.join(kind).join(spec.plugin);
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&path);
        made.and_then(|()| path.canonicalize()).map_err(|source| ProfileError::Directory {
            plugin: spec.plugin.to_owned(),
            path,
            source,
        })
    }

    fn policy(
        &self,
        spec: &ProgramSpec<'_>,
        root: &Path,
        data: PathBuf,
        tmp: PathBuf,
    ) -> Result<Policy, ProfileError> {
        let mut policy = Policy::new(Level::Full, root, tmp);
        policy.pipes = true;
        policy.home = self.home.canonicalize().ok();
        policy.hidden = self.hidden.iter().filter_map(|path| path.canonicalize().ok()).collect();
        policy.hidden.extend(policy.home.clone().filter(|home| home.parent().is_some()));
        policy.writable = vec![data];
        policy.writable.extend(self.paths(spec, "fs.write")?);
        let mut reads = self.paths(spec, "fs.read")?;
        reads.push(root.to_owned());
        policy.visible.clone_from(&reads);
        policy.reads = Reads::Only(reads);
        let foreign = spec.format != Format::Native;
        policy.spawn = foreign || granted(spec.grants, "proc.exec").is_some();
        let dials = self.paths(spec, "socket.dial")?;
        policy.allow = Exceptions { unix: !dials.is_empty(), debug: false };
        policy.visible.extend(dials);
        let asked = &spec.runtime.limits;
        policy.limits = Limits {
            open_files: Some(asked.files.unwrap_or(FILES)),
            file_bytes: Some(FILE_BYTES),
            data_bytes: Some(asked.memory_mb.unwrap_or(MEMORY_MB) * 1024 * 1024),
            processes: Some(asked.procs.unwrap_or(PROCESSES)),
            ..Limits::default()
        };
        Ok(policy)
    }

    /// The paths of a list, with `~`, and free of links.
    fn paths(
        &self,
        spec: &ProgramSpec<'_>,
        capability: &str,
    ) -> Result<Vec<PathBuf>, ProfileError> {
        let listed = granted(spec.grants, capability).map_or(&[][..], Allow::entries);
        let real = |text: &String| {
            let path = match text.strip_prefix("~/") {
                Some(rest) => self.home.join(rest),
                None => PathBuf::from(text),
            };
            if !path.is_absolute() {
                let why = io::Error::other("it is not an absolute path");
                return Err(refused(spec, &path, &why));
            }
            path.canonicalize().map_err(|error| refused(spec, &path, &error))
        };
        listed.iter().map(real).collect()
    }

    /// The strongest level this machine has, if that is enough.
    fn strongest(
        &self,
        spec: &ProgramSpec<'_>,
        policy: Policy,
    ) -> Result<(Plan, Enforcement), ProfileError> {
        let probe = self.probe.get();
        let mut why = String::new();
        let levels = [
            (Level::Full, false),
            (Level::Full, true),
            (Level::Reduced, false),
            (Level::Bare, false),
        ];
        let plan = levels.into_iter().find_map(|(level, without_landlock)| {
            let mut policy = Policy { level, without_landlock, ..policy.clone() };
            if level == Level::Bare {
                // A list of hosts holds nobody there, and that is what advisory says.
                policy.network = Network::Open;
            }
            let compiled = compile(&policy, probe);
            // The first reason is about the strongest level.
            if let Some(refused) = compiled.as_ref().err().filter(|_| why.is_empty()) {
                why = refused.to_string();
            }
            compiled.ok()
        });
        let found = plan.as_ref().map_or(Enforcement::Advisory, Enforcement::of);
        match plan {
            Some(plan) if found >= self.least => Ok((plan, found)),
            _ => {
                let (plugin, least) = (spec.plugin.to_owned(), self.least);
                Err(ProfileError::TooWeak { plugin, found, least, why })
            }
        }
    }
}

fn granted<'a>(grants: &'a Allowed, capability: &str) -> Option<&'a Allow> {
    grants.get(capability).filter(|allow| allow.any())
}

fn refused(spec: &ProgramSpec<'_>, path: &Path, error: &io::Error) -> ProfileError {
    ProfileError::Path {
        plugin: spec.plugin.to_owned(),
        path: path.display().to_string(),
        why: error.to_string(),
    }
}

/// `true` is the whole network; a list goes through the daemon's proxy, which knows TLS and plain
/// HTTP at their usual ports.
fn network(spec: &ProgramSpec<'_>) -> Result<(Network, Option<Reach>), ProfileError> {
    let list = match granted(spec.grants, "net.connect") {
        None => return Ok((Network::None, None)),
        Some(Allow::Flag(_)) => return Ok((Network::Open, None)),
        Some(Allow::List(list)) => list,
    };
    let mut http = false;
    let mut hosts = Vec::with_capacity(list.len());
    for entry in list {
        let no = |why: String| ProfileError::Host {
            plugin: spec.plugin.to_owned(),
            host: entry.clone(),
            why,
        };
        let name = match entry.rsplit_once(':') {
            None => entry.as_str(),
            Some((name, TLS_PORT)) => name,
            Some((name, HTTP_PORT)) => {
                http = true;
                name
            }
            Some(_) => return Err(no("only ports 443 and 80 can be let through".to_owned())),
        };
        let pattern: HostPattern = name
            .parse()
            .map_err(|error: greenroom_sandbox::policy::HostError| no(error.to_string()))?;
        hosts.push(pattern);
    }
    Ok((Network::Hosts(hosts.clone()), Some(Reach { hosts, http })))
}

/// Complete: a program inherits nothing of ours.
fn environment(spec: &ProgramSpec<'_>, root: &Path, data: &Path) -> Vec<(OsString, OsString)> {
    let ours: [(&str, OsString); 6] = [
        ("PATH", PATH.into()),
        ("HOME", data.into()),
        ("LANG", "C.UTF-8".into()),
        ("GREENROOM_PLUGIN", spec.plugin.into()),
        ("GREENROOM_PLUGIN_ROOT", root.into()),
        ("GREENROOM_PLUGIN_DATA", data.into()),
    ];
    let mut env = spec.env.clone();
    for (name, value) in ours {
        if !env.iter().any(|(other, _)| other == name) {
            env.push((name.into(), value));
        }
    }
    env
}

fn terms(spec: &ProgramSpec<'_>) -> Terms {
    let terms = if spec.format == Format::Datawatch { Terms::DATAWATCH } else { Terms::NATIVE };
    let declared = spec.runtime.limits.reply_mb.map(|mb| mb as usize * 1024 * 1024);
    let max_answer = declared.unwrap_or(MAX_ANSWER).clamp(MAX_ANSWER, MAX_DECLARED_ANSWER);
    Terms { max_answer, ..terms }
}
