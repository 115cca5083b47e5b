use std::sync::Arc;

use super::{OwedSync, SegmentIdentity, Smgr, SmgrError, file_name, parse_name};
use crate::page::{
    BlockNumber, DatabaseId, Fork, Header, Lsn, PageIdentity, PageImage, PageKind, RelationNumber,
    seal,
};
use crate::vfs::sim::SimDisk;
use crate::vfs::sim::crash::{All, Drawn, Nothing};
use crate::vfs::{FileSystem, Name, OpenOptions, VfsErrorKind};

const DATABASE: DatabaseId = DatabaseId(42);
const RELATION: RelationNumber = RelationNumber(16_384);

fn identity(block: u32) -> PageIdentity {
    PageIdentity { relation: RELATION, fork: Fork::Main, block: BlockNumber(block) }
}

/// Segments of 4 pages.
fn smgr(disk: &SimDisk) -> Smgr {
    Smgr::new(Arc::new(disk.clone()), DATABASE, 4, false).unwrap()
}

fn page(block: u32, lsn: u64) -> PageImage {
    let mut page = PageImage::zeroed();
    Header { lsn: Lsn(lsn), ..Header::empty(PageKind::Plain, 0) }.write(&mut page);
    seal(&mut page, DATABASE, identity(block));
    page
}

fn lsn_of(smgr: &Smgr, block: u32) -> Result<Lsn, SmgrError> {
    let mut page = PageImage::zeroed();
    smgr.read(identity(block), &mut page)?;
    Ok(Header::read(&page).lsn)
}

fn pay_all(smgr: &Smgr) {
    let cycle = smgr.sync_queue().begin_cycle();
    for owed in smgr.sync_queue().owed_before(cycle) {
        assert!(smgr.sync_queue().take(&owed));
        smgr.sync(owed).unwrap();
    }
}

#[test]
fn pages_are_found_again_across_segments() {
    let disk = SimDisk::new();
    let files = smgr(&disk);
    files.create(RELATION, Fork::Main).unwrap();
    assert_eq!(files.blocks(RELATION, Fork::Main).unwrap(), 0);
    assert_eq!(files.extend(RELATION, Fork::Main, 10).unwrap(), BlockNumber(0));
    assert_eq!(files.extend(RELATION, Fork::Main, 1).unwrap(), BlockNumber(10));
    for block in 0..11 {
        assert_eq!(lsn_of(&files, block).unwrap(), Lsn(0), "never written");
        files.write(identity(block), &page(block, u64::from(block) + 100)).unwrap();
    }
    let again = smgr(&disk);
    assert_eq!(again.blocks(RELATION, Fork::Main).unwrap(), 11);
    for block in 0..11 {
        assert_eq!(lsn_of(&again, block).unwrap(), Lsn(u64::from(block) + 100));
    }
    let names: Vec<String> = disk
        .list(&Name::parse("base").unwrap())
        .unwrap()
        .into_iter()
        .map(|entry| entry.name)
        .collect();
    assert_eq!(names, ["16384", "16384.1", "16384.2"]);
    assert_eq!(again.relations().unwrap(), [(RELATION, Fork::Main)]);
}

#[test]
fn a_block_beyond_the_end_is_an_error_and_never_an_empty_page() {
    let disk = SimDisk::new();
    let files = smgr(&disk);
    files.create(RELATION, Fork::Main).unwrap();
    files.extend(RELATION, Fork::Main, 5).unwrap();
    for block in [5, 7, 8, 1_000_000] {
        let expected = SmgrError::BeyondEnd { identity: identity(block), blocks: 5 };
        assert_eq!(lsn_of(&files, block).unwrap_err(), expected);
        assert_eq!(files.write(identity(block), &page(block, 1)).unwrap_err(), expected);
    }
    let error = files.blocks(RelationNumber(1), Fork::Main).unwrap_err();
    assert!(
        matches!(&error, SmgrError::Vfs(error) if error.kind() == VfsErrorKind::NotFound),
        "{error}"
    );
}

#[test]
fn a_misplaced_or_damaged_page_is_named() {
    let disk = SimDisk::new();
    let files = smgr(&disk);
    files.create(RELATION, Fork::Main).unwrap();
    files.extend(RELATION, Fork::Main, 6).unwrap();
    files.write(identity(5), &page(4, 1)).unwrap();
    files.write(identity(1), &page(1, 1)).unwrap();
    let name = Name::parse("base/16384").unwrap();
    disk.damage(&name, 8192 + 4000, |byte| byte ^ 4, 1).unwrap();
    for block in [5, 1] {
        let error = lsn_of(&files, block).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, SmgrError::Damage(_)), "{text}");
        assert!(text.contains(&format!("relation 16384, fork main, block {block}")), "{text}");
    }
}

#[test]
fn a_full_disk_is_an_answer_and_existing_blocks_can_still_be_written() {
    let disk = SimDisk::new();
    let files = smgr(&disk);
    files.create(RELATION, Fork::Main).unwrap();
    files.extend(RELATION, Fork::Main, 3).unwrap();
    disk.set_quota_bytes(Some(disk.used_bytes()));
    let error = files.extend(RELATION, Fork::Main, 2).unwrap_err();
    assert!(
        matches!(&error, SmgrError::Vfs(error) if error.kind() == VfsErrorKind::Full),
        "{error}"
    );
    assert_eq!(files.blocks(RELATION, Fork::Main).unwrap(), 3);
    for block in 0..3 {
        files.write(identity(block), &page(block, 5)).unwrap();
    }
}

