//! Permission to send a conversation to a language model.

use crate::gate::rules::Generation;
use crate::ledger::Receipt;
use crate::types::{DataLabels, ModelSink, NamedRun};
#[cfg(test)]
use crate::types::{RunId, SessionId};

/// Permission to send one conversation to one model, once: bound to its `model.ask` on the ledger,
/// to the labels that it was decided with, and to the generation of rules.
#[derive(Debug)]
#[must_use = "a permission that is dropped counts as spent"]
pub struct ModelPermit {
    sink: ModelSink,
    labels: DataLabels,
    generation: Generation,
    of: NamedRun,
    seq: u64,
}

impl ModelPermit {
    /// The permission whose allow `receipt` proves durable.
    pub(in crate::gate) fn new(
        receipt: &Receipt,
        sink: ModelSink,
        labels: DataLabels,
        generation: Generation,
        of: NamedRun,
    ) -> Self {
        Self { sink, labels, generation, of, seq: receipt.seq() }
    }

    /// The model.
    #[must_use]
    pub fn sink(&self) -> &ModelSink {
        &self.sink
    }

    /// The `model.ask` on the ledger.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Whether it still allows a conversation with `labels` to be sent to `sink`: the rules are
    /// those that decided, they decided with all of these labels, and the run is not stopped.
    #[must_use]
    pub fn allows(&self, sink: &ModelSink, labels: &DataLabels) -> bool {
        let is_standing = self.generation.lapse(&self.of.with_tool(None)).is_none();
        is_standing && self.sink == *sink && self.labels.covers(labels)
    }

    /// A permission without a decision, for tests of providers.
    #[cfg(test)]
    pub(crate) fn for_test(sink: ModelSink) -> Self {
        let labels = DataLabels { seen: ["test".to_owned()].into(), ..DataLabels::untrusted() };
        let of = NamedRun {
            caller: "key:test".to_owned(),
            session: SessionId::generate(),
            run: RunId::generate(),
        };
        Self { sink, labels, generation: Generation::for_test(), of, seq: 0 }
    }
}
