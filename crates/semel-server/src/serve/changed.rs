//! What a new file changes, by name: for the audit log.
//!
//! 1. Functions, sources, tokens, the guard and the names of the server are compared setting by setting, as they are when
//!    they come into use: also a secret that was changed where it is kept, while the file stayed as it was.
//! 2. Only names are told, besides where a function is called (without its path) and what a token may do. No value is kept to
//!    compare, only its hash.
//! 3. A token and a function may have one name, so what is no function is told with its kind: `token ada`.
//!
//! What needs a restart is not among them: nothing of it comes into use.

use crate::config::{
    AuthSettings, DeadLetterSettings, FunctionSettings, Secret, ServerSettings, SourceSettings, TokenSettings,
};
use semel_core::sha256::{Sha256, sha256};
use std::{collections::BTreeMap, fmt::Debug};

/// What a file says, in hashes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Picture(BTreeMap<String, Thing>);

/// Something that has a name.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Thing {
    kind: &'static str,
    /// What may be told of it besides.
    about: String,
    settings: BTreeMap<&'static str, Hash>,
}

type Hash = [u8; 32];

/// Something that was changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Change {
    /// What of.
    pub(super) subject: String,
    /// How, in a line.
    pub(super) detail: String,
}

impl Picture {
    /// Of what holds now: secrets are looked up.
    pub(super) fn of(settings: &ServerSettings) -> Self {
        let ServerSettings { functions, sources, events, tokens, guard, hosts, .. } = settings;
        let server = [
            ("[guard]", "guard", vec![("allow", hash(&guard.allow)), ("loopback", hash(&guard.loopback))]),
            ("[server]", "server", vec![("hosts", hash(hosts))]),
        ];
        let server = server.into_iter().map(|(subject, kind, settings)| {
            (
                subject.to_owned(),
                Thing { kind, about: String::new(), settings: settings.into_iter().collect() },
            )
        });
        let functions = functions.iter().map(|it| (it.name.clone(), function(it)));
        let sources = std::iter::once(events).chain(sources).map(|it| (it.path(), source(it)));
        let tokens = tokens.iter().map(|it| (format!("token {}", it.name), token(it)));
        Self(server.chain(functions).chain(sources).chain(tokens).collect())
    }

    /// What has to be said of the way from this one to that one.
    pub(super) fn changes_to(&self, new: &Self) -> Vec<Change> {
        let removed = self.0.iter().filter(|(subject, _)| !new.0.contains_key(*subject));
        let removed = removed.map(|(subject, it)| (subject, format!("{} removed by the file", it.kind)));
        let others = new.0.iter().filter_map(|(subject, it)| match self.0.get(subject) {
            None => Some((subject, format!("{} added by the file{}", it.kind, it.told()))),
            Some(before) if before == it => None,
            Some(before) => {
                let names = different(before, it).join(", ");
                Some((subject, format!("{} changed by the file{}: {names}", it.kind, it.told())))
            }
        });
        let change = |(subject, detail): (&String, String)| Change { subject: subject.clone(), detail };
        removed.chain(others).map(change).collect()
    }
}

impl Thing {
    fn told(&self) -> String {
        if self.about.is_empty() { String::new() } else { format!(", {}", self.about) }
    }
}

fn different(one: &Thing, other: &Thing) -> Vec<&'static str> {
    let is_different =
        |(name, hash): (&&'static str, &Hash)| (one.settings.get(name) != Some(hash)).then_some(*name);
    other.settings.iter().filter_map(is_different).collect()
}

fn function(settings: &FunctionSettings) -> Thing {
    let FunctionSettings {
        name: _,
        url,
        filter,
        key,
        order,
        policy,
        answers,
        concurrency,
        rate,
        on_lost,
        http2,
        dead_letter,
        secrets,
        strict,
        content,
    } = settings;
    // What is shown of a target is without its path.
    let dead_letter = match dead_letter {
        DeadLetterSettings::Url(target) => hash(target.uri()),
        DeadLetterSettings::Keep | DeadLetterSettings::None | DeadLetterSettings::Function(_) => {
            hash(dead_letter)
        }
    };
    let settings = [
        ("url", hash(url.uri())),
        ("filter", hash(filter)),
        ("key", hash(key)),
        ("order", hash(order)),
        ("retry", hash(&policy.is_on())),
        ("window", hash(&policy.window())),
        ("backoff", hash(policy.backoff())),
        ("attempts_max", hash(&policy.attempts_max())),
        ("event_age_max", hash(&policy.event_age_max())),
        ("timeout", hash(&policy.timeout())),
        ("retention", hash(&policy.retention())),
        ("answers", hash(answers)),
        ("concurrency", hash(concurrency)),
        ("rate", hash(rate)),
        ("on_lost", hash(on_lost)),
        ("http2", hash(http2)),
        ("dead_letter", dead_letter),
        ("secret", hash_of_secrets(secrets)),
        ("strict", hash(strict)),
        ("content", hash(content)),
    ];
    Thing { kind: "function", about: url.to_string(), settings: settings.into_iter().collect() }
}

