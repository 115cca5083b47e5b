//! A specification's name and parameters.

use std::fmt;
use std::ops::RangeInclusive;

use evenkeel_distribution::DistributionSpec;

use super::FAMILIES;

/// A specification that cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError(String);

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SpecError {}

/// Parameters that have not been asked for yet.
pub(super) struct Arguments {
    family: String,
    given: Vec<(String, String)>,
}

impl Arguments {
    pub(super) fn parse(spec: &str) -> Result<Self, SpecError> {
        let wrong = |what: &str| {
            SpecError(format!(
                "'{}': {what}; write NAME or NAME(parameter=value,...)",
                spec.escape_debug()
            ))
        };
        let (family, rest) = match spec.split_once('(') {
            None => (spec, ""),
            Some((family, rest)) => {
                let rest = rest.strip_suffix(')').ok_or_else(|| wrong("the ')' is missing"))?;
                (family, rest)
            }
        };
        let mut given: Vec<(String, String)> = Vec::new();
        for part in rest.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some((name, value)) => {
                    let name = name.trim().to_owned();
                    if given.iter().any(|(known, _)| *known == name) {
                        return Err(wrong(&format!("'{}' is given twice", name.escape_debug())));
                    }
                    given.push((name, value.trim().to_owned()));
                }
                // `keys=zipfian:1,scattered` has a comma of its own.
                None if part == "scattered" => match given.last_mut() {
                    Some((_, value)) => value.push_str(",scattered"),
                    None => return Err(wrong("'scattered' belongs to a distribution")),
                },
                None => return Err(wrong(&format!("'{}' has no '='", part.escape_debug()))),
            }
        }
        Ok(Self { family: family.trim().to_owned(), given })
    }

    pub(super) fn family(&self) -> &'static str {
        FAMILIES.iter().find(|(name, _, _)| *name == self.family).map_or("", |(name, _, _)| name)
    }

    pub(super) fn unknown_family(&self, _: &str) -> SpecError {
        let names: Vec<&str> = FAMILIES.iter().map(|(name, _, _)| *name).collect();
        SpecError(format!(
            "no generator is called '{}'; there are {}",
            self.family.escape_debug(),
            names.join(", ")
        ))
    }

    /// A whole number; `k`, `M` and `G` after it are powers of 1,000.
    pub(super) fn number(
        &mut self,
        name: &str,
        default: u64,
        range: RangeInclusive<u64>,
    ) -> Result<u64, SpecError> {
        let Some(text) = self.take(name) else { return Ok(default) };
        let (digits, factor) = match text.char_indices().last() {
            Some((at, 'k')) => (&text[..at], 1_000),
            Some((at, 'M')) => (&text[..at], 1_000_000),
            Some((at, 'G')) => (&text[..at], 1_000_000_000),
            _ => (text.as_str(), 1),
        };
        let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
        number.filter(|number| range.contains(number)).ok_or_else(|| {
            let text = text.escape_debug();
            SpecError(format!(
                "{name}={text}: a whole number from {} to {} is wanted",
                range.start(),
                range.end()
            ))
        })
    }

    /// A number with a fraction.
    pub(super) fn ratio(
        &mut self,
        name: &str,
        default: f64,
        range: RangeInclusive<f64>,
    ) -> Result<f64, SpecError> {
        let Some(text) = self.take(name) else { return Ok(default) };
        text.parse::<f64>().ok().filter(|number| range.contains(number)).ok_or_else(|| {
            let text = text.escape_debug();
            SpecError(format!(
                "{name}={text}: a number from {} to {} is wanted",
                range.start(),
                range.end()
            ))
        })
    }

    /// One of some words.
    pub(super) fn word<T: Copy>(
        &mut self,
        name: &str,
        words: &[(&str, T)],
    ) -> Result<T, SpecError> {
        let text = self.take(name);
        let found = match &text {
            None => words.first(),
            Some(text) => words.iter().find(|(word, _)| word == text),
        };
        found.map(|(_, value)| *value).ok_or_else(|| {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            SpecError(format!(
                "{name}={}: one of {} is wanted",
                text.unwrap_or_default().escape_debug(),
                known.join(", ")
            ))
        })
    }

    /// A distribution of keys.
    pub(super) fn distribution(
        &mut self,
        name: &str,
        default: DistributionSpec,
    ) -> Result<DistributionSpec, SpecError> {
        match self.take(name) {
            None => Ok(default),
            Some(text) => text.parse().map_err(|error| SpecError(format!("{name}: {error}"))),
        }
    }

    /// Refuses parameters that nobody asked for.
    pub(super) fn finish(self) -> Result<(), SpecError> {
        let Some((name, _)) = self.given.first() else { return Ok(()) };
        let known = FAMILIES.iter().find(|(family, _, _)| *family == self.family);
        Err(SpecError(format!(
            "{} has no parameter '{}'; it has {},references,seed,rate",
            self.family,
            name.escape_debug(),
            known.map_or("", |(_, parameters, _)| parameters)
        )))
    }

    fn take(&mut self, name: &str) -> Option<String> {
        let place = self.given.iter().position(|(known, _)| known == name)?;
        Some(self.given.swap_remove(place).1)
    }
}

/// What parameters that do not fit together say.
pub(super) fn misfit(what: impl Into<String>) -> SpecError {
    SpecError(what.into())
}
