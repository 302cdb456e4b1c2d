//! Permission to send a conversation to a language model.

use crate::gate::rules::Generation;
use crate::ledger::Receipt;
use crate::types::{DataLabels, ModelSink};

/// Permission to send one conversation to one model, once: bound to its `model.ask` on the ledger,
/// to the labels that it was decided with, and to the generation of rules.
#[derive(Debug)]
#[must_use = "a permission that is dropped counts as spent"]
pub struct ModelPermit {
    sink: ModelSink,
    labels: DataLabels,
    generation: Generation,
    seq: u64,
}

impl ModelPermit {
    /// The permission whose allow `receipt` proves durable.
    pub(in crate::gate) fn new(
        receipt: &Receipt,
        sink: ModelSink,
        labels: DataLabels,
        generation: Generation,
    ) -> Self {
        Self { sink, labels, generation, seq: receipt.seq() }
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
    /// those that decided, and they decided with all of these labels.
    #[must_use]
    pub fn allows(&self, sink: &ModelSink, labels: &DataLabels) -> bool {
        self.generation.is_current() && self.sink == *sink && self.labels.covers(labels)
    }

    /// A permission without a decision, for tests of providers.
    #[cfg(test)]
    pub(crate) fn for_test(sink: ModelSink) -> Self {
        let labels = DataLabels { seen: ["test".to_owned()].into(), ..DataLabels::untrusted() };
        Self { sink, labels, generation: Generation::for_test(), seq: 0 }
    }
}
