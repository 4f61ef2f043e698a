//! The files of the page. They contain no data of a lab, so they need no token.

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;

/// A file of the page.
struct Asset {
    path: &'static str,
    kind: &'static str,
    text: &'static str,
}

const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";

const ASSETS: [Asset; 12] = [
    Asset {
        path: "/",
        kind: "text/html; charset=utf-8",
        text: include_str!("../assets/page.html"),
    },
    Asset { path: "/page.css", kind: CSS, text: include_str!("../assets/page.css") },
    Asset { path: "/xterm.css", kind: CSS, text: include_str!("../assets/xterm.css") },
    script("/connection.js", include_str!("../assets/connection.js")),
    script("/tools.js", include_str!("../assets/tools.js")),
    script("/charts.js", include_str!("../assets/charts.js")),
    script("/picture.js", include_str!("../assets/picture.js")),
    script("/links.js", include_str!("../assets/links.js")),
    script("/inside.js", include_str!("../assets/inside.js")),
    script("/page.js", include_str!("../assets/page.js")),
    script("/echarts.js", report::CHART_LIBRARY),
    script("/xterm.js", include_str!("../assets/xterm.js")),
];

const fn script(path: &'static str, text: &'static str) -> Asset {
    Asset { path, kind: JAVASCRIPT, text }
}

/// Whether a path is a file of the page.
pub(crate) fn is_asset(path: &str) -> bool {
    ASSETS.iter().any(|asset| asset.path == path)
}

/// Serves the files.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    ASSETS.iter().fold(Router::new(), |router, asset| {
        router.route(asset.path, get(move || async { ([(CONTENT_TYPE, asset.kind)], asset.text) }))
    })
}
