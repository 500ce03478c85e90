//! Prediction sets over HTTP: `cargo run -- predictor.json`, then
//! `curl -d '{"rows": [[0.1, 3.5, -1.0, 2.0]]}' -H 'content-type: application/json' localhost:8080/v1/predict`.
//!
//! The predictor is read and checked before the port is opened, shared by all threads and never changed.
//! A row takes microseconds, so rows are computed where the request is, with working space that the
//! thread keeps; there is no pool to wait for.

use std::cell::RefCell;
use std::sync::Arc;

use axum::extract::rejection::JsonRejection;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tightset::{Predictor, Scratch};

const MAX_BODY: usize = 4 << 20;
const MAX_ROWS: usize = 1024;

thread_local! {
    static SCRATCH: RefCell<Scratch<f32>> = RefCell::new(Scratch::new());
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    rows: Vec<Vec<f32>>,
}

#[derive(Serialize)]
struct Sets {
    /// Labels of each row, the most probable first.
    sets: Vec<Vec<u32>>,
    /// Their names, if the predictor has names.
    #[serde(skip_serializing_if = "Option::is_none")]
    names: Option<Vec<Vec<String>>>,
    coverage: f64,
}

#[derive(Serialize)]
struct Refusal {
    error: String,
}

type Refused = (StatusCode, Json<Refusal>);

fn refuse(status: StatusCode, error: impl ToString) -> Refused {
    (status, Json(Refusal { error: error.to_string() }))
}

async fn predict(
    State(predictor): State<Arc<Predictor>>,
    request: Result<Json<Request>, JsonRejection>,
) -> Result<Json<Sets>, Refused> {
    let Json(Request { rows }) = request.map_err(|error| refuse(error.status(), error.body_text()))?;
    if rows.len() > MAX_ROWS {
        return Err(refuse(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("more than {MAX_ROWS} rows: {}", rows.len()),
        ));
    }
    let sets = SCRATCH.with_borrow_mut(|scratch| {
        let set = |(i, row): (usize, &Vec<f32>)| match predictor.predict_row(row, scratch) {
            Ok(labels) => Ok(labels.to_vec()),
            Err(error) => Err(refuse(StatusCode::UNPROCESSABLE_ENTITY, format!("rows[{i}]: {error}"))),
        };
        rows.iter().enumerate().map(set).collect::<Result<Vec<_>, _>>()
    })?;
    let name = |names: &[String], set: &[u32]| set.iter().map(|&y| names[y as usize].clone()).collect();
    let names = predictor.label_names().map(|names| sets.iter().map(|set| name(names, set)).collect());
    Ok(Json(Sets { sets, names, coverage: 1.0 - predictor.alpha() }))
}

fn app(predictor: Predictor) -> Router {
    Router::new()
        .route("/v1/predict", post(predict))
        .route("/health/ready", get(|| async { "ready" }))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(Arc::new(predictor))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: axum-service predictor.json [address]")?;
    let address = std::env::args().nth(2).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let predictor = Predictor::from_json(&std::fs::read_to_string(&path)?)?;
    if predictor.uses_row_ids() {
        return Err("this service has no row ids to give".into());
    }
    let listener = tokio::net::TcpListener::bind(&address).await?;
    let stop = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    axum::serve(listener, app(predictor)).with_graceful_shutdown(stop).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use axum::http::Request as HttpRequest;
    use http_body_util::BodyExt;
    use serde_json::Value;
    use tower::ServiceExt;

    async fn post(body: String) -> (StatusCode, Value) {
        let text = include_str!("../../../tests/fixtures/v1/raps-with-names.json");
        let app = app(Predictor::from_json(text).unwrap());
        let request = HttpRequest::post("/v1/predict").header("content-type", "application/json");
        let reply = app.oneshot(request.body(Body::from(body)).unwrap()).await.unwrap();
        let status = reply.status();
        let body = reply.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap())
    }

    #[tokio::test]
    async fn rows_become_sets() {
        let (status, reply) = post(r#"{"rows": [[0.5, 9.0, -3.0], [9.0, 0.0, 0.0]]}"#.to_owned()).await;
        assert_eq!(status, StatusCode::OK);
        assert_eq!(reply["sets"][0][0], 1);
        assert_eq!(reply["names"][1][0], "cat");
        assert_eq!(reply["coverage"], 0.7);
    }

    #[tokio::test]
    async fn what_is_no_row_is_refused() {
        for (body, status, error) in [
            (r#"{"rows": [[0.5, 9.0]]}"#.to_owned(), 422, "rows[0]: logits must have 3 labels"),
            (r#"{"rows": [[0.5, 9.0, null]]}"#.to_owned(), 422, "rows"),
            (
                r#"{"rows": [[0.5, 9.0, 1e99]]}"#.to_owned(),
                422,
                "rows[0]: logits must not contain NaN or +inf",
            ),
            (r#"{"lines": []}"#.to_owned(), 422, "unknown field"),
            ("{".to_owned(), 400, "JSON"),
            (format!(r#"{{"rows": [[0.0]{}]}}"#, ",[0.0]".repeat(1024)), 413, "more than 1024 rows: 1025"),
            (format!(r#"{{"rows": [[{}]]}}"#, " ".repeat(MAX_BODY)), 413, ""),
        ] {
            let (found, reply) = post(body).await;
            assert_eq!(found.as_u16(), status);
            assert!(reply["error"].as_str().unwrap().contains(error), "{reply}");
        }
    }
}
