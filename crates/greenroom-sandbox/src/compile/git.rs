//! What git needs below a repository's `.git`, and what it must not touch there.
//!
//! In: [`GitRules`] from recorded knowledge. Out: paths to make, to write and to protect. A
//! worktree's session gets exactly its own data, loose objects and its own refs; hooks,
//! configuration, packs, other branches, and the pointer files through which git *outside* could be
//! led to a planted configuration stay as they are.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{Refused, check_absolute};
use crate::plan::{Make, MakeWhat};
use crate::policy::{GitRules, IfMissing, Protected, Refs};

#[derive(Debug, Default)]
pub(super) struct Places {
    pub(super) make: Vec<Make>,
    pub(super) writable: Vec<PathBuf>,
    /// Writable, but for packs and alternates.
    pub(super) objects: Option<PathBuf>,
    pub(super) protected: Vec<Protected>,
    /// With content, if it must be made.
    pub(super) pointers: Vec<Make>,
    /// Directory, and the one entry that stays writable.
    pub(super) shared: Vec<(PathBuf, OsString)>,
    pub(super) visible: Vec<PathBuf>,
}

impl Places {
    /// At level reduced nothing can be protected inside of what is writable; only directories must
    /// be there.
    pub(super) fn make_reduced(&self) -> Vec<Make> {
        self.make.iter().filter(|it| it.what == MakeWhat::Dir).cloned().collect()
    }
}

pub(super) fn rules(rules: &GitRules) -> Result<Places, Refused> {
    match rules {
        GitRules::Worktree { worktree, common_dir, admin_dir, refs } => {
            self::worktree(worktree, common_dir, admin_dir, refs)
        }
        GitRules::Checkout { git_dir, modules } => checkout(git_dir, modules),
    }
}

fn worktree(worktree: &Path, common: &Path, admin: &Path, refs: &Refs) -> Result<Places, Refused> {
    for path in [worktree, common, admin] {
        check_absolute(path)?;
    }
    if admin.parent() != Some(&common.join("worktrees")) {
        let outer = common.join("worktrees");
        return Err(Refused::GitLayout { inner: admin.to_owned(), outer });
    }
    let (dir, except) = match refs {
        Refs::Own { dir } => (checked_ref(dir)?, None),
        Refs::Shared { branch } => {
            let branch = checked_ref(branch)?;
            let leaf = branch.file_name().map(ToOwned::to_owned);
            (branch.parent().map(Path::to_owned).unwrap_or_default(), leaf)
        }
    };
    let heads = join(&common.join("refs/heads"), &dir);
    let logs = join(&common.join("logs/refs/heads"), &dir);
    let objects = common.join("objects");
    let mut make = [&heads, &logs, &objects.join("pack"), &objects.join("info")]
        .map(|path| Make { path: path.clone(), what: MakeWhat::Dir })
        .to_vec();
    if except.is_some() {
        let below = join(Path::new("refs/heads"), &dir).display().to_string();
        let (packed, prefix) = (common.join("packed-refs"), format!("{below}/"));
        make.push(Make { path: heads.clone(), what: MakeWhat::LooseRefs { packed, prefix } });
    }
    let shared =
        except.into_iter().flat_map(|leaf| [(heads.clone(), leaf.clone()), (logs.clone(), leaf)]);
    Ok(Places {
        make,
        protected: vec![
            Protected::required(worktree.join(".git")),
            Protected::required(admin.join("commondir")),
            Protected::required(admin.join("gitdir")),
            Protected::file(admin.join("config.worktree")),
            Protected::required(objects.join("pack")),
            Protected::required(objects.join("info")),
        ],
        pointers: Vec::new(),
        shared: shared.collect(),
        writable: vec![worktree.to_owned(), admin.to_owned(), heads, logs],
        objects: Some(objects),
        visible: vec![common.to_owned()],
    })
}

/// `.join("")` would leave a trailing slash.
fn join(base: &Path, below: &Path) -> PathBuf {
    if below.as_os_str().is_empty() { base.to_owned() } else { base.join(below) }
}

/// A branch or a directory of branches, as a path that cannot lead elsewhere.
fn checked_ref(name: &str) -> Result<PathBuf, Refused> {
    let part = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
    let plain = |character: char| !character.is_control() && !" ~^:?*[\\".contains(character);
    if name.split('/').all(part) && name.chars().all(plain) && !name.contains("..") {
        Ok(PathBuf::from(name))
    } else {
        Err(Refused::BadBranch(name.escape_debug().to_string()))
    }
}

/// A `commondir` in a main repository would be believed like one in a worktree; this content leads
/// to itself.
const OWN_COMMON_DIR: &[u8] = b".\n";

fn checkout(git_dir: &Path, modules: &[PathBuf]) -> Result<Places, Refused> {
    let mut places = Places { visible: vec![git_dir.to_owned()], ..Places::default() };
    for git_dir in [git_dir].into_iter().chain(modules.iter().map(PathBuf::as_path)) {
        check_absolute(git_dir)?;
        places.protected.extend([
            Protected::required(git_dir.join("config")),
            Protected::file(git_dir.join("config.worktree")),
            Protected::dir(git_dir.join("hooks")),
            Protected::file(git_dir.join("info/attributes")),
        ]);
        let pointer = git_dir.join("commondir");
        places.pointers.push(Make { path: pointer, what: MakeWhat::File(OWN_COMMON_DIR.to_vec()) });
    }
    if let Some(module) = modules.iter().find(|it| !it.starts_with(git_dir)) {
        let (inner, outer) = (module.clone(), git_dir.to_owned());
        return Err(Refused::GitLayout { inner, outer });
    }
    Ok(places)
}

/// What is made first so that it can be pinned.
pub(super) fn make(protected: &Protected) -> Option<Make> {
    let what = match protected.if_missing {
        IfMissing::Skip => return None,
        IfMissing::MakeFile => MakeWhat::File(Vec::new()),
        IfMissing::MakeDir => MakeWhat::Dir,
        IfMissing::Refuse => MakeWhat::Nothing,
    };
    Some(Make { path: protected.path.clone(), what })
}
