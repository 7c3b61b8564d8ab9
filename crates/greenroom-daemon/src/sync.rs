//! Locks that outlive a panic, waiting for a condition, and work that blocks, off the threads that
//! serve others.

use std::sync::{Mutex, MutexGuard, PoisonError};

use greenroom_protocol::{Fault, FaultKind};
use tokio::sync::Notify;

/// What a lock guards here is whole after every statement, so a panic of one holder does not spoil
/// it for the others.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until `holds`. The task that changes it has to notify the waiters of `changed`.
pub(crate) async fn until(changed: &Notify, holds: impl Fn() -> bool) {
    loop {
        // Listening before looking: a change in between is not missed.
        let notified = changed.notified();
        if holds() {
            return;
        }
        notified.await;
    }
}

/// Does work that reads disks or waits for other programs. Only a panic of `work` is an error here.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Fault> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Fault::new(FaultKind::Internal, format!("our bug: {error}")))
}
