//! Simulations of numbers alone: rules of thumb, levels, coverage and power. The figures of the study of
//! methods stand beside those of its rules of thumb.

use evenkeel_lab::statistics::simulations::{
    self, Machine, Tails, coverage, detectable_deviations, is_at_least, is_at_most,
};

use super::{Checks, share};

/// Work of [`check`] in transactions of the synthetic target, measured once.
pub(super) fn work(sessions: f64) -> f64 {
    sessions * 160_000.0
}

/// All simulations.
pub(super) fn check(checks: &mut Checks, sessions: u32) {
    let step = work(f64::from(sessions)) / 20.0;
    throughput(checks, sessions * 5);
    checks.progress.add(2.0 * step);
    tail(checks, sessions);
    checks.progress.add(8.0 * step);
    looks(checks, sessions * 5);
    checks.progress.add(6.0 * step);
    rows(checks, sessions * 5);
    checks.progress.add(step);
    intervals(checks, sessions * 5);
    checks.progress.add(2.0 * step);
    power(checks, sessions * 5);
    checks.progress.add(step);
}

/// A rule that people use, beside the share that the study found for it.
fn shown(checks: &mut Checks, name: &str, count: u32, of: u32, study: &str) {
    checks.row(name, &share(count, of), &format!("study {study}"), None);
}

/// A test of ours, which keeps its level of 5%.
fn bound(checks: &mut Checks, name: &str, count: u32, of: u32) {
    checks.row(name, &share(count, of), "5% promised", Some(is_at_most(count, of, 0.05)));
}

