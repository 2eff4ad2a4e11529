//! A foreign library as a table of functions, loaded at run time.

use core::error::Error as _;

use libloading::os::unix::Library;

use crate::Missing;

/// Opens the first of `names` that the dynamic linker finds. Libraries are never unloaded, so their
/// functions can be called as long as the process lives. Drivers don't expect to be unloaded
/// either.
pub(crate) fn open(names: &[&str]) -> Result<&'static Library, Missing> {
    let mut reasons = Vec::new();
    for name in names {
        // SAFETY: these are names of drivers and compilers, whose loading does not affect us.
        // Nothing can be proved about a foreign library. It is loaded only if the user's system has
        // it under that name, or the user named it.
        match unsafe { Library::new(*name) } {
            Ok(library) => return Ok(Box::leak(Box::new(library))),
            Err(error) => reasons.push(reason_of(&error)),
        }
    }
    Err(Missing(format!("can't be loaded: {}", reasons.join("; "))))
}

/// The dynamic linker's message, which names the library.
pub(crate) fn reason_of(error: &libloading::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

/// Makes a struct of function pointers and `load`, which finds them all or returns the missing one.
/// The caller of the macro vouches for the signatures, which are those of the library's header.
macro_rules! functions {
    ($(#[$meta:meta])* $table:ident in $names:expr;
     $($name:ident = $symbol:literal ($($argument:ty),*) $(-> $result:ty)?;)*) => {
        $(#[$meta])*
        pub(crate) struct $table {
            $(pub(crate) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl $table {
            /// Finds the library and every function of the table.
            pub(crate) fn load() -> Result<Self, crate::Missing> {
                let library = $crate::sys::library::open($names)?;
                Ok(Self {
                    $($name: {
                        // SAFETY: the type is the function's in the library's header; the library
                        // stays loaded.
                        let found = unsafe {
                            library.get::<unsafe extern "C" fn($($argument),*) $(-> $result)?>(
                                $symbol.as_bytes(),
                            )
                        };
                        match found {
                            Ok(function) => *function,
                            Err(_) => return Err(crate::Missing(format!("{} has no function \
                                {}", $names[0], $symbol))),
                        }
                    },)*
                })
            }
        }
    };
}
pub(crate) use functions;
