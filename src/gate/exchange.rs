//! Exchanges the rules while calls are under way.

use super::point::Gate;
use super::rules::Rules;
use crate::ledger::{AppendError, Draft, Receipt};

impl Gate {
    /// Puts `rules` in force once `drafts`, which record them, are durable. Calls `prepared` in
    /// between, for what must be in place before the first call under the new rules.
    ///
    /// Waits for decisions that are being written. On an error nothing changes.
    pub async fn exchange(
        &self,
        rules: Rules,
        drafts: Vec<Draft>,
        prepared: impl FnOnce(),
    ) -> Result<Vec<Receipt>, AppendError> {
        let alone = self.in_force.turn.write().await;
        let receipts = self.ledger().append(drafts).await?;
        // From here on the ledger says that the new rules count: nothing is decided before they do.
        prepared();
        self.in_force.set(rules);
        drop(alone);
        // Requests made under the old rules must be decided again.
        self.stir();
        Ok(receipts)
    }
}
