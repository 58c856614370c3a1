//! How many files and connections this process may have open.
//!
//! The usual limit of 1,024 is a soft one, for programs that cannot count further. A server has a descriptor for each connection,
//! and the embedded queue two for each file of finished executions: a week of a thousand events a second is a thousand files. So
//! it asks for as many as it may have. Who wants fewer sets the hard limit.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to the hard one.
pub(crate) fn raise() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // Where that is refused, what is there has to do: who runs out of them waits.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
