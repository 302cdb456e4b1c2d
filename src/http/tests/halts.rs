//! The page that halts: only a login that cannot run, from the tab where it was opened.

use super::TestApp;
use super::ui::{OWN, cookie, token};
use crate::auth::Role;

const PROOF: &str = "5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a";

async fn log_in(app: &TestApp, key: &str) -> String {
    let answer = app.form("/ui/login", OWN, &format!("key={key}&proof={PROOF}")).await;
    assert_eq!(answer.status, 303, "{answer:?}");
    cookie(&answer)
}

#[tokio::test]
async fn only_a_login_that_cannot_run_halts_and_lifts() {
    let app = TestApp::start_whole().await;
    let gate = app.app.agent.gate().clone();
    let halt = |token: &str, proof: &str| {
        format!("token={token}&proof={proof}&scope=all&reason=incident+7&what=halt")
    };
    for (role, page, why) in [
        (Role::Admin, 200, "a key that may run cannot halt"),
        (Role::Operator, 200, "does not have the power `halt`"),
        (Role::Viewer, 200, "does not have the power `halt`"),
    ] {
        let login = log_in(&app, &app.key(role).await).await;
        let shown = app.page("/ui/halts", &login).await;
        assert_eq!(shown.status, page, "{shown:?}");
        let fields = halt(&token(&shown), PROOF);
        let refused = app.form("/ui/halts", &format!("{login}{OWN}"), &fields).await;
        assert_eq!(refused.status, 403, "{refused:?}");
        assert!(refused.body.contains(why), "{}", refused.body);
        assert!(gate.stops().is_empty(), "{role:?}");
    }
    let login = log_in(&app, &app.key(Role::Approver).await).await;
    let own = token(&app.page("/ui/halts", &login).await);
    for (more, fields) in [
        (OWN, halt("other", PROOF)),
        (OWN, halt(&own, &"a5".repeat(32))),
        (OWN, halt(&own, "")),
        ("Sec-Fetch-Site: cross-site\r\n", halt(&own, PROOF)),
    ] {
        let refused = app.form("/ui/halts", &format!("{login}{more}"), &fields).await;
        assert_eq!(refused.status, 403, "{refused:?}");
        assert!(gate.stops().is_empty(), "{fields}");
    }
    let done = app.form("/ui/halts", &format!("{login}{OWN}"), &halt(&own, PROOF)).await;
    assert_eq!((done.status, done.header("location")), (303, Some("/ui/halts")), "{done:?}");
    let stops = gate.stops();
    assert_eq!((stops.len(), stops[0].reason.as_str()), (1, "incident 7"));
    let shown = app.page("/ui/halts", &login).await;
    assert!(shown.body.contains("incident 7"), "{}", shown.body);
    let operator = app.home.key("asker", Role::Operator).await.0.expose().to_owned();
    let refused = app.run(&operator, b"{\"message\": \"hello\"}").await;
    assert_eq!(refused.status, 409, "{refused:?}");
    let lift = format!("token={own}&proof={PROOF}&halt={}&what=lift", stops[0].seq);
    let lifted = app.form("/ui/halts/lift", &format!("{login}{OWN}"), &lift).await;
    assert_eq!(lifted.status, 303, "{lifted:?}");
    assert!(gate.stops().is_empty());
    app.stop().await;
}
