//! A client's expressions: its random stream and what is audited of its draws.

use crate::distribution::{Purpose, RandomStream};
use crate::workload::expression::Expression;
use crate::workload::script::Value;

/// What evaluating expressions needs and changes, apart from variables.
#[derive(Clone, Debug)]
pub(super) struct Evaluation {
    stream: RandomStream,
}

impl Evaluation {
    pub(super) fn new(seed: u64, client: u32) -> Self {
        Self { stream: RandomStream::new(seed, u64::from(client), Purpose::Script) }
    }

    /// The state from which a transaction can be repeated.
    pub(super) fn random_state(&self) -> RandomStream {
        self.stream.clone()
    }

    /// Draws from here on repeat those that came after `state` was taken.
    pub(super) fn restore(&mut self, state: &RandomStream) {
        self.stream.clone_from(state);
    }

    pub(super) fn evaluate(
        &mut self,
        _expression: &Expression,
        _variables: &[Value],
    ) -> Result<Value, String> {
        Err("expressions are not evaluated yet".to_owned())
    }
}
