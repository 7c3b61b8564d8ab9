//! One typed call per row of the method table, by the names of the wire.
//!
//! `session.attach` is [`Client::attach`], since it takes over a connection.

use greenroom_protocol::api::Empty;
use greenroom_protocol::api::fence::*;
use greenroom_protocol::api::notice::*;
use greenroom_protocol::api::plugin::*;
use greenroom_protocol::api::redact::*;
use greenroom_protocol::api::run::*;
use greenroom_protocol::api::screen::{
    Snapshot, SnapshotParams, TranscriptParams, TranscriptResult,
};
use greenroom_protocol::api::server::*;
use greenroom_protocol::api::session::*;

use crate::client::Client;
use crate::error::ClientError;

macro_rules! calls {
    ($($name:ident $method:literal ($params:ty) -> $result:ty;)*) => {
        impl Client {
            $(
                #[doc = concat!("`", $method, "`.")]
                pub async fn $name(&self, params: &$params) -> Result<$result, ClientError> {
                    self.call($method, params).await
                }
            )*
        }

        /// The methods with a typed call.
        pub const TYPED_METHODS: &[&str] = &[
            "server.capabilities", "server.stats", "server.set_notifications", "session.wait", "session.attach",
            $($method,)*
        ];
    };
}

calls! {
    server_hello "server.hello" (HelloParams) -> HelloResult;
    server_subscribe "server.subscribe" (SubscribeParams) -> SubscribeResult;
    server_unsubscribe "server.unsubscribe" (UnsubscribeParams) -> UnsubscribeResult;
    server_shutdown "server.shutdown" (ShutdownParams) -> ShutdownResult;
    server_upgrade "server.upgrade" (UpgradeParams) -> UpgradeResult;
    server_reload "server.reload" (Empty) -> ReloadResult;
    server_schema "server.schema" (SchemaParams) -> SchemaResult;
    server_web "server.web" (WebParams) -> WebResult;
    session_create "session.create" (CreateParams) -> CreateResult;
    session_list "session.list" (ListParams) -> ListResult;
    session_info "session.info" (InfoParams) -> SessionInfo;
    session_input "session.input" (InputParams) -> InputResult;
    session_cancel_wait "session.cancel_wait" (CancelWaitParams) -> CancelWaitResult;
    session_snapshot "session.snapshot" (SnapshotParams) -> Snapshot;
    session_transcript "session.transcript" (TranscriptParams) -> TranscriptResult;
    session_resize "session.resize" (ResizeParams) -> ResizeResult;
    session_kill "session.kill" (KillParams) -> KillResult;
    session_close "session.close" (CloseParams) -> CloseResult;
    session_rename "session.rename" (RenameParams) -> RenameResult;
    session_signal "session.signal" (SignalParams) -> SignalResult;
    session_subscribe "session.subscribe" (OutputSubscribeParams) -> OutputSubscribeResult;
    session_mark "session.mark" (MarkParams) -> MarkResult;
    session_replay "session.replay" (ReplayParams) -> ReplayResult;
    session_export "session.export" (ExportParams) -> ExportResult;
    worktree_list "worktree.list" (Empty) -> WorktreeListResult;
    worktree_clean "worktree.clean" (WorktreeCleanParams) -> WorktreeCleanResult;
    worktree_info "worktree.info" (WorktreeParams) -> WorktreeEntry;
    worktree_diff "worktree.diff" (WorktreeDiffParams) -> WorktreeDiffResult;
    worktree_merge "worktree.merge" (WorktreeMergeParams) -> WorktreeMergeResult;
    worktree_remove "worktree.remove" (WorktreeRemoveParams) -> WorktreeRemoveResult;
    sandbox_doctor "sandbox.doctor" (Empty) -> SandboxDoctorResult;
    sandbox_explain "sandbox.explain" (CreateParams) -> SandboxExplainResult;
    plugin_list "plugin.list" (Empty) -> PluginListResult;
    plugin_get "plugin.get" (PluginParams) -> PluginGetResult;
    plugin_reload "plugin.reload" (PluginReloadParams) -> PluginReloadResult;
    plugin_enable "plugin.enable" (PluginParams) -> PluginSwitched;
    plugin_disable "plugin.disable" (PluginParams) -> PluginSwitched;
    plugin_test "plugin.test" (PluginTestParams) -> PluginTestResult;
    plugin_order "plugin.order" (PluginOrderParams) -> PluginOrderResult;
    plugin_stats "plugin.stats" (PluginStatsParams) -> PluginStatsResult;
    plugin_logs "plugin.logs" (PluginLogsParams) -> PluginLogsResult;
    plugin_add "plugin.add" (PluginAddParams) -> PluginAddResult;
    plugin_link "plugin.link" (PluginLinkParams) -> PluginGranted;
    plugin_remove "plugin.remove" (PluginParams) -> PluginRemoved;
    plugin_grant "plugin.grant" (PluginGrantParams) -> PluginGranted;
    plugin_revoke "plugin.revoke" (PluginParams) -> PluginGranted;
    plugin_pending "plugin.pending" (Empty) -> PluginPendingResult;
    plugin_capabilities "plugin.capabilities" (Empty) -> PluginCapabilitiesResult;
    plugin_validate_manifest "plugin.validate_manifest" (ValidateManifestParams) -> ValidateManifestResult;
    plugin_describe "plugin.describe" (PluginParams) -> PluginDescribeResult;
    plugin_load "plugin.load" (PluginLoadParams) -> PluginLoadResult;
    plugin_unload "plugin.unload" (PluginUnloadParams) -> PluginUnloadResult;
    redact_test "redact.test" (RedactTestParams) -> RedactTestResult;
    alert_raise "alert.raise" (AlertParams) -> AlertResult;
    hook_emit "hook.emit" (EmitParams) -> EmitResult;
    approval_list "approval.list" (Empty) -> ApprovalsResult;
    approval_resolve "approval.resolve" (ResolveParams) -> ResolveResult;
    run_start "run.start" (RunStartParams) -> RunStartResult;
    run_list "run.list" (RunListParams) -> RunListResult;
    run_info "run.info" (RunParams) -> RunInfo;
    run_cancel "run.cancel" (RunParams) -> RunCancelResult;
}

impl Client {
    /// `server.capabilities`.
    pub async fn server_capabilities(&self) -> Result<CapabilitiesResult, ClientError> {
        self.call("server.capabilities", &Empty {}).await
    }

    /// `server.stats`.
    pub async fn server_stats(&self) -> Result<StatsResult, ClientError> {
        self.call("server.stats", &Empty {}).await
    }

    /// `session.list` with objects.
    pub async fn sessions(&self) -> Result<Vec<SessionInfo>, ClientError> {
        let listed =
            self.session_list(&ListParams { detail: true, ..ListParams::default() }).await?;
        let info = |entry| match entry {
            Listed::Info(info) => Some(*info),
            Listed::Id(_) => None,
        };
        Ok(listed.sessions.into_iter().filter_map(info).collect())
    }
}

#[cfg(test)]
mod tests {
    use greenroom_protocol::methods::METHODS;

    use super::TYPED_METHODS;

    #[test]
    fn every_row_of_the_table_has_a_call() {
        for method in METHODS {
            assert!(TYPED_METHODS.contains(&method.name), "{}", method.name);
        }
        assert_eq!(TYPED_METHODS.len(), METHODS.len());
    }
}
