//! The policies of this crate by name: descriptions with every parameter, and how each is built.

use crate::arc::{AdaptiveReplacement, Ratio};
use crate::car::ClockAdaptiveReplacement;
use crate::clock_pro::{ClockPro, ClockProParameters};
use crate::clock_sweep::{ClockSweep, ClockSweepParameters, Decay, Increment};
use crate::fifo::Fifo;
use crate::ghost::KeySpace;
use crate::innodb::{Innodb, InnodbParameters, YOUNG_MIN};
use crate::lirs::{Lirs, LirsParameters};
use crate::lru::Lru;
use crate::lru_k::{K_MAX, LruK, LruKParameters};
use crate::midpoint_lru::{ClockUse, MidpointLru, MidpointLruParameters};
use crate::random::Random;
use crate::registry::PolicyVisitor;
use crate::s3_fifo::{S3Fifo, S3FifoParameters};
use crate::sieve::Sieve;
use crate::specification::{
    Arguments, ParameterDescription, ParameterKind, PolicyDescription, Value,
};
use crate::two_q::{TwoQ, TwoQParameters};
use crate::w_tinylfu::{WTinyLfu, WTinyLfuParameters};
use crate::{clock, clock2q_plus};

/// A policy of this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum BuiltIn {
    Fifo,
    Lru,
    Random,
    Clock,
    ClockSweep,
    MidpointLru,
    Innodb,
    LruK,
    TwoQ,
    Arc,
    Car,
    ClockPro,
    Lirs,
    WTinyLfu,
    S3Fifo,
    Clock2qPlus,
    Sieve,
}

impl BuiltIn {
    /// All, in the order in which they are listed.
    pub(crate) const ALL: &'static [Self] = &[
        Self::Fifo,
        Self::Lru,
        Self::Random,
        Self::Clock,
        Self::ClockSweep,
        Self::MidpointLru,
        Self::Innodb,
        Self::LruK,
        Self::TwoQ,
        Self::Arc,
        Self::Car,
        Self::ClockPro,
        Self::Lirs,
        Self::WTinyLfu,
        Self::S3Fifo,
        Self::Clock2qPlus,
        Self::Sieve,
    ];

    pub(crate) const fn description(self) -> &'static PolicyDescription {
        match self {
            Self::Fifo => &FIFO,
            Self::Lru => &LRU,
            Self::Random => &RANDOM,
            Self::Clock => &CLOCK,
            Self::ClockSweep => &CLOCK_SWEEP,
            Self::MidpointLru => &MIDPOINT_LRU,
            Self::Innodb => &INNODB,
            Self::LruK => &LRU_K,
            Self::TwoQ => &TWO_Q,
            Self::Arc => &ARC,
            Self::Car => &CAR,
            Self::ClockPro => &CLOCK_PRO,
            Self::Lirs => &LIRS,
            Self::WTinyLfu => &W_TINYLFU,
            Self::S3Fifo => &S3_FIFO,
            Self::Clock2qPlus => &CLOCK2Q_PLUS,
            Self::Sieve => &SIEVE,
        }
    }

    /// Builds the policy and hands it to `visitor`; `frames` is in range.
    pub(crate) fn visit<V: PolicyVisitor>(
        self,
        arguments: Arguments<'_>,
        frames: u32,
        space: KeySpace,
        seed: u64,
        visitor: V,
    ) -> V::Output {
        match self {
            Self::Fifo => visitor.visit(Fifo::new(frames)),
            Self::Lru => visitor.visit(Lru::new(frames)),
            Self::Random => visitor.visit(Random::new(seed, frames)),
            Self::Clock => visitor.visit(clock::clock(arguments.integer("initial") > 0, frames)),
            Self::ClockSweep => {
                visitor.visit(ClockSweep::new(clock_sweep_parameters(arguments), frames))
            }
            Self::MidpointLru => {
                visitor.visit(MidpointLru::new(midpoint_lru_parameters(arguments), frames))
            }
            Self::Innodb => visitor.visit(Innodb::new(innodb_parameters(arguments), frames)),
            Self::LruK => visitor.visit(LruK::new(lru_k_parameters(arguments), frames, space)),
            Self::TwoQ => visitor.visit(TwoQ::new(two_q_parameters(arguments), frames, space)),
            Self::Arc => {
                visitor.visit(AdaptiveReplacement::new(arc_ratio(arguments), frames, space))
            }
            Self::Car => visitor.visit(ClockAdaptiveReplacement::new(frames, space)),
            Self::ClockPro => {
                visitor.visit(ClockPro::new(clock_pro_parameters(arguments), frames, space))
            }
            Self::Lirs => visitor.visit(Lirs::new(lirs_parameters(arguments), frames, space)),
            Self::WTinyLfu => visitor.visit(WTinyLfu::new(w_tinylfu_parameters(arguments), frames)),
            Self::S3Fifo => {
                visitor.visit(S3Fifo::new(s3_fifo_parameters(arguments), frames, space))
            }
            Self::Clock2qPlus => {
                let parameters = s3_fifo_parameters(arguments);
                let window = arguments.real("window");
                visitor.visit(clock2q_plus::clock2q_plus(parameters, window, frames, space))
            }
            Self::Sieve => visitor.visit(Sieve::new(frames)),
        }
    }

    /// What the ranges alone do not exclude: the parameter at fault and what is wrong.
    pub(crate) fn contradiction(self, arguments: Arguments<'_>) -> Option<(&'static str, String)> {
        match self {
            Self::ClockSweep => {
                let (cap, initial) = (arguments.integer("cap"), arguments.integer("initial"));
                (initial > cap).then(|| {
                    let text = "raise cap or lower initial";
                    ("initial", format!("initial={initial} is above cap={cap}: {text}"))
                })
            }
            Self::MidpointLru => {
                let midpoint = arguments.real("midpoint");
                let zone = arguments.real("clock_share");
                (midpoint + zone > 1.0).then(|| {
                    let text = "the clock would begin before the midpoint: lower one of them";
                    ("midpoint", format!("midpoint={midpoint} and clock_share={zone}: {text}"))
                })
            }
            Self::Innodb => {
                let from = arguments.integer("old_from");
                let tolerance = arguments.integer("tolerance");
                (from < tolerance + YOUNG_MIN + 1).then(|| {
                    let text = "the list has to be longer than the tolerance and 5 young pages";
                    ("old_from", format!("old_from={from}, tolerance={tolerance}: {text}"))
                })
            }
            _ => None,
        }
    }
}

