//! The table `[process]`: the rights of the process.

use warpline_io::rights::User;
use warpline_io_error::plain;
use warpline_nf::Section;

use crate::keys;

/// The table's name: no function can have it.
pub(crate) const TABLE: &str = "process";

/// Reads the user that the process becomes, if the table names one.
pub(crate) fn read(section: &mut Section<'_>) -> Option<User> {
    section.refuse_all_but(&keys::names(keys::PROCESS));
    let name = section.string("user")?;
    let text = match User::named(name) {
        Ok(Some(user)) => return Some(user),
        Ok(None) => format!("there is no user {name:?}; create one with `useradd --system {name}`"),
        Err(why) => format!("user {name:?}: {}", plain(&why)),
    };
    section.mistake("user", text);
    None
}