fn source(settings: &SourceSettings) -> Thing {
    let SourceSettings {
        name: _,
        format,
        auth,
        mode,
        functions,
        rules,
        topic,
        origins,
        origin_rate_max,
        redelivery,
    } = settings;
    let secrets = match auth {
        AuthSettings::ApiKey { secrets, .. }
        | AuthSettings::Bearer { secrets }
        | AuthSettings::Basic { secrets, .. }
        | AuthSettings::StandardWebhooks { secrets }
        | AuthSettings::Stripe { secrets }
        | AuthSettings::GitHub { secrets } => secrets.as_slice(),
        AuthSettings::Unsaid | AuthSettings::None | AuthSettings::Sns { .. } | AuthSettings::Oidc { .. } => {
            &[]
        }
    };
    let settings = [
        ("format", hash(format)),
        ("auth", hash(auth)),
        ("secret", hash_of_secrets(secrets)),
        ("mode", hash(mode)),
        ("functions", hash(functions)),
        ("attributes", hash(rules)),
        ("topic", hash(topic)),
        ("origins", hash(origins)),
        ("origin_rate_max", hash(origin_rate_max)),
        ("redelivery", hash(redelivery)),
    ];
    Thing { kind: "source", about: String::new(), settings: settings.into_iter().collect() }
}

fn token(settings: &TokenSettings) -> Thing {
    let TokenSettings { name: _, role, secret } = settings;
    let settings = [("role", hash(role)), ("secret", hash_of_secrets(std::slice::from_ref(secret)))];
    Thing { kind: "token", about: role.as_str().to_owned(), settings: settings.into_iter().collect() }
}

/// Of a value without secrets in it: those are never shown.
fn hash(value: &(impl Debug + ?Sized)) -> Hash {
    sha256(format!("{value:?}"))
}

/// Of secrets as they are at this moment. One that cannot be looked up is told elsewhere.
fn hash_of_secrets(secrets: &[Secret]) -> Hash {
    let mut hasher = Sha256::new();
    for secret in secrets {
        hasher.update(&sha256(secret.look_up().unwrap_or_default()));
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;
    use std::path::Path;

    fn picture(file: &str) -> Picture {
        Picture::of(&config::parse(Path::new("semel.toml"), file, true).unwrap().server)
    }

    fn told(before: &str, after: &str) -> Vec<String> {
        let changes = picture(before).changes_to(&picture(after));
        changes.into_iter().map(|it| format!("{}: {}", it.subject, it.detail)).collect()
    }

    const FILE: &str = r#"
[[function]]
name = "orders"
url = "http://127.0.0.1:9000/hidden-path"
secret = "whsec_c2VjcmV0c2VjcmV0c2VjcmV0"

[[source]]
name = "shop"
auth = "bearer"
secret = "correct horse battery"

[[token]]
name = "ada"
role = "admin"
secret = "staple staple staple"
"#;

    #[test]
    fn what_a_file_changes_is_told_by_name_and_never_by_value() {
        assert_eq!(told(FILE, FILE), Vec::<String>::new());
        for (from, to, wanted) in [
            ("hidden-path", "other-path", "orders: function changed by the file, http://127.0.0.1:9000: url"),
            (
                "whsec_c2Vj",
                "whsec_c2Vk",
                "orders: function changed by the file, http://127.0.0.1:9000: secret",
            ),
            (
                "/hidden-path\"",
                "/hidden-path\"\nretry = \"gen2\"\nconcurrency = 7\ntimeout = \"5s\"\ndead_letter = \"http://127.0.0.1:1/x\"",
                "orders: function changed by the file, http://127.0.0.1:9000: concurrency, dead_letter, retry, timeout",
            ),
            ("battery", "batteries", "/sources/shop: source changed by the file: secret"),
            ("\"admin\"", "\"viewer\"", "token ada: token changed by the file, viewer: role"),
            (
                "staple staple staple",
                "staple staple horse",
                "token ada: token changed by the file, admin: secret",
            ),
            (
                "\n[[token]]",
                "\n[guard]\nallow = [\"10.0.0.0/8\"]\n[[token]]",
                "[guard]: guard changed by the file: allow",
            ),
            (
                "\n[[token]]",
                "\n[server]\nhosts = [\"a.example\"]\n[[token]]",
                "[server]: server changed by the file: hosts",
            ),
            (
                "\n[[token]]",
                "\n[events]\nauth = \"none\"\n[[token]]",
                "/events: source changed by the file: auth",
            ),
        ] {
            assert_eq!(told(FILE, &FILE.replacen(from, to, 1)), [wanted], "{from} to {to}");
        }
        assert_eq!(
            told(FILE, ""),
            [
                "/sources/shop: source removed by the file",
                "orders: function removed by the file",
                "token ada: token removed by the file"
            ]
        );
        let added = told("", FILE);
        assert_eq!(
            added,
            [
                "/sources/shop: source added by the file",
                "orders: function added by the file, http://127.0.0.1:9000",
                "token ada: token added by the file, admin"
            ]
        );
    }

    #[test]
    fn a_secret_that_was_changed_where_it_is_kept_is_a_change() {
        let kept = tempfile::NamedTempFile::new().unwrap();
        let file = FILE.replace("staple staple staple", &format!("file:{}", kept.path().display()));
        std::fs::write(kept.path(), "staple staple staple").unwrap();
        let before = picture(&file);
        assert_eq!(before.changes_to(&picture(&file)), []);
        std::fs::write(kept.path(), "another one, as long").unwrap();
        let changes = before.changes_to(&picture(&file));
        assert_eq!(changes.len(), 1, "{changes:?}");
        assert_eq!(changes[0].detail, "token changed by the file, admin: secret");
    }
}
