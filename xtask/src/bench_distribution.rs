//! `cargo xtask bench-distribution`: nanoseconds per drawn key, beside a uniform draw of the same
//! run, over numbers of keys from a thousand to 2^63. Build it with `--release` to get figures that
//! mean something.

use evenkeel::runtime::{Clock, OsRuntime};
use evenkeel_lab::distribution::{CallSite, DistributionSpec, Purpose, RandomStream, Sampler};

/// Draws per round: some milliseconds.
const DRAWS: u32 = 100_000;
/// Rounds of which the fastest counts: what remains when nothing else disturbs.
const ROUNDS: u32 = 7;
/// A draw may cost so much.
const LIMIT_NS: f64 = 100.0;

const SPECS: [&str; 10] = [
    "uniform",
    "gaussian:5",
    "exponential:5",
    "zipfian:0.01",
    "zipfian:0.5",
    "zipfian:0.99",
    "zipfian:1",
    "zipfian:1.07",
    "zipfian:2",
    "zipfian:0.99,scattered",
];

const KEYS: [u64; 4] = [1_000, 1_000_000, 1_000_000_000, 1 << 63];

/// Runs the benchmark. The last line is the slowest draw other than a scattered one.
pub(crate) fn run(_arguments: &[String]) -> anyhow::Result<()> {
    let clock = OsRuntime::new();
    let mut stream = RandomStream::new(1, 0, Purpose::Audit);
    if cfg!(debug_assertions) {
        crate::say(
            "built without optimisation: run `cargo run --release -p xtask -- bench-distribution`",
        );
    }
    crate::print(
        "distribution              keys                 ns/draw  with audit  ratio to uniform",
    );
    let mut worst = 0.0_f64;
    for keys in KEYS {
        let uniform = Sampler::new(DistributionSpec::Uniform, keys - 1);
        for text in SPECS {
            let spec: DistributionSpec = text.parse()?;
            let sampler = Sampler::new(spec, keys - 1);
            let mut site = CallSite::default();
            let high = (keys - 1).cast_signed();
            let (mut plain_ns, mut audited_ns, mut uniform_ns) = (f64::MAX, f64::MAX, f64::MAX);
            for _ in 0..ROUNDS {
                let time = |draw: &mut dyn FnMut()| {
                    let start = clock.now();
                    draw();
                    clock.now().nanos_since(start) as f64 / f64::from(DRAWS)
                };
                uniform_ns = uniform_ns.min(time(&mut || {
                    for _ in 0..DRAWS {
                        std::hint::black_box(uniform.draw(&mut stream));
                    }
                }));
                plain_ns = plain_ns.min(time(&mut || {
                    for _ in 0..DRAWS {
                        std::hint::black_box(sampler.draw(&mut stream));
                    }
                }));
                audited_ns = audited_ns.min(time(&mut || {
                    for _ in 0..DRAWS {
                        std::hint::black_box(site.draw(&mut stream, spec, 0, high).ok());
                    }
                }));
            }
            if !text.contains("scattered") {
                worst = worst.max(plain_ns);
            }
            crate::print(&format!(
                "{text:<25} {keys:<20} {plain_ns:7.1}  {audited_ns:10.1}  {:16.1}",
                plain_ns / uniform_ns
            ));
        }
    }
    crate::print(&format!("slowest draw: {worst:.1} ns (at most {LIMIT_NS} allowed)"));
    Ok(())
}
