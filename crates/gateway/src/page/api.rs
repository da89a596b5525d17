//! Routes of the owner's page, and their description at `/openapi.json`.

use super::{Page, codes, history, limits, manage};
use crate::openapi;
use axum::response::Response;
use std::sync::{Arc, LazyLock};
use utoipa::openapi::OpenApi as Document;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, SecurityScheme};
use utoipa::{Modify, OpenApi};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The description of the whole interface.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "The owner's page of a Leeway gateway",
        description = "Forms and pages for the owner's browser. Programs on the gateway's machine ask its control \
                       socket instead, which answers in JSON."
    ),
    modifiers(&Session)
)]
struct Api;

/// The cookie of a session.
struct Session;

impl Modify for Session {
    fn modify(&self, document: &mut Document) {
        let cookie = SecurityScheme::ApiKey(ApiKey::Cookie(ApiKeyValue::new("leeway_session")));
        document.components.get_or_insert_default().add_security_scheme("session", cookie);
    }
}

/// All routes. A route is added together with its description, so each has one.
pub fn routes() -> OpenApiRouter<Arc<Page>> {
    OpenApiRouter::with_openapi(Api::openapi())
        .routes(routes!(super::home))
        .routes(routes!(super::login, super::enter))
        .routes(routes!(super::leave))
        .routes(routes!(super::language))
        .routes(routes!(super::pause))
        .routes(routes!(super::resume))
        .routes(routes!(manage::reload))
        .routes(routes!(history::history))
        .routes(routes!(manage::revoke))
        .routes(routes!(limits::limits))
        .routes(routes!(codes::invite))
        .routes(routes!(codes::vouchers))
        .routes(routes!(super::events))
        .routes(routes!(super::session))
        .routes(routes!(super::asset))
        .routes(routes!(description))
}

/// This description of the page, as OpenAPI 3.1.
#[utoipa::path(
    get,
    path = "/openapi.json",
    responses((status = 200, description = "the description")),
)]
async fn description() -> Response {
    static TEXT: LazyLock<String> = LazyLock::new(|| openapi::json(routes().get_openapi()));
    openapi::answer(&TEXT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use oas3::spec::{ObjectOrReference, Schema};

    #[test]
    fn every_route_is_described_and_nothing_else() {
        let expected = [
            "GET /",
            "GET /assets/{name}",
            "GET /events",
            "GET /history",
            "GET /login",
            "GET /openapi.json",
            "GET /session",
            "POST /invite",
            "POST /language",
            "POST /limits",
            "POST /login",
            "POST /logout",
            "POST /pause",
            "POST /reload",
            "POST /resume",
            "POST /revoke",
            "POST /vouchers",
        ];
        let document = openapi::read(routes().get_openapi(), &expected);
        for (path, method, operation) in document.operations() {
            let at = format!("{method} {path}");
            assert!(!operation.responses(&document).is_empty(), "{at}");
            // Each form is described by its fields, and each name of a schema can be resolved.
            if method == "POST" {
                let body = operation.request_body(&document).unwrap().expect("a form");
                let form = &body.content["application/x-www-form-urlencoded"];
                let Some(Schema::Object(schema)) = form.schema(&document).unwrap() else { panic!("{at}") };
                let ObjectOrReference::Object(schema) = *schema else { panic!("{at}") };
                assert!(!schema.properties.is_empty(), "{at}");
            }
        }
    }
}
