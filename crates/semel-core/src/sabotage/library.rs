//! Seeded bugs of the core, the library, its stores and the proxy.

use super::Sabotage;

pub(super) const ALL: &[Sabotage] = &[
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
        name: "large_objects_keep_their_order",
        breaks: "a large JSON text has the fingerprint that it would have if it were small",
        caught_by: "package(semel-core) & test(/fingerprint::large/)",
    },
    Sabotage {
        name: "large_json_is_copied",
        breaks: "no body is copied to be compared but a small one",
        caught_by: "binary_id(semel::http) & test(/^memory::/)",
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
        name: "embedded_marks_are_sought_in_all_frames",
        breaks: "what stands behind a torn frame is hashed once, whatever it looks like",
        caught_by: "package(semel-embedded) & test(segment::tests)",
    },
    Sabotage {
        name: "embedded_counts_what_is_not_durable",
        breaks: "what is counted is durable",
        caught_by: "package(semel-embedded) & test(/what_is_counted/)",
    },
    Sabotage {
        name: "embedded_death_told_late",
        breaks: "what was completed while it moved never waits again",
        caught_by: "package(semel-embedded) & test(flush::tests)",
    },
    Sabotage {
        name: "embedded_housekeeper_never_rests",
        breaks: "who moves the journal lets others go first",
        caught_by: "package(semel-embedded) & test(flush::tests)",
    },
    Sabotage {
        name: "signatures_by_the_clock_of_the_start",
        breaks: "signatures are judged by the machine's clock as it is now",
        caught_by: "package(semel) & test(clock::tests)",
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
        name: "embedded_dead_not_written",
        breaks: "what was replaced while it waited does not come back",
        caught_by: "package(semel-embedded) & test(power_cut::queue)",
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
        name: "postgres_fences_go_back",
        breaks: "fences grow also where the database went back in time",
        caught_by: "binary_id(semel::stores) & test(/^postgres::fences::/)",
    },
    Sabotage {
        name: "postgres_fences_wait_for_standbys",
        breaks: "a primary that waits for a standby can be asked what is wrong",
        caught_by: "binary_id(semel::stores) & test(/^postgres::standby::a_primary_whose/)",
    },
    Sabotage {
        name: "postgres_trust_unshaken",
        breaks: "connections are asked whether they are there, after one was found broken",
        caught_by: "binary_id(semel::stores) & test(/^postgres::line::connections_that_broke/)",
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
        caught_by: "binary_id(semel) & test(/^store::redis::batch::tests::a_runtime_that_ends/)",
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
        name: "overtaken_change_is_applied_again",
        breaks: "a change of a document is applied once, though its reply is lost",
        caught_by: "binary_id(semel::stores) & test(/^repository::values/)",
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
        name: "http_encoding_not_in_fingerprint",
        breaks: "the same bytes in another encoding are another request",
        caught_by: "binary_id(semel) & test(/^http::fingerprint::/)",
    },
    Sabotage {
        name: "http_trailers_forged",
        breaks: "a trailer says nothing that only Semel may say",
        caught_by: "binary_id(semel::http) & test(/^hostile::/)",
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
        name: "http_unkept_is_unknown",
        breaks: "of a response that is not kept, its size and its digest are, as far as they are known",
        caught_by: "binary_id(semel::http) & test(/^responses::/)",
    },
    Sabotage {
        name: "http_grpc_gets_problems",
        breaks: "who speaks gRPC is told in its own words why it was refused",
        caught_by: "binary_id(semel::http) & test(/^tonic::/)",
    },
    Sabotage {
        name: "http_quota_ignored",
        breaks: "so many keys of a caller are remembered and no more",
        caught_by: "binary_id(semel::http) & test(/^quota::/)",
    },
    Sabotage {
        name: "http_quota_never_frees",
        breaks: "a key's place is free again when its record has expired",
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
        name: "listen_accepts_two_lengths",
        breaks: "a body has one length",
        caught_by: "binary_id(semel-server::it) & test(/^hostile::nothing_can_be_read/)",
    },
    Sabotage {
        name: "listen_heads_have_no_limit",
        breaks: "heads, addresses and headers are limited",
        caught_by: "binary_id(semel-server::it) & test(/^hostile::heads_/)",
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
        name: "proxy_hosts_share_keys",
        breaks: "two hosts behind one proxy are two services",
        caught_by: "binary_id(semel-server::it) & test(/^keyed::two_hosts/)",
    },
    Sabotage {
        name: "proxy_logs_query",
        breaks: "a query is never written to a log",
        caught_by: "binary_id(semel-server::it) & test(/^logs::no_secret/)",
    },
    Sabotage {
        name: "proxy_passes_ambiguous_answers",
        breaks: "an answer that can be read in two ways is not passed on",
        caught_by: "binary_id(semel-server::it) & test(/^answers::an_answer_that_can_be_read/)",
    },
    Sabotage {
        name: "proxy_passes_underscores",
        breaks: "what only the proxy may say is not said with an underscore either",
        caught_by: "binary_id(semel-server::it) & test(/^pass::what_belongs_to_a_connection/)",
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
        name: "proxy_waits_for_bodies",
        breaks: "a body that comes too slowly is not waited for",
        caught_by: "binary_id(semel-server::it) & test(/^hostile::a_body_that_comes_too_slowly/)",
    },
    Sabotage {
        name: "refused_result_is_unconfirmed",
        breaks: "a result that the store does not take never makes a call run again",
        caught_by: "binary_id(semel::it) & test(result::)",
    },
    Sabotage {
        name: "refused_holder_gives_up",
        breaks: "a holder whose write is refused for a while still finishes",
        caught_by: "binary_id(semel::it) & (test(/^lost::a_completion/) | test(/^heartbeat::a_renewal/))",
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
        name: "lambda_pool_is_one_caller",
        breaks: "a user of an identity pool has keys of its own",
        caught_by: "binary_id(semel::lambda) & test(/^api::users_of_an_identity_pool/)",
    },
    Sabotage {
        name: "lambda_fifo_goes_on",
        breaks: "a message is not run before one of its group that failed",
        caught_by: "binary_id(semel::lambda) & test(records::)",
    },
];
