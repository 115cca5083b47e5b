use std::collections::HashMap;

use super::*;

fn pages(spec: &str) -> Vec<u64> {
    parse(spec).unwrap().map(|reference| reference.page).collect()
}

/// Distinct pages by class.
fn by_class(spec: &str) -> HashMap<String, std::collections::HashSet<u64>> {
    let mut generator = parse(spec).unwrap();
    let names = generator.classes().to_vec();
    let mut found: HashMap<String, std::collections::HashSet<u64>> = HashMap::new();
    for reference in &mut generator {
        let name = names[usize::from(reference.class.unwrap())].clone();
        found.entry(name).or_default().insert(reference.page);
    }
    found
}

#[test]
fn every_family_is_made_by_its_defaults_and_by_what_is_written_of_them() {
    for (name, parameters, _) in FAMILIES {
        let short = format!("{name}(references=5000)");
        let long = format!("generate:{name}({parameters},references=5k,seed=1)");
        let first: Vec<Reference> = parse(&short).unwrap().collect();
        assert_eq!(first.len(), 5000, "{name}");
        assert_eq!(first, parse(&long).unwrap().collect::<Vec<_>>(), "{name}");
        let other = format!("{name}(references=5000,seed=2)");
        if name != "loop" {
            assert_ne!(first, parse(&other).unwrap().collect::<Vec<_>>(), "{name}");
        }
    }
}

#[test]
fn a_wrong_specification_says_what_is_allowed() {
    let cases = [
        ("", "there are uniform"),
        ("zipff(pages=1)", "there are uniform"),
        ("zipf(pages=0)", "from 1 to"),
        ("zipf(pages=99999999999999999999)", "from 1 to"),
        ("zipf(pages)", "has no '='"),
        ("zipf(pages=1", "')' is missing"),
        ("zipf(pages=1,pages=2)", "given twice"),
        ("zipf(order=sideways)", "one of scattered, adjacent"),
        ("zipf(scale=3)", "has no parameter 'scale'; it has pages"),
        ("uniform(write=2)", "from 0 to 1"),
        ("uniform(write=NaN)", "from 0 to 1"),
        ("phases(pages=10,set=11)", "more than pages"),
        ("pgbench(keys=zipf)", "is not a distribution"),
        ("ycsb(workload=z)", "one of a, b, c"),
    ];
    for (spec, part) in cases {
        let error = parse(spec).unwrap_err().to_string();
        assert!(error.contains(part), "{spec}: {error}");
    }
}

#[test]
fn laws_give_the_shares_they_promise() {
    let zipf = pages("zipf(pages=1000,s=1,order=adjacent,references=200000)");
    let first = zipf.iter().filter(|page| **page == 0).count() as f64 / 200_000.0;
    // 1 / H(1000).
    assert!((first - 0.1336).abs() < 0.004, "{first}");
    let gaussian = pages("gaussian(pages=1000,p=5,references=100000)");
    let middle = gaussian.iter().filter(|page| (400..600).contains(*page)).count() as f64 / 1e5;
    assert!((middle - 0.6827).abs() < 0.006, "{middle}");
    let scan: Vec<u64> = pages("scan-hot(share=0.25,table=50,hot=10,references=40000)");
    let scanned = scan.iter().filter(|page| **page >= 1 << 40).count();
    assert!((scanned as f64 / 40_000.0 - 0.25).abs() < 0.01, "{scanned}");
}

#[test]
fn loops_come_round_and_phases_move() {
    assert_eq!(pages("loop(pages=3,references=7)"), [0, 1, 2, 0, 1, 2, 0]);
    assert_eq!(pages("loop(pages=3,loops=2,references=6)"), [0, 1, 0, 2, 0, 1]);
    let phases = pages("phases(pages=1M,set=10,length=100,references=1000)");
    for phase in phases.chunks(100) {
        let distinct: std::collections::HashSet<u64> = phase.iter().copied().collect();
        assert!(distinct.len() <= 10);
    }
    let all: std::collections::HashSet<u64> = phases.into_iter().collect();
    assert!(all.len() > 60, "{}", all.len());
}

