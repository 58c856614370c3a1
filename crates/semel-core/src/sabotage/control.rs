//! Seeded bugs of what operators do: jobs, and functions that are added over the API.

use super::Sabotage;

pub(super) const ALL: &[Sabotage] = &[
    Sabotage {
        name: "left_out_and_still_needed",
        breaks: "a function that needs one that is left out is left out, too, and the server starts",
        caught_by: "package(semel-server) & test(/left_out/)",
    },
    Sabotage {
        name: "postgres_functions_added_unseen",
        breaks: "whether a function may be added is decided on what is written",
        caught_by: "package(semel-server) & test(/a_function_is_added_to_what_other_nodes_have_written/)",
    },
    Sabotage {
        name: "redriven_latest_first",
        breaks: "what is redriven keeps its order",
        caught_by: "package(semel-runtime) & test(engine::jobs::)",
    },
    Sabotage {
        name: "canary_may_fail_first",
        breaks: "a canary that took effect at its second attempt has failed",
        caught_by: "package(semel-runtime) & test(engine::jobs::)",
    },
    Sabotage {
        name: "rate_risen_after_its_canary",
        breaks: "the rate rises anew after a canary",
        caught_by: "package(semel-runtime) & test(engine::jobs::)",
    },
    Sabotage {
        name: "left_out_and_lost",
        breaks: "what comes for a function that is left out is kept",
        caught_by: "package(semel-server) & test(/left_out/)",
    },
    Sabotage {
        name: "book_reads_out_of_turn",
        breaks: "a function that is added while a node looks what others added stays",
        caught_by: "package(semel-server) & test(book::)",
    },
    Sabotage {
        name: "absent_functions_miss_events",
        breaks: "an event of a function that this node cannot read is not told to be kept",
        caught_by: "package(semel-server) & test(/cannot_be_read_here/)",
    },
    Sabotage {
        name: "errors_stopped_once",
        breaks: "what is in progress while errors are stopped is stopped when it fails",
        caught_by: "package(semel-runtime) & test(engine::jobs::)",
    },
    Sabotage {
        name: "errors_stopped_when_they_wait",
        breaks: "what is tried again at once after an error that somebody stops is stopped, too",
        caught_by: "package(semel-runtime) & test(engine::jobs::)",
    },
];
