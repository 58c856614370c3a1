//! Targets that are no servers: what they answer is a function of the request.

use bytes::Bytes;
use http::StatusCode;
use semel_runtime::{
    Aim,
    deliver::{
        Answer, BoxedAnswer, Deliver, Delivery, Status,
        guard::{Policy, check_url},
    },
};
use std::sync::{Arc, Mutex};

/// An aim at this path.
pub(crate) fn at(path: &str) -> Aim {
    Aim::Url(check_url(&format!("https://functions.example/{path}"), &Policy::public()).unwrap())
}

/// An answer of this status and body.
pub(crate) fn status(code: u16, body: &'static str) -> Answer {
    let status = Status::of(StatusCode::from_u16(code).unwrap());
    Answer::Status(Status { body: Bytes::from_static(body.as_bytes()), ..status })
}

/// What a target was sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    pub(crate) id: String,
    pub(crate) key: String,
    pub(crate) attempt: u32,
    pub(crate) fence: u64,
}

impl Seen {
    pub(crate) fn of(delivery: &Delivery) -> Self {
        let header = |name: &str| delivery.headers[name].to_str().unwrap().to_owned();
        Self {
            id: header("ce-id"),
            key: header("idempotency-key"),
            attempt: header("semel-attempt").parse().unwrap(),
            fence: header("semel-fence").parse().unwrap(),
        }
    }
}

type Answering = Box<dyn Fn(Delivery) -> BoxedAnswer<'static> + Send + Sync>;

/// A target that remembers what it was sent, and answers as it is told.
pub(crate) struct Target {
    seen: Mutex<Vec<Seen>>,
    answer: Answering,
}

impl Target {
    /// Answers what this says.
    pub(crate) fn new<A>(answer: impl Fn(Delivery) -> A + Send + Sync + 'static) -> Arc<Self>
    where
        A: Future<Output = Answer> + Send + 'static,
    {
        Arc::new(Self {
            seen: Mutex::default(),
            answer: Box::new(move |delivery| Box::pin(answer(delivery))),
        })
    }

    /// Answers `200 done`, always.
    pub(crate) fn fine() -> Arc<Self> {
        Self::new(|_| async { status(200, "done") })
    }

    /// What it was sent so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The ids of the events it was sent so far.
    pub(crate) fn ids(&self) -> Vec<String> {
        self.seen().into_iter().map(|it| it.id).collect()
    }
}

impl Deliver for Target {
    fn deliver(&self, delivery: Delivery) -> BoxedAnswer<'_> {
        self.seen.lock().unwrap().push(Seen::of(&delivery));
        (self.answer)(delivery)
    }
}
