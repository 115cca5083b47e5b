use std::sync::Arc;

use super::control::{Control, ControlStore};
use super::reader::LogReader;
use super::record::{ManagerNumber, NewBlock, NewRecord, RecordBuffer, Replay};
use super::segment::Segments;
use super::{Inserted, Wal, WalError, WalSettings};
use crate::page::{
    BlockNumber, DatabaseId, Fork, Header, Lsn, PageIdentity, PageImage, PageKind, RelationNumber,
};
use crate::runtime::{OsRuntime, Tasks};
use crate::vfs::fault::FaultyFileSystem;
use crate::vfs::sim::SimDisk;
use crate::vfs::{FileSystem, Name};

const DATABASE: DatabaseId = DatabaseId(0x5EED);
const SEGMENT_BYTES: u32 = 8192;
const TEST: ManagerNumber = ManagerNumber(7);

const SETTINGS: WalSettings = WalSettings {
    ring_bytes: 64 << 10,
    full_page_writes: true,
    check_images: false,
    min_wal_bytes: 4 * SEGMENT_BYTES as u64,
    writer_delay_ms: 0,
};

fn create(files: &Arc<dyn FileSystem>) {
    Wal::create(files, &Control::new(DATABASE, SEGMENT_BYTES, 4)).unwrap();
}

fn start(files: Arc<dyn FileSystem>, settings: WalSettings) -> Result<Wal, WalError> {
    let store = ControlStore::open(&*files)?;
    Wal::start(files, Arc::new(OsRuntime::new()), store, settings)
}

/// A new log on empty files.
pub(super) fn start_on(files: Arc<dyn FileSystem>) -> Wal {
    create(&files);
    start(files, SETTINGS).unwrap()
}

fn on_disk(disk: &SimDisk) -> Wal {
    start_on(Arc::new(disk.clone()))
}

/// A record of `bytes` of data that follow from `transaction`.
pub(super) fn insert_plain(
    wal: &Wal,
    transaction: u64,
    bytes: usize,
) -> Result<Inserted, WalError> {
    let data = data_of(transaction, bytes);
    let record = NewRecord { manager: TEST, info: 1, transaction, blocks: &[], data: &[&data] };
    wal.insert(&mut RecordBuffer::new(), &record)
}

fn data_of(transaction: u64, bytes: usize) -> Vec<u8> {
    (0..bytes as u64).map(|at| ((at * 31 + transaction * 17) % 251) as u8).collect()
}

/// What a reader finds: transactions with the bytes of their data, or why it is no log; judged by the
/// watermark.
fn read(files: Arc<dyn FileSystem>) -> Result<Vec<(u64, Vec<u8>)>, WalError> {
    let control = ControlStore::open(&*files)?.current();
    let segments = Segments::new(files, &control)?;
    let mut reader = LogReader::new(
        &segments,
        control.database,
        control.incarnation,
        control.redo,
        control.previous,
    );
    let mut found = Vec::new();
    while let Some(record) = reader.next_record()? {
        if record.manager == TEST {
            found.push((record.transaction, record.data.to_vec()));
        }
    }
    reader.check_end(control.durable)?;
    Ok(found)
}

fn transactions(disk: &SimDisk) -> Result<Vec<u64>, WalError> {
    let found = read(Arc::new(disk.clone()))?;
    Ok(found.into_iter().map(|(transaction, _)| transaction).collect())
}

#[test]
fn what_is_logged_is_read_whatever_its_length_and_however_often_it_is_flushed() {
    let disk = SimDisk::new();
    let wal = on_disk(&disk);
    let mut expected = Vec::new();
    for transaction in 0..400 {
        let bytes = usize::try_from(transaction * transaction % 3000).unwrap();
        let inserted = insert_plain(&wal, transaction, bytes).unwrap();
        expected.push((transaction, data_of(transaction, bytes)));
        if transaction % 97 == 0 {
            wal.flush(inserted.end).unwrap();
            assert!(wal.durable() >= inserted.end);
        }
    }
    wal.flush(wal.end()).unwrap();
    assert_eq!(read(Arc::new(disk)).unwrap(), expected);
    let counted = wal.statistics();
    assert_eq!((counted.records, counted.groups), (400, 6));
    assert!(counted.ring_waits > 0, "the ring holds less than all");
    assert_eq!(counted.written_bytes, counted.record_bytes + counted.group_bytes);
    assert_eq!(counted.written_bytes, wal.end().0 - 512);
    assert_eq!(counted.flushes_shared, 0);
}

