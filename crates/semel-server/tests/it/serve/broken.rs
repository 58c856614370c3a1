//! A disk that breaks under the server.

use super::{
    stop::stands,
    support::{Server, command, orders, read, told},
};
use crate::support::{Proxy, Upstream};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// A disk that fails to keep anything as soon as there is a file `broken`: put between the program and the C library.
fn breakable(directory: &Path) -> PathBuf {
    const SOURCE: &str = r#"
        #define _GNU_SOURCE
        #include <errno.h>
        #include <sys/syscall.h>
        #include <unistd.h>
        int fdatasync(int file) {
            if (access("broken", F_OK) == 0) { errno = EIO; return -1; }
            return (int)syscall(SYS_fdatasync, file);
        }
    "#;
    let (source, library) = (directory.join("breakable.c"), directory.join("breakable.so"));
    std::fs::write(&source, SOURCE).unwrap();
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    assert!(built.unwrap().success());
    library
}

/// F4: after a failed sync nothing is sure, and only a restart reads what is really there.
#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_no_longer_keeps_what_it_is_given_ends_the_server() {
    let (function, directory) = (Upstream::echo().await, tempfile::tempdir().unwrap());
    std::fs::write(directory.path().join("semel.toml"), orders(&function, "")).unwrap();
    let library = breakable(directory.path());
    let program = Proxy::spawn(command(directory.path(), &[]).env("LD_PRELOAD", library));
    let mut server = Server::of(directory, program);
    assert_eq!(server.event("evt-1", "{}").await.status, 202);
    stands(&server, "evt-1", "COMPLETED").await;
    std::fs::write(server.directory.path().join("broken"), "").unwrap();
    let refused = server.event("evt-2", "{}").await;
    assert_eq!(told(&refused), (503, "store".to_owned()));
    assert_eq!(server.program.ended().code(), Some(70), "{}", server.program.log());
    let log = server.program.log();
    for said in ["the disk no longer keeps what it is given", "hint: mend the disk, and start again"] {
        assert!(log.contains(said), "{log}");
    }
    let server = server.killed(&[]);
    let known = read(&server.event("evt-1", "{}").await);
    assert_eq!(known["functions"][0]["status"], "COMPLETED", "{known}");
    // Whether it had reached the disk is nobody's promise; that it is taken now is.
    assert!(server.event("evt-2", "{}").await.status.is_success());
}
