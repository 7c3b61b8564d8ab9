//! Memory of screens that went to sleep, given back to the system.
//!
//! The C library keeps what is freed in the middle of its heap. A screen is
//! thousands of small pieces, so a hundred sessions that each printed a line
//! would otherwise hold some megabytes for ever (measured: 7.3 against 3.3).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Sessions that fall asleep together are trimmed together.
const TOGETHER: Duration = Duration::from_secs(1);

static DUE: AtomicBool = AtomicBool::new(false);

/// Trims the heap a moment from now, once for all who ask until then.
pub(super) fn trim_soon() {
    if DUE.swap(true, Ordering::AcqRel) {
        return;
    }
    tokio::spawn(async {
        tokio::time::sleep(TOGETHER).await;
        DUE.store(false, Ordering::Release);
        // It walks the whole heap: milliseconds, not for a worker.
        let _ = tokio::task::spawn_blocking(trim).await;
    });
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "a call of the C library")]
fn trim() {
    // SAFETY: takes no pointer, may be called at any time from any thread.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn trim() {}
