//! Which policy: one of the registry's, or the simulator's own clairvoyant optimum.

use std::fmt;

use evenkeel_replacement::KeySpace;
use evenkeel_replacement::policy::Policy;
use evenkeel_replacement::registry::{
    BuildError, OPTIMUM, PolicySpecification, PolicyVisitor, Registry, SpecificationError,
};

use crate::dense::DenseTrace;
use crate::optimum::{NextUses, simulate_optimum};
use crate::simulate::{Observer, Simulated, SimulationOptions, simulate};

/// A policy that can be simulated.
#[derive(Clone, Debug, PartialEq)]
pub enum Choice {
    /// A policy that a pool can have, too.
    Policy(PolicySpecification),
    /// The clairvoyant optimum.
    Optimum,
}

impl Choice {
    /// Everything there is with its defaults: the registry's policies, then the optimum.
    #[must_use]
    pub fn all(registry: &Registry) -> Vec<Self> {
        registry.defaults().into_iter().map(Self::Policy).chain([Self::Optimum]).collect()
    }

    /// Reads choices separated by commas: `lru, clock_sweep(cap=10, delay_ms=3000), optimum`.
    ///
    /// # Errors
    /// With the column and what would be right.
    pub fn parse_list(registry: &Registry, text: &str) -> Result<Vec<Self>, SpecificationError> {
        let mut choices = Vec::new();
        let mut column = 0;
        for piece in pieces(text) {
            if piece.trim() == OPTIMUM {
                choices.push(Self::Optimum);
            } else {
                let parsed = registry.parse(piece).map_err(|error| SpecificationError {
                    column: error.column + column,
                    ..error
                })?;
                choices.push(Self::Policy(parsed));
            }
            column += piece.chars().count() + 1;
        }
        Ok(choices)
    }

    /// Runs it with `frames` frames over `trace`. `next_uses` is called for the optimum only.
    /// `Ok(None)` when `observer` ended the run.
    ///
    /// # Errors
    /// When a policy cannot have so many frames.
    pub fn simulate<'n>(
        &self,
        frames: u32,
        trace: &DenseTrace,
        next_uses: impl FnOnce() -> &'n NextUses,
        seed: u64,
        options: &SimulationOptions,
        observer: &impl Observer,
    ) -> Result<Option<Simulated>, BuildError> {
        // A cache larger than the trace's pages does what one of their number does, except that
        // shares of its frames are larger; frames that are never used cost memory only.
        match self {
            Self::Optimum if frames == 0 => Err(BuildError::Frames(frames)),
            Self::Optimum => Ok(simulate_optimum(frames, trace, next_uses(), options, observer)),
            Self::Policy(specification) => specification.visit(
                frames,
                KeySpace::Dense(trace.pages()),
                seed,
                Simulation { frames, trace, options, observer },
            ),
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy(specification) => specification.fmt(to),
            Self::Optimum => to.write_str(OPTIMUM),
        }
    }
}

/// A list's pieces: commas in parentheses separate parameters.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_u32;
    text.split(move |letter: char| {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    })
}

struct Simulation<'s, O> {
    frames: u32,
    trace: &'s DenseTrace,
    options: &'s SimulationOptions,
    observer: &'s O,
}

impl<O: Observer> PolicyVisitor for Simulation<'_, O> {
    type Output = Option<Simulated>;

    fn visit<P: Policy + 'static>(self, policy: P) -> Self::Output {
        simulate(policy, self.frames, self.trace, self.options, self.observer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_policies_with_parameters_and_the_optimum() {
        let registry = Registry::standard();
        let text = "lru, optimum ,clock_sweep(cap=10, delay_ms=3000)";
        let choices = Choice::parse_list(&registry, text).unwrap();
        let printed: Vec<String> = choices.iter().map(ToString::to_string).collect();
        assert_eq!(printed, ["lru", "optimum", "clock_sweep(cap=10, delay_ms=3000)"]);
        assert_eq!(Choice::all(&registry).last(), Some(&Choice::Optimum));
    }

    #[test]
    fn an_error_names_the_column_of_the_whole_list() {
        let registry = Registry::standard();
        for (text, column) in [("lru,clok", 5), ("lru, optimum,", 14), ("", 1), ("lru(x=1)", 5)] {
            let error = Choice::parse_list(&registry, text).unwrap_err();
            assert_eq!(error.column, column, "{text}: {error}");
        }
    }
}
