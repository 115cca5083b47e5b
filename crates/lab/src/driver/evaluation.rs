//! A client's expressions: its random stream and what is audited of its draws.

use crate::distribution::{CallSite, Purpose, RandomStream};
use crate::workload::evaluate::{self, Draws};
use crate::workload::expression::Expression;
use crate::workload::script::Value;

/// What evaluating expressions needs and changes, apart from variables.
#[derive(Clone, Debug)]
pub(super) struct Evaluation {
    draws: Draws,
}

impl Evaluation {
    /// For a run whose scripts hold `call_sites` random functions.
    pub(super) fn new(seed: u64, client: u32, call_sites: usize) -> Self {
        let stream = RandomStream::new(seed, u64::from(client), Purpose::Script);
        Self { draws: Draws { stream, call_sites: vec![CallSite::default(); call_sites] } }
    }

    /// The state from which a transaction can be repeated.
    pub(super) fn random_state(&self) -> RandomStream {
        self.draws.stream.clone()
    }

    /// Draws from here on repeat those that came after `state` was taken.
    pub(super) fn restore(&mut self, state: &RandomStream) {
        self.draws.stream.clone_from(state);
    }

    /// What each random function has drawn; nothing is left behind.
    pub(super) fn take_call_sites(&mut self) -> Vec<CallSite> {
        std::mem::take(&mut self.draws.call_sites)
    }

    #[inline]
    pub(super) fn evaluate(
        &mut self,
        expression: &Expression,
        variables: &[Value],
        print: &mut dyn FnMut(&str),
    ) -> Result<Value, String> {
        evaluate::evaluate(expression, variables, &mut self.draws, print)
            .map_err(|error| error.to_string())
    }
}
