//! Replacing a small file so that after a crash it is the old one or the new one, whole.

use super::{FileSystem, Name, OpenOptions, VfsError, VfsErrorKind};

/// What is being written has the name with this ending until it is complete.
const UNFINISHED: &str = ".new";

/// Gives `name` the content `bytes`, durably and at once: write beside it, sync, rename, sync the
/// directory. On an error the old content is still there, or the new one is.
///
/// # Errors
/// Whatever step failed.
pub fn replace(files: &dyn FileSystem, name: &Name, bytes: &[u8]) -> Result<(), VfsError> {
    let unfinished = Name::parse(&format!("{}{UNFINISHED}", name.as_str()))?;
    remove_if_there(files, &unfinished)?;
    let file = files.open(&unfinished, OpenOptions::CREATE_NEW)?;
    let written = file.write_at(0, bytes).and_then(|()| file.sync());
    drop(file);
    if let Err(error) = written {
        // What is left is only space; the next attempt removes it, too.
        let _ = files.remove(&unfinished);
        return Err(error);
    }
    files.rename(&unfinished, name)?;
    files.sync_directory(&name.parent())
}

/// Reads a whole file; `None` where it is not there. `bytes_max` bounds what a damaged length can
/// make us allocate.
///
/// # Errors
/// `Invalid` when it is longer than `bytes_max`; whatever else failed.
pub fn read(
    files: &dyn FileSystem,
    name: &Name,
    bytes_max: usize,
) -> Result<Option<Vec<u8>>, VfsError> {
    let file = match files.open(name, OpenOptions::READ) {
        Ok(file) => file,
        Err(error) if error.kind() == VfsErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let too_long = || {
        VfsError::new(
            super::Operation::Read,
            name.as_str(),
            VfsErrorKind::Invalid,
            format!("it is longer than the {bytes_max} bytes such a file can have"),
        )
    };
    let length = usize::try_from(file.length()?).map_err(|_| too_long())?;
    if length > bytes_max {
        return Err(too_long());
    }
    let mut bytes = vec![0; length];
    let read = file.read_at(0, &mut bytes)?;
    bytes.truncate(read);
    Ok(Some(bytes))
}

/// Removes a file, durable or not, where it is.
///
/// # Errors
/// Whatever failed other than its absence.
pub fn remove_if_there(files: &dyn FileSystem, name: &Name) -> Result<(), VfsError> {
    match files.remove(name) {
        Err(error) if error.kind() != VfsErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
