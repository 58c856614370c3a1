//! The shapes of requests and answers. The command line reads the same ones.

use super::shape::{Moment, shapes, words};
use serde_json::{Map, Value};

words! {
    /// What somebody may do. Each includes those before it.
    enum Role {
        /// Looks at everything, changes nothing.
        Viewer = "viewer",
        /// Pauses and redrives: whatever keeps a server going.
        Operator = "operator",
        /// Adds and removes functions, and removes what was kept.
        Admin = "admin",
    }

    /// Where an execution stands.
    enum Standing {
        /// It waits.
        Pending = "PENDING",
        /// It runs.
        InProgress = "IN_PROGRESS",
        /// It took effect.
        Completed = "COMPLETED",
        /// It will not be tried again unless somebody intervenes.
        Failed = "FAILED",
    }

    /// Why an execution failed.
    enum Why {
        /// The function said that trying again is pointless.
        Fatal = "fatal",
        /// No attempts were left.
        Exhausted = "exhausted",
        /// The retry window was over.
        Window = "window",
        /// The event was too old.
        TooOld = "too_old",
        /// Somebody ended it.
        Cancelled = "cancelled",
        /// Retry is off.
        Dropped = "dropped",
        /// Nobody can tell whether it took effect.
        OutcomeUnknown = "outcome_unknown",
    }

    /// What can be done to executions.
    enum Verb {
        /// Starts it again after it failed.
        Redrive = "redrive",
        /// Ends it.
        Cancel = "cancel",
        /// Lets it wait until it is unparked.
        Park = "park",
        /// Lets it go on.
        Unpark = "unpark",
        /// Says what became of it, after nobody could tell.
        Resolve = "resolve",
    }

    /// Where a function comes from.
    enum DefinedBy {
        /// The configuration file, or the command line of the server.
        File = "file",
        /// This API.
        Api = "api",
        /// The server itself: it forwards dead letters.
        Server = "server",
    }

    /// How far a job is.
    enum Stage {
        /// It goes on.
        Running = "running",
        /// It waits for its canary.
        Canary = "canary",
        /// It has done everything.
        Finished = "finished",
        /// Somebody stopped it.
        Aborted = "aborted",
        /// Its node stopped, or was not heard of for 15 seconds.
        Interrupted = "interrupted",
        /// Its canary failed again.
        CanaryFailed = "canary_failed",
        /// The queue could not tell what happened.
        Failed = "failed",
    }

    /// What became of an execution that nobody could tell of.
    enum Found {
        /// The effect happened.
        Happened = "happened",
        /// It did not, and may be tried again.
        DidNot = "did_not",
    }
}

