//! File format: nodes that are machines, with a firmware or a kernel.

use crate::limits::ONE;
use crate::problem::Problem;
use crate::read::{At, Fields, Fixed, Read, Sink};
use crate::tree::{Content, Node};
use schemars::JsonSchema;
use units::{Bytes, Span};

/// A machine that QEMU emulates.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct Qemu {
    /// Architecture as in the name of QEMU's program: `arm` starts `qemu-system-arm`. Default:
    /// `x86_64`.
    pub arch: Option<At<String>>,
    /// QEMU's name of the machine. Default: `virt`; `pc` for `x86_64` and `i386`.
    pub machine: Option<At<String>>,
    /// QEMU's name of the processor. Default: the machine's.
    pub cpu: Option<At<String>>,
    /// Number of processors. Default: 1.
    #[schemars(extend("minimum" = ONE))]
    pub cpus: Option<At<u32>>,
    /// Memory of the machine. Default: 128 MiB.
    pub memory: Option<At<Bytes>>,
    /// Firmware in place of QEMU's own, such as U-Boot. Paths are relative to the experiment file. Values:
    /// path. Default: QEMU's.
    pub bios: Option<At<String>>,
    /// File of the kernel. Values: path.
    pub kernel: Option<At<String>>,
    /// File of the kernel's first file system. Values: path.
    pub initrd: Option<At<String>>,
    /// File of the device tree. Values: path.
    pub dtb: Option<At<String>>,
    /// Command line of the kernel.
    pub append: Option<At<String>>,
    /// File of the disk: qcow2 if it is named so, else raw. The file stays as it is: changes are
    /// lost when the machine ends. Values: path.
    pub disk: Option<At<String>>,
    /// QEMU's name of the network adapter; the machine has one for each network of the node.
    /// Default: `virtio-net-pci`.
    pub nic: Option<At<String>>,
    /// Further arguments of QEMU.
    pub args: Option<Fixed<Vec<At<String>>>>,
}

impl Read for Qemu {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        if let Content::Scalar(_) = node.content {
            let text = format!("expected `qemu`, a map of keys and values, found {}", node.kind());
            let label =
                "write `qemu: {}` for a machine with all defaults, or keys such as `{arch: arm}`";
            sink.add(Problem::new(text).at(node.place).label(label));
            return None;
        }
        let mut fields = Fields::of(node, "`qemu`", sink)?;
        let qemu = Self {
            arch: fields.optional("arch"),
            machine: fields.optional("machine"),
            cpu: fields.optional("cpu"),
            cpus: fields.optional("cpus"),
            memory: fields.optional("memory"),
            bios: fields.optional("bios"),
            kernel: fields.optional("kernel"),
            initrd: fields.optional("initrd"),
            dtb: fields.optional("dtb"),
            append: fields.optional("append"),
            disk: fields.optional("disk"),
            nic: fields.optional("nic"),
            args: fields.optional("args"),
        };
        fields.finish();
        Some(qemu)
    }
}

/// A step on a machine's console: it waits, then enters a text.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct ConsoleStep {
    /// Text that the machine must print first, after that of the step before.
    pub wait: Option<At<String>>,
    /// Time to let pass then.
    pub pause: Option<At<Span>>,
    /// Time to let pass in addition for each node of the group before this one, so that the nodes of
    /// a group do the step one after the other. Default: 0 s.
    pub stagger: Option<At<Span>>,
    /// Line to enter.
    pub send: Option<At<String>>,
    /// Keys to press: the text as it is, such as `"\x02"` for Ctrl-B.
    pub keys: Option<At<String>>,
    /// Time after which to press the keys again, until the machine prints the text of the next
    /// step.
    pub every: Option<At<Span>>,
}

impl Read for ConsoleStep {
    fn read(node: &Node, sink: &mut Sink) -> Option<Self> {
        let mut fields = Fields::of(node, "a step on a console", sink)?;
        let step = Self {
            wait: fields.optional("wait"),
            pause: fields.optional("pause"),
            stagger: fields.optional("stagger"),
            send: fields.optional("send"),
            keys: fields.optional("keys"),
            every: fields.optional("every"),
        };
        fields.finish();
        let texts = [&step.wait, &step.send, &step.keys];
        let has_text = texts.iter().any(|text| text.is_some());
        let has_time = step.pause.is_some() || step.stagger.is_some();
        if !has_text && !has_time && sink.is_clean() {
            let problem =
                Problem::new("a step on a console needs `wait`, `pause`, `send` or `keys`");
            sink.add(problem.at(node.place).label("write for example `{wait: login, send: root}`"));
        }
        Some(step)
    }
}