#[test]
fn records_of_parallel_tasks_are_all_there_each_task_s_in_its_order() {
    let disk = SimDisk::new();
    let wal = Arc::new(on_disk(&disk));
    let runtime = OsRuntime::new();
    let tasks: Vec<_> = (0..4_u64)
        .map(|task| {
            let wal = wal.clone();
            let body = move || {
                for number in 0..500 {
                    let transaction = task * 1000 + number;
                    let bytes = usize::try_from(transaction * 37 % 900).unwrap();
                    let inserted = insert_plain(&wal, transaction, bytes).unwrap();
                    if number % 50 == 49 {
                        wal.flush(inserted.end).unwrap();
                    }
                }
            };
            runtime.spawn("inserter", Box::new(body)).unwrap()
        })
        .collect();
    for task in tasks {
        task.join().unwrap();
    }
    let found = read(Arc::new(disk)).unwrap();
    assert_eq!(found.len(), 2000);
    for task in 0..4 {
        let own: Vec<u64> =
            found.iter().map(|(of, _)| *of).filter(|of| of / 1000 == task).collect();
        assert!(own.is_sorted() && own.len() == 500);
    }
    for (transaction, data) in found {
        assert_eq!(data, data_of(transaction, data.len()));
    }
}

#[test]
fn a_flush_of_what_is_durable_does_nothing_and_one_beyond_the_end_is_refused() {
    let disk = SimDisk::new();
    let wal = on_disk(&disk);
    let inserted = insert_plain(&wal, 1, 10).unwrap();
    wal.flush(inserted.end).unwrap();
    let operations = disk.operations();
    wal.flush(wal.end()).unwrap();
    assert_eq!(disk.operations(), operations);
    let end = wal.end();
    let up_to = Lsn(end.0 + 1);
    assert_eq!(wal.flush(up_to), Err(WalError::BeyondEnd { up_to, end }));
}

#[test]
fn the_first_change_behind_a_redo_point_carries_the_page_and_the_second_does_not() {
    let wal = on_disk(&SimDisk::new());
    let mut page = PageImage::zeroed();
    Header::empty(PageKind::Plain, 0).write(&mut page);
    let mut change = |replay| {
        let identity =
            PageIdentity { relation: RelationNumber(1), fork: Fork::Main, block: BlockNumber(0) };
        let before = wal.statistics().full_page_images;
        let blocks = [NewBlock { identity, page: &page, replay, data: b"x" }];
        let record =
            NewRecord { manager: TEST, info: 0, transaction: 0, blocks: &blocks, data: &[] };
        let inserted = wal.insert(&mut RecordBuffer::new(), &record).unwrap();
        Header { lsn: inserted.end, ..Header::read(&page) }.write(&mut page);
        wal.statistics().full_page_images - before
    };
    assert_eq!(change(Replay::Repeat), 1);
    assert_eq!(change(Replay::Repeat), 0);
    wal.place_redo_point().unwrap();
    assert_eq!(change(Replay::Repeat), 1);
    assert_eq!(change(Replay::Repeat), 0);
    assert_eq!(change(Replay::MakeAnew), 0);
    assert_eq!(change(Replay::Image), 1);
}

#[test]
fn a_full_disk_leaves_the_ballast_for_what_is_urgent_and_space_lets_it_go_on() {
    let disk = SimDisk::new();
    let wal = on_disk(&disk);
    disk.set_quota_bytes(Some(disk.used_bytes()));
    let mut logged = 0;
    let error = loop {
        match insert_plain(&wal, logged, 500) {
            Ok(_) => logged += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, WalError::Full(_)), "{error}");
    assert!(logged > 0);
    let urgent =
        NewRecord { manager: TEST, info: 1, transaction: logged, blocks: &[], data: &[&[1; 4000]] };
    let inserted = wal.insert_urgent(&mut RecordBuffer::new(), &urgent).unwrap();
    wal.flush(inserted.end).unwrap();
    assert!(matches!(insert_plain(&wal, 0, 500), Err(WalError::Full(_))));
    // A checkpoint gives up segments: that is space enough, without any from outside.
    let point = wal.place_redo_point().unwrap();
    wal.publish_redo(point, 1).unwrap();
    for transaction in 0..10 {
        insert_plain(&wal, transaction, 100).unwrap();
    }
    wal.flush(wal.end()).unwrap();
    assert_eq!(transactions(&disk).unwrap(), (0..10).collect::<Vec<_>>());
}

