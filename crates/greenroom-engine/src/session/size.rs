//! Whose window decides how large a session is.
//!
//! The last client that typed owns the size; the others see the session
//! letterboxed. A read-only client never counts. Pure: every change
//! answers with the size the session should take, if it should change.

use std::collections::BTreeMap;

use greenroom_term::Size;

use crate::id::ClientId;

#[derive(Clone, Debug)]
struct Viewer {
    size: Size,
    read_only: bool,
    /// Order of the last key press; 0 for one that never typed.
    typed: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct SizePolicy {
    viewers: BTreeMap<ClientId, Viewer>,
    owner: Option<ClientId>,
    presses: u64,
}

impl SizePolicy {
    pub(super) fn joined(&mut self, client: ClientId, size: Size, read_only: bool) -> Option<Size> {
        self.viewers.insert(client, Viewer { size, read_only, typed: 0 });
        if self.owner.is_none() && !read_only { self.own(client) } else { None }
    }

    pub(super) fn typed(&mut self, client: ClientId) -> Option<Size> {
        self.presses += 1;
        let viewer = self.viewers.get_mut(&client)?;
        if viewer.read_only {
            return None;
        }
        viewer.typed = self.presses;
        if self.owner == Some(client) { None } else { self.own(client) }
    }

    pub(super) fn resized(&mut self, client: ClientId, size: Size) -> Option<Size> {
        let viewer = self.viewers.get_mut(&client)?;
        viewer.size = size;
        (self.owner == Some(client)).then_some(size)
    }

    pub(super) fn left(&mut self, client: ClientId) -> Option<Size> {
        self.viewers.remove(&client);
        if self.owner == Some(client) { self.pass_on() } else { None }
    }

    pub(super) fn owner(&self) -> Option<ClientId> {
        self.owner
    }

    pub(super) fn viewer_size(&self, client: ClientId) -> Option<Size> {
        self.viewers.get(&client).map(|viewer| viewer.size)
    }

    pub(super) fn count(&self) -> usize {
        self.viewers.len()
    }

    fn own(&mut self, client: ClientId) -> Option<Size> {
        self.owner = Some(client);
        self.viewers.get(&client).map(|viewer| viewer.size)
    }

    /// The owner is gone: the latest typist left takes over, else nobody does
    /// and the session keeps its size.
    fn pass_on(&mut self) -> Option<Size> {
        let heir = self
            .viewers
            .iter()
            .filter(|(_, viewer)| !viewer.read_only)
            .max_by_key(|(id, viewer)| (viewer.typed, std::cmp::Reverse(**id)))
            .map(|(id, _)| *id);
        self.owner = heir;
        heir.and_then(|client| self.own(client))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ClientId = ClientId(1);
    const B: ClientId = ClientId(2);
    const C: ClientId = ClientId(3);

    fn size(cols: u16, rows: u16) -> Size {
        Size::new(cols, rows).unwrap()
    }

    #[test]
    fn the_last_typist_owns_the_size() {
        let mut policy = SizePolicy::default();
        assert_eq!(policy.joined(A, size(80, 24), false), Some(size(80, 24)));
        assert_eq!(policy.joined(B, size(40, 10), false), None);
        assert_eq!(policy.typed(B), Some(size(40, 10)));
        assert_eq!(policy.resized(A, size(90, 30)), None);
        assert_eq!(policy.typed(A), Some(size(90, 30)));
        assert_eq!(policy.typed(A), None);
        assert_eq!(policy.resized(A, size(91, 31)), Some(size(91, 31)));
    }

    #[test]
    fn read_only_clients_never_count() {
        let mut policy = SizePolicy::default();
        assert_eq!(policy.joined(A, size(10, 10), true), None);
        assert_eq!(policy.typed(A), None);
        assert_eq!(policy.joined(B, size(80, 24), false), Some(size(80, 24)));
        assert_eq!(policy.joined(C, size(50, 20), true), None);
        assert_eq!(policy.typed(C), None);
        assert_eq!(policy.left(B), None);
        assert_eq!(policy.owner(), None);
    }

    #[test]
    fn leaving_passes_the_size_to_the_latest_typist() {
        let mut policy = SizePolicy::default();
        policy.joined(A, size(80, 24), false);
        policy.joined(B, size(60, 20), false);
        policy.joined(C, size(70, 22), false);
        policy.typed(C);
        policy.typed(A);
        assert_eq!(policy.left(A), Some(size(70, 22)));
        assert_eq!(policy.left(C), Some(size(60, 20)));
        assert_eq!(policy.left(B), None);
        assert_eq!(policy.owner(), None);
        assert_eq!(policy.count(), 0);
    }
}
