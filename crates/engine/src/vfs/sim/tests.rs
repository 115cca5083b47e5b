use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use super::crash::{All, Drawn, Enumeration, Nothing, Prefix, Recorded, Replayed};
use super::{SimDisk, SyncAftermath, SyncFailure};
use crate::vfs::{
    EntryKind, File, FileSystem, Name, OpenOptions, OsFileSystem, VfsError, VfsErrorKind, durable,
};

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn content(disk: &SimDisk, text: &str) -> Option<Vec<u8>> {
    durable::read(disk, &name(text), 1 << 20).unwrap()
}

/// A file `a` with `bytes`, durable.
fn settled(bytes: &[u8]) -> (SimDisk, Arc<dyn File>) {
    let disk = SimDisk::new();
    let file = disk.open(&name("a"), OpenOptions::CREATE_NEW).unwrap();
    file.write_at(0, bytes).unwrap();
    file.sync().unwrap();
    disk.sync_directory(&Name::root()).unwrap();
    (disk, file)
}

#[test]
fn what_was_synced_survives_and_what_was_not_may_not() {
    let (disk, file) = settled(b"old");
    file.write_at(0, b"newer").unwrap();
    assert_eq!(content(&disk.crash(&mut Nothing), "a").unwrap(), b"old");
    assert_eq!(content(&disk.crash(&mut All), "a").unwrap(), b"newer");
    file.sync().unwrap();
    assert_eq!(content(&disk.crash(&mut Nothing), "a").unwrap(), b"newer");
}

#[test]
fn a_synced_file_whose_name_was_not_synced_is_gone() {
    let disk = SimDisk::new();
    let file = disk.open(&name("a"), OpenOptions::CREATE_NEW).unwrap();
    file.write_at(0, b"data").unwrap();
    file.sync().unwrap();
    assert_eq!(content(&disk.crash(&mut Nothing), "a"), None);
    disk.sync_directory(&Name::root()).unwrap();
    assert_eq!(content(&disk.crash(&mut Nothing), "a").unwrap(), b"data");
}

#[test]
fn a_file_in_a_directory_whose_name_was_not_synced_is_gone_with_it() {
    let disk = SimDisk::new();
    disk.create_directory(&name("base")).unwrap();
    let file = disk.open(&name("base/1"), OpenOptions::CREATE_NEW).unwrap();
    file.sync().unwrap();
    disk.sync_directory(&name("base")).unwrap();
    assert_eq!(disk.crash(&mut Nothing).find(&name("base/1")).unwrap(), None);
    disk.sync_directory(&Name::root()).unwrap();
    let after = disk.crash(&mut Nothing);
    assert_eq!(after.find(&name("base/1")).unwrap(), Some(EntryKind::File { bytes: 0 }));
}

#[test]
fn sectors_of_one_write_survive_independently_and_may_be_junk() {
    let (disk, file) = settled(&[b'o'; 1024]);
    file.write_at(0, &[b'n'; 1024]).unwrap();
    let mut seen = BTreeSet::new();
    let mut enumeration = Enumeration::new();
    loop {
        let bytes = content(&disk.crash(&mut enumeration), "a").unwrap();
        let kind = |sector: &[u8]| match sector {
            sector if sector.iter().all(|byte| *byte == b'o') => 'o',
            sector if sector.iter().all(|byte| *byte == b'n') => 'n',
            _ => 'j',
        };
        seen.insert([kind(&bytes[..512]), kind(&bytes[512..])]);
        if !enumeration.advance() {
            break;
        }
    }
    assert_eq!(seen.len(), 9, "{seen:?}");
}

#[test]
fn a_cut_file_that_grows_again_shows_old_bytes_only_until_the_cut_is_synced() {
    let (disk, file) = settled(&[b'o'; 1024]);
    file.set_length(100).unwrap();
    file.set_length(1024).unwrap();
    let mut now = [1; 1024];
    assert_eq!(file.read_at(0, &mut now).unwrap(), 1024);
    assert!(
        now[..100].iter().all(|byte| *byte == b'o') && now[100..].iter().all(|byte| *byte == 0)
    );
    let mut seen = BTreeSet::new();
    let mut enumeration = Enumeration::new();
    loop {
        let bytes = content(&disk.crash(&mut enumeration), "a").unwrap();
        seen.insert((bytes.len(), bytes.get(600).copied()));
        if !enumeration.advance() {
            break;
        }
    }
    assert!(seen.contains(&(1024, Some(b'o'))), "the cut did not reach the disk: {seen:?}");
    assert!(seen.contains(&(1024, Some(0))) && seen.contains(&(100, None)), "{seen:?}");
    file.sync().unwrap();
    let after = content(&disk.crash(&mut Nothing), "a").unwrap();
    assert!(after.len() == 1024 && after[100..].iter().all(|byte| *byte == 0));
}

