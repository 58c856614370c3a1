//! Seeded bugs of the runtime: events, queues, the engine, deliveries and the server.

use super::Sabotage;

pub(super) const ALL: &[Sabotage] = &[
    Sabotage {
        name: "acknowledged_before_durable",
        breaks: "a sender is told what is durable",
        caught_by: "package(semel-runtime) & test(sim::few_seeds)",
    },
    Sabotage {
        name: "admission_unhalved",
        breaks: "fewer wait for a queue that is slow",
        caught_by: "package(semel-runtime) & test(/a_slow_queue_is_waited_for_by_fewer/)",
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
        name: "cut_short_to_the_end",
        breaks: "a delay that is cut short leaves time to claim the attempt",
        caught_by: "package(semel-core) & test(retry::)",
    },
    Sabotage {
        name: "interrupted_again_at_once",
        breaks: "what may still be at work is not called again, however short the delays are",
        caught_by: "package(semel-runtime) & (test(sim::few_seeds) | test(engine::stop::))",
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
        name: "own_write_counted_again",
        breaks: "a write whose answer was lost is recognised, also if its event came again meanwhile",
        caught_by: "package(semel-runtime) & test(engine::lost::)",
    },
    Sabotage {
        name: "stop_is_tried_once",
        breaks: "a function that wants no more events is paused, also if that cannot be written at first",
        caught_by: "package(semel-runtime) & test(engine::control::)",
    },
    Sabotage {
        name: "lost_claim_forgotten",
        breaks: "a claim whose answer was lost is found by its holder",
        caught_by: "package(semel-runtime) & test(engine::lost::)",
    },
    Sabotage {
        name: "hint_ignored",
        breaks: "what another node left is looked for when it says so",
        caught_by: "package(semel-runtime) & test(engine::crowd::)",
    },
    Sabotage {
        name: "panic_not_caught",
        breaks: "a panic is a failed attempt or an answer that was lost, and nobody else's",
        caught_by: "package(semel-runtime) & test(/engine::(here|lost)::/)",
    },
    Sabotage {
        name: "stopped_without_handing_back",
        breaks: "what a stopped runtime does not finish is handed back",
        caught_by: "package(semel-runtime) & test(engine::stop::)",
    },
    Sabotage {
        name: "unsent_counts_as_an_attempt",
        breaks: "a call that was not sent when the runtime stopped is handed back",
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
        name: "repeats_told_when_written",
        breaks: "how often an event came again is told while it runs",
        caught_by: "package(semel-server) & test(/how_often_an_event_came_again/)",
    },
    Sabotage {
        name: "breaker_never_heals",
        breaks: "a target that is back is found again",
        caught_by: "package(semel-runtime) & test(engine::gate::)",
    },
    Sabotage {
        name: "fresh_starved",
        breaks: "a backlog leaves half of the places to fresh events",
        caught_by: "package(semel-runtime) & test(engine::shares::)",
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
        name: "queue_accepts_before_sync",
        breaks: "an event is acknowledged only when it is durable",
        caught_by: "package(semel-embedded) & test(power_cut::queue)",
    },
    Sabotage {
        name: "queue_keeps_no_books_when_full",
        breaks: "what operators do on a full disk is done, and on record",
        caught_by: "package(semel-embedded) & test(queue::room::the_runtimes_own_books)",
    },
    Sabotage {
        name: "queue_duplicate_unsynced",
        breaks: "a duplicate is told only what is durable",
        caught_by: "package(semel-embedded) & test(power_cut::queue)",
    },
    Sabotage {
        name: "queue_claim_unsynced",
        breaks: "an attempt that was handed out is counted, though the power fails",
        caught_by: "package(semel-embedded) & test(power_cut::queue)",
    },
    Sabotage {
        name: "queue_causes_apart",
        breaks: "a change and what it causes are there together or not at all",
        caught_by: "package(semel-embedded) & test(power_cut::queue)",
    },
    Sabotage {
        name: "queue_counters_lost_at_roll",
        breaks: "the counters come back with the executions",
        caught_by: "package(semel-embedded) & test(power_cut::queue)",
    },
    Sabotage {
        name: "queue_purge_not_written",
        breaks: "what was purged stays purged",
        caught_by: "package(semel-embedded) & test(power_cut::queue)",
    },
    Sabotage {
        name: "queue_purge_counts_twice",
        breaks: "what comes again while what expired is counted is counted once",
        caught_by: "package(semel-embedded) & test(queue::purge)",
    },
    Sabotage {
        name: "queue_purged_are_found",
        breaks: "what is written down as gone is found by nobody",
        caught_by: "package(semel-embedded) & test(queue::purge)",
    },
    Sabotage {
        name: "queue_purge_keeps_the_journal",
        breaks: "counting what expires does not keep the journal from being moved",
        caught_by: "package(semel-embedded) & test(queue::purge)",
    },
    Sabotage {
        name: "queue_order_head_ignored",
        breaks: "only the head of an order is handed out",
        caught_by: "package(semel-embedded) & test(queue::rules)",
    },
    Sabotage {
        name: "queue_write_unfenced",
        breaks: "only the current fence writes to an execution",
        caught_by: "package(semel-embedded) & test(queue::rules)",
    },
    Sabotage {
        name: "postgres_queue_claims_what_is_locked",
        breaks: "two nodes are never handed the same execution",
        caught_by: "binary_id(semel-runtime::it) & test(/^queue::postgres::crowds::batches/)",
    },
    Sabotage {
        name: "postgres_queue_writes_unfenced",
        breaks: "only the current fence writes to an execution, on PostgreSQL",
        caught_by: "binary_id(semel-runtime::it) & test(/^queue::postgres::long_walks/)",
    },
    Sabotage {
        name: "postgres_queue_forgets_the_replaced",
        breaks: "what was accepted is somewhere, also when an expired one made way for it",
        caught_by: "binary_id(semel-runtime::it) & test(/^queue::postgres::long_walks/)",
    },
    Sabotage {
        name: "postgres_queue_leaves_two_in_front",
        breaks: "a redriven execution takes its old place in its line",
        caught_by: "binary_id(semel-runtime::it) & test(/^queue::postgres::postgres_keeps_every_rule/)",
    },
    Sabotage {
        name: "postgres_queue_guesses",
        breaks: "a write whose answer was lost is asked for again, and recognised",
        caught_by: "binary_id(semel-runtime::it) & test(/^queue::postgres::broken_line::a_reply/)",
    },
    Sabotage {
        name: "postgres_queue_ignores_epochs",
        breaks: "a database that forgot what it acknowledged is noticed",
        caught_by: "binary_id(semel-runtime::it) & test(/^queue::postgres::past::/)",
    },
    Sabotage {
        name: "postgres_queue_ignores_its_place",
        breaks: "tables that were restored from a dump are noticed by nodes that remember nothing",
        caught_by: "binary_id(semel-runtime::it) & test(/^queue::postgres::past::/)",
    },
    Sabotage {
        name: "postgres_past_keeps_its_fences",
        breaks: "what is handed out after a restore has newer fences than what was before",
        caught_by: "binary_id(semel-runtime::it) & test(/^queue::postgres::past::every_fence/)",
    },
    Sabotage {
        name: "postgres_queue_waits_for_the_frozen",
        breaks: "a node that stands still in a transaction is not waited for",
        caught_by: "binary_id(semel-runtime::it) & test(/^queue::postgres::frozen::/)",
    },
    Sabotage {
        name: "postgres_lists_take_all_connections",
        breaks: "slow lists keep nobody's outcome from being written",
        caught_by: "binary_id(semel-runtime::it) & test(/^queue::postgres::lists::/)",
    },
    Sabotage {
        name: "postgres_past_is_not_skipped",
        breaks: "what a backup brought back is not delivered if somebody said to skip it",
        caught_by: "binary_id(semel-server::it) & test(/^api::postgres::/)",
    },
    Sabotage {
        name: "turns_not_taken",
        breaks: "no function is called by more at once than its concurrency says, however many are held",
        caught_by: "package(semel-runtime) & test(engine::crowd::)",
    },
    Sabotage {
        name: "pause_misses_what_was_claimed",
        breaks: "a function that was paused starts nothing, not even what was handed out for it before",
        caught_by: "package(semel-runtime) & test(engine::control::)",
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
        name: "events_composite_flattened",
        breaks: "no two lists of values that name an event are one",
        caught_by: "binary_id(semel-events::it) & test(/^expression::/)",
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
        name: "proxies_unguarded",
        breaks: "the guard stands before a proxy, too",
        caught_by: "binary_id(semel-runtime::it) & test(/^zoo::proxied::/)",
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
        name: "unused_connections_are_kept",
        breaks: "a connection that nobody uses is given up in time",
        caught_by: "binary_id(semel-runtime::it) & test(/^zoo::pool::/)",
    },
    Sabotage {
        name: "connections_are_taken_unseen",
        breaks: "a connection that its target has closed is not used again",
        caught_by: "binary_id(semel-runtime::it) & test(/^zoo::pool::/)",
    },
    Sabotage {
        name: "unread_requests_keep_their_connections",
        breaks: "a connection whose request is not read to its end is given up in time",
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
        name: "stopping_starts_calls",
        breaks: "who is told to stop begins no more calls",
        caught_by: "binary_id(semel-server::it) & test(/^serve::stop::/)",
    },
    Sabotage {
        name: "decompressed_bytes_are_free",
        breaks: "what a compressed body may become takes room before it does",
        caught_by: "package(semel-server) & test(/^ingest::plain::/)",
    },
    Sabotage {
        name: "one_sender_takes_all_memory",
        breaks: "one address has half of the memory for requests at most",
        caught_by: "binary_id(semel-server::it) & test(/^serve::hostile::/)",
    },
    Sabotage {
        name: "crashes_are_forgotten",
        breaks: "a server that crashes again and again holds less each time",
        caught_by: "package(semel-server) & test(/^serve::crashes::/)",
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
        name: "answers_run_in_browsers",
        breaks: "nothing that a sender or a function says runs in a browser",
        caught_by: "binary_id(semel-server::it) & test(/^markup::markup_is_given_back/)",
    },
    Sabotage {
        name: "api_guesses_by_connection",
        breaks: "behind a proxy, who guesses tokens keeps nobody else out",
        caught_by: "binary_id(semel-server) & test(/api::door::tests::behind_a_proxy/)",
    },
    Sabotage {
        name: "api_edits_identity",
        breaks: "an edited event is still the event that its execution is of",
        caught_by: "binary_id(semel-server::it) & test(/^api::flows::what_names_an_event/)",
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
    Sabotage {
        name: "job_changes_unaudited",
        breaks: "whatever a job changes is in the audit log by itself",
        caught_by: "package(semel-runtime) & test(engine::jobs::)",
    },
    Sabotage {
        name: "abort_asks_the_own_node_only",
        breaks: "a job is aborted on whichever node it runs",
        caught_by: "package(semel-runtime) & test(engine::jobs::)",
    },
    Sabotage {
        name: "drain_answers_at_once",
        breaks: "a function is drained when every node knows that it is paused, and not before",
        caught_by: "package(semel-runtime) & test(engine::drain::)",
    },
    Sabotage {
        name: "stale_nodes_start",
        breaks: "a node that cannot read what is paused starts nothing",
        caught_by: "package(semel-runtime) & test(engine::drain::)",
    },
    Sabotage {
        name: "sync_answers_before_the_end",
        breaks: "a sender that waits is told what took effect, when it has",
        caught_by: "package(semel-runtime) & test(sim::few_seeds)",
    },
    Sabotage {
        name: "sync_lost_is_running",
        breaks: "what somebody only counted meanwhile is not told to be running",
        caught_by: "package(semel-runtime) & test(engine::called::)",
    },
    Sabotage {
        name: "sync_runs_what_it_lost",
        breaks: "a sender's own retry starts nothing that somebody else has",
        caught_by: "package(semel-runtime) & test(sim::few_seeds)",
    },
    Sabotage {
        name: "embedded_reserve_for_everybody",
        breaks: "the reserve of a full disk is for what was accepted",
        caught_by: "package(semel-embedded) & test(/queue::room::/)",
    },
    Sabotage {
        name: "embedded_begins_without_room",
        breaks: "nothing is handed out whose end could not be written",
        caught_by: "package(semel-embedded) & test(/queue::room::/)",
    },
    Sabotage {
        name: "embedded_leavings_kept",
        breaks: "what could not be finished for want of room does not take it",
        caught_by: "package(semel-embedded) & test(/queue::room::/)",
    },
    Sabotage {
        name: "events_sns_any_certificate",
        breaks: "a certificate of SNS leads to a root where it can, is valid now, and issued nobody, itself included",
        caught_by: "package(semel-events) & test(/sns_signature::/)",
    },
    Sabotage {
        name: "ingest_one_url_blocks_another",
        breaks: "a certificate that cannot be fetched keeps no other from being fetched",
        caught_by: "package(semel-server) & test(/^ingest::certificates::/)",
    },
    Sabotage {
        name: "exhaustion_counts_as_an_attempt",
        breaks: "what this machine had nothing left to send with was no attempt",
        caught_by: "package(semel-runtime) & test(/^engine::delivery::what_this_machine/)",
    },
    Sabotage {
        name: "metrics_for_everybody",
        breaks: "who asks for metrics shows who they are, as for the rest of the admin API",
        caught_by: "binary_id(semel-server::it) & test(/^api::door::metrics_are/)",
    },
    Sabotage {
        name: "events_sns_believes_what_is_not_signed",
        breaks: "of what SNS signed, nothing else is believed: no raw delivery, and no attributes of a message",
        caught_by: "package(semel-events) & test(/^aws::where_sns_signed/)",
    },
    Sabotage {
        name: "events_sns_takes_raw_delivery",
        breaks: "what says that nobody signed it is not taken for signed",
        caught_by: "package(semel-events) & test(/^sns_signature::what_is_of_raw/)",
    },
    Sabotage {
        name: "ingest_believes_headers_that_nobody_signed",
        breaks: "where the body is signed, headers make no other event of it",
        caught_by: "binary_id(semel-server::it) & test(/^serve::sources::(github|stripe)/)",
    },
    Sabotage {
        name: "ingest_unconfirmed_is_refused",
        breaks: "a subscription that could not be confirmed is asked for again",
        caught_by: "binary_id(semel-server::it) & test(/^serve::sns::a_subscription_that/)",
    },
    Sabotage {
        name: "fresh_without_tokens",
        breaks: "a backlog leaves half of the rate to fresh events",
        caught_by: "package(semel-runtime) & test(engine::shares::)",
    },
    Sabotage {
        name: "fresh_without_budget",
        breaks: "a backlog leaves half of what the node has room for to fresh events",
        caught_by: "package(semel-runtime) & test(engine::shares::)",
    },
    Sabotage {
        name: "fresh_without_memory",
        breaks: "a backlog leaves half of the memory to fresh events",
        caught_by: "package(semel-runtime) & test(engine::shares::)",
    },
    Sabotage {
        name: "rate_bursts",
        breaks: "no window of one period sees more than the rate",
        caught_by: "package(semel-runtime) & test(engine::gate::bucket::)",
    },
    Sabotage {
        name: "breaker_outlives_its_target",
        breaks: "a function that is aimed at a mended target is called at once",
        caught_by: "package(semel-runtime) & test(engine::reload::)",
    },
    Sabotage {
        name: "chance_without_seed",
        breaks: "a simulation is the same every time",
        caught_by: "package(semel-runtime) & test(sim::the_same_seed_gives_the_same_trace)",
    },
];