fn clock_sweep_parameters(arguments: Arguments<'_>) -> ClockSweepParameters {
    ClockSweepParameters {
        cap: arguments.integer("cap"),
        initial: arguments.integer("initial"),
        delay_ms: arguments.integer("delay_ms"),
        increment: match arguments.word("increment") {
            "max" => Increment::Max,
            "balanced" => Increment::Balanced,
            _ => Increment::One,
        },
        decay: match arguments.word("decay") {
            "half" => Decay::Half,
            _ => Decay::One,
        },
        pressure: arguments.integer("pressure"),
    }
}

fn lru_k_parameters(arguments: Arguments<'_>) -> LruKParameters {
    LruKParameters {
        k: arguments.integer("k") as usize,
        correlated: arguments.real("correlated"),
        correlated_ms: arguments.integer("correlated_ms"),
        history: arguments.real("history"),
    }
}

fn midpoint_lru_parameters(arguments: Arguments<'_>) -> MidpointLruParameters {
    MidpointLruParameters {
        midpoint: arguments.real("midpoint"),
        clock_share: arguments.real("clock_share"),
        clock_use: match arguments.word("clock_use") {
            "stay" => ClockUse::Stay,
            _ => ClockUse::Front,
        },
        cap: arguments.integer("cap"),
    }
}

fn innodb_parameters(arguments: Arguments<'_>) -> InnodbParameters {
    InnodbParameters {
        old_percent: arguments.integer("old_percent"),
        old_time_ms: arguments.integer("old_time_ms"),
        old_from: arguments.integer("old_from"),
        tolerance: arguments.integer("tolerance"),
    }
}

fn clock_pro_parameters(arguments: Arguments<'_>) -> ClockProParameters {
    ClockProParameters { cold: arguments.real("cold"), adaptive: arguments.flag("adaptive") }
}

fn lirs_parameters(arguments: Arguments<'_>) -> LirsParameters {
    LirsParameters { hir: arguments.real("hir"), ghosts: arguments.real("ghosts") }
}

fn two_q_parameters(arguments: Arguments<'_>) -> TwoQParameters {
    TwoQParameters { k_in: arguments.real("k_in"), k_out: arguments.real("k_out") }
}

fn arc_ratio(arguments: Arguments<'_>) -> Ratio {
    if arguments.word("ratio") == "integer" { Ratio::Integer } else { Ratio::Real }
}

