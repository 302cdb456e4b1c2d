//! The powers of the API itself, as opposed to tools: actions of the schema, in the group `api`.

use cedar_policy::{ActionConstraint, Effect, EntityUid, Policy, PrincipalConstraint, ResourceConstraint};

/// A power of the API itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Power {
    /// Run the agent.
    Run,
    /// Read a run.
    RunRead,
    /// Read the ledger.
    AuditRead,
    /// Read an approval.
    ApprovalRead,
    /// Answer an approval.
    Approve,
    /// Make, list and revoke keys.
    KeyManage,
    /// List the tools.
    ToolsRead,
    /// Read the server's health.
    HealthRead,
    /// Load the rules on disk and put them in force.
    Reload,
    /// Erase payloads on the ledger.
    Redact,
    /// Export entries of the ledger into one file.
    Export,
    /// Cancel a run.
    RunCancel,
    /// Halt PAR, a caller, a tool or a session, and lift a halt.
    Halt,
}

/// The action group of all powers. Contains no tool.
pub(super) const GROUP: &str = "api";

impl Power {
    /// Every power.
    pub const ALL: [Self; 13] = [
        Self::Run,
        Self::RunRead,
        Self::AuditRead,
        Self::ApprovalRead,
        Self::Approve,
        Self::KeyManage,
        Self::ToolsRead,
        Self::HealthRead,
        Self::Reload,
        Self::Redact,
        Self::Export,
        Self::RunCancel,
        Self::Halt,
    ];

    /// The name of the action.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::RunRead => "run_read",
            Self::AuditRead => "audit_read",
            Self::ApprovalRead => "approval_read",
            Self::Approve => "approve",
            Self::KeyManage => "key_manage",
            Self::ToolsRead => "tools_read",
            Self::HealthRead => "health_read",
            Self::Reload => "reload",
            Self::Redact => "redact",
            Self::Export => "export",
            Self::RunCancel => "run_cancel",
            Self::Halt => "halt",
        }
    }

    /// The power of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|power| power.as_str() == name)
    }

    /// The type of its resource.
    #[must_use]
    pub fn over(self) -> HeldOver {
        match self {
            Self::RunRead | Self::RunCancel => HeldOver::Run,
            Self::ApprovalRead | Self::Approve => HeldOver::Approval,
            Self::Run
            | Self::AuditRead
            | Self::KeyManage
            | Self::ToolsRead
            | Self::HealthRead
            | Self::Reload
            | Self::Redact
            | Self::Export
            | Self::Halt => HeldOver::Server,
        }
    }
}

/// The resource type of a power. Every type but the server has an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the meaning")]
pub enum HeldOver {
    Server,
    Run,
    Approval,
}

impl HeldOver {
    /// The name of the type in policies.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Server => "Server",
            Self::Run => "Run",
            Self::Approval => "Approval",
        }
    }
}

/// Whether the scope of `policy` can match a use of `power`, by any principal.
pub(super) fn fits_power(policy: &Policy, power: Power) -> bool {
    let names = |uid: &EntityUid| [power.as_str(), GROUP].contains(&uid.id().unescaped());
    let is_over = |kind: &cedar_policy::EntityTypeName| kind.basename() == power.over().as_str();
    let of_action = match policy.action_constraint() {
        ActionConstraint::Any => true,
        ActionConstraint::In(uids) => uids.iter().any(names),
        ActionConstraint::Eq(uid) => names(&uid),
    };
    // The schema has one type of principal for all powers, and one type of resource for each.
    let of_principal = match policy.principal_constraint() {
        PrincipalConstraint::Is(kind) | PrincipalConstraint::IsIn(kind, _) => kind.basename() == "Caller",
        PrincipalConstraint::Eq(uid) => uid.type_name().basename() == "Caller",
        PrincipalConstraint::Any | PrincipalConstraint::In(_) => true,
    };
    let of_resource = match policy.resource_constraint() {
        ResourceConstraint::Is(kind) | ResourceConstraint::IsIn(kind, _) => is_over(&kind),
        ResourceConstraint::In(uid) | ResourceConstraint::Eq(uid) => is_over(uid.type_name()),
        ResourceConstraint::Any => true,
    };
    of_action && of_principal && of_resource
}

/// Whether `policy` permits a power, and is not in shadow mode.
pub(super) fn permits_powers(policy: &Policy) -> bool {
    let decides = policy.annotation("mode").is_none();
    decides
        && policy.effect() == Effect::Permit
        && Power::ALL.into_iter().any(|power| fits_power(policy, power))
}

#[cfg(test)]
mod tests {
    use super::Power;
    use crate::tools::POWERS;

    #[test]
    fn no_tool_can_have_the_name_of_a_power() {
        assert_eq!(Power::ALL.map(Power::as_str), POWERS);
        for power in Power::ALL {
            assert_eq!(Power::parse(power.as_str()), Some(power));
        }
    }
}
