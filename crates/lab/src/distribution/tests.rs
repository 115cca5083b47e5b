//! Draws against the cumulative distributions, and the ends of the parameters' ranges.

use statrs::distribution::{ChiSquared, ContinuousCDF};

use super::*;

fn sampler(spec: &str, keys: u64) -> Sampler {
    Sampler::new(spec.parse().unwrap(), keys - 1)
}

/// Chi-square of draws against expected shares, over cells of about equal expected counts. The limit
/// leaves one in a million by chance; the seed is fixed, so the test is as well.
fn fits(spec: &str, keys: u64, draws: u64) {
    let sampler = sampler(spec, keys);
    let mut stream = RandomStream::new(42, 0, Purpose::Audit);
    // Cell borders by bisection on the shares, in the order of keys (of ranks when scattered).
    let cells = 50_u64.min(keys);
    let mut ends: Vec<u64> = (1..cells)
        .map(|cell| {
            let wanted = cell as f64 / cells as f64;
            let (mut low, mut high) = (0_u64, keys);
            while low < high {
                let middle = low + (high - low) / 2;
                if sampler.law().share_below(middle.into()) < wanted {
                    low = middle + 1
                } else {
                    high = middle
                }
            }
            low.clamp(1, keys)
        })
        .collect();
    ends.push(keys);
    ends.dedup();
    let mut counts = vec![0_u64; ends.len()];
    for _ in 0..draws {
        let draw = sampler.draw(&mut stream);
        assert!(draw.index < keys && draw.rank < keys, "{spec}: {draw:?} out of {keys}");
        let place = if spec.contains("scattered") { draw.rank } else { draw.index };
        counts[ends.partition_point(|end| *end <= place)] += 1;
    }
    let mut chi = 0.0;
    let mut cells = 0_u32;
    let mut before = 0.0;
    for (end, count) in ends.iter().zip(&counts) {
        let share = sampler.law().share_below((*end).into());
        let expected = (share - before) * draws as f64;
        before = share;
        if expected < 5.0 {
            assert!((*count as f64) < 40.0, "{spec}: {count} draws where {expected} are expected");
            continue;
        }
        chi += (*count as f64 - expected).powi(2) / expected;
        cells += 1;
    }
    if cells > 1 {
        let limit = ChiSquared::new(f64::from(cells - 1)).unwrap().inverse_cdf(1.0 - 1e-6);
        assert!(chi < limit, "{spec} over {keys} keys: chi-square {chi:.1} above {limit:.1}");
    }
}

#[test]
fn draws_follow_their_distribution() {
    for keys in [1, 2, 3, 10, 1_000, 100_000, 5_000_000_000, 1 << 62] {
        for spec in [
            "uniform",
            "gaussian:2",
            "gaussian:5",
            "gaussian:30",
            "exponential:0.001",
            "exponential:5",
            "exponential:50",
            "zipfian:0.01",
            "zipfian:0.5",
            "zipfian:0.99",
            "zipfian:1",
            "zipfian:1.0000000001",
            "zipfian:1.07",
            "zipfian:2",
            "zipfian:1000",
            "zipfian:0.99,scattered",
        ] {
            fits(spec, keys, 20_000);
        }
    }
}

/// The published figures of the Gaussian with parameter 5 (pgbench's patch of 2014).
#[test]
fn a_gaussian_of_five_puts_the_published_shares_on_its_top_keys() {
    let sampler = sampler("gaussian:5", 100_000_000);
    let share = |ratio: f64| format!("{:.5}", sampler.law().share_of_top((ratio * 1e8) as u128));
    assert_eq!([share(0.2), share(0.1), share(0.05)], ["0.68269", "0.38293", "0.19741"]);
}

/// Decile percentages printed by the patch of July 2014 for parameter 5.
#[test]
fn a_gaussian_of_five_has_the_published_deciles() {
    let sampler = sampler("gaussian:5", 1_000_000);
    let below = |decile: u128| sampler.law().share_below(decile * 100_000);
    let deciles: Vec<String> = (0..5)
        .map(|decile| format!("{:.1}", 100.0 * (below(decile + 1) - below(decile))))
        .collect();
    assert_eq!(deciles, ["0.0", "0.1", "2.1", "13.6", "34.1"]);
}