fn throughput(checks: &mut Checks, comparisons: u32) {
    checks.head(&format!(
        "{comparisons} comparisons of equal throughput: false differences without drift, with 0.4% a run, and"
    ));
    checks.head("without variation between runs");
    let machines = [(0.015, 0.0, 0), (0.015, 0.004, 1), (0.0, 0.0, 2)];
    for (between_runs, drift, number) in machines {
        let found =
            simulations::throughput(Machine { between_runs, drift }, comparisons, 41 + number);
        let study = |shares: [&'static str; 3]| shares.get(number as usize).copied().unwrap_or("-");
        let of = found.of;
        shown(
            checks,
            "one run each, Welch on seconds",
            found.welch_on_seconds,
            of,
            study(["38%", "-", "20%"]),
        );
        let worth = "the same, seconds by their worth";
        shown(checks, worth, found.welch_effective, of, study(["20%", "22%", "6%"]));
        let medians = "medians of three differ by over 2%";
        shown(checks, medians, found.median_of_three, of, study(["27%", "38%", "10%"]));
        let pooled = "Mann-Whitney on pooled seconds, 3 v 3";
        shown(checks, pooled, found.pooled_seconds, of, study(["50%", "61%", "32%"]));
        let after = "6 v 6, one arm after the other";
        shown(checks, after, found.one_after_the_other, of, study(["-", "28%", "-"]));
        bound(checks, "6 pairs in mirrored order, sign flips", found.six_pairs, of);
        bound(checks, "8 pairs", found.eight_pairs, of);
    }
}

fn tail(checks: &mut Checks, sessions: u32) {
    // A comparison is sixteen runs of five minutes.
    let comparisons = (sessions / 2).max(10);
    checks
        .head(&format!("{comparisons} comparisons of equal tails, 300 s a run: false differences"));
    for (q, name, study) in
        [(0.99, "p99", ["89%", "21%", "8%", "9%"]), (0.999, "p99.9", ["93%", "36%", "16%", "15%"])]
    {
        let found = simulations::tail(q, 300, comparisons, 51);
        let of = found.of;
        let counts =
            [found.transactions, found.one_second, found.ten_seconds, found.thirty_seconds];
        let units = ["transactions", "seconds", "10 s", "30 s"];
        for ((count, unit), study) in counts.into_iter().zip(units).zip(study) {
            shown(checks, &format!("{name}, {unit} taken for independent"), count, of, study);
        }
        bound(checks, &format!("{name}, 8 pairs, sign flips"), found.eight_pairs, of);
    }
}

fn looks(checks: &mut Checks, sessions: u32) {
    checks.head(&format!("{sessions} A/A sessions that are looked at several times"));
    for (tails, name, study) in
        [(Tails::Normal, "normal", "16%"), (Tails::Heavy, "heavy tails", "-")]
    {
        let found = simulations::looks(0.0, tails, true, sessions, 61);
        let every = format!("every pair from 6 to 16, {name}");
        shown(checks, &every, found.at_every_pair, found.of, study);
        bound(checks, &format!("planned after 8, 12, 16, {name}"), found.as_planned, found.of);
    }
    let found = simulations::looks(1.5, Tails::Normal, false, sessions, 62);
    let pairs = found.pairs as f64 / f64::from(found.of);
    let holds = pairs <= 9.5;
    checks.row(
        "pairs used for an effect of 1.5 deviations",
        &format!("{pairs:.1} on average"),
        "at most 9.5 (study 8.9)",
        Some(holds),
    );
}

fn rows(checks: &mut Checks, sessions: u32) {
    checks.head(&format!("{sessions} A/A sessions of 8 pairs with nine rows: some row starred"));
    for (correlation, study) in [(0.0, "35%"), (0.5, "31%"), (0.8, "26%")] {
        let found = simulations::rows(correlation, sessions, 71);
        let name = |rule: &str| format!("{rule}, rows correlated by {correlation}");
        shown(checks, &name("alone"), found.alone, found.of, study);
        shown(checks, &name("Holm"), found.holm, found.of, "0% (never rejects)");
        bound(checks, &name("max-T"), found.max_t, found.of);
    }
}

fn intervals(checks: &mut Checks, sessions: u32) {
    checks.head(&format!("{sessions} sessions: intervals and bands that hold the truth"));
    for (pairs, correlation) in [(6, 0.8), (8, 0.0), (8, 0.8), (12, 0.5)] {
        let found = coverage(pairs, correlation, sessions, 81);
        let row = |checks: &mut Checks, kind: &str, count: u32| {
            let name = format!("{kind}, {pairs} pairs, rows correlated by {correlation}");
            let holds = is_at_least(count, found.of, 0.95);
            checks.row(&name, &share(count, found.of), "95% promised", Some(holds));
        };
        row(checks, "interval", found.pointwise);
        row(checks, "band", found.simultaneous);
    }
}

fn power(checks: &mut Checks, sessions: u32) {
    checks.head("power of the sign-flip test at 5%, by effect in standard deviations of pairs");
    let effects = [0.5, 1.0, 1.5, 2.0];
    checks.head("  pairs        0.5     1.0     1.5     2.0     found in 80%");
    for pairs in [6, 7, 8, 10, 12, 16] {
        let shares: Vec<f64> = effects
            .iter()
            .map(|effect| {
                f64::from(simulations::power(*effect, pairs, sessions, 91)) / f64::from(sessions)
            })
            .collect();
        let listed: Vec<String> = shares.iter().map(|share| format!("{share:>6.3}")).collect();
        let detectable =
            detectable_deviations(pairs).map_or_else(String::new, |d| format!("{d:.2}"));
        checks.head(&format!("  {pairs:>5}     {}     {detectable}", listed.join("  ")));
        let study = match pairs {
            6 => [0.37, 0.66, 0.87],
            8 => [0.66, 0.94, 0.998],
            12 => [0.89, 0.998, 1.0],
            _ => continue,
        };
        let apart = shares
            .iter()
            .skip(1)
            .zip(study)
            .map(|(found, study)| (found - study).abs())
            .fold(0.0, f64::max);
        let holds = apart <= 0.05;
        let found = format!("at most {:.3} apart", apart);
        checks.row(
            &format!("  {pairs} pairs against the study's"),
            &found,
            "at most 0.05",
            Some(holds),
        );
    }
}
