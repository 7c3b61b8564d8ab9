//! What the kernel shows of a process to everybody who can see it: its arguments, and to whoever
//! may look into it, the environment it was started with.
//!
//! A stage that was forked would show its parent's. In: the places of both, found once by the
//! parent. Out: the arguments say what it is, and the rest is gone. Absent on purpose: the parent's
//! own, which stay as they are.
#![expect(
    unsafe_code,
    reason = "the kernel put these strings there, and nothing else points at all of them"
)]

use std::ops::Range;

/// What `ps` shows of a stage instead.
const TITLE: &[u8] = b"greenroom\0__sandbox-exec\0";

/// A field of `/proc/self/stat`, counted from the state, which is the third.
const ARG_START: usize = 48 - 3;

/// Where this process's arguments and environment lie.
#[derive(Debug, Clone)]
pub(super) struct ProcessTitle {
    args: Range<usize>,
    env: Range<usize>,
}

impl ProcessTitle {
    pub(super) fn find() -> Option<ProcessTitle> {
        parse(&std::fs::read_to_string("/proc/self/stat").ok()?)
    }

    /// Call in a process that has nothing more to ask of its arguments or its environment.
    pub(super) fn overwrite(&self) {
        fill(&self.args, TITLE);
        fill(&self.env, b"");
    }

    /// The arguments only: the rest is nobody's secret there. Each word ends with a NUL byte.
    pub(super) fn retitle(&self, words: &[u8]) {
        fill(&self.args, words);
    }
}

fn fill(place: &Range<usize>, text: &[u8]) {
    let length = place.len().min(text.len());
    let start = std::ptr::with_exposed_provenance_mut::<u8>(place.start);
    // SAFETY: the kernel says that these bytes of this process's first stack are its own strings,
    // nothing else lies between them, and by the caller's promise nobody reads them again.
    unsafe {
        start.write_bytes(0, place.len());
        start.copy_from_nonoverlapping(text.as_ptr(), length);
    }
}

/// The name, which is in parentheses, may hold anything.
fn parse(stat: &str) -> Option<ProcessTitle> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut numbers = rest.split_ascii_whitespace().skip(ARG_START).map(str::parse::<usize>);
    let mut range = || -> Option<Range<usize>> {
        let (start, end) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        // Zero: hidden from whoever asked.
        (start != 0 && start <= end).then_some(start..end)
    };
    Some(ProcessTitle { args: range()?, env: range()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_places_are_those_the_kernel_shows() {
        let title = ProcessTitle::find().unwrap();
        let shown = |name: &str| std::fs::read(format!("/proc/self/{name}")).unwrap().len();
        assert_eq!(title.args.len(), shown("cmdline"));
        assert_eq!(title.env.len(), shown("environ"));
    }

    #[test]
    fn a_name_with_parentheses_and_a_hidden_place() {
        let before = "R 1 ".repeat(ARG_START / 2) + "0 ";
        let stat = |ends: &str| format!("7 (a) R 1 (b)) {before}{ends} 0");
        let title = parse(&stat("16 20 20 32")).unwrap();
        assert_eq!((title.args, title.env), (16..20, 20..32));
        assert!(parse(&stat("0 0 0 0")).is_none());
        assert!(parse(&stat("20 16 20 32")).is_none());
        assert!(parse("7 (a) R 1").is_none());
    }
}
