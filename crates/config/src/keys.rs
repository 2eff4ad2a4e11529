//! What is told of keys, and those that every function's table may have.

/// A key of a function's table.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Its name, units last.
    pub name: &'static str,
    /// What values are allowed.
    pub allowed: &'static str,
    /// What holds when it is absent; "required" where it must not be.
    pub default: &'static str,
    /// What it does, in a line.
    pub help: &'static str,
}

/// Keys that the engine reads in every function's table.
pub const COMMON_KEYS: &[Key] = &[
    Key {
        name: "function",
        allowed: "the name of a function",
        default: "the table's name",
        help: "which function the instance is",
    },
    Key {
        name: "device",
        allowed: "cpu | auto | cuda:N | opencl:N | host",
        default: "cpu",
        help: "where it runs, if it has kernels; auto: the first GPU, or the CPU",
    },
    Key {
        name: "stage",
        allowed: "fused | own",
        default: "fused",
        help: "own: it has its own queue, apart from its neighbours on the same device",
    },
    Key {
        name: "launch_batches",
        allowed: "1 to 64",
        default: "1",
        help: "batches that go through it together; takes stage = \"own\"",
    },
    Key {
        name: "launch_kib",
        allowed: "1 to 65536",
        default: "1024",
        help: "on a device: KiB of frames that a launch has at most",
    },
    Key {
        name: "launch_delay_us",
        allowed: "0 to 10000000",
        default: "100",
        help: "on a device: microseconds that a packet waits at most for its launch to fill",
    },
    Key {
        name: "launch_timeout_ms",
        allowed: "1 to 600000",
        default: "2000",
        help: "on a device: milliseconds after which a launch, and the device, is given up",
    },
    Key {
        name: "streams",
        allowed: "1 to 64 | auto",
        default: "4",
        help: "on a device: launches under way at once, by lane; auto: up to 8, as measured",
    },
    Key {
        name: "sync",
        allowed: "true | false",
        default: "false",
        help: "on a device: the lane waits for each launch, as systems without streams do",
    },
    Key {
        name: "graphs",
        allowed: "true | false",
        default: "false",
        help: "on CUDA from 12.0 on: each launch is given to the device as one graph",
    },
    Key {
        name: "in_place",
        allowed: "true | false",
        default: "true",
        help: "false: a device that shares the host's memory copies, as one that doesn't (to try)",
    },
];
