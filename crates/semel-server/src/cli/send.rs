//! `semel send`: gives an event to a server.
//!
//! 1. A file that is a CloudEvent (it has a `specversion`) is sent as it is; options change what it says. Everything else is data.
//! 2. How many deliveries are made is shown on a terminal, until all of them are.
//! 3. An event without an id gets a new one, which is printed. All deliveries of one command are the same event.

use super::{
    client::{Client, Server},
    text::{Table, clean, grouped},
};
use crate::{
    exit::Failure,
    hex,
    progress::{Progress, bar, per_second},
};
use bytes::Bytes;
use clap::Args;
use http::Method;
use semel_core::sha256::sha256;
use serde_json::{Map, Value, json};
use std::{
    io::Read as _,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Most deliveries of one command.
const TIMES_MAX: u32 = 10_000;
/// Largest file, in bytes.
const FILE_BYTES_MAX: u64 = 8 << 20;

const EXAMPLES: &str = "\
Examples:
  semel send order.json --type order.created
  semel send order.json --type order.created --id order-42 --times 3      three deliveries, one effect
  echo '{\"order\": 42}' | semel send - --type order.created
  semel send --data '{\"order\": 42}' --type order.created";

/// What was typed.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Typed {
    /// The data of the event, or a whole CloudEvent as JSON; `-` reads standard input
    #[arg(value_name = "FILE", conflicts_with = "data")]
    file: Option<String>,

    /// The data of the event
    #[arg(long, value_name = "DATA")]
    data: Option<String>,

    /// What happened, such as order.created
    #[arg(long, value_name = "TYPE")]
    r#type: Option<String>,

    /// Where it happened [default: /cli]
    #[arg(long, value_name = "SOURCE")]
    source: Option<String>,

    /// Names the event within its source [default: a new one]
    #[arg(long, value_name = "ID")]
    id: Option<String>,

    /// What it happened to
    #[arg(long, value_name = "SUBJECT")]
    subject: Option<String>,

    /// Delivers the same event so many times
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(TIMES_MAX)))]
    times: u32,

    #[command(flatten)]
    server: Server,
}

/// Sends an event, as often as was asked for.
pub(super) fn run(typed: &Typed) -> Result<(), Failure> {
    let event = event(typed, &read(typed)?)?;
    let client = Client::new(&typed.server)?;
    let body = Bytes::from(Value::Object(event.clone()).to_string());
    let (mut answers, mut progress) = (Vec::new(), Progress::new());
    for sent in 0..typed.times {
        progress.show(|took| under_way(sent, typed.times, took));
        let sent = ("application/cloudevents+json", body.clone());
        let (status, answer) = client.ask(Method::POST, "/events", Some(sent), &[])?;
        if !status.is_success() {
            return Err(client.refused(status, &answer));
        }
        answers.push(serde_json::from_slice(&answer).unwrap_or(Value::Null));
    }
    drop(progress);
    client.show(Value::Array(answers), |answers: &Vec<Value>| told(answers, &event))
}

/// How many deliveries are made, in a line.
fn under_way(sent: u32, times: u32, took: Duration) -> String {
    let (sent, times) = (u64::from(sent), u64::from(times));
    let rate = grouped(per_second(sent, took));
    format!("{}  {} of {} delivered, {rate}/s", bar(sent, times), grouped(sent), grouped(times))
}

fn told(answers: &[Value], event: &Map<String, Value>) -> String {
    let mut table = Table::new(&["DELIVERY", "FUNCTION", "RESULT", "EXECUTION"]);
    for (index, answer) in answers.iter().enumerate() {
        let functions = answer["functions"].as_array().map(Vec::as_slice).unwrap_or_default();
        for it in functions {
            let status = it["status"].as_str().map(|it| format!(" of one that is {it}")).unwrap_or_default();
            let result = match (it["duplicate"].as_bool(), it["mismatch"].as_bool()) {
                (_, Some(true)) => "another content came before: not run".to_owned(),
                (Some(true), _) => format!("duplicate{status}: not run"),
                _ => "accepted".to_owned(),
            };
            let id = it["execution"].as_str().unwrap_or_default();
            let cells = [it["function"].as_str().unwrap_or_default(), &result, id.get(..12).unwrap_or(id)];
            table.add([(index + 1).to_string()].into_iter().chain(cells.map(str::to_owned)).collect());
        }
        if functions.is_empty() {
            table.add(vec![
                (index + 1).to_string(),
                "none".to_owned(),
                "no function takes it: nothing is kept".to_owned(),
            ]);
        }
    }
    let is_kept = answers.iter().any(|it| it["functions"].as_array().is_some_and(|it| !it.is_empty()));
    let id = event["id"].as_str().unwrap_or_default();
    let next = if is_kept { format!("\nsemel why {}\n", clean(id)) } else { String::new() };
    table.text() + &next
}

