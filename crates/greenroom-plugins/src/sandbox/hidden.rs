//! What a confined session cannot see, although its user can: credentials, other sessions, our own state.

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

/// What a link leads to. One that leads nowhere is hidden itself: tomorrow it may.
fn real(path: &Path) -> Option<PathBuf> {
    as_made(path).ok().or_else(|| Some(as_made(path.parent()?).ok()?.join(path.file_name()?)))
}

/// Everything that is hidden, without symbolic links, each once.
pub fn list(config: &SandboxConfig, around: &Surroundings) -> Vec<PathBuf> {
    let home = &around.home;
    let shown: Vec<PathBuf> = config.show.iter().map(|text| at_home(text, home)).collect();
    let usual = CREDENTIALS.iter().map(|path| home.join(path));
    let asked = config.hide.iter().map(|text| at_home(text, home));
    // Ours cannot be shown: whoever reads them can do what we can.
    let ours = [around.state.clone(), around.runtime.clone(), around.config.clone()];
    let mut hidden: Vec<PathBuf> = usual
        .chain(asked)
        .filter(|path| !shown.contains(path))
        .chain(ours)
        .filter_map(|path| real(&path))
        .collect();
    hidden.sort();
    hidden.dedup();
    // What lies in something hidden needs no mask of its own.
    let all = hidden.clone();
    hidden.retain(|path| !all.iter().any(|other| other != path && path.starts_with(other)));
    hidden
}
