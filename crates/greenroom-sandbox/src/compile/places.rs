//! What is found where inside: one list of mounts, shallow before deep.
//!
//! In: the policy's paths and git's. Out: what to make first and what to mount. Each mount
//! overrides what is around it, so depth alone decides. A path that must not change while its
//! surroundings may is pinned component by component: a mount cannot be renamed, so nobody can move
//! the parent away and build a new one in its place.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::{Refused, git};
use crate::plan::{Make, Mount, Place};
use crate::policy::{IfMissing, Network, Policy, Reads};

#[derive(Debug, Default)]
pub(super) struct Places {
    pub(super) make: Vec<Make>,
    pub(super) mounts: Vec<Mount>,
}

/// Parts of `/run` that are no sockets and that programs need: a whole system on NixOS, names when
/// the network is open.
const RUN_SYSTEM: [&str; 3] = ["/run/current-system", "/run/booted-system", "/run/opengl-driver"];
const RUN_NAMES: [&str; 3] =
    ["/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager/resolv.conf"];

pub(super) fn arrange(policy: &Policy, git: &git::Places) -> Result<Places, Refused> {
    let mut places = Places { make: git.make.clone(), mounts: Vec::new() };
    places.set("/run", Place::Masked, true);
    places.set("/tmp", Place::Replaced { from: policy.tmp_dir.clone() }, false);
    let (by_name, masked) = hidden(policy, git);
    for path in &masked {
        places.set(*path, Place::Masked, true);
    }
    for (dir, names) in by_name {
        places.set(dir, Place::Without { names }, true);
    }
    for path in policy.writable.iter().chain(&git.writable).chain(&git.objects) {
        if policy.hidden.contains(path) {
            return Err(Refused::Contradiction(path.clone()));
        }
        places.set(path, Place::Writable, false);
    }
    for private in &policy.private {
        places.set(&private.at, Place::Replaced { from: private.from.clone() }, false);
        for (name, from) in &private.views {
            let what = Place::View { from: from.clone() };
            places.set(private.at.join(name), what, true);
        }
    }
    for path in visible(policy, git) {
        if !places.mounts.iter().any(|it| is(&it.at, &path)) {
            places.set(path, Place::ReadOnly, true);
        }
    }
    places.drop_needless();
    // Shallow first: what is below something protected needs no pins, and pins can be written to.
    let mut all_protected: Vec<_> = policy.protected.iter().chain(&git.protected).collect();
    all_protected.sort_by_key(|it| depth(&it.path));
    for protected in all_protected {
        places.make.extend(git::make(protected));
        places.pin(&protected.path, protected.if_missing == IfMissing::Skip);
    }
    for pointer in &git.pointers {
        places.make.push(pointer.clone());
        places.pin(&pointer.path, false);
    }
    // Inside of what is writable these could be moved away together with their parents.
    for own in masked.into_iter().chain(policy.private.iter().map(|it| it.at.as_path())) {
        places.pin_parents(own);
    }
    for (dir, except) in &git.shared {
        let what = Place::OthersReadOnly { except: except.clone() };
        places.mounts.push(Mount { at: dir.clone(), what, optional: false });
    }
    places.make.sort_by_key(|it| depth(&it.path));
    places.mounts.sort_by_key(|it| (depth(&it.at), order(&it.what)));
    Ok(places)
}

fn visible<'a>(policy: &'a Policy, git: &'a git::Places) -> impl Iterator<Item = PathBuf> + 'a {
    let names = if policy.network == Network::Open { &RUN_NAMES[..] } else { &[] };
    let reads = match &policy.reads {
        Reads::All => &[],
        Reads::Only(paths) => paths.as_slice(),
    };
    [policy.cwd.clone()]
        .into_iter()
        .chain(policy.visible.iter().chain(&git.visible).chain(reads).cloned())
        .chain(RUN_SYSTEM.iter().chain(names).map(PathBuf::from))
}

fn depth(path: &Path) -> usize {
    path.components().count()
}

/// What is hidden below the home directory is hidden by name, in every directory on the way to it.
/// Not in what is writable: there it stays a mask, as everywhere else, because what is made there
/// must come to be.
fn hidden<'a>(
    policy: &'a Policy,
    git: &git::Places,
) -> (BTreeMap<&'a Path, Vec<OsString>>, Vec<&'a Path>) {
    let (mut by_name, mut masked) = (BTreeMap::<&Path, Vec<OsString>>::new(), Vec::new());
    let writable: Vec<&PathBuf> = policy.writable.iter().chain(&git.writable).collect();
    let home = policy.home.as_deref().filter(|home| home.parent().is_some());
    for path in policy.hidden.iter().map(PathBuf::as_path) {
        let home = home.filter(|home| *home != path && is_below(path, home));
        let in_writable = || writable.iter().any(|it| it.as_path() != path && is_below(path, it));
        let (Some(home), Some(name)) = (home.filter(|_| !in_writable()), path.file_name()) else {
            masked.push(path);
            continue;
        };
        let on_the_way = path.ancestors().skip(1).take_while(|it| is_below(it, home));
        for (steps, dir) in on_the_way.enumerate() {
            let names = by_name.entry(dir).or_default();
            // Only the last directory has the hidden name itself; those before are looked into.
            names.extend((steps == 0).then(|| name.to_owned()));
        }
    }
    (by_name, masked)
}

