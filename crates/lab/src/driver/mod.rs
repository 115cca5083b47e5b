//! Runs one workload on one target: clients, schedule, retries.
