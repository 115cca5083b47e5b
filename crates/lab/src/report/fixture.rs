//! Sessions that never ran, for tests: simulated transaction by transaction, so that percentiles,
//! episodes, timelines and histograms agree with each other as those of a real session do.

mod odd;

use std::collections::BTreeMap;

use crate::experiment::document::*;
use crate::target::QueryMode;

pub(crate) use odd::{bare_sessions, hostile, odd_sessions};

/// What to simulate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Blocks.
    pub(crate) pairs: u32,
    /// 2 or 3.
    pub(crate) arms: u32,
    /// Measured seconds of a run.
    pub(crate) seconds: u32,
    /// Transactions per second.
    pub(crate) rate: f64,
}

/// Two pairs of ten seconds.
pub(crate) const TINY: Plan = Plan { pairs: 2, arms: 2, seconds: 10, rate: 125.0 };
/// As most people will run it.
pub(crate) const USUAL: Plan = Plan { pairs: 8, arms: 2, seconds: 120, rate: 250.0 };
/// Sixteen pairs of five minutes, three arms.
pub(crate) const BIG: Plan = Plan { pairs: 16, arms: 3, seconds: 300, rate: 150.0 };

const VERSION: &str = "PostgreSQL 15.18 on x86_64-pc-linux-gnu, compiled by gcc 12.2.0";
const SECOND: u64 = 1_000_000_000;
const QUANTILES: [f64; 20] = [
    0.0, 0.01, 0.05, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 0.95, 0.98, 0.99,
    0.999, 0.9999, 1.0,
];
const THRESHOLDS_MS: [u64; 14] =
    [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 3000, 5000, 10_000];

/// Text that breaks what is not escaped, in every medium.
pub(crate) const HOSTILE: [&str; 14] = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "</style><svg onload=alert(1)>",
    "</details></pre></title><iframe src=//e>",
    "' onmouseover='alert(1)",
    "&lt;b&gt;&#x3c;i&#x3e;&amp",
    "=HYPERLINK(\"http://e\",\"x\")",
    "+1+cmd|' /C calc'!A0",
    "@SUM(1)\t-2\r\n=3",
    "a|b`c`[x](javascript:alert(1))\n# heading",
    "\u{1b}[2J\u{1b}]0;title\u{7}\u{9b}31m",
    "\u{202e}reversed\u{2066}\u{200b}\u{feff}",
    "\0nul\u{fffd}\u{2028}line\u{2029}]]>-->",
    "\u{1F468}\u{200D}\u{1F469} ﷽ 表ポあA鷗ŒéＢ逍Üßªąñ丂㐀𠀀",
];

