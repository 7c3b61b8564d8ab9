//! A setting that may be given anew while the host runs.
//!
//! Clones share it. A reader gets one consistent value for as long as it is held.

use std::sync::{Arc, PoisonError, RwLock};

#[derive(Debug)]
pub struct Live<T>(Arc<RwLock<Arc<T>>>);

impl<T> Live<T> {
    pub fn new(value: T) -> Live<T> {
        Live(Arc::new(RwLock::new(Arc::new(value))))
    }

    /// As it is now.
    pub fn now(&self) -> Arc<T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on.
    pub fn set(&self, value: T) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(value);
    }
}

impl<T> Clone for Live<T> {
    fn clone(&self) -> Live<T> {
        Live(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_see_what_is_set_and_readers_keep_what_they_read() {
        let live = Live::new(1);
        let (other, before) = (live.clone(), live.now());
        other.set(2);
        assert_eq!((*before, *live.now()), (1, 2));
    }
}
