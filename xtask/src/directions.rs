//! Who may depend on whom. The table is the one of ARCHITECTURE.md; read its absences.
//!
//! In: `cargo metadata` (edges between our crates) and `cargo tree` (everything below a crate).
//! Out: edges that must not be there. Dev-dependencies are free: a test may hold two rooms at once.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::sizes::{is_test_file, without_tests};
use crate::tree::Tree;

/// What one of our crates may lean on.
struct Room {
    name: &'static str,
    /// Our crates it may name in `[dependencies]`.
    may_use: &'static [&'static str],
    /// Crates that must not appear anywhere below it.
    never: &'static [&'static str],
    /// Words its sources must not contain, where a dependency cannot tell (tokio has sockets in
    /// it).
    no_words: &'static [&'static str],
}

const fn room(name: &'static str, may_use: &'static [&'static str]) -> Room {
    Room { name, may_use, never: &[], no_words: &[] }
}

const ROOMS: &[Room] = &[
    room(
        "greenroom",
        &[
            "fake-agent",
            "greenroom-client",
            "greenroom-config",
            "greenroom-daemon",
            "greenroom-formats",
            "greenroom-keeper",
            "greenroom-mcp",
            "greenroom-protocol",
            "greenroom-sandbox",
        ],
    ),
    room(
        "greenroom-daemon",
        &[
            "greenroom-config",
            "greenroom-engine",
            "greenroom-formats",
            "greenroom-keeper",
            "greenroom-mcp",
            "greenroom-plugins",
            "greenroom-protocol",
            "greenroom-proxy",
            "greenroom-runs",
            "greenroom-workspace",
        ],
    ),
    // Speaks to the host through one role: it starts no process, opens no socket and knows no
    // client.
    Room {
        name: "greenroom-runs",
        may_use: &["greenroom-engine", "greenroom-formats", "greenroom-protocol"],
        never: &["axum", "rusqlite"],
        no_words: &["std::net", "std::process", "UnixStream"],
    },
    room(
        "greenroom-config",
        &[
            "greenroom-engine",
            "greenroom-formats",
            "greenroom-keeper",
            "greenroom-plugins",
            "greenroom-protocol",
            "greenroom-workspace",
        ],
    ),
    // Faces a hostile network: it knows hosts and ports, and no session.
    Room {
        name: "greenroom-proxy",
        may_use: &["greenroom-protocol", "greenroom-sandbox"],
        never: &["alacritty_terminal", "rusqlite"],
        no_words: &[],
    },
    room(
        "greenroom-plugins",
        &[
            "greenroom-engine",
            "greenroom-formats",
            "greenroom-plugin-api",
            "greenroom-protocol",
            "greenroom-sandbox",
        ],
    ),
    room("greenroom-workspace", &["greenroom-engine", "greenroom-protocol", "greenroom-sandbox"]),
    Room {
        name: "greenroom-engine",
        may_use: &["greenroom-term"],
        never: &["axum", "hyper", "mlua", "rusqlite", "schemars", "serde", "serde_json"],
        no_words: &["UnixStream", "UnixListener", "UnixDatagram", "TcpStream", "TcpListener"],
    },
    Room {
        name: "greenroom-term",
        may_use: &[],
        never: &["rusqlite", "serde", "serde_json", "tokio"],
        no_words: &["std::net", "std::fs", "std::process"],
    },
    Room {
        name: "greenroom-keeper",
        may_use: &["greenroom-sandbox"],
        never: &["mio", "rusqlite", "serde", "serde_json", "tokio"],
        no_words: &["thread::spawn", "thread::Builder"],
    },
    Room {
        name: "greenroom-sandbox",
        may_use: &[],
        never: &["mio", "serde_json", "tokio"],
        no_words: &[],
    },
    Room {
        name: "greenroom-plugin-api",
        may_use: &[],
        never: &["regex", "strsim", "tokio", "toml"],
        no_words: &["std::net", "std::fs", "std::process"],
    },
    Room {
        name: "greenroom-formats",
        may_use: &["greenroom-plugin-api", "greenroom-protocol"],
        never: &["rusqlite", "tokio"],
        no_words: &["std::net", "std::fs", "std::process"],
    },
    Room {
        name: "greenroom-protocol",
        may_use: &["greenroom-plugin-api"],
        never: &["alacritty_terminal", "mio", "rusqlite", "tokio"],
        no_words: &["std::net", "std::fs", "std::process"],
    },
    Room {
        name: "greenroom-mcp",
        may_use: &["greenroom-protocol"],
        never: &["axum", "rusqlite"],
        no_words: &["std::net", "std::fs", "std::process", "UnixStream"],
    },
    Room {
        name: "greenroom-client",
        may_use: &["greenroom-protocol"],
        never: &["alacritty_terminal", "rusqlite"],
        no_words: &[],
    },
    Room {
        name: "greenroom-sdk",
        may_use: &["greenroom-protocol"],
        never: &["alacritty_terminal", "rusqlite"],
        no_words: &[],
    },
    room("greenroom-conformance", &["greenroom-client", "greenroom-protocol"]),
    Room { name: "fake-agent", may_use: &[], never: &["tokio"], no_words: &[] },
    // Not shipped: they look at the product from outside.
    room(
        "greenroom-bench",
        &["greenroom-client", "greenroom-engine", "greenroom-protocol", "greenroom-term"],
    ),
    room("test-kit", &[]),
    room("xtask", &["greenroom-protocol"]),
];

/// The edges between our crates, and what lies below the crates that forbid something.
pub fn check(tree: &Tree) -> Result<Vec<String>> {
    let members = members(&tree.root)?;
    let ours: BTreeSet<&str> = members.iter().map(|member| member.name.as_str()).collect();
    let mut faults = Vec::new();
    for member in &members {
        let Some(room) = ROOMS.iter().find(|room| room.name == member.name) else {
            faults.push(format!(
                "{} has no row in xtask/src/directions.rs: say what it may depend on",
                member.name
            ));
            continue;
        };
        for used in member.uses.iter().filter(|used| ours.contains(used.as_str())) {
            if !room.may_use.contains(&used.as_str()) {
                faults.push(format!("{} must not depend on {used}", room.name));
            }
        }
        if !room.never.is_empty() {
            faults.extend(found_below(room, &below(&tree.root, room.name)?));
        }
    }
    Ok(faults)
}

/// Words that would mean a room does something it must not.
pub fn check_words(tree: &Tree) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for room in ROOMS.iter().filter(|room| !room.no_words.is_empty()) {
        let folder = format!("crates/{}/src/", room.name);
        let of_room = |path: &&str| path.starts_with(&folder) && !is_test_file(path);
        for path in tree.with_suffix(".rs").filter(of_room) {
            let Some(text) = tree.text(path)? else { continue };
            for (number, line) in without_tests(&text) {
                let code = line.split("//").next().unwrap_or_default();
                for word in room.no_words.iter().filter(|word| code.contains(**word)) {
                    faults.push(format!("{path}:{number}: {} knows no `{word}`", room.name));
                }
            }
        }
    }
    Ok(faults)
}

