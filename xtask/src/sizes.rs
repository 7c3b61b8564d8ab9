//! A file is a room: past 700 lines (tests apart) two rooms share a wall.

use anyhow::Result;

use crate::tree::Tree;

/// Lines of one file without its tests. House style looks twice at 400; this is the hard stop.
const MAX_LINES: usize = 700;

/// Files that may be longer, how long, and why. An exception that is no longer needed is a fault
/// too.
const EXCEPTIONS: &[(&str, usize, &str)] = &[];

pub fn check(tree: &Tree) -> Result<Vec<String>> {
    check_with(tree, EXCEPTIONS)
}

fn check_with(tree: &Tree, exceptions: &[(&str, usize, &str)]) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for path in tree.with_suffix(".rs").filter(|path| !is_test_file(path)) {
        let Some(text) = tree.text(path)? else {
            faults.push(format!("{path}: not UTF-8"));
            continue;
        };
        let lines = without_tests(&text).count();
        let exception = exceptions.iter().find(|(excepted, _, _)| *excepted == path);
        let limit = exception.map_or(MAX_LINES, |(_, limit, _)| *limit);
        if lines > limit {
            faults.push(format!("{path}: {lines} lines without tests, at most {limit}"));
        }
        if exception.is_some() && lines <= MAX_LINES {
            faults.push(format!("{path}: needs no exception any more ({lines} lines)"));
        }
    }
    for (path, _, _) in exceptions.iter().filter(|(path, _, _)| !tree.has(path)) {
        faults.push(format!("{path}: has an exception but does not exist"));
    }
    Ok(faults)
}

/// Whole files that are tests or not part of the product.
pub fn is_test_file(path: &str) -> bool {
    path.split('/').any(|part| matches!(part, "tests" | "benches" | "fuzz" | "tests.rs"))
}

/// The numbered lines of a source file outside `#[cfg(test)]` items, found by indentation as
/// rustfmt writes it.
pub fn without_tests(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut skip: Skip = Skip::No;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let keep = matches!(skip, Skip::No) && line.trim() != "#[cfg(test)]";
        skip = skip.after(line);
        keep
    })
}

/// Where the scanner is with respect to a test item.
#[derive(Clone, Copy)]
enum Skip {
    No,
    /// Behind `#[cfg(test)]` at this indentation: the item begins or goes on.
    Item(usize),
}

impl Skip {
    fn after(self, line: &str) -> Skip {
        let indent = line.len() - line.trim_start().len();
        match self {
            Skip::No if line.trim() == "#[cfg(test)]" => Skip::Item(indent),
            Skip::Item(at) if indent == at && ends_item(line.trim()) => Skip::No,
            other => other,
        }
    }
}

/// The last line of an item as rustfmt leaves it: a lone closing bracket, or a one-liner.
fn ends_item(line: &str) -> bool {
    if line.is_empty() || line.starts_with("#[") || line.starts_with("//") {
        return false;
    }
    line.starts_with('}') || line.ends_with(';') || line.ends_with('}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::fake;

    fn kept(text: &str) -> Vec<&str> {
        without_tests(text).map(|(_, line)| line).collect()
    }

    #[test]
    fn test_modules_functions_and_imports_do_not_count() {
        let text = "fn a() {\n    x();\n}\n#[cfg(test)]\nuse b::c;\nfn d() {}\n#[cfg(test)]\n#[expect(dead_code, reason = \"r\")]\nmod tests {\n    fn e() {\n    }\n}\nfn f() {}\n";
        assert_eq!(kept(text), ["fn a() {", "    x();", "}", "fn d() {}", "fn f() {}"]);
    }

    #[test]
    fn a_test_function_inside_an_impl_does_not_count() {
        let text =
            "impl A {\n    #[cfg(test)]\n    fn t(&self) {\n        y();\n    }\n    fn u() {}\n}";
        assert_eq!(kept(text), ["impl A {", "    fn u() {}", "}"]);
    }

    #[test]
    fn a_long_file_is_caught_and_its_tests_are_not() {
        let long = "fn x() {}\n".repeat(MAX_LINES + 1);
        let tested = format!(
            "{}#[cfg(test)]\nmod tests {{\n{}}}\n",
            "fn x() {}\n".repeat(MAX_LINES),
            "    fn y() {}\n".repeat(900)
        );
        let (_dir, tree) =
            fake(&[("src/long.rs", &long), ("src/tested.rs", &tested), ("tests/it.rs", &long)]);
        assert_eq!(
            check_with(&tree, &[]).unwrap(),
            ["src/long.rs: 701 lines without tests, at most 700"]
        );
        assert_eq!(check_with(&tree, &[("src/long.rs", 800, "why")]).unwrap(), [""; 0]);
    }

    #[test]
    fn exceptions_do_not_outlive_their_reason() {
        let (_dir, tree) = fake(&[("src/short.rs", "fn x() {}\n")]);
        let faults =
            check_with(&tree, &[("src/short.rs", 800, "why"), ("src/gone.rs", 800, "why")])
                .unwrap();
        assert_eq!(faults.len(), 2, "{faults:?}");
    }
}