/// Of S3-FIFO, and of Clock2Q+, which has no `promote`.
fn s3_fifo_parameters(arguments: Arguments<'_>) -> S3FifoParameters {
    S3FifoParameters {
        small: arguments.real("small"),
        ghosts: arguments.real("ghosts"),
        promote: arguments.integer("promote").max(1),
        warm_up: arguments.flag("warm_up"),
    }
}

fn w_tinylfu_parameters(arguments: Arguments<'_>) -> WTinyLfuParameters {
    WTinyLfuParameters { window: arguments.real("window"), protected: arguments.real("protected") }
}

const SHARE_OF_FRAMES: &str = "share of the frames";

/// An hour: no delay between uses of a page makes sense beyond it.
const DELAY_MS_MAX: u32 = 3_600_000;

const fn integer(
    name: &'static str,
    (minimum, maximum, default): (u32, u32, u32),
    unit: &'static str,
    meaning: &'static str,
) -> ParameterDescription {
    let kind = ParameterKind::Integer { minimum, maximum };
    ParameterDescription { name, kind, unit, default: Value::Integer(default), meaning }
}

const fn real(
    name: &'static str,
    (minimum, maximum, default): (f64, f64, f64),
    unit: &'static str,
    meaning: &'static str,
) -> ParameterDescription {
    let kind = ParameterKind::Real { minimum, maximum };
    ParameterDescription { name, kind, unit, default: Value::Real(default), meaning }
}

const fn word(
    name: &'static str,
    words: &'static [&'static str],
    default: &'static str,
    meaning: &'static str,
) -> ParameterDescription {
    let kind = ParameterKind::Word(words);
    ParameterDescription { name, kind, unit: "", default: Value::Word(default), meaning }
}

const fn flag(name: &'static str, default: bool, meaning: &'static str) -> ParameterDescription {
    let (kind, default) = (ParameterKind::Flag, Value::Flag(default));
    ParameterDescription { name, kind, unit: "", default, meaning }
}

static FIFO: PolicyDescription = PolicyDescription {
    name: "fifo",
    idea: "The page loaded first leaves first; uses change nothing.",
    source: "textbook; a baseline",
    caution: "",
    parameters: &[],
};

static LRU: PolicyDescription = PolicyDescription {
    name: "lru",
    idea: "The page not used for longest leaves.",
    source: "P. Denning, CACM 11 (1968)",
    caution: "",
    parameters: &[],
};

static RANDOM: PolicyDescription = PolicyDescription {
    name: "random",
    idea: "Any page leaves, each as likely as the other; the run's seed decides.",
    source: "L. Belady, IBM Systems Journal 5 (1966); a baseline",
    caution: "",
    parameters: &[],
};

static CLOCK: PolicyDescription = PolicyDescription {
    name: "clock",
    idea: "One reference bit a page; the hand clears bits and takes the first page without one.",
    source: "F. Corbato, MIT Project MAC (1968)",
    caution: "",
    parameters: &[integer("initial", (0, 1, 0), "", "the bit of a page just loaded")],
};

static CLOCK_SWEEP: PolicyDescription = PolicyDescription {
    name: "clock_sweep",
    idea: "PostgreSQL's: a counter a page, raised by use, lowered by the hand, which takes a 0.",
    source: "PostgreSQL freelist.c, bufmgr.c; variants of 2014 and 2015 from pgsql-hackers",
    caution: "",
    parameters: &[
        integer("cap", (1, 255, 5), "uses", "the highest count"),
        integer("initial", (0, 255, 1), "uses", "the count of a page just loaded, at most cap"),
        integer(
            "delay_ms",
            (0, DELAY_MS_MAX, 0),
            "ms",
            "least time between two rises of one counter",
        ),
        word(
            "increment",
            &["one", "max", "balanced"],
            "one",
            "a use adds one, or sets the count to cap, or does so and moves the hand on as far",
        ),
        word("decay", &["one", "half"], "one", "the hand takes one away, or halves the count"),
        integer(
            "pressure",
            (0, 255, 0),
            "counts a frame",
            "keeps the mean count at or below this; 0: off",
        ),
    ],
};

static MIDPOINT_LRU: PolicyDescription = PolicyDescription {
    name: "midpoint_lru",
    idea: "An LRU list that new pages enter at 5/8, and whose last 1/8 is swept as a clock.",
    source: "A. Borodin, pgsql-hackers, February 2019",
    caution: "",
    parameters: &[
        real(
            "midpoint",
            (0.0, 1.0, 0.625),
            "share of the list, from its front",
            "where new pages enter",
        ),
        real("clock_share", (0.001, 1.0, 0.125), "share of the list", "the part that is swept"),
        word(
            "clock_use",
            &["front", "stay"],
            "front",
            "a used page under the hand goes to the front, or loses a count",
        ),
        integer("cap", (1, 255, 5), "uses", "the highest count in the swept part"),
    ],
};