/// Shares of zipf 0.99 that were computed elsewhere by summing.
#[test]
fn zipf_shares_agree_with_sums() {
    for (keys, ratio, expected) in [
        (100_000_u64, 0.0001, 0.231),
        (100_000, 0.01, 0.605),
        (100_000, 0.1, 0.800),
        (100_000, 0.2, 0.860),
        (10_000_000, 0.01, 0.707),
        (1_100_000_000, 0.01, 0.766),
        (1_100_000_000, 0.2, 0.917),
    ] {
        let share = sampler("zipfian:0.99", keys).law().share_of_top((ratio * keys as f64) as u128);
        assert!((share - expected).abs() < 0.0006, "{keys} {ratio}: {share}");
    }
    for exponent in ["0.3", "1", "1.5", "7"] {
        let sampler = sampler(&format!("zipfian:{exponent}"), 5_000);
        let s: f64 = exponent.parse().unwrap();
        let sum = |n: u32| (1..=n).map(|k| f64::from(k).powf(-s)).sum::<f64>();
        for top in [1, 2, 31, 32, 33, 100, 4_999] {
            let expected = sum(top) / sum(5_000);
            let share = sampler.law().share_of_top(u128::from(top));
            assert!((share / expected - 1.0).abs() < 1e-12, "s={s} top {top}: {share} {expected}");
        }
    }
}

#[test]
fn all_of_a_huge_key_space_is_reached() {
    // 32-bit generators reached 15% of such tables; buckets show a hole at once.
    for keys in [3_000_000_000_u64, 5_000_000_000, u64::MAX] {
        let sampler = Sampler::new(DistributionSpec::Uniform, keys - 1);
        let mut stream = RandomStream::new(1, 0, Purpose::Audit);
        let mut seen = [false; 1_000];
        for _ in 0..20_000 {
            let index = sampler.draw(&mut stream).index;
            seen[(u128::from(index) * 1_000 / u128::from(keys)) as usize] = true;
        }
        assert!(seen.iter().all(|reached| *reached), "{keys} keys");
    }
}

#[test]
fn neighbouring_keys_of_a_huge_space_are_told_apart() {
    // Where a double has no bit left for a key, odd and even ones must still be as likely.
    for spec in ["uniform", "gaussian:4", "exponential:3", "zipfian:0.5"] {
        let sampler = Sampler::new(spec.parse().unwrap(), u64::MAX >> 1);
        let mut stream = RandomStream::new(3, 0, Purpose::Audit);
        let odd = (0..4_000).filter(|_| sampler.draw(&mut stream).index % 2 == 1).count();
        assert!((1_800..2_200).contains(&odd), "{spec}: {odd} of 4000 are odd");
    }
}

#[test]
fn ranks_of_a_gaussian_go_from_the_middle_outwards() {
    for keys in [1_u64, 2, 5, 6] {
        let gaussian = Gaussian::new(3.0, keys - 1);
        let mut ranks: Vec<u64> = (0..keys).map(|index| gaussian.rank(index)).collect();
        let middle = usize::try_from((keys - 1) / 2).unwrap();
        assert!(ranks[middle] <= 1);
        ranks.sort_unstable();
        assert_eq!(ranks, (0..keys).collect::<Vec<_>>());
    }
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
fn specifications_are_read_and_printed() {
    for text in ["uniform", "gaussian:5", "exponential:2.5", "zipfian:0.99", "zipfian:1,scattered"]
    {
        assert_eq!(text.parse::<DistributionSpec>().unwrap().to_string(), text);
    }
    for (text, reason) in [
        ("", "'' is not a distribution"),
        ("gauss:5", "'gauss' is not a distribution"),
        ("gaussian", "gaussian needs a parameter"),
        ("gaussian:1.9", "must be at least 2.0"),
        ("gaussian:NaN", "must be at least 2.0"),
        ("exponential:0", "must be greater than zero"),
        ("exponential:inf", "must be greater than zero"),
        ("zipfian:0", "must be greater than 0 and at most 1000"),
        ("zipfian:1001", "must be greater than 0 and at most 1000"),
        ("zipfian:1,spread", "'spread' is not known"),
        ("zipfian:x", "'x' is not a number"),
        ("uniform:1", "uniform takes no parameter"),
    ] {
        let message = text.parse::<DistributionSpec>().unwrap_err().to_string();
        assert!(message.contains(reason), "{text}: {message}");
        assert!(message.contains("zipfian:S[,scattered]"), "the remedy is missing: {message}");
    }
}