#[test]
fn a_truncated_fork_grows_again_as_zeros() {
    let disk = SimDisk::new();
    let files = smgr(&disk);
    files.create(RELATION, Fork::Main).unwrap();
    files.extend(RELATION, Fork::Main, 10).unwrap();
    for block in 0..10 {
        files.write(identity(block), &page(block, 7)).unwrap();
    }
    files.truncate(RELATION, Fork::Main, 6).unwrap();
    assert_eq!(files.blocks(RELATION, Fork::Main).unwrap(), 6);
    files.truncate(RELATION, Fork::Main, 8).unwrap();
    assert_eq!(files.blocks(RELATION, Fork::Main).unwrap(), 6, "it never grows by truncation");
    assert_eq!(files.extend(RELATION, Fork::Main, 4).unwrap(), BlockNumber(6));
    for block in 0..10 {
        let expected = if block < 6 { Lsn(7) } else { Lsn(0) };
        assert_eq!(lsn_of(&files, block).unwrap(), expected, "block {block}");
    }
    files.truncate(RELATION, Fork::Main, 0).unwrap();
    assert_eq!(files.blocks(RELATION, Fork::Main).unwrap(), 0);
}

#[test]
fn a_dropped_relation_leaves_no_file_and_no_debt() {
    let disk = SimDisk::new();
    let files = smgr(&disk);
    for fork in Fork::ALL {
        files.create(RELATION, fork).unwrap();
        files.extend(RELATION, fork, 9).unwrap();
    }
    files.drop_relation(RELATION).unwrap();
    assert!(!files.exists(RELATION, Fork::Main).unwrap());
    assert_eq!(disk.list(&Name::parse("base").unwrap()).unwrap(), []);
    let cycle = files.sync_queue().begin_cycle();
    assert_eq!(files.sync_queue().owed_before(cycle), [OwedSync::Directory]);
}

#[test]
fn what_a_checkpoint_paid_survives_any_crash() {
    let disk = SimDisk::new();
    let files = smgr(&disk);
    files.create(RELATION, Fork::Main).unwrap();
    files.extend(RELATION, Fork::Main, 6).unwrap();
    for block in 0..6 {
        files.write(identity(block), &page(block, 1)).unwrap();
    }
    pay_all(&files);
    assert!(files.sync_queue().is_empty());
    // Rewritten and grown, and not paid.
    for block in 0..6 {
        files.write(identity(block), &page(block, 2)).unwrap();
    }
    files.extend(RELATION, Fork::Main, 7).unwrap();
    for seed in 0..200 {
        let after = smgr(&disk.crash(&mut Drawn::new(seed, disk.operations())));
        assert!(after.blocks(RELATION, Fork::Main).unwrap() >= 6, "seed {seed}");
        for block in 0..6 {
            // Torn is seen as damage; whole is old or new.
            match lsn_of(&after, block) {
                Ok(lsn) => assert!(lsn == Lsn(1) || lsn == Lsn(2), "seed {seed}: {lsn}"),
                Err(SmgrError::Damage(_)) => {}
                Err(error) => panic!("seed {seed}: {error}"),
            }
        }
    }
    let after = smgr(&disk.crash(&mut Nothing));
    assert!((0..6).all(|block| lsn_of(&after, block).unwrap() == Lsn(1)));
}

#[test]
fn a_crash_within_a_truncation_leaves_no_gap() {
    let disk = SimDisk::new();
    let files = smgr(&disk);
    files.create(RELATION, Fork::Main).unwrap();
    files.extend(RELATION, Fork::Main, 11).unwrap();
    pay_all(&files);
    disk.observe(|boundary| {
        for seed in 0..50 {
            let disk = boundary.crash(&mut Drawn::new(seed, boundary.operations()));
            let after = smgr(&disk);
            let blocks = after.blocks(RELATION, Fork::Main).unwrap();
            assert!((2..=11).contains(&blocks), "{blocks}");
            // Whatever is left is whole: every counted block reads, and it can grow again, also to
            // the very end of a segment, without old blocks joining in.
            assert!((0..blocks).all(|block| lsn_of(&after, block).is_ok()));
            let mut end = blocks;
            for by in [2, 4, 1] {
                assert_eq!(after.extend(RELATION, Fork::Main, by).unwrap(), BlockNumber(end));
                end += by;
                assert_eq!(after.blocks(RELATION, Fork::Main).unwrap(), end, "seed {seed}");
            }
            assert!((blocks..end).all(|block| lsn_of(&after, block).unwrap() == Lsn(0)));
        }
    });
    files.truncate(RELATION, Fork::Main, 2).unwrap();
    disk.stop_observing();
    assert_eq!(smgr(&disk.crash(&mut All)).blocks(RELATION, Fork::Main).unwrap(), 2);
}

#[test]
fn names_are_postgresql_s_and_nothing_else_is_taken_for_a_relation() {
    for (fork, segment, expected) in [
        (Fork::Main, 0, "16384"),
        (Fork::Main, 12, "16384.12"),
        (Fork::FreeSpaceMap, 0, "16384_fsm"),
        (Fork::VisibilityMap, 3, "16384_vm.3"),
    ] {
        let segment = SegmentIdentity { relation: RELATION, fork, segment };
        assert_eq!(file_name(segment), expected);
        assert_eq!(parse_name(expected), Some(segment));
    }
    for name in
        ["", "x", "16384.0", "016384", "16384_main", "16384_fsm.", "16384.1.1", "99999999999", "+1"]
    {
        assert_eq!(parse_name(name), None, "{name}");
    }
    let disk = SimDisk::new();
    let files = smgr(&disk);
    disk.open(&Name::parse("base/readme.txt").unwrap(), OpenOptions::CREATE_NEW).unwrap();
    assert_eq!(files.relations().unwrap(), []);
}
