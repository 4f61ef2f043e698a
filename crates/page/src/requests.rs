//! Requests of the page's script to the lab: those of the live commands, unchanged.

use crate::app::App;
use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header::CONTENT_TYPE};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{Stream, unfold};
use runner::{Reply, Request};
use std::convert::Infallible;
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};

/// Time between two states.
const PERIOD: Duration = Duration::from_secs(1);

/// Sends a request to the lab and returns its reply.
pub(crate) async fn request(State(app): State<App>, Json(request): Json<Request>) -> Response {
    // Its answer is a stream of frames and not one reply.
    if matches!(request, Request::Capture { .. }) {
        let why = "captures are for `thingbed capture`, which writes them to a file or a program\n";
        return (StatusCode::BAD_REQUEST, why).into_response();
    }
    let pid = app.lab;
    // The lab may take seconds to answer, and the server has one thread.
    let reply = spawn_blocking(move || runner::ask(pid, &request)).await;
    let text = match reply {
        Ok(Ok(reply)) => return Json(reply).into_response(),
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    };
    let why = format!("could not reach the lab: {text}; it may have just ended");
    (StatusCode::BAD_GATEWAY, Json(Reply::Refused(why))).into_response()
}

/// The state of the lab, every second.
pub(crate) async fn events(
    State(app): State<App>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let mut clock = interval(PERIOD);
    // After a slow answer, states are not sent in a row to catch up.
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let states = unfold((app, clock), async |(app, mut clock)| {
        clock.tick().await;
        let feed = app.feed.clone();
        let state = spawn_blocking(move || feed.snapshot()).await.ok()?;
        let event = Event::default().json_data(&*state).ok()?;
        Some((Ok(event), (app, clock)))
    });
    Sse::new(states).keep_alive(KeepAlive::default())
}

/// The state for Prometheus.
pub(crate) async fn metrics(State(app): State<App>) -> Response {
    let feed = app.feed.clone();
    let state = spawn_blocking(move || feed.snapshot()).await.unwrap_or_default();
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    ([(CONTENT_TYPE, kind)], crate::metrics::text(&state)).into_response()
}
