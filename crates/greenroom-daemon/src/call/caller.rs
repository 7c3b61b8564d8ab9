//! Who is calling, and what that caller may do. Decided here and nowhere else.

use greenroom_protocol::methods::{MethodRow, Scope};
use greenroom_protocol::{Fault, FaultKind};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Caller {
    /// A process of our own user, on the socket: it could do everything by itself anyway.
    LocalUser { pid: Option<u32> },
    /// A client with the token of the HTTP listener: a browser, perhaps at the other end of a
    /// tunnel.
    Token { pid: Option<u32>, scope: Scope },
    /// A process inside of a confined session, or one of which nobody can tell: it is served
    /// nothing.
    Confined { pid: Option<u32>, why: &'static str },
}

impl Caller {
    /// It may use sessions, but not stop or replace the host, see raw output or hand out rights: a
    /// token that leaked is not the whole host.
    pub(crate) fn with_the_token(pid: Option<u32>) -> Caller {
        Caller::Token { pid, scope: Scope::Control }
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        match self {
            Caller::LocalUser { pid }
            | Caller::Token { pid, .. }
            | Caller::Confined { pid, .. } => *pid,
        }
    }

    /// May it do what needs this right?
    pub(crate) fn may(&self, needed: Scope) -> bool {
        match self {
            Caller::LocalUser { .. } => true,
            Caller::Token { scope, .. } => *scope >= needed,
            Caller::Confined { .. } => false,
        }
    }

    /// May it call this method at all? If not, what to answer.
    pub(crate) fn admitted(&self, row: &MethodRow) -> Result<(), Fault> {
        if self.may(row.scope) {
            return Ok(());
        }
        let denied = |message| Fault::new(FaultKind::PermissionDenied, message);
        let fault = match self {
            Caller::Confined { why, .. } => {
                denied(format!("not allowed to call {}: {why}", row.name)).with("reason", *why)
            }
            Caller::LocalUser { .. } | Caller::Token { .. } => {
                let needed = serde_json::to_value(row.scope).unwrap_or_default();
                denied(format!("not allowed to call {}", row.name))
                    .with("required_permission", needed)
            }
        };
        Err(fault.with("method", row.name))
    }

    /// Whether it is on this machine beyond doubt.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self, Caller::LocalUser { .. })
    }
}

#[cfg(test)]
mod tests {
    use greenroom_protocol::methods::{METHODS, Method as _, method};

    use super::*;

    #[test]
    fn the_local_user_may_everything_a_token_less_and_the_confined_nothing() {
        let token = Caller::with_the_token(None);
        let confined = Caller::Confined { pid: None, why: "inside" };
        for row in METHODS {
            assert!(Caller::LocalUser { pid: None }.admitted(row).is_ok(), "{}", row.name);
            assert_eq!(token.admitted(row).is_ok(), row.scope < Scope::Admin, "{}", row.name);
            assert!(confined.admitted(row).is_err(), "{}", row.name);
        }
    }

    #[test]
    fn a_refusal_says_what_and_why() {
        let row = method::ServerShutdown::row();
        let told = serde_json::to_value(Caller::with_the_token(None).admitted(row).unwrap_err());
        let data = &told.unwrap()["data"];
        assert_eq!(data["method"], "server.shutdown");
        assert_eq!(data["required_permission"], "admin");
        let fault = Caller::Confined { pid: None, why: "inside" }.admitted(row).unwrap_err();
        assert_eq!(fault.message, "not allowed to call server.shutdown: inside");
        assert_eq!(serde_json::to_value(fault).unwrap()["data"]["reason"], "inside");
    }
}
