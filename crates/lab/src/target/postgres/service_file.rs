//! Service files: connection parameters under a name (`pg_service.conf`).
//!
//! Found as libpq does (PostgreSQL `fe-connect.c`, `parseServiceInfo`): `servicefile`,
//! `PGSERVICEFILE` or `~/.pg_service.conf`; then `pg_service.conf` in `PGSYSCONFDIR` or in the
//! system's directory.

use std::path::{Path, PathBuf};

use super::address::{AddressError, Surroundings};
use super::conninfo::{Parameter, Parameters, known_name};

/// Debian's place of the system's file.
const SYSTEM_DIRECTORY: &str = "/etc/postgresql-common";

/// A service file is small; what is larger is something else.
const LARGEST_FILE_BYTES: u64 = 1 << 20;

/// Adds what the service that is asked for defines and nobody has set.
pub(super) fn complete(
    parameters: &mut Parameters,
    surroundings: &Surroundings<'_>,
) -> Result<(), AddressError> {
    let lookup = |name: &str| (surroundings.environment)(name).filter(|value| !value.is_empty());
    let service = match parameters.get("service") {
        Some(parameter) => parameter.value.clone(),
        None => match lookup("PGSERVICE") {
            Some(service) => service,
            None => return Ok(()),
        },
    };
    let named = parameters
        .get("servicefile")
        .map(|parameter| parameter.value.clone())
        .or_else(|| lookup("PGSERVICEFILE"));
    let user_file = named
        .map(PathBuf::from)
        .or_else(|| surroundings.home_directory.as_ref().map(|home| home.join(".pg_service.conf")));
    let system_file = lookup("PGSYSCONFDIR")
        .map_or_else(|| PathBuf::from(SYSTEM_DIRECTORY), PathBuf::from)
        .join("pg_service.conf");
    let mut searched = Vec::new();
    for path in user_file.into_iter().chain([system_file]) {
        searched.push(path.display().to_string());
        if let Some(text) = read(&path)?
            && apply(&text, &path, &service, parameters)?
        {
            return Ok(());
        }
    }
    Err(AddressError::new(format!(
        "service \"{}\" is not defined in {}; add a section [{0}] to one of them",
        crate::text::excerpt(&service, 60),
        searched.join(" or ")
    )))
}

fn read(path: &Path) -> Result<Option<String>, AddressError> {
    let size = match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => metadata.len(),
        Ok(_) | Err(_) => return Ok(None),
    };
    if size > LARGEST_FILE_BYTES {
        return Err(AddressError::new(format!(
            "{}: {size} bytes are too many for a service file",
            path.display()
        )));
    }
    std::fs::read_to_string(path).map(Some).map_err(|error| {
        AddressError::new(format!("{}: cannot read the service file: {error}", path.display()))
    })
}

/// Adds the parameters of section `service`; false when there is no such section.
fn apply(
    text: &str,
    path: &Path,
    service: &str,
    parameters: &mut Parameters,
) -> Result<bool, AddressError> {
    let mut in_section = false;
    let mut was_found = false;
    for (i, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            // The first section of that name is the whole of it, as in libpq.
            if was_found {
                break;
            }
            in_section = name == service;
            was_found |= in_section;
            continue;
        }
        if !in_section {
            continue;
        }
        let wherever = format!("{}, line {}", path.display(), i + 1);
        let Some((name, value)) = line.split_once('=') else {
            return Err(AddressError::new(format!(
                "{wherever}: \"=\" is missing; write name=value"
            )));
        };
        let name = known_name(name.trim(), &wherever)?;
        if matches!(name, "service" | "servicefile") {
            return Err(AddressError::new(format!(
                "{wherever}: a service cannot refer to another service; remove the line"
            )));
        }
        let value = value.trim().to_owned();
        if !value.is_empty() {
            parameters.entry(name).or_insert(Parameter { value, origin: wherever });
        }
    }
    Ok(was_found)
}
