//! What a new worktree gets after git has checked it out: ignored files, shared directories, the
//! user's setup commands.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::check::{Stranger, os, strangers};
use super::error::WorktreeError;
use super::make::{Made, Request, Target, exclude_file, source_repo};
use super::record::{Ours, Phase, Record};
use super::{Share, Worktrees, bring, commands, excludes};
use crate::git::{Repo, user_excludes};

impl Worktrees {
    /// Brings ignored files and shared directories.
    pub(super) fn fill(
        &self,
        record: &mut Record,
        target: &Target,
        request: &Request<'_>,
        made: &mut Made,
    ) -> Result<(), WorktreeError> {
        let tree = Repo::open_tree(&record.common_dir, &made.admin_dir, &record.path)?;
        if tree.index()?.iter().any(|entry| entry.submodule) {
            made.notes.push("submodules are empty in it: git submodule update --init".into());
        }
        let Some(top) = &target.place.top else { return Ok(()) };
        self.steps.at("before staging")?;
        bring::discard(&target.staging)?;
        let source = source_repo(&target.place)?.ignoring(user_excludes().as_deref());
        let mut share = self.config.now().share.clone();
        if request.confined {
            // A session that writes to a hard link writes to the file outside, in every sandbox
            // there is.
            share.retain(|dir, mode| {
                let fits = *mode != Share::Hardlink;
                if !fits {
                    made.notes
                        .push(format!("{dir} was not hard-linked: the session is in a sandbox"));
                }
                fits
            });
        }
        let brought = bring::stage(&source, top, &share, &target.staging)?;
        made.notes.extend(brought.notes);
        if !brought.pieces.is_empty() {
            record.ours = brought.pieces.iter().map(|piece| piece.ours.clone()).collect();
            record.save(&target.record)?;
            let mut placed: Vec<&str> = Vec::new();
            for piece in &brought.pieces {
                self.steps.at("before a piece")?;
                if bring::place(piece, &record.path)? {
                    placed.push(piece.ours.path());
                }
            }
            let paths: Vec<Vec<u8>> = placed.iter().map(|path| path.as_bytes().to_vec()).collect();
            let ignored = tree.ignored(&paths)?;
            let seen = placed.into_iter().filter(|path| !ignored.contains(path.as_bytes()));
            let seen: Vec<&str> = seen.collect();
            if !seen.is_empty() {
                let file = exclude_file(&made.admin_dir);
                excludes::exclude_in_session(&mut BTreeMap::new(), &file, &seen)?;
                made.excludes = Some(file);
            }
        }
        self.steps.at("before unstaging")?;
        bring::discard(&target.staging)
    }

    /// Setup commands, without the lock: they may take minutes.
    pub(super) fn finish_making(
        &self,
        mut record: Record,
        target: &Target,
        request: &Request<'_>,
        made: &Made,
    ) -> Result<(), WorktreeError> {
        let mut done = Ok(());
        if !self.config.now().setup.is_empty() {
            self.steps.at("before setup")?;
            let mut env = request.env.clone();
            env.extend(made.env());
            let timeout = self.config.now().command_timeout();
            done = commands::run_all("setup", &self.config.now().setup, &made.cwd, &env, timeout);
            self.steps.at("after setup")?;
            self.own_strangers(&mut record)?;
        }
        if done.is_ok() {
            self.steps.at("before ready")?;
            record.phase = Phase::Ready;
        }
        record.save(&target.record)?;
        done
    }

    /// What setup commands made is ours as long as it stays as they made it.
    fn own_strangers(&self, record: &mut Record) -> Result<(), WorktreeError> {
        let admin_dir = record.admin_dir.as_deref().expect("recorded with the pointers");
        let repo = Repo::open_tree(&record.common_dir, admin_dir, &record.path)?;
        let mut files = Vec::new();
        for Stranger { path, is_link } in strangers(&repo, record, &self.config.now().disposable)? {
            let Ok(name) = std::str::from_utf8(&path) else { continue };
            record.ours.retain(|ours| ours.path() != name);
            let full = record.path.join(os(&path));
            if !is_link {
                files.push((name.to_owned(), full));
            } else if let Some(target) =
                std::fs::read_link(&full).ok().and_then(|t| t.to_str().map(str::to_owned))
            {
                record.ours.push(Ours::Link { path: name.to_owned(), target });
            }
        }
        let paths: Vec<PathBuf> = files.iter().map(|(_, full)| full.clone()).collect();
        for ((path, _), content) in files.into_iter().zip(repo.hashes(&paths)?) {
            record.ours.push(Ours::File { path, content });
        }
        Ok(())
    }
}