/// Every way in which a crash at every moment of `work` can leave file `control`.
fn outcomes(
    disk: &SimDisk,
    work: impl FnOnce(&SimDisk) -> Result<(), VfsError>,
) -> BTreeSet<Option<Vec<u8>>> {
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let note = |crash: &mut dyn FnMut(&mut Enumeration) -> SimDisk,
                seen: &Mutex<BTreeSet<Option<Vec<u8>>>>| {
        let mut enumeration = Enumeration::new();
        loop {
            seen.lock().unwrap().insert(content(&crash(&mut enumeration), "control"));
            if !enumeration.advance() {
                break;
            }
        }
    };
    let observed = Arc::clone(&seen);
    disk.observe(move |boundary| {
        note(&mut |enumeration| boundary.crash(enumeration), &observed);
    });
    work(disk).unwrap();
    disk.stop_observing();
    note(&mut |enumeration| disk.crash(enumeration), &seen);
    let seen = seen.lock().unwrap();
    seen.clone()
}

#[test]
fn a_replaced_file_is_the_old_one_or_the_new_one_after_a_crash_at_any_moment() {
    let disk = SimDisk::new();
    durable::replace(&disk, &name("control"), b"old").unwrap();
    let new = vec![b'n'; 600];
    let seen = outcomes(&disk, |disk| durable::replace(disk, &name("control"), &new));
    assert_eq!(seen, BTreeSet::from([Some(b"old".to_vec()), Some(new)]));
}

#[test]
fn a_replacement_that_forgets_a_sync_is_caught() {
    let careless = |with_file_sync: bool| {
        move |disk: &SimDisk| {
            let file = disk.open(&name("control.new"), OpenOptions::CREATE_NEW)?;
            file.write_at(0, b"new")?;
            if with_file_sync {
                file.sync()?;
            }
            disk.rename(&name("control.new"), &name("control"))?;
            disk.sync_directory(&Name::root())
        }
    };
    for (with_file_sync, is_caught) in [(false, true), (true, false)] {
        let disk = SimDisk::new();
        durable::replace(&disk, &name("control"), b"old").unwrap();
        let seen = outcomes(&disk, careless(with_file_sync));
        let allowed = BTreeSet::from([Some(b"old".to_vec()), Some(b"new".to_vec())]);
        assert_eq!(seen != allowed, is_caught, "file synced: {with_file_sync}: {seen:?}");
    }
}

#[test]
fn a_disk_that_keeps_the_order_loses_the_end_only() {
    let (disk, file) = settled(b"");
    let first = disk.operations();
    for at in 0..4 {
        file.write_at(at * 512, &[b'x'; 512]).unwrap();
    }
    for kept in 0..=4 {
        let after = content(&disk.crash(&mut Prefix(first + kept)), "a").unwrap();
        assert_eq!(after.len() as u64, kept * 512);
    }
}

#[test]
fn a_failed_sync_leaves_what_the_kernel_leaves_and_the_handle_refuses_more() {
    for (aftermath, read, crashed) in [
        (SyncAftermath::Keep, "new", "new"),
        (SyncAftermath::Forget, "new", "old"),
        (SyncAftermath::Drop, "old", "old"),
    ] {
        let (disk, file) = settled(b"old");
        disk.fail_sync(SyncFailure { prefix: "a".to_owned(), nth: 1, aftermath });
        file.write_at(0, b"new").unwrap();
        assert_eq!(file.sync().unwrap_err().kind(), VfsErrorKind::Io);
        assert_eq!(file.sync().unwrap_err().kind(), VfsErrorKind::Poisoned, "{aftermath:?}");
        assert_eq!(content(&disk, "a").unwrap(), read.as_bytes(), "{aftermath:?}");
        // Another handle may succeed, and proves nothing.
        disk.open(&name("a"), OpenOptions::READ_WRITE).unwrap().sync().unwrap();
        let after = content(&disk.crash(&mut Nothing), "a").unwrap();
        assert_eq!(after, crashed.as_bytes(), "{aftermath:?}");
    }
}