static INNODB: PolicyDescription = PolicyDescription {
    name: "innodb",
    idea: "An LRU list whose old part new pages enter; they rise when used again after a while.",
    source: "MySQL buf0lru.cc, buf0buf.ic",
    caution: "",
    parameters: &[
        integer("old_percent", (5, 95, 37), "percent of the list", "length of the old part"),
        integer(
            "old_time_ms",
            (0, DELAY_MS_MAX, 1000),
            "ms",
            "from the first use of an old page to the use that raises it",
        ),
        integer("old_from", (26, 1 << 30, 512), "pages", "shorter lists have no old part"),
        integer("tolerance", (0, 1000, 20), "pages", "the old part may be off its length so far"),
    ],
};

static LRU_K: PolicyDescription = PolicyDescription {
    name: "lru_k",
    idea: "The page whose K-th last uncorrelated use lies furthest back leaves.",
    source: "E. O'Neil, P. O'Neil, G. Weikum, SIGMOD 1993",
    caution: "",
    parameters: &[
        // K_MAX is 8.
        integer("k", (1, K_MAX as u32, 2), "uses", "how many uses back"),
        real(
            "correlated",
            (0.0, 100.0, 0.25),
            "references, as a share of the frames",
            "uses nearer than this are one use",
        ),
        integer("correlated_ms", (0, DELAY_MS_MAX, 0), "ms", "above 0: the same as a time instead"),
        real("history", (0.0, 100.0, 2.0), SHARE_OF_FRAMES, "remembered pages"),
    ],
};

static TWO_Q: PolicyDescription = PolicyDescription {
    name: "two_q",
    idea: "A FIFO of pages seen once, an LRU of pages that came back after leaving it.",
    source: "T. Johnson, D. Shasha, VLDB 1994, full version",
    caution: "",
    parameters: &[
        real("k_in", (0.01, 0.99, 0.25), SHARE_OF_FRAMES, "length of the FIFO"),
        real("k_out", (0.0, 4.0, 0.5), SHARE_OF_FRAMES, "remembered pages"),
    ],
};

static ARC: PolicyDescription = PolicyDescription {
    name: "arc",
    idea: "An LRU of pages seen once and one of pages seen again; the split adapts.",
    source: "N. Megiddo, D. Modha, FAST 2003",
    caution: "",
    parameters: &[word(
        "ratio",
        &["real", "integer"],
        "real",
        "the step of adaptation: the paper's, or rounded down as in many ports",
    )],
};

static CAR: PolicyDescription = PolicyDescription {
    name: "car",
    idea: "ARC on two clocks: a hit only sets a bit.",
    source: "S. Bansal, D. Modha, FAST 2004",
    caution: "",
    parameters: &[],
};

static CLOCK_PRO: PolicyDescription = PolicyDescription {
    name: "clock_pro",
    idea: "Hot and cold pages on one ring with three hands; a cold page used on test becomes hot.",
    source: "S. Jiang, F. Chen, X. Zhang, USENIX 2005",
    caution: "",
    parameters: &[
        real("cold", (0.001, 1.0, 0.05), SHARE_OF_FRAMES, "frames for cold pages, at first"),
        flag(
            "adaptive",
            true,
            "that share grows with uses on test and shrinks with tests that end",
        ),
    ],
};

static LIRS: PolicyDescription = PolicyDescription {
    name: "lirs",
    idea: "Keeps the pages with the shortest distances between their last two uses.",
    source: "S. Jiang, X. Zhang, SIGMETRICS 2002",
    caution: "",
    parameters: &[
        real("hir", (0.001, 0.9, 0.01), SHARE_OF_FRAMES, "frames for other pages, at least 2"),
        real(
            "ghosts",
            (0.0, 2500.0, 2500.0),
            SHARE_OF_FRAMES,
            "remembered pages; 2 in libraries, and in a pool",
        ),
    ],
};

const SMALL: ParameterDescription =
    real("small", (0.01, 0.9, 0.1), SHARE_OF_FRAMES, "length of the small queue");
