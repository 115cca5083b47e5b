"""Runs libCacheSim on request: the other half of bench-cachesim and compare-libcachesim.

The argument is a trace in libCacheSim's oracleGeneral form. Each line of the standard input is a
number of frames, a blank and a policy by our name; each answer is the misses, the CPU time in
nanoseconds and the growth of resident memory in bytes, or a line that begins with "-". The memory is
right for the first run of a process; a later one may have what an earlier one gave back.

HASH_POWER says how many entries the hash table has, as a power of two. Without it the table fits the
cache: smaller and faster than the package's own default of 2^24 entries.
"""

import math
import os
import sys
import time

import libcachesim as lcs


def resident_bytes(name):
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(name):
                return int(line.split()[1]) * 1024
    return 0


# Our name with our parameters, and what the package calls the same: its class, its parameters.
POLICIES = {
    "fifo": ("FIFO", {}),
    "lru": ("LRU", {}),
    "clock": ("Clock", {}),
    "clock(initial=1)": ("Clock", {"init_freq": 1}),
    # Its counter of three bits ends at 7; bench-cachesim compares the speed of ours, which ends at 5.
    "clock_sweep": ("Clock", {"init_freq": 1, "n_bit_counter": 3}),
    "clock_sweep(cap=7)": ("Clock", {"init_freq": 1, "n_bit_counter": 3}),
    "sieve": ("Sieve", {}),
    "s3_fifo": ("S3FIFO", {}),
    "s3_fifo(promote=1)": ("S3FIFO", {"move_to_main_threshold": 1}),
    "clock2q_plus": ("Clock2QPlus", {}),
    "arc": ("ARC", {}),
    "two_q": ("TwoQ", {}),
    "two_q(k_in=0.5, k_out=1)": ("TwoQ", {"a_in_size_ratio": 0.5, "a_out_size_ratio": 1.0}),
    "lirs": ("LIRS", {}),
    "optimum": ("Belady", {}),
}

path, requests = sys.argv[1], int(sys.argv[2])
print("ready", flush=True)
for line in sys.stdin:
    frames, policy = line.split(None, 1)
    frames, policy = int(frames), policy.strip()
    name, parameters = POLICIES.get(policy, ("", {}))
    if not hasattr(lcs, name):
        print("- no such policy", flush=True)
        continue
    reader = lcs.TraceReader(
        trace=path,
        trace_type=lcs.TraceType.ORACLE_GENERAL_TRACE,
        reader_init_params=lcs.ReaderInitParam(ignore_obj_size=True),
    )
    fitted = max(10, math.ceil(math.log2(frames)) + 1)
    hashpower = int(os.environ.get("HASH_POWER", fitted))
    # Without the trace, which is mapped.
    memory = resident_bytes("RssAnon:")
    cache = getattr(lcs, name)(cache_size=frames, hashpower=hashpower, **parameters)
    before = time.process_time_ns()
    ratio, _ = cache.process_trace(reader)
    spent = time.process_time_ns() - before
    memory = max(0, resident_bytes("RssAnon:") - memory)
    print(round(ratio * requests), spent, memory, flush=True)
    del cache, reader
