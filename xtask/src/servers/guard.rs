//! Processes that do not outlive this one.
//!
//! 1. Each server has a guard, a shell that waits for its standard input to end. That happens when this program
//!    closes it, and also when it is interrupted or killed, because the system closes it then.
//! 2. The guard then stops its server by its process id, at first politely, and removes its directory.
//! 3. A guard is in a process group of its own, so that Ctrl-C reaches this program only.
//!
//! It does not start again what has died.

use crate::shell::Failure;
use std::{
    fs,
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

const SCRIPT: &str = r#"
directory=$1 signal=$2
shift 2
"$@" </dev/null >"$directory/log" 2>&1 &
server=$!
cat >/dev/null
kill -s "$signal" "$server"
for _ in 1 2 3 4 5 6 7 8 9 10; do
    kill -s 0 "$server" 2>/dev/null || break
    sleep 1 &
    wait $!
done
kill -s KILL "$server" 2>/dev/null
wait "$server"
rm -rf "$directory"
rmdir "$(dirname "$directory")" 2>/dev/null
"#;

/// A server with its guard; dropping it stops both.
pub(super) struct Guarded {
    guard: Child,
    directory: PathBuf,
}

impl Guarded {
    /// Starts a program whose output goes to `log` in this directory.
    pub(super) fn start(command: &[String], signal: &str, directory: PathBuf) -> Result<Self, Failure> {
        let mut guard = Command::new("sh");
        guard.args(["-c", SCRIPT, "guard"]).arg(&directory).arg(signal).args(command);
        guard.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let guard = guard.spawn().map_err(|error| Failure::usage(format!("cannot start `sh`: {error}")))?;
        Ok(Self { guard, directory })
    }

    /// The end of what the server said, for a person who wonders why it does not answer.
    pub(super) fn last_words(&self) -> String {
        let said = fs::read_to_string(self.directory.join("log")).unwrap_or_default();
        let lines: Vec<_> = said.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ended = self.guard.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_guard_leaves_neither_process_nor_directory() {
        let root = std::env::temp_dir().join(format!("semel-guard-{}", std::process::id()));
        let directory = root.join("one");
        fs::create_dir_all(&directory).expect("a temporary directory");
        let script = "echo $$ >&2; exec sleep 600".to_owned();
        let guarded = Guarded::start(&["sh".to_owned(), "-c".to_owned(), script], "TERM", directory.clone());
        let guarded = guarded.expect("a shell");
        let server = loop {
            let said = guarded.last_words();
            if !said.is_empty() {
                break said;
            }
            std::thread::yield_now();
        };
        drop(guarded);
        let is_alive = Command::new("kill").args(["-s", "0", &server]).stderr(Stdio::null()).status();
        assert!(!is_alive.expect("kill").success(), "process {server} lives on");
        assert!(!root.exists(), "its directory is still there");
    }
}
