//! HdrHistogram's text formats.