/// A simulated session.
pub(crate) fn session(plan: Plan) -> SessionDocument {
    let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
    let names = ["master", "spread checkpoints", "timeout=16min"];
    let roles = [ArmRole::Baseline, ArmRole::Contender, ArmRole::Control];
    let arms: Vec<Arm> = (0..plan.arms as usize).map(|i| arm(names[i], roles[i], i)).collect();
    let block_order: Vec<Vec<u32>> = (0..plan.pairs)
        .map(|block| {
            let mut order: Vec<u32> = (0..plan.arms).collect();
            order.rotate_left((block.count_ones() % plan.arms) as usize);
            order
        })
        .collect();
    let mut runs = Vec::new();
    for (block, order) in (0_u32..).zip(&block_order) {
        for (position, arm) in (0_u32..).zip(order) {
            let index = u32::try_from(runs.len()).unwrap();
            runs.push(run(plan, index, block, position, *arm, &mut chance));
        }
    }
    let differences = vec![
        Difference {
            arm: 1,
            what: "setting checkpoint_completion_target".into(),
            baseline: Some("0.5".into()),
            other: Some("0.9".into()),
            is_declared: true,
        },
        Difference {
            arm: 1,
            what: "setting checkpoint_flush_after".into(),
            baseline: Some("256kB".into()),
            other: Some("0".into()),
            is_declared: true,
        },
    ];
    let analysis = Some(analysis(plan, &runs));
    SessionDocument {
        schema: SCHEMA.into(),
        evenkeel_version: "0.1.0".into(),
        started_at: "2031-05-02T10:11:05+02:00".into(),
        ended_at: Some("2031-05-02T11:02:41+02:00".into()),
        command: [
            "evenkeel",
            "compare",
            "experiments/checkpoint-spread.toml",
            "--set",
            "title=two words",
        ]
        .map(String::from)
        .to_vec(),
        title: "Do spread checkpoints shorten the worst waits?".into(),
        incomplete: None,
        protocol: Protocol {
            seed: 20_310_502,
            pairs_planned: plan.pairs,
            looks: vec![8, 12, 16],
            block_order,
            duration_ns: u64::from(plan.seconds) * SECOND,
            grace_ns: 20 * SECOND,
            cache_state: CacheState::Warmed { duration_ns: 30 * SECOND },
            arrival: Arrival::Poisson { rate_per_s: plan.rate },
            clients: 16,
            threads: 2,
            query_mode: QueryMode::Prepared,
            scale: Some(100),
            fillfactor: Some(90),
            scripts: vec![ScriptUse {
                name: "tpcb-like".into(),
                weight: 1,
                sha256: "9f3e1c77aa".repeat(6) + "abcd",
            }],
            latency_limit_ns: Some(100_000_000),
            max_tries: 1,
            primary: "response_p99".into(),
            margin_ratio: 0.05,
            is_quick: plan.seconds < 30,
            expects_saturation: false,
        },
        machine: Machine {
            kernel: Some("Linux 6.1.0-37-amd64".into()),
            cpu: Some("AMD EPYC 7B13".into()),
            cpu_count: Some(2),
            memory_bytes: Some(25_769_803_776),
            file_system: Some("ext4 on /dev/vda1, data=ordered".into()),
            clock_source: Some("tsc".into()),
            facts: BTreeMap::from([
                ("vm.dirty_background_ratio".into(), "10".into()),
                ("transparent_hugepage".into(), "madvise".into()),
            ]),
            warnings: vec!["no CPU frequency governor is visible (virtual machine)".into()],
        },
        arms,
        differences,
        runs,
        analysis,
    }
}

