//! How the server is reached.
//!
//! 1. One connection carries everybody's requests, and is made again when it breaks.
//! 2. Connecting and every request end in bounded time.
//! 3. What stands before the `@` of the first URL authenticates: a user and a password, or a token. The client
//!    itself would not look there.
//!
//! Other ways to authenticate, and TLS by certificates of one's own, are for the user's own connection:
//! [`NatsStore::new`](super::NatsStore::new).

use super::error::{connecting, misconfigured_url};
use async_nats::{
    ConnectOptions, ServerAddr,
    jetstream::{self, Context},
};
use semel_core::store::StoreError;
use std::time::Duration;

/// How long connecting may take.
pub const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How long a request may take.
pub const RESPONSE_MAX: Duration = Duration::from_secs(3);
/// How often a server that says nothing is asked whether it lives.
const PING_EVERY: Duration = Duration::from_secs(5);

pub(super) async fn open(urls: &str) -> Result<Context, StoreError> {
    let parse = |url: &str| url.trim().parse::<ServerAddr>().map_err(|it| misconfigured_url().because(it));
    let servers = urls.split(',').map(parse).collect::<Result<Vec<_>, _>>()?;
    if servers.iter().any(|it| it.host().is_empty()) {
        return Err(misconfigured_url());
    }
    let options = ConnectOptions::new()
        .name("semel")
        .connection_timeout(CONNECT_MAX)
        .request_timeout(Some(RESPONSE_MAX))
        .ping_interval(PING_EVERY);
    let options = servers.iter().take(1).fold(options, authenticated);
    let client = options.connect(servers).await.map_err(connecting)?;
    let mut context = jetstream::new(client);
    context.set_timeout(RESPONSE_MAX);
    Ok(context)
}

fn authenticated(options: ConnectOptions, server: &ServerAddr) -> ConnectOptions {
    match (server.username(), server.password()) {
        (None, _) => options,
        (Some(token), None) => options.token(decoded(token)),
        (Some(user), Some(password)) => options.user_and_password(decoded(user), decoded(password)),
    }
}

/// Text with `%41` for `A`, as URLs have it.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let digits = tail.get(..2).and_then(|it| std::str::from_utf8(it).ok());
        let escaped = digits.filter(|_| first == b'%').and_then(|it| u8::from_str_radix(it, 16).ok());
        bytes.push(escaped.unwrap_or(first));
        rest = if escaped.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::decoded;

    #[test]
    fn passwords_are_read_as_urls_write_them() {
        for (written, meant) in
            [("plain", "plain"), ("p%40ss%2Fw%C3%B6rd", "p@ss/wörd"), ("100%", "100%"), ("%zz", "%zz")]
        {
            assert_eq!(decoded(written), meant);
        }
    }
}