shapes! {
    /// Nothing.
    strict struct Nothing {}

    /// A problem, as RFC 9457 has it.
    struct ProblemView {
        /// The address of a page about it.
        r#type: String,
        /// What happened, in short.
        title: String,
        /// The status of the answer.
        status: u32,
        /// What happened, and what to do.
        detail: String,
    }

    /// How a function stands.
    struct FunctionView {
        /// Its name.
        name: String,
        /// Where it is called, without its path.
        url: Option<String>,
        /// Where it comes from.
        defined_by: DefinedBy,
        /// Whether it starts nothing.
        is_paused: bool,
        /// Whether it was removed, and something of it still runs.
        is_removed: bool,
        /// What is wrong with it, if it was added over the API and this node leaves it out: its events are kept, and it is
        /// not called from here.
        left_out: Option<String>,
        /// What its target is thought to be, on this node: `closed` if it is alive, else `open` or `probing`.
        breaker: String,
        /// Calls under way on this node.
        in_flight: u32,
        /// Most calls at once.
        concurrency: u32,
        /// Most attempts over time, such as `100/s`.
        rate: Option<String>,
        /// What became of everything that was accepted for it.
        ledger: LedgerView,
    }

    /// All functions.
    struct FunctionsView {
        /// By name.
        functions: Vec<FunctionView>,
    }

    /// What became of a function that was paused, resumed or drained.
    struct SwitchView {
        /// The function.
        function: String,
        /// Whether it starts nothing now.
        is_paused: bool,
        /// Whether that was different before.
        is_changed: bool,
        /// Whether nothing of it runs any more: on this node; if it was drained, on any node, and nothing can start.
        is_idle: bool,
    }

    /// How to drain.
    strict struct DrainRequest {
        /// How long to wait until nothing runs, in seconds; 30 unless this is said, 300 at most.
        within_secs: Option<u32>,
        /// Whether to wait only, for who has drained it before: nothing is paused that somebody resumed since.
        only_wait: Option<bool>,
    }

    /// The books: `accepted = pending + in_progress + completed + dead + cancelled + dropped + unknown + purged`.
    struct LedgerView {
        /// Ever accepted as new.
        accepted: u64,
        /// Waiting, parked ones included.
        pending: u64,
        /// Handed out.
        in_progress: u64,
        /// Took effect, and still remembered.
        completed: u64,
        /// Dead letters: fatal, exhausted, out of their window, or too old.
        dead: u64,
        /// Ended by somebody.
        cancelled: u64,
        /// Failed where retry is off.
        dropped: u64,
        /// Nobody can tell whether they took effect.
        unknown: u64,
        /// Forgotten after their retention.
        purged: u64,
        /// Whether nothing was lost.
        is_balanced: bool,
    }

    /// The books of a function.
    struct LedgerLine {
        /// The function.
        function: String,
        /// Its books.
        ledger: LedgerView,
    }

    /// The books of all functions.
    struct LedgersView {
        /// By function.
        functions: Vec<LedgerLine>,
        /// All together.
        total: LedgerView,
    }

    /// Which executions; what is left out does not matter.
    strict struct FilterRequest {
        /// Of this function.
        function: Option<String>,
        /// In this status.
        status: Option<Standing>,
        /// Failed for this reason.
        reason: Option<Why>,
        /// Whose event has this type.
        r#type: Option<String>,
        /// Whose event has this id, or whose key is this.
        name: Option<String>,
        /// Whose last error has this print.
        error: Option<String>,
        /// Accepted at this moment or later.
        accepted_from: Option<Moment>,
        /// Accepted before this moment.
        accepted_before: Option<Moment>,
    }

    /// Which executions, and which page of them.
    strict struct ExecutionsQuery {
        /// Of this function.
        function: Option<String>,
        /// In this status.
        status: Option<Standing>,
        /// Failed for this reason.
        reason: Option<Why>,
        /// Whose event has this type.
        r#type: Option<String>,
        /// Whose event has this id, or whose key is this.
        name: Option<String>,
        /// Whose last error has this print.
        error: Option<String>,
        /// Accepted at this moment or later.
        accepted_from: Option<Moment>,
        /// Accepted before this moment.
        accepted_before: Option<Moment>,
        /// `true` for dead letters only: what failed for good by itself, and can be redriven.
        dead: Option<bool>,
        /// Where the last page ended.
        cursor: Option<String>,
        /// Most items of the page; 50 unless this is said, 500 at most.
        limit: Option<u32>,
    }

    /// An execution: an event on its way through a function.
    struct ExecutionView {
        /// Names it.
        id: String,
        /// The function.
        function: String,
        /// The event's id.
        event_id: String,
        /// The event's source.
        source: String,
        /// The event's type.
        r#type: String,
        /// What deduplication goes by, besides the function.
        key: String,
        /// Where it stands.
        status: Standing,
        /// Why it failed, if it did.
        reason: Option<Why>,
        /// Whether it waits for somebody to unpark it.
        is_parked: bool,
        /// Attempts begun since it was accepted, or redriven.
        attempts: u32,
        /// How often it was redriven.
        generation: u32,
        /// Deliveries of the same event that were not run.
        duplicates: u32,
        /// Deliveries under the same name with another content, which were not run.
        mismatches: u32,
        /// When it was accepted.
        accepted_at: Moment,
        /// When it last changed.
        updated_at: Moment,
        /// When somebody must act next: start it, or take it over.
        due_at: Option<Moment>,
        /// What went wrong last.
        error: Option<String>,
        /// The print of that error.
        error_print: Option<String>,
    }

    /// A page of executions, the latest accepted first.
    struct ExecutionsView {
        /// What is on it.
        executions: Vec<ExecutionView>,
        /// Where the next one begins, if there is one.
        next: Option<String>,
    }

    /// An attempt that is over.
    struct AttemptView {
        /// Of which generation.
        generation: u32,
        /// Which one of its generation, from 1.
        number: u32,
        /// When it was begun.
        began_at: Moment,
        /// When it was over.
        ended_at: Moment,
        /// What went wrong; `null` if it took effect.
        error: Option<String>,
    }

    /// What a function answered when it took an event.
    struct ResultView {
        /// How long the answer's body was, in bytes.
        size: u64,
        /// The body, or its first 16 KiB, if it is text.
        text: Option<String>,
        /// The same of a body that is no text.
        base64: Option<String>,
        /// Whether that is all of it.
        is_whole: bool,
        /// Until when it is kept; `null` if it is not: it was larger than 64 KiB, or an operator said that the effect happened.
        until: Option<Moment>,
    }

    /// Everything about an execution.
    struct StoryView {
        /// The execution.
        execution: ExecutionView,
        /// The event, as structured CloudEvents has it, unless it is no longer kept.
        event: Option<Map<String, Value>>,
        /// What the function answered, if it took effect. A body is kept for a day, and no longer than the execution.
        result: Option<ResultView>,
        /// The latest attempts that are over, the oldest first.
        history: Vec<AttemptView>,
        /// When the event last came again.
        repeated_at: Option<Moment>,
        /// What it must not overtake others by.
        order: Option<String>,
        /// When it stops being remembered.
        expires_at: Option<Moment>,
        /// What happens next, in a sentence.
        next: String,
        /// What can be done about it.
        can: Vec<Verb>,
    }

    /// What is looked for.
    strict struct WhyQuery {
        /// An event's id, a key, an execution's id, or the first eight or more digits of one.
        q: String,
    }

    /// What was found, the latest first.
    struct WhyView {
        /// At most 20.
        found: Vec<StoryView>,
        /// Whether there are more.
        has_more: bool,
        /// Whether all were looked at: by the beginning of an id, the latest 20,000 of each status are.
        is_whole: bool,
        /// The server's time.
        now: Moment,
    }

    /// How to redrive.
    strict struct RedriveRequest {
        /// With this event instead of its own, as structured CloudEvents has it. Its `id` and `source` name the execution, and stay;
        /// everything else may be another. The execution stays under its key, and is listed under the type that it came with.
        event: Option<Map<String, Value>>,
    }

    /// What was found out.
    strict struct ResolveRequest {
        /// What became of it.
        outcome: Found,
    }

    /// What to do to many executions.
    strict struct BulkRequest {
        /// What to do.
        action: Verb,
        /// To which; must say something, unless `all` is `true`.
        filter: Option<FilterRequest>,
        /// Really all of them.
        all: Option<bool>,
        /// Only count.
        dry_run: Option<bool>,
        /// Not faster than this, such as `100/s`.
        rate: Option<String>,
        /// So many first; the rest goes when all of them took effect.
        canary: Option<u32>,
    }

    /// Something that is done to many executions, in the background of one of the nodes.
    struct JobView {
        /// Names it, on all nodes.
        number: u64,
        /// What is done.
        action: String,
        /// Who began it.
        who: String,
        /// When.
        began_at: Moment,
        /// How far it is.
        state: Stage,
        /// Executions that matched so far.
        matched: u64,
        /// Executions that were changed.
        done: u64,
        /// Executions that were skipped, because it made no sense where they stood.
        skipped: u64,
        /// What went wrong.
        error: Option<String>,
    }

    /// The jobs of all nodes, the latest last.
    struct JobsView {
        /// At most 32.
        jobs: Vec<JobView>,
    }

    /// What is wrong, in one line, and how often.
    struct ErrorView {
        /// Tells errors apart by what went wrong, not by when and with which id.
        print: String,
        /// One of these errors.
        example: String,
        /// Dead letters that failed with it; where a reason was asked for, what failed for that reason.
        dead: u64,
        /// Executions that wait to be tried again after it.
        waiting: u64,
        /// The functions that it happens to.
        functions: Vec<String>,
        /// When it last happened.
        last_at: Moment,
    }

    /// Which executions to group by what went wrong; what is left out does not matter.
    strict struct ErrorsQuery {
        /// Of this function.
        function: Option<String>,
        /// Failed for this reason.
        reason: Option<Why>,
        /// Whose event has this type.
        r#type: Option<String>,
        /// Whose event has this id, or whose key is this.
        name: Option<String>,
        /// Whose last error has this print.
        error: Option<String>,
        /// Accepted at this moment or later.
        accepted_from: Option<Moment>,
        /// Accepted before this moment.
        accepted_before: Option<Moment>,
        /// Most errors of the answer; 500 unless this is said, and at most.
        limit: Option<u32>,
    }

    /// What is wrong, the most frequent first.
    struct ErrorsView {
        /// By print.
        errors: Vec<ErrorView>,
        /// Whether there are more than were asked for.
        has_more: bool,
        /// How many executions were looked at: of those that failed and of those that wait, the latest 5,000 each that match.
        looked_at: u64,
        /// Whether that were all.
        is_whole: bool,
    }

    /// Which audit entries.
    strict struct AuditQuery {
        /// Of this function, execution or job.
        subject: Option<String>,
        /// Where the last page ended.
        cursor: Option<String>,
        /// Most items of the page; 50 unless this is said, 500 at most.
        limit: Option<u32>,
    }

    /// Something that somebody changed, or was not allowed to.
    struct AuditView {
        /// When.
        at: Moment,
        /// Who.
        who: String,
        /// What.
        what: String,
        /// What of: a function, an execution, a job.
        subject: String,
        /// More about it.
        detail: String,
    }

    /// A page of the audit log, the latest first.
    struct AuditsView {
        /// What is on it.
        entries: Vec<AuditView>,
        /// Where the next one begins, if there is one.
        next: Option<String>,
    }

    /// What somebody decided about.
    struct PastView {
        /// How the store was found to have forgotten what it had acknowledged.
        found: String,
    }

    /// What was removed.
    struct PurgeView {
        /// So many executions whose retention was over.
        purged: u64,
        /// Whether there may be more.
        has_more: bool,
    }

    /// What this server is.
    struct ServerView {
        /// Its version.
        version: String,
        /// Its time.
        now: Moment,
        /// Who asks.
        who: String,
        /// What they may do.
        role: Role,
        /// Where it keeps executions.
        store: StoreView,
    }

    /// Where executions are kept.
    struct StoreView {
        /// Which store, without passwords.
        place: String,
        /// What it promises: A, B or C.
        tier: String,
        /// What that means.
        promise: String,
        /// What would have to be otherwise for it to promise more, or was not to be seen.
        warnings: Vec<String>,
        /// What it takes of this node's disk, in bytes, if it is there.
        used_bytes: Option<u64>,
        /// What it may still take.
        left_bytes: Option<u64>,
        /// In how many days nothing is left, if it goes on growing as it does.
        days_to_full: Option<u64>,
        /// Executions that are left alone because they cannot be read, and why, as far as this node has seen.
        damaged: Vec<String>,
        /// Why what is finished cannot be tidied up, if it cannot: the disk is full, most likely.
        trouble: Option<String>,
        /// Why no new events are taken, if none are: there is no room. What was taken is delivered from what was reserved.
        refuses: Option<String>,
        /// How it was found to have forgotten what it had acknowledged: nothing is delivered until somebody decides.
        went_back: Option<String>,
    }
}
