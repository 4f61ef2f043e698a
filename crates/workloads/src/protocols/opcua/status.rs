//! Maps open62541 status codes to failures.

use crate::exchange::failure::{Failure, Reason};
use open62541_sys::*;
use std::ffi::CStr;

/// open62541's name of a status, such as `BadNodeIdUnknown`.
pub(super) fn name(status: UA_StatusCode) -> String {
    // SAFETY: open62541 returns a static string for any code.
    let text = unsafe { CStr::from_ptr(UA_StatusCode_name(status)) };
    text.to_string_lossy().into_owned()
}

/// The failure of `operation`.
pub(super) fn failure(operation: &str, status: UA_StatusCode) -> Failure {
    let reason = match status {
        UA_STATUSCODE_BADTIMEOUT => Reason::Timeout,
        UA_STATUSCODE_BADCONNECTIONCLOSED
        | UA_STATUSCODE_BADSECURECHANNELCLOSED
        | UA_STATUSCODE_BADSESSIONCLOSED
        | UA_STATUSCODE_BADSERVERNOTCONNECTED
        | UA_STATUSCODE_BADNOTCONNECTED
        | UA_STATUSCODE_BADDISCONNECT
        | UA_STATUSCODE_BADSHUTDOWN
        | UA_STATUSCODE_BADSESSIONIDINVALID
        | UA_STATUSCODE_BADSECURECHANNELIDINVALID => Reason::Lost,
        UA_STATUSCODE_BADCERTIFICATEINVALID
        | UA_STATUSCODE_BADCERTIFICATETIMEINVALID
        | UA_STATUSCODE_BADCERTIFICATEISSUERTIMEINVALID
        | UA_STATUSCODE_BADCERTIFICATEHOSTNAMEINVALID
        | UA_STATUSCODE_BADCERTIFICATEURIINVALID
        | UA_STATUSCODE_BADCERTIFICATEUSENOTALLOWED
        | UA_STATUSCODE_BADCERTIFICATEUNTRUSTED
        | UA_STATUSCODE_BADCERTIFICATEREVOKED
        | UA_STATUSCODE_BADCERTIFICATECHAININCOMPLETE
        | UA_STATUSCODE_BADSECURITYCHECKSFAILED => Reason::Certificate,
        UA_STATUSCODE_BADTCPENDPOINTURLINVALID
        | UA_STATUSCODE_BADSECURITYPOLICYREJECTED
        | UA_STATUSCODE_BADSECURITYMODEREJECTED
        | UA_STATUSCODE_BADIDENTITYTOKENINVALID
        | UA_STATUSCODE_BADIDENTITYTOKENREJECTED
        | UA_STATUSCODE_BADUSERACCESSDENIED
        | UA_STATUSCODE_BADTOOMANYSESSIONS
        | UA_STATUSCODE_BADCONNECTIONREJECTED => Reason::Rejected,
        _ => Reason::Status,
    };
    Failure::of(reason, format!("{operation}: {}", name(status)))
}

/// Why no session opened, with the fix if known.
pub(super) fn unopened(status: UA_StatusCode) -> Failure {
    let mut failure = failure("open a session", status);
    if status == UA_STATUSCODE_BADIDENTITYTOKENREJECTED {
        failure.detail +=
            "; the server needs an endpoint without security and with anonymous access";
    }
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_have_kinds_and_names() {
        let of = |status| failure("read", status);
        assert_eq!(of(UA_STATUSCODE_BADSECURECHANNELCLOSED).reason, Reason::Lost);
        assert_eq!(of(UA_STATUSCODE_BADCERTIFICATEUNTRUSTED).reason, Reason::Certificate);
        assert_eq!(
            of(UA_STATUSCODE_BADNODEIDUNKNOWN).to_string(),
            "status: read: BadNodeIdUnknown"
        );
    }
}
