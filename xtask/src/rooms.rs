//! The tables of rooms in ARCHITECTURE.md are complete and true.
//!
//! In: the sections of the map that are about crates, and what modules use each other. Out: rooms
//! without a row, and rooms that use another which their row does not name. A row that names no
//! other room is a leaf: everybody may use it. Deliberately absent: other crates, which are checked
//! in `directions`, and the world.

use std::collections::BTreeSet;

use anyhow::Result;

use crate::cycles::{Uses, uses};
use crate::documents::{MAP, crates_of, paths};
use crate::sizes::is_test_file;
use crate::tree::Tree;

/// The last column of a table that is held to what it says.
const TOUCHES: &str = "may touch |";
/// In that column: no limit.
const ANY: &str = "every room here";

pub fn check(tree: &Tree) -> Result<Vec<String>> {
    let map = if tree.has(MAP) { tree.text(MAP)?.unwrap_or_default() } else { String::new() };
    let uses = uses(tree)?;
    let mut faults = Vec::new();
    for section in map.split("\n#").skip(1) {
        let (heading, body) = section.split_once('\n').unwrap_or((section, ""));
        let crates: Vec<String> = crates_of(tree, heading).collect();
        faults.extend(crates.iter().flat_map(|folder| missing(tree, folder, body)));
        if let [folder] = &crates[..]
            && body.contains(TOUCHES)
            && let Some(uses) = uses.get(folder.trim_start_matches("crates/"))
        {
            faults.extend(forbidden(folder, uses, &rows(body, uses)));
        }
    }
    Ok(faults)
}

/// Files and folders of a crate's `src` that its section does not name.
fn missing(tree: &Tree, folder: &str, body: &str) -> Vec<String> {
    let source = format!("{folder}/src/");
    let named: BTreeSet<String> = body.lines().flat_map(paths).collect();
    let files = tree.with_suffix(".rs").filter(|path| !is_test_file(path));
    let rooms: BTreeSet<String> =
        files.filter_map(|path| path.strip_prefix(&source)).filter_map(room).collect();
    let without = rooms.into_iter().filter(|room| !named.contains(room));
    without.map(|room| format!("{MAP}: `{room}` of {folder} has no row")).collect()
}

/// The file or folder of `src` that a source file is in. The root of a crate is above all rooms.
fn room(inside: &str) -> Option<String> {
    match inside.split_once('/') {
        Some(("bin", _)) => None,
        Some((folder, _)) => Some(format!("{folder}/")),
        None => (!["lib.rs", "main.rs"].contains(&inside)).then(|| inside.to_owned()),
    }
}

/// A line of a table: rooms, and which others they may use.
struct Row {
    rooms: BTreeSet<String>,
    /// `None`: all of them.
    may: Option<BTreeSet<String>>,
}

impl Row {
    fn is_leaf(&self) -> bool {
        self.may.as_ref().is_some_and(BTreeSet::is_empty)
    }
}

fn rows(body: &str, uses: &Uses) -> Vec<Row> {
    let module = |path: String| path.trim_end_matches('/').trim_end_matches(".rs").to_owned();
    let rows = body.lines().filter(|line| line.starts_with("| `")).map(|line| {
        let cells: Vec<&str> = line.split('|').collect();
        let (first, last) = (cells[1], cells[cells.len() - 2]);
        let words = last.split('`').skip(1).step_by(2).map(str::to_owned);
        let may = words.filter(|word| uses.contains_key(word)).collect();
        Row {
            rooms: paths(first).into_iter().map(module).collect(),
            may: (!last.contains(ANY)).then_some(may),
        }
    });
    rows.collect()
}

fn forbidden(folder: &str, uses: &Uses, rows: &[Row]) -> Vec<String> {
    let leaf = |name: &str| rows.iter().any(|row| row.is_leaf() && row.rooms.contains(name));
    let mut faults = Vec::new();
    for (room, used) in uses {
        let Some(row) = rows.iter().find(|row| row.rooms.contains(room)) else { continue };
        let Some(may) = &row.may else { continue };
        for other in used.iter().filter(|other| uses.contains_key(*other)) {
            if !row.rooms.contains(other) && !may.contains(other) && !leaf(other) {
                faults.push(format!(
                    "{folder}: `{room}` uses `{other}`, which its row does not name"
                ));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::fake;

    fn check_map(rows: &str) -> Vec<String> {
        let map = format!("# M\n\n## `crates/k`: it\n\n| room | may touch |\n|---|---|\n{rows}");
        let (_dir, tree) = fake(&[
            (MAP, &map),
            ("crates/k/Cargo.toml", ""),
            ("crates/k/src/lib.rs", "mod a;\n"),
            ("crates/k/src/a.rs", "use crate::{b, c::C, own::Type, top};\n"),
            ("crates/k/src/a/tests.rs", "use crate::d;\n"),
            ("crates/k/src/b/mod.rs", "use crate::a;\n"),
            ("crates/k/src/c.rs", ""),
            ("crates/k/src/top.rs", "use crate::a;\nuse crate::b;\n"),
        ]);
        check(&tree).unwrap()
    }

    #[test]
    fn every_room_has_a_row() {
        let faults = check_map("| `top.rs`, `b/` | every room here |\n");
        assert_eq!(
            faults,
            [
                "ARCHITECTURE.md: `a.rs` of crates/k has no row",
                "ARCHITECTURE.md: `c.rs` of crates/k has no row"
            ]
        );
    }

    #[test]
    fn a_room_uses_leaves_those_beside_it_and_those_that_its_row_names() {
        let rest = "| `c.rs` | files |\n| `top.rs` | every room here |\n";
        assert_eq!(check_map(&format!("| `a.rs`, `b/` | `top`, `/proc` |\n{rest}")), [""; 0]);
        assert_eq!(
            check_map(&format!("| `a.rs` | `b` |\n| `b/` | `top` |\n{rest}")),
            [
                "crates/k: `a` uses `top`, which its row does not name",
                "crates/k: `b` uses `a`, which its row does not name",
            ]
        );
    }
}
