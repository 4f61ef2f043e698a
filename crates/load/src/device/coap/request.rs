//! Handles a CoAP request: rejects it, collects its blocks, or queues it for service.

use super::CoapServer;
use super::pending::{Content, PendingRequest, Shape};
use super::reset;
use super::transfers::{BlockResult, Transfers};
use crate::coap::{
    self, BAD_OPTION, BAD_REQUEST, BadOption, CONTENT, CONTINUE, INCOMPLETE, Kind, Message,
    NO_PROXY, NOT_ACCEPTABLE, NOT_ALLOWED, NOT_FOUND, PRECONDITION_FAILED, RequestOptions,
    TOO_LARGE, UNAVAILABLE,
};
use crate::device::queue::Job;
use crate::socket::{Address, Batch};
use std::sync::atomic::Ordering::Relaxed;

/// Content formats (RFC 7252, section 12.3): text, and link format.
const TEXT: u32 = 0;
const LINKS: u32 = 40;
/// The highest known method code: GET to iPATCH.
const METHODS: u8 = 7;

impl CoapServer<'_> {
    /// Handles a request that is not a duplicate.
    pub(super) fn request(
        &self,
        message: &Message,
        from: &Address,
        transfers: &mut Transfers,
        path: &mut Vec<u8>,
        out: &mut Batch,
    ) {
        let (resource_server, counts) = (self.resource_server, &self.resource_server.counts);
        let mut pending = PendingRequest::new(message, from, 0, Shape::default());
        let mut refuse = |pending: &PendingRequest, code, diagnostic| {
            self.answer(pending, code, Content::Diagnostic(diagnostic), out);
        };
        let options = match RequestOptions::read(message, path, &resource_server.etag) {
            Ok(options) => options,
            Err(BadOption(_)) if message.kind == Kind::Confirmable => {
                counts.bad_options.fetch_add(1, Relaxed);
                return refuse(&pending, BAD_OPTION, "a critical option is not understood");
            }
            // A non-confirmable one is rejected (section 5.4.1).
            Err(BadOption(_)) => {
                counts.bad_options.fetch_add(1, Relaxed);
                return reset(Some(message.id), from, out);
            }
        };
        if options.is_proxied {
            return refuse(&pending, NO_PROXY, "no proxy");
        }
        if message.code > METHODS {
            return refuse(&pending, NOT_ALLOWED, "an unknown method");
        }
        // A configured resource of this path has priority; `usize::MAX` marks the list.
        let list = path == b".well-known/core";
        let Some(resource) = resource_server.find(path).or(list.then_some(usize::MAX)) else {
            counts.unknown.fetch_add(1, Relaxed);
            return refuse(&pending, NOT_FOUND, "no such resource");
        };
        pending.resource = resource;
        let list = resource == usize::MAX;
        if list && message.code != 1 {
            return refuse(&pending, NOT_ALLOWED, "links can only be read");
        }
        let format = if list { LINKS } else { TEXT };
        if options.accept.is_some_and(|accept| accept != format) {
            return refuse(&pending, NOT_ACCEPTABLE, "not in that format");
        }
        // Conditions only apply to changes (section 5.10.8).
        let changes = !matches!(message.code, 1 | 5);
        if changes && (options.if_match == Some(false) || options.if_none_match) {
            return refuse(&pending, PRECONDITION_FAILED, "the condition does not hold");
        }
        pending.shape = Shape {
            block1: None,
            // In a request, the flag has no meaning for Block2 (RFC 7959, 2.2).
            block2: options.block2.map(|block| coap::Block { more: false, ..block }),
            observe: None,
            format: (list || options.accept.is_some()).then_some(format),
            size2: options.wants_size2,
        };
        if let Some(block) = options.block1 {
            let Some(peer) = from.get() else { return };
            let (carried, now) = (message.payload.len(), clock::now());
            let result = transfers.take(
                peer,
                coap::transfer_key(message),
                block,
                carried,
                options.size1,
                now,
            );
            pending.shape.block1 = Some(coap::Block { more: false, ..block });
            counts.blocks.fetch_add(1, Relaxed);
            match result {
                BlockResult::Complete(body) => self.body(body),
                BlockResult::Continue => {
                    pending.shape.block1 = Some(block);
                    return self.answer(&pending, CONTINUE, Content::None, out);
                }
                BlockResult::Incomplete => {
                    return refuse(&pending, INCOMPLETE, "a block before is missing");
                }
                BlockResult::TooLarge => {
                    return refuse(&pending, TOO_LARGE, "1048576 B at most");
                }
                BlockResult::Bad => {
                    return refuse(&pending, BAD_REQUEST, "a block of another size");
                }
            }
        } else {
            self.body(message.payload.len());
        }
        let further = options.block2.is_some_and(|block| block.number > 0);
        counts.blocks.fetch_add(u64::from(further), Relaxed);
        if list {
            return self.links(&pending, out);
        }
        // Further blocks of an answer take no service time.
        if further {
            if !pending.is_within(resource_server.payload.len()) {
                return refuse(&pending, BAD_REQUEST, "no such block");
            }
            let content = Content::Representation(&resource_server.payload, &resource_server.etag);
            return self.answer(&pending, pending.success_code(), content, out);
        }
        // Before the service: a change in the meantime already notifies the observer.
        self.observe(&mut pending, options.observe);
        if resource_server.at_once(resource) {
            return self.reply(&pending, out);
        }
        if self.queue.push(Job::Coap(Box::new(pending))) {
            self.acknowledge_later(&pending);
        } else {
            counts.refused.fetch_add(1, Relaxed);
            self.end_observation(&pending);
            let diagnostic = Content::Diagnostic("too many requests wait");
            self.answer(&pending, UNAVAILABLE, diagnostic, out);
        }
    }

    fn body(&self, length: usize) {
        if length > 0 {
            self.resource_server.counts.body_bytes.fetch_add(length as u64, Relaxed);
        }
    }

    /// Answers with the list of resources (RFC 6690).
    fn links(&self, pending: &PendingRequest, out: &mut Batch) {
        let obs = if self.notify.is_some() { ";obs" } else { "" };
        let links: Vec<_> =
            self.resource_server.paths().map(|path| format!("</{path}>{obs}")).collect();
        let links = links.join(",").into_bytes();
        if !pending.is_within(links.len()) {
            return self.answer(pending, BAD_REQUEST, Content::Diagnostic("no such block"), out);
        }
        // The list never changes, so its entity tag is constant.
        self.answer(pending, CONTENT, Content::Representation(&links, b"links"), out);
    }

    /// Registers or ends an observation, as the request says.
    fn observe(&self, pending: &mut PendingRequest, observe: Option<u32>) {
        let (Some(observe), Some(notify)) = (observe, &self.notify) else { return };
        let (Some(peer), Ok(mut all)) = (pending.to.get(), self.observation.lock()) else {
            return;
        };
        // Only GET and FETCH can observe, and only from the first block.
        if !matches!(pending.code, 1 | 5) {
            return;
        }
        if observe == 1 {
            return all.deregister(peer, pending.token());
        }
        let confirmable = pending.kind == Kind::Confirmable;
        if observe == 0 && all.register(peer, *pending, confirmable, clock::now()) {
            pending.shape.observe = Some(self.sequence());
            if all.is_to_change(pending.resource) {
                self.change_later(pending.resource, notify);
            }
        }
    }

    /// Ends the observation of a request that is refused after its registration.
    fn end_observation(&self, pending: &PendingRequest) {
        if pending.shape.observe.is_some()
            && let (Some(peer), Ok(mut all)) = (pending.to.get(), self.observation.lock())
        {
            all.deregister(peer, pending.token());
        }
    }
}