#[test]
fn old_segments_are_used_again_and_those_too_many_are_removed() {
    let disk = SimDisk::new();
    let wal = on_disk(&disk);
    for transaction in 0..300 {
        insert_plain(&wal, transaction, 300).unwrap();
        if transaction % 60 == 59 {
            let point = wal.place_redo_point().unwrap();
            wal.publish_redo(point, transaction).unwrap();
            let files = disk.list(&Name::parse("wal").unwrap()).unwrap().len();
            assert!(files <= 5, "{files} files");
        }
    }
    let counted = wal.statistics();
    assert!(counted.segments_recycled > 3 && counted.segments_removed > 0, "{counted:?}");
    assert_eq!(wal.control().redo, wal.redo());
    assert_eq!(transactions(&disk).unwrap(), []);
}

#[test]
fn a_background_flush_is_done_by_a_step_or_by_the_worker() {
    let disk = SimDisk::new();
    let wal = Arc::new(on_disk(&disk));
    while wal.step().unwrap() {}
    let inserted = insert_plain(&wal, 1, 10).unwrap();
    assert!(!wal.step().unwrap(), "nobody has asked");
    wal.flush_in_background(inserted.end);
    assert!(wal.durable() < inserted.end);
    while wal.step().unwrap() {}
    assert!(wal.durable() >= inserted.end);

    let runtime = OsRuntime::new();
    let worker = wal.clone();
    let task = runtime.spawn("worker", Box::new(move || worker.run().unwrap())).unwrap();
    let inserted = insert_plain(&wal, 2, 10).unwrap();
    wal.flush_in_background(inserted.end);
    wal.stop();
    task.join().unwrap();
    assert!(wal.durable() >= inserted.end, "it stops when nothing is due");
}

/// A log of 14 groups, with the place of each; all durable.
fn fourteen_groups(disk: &SimDisk) -> Vec<(Lsn, Lsn)> {
    let wal = on_disk(disk);
    (0..14)
        .map(|group| {
            let start = wal.end();
            for transaction in 0..3 {
                insert_plain(&wal, group * 10 + transaction, 400).unwrap();
            }
            wal.flush(wal.end()).unwrap();
            (start, wal.end())
        })
        .collect()
}

fn segment_name(segment: u64) -> Name {
    Name::parse(&format!("wal/{segment:016x}")).unwrap()
}

