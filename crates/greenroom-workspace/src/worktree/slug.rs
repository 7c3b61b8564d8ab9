//! What may name a worktree, and where that puts it.
//!
//! A slug is part of a branch and of a path, so its grammar is narrower than either:
//! `[a-z0-9][a-z0-9._/-]*`, no `..`, and nothing git refuses in a branch. In a path `/` becomes
//! `+`, which no slug contains: two slugs never meet in one directory and none lies inside another.

use std::path::Path;

use super::error::WorktreeError;

/// With the prefix and `.lock` it stays below the 255 bytes of a file name.
const MAX_LENGTH: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slug(String);

impl Slug {
    pub fn parse(text: &str) -> Result<Slug, WorktreeError> {
        let refuse = |why| Err(WorktreeError::Slug { slug: text.to_owned(), why });
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._/-".contains(c);
        if text.is_empty() {
            return refuse("it is empty");
        }
        if text.len() > MAX_LENGTH {
            return refuse("it is longer than 100 characters");
        }
        if !text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit()) {
            return refuse("it must begin with a lower-case letter or a digit");
        }
        if !text.chars().all(allowed) {
            return refuse("it may contain lower-case letters, digits and . _ / - only");
        }
        if text.contains("..") {
            return refuse("it must not contain `..`");
        }
        if text.split('/').any(|part| part.is_empty() || part.starts_with('.')) {
            return refuse("each part between slashes must begin with a letter, a digit, _ or -");
        }
        if text.split('/').any(|part| part.ends_with(".lock") || part.ends_with('.')) {
            return refuse("no part may end with `.lock` or a dot");
        }
        Ok(Slug(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// As one component of a path.
    pub fn flat(&self) -> String {
        self.0.replace('/', "+")
    }
}

/// Checks a prefix of branches, such as `greenroom/`.
pub fn check_prefix(prefix: &str) -> Result<(), WorktreeError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._/-".contains(c);
    let parts_fit = prefix.strip_suffix('/').unwrap_or(prefix).split('/').all(|part| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric()) && !part.ends_with(".lock")
    });
    let fits = prefix.is_empty()
        || (prefix.len() <= MAX_LENGTH
            && prefix.chars().all(allowed)
            && !prefix.contains("..")
            && parts_fit);
    if fits { Ok(()) } else { Err(WorktreeError::Prefix { prefix: prefix.to_owned() }) }
}

/// A directory for one repository: its name for people, a hash of its path for uniqueness.
pub fn repo_key(common_dir: &Path, top: Option<&Path>) -> String {
    let named = top.unwrap_or(common_dir).file_name().unwrap_or_default().to_string_lossy();
    let fit = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    let name: String = named.chars().map(|c| if fit(c) { c } else { '-' }).take(40).collect();
    let name = name.trim_start_matches('-');
    let name = if name.is_empty() { "repo" } else { name };
    format!("{name}-{:016x}", fnv(common_dir.as_os_str().as_encoded_bytes()))
}

/// FNV-1a: stable over versions, which std's hasher is not. The record, not the hash, decides
/// whether it is the same repository.
pub fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grammar() {
        for good in ["a", "feat-auth", "feat/auth", "0", "a.b_c", "review-1", "a/b/c", "a/-b"] {
            assert!(Slug::parse(good).is_ok(), "{good}");
        }
        for bad in [
            "", "A", "-a", ".a", "/a", "a/", "a//b", "..", "a..b", "a/../b", "a b", "a\nb", "a\"b",
            "a)b", "a~1", "a^", "a:b", "a?", "a*", "a[", "a\\b", "a@{b", "x.lock", "x.lock/y",
            "a.", "é", "a/.b", "--force", "a\0b",
        ] {
            assert!(Slug::parse(bad).is_err(), "{bad:?}");
        }
        assert!(Slug::parse(&"a".repeat(101)).is_err());
    }

    #[test]
    fn paths_do_not_meet() {
        let flat = |text| Slug::parse(text).unwrap().flat();
        assert_eq!(flat("a/b"), "a+b");
        assert_ne!(flat("a/b"), flat("a-b"));
    }

    #[test]
    fn prefixes() {
        for good in ["", "greenroom/", "gr-", "team/x/"] {
            assert!(check_prefix(good).is_ok(), "{good}");
        }
        for bad in ["/", "../", "a b/", "-x/", "a//", ".x/", "a.lock/"] {
            assert!(check_prefix(bad).is_err(), "{bad}");
        }
    }

    proptest::proptest! {
        /// What the grammar lets through git lets through too.
        #[test]
        fn git_agrees(slug in "[a-z0-9][a-z0-9._/-]{0,12}") {
            if let Ok(slug) = Slug::parse(&slug) {
                let git = crate::git::find_git().unwrap();
                let name = format!("greenroom/{}", slug.as_str());
                let status = std::process::Command::new(git)
                    .args(["check-ref-format", "--branch", &name])
                    .stdout(std::process::Stdio::null())
                    .status()
                    .unwrap();
                proptest::prop_assert!(status.success(), "{name}");
            }
        }
    }
}
