//! Seeded bugs that prove the tests bite.
//!
//! 1. Without the hidden feature `__sabotage`, [`is_on`] is `false` and the branch is compiled away.
//! 2. With it, the bug named by the environment variable `SEMEL_SABOTAGE` is live, and no other.
//! 3. Every name stands in [`ALL`], with the invariant it breaks; the test command runs each and demands
//!    that a test fails.
//! 4. A bug that is found on a server is named after it, as in `nats_…`: so the test command knows what to start.

/// The name of a seeded bug, and what it breaks.
pub struct Sabotage {
    /// As given in `SEMEL_SABOTAGE`.
    pub name: &'static str,
    /// The rule that no longer holds.
    pub breaks: &'static str,
    /// A nextest filter for the tests expected to notice.
    pub caught_by: &'static str,
}

/// Every seeded bug there is.
pub const ALL: &[Sabotage] = &[
    Sabotage {
        name: "fingerprint_ignored",
        breaks: "a claim with another payload is a mismatch",
        caught_by: "package(semel-core) & test(machine::)",
    },
    Sabotage {
        name: "expired_counts_as_present",
        breaks: "an expired record is treated as absent",
        caught_by: "package(semel-core) & test(machine::)",
    },
    Sabotage {
        name: "margin_ignored",
        breaks: "a lease is left alone until the clocks' disagreement has passed",
        caught_by: "package(semel-core) & test(machine::)",
    },
    Sabotage {
        name: "lease_ignored",
        breaks: "nobody runs a call while its holder may work undisturbed",
        caught_by: "package(semel-core) & test(model::)",
    },
    Sabotage {
        name: "lease_end_is_expiry",
        breaks: "an unfinished record never expires",
        caught_by: "package(semel-core) & test(model::)",
    },
    Sabotage {
        name: "unknown_outcome_rerun",
        breaks: "a call in doubt is not run again until somebody resolves it",
        caught_by: "package(semel-core) & test(model::)",
    },
    Sabotage {
        name: "unknown_outcome_expires",
        breaks: "a doubt does not go away by waiting",
        caught_by: "package(semel-core) & test(machine::)",
    },
    Sabotage {
        name: "anything_is_resolved",
        breaks: "only a call of unknown outcome can be resolved",
        caught_by: "package(semel-core) & test(machine::)",
    },
    Sabotage {
        name: "fence_restarts",
        breaks: "a fence is higher than every one before it",
        caught_by: "package(semel-core) & test(fence::)",
    },
    Sabotage {
        name: "key_parts_without_lengths",
        breaks: "two part lists never share an identity",
        caught_by: "package(semel-core) & test(key::)",
    },
    Sabotage {
        name: "member_order_counts",
        breaks: "the order of members does not change a JSON fingerprint",
        caught_by: "package(semel-core) & test(fingerprint::)",
    },
    Sabotage {
        name: "checksum_unchecked",
        breaks: "damaged bytes are noticed",
        caught_by: "package(semel-core) & test(wire::)",
    },
    Sabotage {
        name: "other_key_accepted",
        breaks: "bytes that were moved to another key are refused",
        caught_by: "package(semel-core) & test(wire::)",
    },
    Sabotage {
        name: "jitter_out_of_band",
        breaks: "a delay lies in its band",
        caught_by: "package(semel-core) & test(retry::)",
    },
    Sabotage {
        name: "lapsed_attempt_not_counted",
        breaks: "a crash uses up an attempt",
        caught_by: "package(semel-core) & test(execution::)",
    },
    Sabotage {
        name: "dead_letter_loses_event",
        breaks: "a dead letter keeps its event",
        caught_by: "package(semel-core) & test(execution::)",
    },
    Sabotage {
        name: "redrive_keeps_generation",
        breaks: "a redrive raises the generation",
        caught_by: "package(semel-core) & test(execution::)",
    },
    Sabotage {
        name: "acknowledged_before_durable",
        breaks: "a sender is told what is durable",
        caught_by: "package(semel-runtime) & test(sim::few_seeds)",
    },
    Sabotage {
        name: "attempt_counted_after",
        breaks: "an attempt is counted before its function is called",
        caught_by: "package(semel-runtime) & test(sim::few_seeds)",
    },
    Sabotage {
        name: "settled_without_fence",
        breaks: "whoever was superseded writes nothing",
        caught_by: "package(semel-runtime) & (test(sim::few_seeds) | test(engine::lost::))",
    },
    Sabotage {
        name: "started_late",
        breaks: "a node that was frozen after a claim starts nothing",
        caught_by: "package(semel-runtime) & test(engine::lost::)",
    },
    Sabotage {
        name: "forwarded_apart",
        breaks: "a dead letter and its forwarding are one write",
        caught_by: "package(semel-runtime) & test(sim::few_seeds)",
    },
    Sabotage {
        name: "dead_letter_not_forwarded",
        breaks: "a dead letter goes on where its function says",
        caught_by: "package(semel-runtime) & test(engine::dead_letters::)",
    },
    Sabotage {
        name: "refusal_ignored",
        breaks: "what was claimed too late or too often is not tried",
        caught_by: "package(semel-runtime) & test(engine::delivery::)",
    },
    Sabotage {
        name: "own_accept_not_recognised",
        breaks: "an accept whose answer was lost is recognised",
        caught_by: "package(semel-runtime) & test(engine::lost::)",
    },
    Sabotage {
        name: "own_write_not_recognised",
        breaks: "a write whose answer was lost is recognised",
        caught_by: "package(semel-runtime) & test(engine::lost::)",
    },
    Sabotage {
        name: "lost_claim_forgotten",
        breaks: "a claim whose answer was lost is found by its holder",
        caught_by: "package(semel-runtime) & test(engine::lost::)",
    },
    Sabotage {
        name: "panic_not_caught",
        breaks: "a panic is a failed attempt, and nobody else's",
        caught_by: "package(semel-runtime) & test(engine::here::)",
    },
    Sabotage {
        name: "stopped_without_handing_back",
        breaks: "what a stopped runtime does not finish is handed back",
        caught_by: "package(semel-runtime) & test(engine::stop::)",
    },
    Sabotage {
        name: "storm_reaches_the_queue",
        breaks: "duplicates of what runs are answered from memory",
        caught_by: "package(semel-runtime) & test(engine::crowd::)",
    },
    Sabotage {
        name: "redrive_swallowed",
        breaks: "a redrive starts an execution again",
        caught_by: "package(semel-runtime) & test(engine::control::)",
    },
    Sabotage {
        name: "reload_resumes",
        breaks: "a paused function stays paused through a reload",
        caught_by: "package(semel-runtime) & test(engine::control::)",
    },
    Sabotage {
        name: "breaker_never_heals",
        breaks: "a target that is back is found again",
        caught_by: "package(semel-runtime) & test(engine::gate::)",
    },
    Sabotage {
        name: "fresh_starved",
        breaks: "a backlog leaves half of the places to fresh events",
        caught_by: "package(semel-runtime) & test(engine::crowd::)",
    },
    Sabotage {
        name: "no_ramp",
        breaks: "a target that came back is not run over",
        caught_by: "package(semel-runtime) & test(engine::gate::)",
    },
    Sabotage {
        name: "budget_without_reserve",
        breaks: "a function that hangs leaves the others their reserve",
        caught_by: "package(semel-runtime) & test(engine::gate::)",
    },
    Sabotage {
        name: "unready_clone_is_called",
        breaks: "the service that was polled ready is the one that is called",
        caught_by: "binary_id(semel::proof) & test(service::)",
    },
    Sabotage {
        name: "service_error_is_fatal",
        breaks: "a service's plain error is retryable",
        caught_by: "binary_id(semel::proof) & test(service::)",
    },
    Sabotage {
        name: "missing_key_runs_unprotected",
        breaks: "running without a key must be asked for by name",
        caught_by: "binary_id(semel::proof) & test(service::)",
    },
    Sabotage {
        name: "embedded_acknowledges_before_sync",
        breaks: "an outcome is acknowledged only when it is durable",
        caught_by: "package(semel-embedded) & (test(power_cut::no) + test(store::tests))",
    },
    Sabotage {
        name: "embedded_shows_unsynced",
        breaks: "a duplicate is answered only when its original is durable",
        caught_by: "package(semel-embedded) & test(store::tests)",
    },
    Sabotage {
        name: "embedded_moved_note_unsynced",
        breaks: "a segment goes only when it is noted, durably, that it is not needed",
        caught_by: "package(semel-embedded) & test(power_cut::no)",
    },
    Sabotage {
        name: "embedded_floor_ignored",
        breaks: "a newer value outlives the older ones of its key",
        caught_by: "package(semel-embedded) & (test(power_cut::no) + test(reopen::))",
    },
    Sabotage {
        name: "embedded_moving_floor_ignored",
        breaks: "a value that changes while it moves outlives what moved",
        caught_by: "package(semel-embedded) & test(flush::tests)",
    },
    Sabotage {
        name: "embedded_recovered_unsynced",
        breaks: "what a new process shows survives a power cut",
        caught_by: "package(semel-embedded) & test(power_cut::no)",
    },
    Sabotage {
        name: "embedded_directory_unsynced",
        breaks: "a file of the journal has its name before it is written to",
        caught_by: "package(semel-embedded) & test(power_cut::no)",
    },
    Sabotage {
        name: "embedded_files_unverified",
        breaks: "a flipped bit gives an error or the right answer",
        caught_by: "package(semel-embedded) & test(damage::)",
    },
    Sabotage {
        name: "embedded_orphans_kept",
        breaks: "a reopen releases at once what a dead handler held",
        caught_by: "package(semel-embedded) & test(reopen::)",
    },
    Sabotage {
        name: "lost_reply_is_failure",
        breaks: "a write whose answer was lost is repeated, not taken for a failure",
        caught_by: "binary_id(semel::it) & test(lost::)",
    },
    Sabotage {
        name: "own_record_not_recognised",
        breaks: "a stored record equal to one's own is one's own",
        caught_by: "binary_id(semel::it) & test(lost::)",
    },
    Sabotage {
        name: "waiter_not_woken",
        breaks: "waiters are woken when the holder finishes",
        caught_by: "binary_id(semel::it) & test(wait::waiters_are_woken)",
    },
    Sabotage {
        name: "handler_error_completes",
        breaks: "a retryable error leaves the call to be run again",
        caught_by: "binary_id(semel::it) & test(call::)",
    },
    Sabotage {
        name: "oversized_result_reruns",
        breaks: "a result that cannot be kept never makes a call run again",
        caught_by: "binary_id(semel::it) & test(result::)",
    },
    Sabotage {
        name: "unreachable_store_fails_open",
        breaks: "a call whose claim cannot be stored is refused",
        caught_by: "binary_id(semel::it) & test(call::)",
    },
    Sabotage {
        name: "heartbeat_ignores_supersession",
        breaks: "a superseded handler is stopped",
        caught_by: "binary_id(semel::it) & test(heartbeat::a_superseded_handler)",
    },
    Sabotage {
        name: "paused_holder_goes_on",
        breaks: "a holder stops when its lease is about to lapse",
        caught_by: "binary_id(semel::it) & test(heartbeat::)",
    },
    Sabotage {
        name: "effect_intent_after_dispatch",
        breaks: "an effect's intent is written before it is dispatched",
        caught_by: "binary_id(semel::it) & test(effect::)",
    },
    Sabotage {
        name: "keyed_effect_ignores_retention",
        breaks: "a key that its provider has forgotten is not sent again",
        caught_by: "binary_id(semel::it) & test(effect::)",
    },
    Sabotage {
        name: "forgotten_effect_runs_blindly",
        breaks: "an effect that the ledger may have forgotten is not run blindly",
        caught_by: "binary_id(semel::it) & test(effect::)",
    },
    Sabotage {
        name: "superseded_touches_effects",
        breaks: "a superseded holder does not touch its successor's effects",
        caught_by: "binary_id(semel::it) & test(effect::)",
    },
    Sabotage {
        name: "result_forgotten_before_its_call",
        breaks: "a result is kept for as long as its call is said to be remembered",
        caught_by: "binary_id(semel::it) & test(result::)",
    },
    Sabotage {
        name: "seal_ignores_identity",
        breaks: "a sealed result opens under its own key only",
        caught_by: "binary_id(semel::it) & test(seal::opening::)",
    },
    Sabotage {
        name: "seal_writes_plain",
        breaks: "what is sealed cannot be read in the store",
        caught_by: "binary_id(semel::it) & test(seal::results::)",
    },
    Sabotage {
        name: "seal_leaves_errors_plain",
        breaks: "what a handler says when it fails is sealed, too",
        caught_by: "binary_id(semel::it) & test(seal::files::)",
    },
    Sabotage {
        name: "refused_plain_is_served",
        breaks: "a plain result is not served where that is refused",
        caught_by: "binary_id(semel::it) & test(seal::opening::)",
    },
    Sabotage {
        name: "sqlite_fence_ignored",
        breaks: "every write names the fence it expects",
        caught_by: "binary_id(semel::stores) & test(/^sqlite::/)",
    },
    Sabotage {
        name: "postgres_fence_ignored",
        breaks: "every write names the fence it expects",
        caught_by: "binary_id(semel::stores) & test(/^postgres::[a-z_]*$/)",
    },
    Sabotage {
        name: "nats_revision_ignored",
        breaks: "every write names the fence it expects",
        caught_by: "binary_id(semel::stores) & test(/^nats::nats_keeps/)",
    },
    Sabotage {
        name: "nats_unfinished_expires",
        breaks: "an unfinished record never expires",
        caught_by: "binary_id(semel::stores) & test(/^nats::the_server_expires/)",
    },
    Sabotage {
        name: "dynamodb_fence_ignored",
        breaks: "every write names the fence it expects",
        caught_by: "binary_id(semel::stores) & test(/^dynamodb::[a-z_]*$/)",
    },
    Sabotage {
        name: "dynamodb_unfinished_expires",
        breaks: "an unfinished record never expires",
        caught_by: "binary_id(semel::stores) & test(/^dynamodb::items::/)",
    },
    Sabotage {
        name: "firestore_fence_ignored",
        breaks: "every write names the fence it expects",
        caught_by: "binary_id(semel::stores) & test(/^firestore::[a-z_]*$/)",
    },
    Sabotage {
        name: "firestore_equal_write_keeps_fence",
        breaks: "a write is told apart from an equal one before it",
        caught_by: "binary_id(semel::stores) & test(/^firestore::/)",
    },
    Sabotage {
        name: "redis_key_twice_in_a_batch",
        breaks: "a batch holds a key once",
        caught_by: "package(semel) & test(redis::gathering::)",
    },
    Sabotage {
        name: "redis_batches_without_end",
        breaks: "whoever comes while enough is under way gathers",
        caught_by: "package(semel) & test(redis::gathering::)",
    },
    Sabotage {
        name: "redis_answer_in_any_order",
        breaks: "an answer that could be misread as a success is none",
        caught_by: "package(semel) & test(redis::script::)",
    },
    Sabotage {
        name: "redis_lost_batch_is_awaited",
        breaks: "a runtime that ends takes its batches with it, and holds up no other",
        caught_by: "package(semel) & test(redis::batch::)",
    },
    Sabotage {
        name: "transactional_outcome_skipped",
        breaks: "an outcome commits with the user's own rows",
        caught_by: "binary_id(semel::stores) & test(/^transactions::sqlite/)",
    },
    Sabotage {
        name: "superseded_holder_commits",
        breaks: "a superseded holder's rows are rolled back",
        caught_by: "binary_id(semel::stores) & test(/^transactions::sqlite/)",
    },
    Sabotage {
        name: "every_node_cleans_up",
        breaks: "all nodes together do one node's cleanup",
        caught_by: "binary_id(semel::stores) & test(/^cleanup::/)",
    },
    Sabotage {
        name: "stale_version_writes",
        breaks: "a document is written only over the version that was seen",
        caught_by: "binary_id(semel::stores) & test(/^repository::(documents|values|sqlite)/)",
    },
    Sabotage {
        name: "equal_document_is_own",
        breaks: "two equal changes of one document are two",
        caught_by: "binary_id(semel::stores) & test(/^repository::(documents|values|sqlite)/)",
    },
    Sabotage {
        name: "http_two_keys_accepted",
        breaks: "a request has one key",
        caught_by: "binary_id(semel::http) & (test(/^hostile::/) | test(/^draft::/))",
    },
    Sabotage {
        name: "http_caller_is_not_in_scope",
        breaks: "nobody gets another caller's response",
        caught_by: "binary_id(semel::http) & test(/^hostile::/)",
    },
    Sabotage {
        name: "http_nobody_is_a_caller",
        breaks: "a key without a caller is refused",
        caught_by: "binary_id(semel::http) & test(/^hostile::/)",
    },
    Sabotage {
        name: "http_body_not_in_fingerprint",
        breaks: "a key that comes with another request is refused",
        caught_by: "binary_id(semel::http) & test(/^draft::/)",
    },
    Sabotage {
        name: "http_body_has_no_limit",
        breaks: "a body has a limit",
        caught_by: "binary_id(semel::http) & (test(/^responses::/) | test(/^wire::/))",
    },
    Sabotage {
        name: "http_5xx_is_kept",
        breaks: "a failure lets the next try run",
        caught_by: "binary_id(semel::http) & test(/^stripe::/)",
    },
    Sabotage {
        name: "http_set_cookie_replayed",
        breaks: "cookies are never replayed",
        caught_by: "binary_id(semel::http) & test(/^replay::/)",
    },
    Sabotage {
        name: "http_replayed_header_forged",
        breaks: "only a replay is marked as one",
        caught_by: "binary_id(semel::http) & test(/^hostile::/)",
    },
    Sabotage {
        name: "http_disconnect_cancels",
        breaks: "work that was begun is finished when its client hangs up",
        caught_by: "binary_id(semel::http) & test(/^hang_up::/)",
    },
    Sabotage {
        name: "http_oversized_reruns",
        breaks: "a response that cannot be kept never makes a request run again",
        caught_by: "binary_id(semel::http) & test(/^responses::/)",
    },
    Sabotage {
        name: "http_quota_ignored",
        breaks: "a caller may use so many new keys and no more",
        caught_by: "binary_id(semel::http) & test(/^quota::/)",
    },
    Sabotage {
        name: "commit_not_verified",
        breaks: "what was not committed is not told as done",
        caught_by: "binary_id(semel::http) & test(/^transaction::/)",
    },
    Sabotage {
        name: "renewed_in_transaction",
        breaks: "a commit is not taken for a loss of the lease",
        caught_by: "binary_id(semel::http) & test(/^commit::/)",
    },
    Sabotage {
        name: "listen_accepts_bare_line_feed",
        breaks: "a request that can be read in two ways is refused",
        caught_by: "binary_id(semel-server::it) & test(/^hostile::nothing_can_be_read/)",
    },
    Sabotage {
        name: "listen_waits_for_first_byte",
        breaks: "a client that says nothing is not waited for",
        caught_by: "binary_id(semel-server::it) & test(/^hostile::a_client_that_says_nothing/)",
    },
    Sabotage {
        name: "listen_waits_for_heads",
        breaks: "a head that does not end is not waited for",
        caught_by: "binary_id(semel-server::it) & test(/^hostile::a_head_that_does_not_end/)",
    },
    Sabotage {
        name: "log_shows_keys",
        breaks: "a key is never written to a log",
        caught_by: "binary_id(semel-server::it) & test(/^logs::no_secret/)",
    },
    Sabotage {
        name: "proxy_follows_redirects",
        breaks: "no redirect is followed",
        caught_by: "binary_id(semel-server::it) & test(/^pass::an_answer_passes/)",
    },
    Sabotage {
        name: "proxy_forwards_connection_headers",
        breaks: "what `Connection` names stays on its connection",
        caught_by: "binary_id(semel-server::it) & test(/^pass::what_belongs_to_a_connection/)",
    },
    Sabotage {
        name: "proxy_logs_query",
        breaks: "a query is never written to a log",
        caught_by: "binary_id(semel-server::it) & test(/^logs::no_secret/)",
    },
    Sabotage {
        name: "proxy_releases_lost_request",
        breaks: "what the upstream may have got is not sent again while its lease stands",
        caught_by: "binary_id(semel-server::it) & test(/^lost::a_request_that_takes_too_long/)",
    },
    Sabotage {
        name: "proxy_retries_sent_request",
        breaks: "what the upstream may have got is not sent again by itself",
        caught_by: "binary_id(semel-server::it) & test(/^lost::a_request_without_a_key/)",
    },
    Sabotage {
        name: "proxy_trusts_client_forwarded",
        breaks: "a client does not say who it is",
        caught_by: "binary_id(semel-server::it) & test(/^pass::the_upstream_learns/)",
    },
    Sabotage {
        name: "refused_result_is_unconfirmed",
        breaks: "a result that the store does not take never makes a call run again",
        caught_by: "binary_id(semel::it) & test(result::)",
    },
    Sabotage {
        name: "frozen_time_is_ignored",
        breaks: "a process that was frozen does not judge leases by the time it missed",
        caught_by: "package(semel) & test(clock::tests)",
    },
    Sabotage {
        name: "lambda_missing_key_runs",
        breaks: "a function's event without a key is refused",
        caught_by: "binary_id(semel::lambda) & test(events::)",
    },
    Sabotage {
        name: "lambda_lease_ignores_deadline",
        breaks: "a function's lease ends with its invocation",
        caught_by: "binary_id(semel::lambda) & test(deadline::)",
    },
    Sabotage {
        name: "lambda_batch_hides_failures",
        breaks: "a failed record of a batch is delivered again",
        caught_by: "binary_id(semel::lambda) & test(records::)",
    },
    Sabotage {
        name: "lambda_kept_5xx",
        breaks: "a response that says to try again is not kept",
        caught_by: "binary_id(semel::lambda) & test(api::)",
    },
    Sabotage {
        name: "lambda_fifo_goes_on",
        breaks: "a message is not run before one of its group that failed",
        caught_by: "binary_id(semel::lambda) & test(records::)",
    },
    Sabotage {
        name: "events_json_is_bytes",
        breaks: "a sender may order the members of its JSON anew",
        caught_by: "binary_id(semel-events::it) & test(/^event::/)",
    },
    Sabotage {
        name: "events_checksum_unchecked",
        breaks: "damaged bytes are never an event",
        caught_by: "binary_id(semel-events::it) & test(/^stored::/)",
    },
    Sabotage {
        name: "events_s3_request_is_id",
        breaks: "two objects of one request are two events",
        caught_by: "binary_id(semel-events::it) & test(/^aws::/)",
    },
    Sabotage {
        name: "events_missing_id_is_hash",
        breaks: "an event without an id is refused",
        caught_by: "binary_id(semel-events::it) & test(/^any::/)",
    },
    Sabotage {
        name: "events_any_signature",
        breaks: "a wrong signature is refused",
        caught_by: "binary_id(semel-events::it) & test(/^signatures::/)",
    },
    Sabotage {
        name: "events_signature_never_ages",
        breaks: "a signature ages in both directions",
        caught_by: "binary_id(semel-events::it) & test(/^signatures::/)",
    },
    Sabotage {
        name: "events_token_unverified",
        breaks: "a token that was changed is refused",
        caught_by: "binary_id(semel-events::it) & test(/^tokens::/)",
    },
    Sabotage {
        name: "events_sns_any_host",
        breaks: "nothing is fetched from elsewhere",
        caught_by: "binary_id(semel-events::it) & test(/^sns_signature::/)",
    },
    Sabotage {
        name: "events_bomb_unpacked",
        breaks: "a bomb is not unpacked",
        caught_by: "binary_id(semel-events::it) & test(/^encoding::/)",
    },
    Sabotage {
        name: "events_header_decoded_twice",
        breaks: "a header is percent-decoded once",
        caught_by: "binary_id(semel-events::it) & test(/^cloudevents::/)",
    },
    Sabotage {
        name: "addresses_checked_at_configuration_only",
        breaks: "every address is checked when a connection is made",
        caught_by: "binary_id(semel-runtime::it) & test(/^zoo::guard::/)",
    },
    Sabotage {
        name: "one_good_address_is_enough",
        breaks: "one forbidden address is enough to refuse a host",
        caught_by: "binary_id(semel-runtime::it) & test(/^zoo::guard::/)",
    },
    Sabotage {
        name: "deliveries_retried_by_the_client",
        breaks: "one delivery is one request at most",
        caught_by: "binary_id(semel-runtime::it) & test(/^zoo::pool::/)",
    },
    Sabotage {
        name: "redirects_followed",
        breaks: "no redirect is followed",
        caught_by: "binary_id(semel-runtime::it) & test(/^zoo::answers::/)",
    },
    Sabotage {
        name: "answers_read_past_the_limit",
        breaks: "an answer is read up to a limit",
        caught_by: "binary_id(semel-runtime::it) & test(/^zoo::large::/)",
    },
    Sabotage {
        name: "outcome_header_ignored",
        breaks: "what the function says goes before its status",
        caught_by: "package(semel-runtime) & test(verdict::)",
    },
    Sabotage {
        name: "ingest_lets_anybody_in",
        breaks: "who sends is known before anything else is looked at",
        caught_by: "binary_id(semel-server::it) & test(/^serve::sources::credentials/)",
    },
    Sabotage {
        name: "ingest_fetches_keys_each_time",
        breaks: "keys are fetched at most once a minute, whoever asks",
        caught_by: "package(semel-server) & test(/what_is_not_there_is_asked_for_once_a_minute/)",
    },
    Sabotage {
        name: "ingest_believes_lengths",
        breaks: "a body is cut at its limit, whatever its length was said to be",
        caught_by: "binary_id(semel-server::it) & test(/^serve::hostile::bodies_are_limited/)",
    },
    Sabotage {
        name: "ingest_waits_for_bodies",
        breaks: "a body comes at its rate or is not waited for",
        caught_by: "binary_id(semel-server::it) & test(/^serve::hostile::who_is_slow/)",
    },
    Sabotage {
        name: "ingest_batch_hides_refusals",
        breaks: "a batch of which something was refused is no success",
        caught_by: "binary_id(semel-server::it) & test(/^serve::events::a_batch/)",
    },
    Sabotage {
        name: "serve_reloads_in_part",
        breaks: "a file is taken as a whole or not at all",
        caught_by: "binary_id(semel-server::it) & test(/^serve::reload::a_wrong_file/)",
    },
    Sabotage {
        name: "serve_has_one_side",
        breaks: "with an address of its own, the rest is not where events are",
        caught_by: "package(semel-server) & test(/with_an_address_of_its_own/)",
    },
    Sabotage {
        name: "serve_stops_at_once",
        breaks: "what is under way is finished when the server is told to stop",
        caught_by: "binary_id(semel-server::it) & test(/^serve::stop::told_to_stop_it_finishes/)",
    },
    Sabotage {
        name: "reaches_every_function",
        breaks: "a source reaches the functions that it may, and no others",
        caught_by: "binary_id(semel-server::it) & test(/^serve::events::functions_take/)",
    },
    Sabotage {
        name: "api_any_host",
        breaks: "a name that somebody pointed here is misdirected",
        caught_by: "binary_id(semel-server::it) & test(/^api::hostile::a_name_that_was/)",
    },
    Sabotage {
        name: "api_any_origin",
        breaks: "what a browser sends for another site changes nothing",
        caught_by: "binary_id(semel-server::it) & test(/^api::hostile::other_sites/)",
    },
    Sabotage {
        name: "api_guesses_free",
        breaks: "whoever guesses tokens has to wait",
        caught_by: "binary_id(semel-server::it) & test(/^api::door::whoever_is_not_known/)",
    },
    Sabotage {
        name: "api_roles_ignored",
        breaks: "a role does what it includes and nothing else",
        caught_by: "binary_id(semel-server::it) & test(/^api::door::a_role_does/)",
    },
    Sabotage {
        name: "api_refusals_unwritten",
        breaks: "who tried what a role does not include is in the audit log",
        caught_by: "binary_id(semel-server::it) & test(/^api::door::who_changed_what/)",
    },
];

/// Whether the bug of this name is switched on.
#[cfg(not(feature = "__sabotage"))]
#[inline]
pub const fn is_on(_name: &str) -> bool {
    false
}

/// Whether the bug of this name is switched on.
#[cfg(feature = "__sabotage")]
pub fn is_on(name: &str) -> bool {
    use std::sync::OnceLock;
    static CHOSEN: OnceLock<Option<String>> = OnceLock::new();
    debug_assert!(ALL.iter().any(|it| it.name == name), "unlisted sabotage `{name}`");
    CHOSEN.get_or_init(|| std::env::var("SEMEL_SABOTAGE").ok()).as_deref() == Some(name)
}
