//! HdrHistogram's text formats, for the plotters that read them: the interval log (`.hlog`, version
//! 1.3 with V2 payloads) and the percentile distribution (`.hgrm`). Values are nanoseconds with
//! three significant digits; `.hgrm` prints milliseconds, as wrk2 does.

use std::io::{self, Write};
use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2Serializer;
use hdrhistogram::serialization::interval_log::IntervalLogWriterBuilder;

use super::record::{Outcome, TransactionRecord};
use super::summary::Window;
use crate::driver::RunData;

const SIGNIFICANT_DIGITS: u8 = 3;
const SECOND_NS: u64 = 1_000_000_000;
const MILLISECOND_NS: f64 = 1e6;

/// Lines per halving of the distance to 100% in `.hgrm`.
const TICKS_PER_HALF: u32 = 5;

/// Writes the response times of `window`, second by second by planned start.
///
/// # Errors
/// As `output` reports.
pub fn write_interval_log(
    data: &RunData,
    window: Window,
    mut output: &mut dyn Write,
) -> io::Result<()> {
    let count = usize::try_from(window.duration_ns().div_ceil(SECOND_NS)).unwrap_or(0);
    let mut seconds: Vec<Option<Histogram<u64>>> = vec![None; count];
    for record in measured(data, window) {
        let index = (record.planned_ns - window.start_ns) / SECOND_NS;
        if let Some(second) = usize::try_from(index).ok().and_then(|index| seconds.get_mut(index)) {
            let histogram = match second {
                Some(histogram) => histogram,
                None => second.insert(empty()?),
            };
            histogram.record(record.response_ns()).map_err(io::Error::other)?;
        }
    }
    let start = SystemTime::UNIX_EPOCH
        + Duration::from_nanos(u64::try_from(data.origin_wall.as_unix_nanos()).unwrap_or(0))
        + Duration::from_nanos(window.start_ns);
    let mut serializer = V2Serializer::new();
    let mut writer = IntervalLogWriterBuilder::new()
        .add_comment("[Logged with evenkeel; response times in nanoseconds by planned start]")
        .with_start_time(start)
        .with_base_time(start)
        .with_max_value_divisor(MILLISECOND_NS)
        .begin_log_with(&mut output, &mut serializer)?;
    let nothing = empty()?;
    for (index, second) in seconds.iter().enumerate() {
        let begin_ns = index as u64 * SECOND_NS;
        let length_ns = SECOND_NS.min(window.duration_ns() - begin_ns);
        writer
            .write_histogram(
                second.as_ref().unwrap_or(&nothing),
                Duration::from_nanos(begin_ns),
                Duration::from_nanos(length_ns),
                None,
            )
            .map_err(|error| io::Error::other(format!("{error:?}")))?;
    }
    Ok(())
}

/// Writes the distribution of response times of `window`.
///
/// # Errors
/// As `output` reports.
pub fn write_percentiles(data: &RunData, window: Window, output: &mut dyn Write) -> io::Result<()> {
    let mut histogram = empty()?;
    for record in measured(data, window) {
        histogram.record(record.response_ns()).map_err(io::Error::other)?;
    }
    writeln!(
        output,
        "{:>12} {:>14} {:>10} {:>14}\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    )?;
    let mut seen = 0;
    for value in histogram.iter_quantiles(TICKS_PER_HALF) {
        seen += value.count_since_last_iteration();
        let quantile = value.quantile_iterated_to();
        let in_ms = value.value_iterated_to() as f64 / MILLISECOND_NS;
        write!(output, "{in_ms:>12.3} {quantile:>14.12} {seen:>10}")?;
        if quantile < 1.0 {
            writeln!(output, " {:>14.2}", 1.0 / (1.0 - quantile))?;
        } else {
            writeln!(output)?;
        }
    }
    writeln!(
        output,
        "#[Mean    = {:>12.3}, StdDeviation   = {:>12.3}]",
        histogram.mean() / MILLISECOND_NS,
        histogram.stdev() / MILLISECOND_NS,
    )?;
    writeln!(
        output,
        "#[Max     = {:>12.3}, Total count    = {:>12}]",
        histogram.max() as f64 / MILLISECOND_NS,
        histogram.len(),
    )?;
    writeln!(
        output,
        "#[Buckets = {:>12}, SubBuckets     = {:>12}]",
        histogram.buckets(),
        histogram.distinct_values(),
    )
}

/// Grows as far as it must, so that nothing is clamped.
fn empty() -> io::Result<Histogram<u64>> {
    Histogram::new(SIGNIFICANT_DIGITS).map_err(io::Error::other)
}

fn measured(data: &RunData, window: Window) -> impl Iterator<Item = TransactionRecord> + '_ {
    data.records().filter(move |record| {
        matches!(record.outcome, Outcome::Committed | Outcome::Censored)
            && record.planned_ns >= window.start_ns
            && record.planned_ns < window.end_ns
    })
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;
    use crate::driver::tests::{data_of, record};

    const MS: u64 = 1_000_000;

    #[test]
    fn an_interval_log_is_read_back_with_every_value_in_its_second() {
        let data = data_of(&[
            record(0, 0, 2 * MS, Outcome::Committed),
            record(2_100 * MS, 2_100 * MS, 302_100 * MS, Outcome::Committed),
        ]);
        let mut output = Vec::new();
        write_interval_log(&data, Window { start_ns: 0, end_ns: 3_000 * MS }, &mut output).unwrap();
        let mut totals = Vec::new();
        let mut longest = 0;
        for entry in IntervalLogIterator::new(&output) {
            if let LogEntry::Interval(interval) = entry.unwrap() {
                use base64::Engine as _;
                let bytes = base64::engine::general_purpose::STANDARD
                    .decode(interval.encoded_histogram())
                    .unwrap();
                let histogram: Histogram<u64> =
                    Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
                totals.push(histogram.len());
                longest = longest.max(histogram.max());
            }
        }
        assert_eq!(totals, [1, 0, 1]);
        assert!((longest as f64 / 300e9 - 1.0).abs() < 0.001, "{longest}");
    }

    #[test]
    fn a_percentile_file_ends_with_the_count_of_all_and_has_no_nan_when_empty() {
        let mut output = Vec::new();
        let window = Window { start_ns: 0, end_ns: 10 * MS };
        write_percentiles(&data_of(&[]), window, &mut output).unwrap();
        let text = String::from_utf8(output).unwrap();
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        let mut output = Vec::new();
        let data = data_of(&[record(0, 0, MS, Outcome::Committed); 3]);
        write_percentiles(&data, window, &mut output).unwrap();
        assert!(String::from_utf8(output).unwrap().contains("Total count    =            3"));
    }
}
