//! Verbs that open another door to the host.

use clap::Args;

#[derive(Debug, Args)]
pub struct WebArgs {
    /// Listen here if it does not listen yet, such as 127.0.0.1:7878
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<String>,
}

#[derive(Debug, Args)]
pub struct McpArgs {}
