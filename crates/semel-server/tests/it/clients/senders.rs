//! Those who send events to `semel serve`, with the packages that people use: `cloudevents`, `standardwebhooks`, `stripe`.

use super::outside::said;
use crate::support::{Asked, Proxy, Upstream};
use serde_json::{Value, json};
use std::{collections::BTreeMap, process::Command};

const SOURCES: &str = r#"
[[source]]
name = "webhooks"
auth = "standard-webhooks"
secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

[[source]]
name = "stripe"
auth = "stripe"
secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

[[source]]
name = "pubsub"
format = "pubsub"
auth = "none"
topic = "projects/myproject/topics/mytopic"

[[source]]
name = "eventbridge"
format = "eventbridge"
auth = "api-key"
header = "x-api-key"
secret = "a-key-of-ours"
"#;

/// Runs what sends; each was new once, and a duplicate twice. Gives the calls by the event's id.
async fn check(script: &'static str, senders: usize) -> BTreeMap<String, Asked> {
    let function = Upstream::echo().await;
    let directory = tempfile::tempdir().unwrap();
    let file = format!(
        "[[function]]\nname = \"all\"\nurl = \"http://{}/\"\nstrict = true\n{SOURCES}",
        function.address
    );
    std::fs::write(directory.path().join("semel.toml"), file).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_semel"));
    command.args(["serve", "--config", "semel.toml", "--dev", "--listen", "127.0.0.1:0", "--log", "json"]);
    let program = Proxy::spawn(command.current_dir(directory.path()));
    let answers = said(script, &[&program.url("")]).await;
    let answers = answers.as_object().unwrap();
    assert_eq!(answers.len(), senders, "{answers:?}");
    for (name, statuses) in answers {
        assert_eq!(statuses, &json!([202, 200, 200]), "{name}\n{}", program.log());
    }
    let calls = function.heard(senders).await;
    assert_eq!(calls.len(), senders, "three deliveries are one call");
    calls.into_iter().map(|it| (it.header("ce-id").join(""), it)).collect()
}

fn named(calls: &BTreeMap<String, Asked>, id: &str) -> [String; 2] {
    let call = calls.get(id).unwrap_or_else(|| panic!("{id}: {:?}", calls.keys()));
    ["ce-source", "ce-type"].map(|it| call.header(it).join(""))
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_sends_from_python_is_understood_and_three_deliveries_are_one_call() {
    let calls = check("senders.py", 6).await;
    for id in ["py-to_binary_event", "py-to_structured_event"] {
        assert_eq!(named(&calls, id), ["https://example.com/event-producer", "com.example.sampletype1"]);
        assert_eq!(calls[id].header("ce-subject"), ["Gr%C3%BC%C3%9Fe,%20%22quoted%22%20100%25"], "{id}");
        assert_eq!(
            serde_json::from_slice::<Value>(&calls[id].body).unwrap(),
            json!({"message": "Hello World!"})
        );
    }
    let rest = [
        ("msg_2KWPBgLlAfxdpx2AI54pPJ85f4W", "/sources/webhooks", "contact.created"),
        ("evt_1NG8Du2eZvKYlo2CUI79vXWy", "https://api.stripe.com", "payment_intent.succeeded"),
        (
            "2070443601311540",
            "//pubsub.googleapis.com/projects/myproject/topics/mytopic",
            "google.cloud.pubsub.topic.v1.messagePublished",
        ),
        ("6a7e8feb-b491-4cf7-a9f1-bf3703467718", "aws.ec2", "EC2 Instance State-change Notification"),
    ];
    for (id, source, kind) in rest {
        let [named_source, named_kind] = named(&calls, id);
        assert_eq!(named_source, source, "{id}");
        assert_eq!(named_kind.replace("%20", " "), kind, "{id}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_sends_with_cloudevents_from_node_is_understood_and_three_deliveries_are_one_call() {
    let calls = check("senders.mjs", 2).await;
    for id in ["node-binary", "node-structured"] {
        assert_eq!(named(&calls, id), ["https://example.com/event-producer", "com.example.sampletype1"]);
        assert_eq!(calls[id].header("ce-subject"), ["quoted%20%22a%22,%20100%25"], "{id}");
        assert_eq!(
            serde_json::from_slice::<Value>(&calls[id].body).unwrap(),
            json!({"message": "Hello World!"})
        );
    }
}