#[test]
fn damage_before_the_last_group_is_a_hole_and_in_the_last_one_a_torn_end() {
    let disk = SimDisk::new();
    let groups = fourteen_groups(&disk);
    let geometry = super::segment::Geometry::new(SEGMENT_BYTES).unwrap();
    let (last_start, end) = groups[13];
    let (mut holes, mut torn, mut harmless) = (0, 0, 0);
    for at in (512..end.0).step_by(8) {
        let damaged = disk.crash(&mut crate::vfs::sim::crash::All);
        let (segment, offset) = geometry.place(Lsn(at));
        damaged.damage(&segment_name(segment), offset, |byte| byte ^ 0x40, 1).unwrap();
        match transactions(&damaged) {
            Err(WalError::Corrupt { at: found, .. }) => {
                assert!(found.0 <= at && at < last_start.0, "{found} for {at}");
                holes += 1;
            }
            // Zeros that end a sector, or the last mark: nothing is lost with them.
            Ok(found) if found.len() == 42 => harmless += 1,
            Ok(found) => {
                assert!(at >= last_start.0 && found.len() >= 39, "{at}: {found:?}");
                torn += 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
    // 1296 of a group's 1536 bytes are records, 40 its mark.
    assert_eq!((holes, torn, harmless), (13 * 1336 / 8, 1296 / 8, (13 * 200 + 240) / 8));
}

#[test]
fn a_segment_that_is_missing_short_or_of_another_database_is_told() {
    let disk = SimDisk::new();
    let (_, end) = fourteen_groups(&disk)[13];
    assert!(end.0 > 2 * 7680 + 2 * 1536, "two groups in the third segment");
    let copy = || disk.crash(&mut crate::vfs::sim::crash::All);
    let missing = copy();
    missing.remove(&segment_name(1)).unwrap();
    assert!(matches!(transactions(&missing), Err(WalError::Corrupt { .. })));
    let short = copy();
    let file = short.open(&segment_name(1), crate::vfs::OpenOptions::READ_WRITE).unwrap();
    file.set_length(4096).unwrap();
    assert!(matches!(transactions(&short), Err(WalError::Corrupt { .. })));
    let foreign = copy();
    let other = SimDisk::new();
    let files: Arc<dyn FileSystem> = Arc::new(other.clone());
    Wal::create(&files, &Control::new(DatabaseId(1), SEGMENT_BYTES, 4)).unwrap();
    let mut bytes = vec![0; SEGMENT_BYTES as usize];
    let read_only = crate::vfs::OpenOptions::READ;
    other.open(&segment_name(1), read_only).unwrap().read_at(0, &mut bytes).unwrap();
    let file = foreign.open(&segment_name(1), crate::vfs::OpenOptions::READ_WRITE).unwrap();
    file.write_at(0, &bytes).unwrap();
    let error = transactions(&foreign).unwrap_err().to_string();
    assert_eq!(
        error,
        "the log is damaged at 0/1E00: segment 0000000000000001 belongs to database \
         0000000000000001, not to 0000000000005eed"
    );
    // A name far beyond every log is not scanned up to.
    let far = copy();
    far.open(&segment_name(u64::MAX), crate::vfs::OpenOptions::CREATE_NEW).unwrap();
    far.open(&segment_name(1 << 40), crate::vfs::OpenOptions::CREATE_NEW).unwrap();
    assert_eq!(transactions(&far).unwrap().len(), 42);
}

#[test]
fn an_older_control_file_with_a_newer_log_is_told() {
    let disk = SimDisk::new();
    fourteen_groups(&disk);
    let name = Name::parse("control").unwrap();
    let older = Control::new(DATABASE, SEGMENT_BYTES, 4);
    let newer = Control { incarnation: 2, redo: Lsn(512), ..older };
    disk.remove(&name).unwrap();
    ControlStore::create(&disk, &newer).unwrap();
    let wal = start(Arc::new(disk.clone()), SETTINGS).unwrap();
    insert_plain(&wal, 99, 5000).unwrap();
    wal.flush(wal.end()).unwrap();
    assert_eq!(transactions(&disk).unwrap(), [99]);
    disk.remove(&name).unwrap();
    ControlStore::create(&disk, &older).unwrap();
    let error = transactions(&disk).unwrap_err().to_string();
    assert!(error.ends_with("the control file is older than the log"), "{error}");
    // One that says that more was durable than there is.
    disk.remove(&name).unwrap();
    ControlStore::create(&disk, &Control { durable: Lsn(1 << 20), ..newer }).unwrap();
    let error = transactions(&disk).unwrap_err().to_string();
    assert!(error.ends_with("the control file says it was durable up to 0/100000"), "{error}");
}

#[test]
fn a_read_error_is_an_error_and_never_the_end_of_the_log() {
    let disk = SimDisk::new();
    fourteen_groups(&disk);
    for nth in 1..=6 {
        let rule = format!("on {nth} read of wal/ : fail io").parse().unwrap();
        let files = FaultyFileSystem::new(Arc::new(disk.clone()), [rule], None);
        let error = read(Arc::new(files)).unwrap_err();
        assert!(matches!(error, WalError::Vfs(_)), "{nth}: {error}");
    }
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let files: Arc<dyn FileSystem> = Arc::new(SimDisk::new());
    create(&files);
    for ring_bytes in [0, 8192, 20_000] {
        let error = start(files.clone(), WalSettings { ring_bytes, ..SETTINGS }).err().unwrap();
        assert_eq!(
            error.to_string(),
            format!("wal_buffers cannot be {ring_bytes}: it is a power of two, 16 KiB at least")
        );
    }
    assert!(matches!(
        Wal::create(&files, &Control::new(DATABASE, SEGMENT_BYTES, 4)),
        Err(WalError::Presence(_))
    ));
    let wal = start(files, SETTINGS).unwrap();
    assert!(matches!(insert_plain(&wal, 1, 40_000), Err(WalError::TooLarge(_))));
    assert!(insert_plain(&wal, 1, 30_000).is_ok());
}
