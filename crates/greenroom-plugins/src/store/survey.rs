//! What lies where plugins lie: files are read, nothing runs.
//!
//! One broken plugin is one broken plugin: whatever is wrong with a directory is told of that
//! directory.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use greenroom_formats::manifest::{
    FILE_MAX, FILE_NAMES, FOREIGN_NAMES, Loaded, Manifest, RuntimeKind, parse,
};

use sha2::{Digest, Sha256};

use super::error::{StoreError, TreeError};
use super::tree::{Tree, file_digest, hex};
use crate::host::CatalogError;

/// Directories looked at; more are a mistake.
pub(super) const PLUGINS_MAX: usize = 500;

/// One directory, read.
#[derive(Debug)]
pub(super) struct Plugin {
    pub manifest: Arc<Manifest>,
    /// `CODE file:line:column: text`.
    pub warnings: Vec<String>,
    pub tree: Tree,
}

/// The directories below `dir`, by name. None if there is no such place.
pub(super) fn directories(dir: &Path) -> Result<Vec<PathBuf>, CatalogError> {
    let fault = |source| CatalogError::Read { dir: dir.to_owned(), source };
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(fault(error)),
    };
    let mut found = Vec::new();
    for entry in entries.take(PLUGINS_MAX * 4) {
        let path = entry.map_err(fault)?.path();
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if !hidden && path.is_dir() {
            found.push(path);
        }
    }
    found.sort();
    found.truncate(PLUGINS_MAX);
    Ok(found)
}

/// The manifest of a directory: ours before others', and only one.
pub(super) fn manifest_file(dir: &Path) -> Result<PathBuf, StoreError> {
    for names in [FILE_NAMES, FOREIGN_NAMES] {
        let mut there = names.into_iter().filter(|name| dir.join(name).is_file());
        match (there.next(), there.next()) {
            (Some(only), None) => return Ok(dir.join(only)),
            (Some(first), Some(second)) => {
                let (first, second) = (first.to_owned(), second.to_owned());
                return Err(StoreError::TwoManifests { dir: dir.to_owned(), first, second });
            }
            (None, _) => {}
        }
    }
    Err(StoreError::NoManifest { dir: dir.to_owned() })
}

/// Reads the manifest alone.
pub(super) fn read_manifest(file: &Path) -> Result<Loaded, StoreError> {
    use std::io::Read;
    let fault = |source| StoreError::disk("read", file, source);
    let mut bytes = Vec::new();
    let open = fs::File::open(file).map_err(fault)?;
    // One more than allowed, so that too much is seen as such.
    open.take(FILE_MAX as u64 + 1).read_to_end(&mut bytes).map_err(fault)?;
    parse(&file.display().to_string(), &bytes).map_err(StoreError::Manifest)
}

/// Reads a directory and checks that what it wants to run is there.
pub(super) fn read(dir: &Path) -> Result<Plugin, StoreError> {
    let file = manifest_file(dir)?;
    let loaded = read_manifest(&file)?;
    let tree = Tree::list(dir).map_err(|source| StoreError::tree(dir, source))?;
    programs(dir, &loaded.manifest, &tree)?;
    let place = file.display();
    let warnings = loaded
        .warnings
        .iter()
        .map(|w| format!("{} {place}:{}:{}: {}", w.code, w.line, w.column, w.text))
        .collect();
    Ok(Plugin { manifest: Arc::new(loaded.manifest), warnings, tree })
}

fn programs(dir: &Path, manifest: &Manifest, tree: &Tree) -> Result<(), StoreError> {
    for runtime in &manifest.runtime {
        let (named, runs) = match (runtime.kind, &runtime.entry) {
            (RuntimeKind::Lua, Some(entry)) => (entry, false),
            (RuntimeKind::Lua | RuntimeKind::Builtin, _) => continue,
            _ => match runtime.command.first() {
                Some(program) => (program, true),
                None => continue,
            },
        };
        let path = Path::new(named);
        let found =
            if path.is_absolute() { path.is_file().then_some(true) } else { tree.program(path) };
        let why = match found {
            Some(executable) if executable || !runs => continue,
            Some(_) => "it is not executable",
            None => "it is not there, and the manifest names it",
        };
        // Without `./` in the middle.
        let parts = path.components().filter(|part| *part != Component::CurDir);
        let path = dir.join(parts.collect::<PathBuf>());
        return Err(StoreError::Program { path, why: why.to_owned() });
    }
    Ok(())
}

/// The digest of all that would run: the tree, and programs outside it that a foreign manifest
/// names.
pub(super) fn digest(dir: &Path, plugin: &Plugin) -> Result<String, StoreError> {
    let tree = plugin.tree.digest().and_then(|tree| with_outside(tree, &plugin.manifest));
    tree.map_err(|source| StoreError::tree(dir, source))
}

/// Adds programs outside the tree to the digest of the tree.
pub(super) fn with_outside(tree: String, manifest: &Manifest) -> Result<String, TreeError> {
    let outside = manifest.runtime.iter().filter_map(|runtime| runtime.command.first());
    let outside: Vec<&String> =
        outside.filter(|program| Path::new(program).is_absolute()).collect();
    if outside.is_empty() {
        return Ok(tree);
    }
    let mut whole = Sha256::new();
    whole.update(tree);
    for program in outside {
        whole.update(file_digest(Path::new(program))?);
    }
    Ok(format!("sha256:{}", hex(&whole.finalize())))
}