#[test]
fn a_pgbench_transaction_touches_the_pages_that_postgres_would() {
    let generator = parse("pgbench(scale=10,references=2000)").unwrap();
    let names = generator.classes().to_vec();
    let first: Vec<(String, Access)> = generator
        .take(14)
        .map(|it| (names[usize::from(it.class.unwrap())].clone(), it.access))
        .collect();
    let expected = [
        ("pgbench_accounts_pkey/inner", Access::Read),
        ("pgbench_accounts_pkey/inner", Access::Read),
        ("pgbench_accounts_pkey/leaf", Access::Read),
        ("pgbench_accounts/heap", Access::Write),
        ("pgbench_accounts_pkey/inner", Access::Read),
        ("pgbench_accounts_pkey/inner", Access::Read),
        ("pgbench_accounts_pkey/leaf", Access::Read),
        ("pgbench_accounts/heap", Access::Read),
        ("pgbench_tellers_pkey/leaf", Access::Read),
        ("pgbench_tellers/heap", Access::Write),
        ("pgbench_branches_pkey/leaf", Access::Read),
        ("pgbench_branches/heap", Access::Write),
        ("pgbench_history/heap", Access::Write),
        ("pgbench_accounts_pkey/inner", Access::Read),
    ];
    assert_eq!(first, expected.map(|(name, access)| (name.to_owned(), access)));
}

#[test]
fn tables_have_the_sizes_that_postgres_gives_them() {
    let found = by_class("pgbench(scale=1,script=select-only,references=200000)");
    assert_eq!(found["pgbench_accounts/heap"].len(), 1640);
    assert_eq!(found["pgbench_accounts_pkey/leaf"].len(), 274);
    assert_eq!(found["pgbench_accounts_pkey/inner"].len(), 1);
    let half = by_class("pgbench(scale=1,fillfactor=50,script=select-only,references=200000)");
    assert!(half["pgbench_accounts/heap"].len() > 3200);
}

#[test]
fn updates_that_leave_their_page_write_to_the_end_and_to_the_index() {
    let writes = |spec: &str| {
        let generator = parse(spec).unwrap();
        let names = generator.classes().to_vec();
        let leaf = names.iter().position(|name| name == "pgbench_accounts_pkey/leaf").unwrap();
        generator
            .filter(|it| it.access == Access::Write && usize::from(it.class.unwrap()) == leaf)
            .count()
    };
    assert_eq!(writes("ycsb(workload=a,references=20000)"), 0);
    assert!(writes("ycsb(workload=a,hot=0.5,references=20000)") > 500);
}

#[test]
fn tpcc_writes_every_growing_table_and_reads_items_only() {
    let generator = parse("tpcc(warehouses=2,references=300000)").unwrap();
    let names = generator.classes().to_vec();
    let mut writes = vec![0_u64; names.len()];
    let mut all = vec![0_u64; names.len()];
    for reference in generator {
        let class = usize::from(reference.class.unwrap());
        all[class] += 1;
        writes[class] += u64::from(reference.access == Access::Write);
    }
    for (name, (all, writes)) in names.iter().zip(all.iter().zip(&writes)) {
        match name.as_str() {
            "item/heap" | "item_pkey/leaf" => assert!(*writes == 0 && *all > 1000, "{name}"),
            "stock/heap"
            | "order_line/heap"
            | "orders/heap"
            | "new_order/heap"
            | "order_line_pkey/leaf"
            | "history/heap" => assert!(*writes > 100, "{name} {writes}"),
            _ => {}
        }
    }
}

#[test]
fn clients_take_turns_and_a_rate_gives_times() {
    let spec = "pgbench(scale=10,clients=2,rate=1000,references=60)";
    let references: Vec<Reference> = parse(spec).unwrap().collect();
    let times: Vec<u64> = references.iter().map(|it| it.time_us.unwrap()).collect();
    assert_eq!(times[..4], [0, 1000, 0, 1000]);
    // Both are at the root at the same time.
    assert_eq!(references[0].page, references[1].page);
    let last = times.iter().max();
    assert!(last > Some(&3000), "{last:?}");
}

proptest::proptest! {
    #[test]
    fn any_text_is_a_generator_or_an_error(spec in "[a-z-]{0,8}(\\([a-z]{0,6}=[0-9a-z:.]{0,9}(,[a-z]{0,6}=[0-9.kM-]{0,5})?\\)?)?") {
        if let Ok(generator) = parse(&spec) {
            proptest::prop_assert!(generator.take(10).count() > 0);
        }
    }
}
