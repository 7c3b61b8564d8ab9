//! What sessions left behind: processes that outlived their program, or their keeper.
//!
//! In: wardens the keeper names, notes of an earlier host, marks in environments. Out: how many are
//! left of a session, and a word when nobody is. Absent on purpose: ending them; that is the
//! ladder's (`greenroom_engine`).

use std::collections::HashMap;

use greenroom_engine::SessionId;
use greenroom_engine::process::{KEY_VARIABLE, Member};
use greenroom_engine::store::{RecordState, SessionRecord};
use greenroom_keeper as keeper;
use greenroom_keeper::KeeperEvent;
use greenroom_keeper::tree::{self, Process, Tree};

use super::{Confined, Keeper, KeeperError, Note};
use crate::sync::lock;

/// How often those are looked for of whose end nobody tells.
const LOOK: std::time::Duration = std::time::Duration::from_secs(5);

impl Keeper {
    /// Who holds which session, also those that ended and were released under an earlier daemon.
    pub(super) fn ask_for_wardens(&self) -> Result<(), KeeperError> {
        if !self.wardens {
            return Ok(());
        }
        self.link.wardens()?;
        loop {
            match self.link.recv()?.ok_or(KeeperError::Gone)? {
                KeeperEvent::Wardens { wardens, more } => {
                    let mut state = self.state();
                    for (id, pid) in wardens {
                        state.trees.entry(id.0).or_default().warden = Process::of(pid);
                    }
                    if !more {
                        return Ok(());
                    }
                }
                other => self.meanwhile(other),
            }
        }
    }

    /// Finds what keeper and wardens left that were killed together. Call once, with every session
    /// there is a record of.
    pub fn find_lost(&self, records: &[SessionRecord]) {
        let unheld = |record: &&SessionRecord| !self.state().trees.contains_key(&record.id.0);
        let unheld: Vec<&SessionRecord> = records.iter().filter(unheld).collect();
        let unended =
            unheld.iter().any(|record| !matches!(record.state, RecordState::Ended { .. }));
        if self.confined().ever && unended {
            self.was_confined(Confined { ever: true, lost: true });
        }
        let notes: Vec<Option<Note>> =
            unheld.iter().map(|record| self.notes.read(record.id.0)).collect();
        let anybody = unended || notes.iter().any(Option::is_some);
        let marked = if anybody { tree::marked(KEY_VARIABLE) } else { HashMap::new() };
        for (record, note) in unheld.into_iter().zip(notes) {
            let (id, was_noted) = (record.id.0, note.is_some());
            let Note { warden, program, others: mut noted } = note.unwrap_or_default();
            noted.extend(marked.get(record.key.as_bytes()).into_iter().flatten());
            noted.retain(|process| process.lives());
            let warden = warden.filter(|process| process.lives());
            let program = program.filter(|process| process.lives());
            if noted.is_empty() && warden.is_none() && program.is_none() {
                if was_noted {
                    self.notes.remove(id);
                }
                continue;
            }
            tracing::warn!(session = %record.id, "an earlier host left processes of it");
            self.state().trees.insert(id, Tree { warden, program, noted, marker: None });
        }
    }

    pub fn confined(&self) -> Confined {
        *lock(&self.confined)
    }

    pub(super) fn was_confined(&self, how: Confined) {
        let mut confined = lock(&self.confined);
        let now = Confined { ever: confined.ever || how.ever, lost: confined.lost || how.lost };
        if *confined != now {
            *confined = now;
            self.notes.note_confined(now);
        }
    }

    /// The wardens of plain sessions, and those of confined ones, which are their stages. What
    /// tells them apart is the kernel's word and no file of ours: a stage is what the keeper
    /// started as the session, a warden has it below itself.
    pub fn wardens(&self) -> (Vec<u32>, Vec<u32>) {
        let state = self.state();
        let pid = |process: Process| u32::try_from(process.pid).unwrap_or(0);
        let (mut plain, mut confined) = (Vec::new(), Vec::new());
        for tree in state.trees.values() {
            match (tree.warden, tree.program) {
                (Some(warden), Some(program)) if warden.pid == program.pid => {
                    confined.push(pid(warden));
                }
                (Some(warden), _) => plain.push(pid(warden)),
                (None, _) => {}
            }
        }
        (plain, confined)
    }

    /// Everything that is known of the session's processes. `None`: there are none.
    pub(super) fn tree(&self, member: &Member) -> Option<Tree> {
        let mut tree = self.state().trees.get(&member.id.0).cloned()?;
        tree.marker = Some(format!("{KEY_VARIABLE}={}", member.key).into_bytes());
        Some(tree)
    }

    /// How many processes an ended session has left.
    pub fn count_left(&self, id: SessionId) -> usize {
        let tree = self.state().trees.get(&id.0).cloned();
        tree.map_or(0, |tree| tree.members().len())
    }

    /// Answers when nothing is left of the session.
    pub async fn nobody_left(&self, id: SessionId) {
        loop {
            let rings = self.over.notified();
            let watched = match self.state().trees.get(&id.0) {
                Some(tree) => tree.warden.is_some(),
                None => return,
            };
            // The keeper does not tell of the end of processes without a warden.
            if watched {
                rings.await;
            } else {
                let _ = tokio::time::timeout(LOOK, rings).await;
                self.forget_lost(id);
            }
        }
    }

    /// Notes the processes that a session's program left when it ended.
    pub(super) fn note_what_is_left(&self, id: u64) {
        let Some(tree) = self.state().trees.get(&id).cloned() else { return };
        let others = tree.members();
        if !others.is_empty() {
            let Tree { warden, program, .. } = tree;
            self.notes.write(id, &Note { warden, program, others });
        }
    }

    pub(super) fn nothing_left(&self, id: u64) {
        self.state().trees.remove(&id);
        self.notes.remove(id);
        self.over.notify_waiters();
    }

    /// Everything of the session is to end now.
    pub(super) fn end(&self, id: u64) {
        if self.wardens
            && let Err(error) = self.link.end(keeper::SessionId(id))
        {
            tracing::warn!(session = id, %error, "ending a session's processes");
        }
    }

    /// Forgets the processes that an earlier host left, once they have ended: no keeper tells of
    /// that.
    pub fn forget_lost(&self, id: SessionId) {
        let tree = self.state().trees.get(&id.0).cloned();
        if tree.is_some_and(|tree| tree.warden.is_none() && tree.members().is_empty()) {
            self.nothing_left(id.0);
        }
    }
}
