//! Hook plugins of this host: who asks them, and where they come from.
//!
//! Set once when the daemon starts; until then, and where plugins are off, `plugin.*` answers `plugins disabled`.

use std::sync::{Arc, OnceLock};

use greenroom_plugins::host::PluginHost;
use greenroom_plugins::store::Store;

/// What `plugin.*` works on.
pub struct Plugins {
    pub host: PluginHost,
    pub store: Arc<Store>,
    /// `serve --allow-plugin-load`: clients may load manifests.
    pub allow_load: bool,
}

/// In [`crate::host::Host`].
pub type PluginsSlot = OnceLock<Plugins>;