#[test]
fn a_full_disk_refuses_and_allocated_space_can_be_written() {
    let disk = SimDisk::new();
    disk.set_quota_bytes(Some(8192));
    let file = disk.open(&name("a"), OpenOptions::CREATE_NEW).unwrap();
    file.allocate(0, 8192).unwrap();
    assert_eq!(disk.free_bytes().unwrap(), 0);
    file.write_at(0, &[1; 8192]).unwrap();
    assert_eq!(file.write_at(8192, &[1]).unwrap_err().kind(), VfsErrorKind::Full);
    assert_eq!(file.allocate(8192, 1).unwrap_err().kind(), VfsErrorKind::Full);
    file.set_length(4096).unwrap();
    assert_eq!(disk.used_bytes(), 4096);
    assert!(file.write_at(4096, &[1]).is_ok());
    disk.remove(&name("a")).unwrap();
    disk.sync_directory(&Name::root()).unwrap();
    assert_eq!(disk.used_bytes(), 0);
}

#[test]
fn nothing_is_read_or_written_without_power() {
    let (disk, file) = settled(b"old");
    disk.power_off_after(disk.operations() + 1);
    assert!(file.write_at(0, b"1").is_ok());
    assert_eq!(file.write_at(0, b"2").unwrap_err().kind(), VfsErrorKind::PoweredOff);
    assert_eq!(file.read_at(0, &mut [0]).unwrap_err().kind(), VfsErrorKind::PoweredOff);
    assert_eq!(content(&disk.crash(&mut All), "a").unwrap(), b"1ld");
}

#[test]
fn a_second_opener_is_refused_until_the_first_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let systems: [Box<dyn FileSystem>; 2] =
        [Box::new(SimDisk::new()), Box::new(OsFileSystem::new(folder.path()).unwrap())];
    for files in systems {
        let first = files.lock(&name("evenkeel.lock")).unwrap();
        let second = files.lock(&name("evenkeel.lock")).err().map(|error| error.kind());
        assert_eq!(second, Some(VfsErrorKind::Locked));
        drop(first);
        assert!(files.lock(&name("evenkeel.lock")).is_ok());
    }
}

#[test]
fn rot_changes_what_is_read_and_what_is_durable() {
    let (disk, _file) = settled(b"abc");
    disk.damage(&name("a"), 1, |byte| byte ^ 1, 1).unwrap();
    assert_eq!(content(&disk, "a").unwrap(), b"acc");
    assert_eq!(content(&disk.crash(&mut Nothing), "a").unwrap(), b"acc");
}

#[test]
fn a_link_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/etc/passwd", folder.path().join("a")).unwrap();
    let files = OsFileSystem::new(folder.path()).unwrap();
    let error = files.open(&name("a"), OpenOptions::READ).err().unwrap();
    assert_eq!(error.kind(), VfsErrorKind::Invalid, "{error}");
    assert_eq!(files.list(&Name::root()).unwrap()[0].kind, None);
}

mod properties {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Create(u8),
        Write(u8, u64, usize),
        SetLength(u8, u64),
        Allocate(u8, u64, u64),
        Rename(u8, u8),
        Remove(u8),
        Sync(u8),
        SyncDirectory,
        Read(u8, u64, usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let (file, offset) = (0_u8..3, 0_u64..9000);
        prop_oneof![
            file.clone().prop_map(Step::Create),
            (file.clone(), offset.clone(), 0_usize..5000)
                .prop_map(|(f, o, n)| Step::Write(f, o, n)),
            (file.clone(), offset.clone()).prop_map(|(f, n)| Step::SetLength(f, n)),
            (file.clone(), offset.clone(), 0_u64..5000)
                .prop_map(|(f, o, n)| Step::Allocate(f, o, n)),
            (file.clone(), file.clone()).prop_map(|(f, t)| Step::Rename(f, t)),
            file.clone().prop_map(Step::Remove),
            file.clone().prop_map(Step::Sync),
            Just(Step::SyncDirectory),
            (file, offset, 0_usize..5000).prop_map(|(f, o, n)| Step::Read(f, o, n)),
        ]
    }

