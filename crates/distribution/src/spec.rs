//! How a distribution is written: `uniform`, `gaussian:P`, `exponential:P`, `zipfian:S[,scattered]`.

use std::fmt;
use std::str::FromStr;

/// A distribution with its parameters, without a number of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum DistributionSpec {
    /// Every key as likely as the other.
    #[default]
    Uniform,
    /// pgbench's `random_gaussian`.
    Gaussian {
        /// Where the bell is cut, in standard deviations; at least 2.
        parameter: f64,
    },
    /// pgbench's `random_exponential`.
    Exponential {
        /// Density falls by e^-parameter over the keys; above 0.
        parameter: f64,
    },
    /// Probability proportional to rank^-exponent.
    Zipfian {
        /// Above 0, at most 1000.
        exponent: f64,
        /// Whether hot keys are scattered over the key space; else they are its first ones, and share
        /// pages.
        scattered: bool,
    },
}

/// A distribution that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "distribution '{given}': {reason}; write uniform, gaussian:P (P at least 2), exponential:P \
     (P above 0) or zipfian:S[,scattered] (S above 0, at most 1000)"
)]
pub struct SpecError {
    /// What was written.
    pub given: String,
    /// What is wrong with it.
    pub reason: String,
}

/// A random function was called with something it cannot do.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum ArgumentError {
    /// The range holds no key.
    #[error("empty range given to random: {low} to {high}; the first must not be above the second")]
    EmptyRange {
        /// Its lower end.
        low: i64,
        /// Its upper end.
        high: i64,
    },
    /// The parameter of gaussian.
    #[error("gaussian parameter must be at least 2.0 (not {0})")]
    Gaussian(f64),
    /// The parameter of exponential.
    #[error("exponential parameter must be greater than zero (not {0})")]
    Exponential(f64),
    /// The exponent of zipfian.
    #[error("zipfian exponent must be greater than 0 and at most 1000 (not {0})")]
    Zipfian(f64),
    /// The size of a permutation.
    #[error("permute size parameter must be greater than zero (not {0})")]
    PermuteSize(i64),
}

impl DistributionSpec {
    /// Least parameter of a Gaussian: below, redrawing becomes slow and the bell a table.
    pub const GAUSSIAN_MIN: f64 = 2.0;
    /// Largest exponent of a zipfian.
    pub const ZIPFIAN_MAX: f64 = 1000.0;

    /// Checks the parameters' ranges.
    ///
    /// # Errors
    /// What is allowed, in words.
    pub fn checked(self) -> Result<Self, ArgumentError> {
        match self {
            Self::Gaussian { parameter }
                if !(parameter >= Self::GAUSSIAN_MIN && parameter.is_finite()) =>
            {
                Err(ArgumentError::Gaussian(parameter))
            }
            Self::Exponential { parameter } if !(parameter > 0.0 && parameter.is_finite()) => {
                Err(ArgumentError::Exponential(parameter))
            }
            Self::Zipfian { exponent, .. }
                if !(exponent > 0.0 && exponent <= Self::ZIPFIAN_MAX) =>
            {
                Err(ArgumentError::Zipfian(exponent))
            }
            valid => Ok(valid),
        }
    }
}

impl FromStr for DistributionSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let error = |reason: String| SpecError { given: text.to_owned(), reason };
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let number = |text: &str| {
            text.parse::<f64>().map_err(|_| {
                error(if text.is_empty() {
                    format!("{name} needs a parameter")
                } else {
                    format!("'{text}' is not a number")
                })
            })
        };
        let spec = match name {
            "uniform" if rest.is_empty() && !text.contains(':') => Self::Uniform,
            "uniform" => return Err(error("uniform takes no parameter".to_owned())),
            "gaussian" => Self::Gaussian { parameter: number(rest)? },
            "exponential" => Self::Exponential { parameter: number(rest)? },
            "zipfian" => {
                let (exponent, scattered) = match rest.split_once(',') {
                    None => (rest, false),
                    Some((exponent, "scattered")) => (exponent, true),
                    Some((_, other)) => {
                        return Err(error(format!("'{other}' is not known, only 'scattered' is")));
                    }
                };
                Self::Zipfian { exponent: number(exponent)?, scattered }
            }
            _ => return Err(error(format!("'{name}' is not a distribution"))),
        };
        spec.checked().map_err(|wrong| error(wrong.to_string()))
    }
}

impl fmt::Display for DistributionSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::Gaussian { parameter } => write!(f, "gaussian:{parameter}"),
            Self::Exponential { parameter } => write!(f, "exponential:{parameter}"),
            Self::Zipfian { exponent, scattered: false } => write!(f, "zipfian:{exponent}"),
            Self::Zipfian { exponent, scattered: true } => {
                write!(f, "zipfian:{exponent},scattered")
            }
        }
    }
}

impl TryFrom<String> for DistributionSpec {
    type Error = SpecError;

    fn try_from(text: String) -> Result<Self, SpecError> {
        text.parse()
    }
}

impl From<DistributionSpec> for String {
    fn from(spec: DistributionSpec) -> Self {
        spec.to_string()
    }
}
