//! Compiles the C part of the CoAP bindings with the header of libcoap that is installed.

fn main() {
    let shim = "src/protocols/coap/shim.c";
    println!("cargo::rerun-if-changed={shim}");
    println!("cargo::rerun-if-changed=/usr/include/coap3/coap.h");
    let compiled = cc::Build::new().file(shim).std("c11").warnings(true).try_compile("coap_shim");
    if let Err(error) = compiled {
        println!(
            "cargo::error=libcoap's header (coap3/coap.h) is missing, or differs from what \
             {shim} expects: the lines above say how. Needed is libcoap 4.3.1 to 4.3.5; \
             scripts/dependencies.sh installs it. ({error})"
        );
    }
}