    /// What a step answers, in words that both systems share.
    fn run(files: &dyn FileSystem, step: &Step, number: u8) -> String {
        let of = |file: u8| name(&format!("base/{file}"));
        let open = |file: u8| files.open(&of(file), OpenOptions::READ_WRITE);
        let told = |result: Result<(), VfsError>| match result {
            Ok(()) => "done".to_owned(),
            Err(error) => format!("{:?}", error.kind()),
        };
        match *step {
            Step::Create(file) => told(files.open(&of(file), OpenOptions::CREATE_NEW).map(|_| ())),
            Step::Write(file, offset, bytes) => {
                told(open(file).and_then(|file| file.write_at(offset, &vec![number.max(1); bytes])))
            }
            Step::SetLength(file, bytes) => {
                told(open(file).and_then(|file| file.set_length(bytes)))
            }
            Step::Allocate(file, offset, bytes) => {
                told(open(file).and_then(|file| file.allocate(offset, bytes)))
            }
            Step::Rename(from, to) => told(files.rename(&of(from), &of(to))),
            Step::Remove(file) => told(files.remove(&of(file))),
            Step::Sync(file) => told(open(file).and_then(|file| file.sync())),
            Step::SyncDirectory => told(files.sync_directory(&name("base"))),
            Step::Read(file, offset, bytes) => {
                let mut buffer = vec![0; bytes];
                match open(file).and_then(|file| file.read_at(offset, &mut buffer)) {
                    Ok(count) => format!("{count} {:?}", &buffer[..count]),
                    Err(error) => format!("{:?}", error.kind()),
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn the_simulated_disk_answers_as_the_system_does(steps in prop::collection::vec(step(), 0..40)) {
            let folder = tempfile::tempdir().unwrap();
            let real = OsFileSystem::new(folder.path()).unwrap();
            let disk = SimDisk::new();
            for files in [&real as &dyn FileSystem, &disk] {
                files.create_directory(&name("base")).unwrap();
            }
            for (number, step) in (1..).zip(&steps) {
                prop_assert_eq!(run(&disk, step, number), run(&real, step, number), "{:?}", step);
                prop_assert_eq!(disk.list(&name("base")).unwrap(), real.list(&name("base")).unwrap());
            }
        }

        #[test]
        fn what_is_durable_survives_every_drawn_crash_and_a_record_repeats_it(
            before in prop::collection::vec(step(), 0..20),
            after in prop::collection::vec(step(), 0..20),
            seed in any::<u64>(),
        ) {
            let disk = SimDisk::new();
            disk.create_directory(&name("base")).unwrap();
            disk.sync_directory(&Name::root()).unwrap();
            for (number, step) in (1..).zip(&before) {
                run(&disk, step, number);
            }
            for file in 0..3 {
                run(&disk, &Step::Sync(file), 0);
            }
            run(&disk, &Step::SyncDirectory, 0);
            let all = |disk: &SimDisk| {
                (0..3).map(|file| content(disk, &format!("base/{file}"))).collect::<Vec<_>>()
            };
            // Nothing undurable: any survival gives what there is.
            let still = all(&disk);
            prop_assert_eq!(&all(&disk.crash(&mut Drawn::new(seed, disk.operations()))), &still);
            prop_assert_eq!(&all(&disk.crash(&mut Nothing)), &still);
            for (number, step) in (100..).zip(&after) {
                run(&disk, step, number);
            }
            prop_assert_eq!(all(&disk.crash(&mut All)), all(&disk));
            let mut recorded = Recorded::new(Drawn::new(seed, disk.operations()));
            let crashed = disk.crash(&mut recorded);
            let mut replayed = Replayed::parse(recorded.text()).unwrap();
            prop_assert_eq!(all(&disk.crash(&mut replayed)), all(&crashed));
            // A crash of the crashed disk changes nothing: all that is left is durable.
            prop_assert_eq!(all(&crashed.crash(&mut Nothing)), all(&crashed));
        }

        #[test]
        fn any_text_is_a_record_or_refused(text in "[oj0-9 x-]{0,40}") {
            if let Err(error) = Replayed::parse(&text) {
                prop_assert!(error.contains("neither"), "{}", error);
            }
        }
    }
}