fn read(typed: &Typed) -> Result<Vec<u8>, Failure> {
    if let Some(data) = &typed.data {
        return Ok(data.clone().into_bytes());
    }
    let name = typed.file.as_deref().ok_or_else(|| {
        Failure::usage("what is to be sent?").hint("name a file, `-` for standard input, or `--data DATA`")
    })?;
    let unreadable = |error: &std::io::Error| {
        let failure = Failure::usage(format!("`{}` cannot be read", clean(name))).because(error);
        failure.hint("name a file that is there, `-` for standard input, or `--data DATA`")
    };
    let mut bytes = Vec::new();
    let reading = match name {
        "-" => std::io::stdin().take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes),
        path => std::fs::File::open(path).and_then(|it| it.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)),
    };
    reading.map_err(|error| unreadable(&error))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(Failure::usage(format!("`{}` is larger than an event can be", clean(name))));
    }
    Ok(bytes)
}

/// The event that is meant, as structured CloudEvents has it.
fn event(typed: &Typed, bytes: &[u8]) -> Result<Map<String, Value>, Failure> {
    let json: Option<Value> = serde_json::from_slice(bytes).ok();
    let mut event = match json {
        Some(Value::Object(event)) if event.contains_key("specversion") => event,
        Some(data) => with_data("application/json", &data),
        None => match std::str::from_utf8(bytes) {
            Ok(text) => with_data("text/plain; charset=utf-8", &text.into()),
            Err(_) => {
                return Err(Failure::usage("the data is neither JSON nor text")
                    .hint("send other bytes as a CloudEvent with `data_base64`"));
            }
        },
    };
    let said =
        [("type", &typed.r#type), ("source", &typed.source), ("id", &typed.id), ("subject", &typed.subject)];
    for (name, value) in said {
        if let Some(value) = value {
            event.insert(name.to_owned(), value.as_str().into());
        }
    }
    if !event.contains_key("type") {
        return Err(Failure::usage("the event has no type").hint("say what happened: `--type order.created`"));
    }
    event.entry("source").or_insert_with(|| "/cli".into());
    event.entry("id").or_insert_with(|| new_id().into());
    Ok(event)
}

fn with_data(content_type: &str, data: &Value) -> Map<String, Value> {
    let event = json!({ "specversion": "1.0", "datacontenttype": content_type, "data": data });
    event.as_object().cloned().unwrap_or_default()
}

/// An id that nobody had before: of this moment and this process.
fn new_id() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let hash = sha256(format!("{} {}", since.as_nanos(), std::process::id()));
    hex::write(&hash[..10])
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        typed: Typed,
    }

    fn meant(arguments: &[&str], bytes: &str) -> Result<Value, String> {
        let line = Line::try_parse_from([&["send"][..], arguments].concat()).unwrap();
        event(&line.typed, bytes.as_bytes()).map(Value::Object).map_err(|it| it.to_string())
    }

    #[test]
    fn data_becomes_an_event() {
        let event = meant(&["--type", "t", "--id", "a"], r#"{"order": 42}"#).unwrap();
        let wanted = json!({"specversion": "1.0", "id": "a", "source": "/cli", "type": "t",
            "datacontenttype": "application/json", "data": {"order": 42}});
        assert_eq!(event, wanted);
        assert_eq!(meant(&["--type", "t"], "plain").unwrap()["data"], "plain");
        assert!(meant(&[], "{}").unwrap_err().contains("--type"));
    }

    #[test]
    fn an_event_stays_one_and_options_change_it() {
        let whole = r#"{"specversion": "1.0", "id": "a", "source": "/shop", "type": "t", "data": 1}"#;
        assert_eq!(meant(&[], whole).unwrap(), serde_json::from_str::<Value>(whole).unwrap());
        assert_eq!(meant(&["--id", "b"], whole).unwrap()["id"], "b");
    }

    #[test]
    fn how_many_deliveries_are_made_is_shown() {
        assert_eq!(
            under_way(2_500, 10_000, Duration::from_secs(5)),
            "[######------------------]  25 %  2,500 of 10,000 delivered, 500/s"
        );
    }

    #[test]
    fn deliveries_have_a_largest_number() {
        assert!(Line::try_parse_from(["send", "--times", "0"]).is_err());
        assert!(Line::try_parse_from(["send", "--times", "10001"]).is_err());
    }
}