fn arm(name: &str, role: ArmRole, place: usize) -> Arm {
    let mut captured: BTreeMap<String, String> = [
        ("shared_buffers", "1GB"),
        ("max_wal_size", "4GB"),
        ("checkpoint_timeout", "5min"),
        ("checkpoint_completion_target", "0.5"),
        ("checkpoint_flush_after", "256kB"),
        ("full_page_writes", "on"),
        ("synchronous_commit", "on"),
        ("wal_buffers", "16MB"),
        ("work_mem", "4MB"),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .collect();
    let mut declared = BTreeMap::new();
    if place == 1 {
        declared.insert("checkpoint_completion_target".to_owned(), "0.9".to_owned());
        captured.insert("checkpoint_completion_target".to_owned(), "0.9".to_owned());
        captured.insert("checkpoint_flush_after".to_owned(), "0".to_owned());
    }
    Arm {
        name: name.into(),
        role,
        kind: "managed".into(),
        address: "/usr/lib/postgresql/15/bin".into(),
        server_version: Some(VERSION.into()),
        server_version_num: Some(150_018),
        declared_settings: declared,
        captured_settings: captured,
        environment_names: vec!["MALLOC_ARENA_MAX".into()],
        build_options: Some("'--with-openssl' '--with-llvm'".into()),
        data_hash: Some("9f3e".repeat(16)),
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small and positive here"
)]
fn run(plan: Plan, index: u32, block: u32, position: u32, arm: u32, chance: &mut Chance) -> Run {
    let span = u64::from(plan.seconds) * SECOND;
    let seconds = plan.seconds as usize;
    // One checkpoint or several, with a sync that holds everybody up; shorter in the contender.
    let cycle = (span / 2).clamp(4 * SECOND, 60 * SECOND);
    let mut stalls: Vec<(u64, u64, &str)> = Vec::new();
    let mut events = Vec::new();
    let mut at = cycle / 3;
    while at < span {
        let write_end = (at + cycle * if arm == 1 { 8 } else { 4 } / 10).min(span);
        let sync = (chance.unit().mul_add(1.2, 0.5) * 1e9) as u64 / if arm == 1 { 3 } else { 1 };
        for (kind, start, end) in [
            ("checkpoint", at, write_end + sync),
            ("checkpoint_write", at, write_end),
            ("checkpoint_sync", write_end, write_end + sync),
        ] {
            events.push(Event {
                kind: kind.into(),
                start_ns: i64::try_from(start).unwrap(),
                end_ns: i64::try_from(end).unwrap(),
                figures: BTreeMap::from([("buffers_written".to_owned(), 13_107.0)]),
                text: format!("{kind} of a timed checkpoint"),
            });
        }
        stalls.push((write_end, write_end + sync, "checkpoint_sync"));
        at += cycle;
    }
    if chance.unit() < 0.4 {
        let start = (chance.unit() * span as f64) as u64;
        events.push(Event {
            kind: "autovacuum".into(),
            start_ns: i64::try_from(start).unwrap(),
            end_ns: i64::try_from(start + 3 * SECOND).unwrap(),
            figures: BTreeMap::new(),
            text: "automatic vacuum of table pgbench_tellers".into(),
        });
        stalls.push((start, start + SECOND / 5, "autovacuum"));
    }
    let speed = 1.0 + 0.02 * chance.normal() - if arm == 1 { 0.04 } else { 0.0 };
    let mut responses = Vec::new();
    let mut services = Vec::new();
    let mut lags = Vec::new();
    let mut ends = Vec::new();
    let mut planned = 0_u64;
    let mut per_stall = vec![(0_u64, 0_u64, 0_u64); stalls.len()];
    loop {
        planned += (-(1.0 - chance.unit()).ln() / plan.rate * 1e9) as u64;
        if planned >= span {
            break;
        }
        let mut service = (speed * 2.1e6 * (0.55 * chance.normal()).exp()) as u64;
        if chance.unit() < 0.004 {
            service += (6e7 * (0.4 * chance.normal()).exp()) as u64;
        }
        let mut lag = (4e4 * (0.5 * chance.normal()).exp()) as u64;
        for (place, (start, end, _)) in stalls.iter().enumerate() {
            if (*start..*end).contains(&planned) {
                let delay = end - planned;
                service += delay / 3;
                lag += delay - delay / 3;
                per_stall[place].0 += 1;
                per_stall[place].1 += delay;
                per_stall[place].2 = per_stall[place].2.max(delay);
            }
        }
        responses.push((planned, service + lag));
        services.push(service);
        lags.push(lag);
        ends.push(planned + service + lag);
    }
    let mut finished = vec![0_u64; seconds];
    for end in &ends {
        if let Some(count) = finished.get_mut((end / SECOND) as usize) {
            *count += 1;
        }
    }
    let mut timeline = Vec::with_capacity(seconds);
    for second in 0..plan.seconds {
        let from = u64::from(second) * SECOND;
        let until = from + SECOND;
        let first = responses.partition_point(|(planned, _)| *planned < from);
        let last = responses.partition_point(|(planned, _)| *planned < until);
        let mut within: Vec<u64> =
            responses[first..last].iter().map(|(_, response)| *response).collect();
        within.sort_unstable();
        let rank = |q: f64| {
            (!within.is_empty()).then(|| {
                within[((q * within.len() as f64).ceil() as usize).clamp(1, within.len()) - 1]
            })
        };
        let dirty = 4e8 * (1.2 + (f64::from(second) / 9.0).sin()) + 2e7 * chance.normal();
        timeline.push(TimelineSecond {
            second,
            planned: within.len() as u64,
            started: within.len() as u64,
            finished: finished[second as usize],
            failed: 0,
            backlog: responses[..last]
                .iter()
                .rev()
                .take(4000)
                .filter(|(planned, response)| planned + response >= until)
                .count() as u64,
            p50_ns: rank(0.5),
            p99_ns: rank(0.99),
            max_ns: rank(1.0),
            samples: BTreeMap::from([
                ("dirty_bytes".to_owned(), Some(dirty)),
                ("writeback_bytes".to_owned(), Some((dirty / 8.0).max(0.0))),
                ("wal_bytes_per_s".to_owned(), Some(1.2e6 + 2e5 * chance.normal())),
                ("psi_io_some_ratio".to_owned(), (second % 17 != 5).then(|| 0.1 * chance.unit())),
            ]),
        });
    }
    let values: Vec<u64> = responses.iter().map(|(_, response)| *response).collect();
    let response = summary(&values);
    let mut buckets: BTreeMap<u64, u64> = BTreeMap::new();
    for value in &values {
        let step = ((*value as f64).ln() / 0.05).ceil();
        *buckets.entry((step * 0.05).exp() as u64).or_default() += 1;
    }
    let episodes: Vec<Episode> = stalls
        .iter()
        .zip(&per_stall)
        .filter(|(_, (transactions, ..))| *transactions > 0)
        .map(|((start, end, kind), (transactions, delay, worst))| Episode {
            start_ns: *start,
            end_ns: *end,
            clients: 16,
            transactions: *transactions,
            total_delay_ns: *delay,
            worst_ns: *worst,
            coincides_with: vec![(*kind).to_owned()],
        })
        .collect();
    let exceedance = THRESHOLDS_MS
        .iter()
        .map(|ms| ExceedanceCount {
            threshold_ns: ms * 1_000_000,
            count: values.iter().filter(|value| **value >= ms * 1_000_000).count() as u64,
            episodes: episodes.iter().filter(|episode| episode.worst_ns >= ms * 1_000_000).count()
                as u64,
        })
        .collect();
    let total = values.len() as u64;
    Run {
        index,
        block,
        position,
        arm,
        instance: block % 2,
        started_at: format!("2031-05-02T10:{:02}:05+02:00", 12 + index % 48),
        duration_ns: span,
        incomplete: None,
        counts: Counts { planned: total, started: total, committed: total, ..Counts::default() },
        throughput_per_s: Some(total as f64 / f64::from(plan.seconds)),
        scripts: vec![ScriptSummary {
            script: 0,
            committed: total,
            failed: 0,
            response: response.clone(),
        }],
        response,
        service: summary(&services),
        lag: summary(&lags),
        driver_lag_p99_ns: Some(96_000),
        exceedance,
        failed: LatencySummary::default(),
        failed_histogram: Vec::new(),
        histogram: buckets
            .into_iter()
            .map(|(upper_ns, count)| HistogramBucket { upper_ns, count })
            .collect(),
        episodes,
        timeline,
        events,
        counters: BTreeMap::from([
            ("pg_stat_bgwriter.buffers_alloc".to_owned(), Some(3412.0)),
            ("pg_stat_bgwriter.buffers_backend".to_owned(), Some(127.0)),
            ("pg_stat_io.evictions".to_owned(), None),
        ]),
        outcomes: BTreeMap::from([
            ("wal_bytes".to_owned(), Some(2113.0 * total as f64)),
            ("relation_size_bytes.pgbench_accounts".to_owned(), Some(1.342e9)),
        ]),
        host: HostSummary {
            steal_ratio: Some(0.001),
            foreign_cpus: Some(0.02),
            psi_io_some_ratio: Some(0.04),
            psi_cpu_some_ratio: None,
            psi_memory_some_ratio: Some(0.0),
            dirty_bytes_max: Some(912_000_000),
            swap_bytes: Some(0),
            disk_free_bytes_min: Some(53_000_000_000),
            thermal_throttles: Some(0),
            sampler_cpu_ratio: Some(0.002),
        },
        errors: BTreeMap::new(),
        key_audits: vec![KeyAudit {
            source: "tpcb-like:1: random_gaussian(1, 100000 * :scale, 5)".into(),
            distribution: "gaussian:5".into(),
            keys: 10_000_000,
            draws: total,
            shares: [(0.2, 0.682_69), (0.1, 0.382_93), (0.05, 0.197_41), (0.01, 0.039_88)]
                .into_iter()
                .map(|(top_ratio, expected_ratio)| KeyShare {
                    top_ratio,
                    expected_ratio,
                    drawn_ratio: Some(expected_ratio * (1.0 + 0.003 * chance.normal())),
                })
                .collect(),
            is_passed: true,
        }],
        driver_cpu_ns_per_transaction: Some(6_120.0),
        driver_busy_ratio: Some(0.03),
        clock_jump_ns: Some(2_100),
        server_restarted: false,
        data_hash: Some("9f3e".repeat(16)),
        server_version: Some(VERSION.into()),
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "ranks are small and positive"
)]
fn summary(values: &[u64]) -> LatencySummary {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let count = sorted.len();
    if count == 0 {
        return LatencySummary::default();
    }
    let mean = sorted.iter().map(|value| *value as f64).sum::<f64>() / count as f64;
    let variance = sorted.iter().map(|v| (*v as f64 - mean).powi(2)).sum::<f64>() / count as f64;
    LatencySummary {
        count: count as u64,
        mean_ns: Some(mean),
        standard_deviation_ns: Some(variance.sqrt()),
        min_ns: sorted.first().copied(),
        max_ns: sorted.last().copied(),
        percentiles: QUANTILES
            .iter()
            .map(|q| {
                let value_ns = sorted[((q * count as f64).ceil() as usize).clamp(1, count) - 1];
                Percentile {
                    q: *q,
                    value_ns,
                    count_beyond: (count - sorted.partition_point(|v| *v <= value_ns)) as u64,
                    is_lower_bound: false,
                }
            })
            .collect(),
    }
}

fn analysis(plan: Plan, runs: &[Run]) -> Analysis {
    let mut further = Vec::new();
    if plan.arms > 2 {
        further.push(comparison(plan, runs, 1, 2));
        further.push(comparison(plan, runs, 2, 0));
    }
    Analysis {
        pairs: plan.pairs,
        is_paired: true,
        comparison: comparison(plan, runs, 1, 0),
        further,
        gates: [
            ("rate", "125.0 of 125.0 tps"),
            ("backlog", "0 at the end of every run"),
            ("driver_lag", "p99 0.1 ms, 4% of response p50"),
            ("errors", "0 / 0"),
            ("clock", "largest jump 2 us"),
            ("steady", "after 84 s in both arms"),
            ("checkpoint_cycles", "3 / 3"),
            ("data", "hash 9f3e9f3e equal before every run"),
        ]
        .into_iter()
        .map(|(name, text)| Gate {
            name: name.into(),
            status: GateStatus::Passed,
            text: text.into(),
        })
        .chain([Gate {
            name: "host".into(),
            status: GateStatus::Warned,
            text: "0.1% of CPU time stolen by the hypervisor".into(),
        }])
        .collect(),
        noise: vec![
            NoiseNote {
                kind: "between_runs".into(),
                text:
                    "p99: between pairs 8.6%, within a run 4.0%: look at placement, not at length"
                        .into(),
            },
            NoiseNote { kind: "drift".into(), text: "no drift (0.1% a run)".into() },
            NoiseNote {
                kind: "gap".into(),
                text: "between 12 ms and 40 ms there is nearly nothing: two kinds of transactions"
                    .into(),
            },
        ],
        floor_ratio: Some(0.031),
        flip_seed: 7,
    }
}

type Reading = fn(&Run) -> Option<f64>;

fn quantile(summary: &LatencySummary, q: f64) -> Option<f64> {
    summary.percentiles.iter().find(|p| (p.q - q).abs() < 1e-9).map(|p| p.value_ns as f64)
}

fn comparison(plan: Plan, runs: &[Run], arm: u32, against: u32) -> Comparison {
    let rows: Vec<(&str, &str, Option<bool>, Reading)> = vec![
        ("response_p99", "ns", Some(false), |run| quantile(&run.response, 0.99)),
        ("throughput", "per_s", Some(true), |run| run.throughput_per_s),
        ("response_mean", "ns", Some(false), |run| run.response.mean_ns),
        ("response_p50", "ns", Some(false), |run| quantile(&run.response, 0.5)),
        ("response_p90", "ns", Some(false), |run| quantile(&run.response, 0.9)),
        ("response_p95", "ns", Some(false), |run| quantile(&run.response, 0.95)),
        ("response_p99.9", "ns", Some(false), |run| quantile(&run.response, 0.999)),
        ("response_max", "ns", Some(false), |run| quantile(&run.response, 1.0)),
        ("service_p50", "ns", Some(false), |run| quantile(&run.service, 0.5)),
        ("service_p99", "ns", Some(false), |run| quantile(&run.service, 0.99)),
        ("lag_p99", "ns", Some(false), |run| quantile(&run.lag, 0.99)),
        ("wal_bytes_per_transaction", "bytes", Some(false), |run| {
            Some(run.outcomes.get("wal_bytes").copied().flatten()? / run.counts.committed as f64)
        }),
        ("pg_stat_bgwriter.buffers_backend_per_transaction", "count", Some(false), |run| {
            Some(
                run.counters.get("pg_stat_bgwriter.buffers_backend").copied().flatten()?
                    / run.counts.committed as f64,
            )
        }),
        ("relation_size_bytes.pgbench_accounts", "bytes", Some(false), |run| {
            run.outcomes.get("relation_size_bytes.pgbench_accounts").copied().flatten()
        }),
    ];
    let of = |wanted: u32| -> Vec<&Run> {
        let mut found: Vec<&Run> = runs.iter().filter(|run| run.arm == wanted).collect();
        found.sort_by_key(|run| run.block);
        found
    };
    let (mine, theirs) = (of(arm), of(against));
    let rows: Vec<MeasureRow> = rows
        .into_iter()
        .map(|(measure, unit, larger_is_better, reading)| {
            let logs: Vec<Option<f64>> = mine
                .iter()
                .zip(&theirs)
                .map(|(a, b)| Some((reading(a)? / reading(b)?).ln()))
                .collect();
            let (mean, half) = mean_and_half(&logs);
            let is_tested = measure != "response_max";
            let kind = if !is_tested {
                RowKind::NotTested
            } else if mean + half < 0.0 && larger_is_better == Some(false) {
                RowKind::Better
            } else if mean - half > 0.0 && larger_is_better == Some(false) {
                RowKind::Worse
            } else if mean.abs() + half < 0.02 {
                RowKind::Same
            } else if half > 0.3 {
                RowKind::Unclear
            } else {
                RowKind::NoDifferenceSeen
            };
            MeasureRow {
                measure: measure.into(),
                unit: unit.into(),
                against_value: geometric(theirs.iter().filter_map(|run| reading(run))),
                value: geometric(mine.iter().filter_map(|run| reading(run))),
                change_ratio: Some(mean.exp_m1()),
                low_ratio: is_tested.then(|| (mean - half).exp_m1()),
                high_ratio: is_tested.then(|| (mean + half).exp_m1()),
                p: is_tested.then_some(if mean.abs() > half { 0.0078 } else { 0.41 }),
                p_adjusted: is_tested.then_some(if mean.abs() > half { 0.0078 } else { 0.62 }),
                detectable_ratio: is_tested.then_some((half * 1.2).exp_m1()),
                kind,
                larger_is_better,
                is_primary: measure == "response_p99",
                notes: Vec::new(),
                pair_log_ratios: logs,
            }
        })
        .collect();
    let shift = |pick: fn(&Run) -> &LatencySummary| -> Vec<ShiftPoint> {
        QUANTILES[1..19]
            .iter()
            .map(|q| {
                let logs: Vec<Option<f64>> = mine
                    .iter()
                    .zip(&theirs)
                    .map(|(a, b)| Some((quantile(pick(a), *q)? / quantile(pick(b), *q)?).ln()))
                    .collect();
                let (mean, half) = mean_and_half(&logs);
                ShiftPoint {
                    q: *q,
                    against_ns: geometric(theirs.iter().filter_map(|run| quantile(pick(run), *q))),
                    value_ns: geometric(mine.iter().filter_map(|run| quantile(pick(run), *q))),
                    change_ratio: Some(mean.exp_m1()),
                    low_ratio: Some((mean - half).exp_m1()),
                    high_ratio: Some((mean + half).exp_m1()),
                    band_low_ratio: Some((mean - 1.5 * half).exp_m1()),
                    band_high_ratio: Some((mean + 1.5 * half).exp_m1()),
                    is_too_few: *q > 0.9995,
                }
            })
            .collect()
    };
    let sum = |runs: &[&Run], ns: u64| -> (u64, u64) {
        runs.iter()
            .filter_map(|run| run.exceedance.iter().find(|e| e.threshold_ns == ns))
            .fold((0, 0), |(count, episodes), e| (count + e.count, episodes + e.episodes))
    };
    let total = |runs: &[&Run]| runs.iter().map(|run| run.counts.planned).sum::<u64>() as f64;
    let exceedance = THRESHOLDS_MS
        .iter()
        .map(|ms| {
            let threshold_ns = ms * 1_000_000;
            let (count, episodes) = sum(&mine, threshold_ns);
            let (against_count, against_episodes) = sum(&theirs, threshold_ns);
            let per_million = count as f64 / total(&mine) * 1e6;
            let against_per_million = against_count as f64 / total(&theirs) * 1e6;
            let rate_ratio = (against_count > 0).then(|| per_million / against_per_million);
            let is_few = *ms >= 200 && episodes + against_episodes < 3;
            ExceedanceRow {
                threshold_ns,
                against_count,
                count,
                against_per_million: Some(against_per_million),
                per_million: Some(per_million),
                rate_ratio,
                low_ratio: rate_ratio.filter(|_| !is_few).map(|r| r * 0.8),
                high_ratio: rate_ratio.filter(|_| !is_few).map(|r| r * 1.25),
                against_episodes,
                episodes,
                p_adjusted: (!is_few).then_some(0.03),
                kind: match rate_ratio {
                    _ if is_few => RowKind::TooFew,
                    Some(r) if r < 0.8 => RowKind::Better,
                    Some(r) if r > 1.25 => RowKind::Worse,
                    Some(_) => RowKind::NoDifferenceSeen,
                    None => RowKind::Unclear,
                },
            }
        })
        .collect();
    let delay = |runs: &[&Run], kind: Option<&str>| -> u64 {
        runs.iter()
            .flat_map(|run| &run.episodes)
            .filter(|e| kind.is_none_or(|kind| e.coincides_with.iter().any(|k| k == kind)))
            .map(|e| e.total_delay_ns)
            .sum()
    };
    let stalls = [None, Some("checkpoint_sync"), Some("autovacuum")]
        .into_iter()
        .map(|kind| StallRow {
            kind: kind.unwrap_or("all").into(),
            against_delay_ns: delay(&theirs, kind),
            delay_ns: delay(&mine, kind),
            lift: kind.map(|kind| if kind == "autovacuum" { 1.2 } else { 9.1 }),
            lift_chance_low: kind.map(|_| 0.3),
            lift_chance_high: kind.map(|_| 1.9),
        })
        .chain([StallRow {
            kind: "none".into(),
            against_delay_ns: 0,
            delay_ns: 0,
            lift: None,
            lift_chance_low: None,
            lift_chance_high: None,
        }])
        .collect();
    let kind = match rows.first().map(|row| row.kind) {
        Some(RowKind::Better) => VerdictKind::Better,
        Some(RowKind::Worse) => VerdictKind::Worse,
        Some(RowKind::Same) => VerdictKind::NoMaterialDifference,
        _ => VerdictKind::Inconclusive,
    };
    Comparison {
        arm,
        against,
        verdict: Verdict {
            kind: if plan.pairs < 6 { VerdictKind::Inconclusive } else { kind },
            is_beyond_margin: kind == VerdictKind::Better,
            reasons: vec!["the interval lies on the good side of zero".into()],
            pairs_needed: Some(22),
            is_below_floor: false,
        },
        rows,
        shift: shift(|run| &run.response),
        shift_service: shift(|run| &run.service),
        exceedance,
        stalls,
    }
}

fn mean_and_half(logs: &[Option<f64>]) -> (f64, f64) {
    let known: Vec<f64> = logs.iter().copied().flatten().filter(|v| v.is_finite()).collect();
    let n = known.len().max(1) as f64;
    let mean = known.iter().sum::<f64>() / n;
    let variance = known.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    (mean, 2.36 * (variance / n).sqrt())
}

fn geometric(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, n) = values.fold((0.0, 0.0), |(sum, n), value: f64| (sum + value.ln(), n + 1.0));
    (n > 0.0).then(|| (sum / n).exp())
}

/// SplitMix64.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.unit()).ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }
}