fn found_below(room: &Room, below: &BTreeSet<String>) -> Vec<String> {
    room.never
        .iter()
        .filter(|name| below.contains(**name))
        .map(|name| {
            format!(
                "{} must not have {name} below it (see: cargo tree -e normal -p {} -i {name})",
                room.name, room.name
            )
        })
        .collect()
}

struct Member {
    name: String,
    /// Names of its normal and build dependencies.
    uses: BTreeSet<String>,
}

fn members(root: &Path) -> Result<Vec<Member>> {
    let text = cargo(root, &["metadata", "--format-version", "1", "--no-deps"])?;
    let metadata: Value = serde_json::from_str(&text).context("cargo metadata is not JSON")?;
    let packages = metadata["packages"].as_array().context("cargo metadata has no packages")?;
    packages
        .iter()
        .map(|package| {
            let name = package["name"].as_str().context("a package has no name")?.to_owned();
            let uses = package["dependencies"]
                .as_array()
                .context("a package has no dependencies list")?
                .iter()
                .filter(|dependency| dependency["kind"] != "dev")
                .filter_map(|dependency| dependency["name"].as_str().map(str::to_owned))
                .collect();
            Ok(Member { name, uses })
        })
        .collect()
}

/// Everything below one crate, as it would be built alone: `cargo metadata` would unite the
/// features of the whole workspace and see edges this crate does not have.
fn below(root: &Path, name: &str) -> Result<BTreeSet<String>> {
    let text = cargo(root, &["tree", "-e", "normal", "--prefix", "none", "-f", "{p}", "-p", name])?;
    Ok(parse_tree(&text))
}

/// Lines of `cargo tree --prefix none`: `name v1.2.3 (…)`. The first is the crate itself.
fn parse_tree(text: &str) -> BTreeSet<String> {
    text.lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}

