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
    for keys in [1, 2, 3, 10, 1_000, 100_000, 3_000_000_000, 1_000_000_000_000, 1 << 62] {
        for spec in [
            "uniform",
            "gaussian:2",
            "gaussian:5",
            "gaussian:30",
            "exponential:0.001",
            "exponential:5",
            "exponential:50",
            "exponential:1e9",
            "gaussian:1e9",
            "zipfian:0.01",
            "zipfian:0.5",
            "zipfian:0.99",
            "zipfian:1",
            "zipfian:1.0000000001",
            "zipfian:0.9985",
            "zipfian:1.0015",
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
    for spec in ["uniform", "gaussian:4", "exponential:3", "zipfian:0.5", "zipfian:1"] {
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

/// Small keys one by one: each key's count, not only cells', against its probability.
#[test]
fn each_of_a_few_keys_has_its_probability() {
    for spec in [
        "gaussian:2",
        "gaussian:3",
        "exponential:2",
        "exponential:0.5",
        "zipfian:0.01",
        "zipfian:0.7",
        "zipfian:0.9995",
        "zipfian:1",
        "zipfian:1.3",
        "zipfian:4",
    ] {
        for keys in [2_u64, 3, 7, 16] {
            let sampler = sampler(spec, keys);
            let law = sampler.law();
            let mut stream = RandomStream::new(77, 0, Purpose::Audit);
            let draws = 200_000_u32;
            let mut counts = vec![0_u32; usize::try_from(keys).unwrap()];
            for _ in 0..draws {
                counts[usize::try_from(sampler.draw(&mut stream).index).unwrap()] += 1;
            }
            for (index, count) in counts.into_iter().enumerate() {
                let expected = law.probability(index as u64) * f64::from(draws);
                // Five standard errors; some 280 keys are looked at, the seed is fixed.
                let limit = 5.0 * expected.sqrt() + 1.0;
                assert!(
                    (f64::from(count) - expected).abs() < limit,
                    "{spec} {keys} keys, key {index}: {count} drawn, {expected} expected"
                );
            }
        }
    }
}

/// Where key 1 is not the whole story: the seam at which draws begin to be smeared.
#[test]
fn draws_have_no_seam_where_smearing_begins() {
    for spec in ["zipfian:0.5", "zipfian:1", "exponential:1"] {
        let keys = 1_u64 << 26;
        let sampler = sampler(spec, keys);
        let law = sampler.law();
        let mut stream = RandomStream::new(5, 0, Purpose::Audit);
        let seam = 1_u64 << 24;
        let (mut below, mut above) = (0_u32, 0_u32);
        let width = 1_u64 << 20;
        for _ in 0..400_000 {
            let index = sampler.draw(&mut stream).index;
            below += u32::from((seam - width..seam).contains(&index));
            above += u32::from((seam..seam + width).contains(&index));
        }
        for (count, start) in [(below, seam - width), (above, seam)] {
            let expected = law.share(start.into(), (start + width).into()) * 400_000.0;
            assert!((f64::from(count) - expected).abs() < 5.0 * expected.sqrt(), "{spec}: {count}");
        }
    }
}

#[test]
fn the_first_keys_of_a_huge_range_are_told_apart() {
    // With exponent 0.01 and 2^63 keys the first thousand would share a step of 2^-53 of the range.
    for spec in ["zipfian:40", "zipfian:1.0005", "exponential:1e18", "exponential:1e17"] {
        let sampler = Sampler::new(spec.parse().unwrap(), i64::MAX.unsigned_abs());
        let mut stream = RandomStream::new(3, 0, Purpose::Audit);
        let law = sampler.law();
        let draws = 100_000;
        let first = (0..draws).filter(|_| sampler.draw(&mut stream).index == 0).count();
        let expected = law.probability(0) * f64::from(draws);
        assert!((first as f64 - expected).abs() <= 5.0 * expected.sqrt() + 1e-9, "{spec}: {first}");
    }
}
