//! Who filters a session, and where that is done: on threads that step back for everybody else.
//!
//! The engine asks when a session starts or is taken over, so that none is ever without its
//! filters. A session that prints as fast as it can needs its cores; reading behind it must not
//! take them. So whoever has lines answered for runs with a lower priority: its readers are late
//! before the session is.

use std::sync::{Arc, OnceLock};

use greenroom_engine::egress::{Filters, LineFilter};
use greenroom_engine::store::SessionRecord;
use greenroom_plugins::host::{PluginHost, SessionFacts};
use greenroom_protocol::api::session::About;
use tokio::runtime::{Builder, Handle};

/// Reading the journal blocks; more at once only take turns.
const BLOCKING_MAX: usize = 4;

/// The highest is 19. A busy session gets ten times the share of a core.
const NICE: i32 = 10;

pub(crate) struct Filtering(pub PluginHost);

impl Filters for Filtering {
    fn filter_for(
        &self,
        session: &SessionRecord,
        noted: Option<&[u8]>,
    ) -> Result<Option<Arc<dyn LineFilter>>, String> {
        let facts = SessionFacts { id: session.id, labels: About::read(&session.about).labels };
        self.0.filter_for(&facts, noted)
    }

    fn place(&self) -> Option<Handle> {
        place().cloned()
    }
}

/// Made when the first session needs it, and there for the life of the process.
fn place() -> Option<&'static Handle> {
    static PLACE: OnceLock<Option<Handle>> = OnceLock::new();
    let made = PLACE.get_or_init(|| {
        let built = Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(BLOCKING_MAX)
            .thread_name("filters")
            .on_thread_start(|| {
                // A machine that refuses has a reason; the work is done all the same.
                let _ = rustix::process::nice(NICE);
            })
            .enable_all()
            .build();
        match built {
            Ok(runtime) => {
                let handle = runtime.handle().clone();
                // A runtime must not be dropped by a task; this one ends with the process.
                std::mem::forget(runtime);
                Some(handle)
            }
            Err(error) => {
                tracing::warn!(%error, "filters share the threads of everybody else");
                None
            }
        }
    });
    made.as_ref()
}
