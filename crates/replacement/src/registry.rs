//! Policies by name: those of this crate and a user's own.
//!
//! ```
//! use evenkeel_replacement::registry::{PolicySpecification, Registry};
//! use evenkeel_replacement::KeySpace;
//!
//! let chosen: PolicySpecification = "clock_sweep( delay_ms = 3000, cap=10, initial=1 )".parse()?;
//! assert_eq!(chosen.to_string(), "clock_sweep(cap=10, delay_ms=3000)");
//! let policy = chosen.build(16_384, KeySpace::Hashed, 1)?;
//! assert_eq!(policy.resident(), 0);
//! let several = Registry::standard().parse_list("lru, lru_k(k=3), arc")?;
//! assert_eq!(several.len(), 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::catalogue::BuiltIn;
use crate::ghost::KeySpace;
use crate::policy::{MAX_FRAMES, Policy};
pub use crate::specification::{
    Arguments, Fault as SpecificationFault, ParameterDescription, ParameterKind, PolicyDescription,
    SpecificationError, Value,
};
use crate::specification::{Fault, Reader, nearest, print, values_of};

/// The name of the clairvoyant optimum, which the simulator has and this crate refuses.
pub const OPTIMUM: &str = "optimum";

/// Receives a policy by its own type, so that a loop over millions of references is compiled for it.
pub trait PolicyVisitor {
    /// What comes out.
    type Output;

    /// Uses `policy`.
    fn visit<P: Policy + 'static>(self, policy: P) -> Self::Output;
}

/// Makes a user's own policy: values of its parameters, frames, how pages are numbered, a seed.
pub type Constructor =
    dyn Fn(Arguments<'_>, u32, KeySpace, u64) -> Box<dyn Policy> + Send + Sync + 'static;

#[derive(Clone)]
enum Origin {
    BuiltIn(BuiltIn),
    Own(&'static PolicyDescription, Arc<Constructor>),
}

impl Origin {
    const fn description(&self) -> &'static PolicyDescription {
        match self {
            Self::BuiltIn(policy) => policy.description(),
            Self::Own(description, _) => description,
        }
    }
}

/// A policy with the values of all its parameters. Prints only what differs from the defaults.
#[derive(Clone)]
pub struct PolicySpecification {
    origin: Origin,
    values: Vec<Value>,
}

/// A policy could not be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// The size is zero or above [`MAX_FRAMES`].
    #[error("a cache has 1 to {MAX_FRAMES} frames, not {0}: choose another size")]
    Frames(u32),
}

impl PolicySpecification {
    /// The policy's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.description().name
    }

    /// The policy's description.
    #[must_use]
    pub fn description(&self) -> &'static PolicyDescription {
        self.origin.description()
    }

    /// The values of all parameters.
    #[must_use]
    pub fn arguments(&self) -> Arguments<'_> {
        Arguments::new(self.description(), &self.values)
    }

    /// Builds the policy for `frames` frames and hands it to `visitor` by its own type (a user's own
    /// policy as `Box<dyn Policy>`). `seed` matters to policies that draw.
    ///
    /// # Errors
    /// When `frames` is zero or above [`MAX_FRAMES`].
    pub fn visit<V: PolicyVisitor>(
        &self,
        frames: u32,
        space: KeySpace,
        seed: u64,
        visitor: V,
    ) -> Result<V::Output, BuildError> {
        if frames == 0 || frames > MAX_FRAMES {
            return Err(BuildError::Frames(frames));
        }
        Ok(match &self.origin {
            Origin::BuiltIn(policy) => policy.visit(self.arguments(), frames, space, seed, visitor),
            Origin::Own(_, make) => visitor.visit(make(self.arguments(), frames, space, seed)),
        })
    }

    /// Builds the policy for a pool, which calls it once a miss.
    ///
    /// # Errors
    /// As [`PolicySpecification::visit`].
    pub fn build(
        &self,
        frames: u32,
        space: KeySpace,
        seed: u64,
    ) -> Result<Box<dyn Policy>, BuildError> {
        self.visit(frames, space, seed, Boxed)
    }
}

struct Boxed;

impl PolicyVisitor for Boxed {
    type Output = Box<dyn Policy>;

    fn visit<P: Policy + 'static>(self, policy: P) -> Self::Output {
        Box::new(policy)
    }
}

impl PartialEq for PolicySpecification {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name() && self.values == other.values
    }
}

