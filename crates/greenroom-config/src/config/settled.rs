//! The settings of a host that goes on: those of the file, or the last ones that could be read.
//!
//! A mistake in the file must not undo what protects a session. So the last file without one is
//! kept in the state directory and holds until the mistake is gone; if even that is lost, the
//! strictest settings do. In: the file and the place of the copy. Out: settings, and what to say
//! about them.

use std::path::Path;

use greenroom_engine::keep::{self, Lasting};
use greenroom_plugins::runtime::profile::Enforcement;

use super::{Config, ConfigError, FILE_MAX};

/// The settings that hold.
pub struct Settled {
    pub config: Config,
    /// What is wrong with the file.
    pub mistake: Option<ConfigError>,
    instead: &'static str,
}

impl Settled {
    /// What is wrong with the file, and what holds instead.
    pub fn trouble(&self) -> Option<String> {
        let mistake = self.mistake.as_ref()?;
        Some(format!("{mistake}; until it is corrected {}", self.instead))
    }
}

impl Config {
    /// Reads `file`, or falls back to the copy at `good`. A file without a mistake becomes that
    /// copy.
    pub fn settled(file: &Path, good: &Path) -> Settled {
        let error = match Config::load(file) {
            Ok(config) => {
                remember(file, good);
                return Settled { config, mistake: None, instead: "" };
            }
            Err(error) => error,
        };
        let (config, instead) = match recalled(file, good) {
            Some(config) => (config, "the settings last read without a mistake hold"),
            None => (Config::strictest(), "the strictest settings hold"),
        };
        Settled { config, mistake: Some(error), instead }
    }

    /// What hides most and allows least.
    fn strictest() -> Config {
        let mut config = Config::default();
        config.redact.attach = true;
        config.plugins.min_enforcement = Enforcement::Enforced;
        config
    }
}

/// The name tells the format; no file is an empty one.
fn remember(file: &Path, good: &Path) {
    let Ok(chosen) = super::chosen(file) else { return };
    let name = chosen.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let text = std::fs::read_to_string(&chosen).unwrap_or_default();
    let bytes = keep::checked(format!("{name}\n{text}").as_bytes());
    if keep::read(good, 2 * FILE_MAX).is_ok_and(|old| old.as_ref() == Some(&bytes)) {
        return;
    }
    let put = || keep::write(good, &bytes, Lasting::Machine);
    if put().or_else(|_| keep::set_aside(good).and_then(|_| put())).is_err() {
        tracing::warn!(path = %good.display(), "cannot keep a copy of the configuration");
    }
}

fn recalled(file: &Path, good: &Path) -> Option<Config> {
    let bytes = keep::read(good, 2 * FILE_MAX).ok()??;
    let text = std::str::from_utf8(keep::unchecked(&bytes)?).ok()?;
    let (name, text) = text.split_once('\n')?;
    Config::parse(&file.with_file_name(name), text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_undoes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (file, good) = (dir.path().join("config.toml"), dir.path().join("good"));
        let settled = || Config::settled(&file, &good);
        assert_eq!(settled().config, Config::default(), "there is no file");
        std::fs::write(&file, "[redact]\nattach = true\n[sessions]\nmax = 7\n").unwrap();
        let before = settled();
        assert!(before.config.redact.attach && before.mistake.is_none());
        for broken in ["[redact]\nattach = tru\n", "[redact\n", "[redact]\natach = false\n"] {
            std::fs::write(&file, broken).unwrap();
            let now = settled();
            assert_eq!(now.config, before.config);
            let said = now.trouble().unwrap();
            assert!(said.contains("config.toml:") && said.contains("last read"), "{said}");
        }
        // The copy is damaged as well.
        std::fs::write(&good, "[redact]\nattach = false\n").unwrap();
        let now = settled();
        assert!(now.config.redact.attach && now.trouble().unwrap().contains("strictest"));
        assert_eq!(now.config.plugins.min_enforcement, Enforcement::Enforced);
        std::fs::write(&file, "").unwrap();
        assert_eq!(settled().config, Config::default());
        std::fs::remove_file(&file).unwrap();
        std::fs::create_dir(&file).unwrap();
        assert!(settled().mistake.is_some());
    }
}
