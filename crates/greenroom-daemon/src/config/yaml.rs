//! `config.yaml`: the same schema in the other syntax.
//!
//! In: a tree of sections and keys. Out: the same settings, mistakes with their lines. Two files are one too many: which
//! of them is meant cannot be guessed.

use std::path::{Path, PathBuf};

use greenroom_protocol::tree::{self, Kind, Member, Node, Syntax};
use serde_json::Value;

use super::{ConfigError, Given, KEYS, Problem, Reading, unknown};

/// Brackets within brackets; a table of policies has three.
const DEPTH_MAX: usize = 8;

pub(super) fn is_yaml(file: &Path) -> bool {
    file.extension().is_some_and(|end| end == "yaml" || end == "yml")
}

/// The file that is there.
pub(super) fn chosen(file: &Path) -> Result<PathBuf, ConfigError> {
    let other = file.with_extension("yaml");
    if is_yaml(file) || !other.exists() {
        return Ok(file.to_owned());
    }
    if file.exists() {
        let text = format!("{} is there, too: keep one of the two", other.display());
        let problems = vec![Problem { line: None, text }];
        return Err(ConfigError { file: file.to_owned(), problems });
    }
    Ok(other)
}

impl Reading<'_> {
    pub(super) fn yaml(&mut self) {
        match tree::read(Syntax::Yaml, self.text, DEPTH_MAX) {
            Ok(root) => self.yaml_root(&root),
            Err(fault) => self.problem(Some(fault.at), fault.text),
        }
    }

    fn yaml_root(&mut self, root: &Node<'_>) {
        let sections = match &root.kind {
            Kind::Map(sections) => sections,
            // An empty file.
            Kind::Plain(Value::Null) => return,
            _ => return self.problem(Some(root.at), "expected sections with keys".to_owned()),
        };
        for section in sections {
            let known = KEYS.iter().any(|key| key.section == section.name);
            match &section.value.kind {
                Kind::Map(keys) if known => self.yaml_section(&section.name, keys),
                Kind::Plain(Value::Null) if known => {}
                _ if known => {
                    let text =
                        format!("`{0}` is a section: indent its keys below `{0}:`", section.name);
                    self.problem(Some(section.at), text);
                }
                other => {
                    let what = if matches!(other, Kind::Map(_)) { "section" } else { "key" };
                    let known = KEYS.iter().map(|key| key.section);
                    self.problem(Some(section.at), unknown(what, &section.name, known));
                }
            }
        }
    }

    fn yaml_section(&mut self, section: &str, members: &[Member<'_>]) {
        let keys = || KEYS.iter().filter(|key| key.section == section);
        for member in members {
            let Some(key) = keys().find(|key| key.name == member.name) else {
                let text = unknown("key", &member.name, keys().map(|key| key.name));
                self.problem(Some(member.at), text);
                continue;
            };
            if let Err(why) = (key.set)(&mut self.config, &given(&member.value)) {
                self.problem(Some(member.value.at), format!("`{}` {why}", key.name));
            }
        }
    }
}

fn given(node: &Node<'_>) -> Given {
    match &node.kind {
        Kind::Plain(Value::String(text)) => Given::Text(text.clone()),
        Kind::Plain(Value::Bool(flag)) => Given::Flag(*flag),
        Kind::Plain(Value::Number(number)) => {
            number.as_i64().map_or(Given::Other("a fraction"), Given::Number)
        }
        Kind::Plain(_) => Given::Other("nothing"),
        Kind::List(items) => {
            let texts: Option<Vec<String>> =
                items.iter().map(|item| item.text().map(str::to_owned)).collect();
            texts.map_or(Given::Other("a list"), Given::List)
        }
        Kind::Map(members) => {
            let pair = |member: &Member<'_>| {
                Some((member.name.clone().into_owned(), member.value.text()?.to_owned()))
            };
            let pairs: Option<Vec<(String, String)>> = members.iter().map(pair).collect();
            pairs.map_or(Given::Other("a table"), Given::Pairs)
        }
    }
}

#[cfg(test)]
mod tests {
    use greenroom_protocol::manifest::OnFailure;

    use super::super::Config;
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(Path::new("c.yaml"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn datawatch_wrote_these_four() {
        let text = "plugins:\n  enabled:     true   # on\n  dir:         ~/.greenroom/plugins\n  timeout_ms:  1500\n  disabled:    [loud]\nlog:\n  level: debug\nsessions:\n";
        let config = parse(text).unwrap();
        assert!(config.plugins.enabled);
        assert_eq!(config.plugins.dir.as_deref(), Some("~/.greenroom/plugins"));
        assert_eq!(config.plugins.timeout_ms.as_millis(), 1500);
        assert_eq!(config.plugins.disabled, ["loud"]);
        assert_eq!(config.log.level, "debug");
        assert_eq!(parse("").unwrap(), Config::default());
        assert_eq!(parse("plugins:\n  disabled: []\n").unwrap().plugins.disabled.len(), 0);
        assert_eq!(
            parse("plugins:\n  timeout_ms: 0\n").unwrap().plugins.timeout_ms.as_millis(),
            2000
        );
    }

    #[test]
    fn both_syntaxes_say_the_same() {
        let yaml = "plugins:\n  policy:\n    output.filter: mask\n    a/session.before: block\n";
        let toml = "[plugins]\npolicy = { \"output.filter\" = \"mask\", \"a/session.before\" = \"block\" }\n";
        let config = parse(yaml).unwrap();
        assert_eq!(config, Config::parse(Path::new("c.toml"), toml).unwrap());
        assert_eq!(config.plugins.policy["output.filter"], OnFailure::Mask);
    }

    #[test]
    fn mistakes_have_their_line() {
        let check = |text: &str, expected: &str| assert_eq!(parse(text).unwrap_err(), expected);
        check(
            "plugins:\n  enabeld: true\n",
            "c.yaml:2: unknown key `enabeld`, did you mean `enabled`?",
        );
        check(
            "plugin:\n  enabled: true\n",
            "c.yaml:1: unknown section `plugin`, did you mean `plugins`?",
        );
        check("plugins: 3\n", "c.yaml:1: `plugins` is a section: indent its keys below `plugins:`");
        check("plugins:\n  enabled: 3\n", "c.yaml:2: `enabled` must be true or false, not 3");
        check(
            "plugins:\n  policy:\n    output.filter: block\n",
            "c.yaml:3: `policy` must say one of pass, mask, hold, drop, seal for output.filter, not \"block\"",
        );
        assert!(parse("a: &x 1\nb: *x\n").is_err());
    }

    #[test]
    fn two_files_are_one_too_many() {
        let dir = tempfile::tempdir().unwrap();
        let toml = dir.path().join("config.toml");
        let yaml = dir.path().join("config.yaml");
        std::fs::write(&yaml, "plugins:\n  enabled: true\n").unwrap();
        assert!(Config::load(&toml).unwrap().plugins.enabled);
        std::fs::write(&toml, "").unwrap();
        let error = Config::load(&toml).unwrap_err().to_string();
        assert!(error.contains("config.yaml is there, too: keep one of the two"), "{error}");
    }
}