fn cargo(root: &Path, args: &[&str]) -> Result<String> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(program)
        .args(args)
        .current_dir(root)
        .output()
        .with_context(|| format!("cannot run cargo {}", args[0]))?;
    if !output.status.success() {
        bail!("cargo {}: {}", args[0], String::from_utf8_lossy(&output.stderr).trim());
    }
    String::from_utf8(output.stdout).context("cargo printed something that is not UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::fake;

    const WORKSPACE: &str = "[workspace]\nresolver = \"3\"\nmembers = [\"*\"]\n";

    fn manifest(name: &str, rest: &str) -> String {
        format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n{rest}")
    }

    fn workspace(crates: &[(&str, &str)]) -> (tempfile::TempDir, Tree) {
        let mut files = vec![("Cargo.toml".to_owned(), WORKSPACE.to_owned())];
        for (name, rest) in crates {
            files.push((format!("{name}/Cargo.toml"), manifest(name, rest)));
            files.push((format!("{name}/src/lib.rs"), String::new()));
        }
        let files: Vec<(&str, &str)> =
            files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        fake(&files)
    }

    #[test]
    fn allowed_edges_pass() {
        let (_dir, tree) = workspace(&[
            ("greenroom-term", ""),
            ("greenroom-engine", "[dependencies]\ngreenroom-term.path = \"../greenroom-term\"\n"),
        ]);
        assert_eq!(check(&tree).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn an_edge_upwards_is_caught() {
        let (_dir, tree) = workspace(&[
            ("greenroom-engine", ""),
            ("greenroom-term", "[dependencies]\ngreenroom-engine.path = \"../greenroom-engine\"\n"),
        ]);
        assert_eq!(check(&tree).unwrap(), ["greenroom-term must not depend on greenroom-engine"]);
    }

    #[test]
    fn a_forbidden_crate_two_steps_below_is_caught() {
        let (_dir, tree) = workspace(&[
            ("serde", ""),
            ("greenroom-term", "[dependencies]\nserde.path = \"../serde\"\n"),
            ("greenroom-engine", "[dependencies]\ngreenroom-term.path = \"../greenroom-term\"\n"),
        ]);
        let faults = check(&tree).unwrap().join("\n");
        assert!(faults.contains("greenroom-engine must not have serde below it"), "{faults}");
    }

    #[test]
    fn dev_dependencies_are_free() {
        let (_dir, tree) = workspace(&[
            ("greenroom-keeper", ""),
            (
                "greenroom-engine",
                "[dev-dependencies]\ngreenroom-keeper.path = \"../greenroom-keeper\"\n",
            ),
        ]);
        assert_eq!(check(&tree).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn nobody_uses_the_test_kit_but_in_tests() {
        let kit = "test-kit.path = \"../test-kit\"\n";
        let (_dir, tree) = workspace(&[
            ("test-kit", ""),
            ("greenroom-term", &format!("[dev-dependencies]\n{kit}")),
            ("greenroom-engine", &format!("[dependencies]\n{kit}")),
            ("greenroom-bench", &format!("[build-dependencies]\n{kit}")),
        ]);
        let faults = check(&tree).unwrap();
        let expected = ["greenroom-bench", "greenroom-engine"];
        assert_eq!(faults, expected.map(|name| format!("{name} must not depend on test-kit")));
    }

    #[test]
    fn a_crate_without_a_row_is_caught() {
        let (_dir, tree) = workspace(&[("greenroom-attic", "")]);
        assert!(check(&tree).unwrap()[0].starts_with("greenroom-attic has no row"));
    }

    #[test]
    fn a_socket_in_the_engine_is_caught_but_not_in_its_comments_or_tests() {
        let text = "// no UnixStream here\nuse tokio::net::UnixStream;\n#[cfg(test)]\nmod tests {\n    use std::net::TcpStream;\n}\n";
        let (_dir, tree) = fake(&[("crates/greenroom-engine/src/lib.rs", text)]);
        assert_eq!(
            check_words(&tree).unwrap(),
            ["crates/greenroom-engine/src/lib.rs:2: greenroom-engine knows no `UnixStream`"]
        );
    }

    #[test]
    fn every_row_names_rooms_that_have_rows() {
        for room in ROOMS {
            for used in room.may_use {
                assert!(ROOMS.iter().any(|other| other.name == *used), "{used} has no row");
                assert_ne!(*used, "test-kit", "{} must not ship it", room.name);
            }
        }
    }
}