const GHOSTS: ParameterDescription =
    real("ghosts", (0.0, 4.0, 0.9), SHARE_OF_FRAMES, "remembered pages");
const WARM_UP: ParameterDescription = flag(
    "warm_up",
    true,
    "until the first eviction, pages beyond the small queue's length enter the main one",
);

static S3_FIFO: PolicyDescription = PolicyDescription {
    name: "s3_fifo",
    idea: "A small FIFO most pages do not survive, a main one, a memory of those that left.",
    source: "J. Yang et al., SOSP 2023",
    caution: "",
    parameters: &[
        SMALL,
        GHOSTS,
        integer("promote", (1, 3, 2), "uses", "uses in the small queue that earn the main one"),
        WARM_UP,
    ],
};

static CLOCK2Q_PLUS: PolicyDescription = PolicyDescription {
    name: "clock2q_plus",
    idea: "S3-FIFO's queues with one bit and a window in which a burst of uses counts as one.",
    source: "Zhai et al., VLDB 2026, arXiv 2511.21958",
    caution: "",
    parameters: &[
        SMALL,
        GHOSTS,
        real(
            "window",
            (0.0, 1.0, 0.5),
            "share of the small queue",
            "pages that enter before a use counts",
        ),
        WARM_UP,
    ],
};

static SIEVE: PolicyDescription = PolicyDescription {
    name: "sieve",
    idea: "One queue, one bit a page, a hand that clears bits and leaves pages where they are.",
    source: "Y. Zhang et al., NSDI 2024",
    caution: "unsafe for block traces: a changed working set starves for a whole turn of the hand",
    parameters: &[],
};

static W_TINYLFU: PolicyDescription = PolicyDescription {
    name: "w_tinylfu",
    idea: "A small LRU window before a main part that takes only pages used more often.",
    source: "G. Einziger, R. Friedman, B. Manes, ACM TOS 13 (2017)",
    caution: "",
    parameters: &[
        real("window", (0.01, 0.99, 0.1), SHARE_OF_FRAMES, "length of the window"),
        real("protected", (0.0, 0.99, 0.8), "share of the main part", "pages used again there"),
    ],
};

#[cfg(test)]
mod tests {
    use super::*;

    fn defaults(policy: BuiltIn) -> Vec<Value> {
        policy.description().parameters.iter().map(|known| known.default).collect()
    }

    #[test]
    fn the_defaults_of_text_are_the_defaults_of_the_types() {
        let of = |policy: BuiltIn, check: &dyn Fn(Arguments<'_>)| {
            check(Arguments::new(policy.description(), &defaults(policy)));
        };
        of(BuiltIn::ClockSweep, &|arguments| {
            assert_eq!(clock_sweep_parameters(arguments), ClockSweepParameters::default());
        });
        of(BuiltIn::MidpointLru, &|arguments| {
            assert_eq!(midpoint_lru_parameters(arguments), MidpointLruParameters::default());
        });
        of(BuiltIn::Innodb, &|arguments| {
            assert_eq!(innodb_parameters(arguments), InnodbParameters::default());
        });
        of(BuiltIn::ClockPro, &|arguments| {
            assert_eq!(clock_pro_parameters(arguments), ClockProParameters::default());
        });
        of(BuiltIn::Lirs, &|arguments| {
            assert_eq!(lirs_parameters(arguments), LirsParameters::default());
        });
        of(BuiltIn::LruK, &|arguments| {
            assert_eq!(lru_k_parameters(arguments), LruKParameters::default());
        });
        of(BuiltIn::TwoQ, &|arguments| {
            assert_eq!(two_q_parameters(arguments), TwoQParameters::default());
        });
        of(BuiltIn::Arc, &|arguments| assert_eq!(arc_ratio(arguments), Ratio::default()));
        of(BuiltIn::WTinyLfu, &|arguments| {
            assert_eq!(w_tinylfu_parameters(arguments), WTinyLfuParameters::default());
        });
        of(BuiltIn::S3Fifo, &|arguments| {
            assert_eq!(s3_fifo_parameters(arguments), S3FifoParameters::default());
        });
    }

    #[test]
    fn every_parameter_allows_its_default_and_says_what_it_means() {
        for policy in BuiltIn::ALL {
            let description = policy.description();
            assert!(!description.idea.is_empty() && !description.source.is_empty());
            for known in description.parameters {
                assert!(known.kind.allows(known.default), "{}: {}", description.name, known.name);
                assert!(!known.meaning.is_empty(), "{}: {}", description.name, known.name);
            }
        }
    }
}
