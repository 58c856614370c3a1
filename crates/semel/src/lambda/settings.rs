//! What a function is told about its calls.

use super::{
    deadline,
    error::Fault,
    function::Function,
    pick::Pick,
    run::{self, Plan, Ran},
};
use crate::{
    begin::Replay,
    call::{Call, OnBusy},
    error::{Error, ErrorKind},
    handler_error::HandlerError,
    nonce,
    once::Once,
    service::LentLease,
};
use lambda_runtime::{Context, LambdaEvent};
use semel_core::{
    fingerprint::Fingerprint,
    key::{IntoParts, Key, Part},
    time::Timestamp,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

/// A function, being described; what is one operation of it is in `K`. [`Lambda::handler`] gives the service
/// that `lambda_runtime::run` takes.
#[must_use = "a function does nothing until it has a handler and is run"]
#[derive(Clone)]
pub struct Lambda<K> {
    pub(super) settings: Settings,
    pub(super) kind: K,
}

type Prepare = Arc<dyn Fn(Call) -> Call + Send + Sync>;
type OnReplay = Arc<dyn Fn(Box<RawValue>, &Replay) -> Box<RawValue> + Send + Sync>;

/// What all functions can be told.
#[derive(Clone)]
pub(super) struct Settings {
    once: Once,
    /// Nothing for the function's own name.
    scope: Option<Arc<[Part]>>,
    compared: Compared,
    on_busy: OnBusy,
    prepare: Prepare,
    on_replay: Option<OnReplay>,
}

/// What of an event is compared with that of the first one of its key.
#[derive(Clone)]
enum Compared {
    /// What does not change when the event is delivered again.
    Usual,
    Picked(Pick),
    Nothing,
}

/// What names an operation: the rest of its scope, and its id.
pub(super) struct Name {
    pub(super) below: Vec<Part>,
    pub(super) id: Vec<Part>,
}

impl<K> Lambda<K> {
    pub(super) fn new(once: Once, kind: K) -> Self {
        let on_busy = once.driver.defaults.on_busy;
        let prepare: Prepare = Arc::new(|call| call);
        let compared = Compared::Usual;
        Self { settings: Settings { once, scope: None, compared, on_busy, prepare, on_replay: None }, kind }
    }

    /// The scope of the keys, instead of the function's name: for functions that are renamed, or share keys.
    pub fn scope(mut self, scope: impl IntoParts) -> Self {
        let mut parts = Vec::new();
        scope.append_to(&mut parts);
        self.settings.scope = Some(parts.into());
        self
    }

    /// What must be equal in all events of one key; an event in which it is not is refused, and never run.
    ///
    /// Unless this is set, it is all that does not change when an event is delivered again.
    pub fn payload(mut self, payload: Pick) -> Self {
        self.settings.compared = Compared::Picked(payload);
        self
    }

    /// Events of one key are one event, whatever else is in them.
    pub fn key_alone(mut self) -> Self {
        self.settings.compared = Compared::Nothing;
        self
    }

    /// What to do if another invocation runs the same call; as the `Once` says unless set. It waits no longer than
    /// the invocation has time.
    pub fn on_busy(mut self, on_busy: OnBusy) -> Self {
        self.settings.on_busy = on_busy;
        self
    }

    /// Says more about each call: its retention, which errors are fatal. Its lease is the invocation's.
    ///
    /// ```
    /// use semel::{Once, lambda::{self, Pick}};
    /// use std::time::Duration;
    /// let function = lambda::events(Once::memory(), Pick::event_id())
    ///     .prepare(|call| call.retention(Duration::from_secs(3_600)).is_fatal(|error| error.is::<std::fmt::Error>()));
    /// ```
    pub fn prepare(mut self, prepare: impl Fn(Call) -> Call + Send + Sync + 'static) -> Self {
        let before = self.settings.prepare;
        self.settings.prepare = Arc::new(move |call| prepare(before(call)));
        self
    }

    /// Changes each result that is replayed, on its way out; what is kept stays as it is. Answers to batches are not
    /// results.
    ///
    /// ```
    /// use semel::{Once, lambda::{self, Pick}};
    /// use serde_json::{Value, value::to_raw_value};
    /// let function = lambda::events(Once::memory(), Pick::event_id()).on_replay(|json, replay| {
    ///     let mut result: Value = serde_json::from_str(json.get()).unwrap_or_default();
    ///     result["ageSeconds"] = replay.age().as_secs().into();
    ///     to_raw_value(&result).unwrap_or(json)
    /// });
    /// ```
    pub fn on_replay(
        mut self,
        on_replay: impl Fn(Box<RawValue>, &Replay) -> Box<RawValue> + Send + Sync + 'static,
    ) -> Self {
        self.settings.on_replay = Some(Arc::new(on_replay));
        self
    }

    /// With this handler. It gets the event, or the record, and the lease it runs under, for its effects.
    ///
    /// What it borrows must outlive the service only: what `main` owns can be used in it.
    pub fn handler<'a, T, R, F, Fut>(self, handler: F) -> Function<'a, K>
    where
        T: DeserializeOwned + Send + 'a,
        R: Serialize,
        F: Fn(LambdaEvent<T>, LentLease) -> Fut + Send + Sync + 'a,
        Fut: Future<Output = Result<R, HandlerError>> + Send + 'a,
    {
        Function { lambda: self, handler: run::handler(handler) }
    }
}

impl Settings {
    /// The call of this name, made with this payload, as long as the invocation lasts.
    pub(super) fn call(
        &self,
        context: &Context,
        name: Name,
        fingerprint: Fingerprint,
    ) -> Result<Call, Error> {
        let scope = self.scope_of(context, name.below)?;
        let key = Key::new(scope, name.id).map_err(Error::bad_key)?;
        Ok(self.described(key, context).fingerprint(fingerprint))
    }

    /// A call of which there is no second: for an event without a key.
    pub(super) fn without_key(&self, context: &Context, below: Vec<Part>) -> Result<Plan, Error> {
        let id = format!("{:032x}", nonce::unshared_holder().0);
        let key = Key::new(self.scope_of(context, below)?, ("no-key", id)).map_err(Error::bad_key)?;
        Ok(Plan::Unprotected(self.described(key, context)))
    }

    fn described(&self, key: Key, context: &Context) -> Call {
        let call = (self.prepare)(self.once.call_key(key)).holder(nonce::unshared_holder());
        let Some(lease) = deadline::lease(context, SystemTime::now()) else {
            return call.on_busy(self.on_busy);
        };
        call.deadline(lease).on_busy(within(self.on_busy, lease))
    }

    /// The scope, which is never missing: an event without a key must not be mistaken for a function without a
    /// name.
    fn scope_of(&self, context: &Context, below: Vec<Part>) -> Result<Vec<Part>, Error> {
        let function = &context.env_config.function_name;
        let mut scope = match &self.scope {
            Some(scope) => scope.to_vec(),
            None => vec![Part::Text("lambda".to_owned()), Part::Text(function.clone())],
        };
        // Functions in tenant isolation mode serve several: nobody sees or blocks another's key.
        scope.extend(context.tenant_id.clone().map(Part::Text));
        scope.extend(below);
        match Key::new(scope.clone(), 0) {
            Ok(_) => Ok(scope),
            Err(error) => Err(Error::keyless(
                ErrorKind::InvalidKey,
                format!("{error}; the function is called `{function}`: give it a name, or a `scope`"),
            )),
        }
    }

    /// The fingerprint of an event, of which this does not change when it is delivered again.
    pub(super) fn fingerprint(&self, event: &RawValue, usual: &Pick) -> Result<Fingerprint, Fault> {
        match self.picked(event)? {
            Some(fingerprint) => Ok(fingerprint),
            None => picked(event, usual),
        }
    }

    /// The fingerprint of an event, if somebody chose what of it is compared.
    pub(super) fn picked(&self, event: &RawValue) -> Result<Option<Fingerprint>, Fault> {
        match &self.compared {
            Compared::Usual => Ok(None),
            Compared::Picked(pick) => picked(event, pick).map(Some),
            Compared::Nothing => Ok(Some(Fingerprint::EMPTY)),
        }
    }

    /// What is answered: a result as it is, or a replay as somebody wants it.
    pub(super) fn told(&self, ran: Ran) -> Box<RawValue> {
        match (ran.replay, &self.on_replay) {
            (Some(replay), Some(on_replay)) => on_replay(ran.json, &replay),
            (_, _) => ran.json,
        }
    }

    /// The store's time.
    pub(super) fn now(&self) -> Timestamp {
        self.once.driver.clock.now()
    }
}

fn picked(event: &RawValue, pick: &Pick) -> Result<Fingerprint, Fault> {
    let invalid = |detail| Fault::Semel(Error::keyless(ErrorKind::InvalidPayload, detail));
    let payload = pick.payload(event).map_err(invalid)?;
    Fingerprint::of_json(payload.as_bytes()).map_err(|error| invalid(error.to_string()))
}

/// The same, for as long as the invocation lasts.
fn within(on_busy: OnBusy, left: Duration) -> OnBusy {
    match on_busy {
        OnBusy::Wait { max } => OnBusy::Wait { max: max.min(left) },
        OnBusy::Reject => OnBusy::Reject,
    }
}

impl<K> fmt::Debug for Lambda<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lambda").field("scope", &self.settings.scope).finish_non_exhaustive()
    }
}
