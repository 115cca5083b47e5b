//! Twitter's cache traces: seconds, key, key size, value size, client, operation, time to live (J. Yang,
//! Y. Yue, K. V. Rashmi, "A large scale analysis of hundreds of in-memory cache clusters at Twitter",
//! OSDI 2020). A key is one page; objects are not cut, since they do not lie on pages.

use super::super::error::{Fault, shown};
use super::super::reference::Reference;
use super::{Lines, fields, key_number, known_access, number, time_us};

const REMEDY: &str = "a line is time,key,key size,value size,client,operation,TTL";

/// See the module.
pub(in super::super) struct TwitterLines;

impl Lines for TwitterLines {
    fn line(&mut self, line: &[u8], out: &mut Vec<Reference>) -> Result<(), Fault> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let mut fields = fields(line);
        let mut next = || fields.next().unwrap_or_default();
        let time = next();
        let time_us = time_us(&time, 1_000_000_000)
            .ok_or_else(|| Fault::new(format!("{} is no time", shown(&time)), REMEDY))?;
        let key = next();
        number(&next(), "key size", REMEDY)?;
        number(&next(), "value size", REMEDY)?;
        number(&next(), "client", REMEDY)?;
        let access = known_access(&next())?;
        let page = key_number(&key);
        out.push(Reference { access, time_us: Some(time_us), ..Reference::read(page) });
        Ok(())
    }
}