/// Paths here are absolute and plain, so bytes tell; `Path` would take them apart each time.
fn is(path: &Path, other: &Path) -> bool {
    path.as_os_str() == other.as_os_str()
}

/// `path` is `dir` or in it.
fn is_below(path: &Path, dir: &Path) -> bool {
    let (path, dir) = (path.as_os_str().as_bytes(), dir.as_os_str().as_bytes());
    let rest = path.strip_prefix(dir.strip_suffix(b"/").unwrap_or(dir));
    rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

/// The name in `dir` that leads to `path`.
fn entry(dir: &Path, path: &Path) -> Option<OsString> {
    let below = path.strip_prefix(dir).ok()?;
    below.components().next().map(|name| name.as_os_str().to_owned())
}

/// At one place: what is there first, its entries after.
fn order(what: &Place) -> u8 {
    matches!(what, Place::OthersReadOnly { .. }).into()
}

impl Places {
    fn set(&mut self, at: impl Into<PathBuf>, what: Place, optional: bool) {
        let at = at.into();
        self.mounts.retain(|it| !is(&it.at, &at));
        self.mounts.push(Mount { at, what, optional });
    }

    /// The nearest mount that decides what is at `path`, itself not counted.
    fn around(&self, path: &Path) -> Option<&Mount> {
        let above = self.mounts.iter().filter(|it| is_below(path, &it.at) && !is(&it.at, path));
        above.max_by_key(|it| depth(&it.at))
    }

    /// Whether `path` is in something that is replaced as a whole: nothing of it is seen anyway.
    fn is_replaced(&self, path: &Path) -> bool {
        let lists = |it: &&Mount| matches!(it.what, Place::Without { .. });
        let above = self.mounts.iter().filter(|it| is_below(path, &it.at) && !lists(it));
        let nearest = above.max_by_key(|it| depth(&it.at));
        nearest.is_some_and(|it| matches!(it.what, Place::Masked | Place::Replaced { .. }))
    }

    /// Writable inside writable, visible where nothing is hidden, and names where nothing is seen,
    /// are mounts for nothing.
    fn drop_needless(&mut self) {
        self.drop_if(|places, mount| {
            matches!(mount.what, Place::Without { .. }) && places.is_replaced(&mount.at)
        });
        self.drop_if(|places, mount| {
            let around = places.around(&mount.at);
            match (&mount.what, around.map(|it| &it.what)) {
                (Place::Writable, around) => around == Some(&Place::Writable),
                (Place::ReadOnly, Some(Place::Masked | Place::Replaced { .. })) => false,
                (Place::ReadOnly, Some(Place::Without { names })) => {
                    let entry = around.and_then(|it| entry(&it.at, &mount.at));
                    !names.contains(&entry.unwrap_or_default())
                }
                (Place::ReadOnly, _) => true,
                _ => false,
            }
        });
    }

    fn drop_if(&mut self, needless: impl Fn(&Places, &Mount) -> bool) {
        let needless: Vec<bool> = self.mounts.iter().map(|it| needless(self, it)).collect();
        let mut needless = needless.into_iter();
        self.mounts.retain(|_| !needless.next().unwrap_or(false));
    }

    /// The root of what is writable around `path`, if it is.
    fn writable_root(&self, path: &Path) -> Option<PathBuf> {
        let covers = |it: &&Mount| {
            is_below(path, &it.at)
                && matches!(it.what, Place::Writable | Place::Masked | Place::Replaced { .. })
        };
        let nearest = self.mounts.iter().filter(covers).filter(|it| !is(&it.at, path));
        let nearest = nearest.max_by_key(|it| depth(&it.at))?;
        (nearest.what == Place::Writable).then(|| nearest.at.clone())
    }

    fn pin(&mut self, path: &Path, optional: bool) {
        let writable_itself =
            self.mounts.iter().any(|it| is(&it.at, path) && it.what == Place::Writable);
        if self.writable_root(path).is_some() || writable_itself {
            self.pin_parents(path);
            self.set(path, Place::ReadOnly, optional);
        }
    }

    /// Every component between the writable root and `path`, so that none can be renamed.
    fn pin_parents(&mut self, path: &Path) {
        let Some(root) = self.writable_root(path) else {
            return;
        };
        let between = path.ancestors().skip(1).take_while(|it| **it != *root);
        for parent in between.map(Path::to_owned).collect::<Vec<_>>() {
            if !self.mounts.iter().any(|it| is(&it.at, &parent)) {
                // Above a path that may be missing there may be nothing either.
                self.mounts.push(Mount { at: parent, what: Place::Pinned, optional: true });
            }
        }
    }
}
