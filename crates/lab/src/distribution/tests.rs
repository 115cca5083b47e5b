//! Audits of draws against their laws.

use super::*;

fn sampler(spec: &str, keys: u64) -> Sampler {
    Sampler::new(spec.parse().unwrap(), keys - 1)
}

#[test]
fn an_audit_passes_true_draws_and_fails_false_ones() {
    let honest = sampler("zipfian:0.99", 1_000_000);
    let other = sampler("zipfian:0.9", 1_000_000);
    let mut stream = RandomStream::new(8, 0, Purpose::Audit);
    let mut counter = KeyAuditCounter::new(999_999);
    for _ in 0..50_000 {
        counter.count(honest.draw(&mut stream).rank);
    }
    assert!(counter.audit(&honest, "test", "zipfian:0.99").is_passed);
    assert!(!counter.audit(&other, "test", "zipfian:0.9").is_passed);
    let empty = KeyAuditCounter::new(999_999).audit(&honest, "test", "zipfian:0.99");
    assert!(empty.is_passed && empty.shares.iter().all(|share| share.drawn_ratio.is_none()));
}

#[test]
fn draws_that_agree_with_the_law_to_the_last_one_do_not_end_the_run() {
    // Two keys, each drawn equally often: chi-square is exactly 0.
    let sampler = sampler("uniform", 2);
    let mut counter = KeyAuditCounter::new(1);
    for draw in 0..40 {
        counter.count(draw % 2);
    }
    assert!(counter.audit(&sampler, "test", "uniform").is_passed);
}

#[test]
fn an_audit_finds_a_generator_with_too_few_bits() {
    let sampler = sampler("uniform", 5_000_000_000);
    let mut stream = RandomStream::new(1, 0, Purpose::Audit);
    let mut counter = KeyAuditCounter::new(4_999_999_999);
    for _ in 0..10_000 {
        counter.count(stream.up_to(u64::from(u32::MAX)));
    }
    assert!(!counter.audit(&sampler, "test", "uniform").is_passed);
}

/// The hot set of a scale that was taken for 1.
#[test]
fn an_audit_finds_a_hot_set_that_is_too_small() {
    let small = sampler("uniform", 100_000);
    let large = sampler("uniform", 100_000 * 50);
    let mut stream = RandomStream::new(1, 0, Purpose::Audit);
    let mut counter = KeyAuditCounter::new(large.last());
    for _ in 0..1_000 {
        counter.count(small.draw(&mut stream).rank);
    }
    assert!(!counter.audit(&large, "test", "uniform").is_passed);
}

#[test]
fn an_audit_of_sound_draws_fails_for_no_law_and_no_number_of_keys_or_draws() {
    for spec in [
        "uniform",
        "gaussian:2",
        "gaussian:5",
        "exponential:9",
        "zipfian:0.99",
        "zipfian:3",
        "zipfian:1000",
        "zipfian:1.1,scattered",
    ] {
        for last in [0, 1, 2, 50, 99_999, 1 << 40, u64::MAX] {
            let sampler = Sampler::new(spec.parse().unwrap(), last);
            let mut stream = RandomStream::new(9, 0, Purpose::Audit);
            let mut counter = KeyAuditCounter::new(last);
            for draws in [1_u32, 10, 100, 3_000] {
                for _ in 0..draws {
                    counter.count(sampler.draw(&mut stream).rank);
                }
                let audit = counter.audit(&sampler, "test", spec);
                assert!(audit.is_passed, "{spec} {last}: {audit:?}");
            }
        }
    }
}

proptest::proptest! {
    #[test]
    fn any_text_is_a_distribution_that_prints_as_itself_or_an_error(text in ".{0,40}") {
        if let Ok(spec) = text.parse::<DistributionSpec>() {
            proptest::prop_assert_eq!(spec.to_string().parse::<DistributionSpec>().unwrap(), spec);
        }
    }

    #[test]
    fn any_allowed_parameter_draws_within_any_range(
        kind in 0..4_u8, parameter in 1e-12..1000.0_f64, last in proptest::num::u64::ANY, seed: u64,
    ) {
        let spec = match kind {
            0 => DistributionSpec::Gaussian { parameter: parameter + 2.0 },
            1 => DistributionSpec::Exponential { parameter },
            2 => DistributionSpec::Zipfian { exponent: parameter, scattered: false },
            _ => DistributionSpec::Zipfian { exponent: parameter / 500.0, scattered: true },
        };
        let sampler = Sampler::new(spec.checked().unwrap(), last);
        let mut stream = RandomStream::new(seed, 0, Purpose::Audit);
        for _ in 0..20 {
            let draw = sampler.draw(&mut stream);
            proptest::prop_assert!(draw.index <= last && draw.rank <= last);
        }
    }
}
