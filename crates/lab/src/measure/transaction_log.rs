//! pgbench's `-l` files.
