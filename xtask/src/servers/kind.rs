//! How each server is started, stopped and asked whether it is there.

use crate::shell::{Failure, capture, works};
use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    process::Command,
    time::Duration,
};

/// The emulator's jar does not name its main class.
const FIRESTORE_MAIN: &str = "com.google.cloud.datastore.emulator.firestore.CloudFirestore";

/// A server that tests need.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Postgres,
    Redis,
    Valkey,
    Nats,
    DynamoDb,
    Firestore,
}

impl Kind {
    pub(crate) const ALL: [Self; 6] =
        [Self::Postgres, Self::Redis, Self::Valkey, Self::Nats, Self::DynamoDb, Self::Firestore];

    /// As `--without` calls it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Redis => "redis",
            Self::Valkey => "valkey",
            Self::Nats => "nats",
            Self::DynamoDb => "dynamodb",
            Self::Firestore => "firestore",
        }
    }

    /// What tests read to find it.
    pub(crate) const fn variable(self) -> &'static str {
        match self {
            Self::Postgres => "SEMEL_TEST_POSTGRES",
            Self::Redis => "SEMEL_TEST_REDIS",
            Self::Valkey => "SEMEL_TEST_VALKEY",
            Self::Nats => "SEMEL_TEST_NATS",
            Self::DynamoDb => "SEMEL_TEST_DYNAMODB",
            Self::Firestore => "SEMEL_TEST_FIRESTORE",
        }
    }

    /// The names in a list like `nats,firestore`.
    pub(crate) fn parse_list(list: &str) -> Result<Vec<Self>, Failure> {
        let parse = |name: &str| {
            Self::ALL.into_iter().find(|it| it.name() == name).ok_or_else(|| {
                let names = Self::ALL.map(Self::name).join(", ");
                Failure::usage(format!("no server is called `{name}`\nhint: one of {names}"))
            })
        };
        list.split(',').map(|it| parse(it.trim())).collect()
    }

    /// What makes it end soon and in good order. PostgreSQL would wait for its clients if told to terminate.
    pub(super) const fn stop_signal(self) -> &'static str {
        match self {
            Self::Postgres => "INT",
            Self::Redis | Self::Valkey | Self::Nats | Self::DynamoDb | Self::Firestore => "TERM",
        }
    }

    /// The words that start it, and where it will then be.
    pub(super) fn command(
        self,
        program: &Path,
        data: &Path,
        port: u16,
    ) -> Result<(Vec<String>, String), Failure> {
        let (program_text, data_text) = (program.display().to_string(), data.display().to_string());
        let port_text = port.to_string();
        let words = |all: &[&str]| -> Vec<String> { all.iter().map(|&it| it.to_owned()).collect() };
        Ok(match self {
            Self::Postgres => postgres(program, data, port)?,
            Self::Redis | Self::Valkey => {
                let place = ["--bind", "127.0.0.1", "--port", &port_text, "--dir", &data_text];
                let durable =
                    ["--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction"];
                let command = [&[program_text.as_str()], &place[..], &durable[..], &["--save", ""]].concat();
                (words(&command), format!("redis://127.0.0.1:{port}"))
            }
            Self::Nats => {
                let settings = data.join("nats.conf");
                write(&settings, &nats_settings(&data_text, port))?;
                let command = [&program_text, "--config", &settings.display().to_string()].map(str::to_owned);
                (command.into(), format!("nats://127.0.0.1:{port}"))
            }
            Self::DynamoDb => {
                let file = data.join("dynamodb.sqlite").display().to_string();
                let place = ["--host", "127.0.0.1", "--port", &port_text, "--db-path", &file];
                (words(&[&[program_text.as_str()], &place[..]].concat()), format!("http://127.0.0.1:{port}"))
            }
            Self::Firestore => {
                // It speaks English only.
                let java = ["java", "-Duser.language=en", "-cp", &program_text, FIRESTORE_MAIN, "start"];
                let place = ["--host=127.0.0.1".to_owned(), format!("--port={port}")];
                ([&words(&java)[..], &place[..]].concat(), format!("127.0.0.1:{port}"))
            }
        })
    }

    /// Whether it is there, and speaks.
    pub(super) fn answers(self, url: &str) -> bool {
        match self {
            Self::Postgres => works(Command::new("pg_isready").args(["--quiet", "--dbname", url])),
            Self::Redis | Self::Valkey => says(url, "PING\r\n", "+PONG"),
            Self::Nats => says(url, "", "INFO"),
            Self::DynamoDb | Self::Firestore => {
                says(url, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "HTTP/1.1")
            }
        }
    }
}

/// Every message on disk before it is acknowledged.
fn nats_settings(data: &str, port: u16) -> String {
    format!(
        "listen: \"127.0.0.1:{port}\"\njetstream {{\n  store_dir: \"{data}\"\n  sync_interval: always\n}}\n"
    )
}

/// PostgreSQL refuses to run as root.
fn postgres(initdb: &Path, data: &Path, port: u16) -> Result<(Vec<String>, String), Failure> {
    let data_text = data.display().to_string();
    let password = data.with_file_name("password");
    write(&password, "semel\n")?;
    let is_root = works(Command::new("sh").args(["-c", "test \"$(id -u)\" = 0"]));
    let mut prefix = Vec::new();
    if is_root {
        let owned = Command::new("chown").arg("postgres").arg(data).arg(&password).status();
        if !owned.is_ok_and(|it| it.success()) {
            return Err(Failure::usage("there is no user `postgres`, and PostgreSQL does not run as root"));
        }
        let user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", "--"];
        prefix.extend(user.map(str::to_owned));
    }
    let setup = ["--username=postgres", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync"];
    let mut words = prefix.clone();
    words.extend([initdb.display().to_string(), "--pgdata".to_owned(), data_text.clone()]);
    words.extend(setup.map(str::to_owned));
    words.push(format!("--pwfile={}", password.display()));
    let made = capture(Command::new(&words[0]).args(&words[1..]).current_dir("/"))?;
    if made.code != Some(0) {
        return Err(Failure::usage(format!("`initdb` failed: {}", made.stderr.trim())));
    }
    let mut command = prefix;
    command.extend([initdb.with_file_name("postgres").display().to_string(), "-D".to_owned(), data_text]);
    for setting in [
        "listen_addresses=127.0.0.1",
        &format!("port={port}"),
        "unix_socket_directories=",
        "max_connections=300",
        "fsync=on",
        "synchronous_commit=on",
        "full_page_writes=on",
    ] {
        command.extend(["-c".to_owned(), setting.to_owned()]);
    }
    Ok((command, format!("postgres://postgres:semel@127.0.0.1:{port}")))
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text)
        .map_err(|error| Failure::usage(format!("cannot write `{}`: {error}", path.display())))
}

/// Whether a server begins its reply so.
fn says(url: &str, request: &str, expected: &str) -> bool {
    let address = url.split_once("://").map_or(url, |(_, address)| address);
    let Ok(mut stream) = TcpStream::connect(address) else { return false };
    let mut reply = vec![0; expected.len()];
    let asked = stream
        .set_read_timeout(Some(Duration::from_secs(2)))
        .and_then(|()| stream.write_all(request.as_bytes()))
        .and_then(|()| stream.read_exact(&mut reply));
    asked.is_ok() && reply == expected.as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_left_out_by_name() {
        assert_eq!(Kind::parse_list("nats, firestore").expect("both"), [Kind::Nats, Kind::Firestore]);
        let error = Kind::parse_list("nats,mysql").expect_err("there is no such server");
        assert!(error.to_string().contains("no server is called `mysql`"));
    }
}
