//! Where requests for `/v1` are answered.
//!
//! 1. Who asks is settled before anything else, so that nobody else learns what there is.
//! 2. Then what is asked for is found; then the role is compared, and a refusal written to the audit log; then the body is read.
//! 3. Every answer is JSON, and is not to be kept by anybody.
//! 4. Whoever may look here may look at the metrics, and nobody else: names of functions, how much comes in and what fails
//!    are the same things there.

use super::{
    book::Book,
    door::{Door, Who, guesser},
    problems::{self, Trouble, private},
    routes::routes,
    table::{Raw, Route, find},
};
use crate::{
    config::{Network, NoSecret, ServerSettings},
    exit::Failure,
    ingest::{BodyLimits, read_body},
    listen::{Arrived, Connection},
    serve::{Answer, Foundation},
};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, Request, Response, Uri,
    header::{CONTENT_ENCODING, CONTENT_TYPE},
};
use semel::http::ProblemBase;
use semel_core::sabotage::is_on;
use semel_runtime::Runtime;
use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Instant,
};

/// Largest body of a request, in bytes: an event as large as any, written as JSON.
pub const BODY_BYTES_MAX: u64 = 2 << 20;

/// Answers requests for `/v1`.
pub struct Desk {
    pub(super) runtime: Runtime,
    pub(super) book: Arc<Book>,
    pub(super) foundation: Arc<Foundation>,
    pub(super) routes: Arc<[Route]>,
    door: RwLock<Arc<Door>>,
    /// Who is believed to say whom it forwards for.
    trusted: Vec<Network>,
    limits: BodyLimits,
    problems: ProblemBase,
}

/// The desk, as the server has it.
#[derive(Clone)]
pub struct Clerk(Arc<Desk>);

impl Clerk {
    /// For this runtime and its functions, with the tokens of these settings.
    pub(crate) fn new(
        runtime: Runtime,
        book: Arc<Book>,
        foundation: Arc<Foundation>,
        settings: &ServerSettings,
    ) -> Result<Self, NoSecret> {
        let base = settings.problem_base.as_ref();
        Ok(Self(Arc::new(Desk {
            runtime,
            book,
            foundation,
            routes: routes().into(),
            door: RwLock::new(Arc::new(Door::new(&settings.tokens, &settings.hosts)?)),
            trusted: settings.trusted_proxies.clone(),
            limits: BodyLimits {
                bytes_max: BODY_BYTES_MAX,
                rate_min: settings.limits.body_rate_min,
                grace: settings.body_grace,
            },
            problems: base.map_or_else(|| ProblemBase::new(problems::PAGES), ProblemBase::new),
        })))
    }

    /// From now on with the tokens and the functions of these settings. If they cannot be, everything stays as it is.
    pub(crate) fn replace(
        &self,
        settings: &ServerSettings,
        told: impl Fn(NoSecret) -> Failure,
    ) -> Result<(), Failure> {
        let door = Arc::new(Door::new(&settings.tokens, &settings.hosts).map_err(told)?);
        self.0.book.replace(&settings.functions, &settings.guard)?;
        *self.0.door.write().unwrap_or_else(PoisonError::into_inner) = door;
        Ok(())
    }

    /// Looks for functions that were added on other nodes, for ever.
    pub(crate) fn follow(&self) -> impl Future<Output = ()> + Send + 'static {
        Arc::clone(&self.0.book).follow()
    }

    /// Answers a request whose path begins with `/v1`.
    pub(crate) async fn answer(&self, arrived: Arrived) -> Response<Answer> {
        match Arc::clone(&self.0).answer(arrived).await {
            Ok(answer) => answer,
            Err(trouble) => trouble.answer(&self.0.problems),
        }
    }
}

impl Clerk {
    /// What somebody is told who asks for what every role sees, and may not come in; nothing if they may.
    pub(crate) fn refusal<B>(
        &self,
        request: &Request<B>,
        connection: &Connection,
    ) -> Option<Response<Answer>> {
        let admitted = self.0.admitted(request.headers(), request.uri(), connection);
        admitted.err().map(|trouble| trouble.answer(&self.0.problems))
    }
}

impl Desk {
    async fn answer(self: Arc<Self>, (request, connection): Arrived) -> Result<Response<Answer>, Trouble> {
        let (head, body) = request.into_parts();
        let who = self.admitted(&head.headers, &head.uri, &connection)?;
        let routes = Arc::clone(&self.routes);
        let (route, names) = find(&routes, &head.method, head.uri.path())?;
        if who.role < route.role && !is_on("api_roles_ignored") {
            self.note_refusal(&who, route, names.first()).await?;
            return Err(problems::FORBIDDEN.into());
        }
        let body = read_body(body, &self.limits).await.map_err(|problem| {
            let is_large = problem.status() == problems::TOO_LARGE.status();
            Trouble::from(if is_large { problems::TOO_LARGE } else { problem })
        })?;
        if !is_json(&head.headers, &body) {
            return Err(problems::MEDIA_TYPE.into());
        }
        let raw = Raw { who, names, query: head.uri.query().unwrap_or_default().to_owned(), body };
        let written = route.act(self, raw).await?;
        let mut answer = Response::new(Answer::from(Bytes::from(written)));
        *answer.status_mut() = route.status;
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        private(&mut answer);
        Ok(answer)
    }

    fn admitted(&self, headers: &HeaderMap, uri: &Uri, connection: &Connection) -> Result<Who, Trouble> {
        let door = Arc::clone(&self.door.read().unwrap_or_else(PoisonError::into_inner));
        let guesser = guesser(headers, connection.peer().ip(), &self.trusted);
        Ok(door.admit(headers, uri, guesser, Instant::now())?)
    }

    /// Somebody tried what their role does not include. Looking is not written down.
    async fn note_refusal(&self, who: &Who, route: &Route, subject: Option<&String>) -> Result<(), Trouble> {
        if route.method == Method::GET || is_on("api_refusals_unwritten") {
            return Ok(());
        }
        let what = format!("refused: {}", route.name);
        let detail = format!("{} {}", route.method, route.path);
        let subject = subject.map_or(route.path, String::as_str);
        Ok(self.runtime.note_change(&who.name, &what, subject, &detail).await?)
    }
}

/// Whether a body is what every body here is. What a form of another page sends is not.
fn is_json(headers: &HeaderMap, body: &Bytes) -> bool {
    if body.is_empty() {
        return true;
    }
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let (Some(first), None) = (types.next(), types.next()) else { return false };
    let essence = first.as_bytes().split(|it| *it == b';').next().unwrap_or_default();
    essence.trim_ascii().eq_ignore_ascii_case(b"application/json") && !headers.contains_key(CONTENT_ENCODING)
}
