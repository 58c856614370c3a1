//! The one table: what can be asked for, where, and by whom.

use super::{
    executions, functions, jobs, overview,
    table::{Place, Route},
    views::Role::{Admin, Operator, Viewer},
};
use http::{Method, StatusCode};

/// Everything below `/v1`.
#[expect(clippy::too_many_lines, reason = "it is a table: a line for each thing that can be asked for")]
pub(crate) fn routes() -> Vec<Route> {
    let get = |role, path, name, summary| Place { method: Method::GET, path, role, name, summary };
    let post = |role, path, name, summary| Place { method: Method::POST, path, role, name, summary };
    let put = |role, path, name, summary| Place { method: Method::PUT, path, role, name, summary };
    let delete = |role, path, name, summary| Place { method: Method::DELETE, path, role, name, summary };
    vec![
        Route::new(
            get(Viewer, "/v1/server", "server", "Says what this server is, and who asks"),
            overview::server,
        ),
        Route::new(get(Viewer, "/v1/openapi.json", "openapi", "Describes this API"), overview::document),
        Route::new(
            get(Viewer, "/v1/functions", "listFunctions", "Lists the functions, and how they stand"),
            functions::list,
        ),
        Route::new(
            get(Viewer, "/v1/functions/{name}", "showFunction", "Shows how a function stands"),
            functions::show,
        ),
        Route::new(
            put(
                Admin,
                "/v1/functions/{name}",
                "putFunction",
                "Adds a function, or changes one that was added; the body has the keys of a section `[[function]]` of the file",
            ),
            functions::put,
        ),
        Route::new(
            delete(
                Admin,
                "/v1/functions/{name}",
                "removeFunction",
                "Removes a function that was added; what was accepted for it waits",
            ),
            functions::remove,
        ),
        Route::new(
            post(
                Operator,
                "/v1/functions/{name}/pause",
                "pauseFunction",
                "Starts nothing more of a function, on any node, until it is resumed",
            ),
            functions::pause,
        ),
        Route::new(
            post(Operator, "/v1/functions/{name}/resume", "resumeFunction", "Lets a paused function go on"),
            functions::resume,
        ),
        Route::new(
            post(
                Operator,
                "/v1/functions/{name}/drain",
                "drainFunction",
                "Pauses a function, and waits until nothing of it runs on any node, and nothing can start; with several nodes that takes 5 s",
            ),
            functions::drain,
        ),
        Route::new(
            get(Viewer, "/v1/executions", "listExecutions", "Lists executions, the latest accepted first"),
            executions::list,
        ),
        Route::new(
            get(Viewer, "/v1/executions/{id}", "showExecution", "Tells everything about an execution"),
            executions::show,
        ),
        Route::new(get(Viewer, "/v1/why", "why", "Tells what became of an event"), executions::why),
        Route::new(
            post(
                Operator,
                "/v1/executions/{id}/redrive",
                "redriveExecution",
                "Starts an execution again after it failed, with its own event or an edited one",
            ),
            executions::redrive,
        ),
        Route::new(
            post(Operator, "/v1/executions/{id}/cancel", "cancelExecution", "Ends an execution"),
            executions::cancel,
        ),
        Route::new(
            post(
                Operator,
                "/v1/executions/{id}/park",
                "parkExecution",
                "Lets an execution wait until it is unparked",
            ),
            executions::park,
        ),
        Route::new(
            post(Operator, "/v1/executions/{id}/unpark", "unparkExecution", "Lets a parked execution go on"),
            executions::unpark,
        ),
        Route::new(
            post(
                Operator,
                "/v1/executions/{id}/resolve",
                "resolveExecution",
                "Says what became of an execution that nobody could tell of",
            ),
            executions::resolve,
        ),
        Route::new(
            post(Operator, "/v1/bulk", "bulk", "Does something to many executions, in the background"),
            jobs::bulk,
        )
        .answered_with(StatusCode::ACCEPTED),
        Route::new(get(Viewer, "/v1/jobs", "listJobs", "Lists the jobs of all nodes"), jobs::list),
        Route::new(get(Viewer, "/v1/jobs/{number}", "showJob", "Shows how far a job is, on whichever node it runs"), jobs::show),
        Route::new(
            post(
                Operator,
                "/v1/jobs/{number}/abort",
                "abortJob",
                "Stops a job within a second, on whichever node it runs; what it has done stays done",
            ),
            jobs::abort,
        )
        .answered_with(StatusCode::ACCEPTED),
        Route::new(
            get(Viewer, "/v1/errors", "listErrors", "Lists what is wrong, by what went wrong"),
            overview::errors,
        ),
        Route::new(
            post(
                Operator,
                "/v1/errors/{print}/stop",
                "stopErrors",
                "Parks everything that waits after this error, and what fails with it meanwhile",
            ),
            jobs::stop_errors,
        )
        .answered_with(StatusCode::ACCEPTED),
        Route::new(
            get(Viewer, "/v1/audit", "audit", "Lists who changed what, the latest first"),
            overview::audit,
        ),
        Route::new(
            get(Viewer, "/v1/ledger", "ledger", "Shows what became of everything that was accepted"),
            overview::ledger,
        ),
        Route::new(
            post(
                Admin,
                "/v1/past/replay",
                "replayPast",
                "Delivers what the store has, after it was found to have forgotten something",
            ),
            jobs::replay_past,
        ),
        Route::new(
            post(
                Admin,
                "/v1/past/skip",
                "skipPast",
                "Cancels what the store has and did not finish, after it was found to have forgotten something; then goes on",
            ),
            jobs::skip_past,
        )
        .answered_with(StatusCode::ACCEPTED),
        Route::new(
            post(Admin, "/v1/purge", "purge", "Removes now what has outlived its retention"),
            overview::purge,
        ),
    ]
}
