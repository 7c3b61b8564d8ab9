//! Locks, and work that blocks.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::task::{JoinError, spawn_blocking};

/// A thread that panicked with it left what it holds in order: nothing here is changed in two
/// steps.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Git and the disk block: on a thread where that is allowed. Work that broke down is an error like
/// any other.
pub async fn blocking<T, E>(work: impl FnOnce() -> Result<T, E> + Send + 'static) -> Result<T, E>
where
    T: Send + 'static,
    E: From<JoinError> + Send + 'static,
{
    spawn_blocking(work).await.unwrap_or_else(|died| Err(died.into()))
}