impl fmt::Display for PolicySpecification {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(self.description(), &self.values, to)
    }
}

impl fmt::Debug for PolicySpecification {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "PolicySpecification({self})")
    }
}

impl FromStr for PolicySpecification {
    type Err = SpecificationError;

    /// Reads one of this crate's policies; a [`Registry`] knows a user's own as well.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Registry::standard().parse(text)
    }
}

/// All policies that may be named.
#[derive(Clone)]
pub struct Registry {
    origins: Vec<Origin>,
}

impl fmt::Debug for Registry {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_list().entries(self.descriptions().map(|known| known.name)).finish()
    }
}

/// A policy of one's own could not be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistrationError {
    /// The name, or that of a parameter, could not be written in a specification.
    #[error("\"{0}\" is no name: use lower-case letters, digits and _, a letter first")]
    Name(&'static str),
    /// The name, or that of a parameter, exists.
    #[error("the name \"{0}\" is taken: choose another")]
    Taken(&'static str),
    /// A default is not of its own kind or out of its own range.
    #[error("the default of \"{0}\" is out of its own range")]
    Default(&'static str),
}

impl Default for Registry {
    fn default() -> Self {
        Self::standard()
    }
}

impl Registry {
    /// The policies of this crate.
    #[must_use]
    pub fn standard() -> Self {
        Self { origins: BuiltIn::ALL.iter().copied().map(Origin::BuiltIn).collect() }
    }

    /// Adds a policy of one's own. `examples/own_policy.rs` shows one.
    ///
    /// # Errors
    /// When a name is taken or no name, or a default is out of its range.
    pub fn add(
        &mut self,
        description: &'static PolicyDescription,
        make: impl Fn(Arguments<'_>, u32, KeySpace, u64) -> Box<dyn Policy> + Send + Sync + 'static,
    ) -> Result<(), RegistrationError> {
        let name = description.name;
        if !is_name(name) {
            return Err(RegistrationError::Name(name));
        }
        if name == OPTIMUM || self.descriptions().any(|known| known.name == name) {
            return Err(RegistrationError::Taken(name));
        }
        for (place, parameter) in description.parameters.iter().enumerate() {
            if !is_name(parameter.name) {
                return Err(RegistrationError::Name(parameter.name));
            }
            let before = &description.parameters[..place];
            if before.iter().any(|known| known.name == parameter.name) {
                return Err(RegistrationError::Taken(parameter.name));
            }
            if !parameter.kind.allows(parameter.default) {
                return Err(RegistrationError::Default(parameter.name));
            }
        }
        self.origins.push(Origin::Own(description, Arc::new(make)));
        Ok(())
    }

    /// What there is, in the order of listing: this crate's policies, then one's own.
    pub fn descriptions(&self) -> impl Iterator<Item = &'static PolicyDescription> + '_ {
        self.origins.iter().map(Origin::description)
    }

    /// All policies with their defaults, as for a comparison of everything.
    #[must_use]
    pub fn defaults(&self) -> Vec<PolicySpecification> {
        self.origins
            .iter()
            .map(|origin| PolicySpecification {
                origin: origin.clone(),
                values: origin.description().parameters.iter().map(|known| known.default).collect(),
            })
            .collect()
    }

    /// Reads one specification.
    ///
    /// # Errors
    /// With the column and what would be right.
    pub fn parse(&self, text: &str) -> Result<PolicySpecification, SpecificationError> {
        let mut reader = Reader::new(text);
        let one = self.read(&mut reader)?;
        if reader.is_at_end() { Ok(one) } else { reader.fail_expected("the end") }
    }

    /// Reads specifications separated by commas: `lru, clock_sweep(cap=10, delay_ms=3000)`.
    ///
    /// # Errors
    /// With the column and what would be right.
    pub fn parse_list(&self, text: &str) -> Result<Vec<PolicySpecification>, SpecificationError> {
        let mut reader = Reader::new(text);
        let mut several = vec![self.read(&mut reader)?];
        while reader.takes(',') {
            several.push(self.read(&mut reader)?);
        }
        if reader.is_at_end() {
            Ok(several)
        } else {
            reader.fail_expected("\",\" and a policy, or the end")
        }
    }

    fn read(&self, reader: &mut Reader<'_>) -> Result<PolicySpecification, SpecificationError> {
        let (name, name_at) = reader.word();
        if name.is_empty() {
            let (found, at) = reader.found();
            return reader.error(at, Fault::PolicyExpected { found });
        }
        let Some(origin) = self.origins.iter().find(|known| known.description().name == name)
        else {
            if name == OPTIMUM {
                return reader.error(name_at, Fault::OptimumIsOffline);
            }
            let names = || self.descriptions().map(|known| known.name);
            let fault = Fault::UnknownPolicy {
                name: name.to_owned(),
                nearest: nearest(name, names()),
                known: names().collect::<Vec<_>>().join(" "),
            };
            return reader.error(name_at, fault);
        };
        let description = origin.description();
        let given = reader.parameters()?;
        let values = values_of(reader, description, &given)?;
        if let Origin::BuiltIn(policy) = origin
            && let Some((parameter, text)) =
                policy.contradiction(Arguments::new(description, &values))
        {
            let at = given
                .iter()
                .find(|one| one.name == parameter)
                .or(given.first())
                .map_or(name_at, |one| one.value_at);
            return reader.error(at, Fault::Contradiction(text));
        }
        Ok(PolicySpecification { origin: origin.clone(), values })
    }
}

fn is_name(text: &str) -> bool {
    text.starts_with(|letter: char| letter.is_ascii_lowercase())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value_of(kind: ParameterKind, chance: u64) -> Value {
        #[allow(clippy::cast_precision_loss, reason = "a share of the range, for a test")]
        let share = (chance >> 11) as f64 / (1_u64 << 53) as f64;
        match kind {
            ParameterKind::Integer { minimum, maximum } => {
                let width = u64::from(maximum - minimum) + 1;
                Value::Integer(minimum + u32::try_from(chance % width).unwrap())
            }
            ParameterKind::Real { minimum, maximum } => {
                Value::Real((minimum + share * (maximum - minimum)).clamp(minimum, maximum))
            }
            ParameterKind::Flag => Value::Flag(chance.is_multiple_of(2)),
            ParameterKind::Word(words) => {
                Value::Word(words[usize::try_from(chance).unwrap() % words.len()])
            }
        }
    }

    #[test]
    fn what_is_printed_reads_back_as_the_same_policy() {
        let registry = Registry::standard();
        proptest!(|(place in 0..BuiltIn::ALL.len(), chances in proptest::collection::vec(any::<u64>(), 8))| {
            let mut one = registry.defaults().swap_remove(place);
            for (number, known) in one.description().parameters.iter().enumerate() {
                if !chances[number].is_multiple_of(3) {
                    one.values[number] = value_of(known.kind, chances[number] / 3);
                }
            }
            let text = one.to_string();
            match registry.parse(&text) {
                Ok(read) => prop_assert_eq!(read, one),
                // The only text printed here that may be refused.
                Err(error) => prop_assert!(matches!(error.fault, Fault::Contradiction(_)), "{text}: {error}"),
            }
        });
    }

    #[test]
    fn any_text_gives_a_policy_or_an_error_within_the_text() {
        let registry = Registry::standard();
        let some = "(lru|clock_sweep|two_q|x|optimum|é)?[ (]{0,2}(cap|k_in|delay_ms|z)?[=, ]{0,2}(5|0.25|-1|1e400|NaN|on|half)?[ ),]{0,3}(arc)?";
        proptest!(|(text in prop_oneof![".{0,40}", some])| {
            match registry.parse_list(&text) {
                Ok(several) => for one in several {
                    prop_assert_eq!(registry.parse(&one.to_string()), Ok(one));
                },
                Err(error) => {
                    prop_assert!((1..=text.chars().count() + 1).contains(&error.column));
                    prop_assert!(!error.to_string().is_empty());
                }
            }
        });
    }

    #[test]
    fn spaces_order_and_defaults_do_not_matter() {
        for (text, printed) in [
            ("lru", "lru"),
            ("  lru ( ) ", "lru"),
            ("clock_sweep(cap=5)", "clock_sweep"),
            ("clock_sweep(delay_ms=3000,cap=10)", "clock_sweep(cap=10, delay_ms=3000)"),
            ("two_q( k_out = 1.50 )", "two_q(k_out=1.5)"),
            ("two_q(k_out=5e-1)", "two_q"),
            ("lru_k(correlated=-0)", "lru_k(correlated=0)"),
            ("s3_fifo(warm_up=off, promote=1)", "s3_fifo(promote=1, warm_up=off)"),
            ("arc(ratio=integer)", "arc(ratio=integer)"),
        ] {
            let one: PolicySpecification = text.parse().unwrap();
            assert_eq!(one.to_string(), printed);
            assert_eq!(printed.parse::<PolicySpecification>().unwrap(), one);
        }
    }

    #[test]
    fn a_mistake_is_shown_with_its_column_and_a_remedy() {
        for (text, message) in [
            ("", "column 1: the name of a policy is expected, the text ends"),
            ("lru,,arc", "column 5: the name of a policy is expected, not \",\""),
            ("clok", "column 1: there is no policy \"clok\"; did you mean clock? There are: fifo"),
            ("lru, LRU", "column 6: there is no policy \"LRU\"; there are: fifo lru"),
            ("optimum", "column 1: optimum looks into the future of a trace"),
            (
                "clock_sweep(dealy_ms=3)",
                "column 13: clock_sweep has no parameter \"dealy_ms\"; did you mean delay_ms?",
            ),
            ("lru(x=3)", "column 5: lru has no parameter \"x\"; it has none"),
            ("clock_sweep(cap=0)", "column 17: cap=0: it has to be 1 to 255"),
            ("clock_sweep(cap=)", "column 17: cap=: a value has to be 1 to 255"),
            ("clock_sweep(cap=+5)", "column 17: cap=+5: it has to be 1 to 255"),
            ("two_q(k_in=NaN)", "column 12: k_in=NaN: it has to be 0.01 to 0.99"),
            ("s3_fifo(warm_up=yes)", "column 17: warm_up=yes: it has to be on, off"),
            ("clock_sweep(decay=two)", "column 19: decay=two: it has to be one, half"),
            ("clock_sweep(cap=6, cap=7)", "column 20: cap is given twice; name it once"),
            (
                "clock_sweep(initial=6)",
                "column 21: initial=6 is above cap=5: raise cap or lower initial",
            ),
            ("clock_sweep(cap=6", "column 18: \",\" or \")\" is expected, the text ends"),
            ("clock_sweep(cap 6)", "column 17: \"=\" and a value is expected, not \"6\""),
            ("lru arc", "column 5: \",\" and a policy, or the end is expected, not \"arc\""),
            ("lru)", "column 4: \",\" and a policy, or the end is expected, not \")\""),
        ] {
            let error = Registry::standard().parse_list(text).unwrap_err().to_string();
            assert!(error.starts_with(message), "{text}: {error}");
        }
    }

    #[test]
    fn the_optimum_is_refused_by_an_error_of_its_own() {
        let error = "optimum".parse::<PolicySpecification>().unwrap_err();
        assert_eq!(error.fault, Fault::OptimumIsOffline);
    }

    #[test]
    fn no_size_beyond_the_range_is_built() {
        for one in Registry::standard().defaults() {
            for frames in [0, MAX_FRAMES + 1, u32::MAX] {
                let refused = one.build(frames, KeySpace::Hashed, 1).err();
                assert_eq!(refused, Some(BuildError::Frames(frames)));
            }
            assert!(one.build(1, KeySpace::Hashed, 1).is_ok());
        }
    }

    #[test]
    fn a_policy_of_ones_own_is_read_and_built_beside_ours() {
        static OWN: PolicyDescription = PolicyDescription {
            name: "mine",
            idea: "An LRU.",
            source: "a test",
            caution: "",
            parameters: &[ParameterDescription {
                name: "depth",
                kind: ParameterKind::Integer { minimum: 1, maximum: 9 },
                unit: "",
                default: Value::Integer(2),
                meaning: "nothing",
            }],
        };
        let mut registry = Registry::standard();
        registry
            .add(&OWN, |arguments, frames, _, _| {
                assert_eq!(arguments.integer("depth"), 3);
                Box::new(crate::lru::Lru::new(frames))
            })
            .unwrap();
        let again = registry.add(&OWN, |_, frames, _, _| Box::new(crate::lru::Lru::new(frames)));
        assert_eq!(again, Err(RegistrationError::Taken("mine")));
        let several = registry.parse_list("arc, mine(depth=3)").unwrap();
        assert_eq!(several[1].to_string(), "mine(depth=3)");
        assert!(several[1].build(4, KeySpace::Hashed, 1).is_ok());
        assert!(registry.parse("mine(depth=10)").is_err());
    }
}
