//! Rows of pgbench's tables in COPY's text form.

/// Accounts per unit of scale.
pub const ACCOUNTS_PER_SCALE: u64 = 100_000;

/// Branches per unit of scale.
pub(super) const BRANCHES_PER_SCALE: u64 = 1;

/// Tellers per unit of scale.
pub(super) const TELLERS_PER_SCALE: u64 = 10;

/// Rows that are written into a buffer at a time.
pub(super) const BATCH: usize = 1000;

/// Replaces the content of `buffer` by the accounts with the zero-based numbers from `first` to
/// before `end`: number, branch, balance 0, empty filler (which the type pads with blanks).
pub(super) fn accounts(first: u64, end: u64, buffer: &mut Vec<u8>) {
    buffer.clear();
    for number in first..end {
        decimal(number + 1, buffer);
        buffer.push(b'\t');
        decimal(number / ACCOUNTS_PER_SCALE + 1, buffer);
        buffer.extend_from_slice(b"\t0\t\n");
    }
}

/// Appends `value` in decimal digits.
fn decimal(mut value: u64, buffer: &mut Vec<u8>) {
    let start = buffer.len();
    loop {
        // A remainder of ten fits.
        buffer.push(b'0' + u8::try_from(value % 10).unwrap_or(0));
        value /= 10;
        if value == 0 {
            break;
        }
    }
    buffer[start..].reverse();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_numbered_from_one_and_belong_to_their_branch() {
        let mut buffer = Vec::new();
        accounts(99_998, 100_001, &mut buffer);
        assert_eq!(buffer, b"99999\t1\t0\t\n100000\t1\t0\t\n100001\t2\t0\t\n");
    }

    #[test]
    fn numbers_beyond_32_bits_are_whole() {
        let mut buffer = Vec::new();
        accounts(2_999_999_999, 3_000_000_000, &mut buffer);
        assert_eq!(buffer, b"3000000000\t30000\t0\t\n");
        buffer.clear();
        decimal(u64::MAX, &mut buffer);
        assert_eq!(buffer, b"18446744073709551615");
    }
}
