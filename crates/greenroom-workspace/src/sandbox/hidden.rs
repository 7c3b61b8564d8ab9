//! What a confined session cannot see, although its user can: credentials, other sessions, our own
//! state.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::SandboxConfig;
use super::policy::as_made;
use crate::spec::Surroundings;

/// Below the user's home. What is not there may be there tomorrow.
const CREDENTIALS: &[&str] = &[
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".config/gcloud",
    ".config/doctl",
    ".config/hcloud",
    ".config/rclone",
    ".oci",
    ".terraform.d/credentials.tfrc.json",
    ".kube",
    ".docker",
    ".config/containers/auth.json",
    ".config/gh",
    ".config/glab-cli",
    ".config/hub",
    ".git-credentials",
    ".config/git/credentials",
    ".netrc",
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".gem/credentials",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".m2/settings.xml",
    ".gradle/gradle.properties",
    ".pgpass",
    ".my.cnf",
    ".vault-token",
    ".config/op",
    ".config/Bitwarden",
    ".config/Bitwarden CLI",
    ".password-store",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    // Browser profiles: cookies are logins.
    ".mozilla",
    ".config/google-chrome",
    ".config/chromium",
    ".config/BraveSoftware",
    ".config/microsoft-edge",
    ".config/vivaldi",
    ".config/opera",
    ".var/app/org.mozilla.firefox",
    "snap/firefox",
    "Library/Keychains",
    "Library/Cookies",
    "Library/Application Support/Google/Chrome",
    "Library/Application Support/Firefox",
];

/// `~/x` below the user's home; anything else as it is.
pub fn at_home(text: &str, home: &Path) -> PathBuf {
    match text.strip_prefix("~/") {
        Some(rest) => home.join(rest),
        None if text == "~" => home.to_owned(),
        None => PathBuf::from(text),
    }
}

/// Directories without symbolic links. Most of what is hidden lies in a few, and every session's
/// start waits for this.
#[derive(Default)]
struct Parents {
    /// With whether it is there.
    real: HashMap<PathBuf, Option<(PathBuf, bool)>>,
}

impl Parents {
    /// What a link leads to. A link that leads nowhere is hidden itself: tomorrow it may lead
    /// somewhere.
    fn resolve(&mut self, path: &Path) -> Option<PathBuf> {
        let (parent, name) = (path.parent()?, path.file_name()?);
        let known = self.real.entry(parent.to_owned()).or_insert_with(|| {
            let real = as_made(parent).ok()?;
            let there = real.symlink_metadata().is_ok();
            Some((real, there))
        });
        let (parent, there) = known.as_ref()?;
        let place = parent.join(name);
        if *there && place.is_symlink() {
            return place.canonicalize().ok().or(Some(place));
        }
        Some(place)
    }
}

/// Everything that is hidden, without symbolic links, each once.
pub fn list(config: &SandboxConfig, around: &Surroundings) -> Vec<PathBuf> {
    let home = &around.home;
    let shown: Vec<PathBuf> = config.show.iter().map(|text| at_home(text, home)).collect();
    let usual = CREDENTIALS.iter().map(|path| home.join(path));
    let asked = config.hide.iter().map(|text| at_home(text, home));
    // Ours cannot be shown: whoever reads them can do what we can.
    let ours = [around.state.clone(), around.runtime.clone(), around.config.clone()];
    let mut parents = Parents::default();
    let mut hidden: Vec<PathBuf> = usual
        .chain(asked)
        .filter(|path| !shown.contains(path))
        .chain(ours)
        .filter_map(|path| parents.resolve(&path))
        .collect();
    hidden.sort();
    // What lies in something hidden, which comes just before it, needs no mask of its own.
    hidden.dedup_by(|path, other| path.starts_with(other));
    hidden
}
