//! Whether commands of nodes can add interfaces of VLANs.

use super::finding::{Finding, Grade};
use std::fs;

/// Checks that this machine's kernel has interfaces of VLANs.
pub(super) fn interfaces() -> Finding {
    let what = "VLAN interfaces";
    let has = lab::has_vlan_interfaces().map(|has| (has, "asked the kernel"));
    // A user may not ask, but the kernel loads the module when a node of the user needs it.
    let (has, how) =
        has.unwrap_or_else(|| (is_built(), "the module 8021q is loaded, built in or installed"));
    match has {
        true => Finding::good(what, format!("`ip link add ... type vlan` works ({how})")),
        false => Finding::bad(
            what,
            Grade::Lacking,
            "the kernel has no VLAN interfaces (module 8021q)",
            "commands of nodes cannot use `ip link add ... type vlan`; `vlans` and `vlan` of networks \
             need no such kernel",
            "as root: modprobe 8021q, on a kernel with CONFIG_VLAN_8021Q; or --clock virtual",
        ),
    }
}

/// Whether the module is loaded, built in or installed.
fn is_built() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.trim();
    let lists = |list: &str| {
        let text = fs::read_to_string(format!("/lib/modules/{release}/{list}"));
        text.is_ok_and(|text| text.contains("/8021q.ko"))
    };
    fs::exists("/proc/net/vlan").unwrap_or(false)
        || lists("modules.builtin")
        || lists("modules.dep")
}
